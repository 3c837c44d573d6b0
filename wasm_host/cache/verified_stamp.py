"""Notes beside the entries of the compile cache, so that large ones are not read through each time.

A note says what the file system said of an entry when its content was last found right: inode,
size, times of change. Whoever could make a changed file look unchanged could write the note too,
and the cache belongs to us alone.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

LARGE = 4 * 1024 * 1024
"""Bytes from which on an entry is worth a note: smaller ones are read in a few milliseconds."""

_MOST = 1024 * 1024


def unchanged(path: Path, found: os.stat_result) -> bool:
    """Whether a large entry is as it was when its content was last found right."""
    return found.st_size >= LARGE and read(_beside(path)) == _said(found)


def note(path: Path, found: os.stat_result) -> None:
    """Remember that the content of an entry, as `found`, is right; for large ones only."""
    if found.st_size >= LARGE:
        write(_beside(path), _said(found))


def forget(path: Path) -> None:
    """Drop the note of an entry."""
    _beside(path).unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.seen")


def _said(found: os.stat_result) -> str:
    return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def opened(path: Path) -> int:
    """Open what lies in the cache, links and pipes that nobody writes to apart. Raises OSError."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK"):
        flags |= getattr(os, name, 0)
    return os.open(path, flags)


def read(path: Path) -> str | None:
    """A text that `write` has written; `None` if there is none, or anybody else could have."""
    try:
        handle = opened(path)
    except OSError:
        return None
    try:
        found = os.fstat(handle)
        ours = not hasattr(os, "getuid") or (
            found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o600
        )
        if not stat.S_ISREG(found.st_mode) or not ours or found.st_size > _MOST:
            return None
        return os.read(handle, _MOST).decode("utf-8", "replace")
    finally:
        os.close(handle)


def write(path: Path, text: str) -> None:
    """Write a text in one step, mode 0600; nothing happens where that is impossible."""
    import tempfile  # 10 ms, and most runs write nothing

    try:
        # mkstemp makes the file with mode 0600 and refuses to follow or reuse anything.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
