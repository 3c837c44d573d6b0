"""Paths that nobody but the administrator can change: the file, and every folder and link to it."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from conductor.spec import managed

_MOST_LINKS: Final = 40


class UnguardedError(Exception):
    """Others can change what a path leads to: `place` is where, `why` says how."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"`{place}` {why}")


def real(path: str) -> str:
    """The absolute `path` without links.

    Each step is examined as the kernel takes it, so no link of a user's is on the way. Raises
    `UnguardedError`, or `OSError` where there is no such file.
    """
    if "\0" in path or not os.path.isabs(path):
        raise OSError(errno.EINVAL, "is no absolute path", path)
    here = os.sep
    _examine(here, os.lstat(here))
    waiting = path.split(os.sep)[::-1]
    links = 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        place = os.path.join(here, part)
        status = os.lstat(place)
        _examine(place, status)
        if not stat.S_ISLNK(status.st_mode):
            here = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(place)
        here = os.sep if os.path.isabs(target) else here
        waiting += target.split(os.sep)[::-1]
    return here


def _examine(place: str, status: os.stat_result) -> None:
    if status.st_uid not in managed.OWNERS:
        raise UnguardedError(place, f"belongs to user {status.st_uid}, not to the administrator")
    if stat.S_ISLNK(status.st_mode):
        return  # its mode means nothing: who may write in its folder may replace it
    # In a sticky folder, such as /tmp, nobody replaces what belongs to others.
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        mode = stat.S_IMODE(status.st_mode)
        raise UnguardedError(place, f"may be written by others (mode {mode:04o})")
