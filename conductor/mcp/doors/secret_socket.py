"""The socket that stdio shims connect to, and how a shim is started."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
from typing import Final

from conductor.transports.private import MCP, Folder

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


def socket_for_shims() -> tuple[socket.socket, Folder | None, str]:
    """A listening socket, its private folder (none for TCP) and its address. Raises `OSError`."""
    if hasattr(socket, "AF_UNIX"):
        for parent in (None, "/tmp"):  # noqa: S108 - the folder in it is private
            folder = Folder(MCP, parent)
            if len(os.fsencode(folder.socket)) <= _LONGEST_PATH:
                try:
                    return _bound(socket.AF_UNIX, folder.socket), folder, folder.socket
                except OSError:
                    folder.remove()
                    raise
            folder.remove()
    listener = _bound(socket.AF_INET, ("127.0.0.1", 0))
    return listener, None, str(listener.getsockname()[1])


def _bound(family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def shut_down(fd: int) -> None:
    """Ends a connection of which another descriptor may still be open."""
    with contextlib.suppress(OSError), socket.socket(fileno=fd) as connection:
        connection.shutdown(socket.SHUT_RDWR)
