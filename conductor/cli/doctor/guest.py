"""`conductor doctor` about the Python guest: is it there, whole, compiled, can it be built."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from pathlib import Path

from conductor.cli.doctor.finding import Check
from conductor.spec import paths
from conductor.spec.python_guest import scripts

NAME = "python guest"


def check(cache: str | None) -> Check:
    """The finding. `cache`: the folder of compiled modules; None: the user's."""
    found = scripts.built_guest()
    toolchain = _toolchain()
    if found is None:
        if toolchain:
            return Check(NAME, True, f"built when first used, by {toolchain}; some 10 s")
        hint = f"sandboxed `.py` proxies do not work: `{scripts.INSTALL}`, or install the wheel"
        return Check(NAME, False, "not there, and componentize-py, which builds it, neither", hint)
    path, digest = found
    try:
        actual = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        return Check(NAME, False, f"{error.strerror}: {path}", "remove it; it is built again")
    if actual != digest:
        hint = f"remove {path}; it is built again" if toolchain else "install conductor again"
        return Check(NAME, False, f"{path}: sha256 {actual}, expected {digest}", hint)
    here = os.path.dirname(path) == paths.python_guests()
    parts = [
        f"built here: {path}" if here else f"came along: {os.path.basename(path)}",
        f"sha256 {digest[:16]}…",
        "compiled" if _compiled(cache, digest) else "compiled when first used, some seconds",
        f"can be rebuilt by {toolchain}" if toolchain else "cannot be rebuilt: no componentize-py",
    ]
    return Check(NAME, True, ", ".join(parts))


def _toolchain() -> str:
    try:
        return f"componentize-py {importlib.metadata.version('componentize-py')}"
    except importlib.metadata.PackageNotFoundError:
        return ""


def _compiled(cache: str | None, digest: str) -> bool:
    folder = Path(cache or paths.compiled_modules())
    if not folder.is_dir():
        return False
    from wasm_host import Limits
    from wasm_host.cache.store import Cache
    from wasm_host.engine import engine_identity

    return Cache(folder, engine_identity(Limits(**scripts.LIMITS))).holds(digest)
