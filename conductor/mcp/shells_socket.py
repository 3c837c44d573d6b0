"""The socket that stdio shims connect to, and how a shim is started."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import time
from typing import Final

_PREFIX: Final = "conductor-mcp-"
_SOCKET: Final = "socket"
_FRESH: Final = 60.0
"""Seconds a folder is left alone although nobody listens in it."""

_LONGEST_PATH: Final = 100
"""Bytes of a Unix socket's path that every system takes."""
_BACKLOG: Final = 128


def command() -> list[str]:
    """How the shim is started: `conductor mcp`, by absolute path, from wherever it is installed.

    Agents run elsewhere and need not have it on their PATH.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "conductor")
    for program in (os.path.abspath(sys.argv[0]), beside, shutil.which("conductor")):
        if program and os.path.basename(program) == "conductor" and _runs(program):
            return [program, "mcp"]
    return [sys.executable, "-I", os.path.join(os.path.dirname(__file__), "shim.py")]


def _runs(program: str) -> bool:
    return os.path.isfile(program) and os.access(program, os.X_OK)


def socket_for_shims() -> tuple[socket.socket, str, str]:
    """A listening socket, its private folder (none for TCP) and its address. Raises `OSError`."""
    if hasattr(socket, "AF_UNIX"):
        for parent in (None, "/tmp"):  # noqa: S108 - mkdtemp's folder in it is private
            _sweep(parent or tempfile.gettempdir())
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)  # mode 0700
            path = os.path.join(folder, _SOCKET)
            if len(os.fsencode(path)) <= _LONGEST_PATH:
                return _bound(socket.AF_UNIX, path, folder), folder, path
            os.rmdir(folder)
    listener = _bound(socket.AF_INET, ("127.0.0.1", 0), "")
    return listener, "", str(listener.getsockname()[1])


def _sweep(parent: str) -> None:
    """Removes folders that conductors which were killed have left: nobody listens in them."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            found = entry.stat(follow_symlinks=False)
            # One that is just being made is not listened to either.
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > _FRESH:
                _remove_dead(entry.path)


def _remove_dead(folder: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.path.join(folder, _SOCKET))
        except ConnectionRefusedError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            return  # nothing we know; whoever made it may want it


def _bound(
    family: socket.AddressFamily, address: str | tuple[str, int], folder: str
) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return listener


def shut_down(fd: int) -> None:
    """Ends a connection of which another descriptor may still be open."""
    with contextlib.suppress(OSError), socket.socket(fileno=fd) as connection:
        connection.shutdown(socket.SHUT_RDWR)
