"""The files that runs leave behind in folders of the user, and when they are removed.

A kind of files has one rule: a most of files, of bytes, and an age; the newest stay. A file of a
run that goes on is never removed: the run holds it (`conductor.spec.private_files.hold`).

A folder is opened once, and its files are looked at and removed by name in it, so no link leads out
of it. The start path loads this module. Errors are `OSError`s with a text in `strerror`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from conductor.spec import private_files

MIB: Final = 1024 * 1024
DAY: Final = 24 * 3600.0

FORMER: Final = ".1"
"""The ending that a full file's name gets: it is removed with the file that took its place."""

_MOST_AT_ONCE: Final = 500
"""Files that one `prune` removes: a run that starts must not wait for ten thousand."""
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Rule(msgspec.Struct, frozen=True):
    """How much of a kind of files stays."""

    suffix: str
    """The ending of the names of such files; other files are left alone."""
    most: int
    """The most files."""
    size: int
    """The most bytes of all files together."""
    age: float
    """Seconds since a file was last written."""


LOGS: Final = Rule(".log", 20, 100 * MIB, 30 * DAY)
RINGS: Final = Rule(".jsonl", 20, 100 * MIB, 30 * DAY)


class Kept(msgspec.Struct, frozen=True):
    """A file that is there: its name, its bytes, and when it was last written (Unix time)."""

    name: str
    size: int
    changed: float


def prepare(folder: str) -> None:
    """Makes a folder of ours if need be. Raises `OSError` if the folder is not the user's alone."""
    if not os.path.isabs(folder):
        raise OSError(errno.ENOENT, "there is no home folder")
    private_files.make_folders(folder)
    with _opened(folder):
        pass


def files(folder: str, suffix: str) -> list[Kept]:
    """The files of a kind, the newest first. Raises `OSError`."""
    with _opened(folder) as fd:
        return _files(fd, suffix)


def prune(folder: str, rule: Rule) -> list[Kept]:
    """Removes the files beyond the rule, the oldest first; returns them. Raises `OSError`."""
    with _opened(folder) as fd:
        return _remove(fd, list(_beyond(_files(fd, rule.suffix), rule))[-_MOST_AT_ONCE:])


def remove(folder: str, kept: Iterable[Kept]) -> list[Kept]:
    """Removes these files, except files in use; returns the removed ones. Raises `OSError`."""
    with _opened(folder) as fd:
        return _remove(fd, list(kept))


def _beyond(found: Iterable[Kept], rule: Rule) -> Iterator[Kept]:
    """The files beyond the rule; `found` has the newest first."""
    found, yesterday = list(found), time.time() - DAY
    # Ages count from an earlier day than today: a clock that is wrong for a day makes nothing old.
    other_day = max((one.changed for one in found if one.changed < yesterday), default=0.0)
    oldest, size = other_day - rule.age, 0
    for at, one in enumerate(found):
        size += one.size
        if at >= rule.most or size > rule.size or one.changed < oldest:
            yield one


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    """A folder of ours. Raises `OSError` for a link, and where others could have put things."""
    try:
        fd = os.open(folder, _READ | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise NotADirectoryError(errno.ENOTDIR, "it is no folder", folder) from None
    try:
        why = private_files.not_ours(os.fstat(fd))
        if why:
            raise PermissionError(errno.EPERM, f"it {why}", folder)
        yield fd
    finally:
        os.close(fd)


def _files(folder: int, suffix: str) -> list[Kept]:
    sizes: dict[str, tuple[int, float]] = {}
    with os.scandir(folder) as found:
        for one in found:
            if one.name.endswith((suffix, suffix + FORMER)):
                # Another run may remove the file meanwhile. An entry that is no file is not ours.
                with contextlib.suppress(FileNotFoundError):
                    status = one.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        sizes[one.name] = status.st_size, status.st_mtime
    kept = [
        Kept(name, size + sizes.get(name + FORMER, (0, 0.0))[0], changed)
        for name, (size, changed) in sizes.items()
        if name.endswith(suffix)
    ]
    return sorted(kept, key=lambda one: (one.changed, one.name), reverse=True)


def _remove(folder: int, kept: Sequence[Kept]) -> list[Kept]:
    gone = []
    for one in reversed(kept):
        with contextlib.suppress(OSError):
            fd = os.open(one.name, _READ, dir_fd=folder)
            try:
                private_files.hold(fd, alone=True)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(one.name + FORMER, dir_fd=folder)
                os.unlink(one.name, dir_fd=folder)
                gone.append(one)
            finally:
                os.close(fd)
    return gone
