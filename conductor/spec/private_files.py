"""Files that only the user may read and write: changed as a whole, by one conductor at a time, or
written as they grow.

Errors are `OSError`s with a text in `strerror`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from typing import Final

from conductor.errors import ConductorError, UsageError, visible_path
from conductor.spec import guarded

_WAIT: Final = 30.0
"""Seconds that another conductor may hold a file: it changes something small, on a busy machine."""
WAIT_IN_CHAIN: Final = 1.0
"""The same for a chain that runs: its messages, or its end, wait meanwhile."""

HINT: Final = "give a path in a folder that exists and that you may write to"


def refuse_what_others_write(path: str) -> None:
    """Raises `OSError` for a file that another user may have written, or put there.

    The file, its folder, and every folder and link on the way belong to root or the user. Into the
    file and its folder nobody else may write; above them a group may: some users share theirs with
    nobody.
    """
    os.lstat(path)  # a missing file is not refused
    try:
        place = guarded.own(os.path.join(os.getcwd(), path), stat.S_IWOTH)
    except guarded.UnguardedError as error:
        raise OSError(errno.EPERM, f"{error}: other users could write it", path) from None
    for each in (place, os.path.dirname(place)):
        if os.lstat(each).st_mode & guarded.OTHERS:
            raise OSError(errno.EPERM, f"`{each}` can be written by other users", path)


def not_ours(status: os.stat_result, others: int = guarded.OTHERS) -> str:
    """Why another user may have written a file or folder; empty: it is the user's own.

    `others` are the permissions that nobody else may have. The permissions of a link say nothing.
    """
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if not stat.S_ISLNK(status.st_mode) and status.st_mode & others:
        return "can be written by other users"
    return ""


def need_folder(path: str) -> None:
    """Makes the folder of a file whose place the user has chosen. A folder that is there may be a
    project, or the user's home: it stays as it is."""
    make_folders(os.path.dirname(os.path.abspath(path)))


def make_folders(folder: str) -> None:
    """Makes a folder, and the missing folders above it. With any umask, nobody else may write in
    the new folders, nor enter them."""
    if folder and not os.path.isdir(folder):
        make_folders(os.path.dirname(folder))
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:  # another conductor has just made it
            if not os.path.isdir(folder):
                raise


def make_folder(path: str) -> None:
    """Makes the folder of a file that is new, so that nobody else may write there."""
    folder = os.path.dirname(path)
    make_folders(folder)
    if not os.path.lexists(path):  # an existing file may be a stranger's, and reading refuses it
        os.chmod(folder, 0o700)


def hold(fd: int, *, alone: bool = False) -> None:
    """Holds an open file or folder until it is closed; `alone`, as nobody else does.

    Raises `BlockingIOError` where others hold it, `OSError` on a file system without locks.
    """
    import fcntl

    fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)


@contextlib.contextmanager
def alone(path: str, wait: float | None = None) -> Iterator[None]:
    """Holds a lock file; raises `BlockingIOError` where another conductor holds it for long.
    `wait`: for how many seconds; None: as long as whoever asks may wait."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        wait = wait or (WAIT_IN_CHAIN if _in_loop() else _WAIT)
        until = time.monotonic() + wait
        while True:
            try:
                hold(fd, alone=True)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    why = "another conductor holds it"
                    raise BlockingIOError(error.errno, why, path) from None
                time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def _in_loop() -> bool:
    """Whether this thread runs an event loop."""
    asyncio = sys.modules.get("asyncio")  # a process that has not loaded asyncio runs no loop
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def replace(path: str, content: bytes, *, mode: int = 0o600) -> None:
    """Puts content in the place of a file, whole or not at all. Raises `OSError`.

    Args:
        mode: The permissions of a new file, less the umask: 0o666 for a file of a project.
    """
    fresh = f"{path}.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(fresh, flags, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError:  # a full disk gets back the space that this took
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def write_new(path: str, content: bytes) -> None:
    """Writes a file that a user names with `--output`, for this user alone. The file must be new,
    and is written whole or not at all. Raises `ConductorError`."""
    shown = f"`{visible_path(path)}`"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
    except FileExistsError:
        hint = "name another file with --output, or delete it"
        raise UsageError(f"{shown} is there already", hint) from None
    except (OSError, ValueError) as error:
        hint = "name another file with --output"
        raise ConductorError(f"cannot write {shown}: {reason(error)}", hint) from None


def settle(folder: str) -> None:
    """Waits until renames and removals in a folder are on disk as well."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# -- files that a user names, and files that grow: never at the price of a chain -------------------

_OPEN: Final = ("/dev/", "/proc/self/fd/")
"""Folders whose links name open files, such as `/dev/stdout`: they are followed."""


def open_private(path: str, flags: int, *, ordinary: bool = False) -> int:
    """A descriptor of a file of the user's own that only they may read; `flags` as for `os.open`.

    A link is not followed, and the file of another user neither changed nor emptied: in a folder
    that others may write to, somebody could have put it there. A pipe or a device is taken as it
    is, unless the file must be an `ordinary` one. A file to be emptied is held until it is closed:
    two writers would destroy each other's content.

    Raises `OSError`, or `ValueError` for a path that can be none.
    """
    # Not blocking: a pipe that nobody reads must hold up neither the start nor the chain.
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    if not os.path.abspath(path).startswith(_OPEN):
        flags |= os.O_NOFOLLOW
    empty = flags & os.O_TRUNC
    try:
        fd = os.open(path, flags & ~os.O_TRUNC | os.O_CREAT, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", path) from None
        raise
    try:
        status = os.fstat(fd)
        refuse_what_is_not_ours(status, path, ordinary=ordinary)
        if stat.S_ISREG(status.st_mode):
            os.fchmod(fd, 0o600)
        if empty and stat.S_ISREG(status.st_mode):
            _hold_alone(fd, path)
            os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _hold_alone(fd: int, path: str) -> None:
    try:
        hold(fd, alone=True)
    except BlockingIOError as error:
        raise OSError(error.errno, "another conductor is writing it", path) from None
    except OSError:
        return  # a file system without locks


def refuse_what_is_not_ours(status: os.stat_result, path: str, *, ordinary: bool) -> None:
    """Raises `OSError` for a file that `open_private` does not take."""
    if not stat.S_ISREG(status.st_mode):
        if ordinary:
            raise OSError(errno.EINVAL, "it is no ordinary file", path)
    elif status.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it belongs to another user", path)


def reason(error: Exception) -> str:
    """Why a file cannot be used, for people."""
    return getattr(error, "strerror", None) or str(error)
