"""Compiles what each message passes through with mypyc, for a wheel of one Python and platform.

It takes a C compiler, mypy and setuptools; the build hook (`scripts/hatch_build.py`) calls it where
`COMPILE_CORE` is set. A module comes compiled beside its source, and Python prefers it.
"""

from __future__ import annotations

import os
import shutil
from typing import Final

REQUIRED: Final = ["mypy>=2.4,<3", "setuptools>=70", "msgspec>=0.20"]

MODULES: Final = (
    *("jsonrpc", "writer", "state", "topology", "exchange", "requests", "dispatch"),
    *("policy/entries", "policy/headings", "policy/held_requests", "policy/notifications"),
    *("policy/observers", "policy/ordering", "policy/policy_state", "policy/requests"),
    *("policy/states", "policy/turns"),
)
"""Of `conductor/core`. Nearly every message passes through them. A message through four guests then
costs 38 % fewer instructions; with seven more modules (checks, changes, the router) it is 40 %.

A compiled class has no annotations, and takes no subclass that is not compiled. So structs of
msgspec stand in modules that are not listed here."""

# The package's `__init__` has a client import nearly everything: that need not be read.
_SETTINGS: Final = """[mypy]
strict_bytes = true
explicit_package_bases = true
mypy_path = {stubs}
cache_dir = {cache}
[mypy-conductor.*]
follow_imports = skip
[mypy-conductor.core.*]
follow_imports = normal
[mypy-conductor.errors]
follow_imports = normal
"""


def build(root: str, folder: str) -> dict[str, str]:
    """Compiles the modules of the checkout `root`; `folder` is emptied first, and holds what is
    made. Returns the path in the wheel by the path of each file."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    shutil.rmtree(folder, ignore_errors=True)
    settings, made = os.path.join(folder, "mypy.ini"), os.path.join(folder, "lib")
    stubs = _truthful_stubs(os.path.join(folder, "stubs"))
    with open(settings, "w", encoding="utf-8") as file:
        file.write(_SETTINGS.format(stubs=stubs, cache=os.path.join(folder, "cache")))
    before = os.getcwd()
    os.chdir(root)  # mypy finds modules from here
    try:
        extensions = mypycify(
            [f"--config-file={settings}", *(f"conductor/core/{name}.py" for name in MODULES)],
            # -O2 compiles a third longer and gains 1 %.
            opt_level=os.environ.get("CONDUCTOR_OPT", "1"),
            debug_level="0",
            target_dir=os.path.join(folder, "c"),
            group_name="conductor_core",
        )
        command = build_ext(Distribution({"name": "conductor-core", "ext_modules": extensions}))
        command.build_lib, command.build_temp = made, os.path.join(folder, "temp")
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    files = [os.path.join(at, name) for at, _, names in os.walk(made) for name in names]
    return {file: os.path.relpath(file, made).replace(os.sep, "/") for file in files}


def _truthful_stubs(folder: str) -> str:
    """The stubs of msgspec, with a `Raw` that is no `bytes`, as it is none when the program runs:
    where mypyc believes that it is, the compiled code fails."""
    import msgspec

    source = os.path.dirname(msgspec.__file__)
    target = os.path.join(folder, "msgspec")
    os.makedirs(target)
    for name in os.listdir(source):
        if name.endswith(".pyi"):
            shutil.copy(os.path.join(source, name), target)
    stub = os.path.join(target, "__init__.pyi")
    with open(stub, encoding="utf-8") as file:
        text = file.read()
    if "class Raw(bytes):" not in text:
        raise SystemExit("the stub of msgspec has no `class Raw(bytes)` any more: look at it")
    with open(stub, "w", encoding="utf-8") as file:
        file.write(text.replace("class Raw(bytes):", "class Raw(Buffer):"))
    return folder
