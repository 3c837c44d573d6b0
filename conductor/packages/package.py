"""The component in a fetched package: which file it is, and the spec that conductor makes of it.

Nothing of it runs. A package is a file (`.wasm`, `.py`), or a folder with one component in it.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from conductor.errors import UsageError
from conductor.packages.archive import refused
from conductor.packages.sources import Fetched
from conductor.spec import catalog
from conductor.spec.model import Spec
from conductor.spec.paths import MANIFEST
from conductor.spec.programs import is_version
from conductor.spec.python_guest import scripts

_DEEPEST: Final = 8
"""The most nested folders that hold only another folder."""


class Package(msgspec.Struct, frozen=True):
    """A component in a private folder, not installed yet."""

    root: str
    """The folder of all its files."""
    file: str
    """The file that runs, below the root; empty: the root itself."""
    fetched: Fetched
    spec: Spec
    """Its spec, under the name that it gives itself."""

    @property
    def called(self) -> str:
        """The name in its manifest; empty: it has none."""
        return self.spec.manifest.name if self.spec.manifest is not None else ""

    @property
    def release(self) -> str:
        """Its version, if it or its source names a version that is one word."""
        manifest = self.spec.manifest
        version = (manifest.version if manifest is not None else "") or self.fetched.version
        return version if is_version(version) else ""


def read(fetched: Fetched) -> Package:
    """The component of a fetched package. Raises `UsageError` unless there is exactly one."""
    if os.path.isdir(fetched.place):
        root = _root(fetched.place)
        file = _runs(root)
    else:
        root, file = os.path.split(fetched.place)
    try:
        spec = catalog.at(os.path.join(root, file) if file else root)
    except UsageError as error:
        raise UsageError(_within(error.text, root), _within(error.hint, root)) from None
    return Package(root, file, fetched, spec)


def _within(text: str, root: str) -> str:
    """A text of an error with paths as they are in the package: the private folder says nothing."""
    for folder in (os.path.realpath(root), root):
        text = text.replace(f"{folder}/", "").replace(folder, "the package")
    return text


def _root(folder: str) -> str:
    """The folder itself, or the only folder in it: archives often have such a folder."""
    for _ in range(_DEEPEST):
        names = os.listdir(folder)
        inner = os.path.join(folder, names[0]) if len(names) == 1 else ""
        if not inner or not os.path.isdir(inner):
            break
        folder = inner
    return folder


def _runs(root: str) -> str:
    """The file of a folder that runs, below the folder; empty: the folder."""
    if os.path.isfile(os.path.join(root, MANIFEST)):
        return ""
    modules = sorted(name for name in os.listdir(root) if name.endswith(".wasm"))
    is_python = scripts.main_of(root) is not None
    if is_python and not modules:
        return ""
    if len(modules) == 1 and not is_python:
        return modules[0]
    if modules:
        raise refused(
            f"it holds several components and no {MANIFEST}",
            f"a {MANIFEST} in it says which `file` runs (docs/proxies.md#install-components)",
        )
    raise refused(
        f"there is no component in it: no {MANIFEST}, no `.wasm` and no `proxy.py`",
        "of a repository with several, name the folder of one: `#subdirectory=FOLDER`",
    )
