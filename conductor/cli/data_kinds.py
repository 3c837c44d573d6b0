"""The files that conductor keeps on this machine, by kinds: place, size, and what may be deleted.

Only folders and files of conductor's own are read, none through a link. The module that writes a
kind also reads it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from conductor.errors import ConductorError, UsageError
from conductor.fleet.bundle_cache import BundleCache
from conductor.services import kept_values
from conductor.spec import paths, private_files, retention
from wasm_host.cache import store

_MOST_FILES: Final = 200_000
"""Files of a folder that are counted."""


class Item(NamedTuple):
    """Something that is kept."""

    name: str
    size: int
    """Bytes."""
    used: float
    """The last time when it was written or used (Unix time)."""
    component: str = ""
    """The component that a value belongs to."""
    project: str = ""


class Kind(NamedTuple):
    """A kind of files that conductor keeps."""

    name: str
    what: str
    place: Callable[[], str]
    rule: str
    """Which of them conductor leaves, in words."""
    found: Callable[[str], list[Item]]
    """The items at a place. Raises `OSError`, `sqlite3.Error`."""
    removed: Callable[[str, Sequence[Item]], int] | None = None
    """Removes some items; returns their number. None: another command removes them."""
    instead: str = ""
    """The command that removes them."""


def _files(rule: retention.Rule) -> Callable[[str], list[Item]]:
    def found(folder: str) -> list[Item]:
        if not os.path.lexists(folder):
            return []
        kept = retention.files(folder, rule.suffix)
        return [Item(one.name, one.size, one.changed) for one in kept]

    return found


def _remove_files(folder: str, items: Sequence[Item]) -> int:
    return len(retention.remove(folder, [retention.Kept(*one[:3]) for one in items]))


def _values(path: str) -> list[Item]:
    return [
        Item(one.space, one.size, one.used, one.component, one.project)
        for one in kept_values.spaces(path)
    ]


def _remove_values(path: str, items: Sequence[Item]) -> int:
    kept_values.delete(path, [one.name for one in items])
    return len(items)


def _tree(folder: str) -> list[Item]:
    """All files below a folder, as one item a file."""
    _refuse_link(folder)
    found: list[Item] = []
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(place, name))
            except FileNotFoundError:
                continue
            found.append(Item(name, status.st_size, status.st_mtime))
            if len(found) == _MOST_FILES:
                return found
    return found


def _file(path: str) -> list[Item]:
    _refuse_link(path)
    if not os.path.exists(path):
        return []
    status = os.lstat(path)
    return [Item(os.path.basename(path), status.st_size, status.st_mtime)]


def _refuse_link(path: str) -> None:
    """Raises `OSError` for a place that leads elsewhere, or is another user's."""
    if os.path.lexists(path):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            raise OSError("it is a link")
        why = private_files.not_ours(status)
        if why:
            raise OSError(f"it {why}")


def _ruled(rule: retention.Rule) -> str:
    days = round(rule.age / retention.DAY)
    return f"the newest {rule.most} of {days} days, {rule.size // retention.MIB} MiB at most"


def _modules(folder: str) -> list[Item]:
    _refuse_link(folder)
    return [Item(one.path.name, one.size, one.used_at) for one in store.entries(Path(folder))]


def _remove_modules(folder: str, items: Sequence[Item]) -> int:
    # Also modules used just now: a process that has one open goes on with it.
    now, ever = max(one.used for one in items), -1e-6
    return len(store.prune(Path(folder), most=sys.maxsize, unused=ever, recent=ever, now=now))


def _guests(folder: str) -> list[Item]:
    _refuse_link(folder)
    found = []
    for path in sorted(Path(folder).glob("python-*.wasm")):
        with contextlib.suppress(OSError):  # another conductor may remove it meanwhile
            status = path.stat()
            found.append(Item(path.name, status.st_size, status.st_mtime))
    return found


def _remove_guests(folder: str, items: Sequence[Item]) -> int:
    number = 0
    for one in items:
        path = Path(folder, one.name)
        with contextlib.suppress(OSError):
            path.unlink()
            number += 1
            path.with_suffix(".sha256").unlink()
    return number


def _bundles(folder: str) -> list[Item]:
    return [Item(one.name, one.size, one.used) for one in BundleCache(folder).kept()]


def _remove_bundles(folder: str, items: Sequence[Item]) -> int:
    age = time.time() - max(one.used for one in items) - 0.001
    return len(BundleCache(folder).prune(unused=age))


_AGAIN: Final = "conductor makes it again when it needs it"

KINDS: Final = (
    Kind(
        "modules", "compiled modules", paths.compiled_modules,
        f"modules used within a month, 512 MiB at most; {_AGAIN}", _modules, _remove_modules,
    ),
    Kind(
        "guests", "Python guests that were built here", paths.python_guests,
        f"guests used within a month; {_AGAIN}", _guests, _remove_guests,
    ),
    Kind(
        "bundles", "bundles of a fleet", paths.bundles,
        "bundles that a worker uses, or has used within a month", _bundles, _remove_bundles,
    ),
    Kind(
        "logs", "log files of chains", paths.logs, _ruled(retention.LOGS),
        _files(retention.LOGS), _remove_files,
    ),
    Kind(
        "rings", "the last messages of chains that failed", paths.rings, _ruled(retention.RINGS),
        _files(retention.RINGS), _remove_files,
    ),
    Kind(
        "values", "values that components keep (kv), by component and project", paths.values,
        "values used in the last 180 days (`keep-values`), 256 MiB at most",
        _values, _remove_values,
    ),
    Kind(
        "components", "files of installed components", paths.installed,
        "files of installed components and of running chains", _tree, None, "conductor remove NAME",
    ),
    Kind(
        "trust", "your trust and consent", paths.trust, "all", _file, None,
        "conductor trust --remove",
    ),
    Kind(
        "editors", "the changes of `conductor setup`", paths.editors, "all", _tree, None,
        "conductor setup EDITOR --remove",
    ),
)  # fmt: skip


def named(name: str) -> Kind:
    """A kind of which something may be deleted. Raises `UsageError`."""
    for kind in KINDS:
        if kind.name == name:
            if kind.removed is None:
                raise UsageError(
                    f"`conductor doctor` does not delete {kind.what}", f"`{kind.instead}` does"
                )
            return kind
    names = ", ".join(kind.name for kind in KINDS if kind.removed is not None)
    raise UsageError(f"nothing that is kept is called `{name}`", f"it is one of: {names}")


def failed(kind: Kind, error: OSError | sqlite3.Error) -> ConductorError:
    """The error for a kind that cannot be read or deleted."""
    place = kind.place()
    hint = f"see to `{place}`: it must be yours, and no link"
    if isinstance(error, sqlite3.Error):
        hint = f"`conductor doctor --clean {kind.name} --damaged` removes the whole file"
        if "locked" in str(error):
            hint = "a chain is writing there; try again"
    return ConductorError(f"{kind.what}: {place}: {private_files.reason(error)}", hint)
