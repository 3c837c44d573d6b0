"""Private folders for sockets, removed with their process or, if it was killed, by the next one.

A process holds a lock on its folder, which ends with the process, however that ends. So a folder
of ours that can be locked has no owner any more.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from typing import Final

MCP: Final = "conductor-mcp-"
"""The begin of the names of folders in which shims of MCP connect."""
JOIN: Final = "conductor-join-"
"""The same for folders in which successors connect that a proxy launches."""

_SOCKET: Final = "socket"
"""The only file in such a folder."""
_KINDS: Final = (MCP, JOIN)
_PLACES: Final = ("TMPDIR", "TEMP", "TMP")
_OWN: Final = 0o700
_LONGEST_PATH: Final = 100
"""Bytes of a Unix socket's path that every system takes."""
_BACKLOG: Final = 128


class Folder:
    """A folder that only we may enter. `socket` is the path of a socket in it."""

    def __init__(self, kind: str, parent: str | None = None) -> None:
        """`kind`: how its name begins. Raises `OSError`."""
        import tempfile  # 4 ms, which an editor need not wait for

        lock = None
        while lock is None:
            self.path = tempfile.mkdtemp(prefix=kind, dir=parent)
            lock = _held(self.path)
        self._lock: int | None = lock
        self.socket = os.path.join(self.path, _SOCKET)

    def remove(self) -> None:
        """Removes it, with the socket."""
        lock, self._lock = self._lock, None
        if lock is not None:
            _remove(lock, self.path)
            os.close(lock)


def listening_socket(family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    """A socket that listens at `address`. Raises `OSError`."""
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def private_socket(kind: str) -> tuple[socket.socket, Folder]:
    """A listening Unix socket in a new private folder. Raises `OSError`."""
    folder = Folder(kind)
    if len(os.fsencode(folder.socket)) > _LONGEST_PATH:
        folder.remove()
        folder = Folder(kind, "/tmp")  # noqa: S108 - the folder in it is private
    try:
        return listening_socket(socket.AF_UNIX, folder.socket), folder
    except OSError:
        folder.remove()
        raise


def _held(path: str) -> int | None:
    """The lock on a new folder; None where another process has just removed it as left over."""
    try:
        folder = _opened(path)
    except FileNotFoundError:
        return None
    with contextlib.suppress(OSError):  # where there are no locks, nobody can clear away either
        _lock(folder, wait=True)
    if os.path.isdir(path):
        return folder
    os.close(folder)
    return None


def clear() -> None:
    """Removes the folders that killed conductors have left: folders of ours that nobody holds.

    Never raises, follows no link, and leaves folders of other users or of other makers alone.
    """
    places = (os.environ.get(name) for name in _PLACES)
    for place in dict.fromkeys((*filter(None, places), "/tmp")):  # noqa: S108 - nothing is made there
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.name.startswith(_KINDS):
                    _clear(entry.path)


def _clear(path: str) -> None:
    with contextlib.suppress(OSError):
        folder = _opened(path)
        try:
            about = os.fstat(folder)
            ours = about.st_uid == os.getuid() and stat.S_IMODE(about.st_mode) == _OWN
            if ours and _lock(folder, wait=False) and not _answers(folder, path):
                _remove(folder, path)
        finally:
            os.close(folder)


def _opened(path: str) -> int:
    """A descriptor of a folder. Raises `OSError` for anything else, links to folders included."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lock(folder: int, *, wait: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(folder, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _answers(folder: int, path: str) -> bool:
    """Whether a process listens in a folder: a conductor of a version without locks."""
    if _SOCKET not in os.listdir(folder):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.path.join(path, _SOCKET))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True  # no state we know: leave it alone
    return True


def _remove(folder: int, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_SOCKET, dir_fd=folder)
    with contextlib.suppress(OSError):  # somebody put something else in it: that is not ours
        os.rmdir(path)
