"""Keeps the cache of compiled modules bounded: what nobody has used for long goes first.

A file that is removed stays whole for whoever has it open, and whoever finds it gone compiles it
again; so any number of processes may use one cache while another prunes it. When an entry was last
used says the time of change of its note, or its own (`used`).
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 512 * 1024 * 1024
"""Bytes of compiled modules that are kept, whenever they were used."""

UNUSED_SECONDS = 30 * 24 * 3600
"""How long an entry is kept that nobody uses."""

RECENT_SECONDS = 2 * 3600
"""An entry used within this time is never removed for want of room."""

NOTED_SECONDS = RECENT_SECONDS // 2
"""Use is noted so often: less often than that, and an entry in steady use would look unused."""

_SUFFIX = ".cwasm"


class Entry(NamedTuple):
    """A compiled module: its file, how large it is, and when it was last used (Unix time)."""

    path: Path
    size: int
    at: float


def used(path: Path, now: float | None = None) -> None:
    """Remember that an entry is in use; once an hour will do."""
    now = time.time() if now is None else now
    noted = _note(path)
    # The time of a noted entry itself is part of what says that it is unchanged.
    one = noted if _stat(noted) is not None else path
    held = _stat(one)
    if held is not None and now - held.st_mtime > NOTED_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(one, (now, now))


def entries(folder: Path) -> list[Entry]:
    """All entries, the one used last first; none where there is no folder."""
    found = []
    with contextlib.suppress(OSError):
        for path in folder.glob(f"*{_SUFFIX}"):
            held, note = _stat(path), _stat(_note(path))
            if held is not None:
                at = max(held.st_mtime, note.st_mtime if note is not None else 0)
                found.append(Entry(path, held.st_size, at))
    return sorted(found, key=lambda one: (-one.at, one.path.name))


def prune(
    folder: Path,
    *,
    most: int = MOST_BYTES,
    unused: float = UNUSED_SECONDS,
    recent: float = RECENT_SECONDS,
    now: float | None = None,
) -> list[Entry]:
    """Remove what was not used for `unused` seconds, and the oldest beyond `most` bytes.

    What was used within `recent` seconds stays. Returns what was removed.
    """
    now = time.time() if now is None else now
    removed, kept = [], 0
    for entry in entries(folder):
        age = now - entry.at
        if age > recent and (age > unused or kept + entry.size > most):
            removed.append(entry)
        else:
            kept += entry.size
    gone = [entry for entry in removed if _remove(entry)]
    _tidy(folder, now)
    return gone


def _remove(entry: Entry) -> bool:
    try:
        entry.path.unlink()
    except OSError:
        return False
    key = entry.path.name.partition("-")[0]
    for beside in (_note(entry.path), entry.path.with_name(f"{key}.json")):
        with contextlib.suppress(OSError):
            beside.unlink()
    return True


def _tidy(folder: Path, now: float) -> None:
    """Removes what processes left behind that were killed while they wrote."""
    with contextlib.suppress(OSError):
        for path in (*folder.glob(".new-*"), *folder.glob(".*.lock")):
            held = _stat(path)
            if held is not None and now - held.st_mtime > 24 * 3600:
                with contextlib.suppress(OSError):
                    path.unlink()


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.seen")


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
