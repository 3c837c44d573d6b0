"""What is kept on this machine to save work: compiled modules, and Python guests built here.

Both are made again when they are needed. Compiled modules are pruned whenever one is added
(`wasm_host.cache.pruning`), guests whenever one is built (`guest_sdk/python/build.py`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from conductor.spec import paths
from conductor.spec.python_guest import scripts
from wasm_host.cache import pruning

MODULES: Final = "modules"
GUESTS: Final = "guests"


class Kept(msgspec.Struct, frozen=True):
    """One folder: how many files of use it holds, and their bytes."""

    kind: str
    folder: str
    files: int
    bytes: int


class Pruned(msgspec.Struct, frozen=True):
    """What was removed."""

    files: int
    bytes: int


def kept(cache: str | None = None) -> list[Kept]:
    """What there is. `cache`: the folder of compiled modules; None: the user's."""
    modules = Path(cache or paths.compiled_modules())
    sizes = [one.size for one in pruning.entries(modules)]
    built = [one.size for one in _guests()]
    return [
        Kept(MODULES, str(modules), len(sizes), sum(sizes)),
        Kept(GUESTS, paths.python_guests(), len(built), sum(built)),
    ]


def prune(cache: str | None = None, *, everything: bool = False) -> Pruned:
    """Removes what was not used for long, or all of it. Safe while conductors run.

    A conductor that runs has what it needs in memory; one that starts makes it again.
    """
    modules = Path(cache or paths.compiled_modules())
    if everything:
        gone = pruning.prune(modules, most=0, unused=-1, recent=-1)
    else:
        gone = pruning.prune(modules)
    gone += [one for one in _guests() if (everything or _is_old(one)) and _remove(one.path)]
    return Pruned(len(gone), sum(one.size for one in gone))


def _guests() -> Iterator[pruning.Entry]:
    """Python guests that were built here."""
    for path in sorted(Path(paths.python_guests()).glob("python-*.wasm")):
        with contextlib.suppress(OSError):
            found = path.stat()
            yield pruning.Entry(path, found.st_size, found.st_mtime)


def _is_old(one: pruning.Entry) -> bool:
    unused = time.time() - one.at > pruning.UNUSED_SECONDS
    return unused and one.path.stem != scripts.guest_name()


def _remove(path: Path) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        os.unlink(path.with_suffix(".sha256"))
    return True
