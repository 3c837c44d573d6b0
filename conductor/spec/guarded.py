"""Paths that nobody but their owners can change: the file, and every folder and link to it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection
from typing import Final

_MOST_LINKS: Final = 40
OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
"""Permissions to write of all others than the owner."""


class UnguardedError(Exception):
    """Others can change the file behind a path: `place` is where, `why` says how."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"`{place}` {why}")


def own(path: str, others: int = OTHERS) -> str:
    """The absolute `path` without links, which only this user and root can change.

    A sticky folder may stand on the way, but nothing else: anybody may put something into it.
    `others` are the permissions that nobody else may have. Raises `UnguardedError`, or `OSError`
    where there is no such file.
    """
    place = real(path, {0, os.geteuid()}, others)
    status = os.stat(place)
    if stat.S_ISDIR(status.st_mode):
        refuse_others(place, status, others)
    return place


def refuse_changeable(path: str) -> None:
    """Raises `UnguardedError` if another user can change the file behind a path, `OSError` for a
    link that leads nowhere.

    Of a path that is not there yet its existing folders count. A group may write: some users
    share their group with nobody.
    """
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    own(path, stat.S_IWOTH)


def real(path: str, owners: Collection[int], others: int = OTHERS) -> str:
    """The absolute `path` without links, which only the users `owners` can change.

    Each step is examined as the kernel takes it, so no link of somebody else is on the way.
    `others` are the permissions that nobody else may have. Raises `UnguardedError`, or `OSError`
    where there is no such file.
    """
    if "\0" in path or not os.path.isabs(path):
        raise OSError(errno.EINVAL, "is no absolute path", path)
    here = os.sep
    _examine(here, os.lstat(here), owners, others)
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
        _examine(place, status, owners, others)
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


def _examine(place: str, status: os.stat_result, owners: Collection[int], others: int) -> None:
    if status.st_uid not in owners:
        raise UnguardedError(place, f"belongs to user {status.st_uid}")
    if stat.S_ISLNK(status.st_mode):
        return  # a link's mode means nothing: the mode of its folder decides who may replace it
    # In a sticky folder, such as /tmp, nobody replaces files of others.
    if not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
        refuse_others(place, status, others)


def refuse_others(place: str, status: os.stat_result, others: int = OTHERS) -> None:
    """Raises `UnguardedError` for a file or a folder that others than its owner may write."""
    if status.st_mode & others:
        mode = stat.S_IMODE(status.st_mode)
        raise UnguardedError(place, f"may be written by others (mode {mode:04o})")
