"""`conductor join PATH`: carries a proxy's successor traffic to the conductor that started it.

An `scp` proxy launches its successor itself: it launches this command. Bytes from standard input
go to the Unix socket, bytes from the socket to standard output, unchanged, until either end is
done. `conductor.transports.socket` is the other end.

Standard library only: the proxy waits for this command to start.
"""

from __future__ import annotations

import os
import socket
import threading

from conductor.cli import report

HELP = "Carry a proxy's successor traffic. Proxies start this themselves."
WORDS = ("PATH", "The conductor's socket.")

TOKEN_VARIABLE = "CONDUCTOR_JOIN_TOKEN"  # noqa: S105 - the variable's name, not a secret
_CHUNK = 256 * 1024
_BY_HAND = "proxies start this command themselves; you need not run it"


def main(arguments: list[str]) -> int:
    """Joins the socket at the path in `arguments`; 1 if the conductor refuses it, else 0."""
    (path,) = arguments
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        report.error(f"{TOKEN_VARIABLE} is not set", _BY_HAND)
        return 1
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
        connection.sendall(token.encode() + b"\n")
    except OSError as error:
        report.error(
            f"cannot join the conductor at `{path}`: {error.strerror or error}",
            f"check that the conductor is running; {_BY_HAND}",
        )
        return 1
    return _pump(connection, path)


def _pump(connection: socket.socket, path: str) -> int:
    """Copies both directions until the socket ends. A thread feeds the socket."""
    input_ended = threading.Event()
    threading.Thread(
        target=_feed, args=(connection, input_ended), name="join-input", daemon=True
    ).start()
    received = False
    while True:
        try:
            data = connection.recv(_CHUNK)
        except OSError:  # a refusal may reset the connection
            data = b""
        if not data:
            break
        received = True
        if not _write_all(data):
            return 0  # nobody reads the output: the proxy is done with its successor
    if received or input_ended.is_set():
        return 0
    report.error(
        f"the conductor at `{path}` closed the connection without an answer",
        f"either {TOKEN_VARIABLE} is not the token that this conductor has given, or this "
        "conductor was ending",
    )
    return 1


def _feed(connection: socket.socket, ended: threading.Event) -> None:
    """Copies standard input to the socket, and shuts that direction down at the end."""
    try:
        while data := os.read(0, _CHUNK):
            connection.sendall(data)
        ended.set()
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the socket is gone, and `_pump` sees it too


def _write_all(data: bytes) -> bool:
    """Writes everything to standard output; False when nobody reads it."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(1, view) :]
    except OSError:
        return False
    return True
