"""Every limit of a connection over HTTP.

`conductor.transports.entrance` adds the limits for connections that have not shown a secret.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CONNECTIONS: Final = 256
"""Connections that have shown a secret. A further connection closes the one that has been idle
longest; if none is idle, the further one gets 503."""

HEAD_BYTES: Final = 16 * 1024
HEADERS: Final = 100
"""Headers of one request."""

RATE: Final = 256 * 1024
"""Bytes of a body for which a client has a second more."""

LINGER_BYTES: Final = 256 * 1024
"""How much of the rest of a body is thrown away that nobody takes: a client that still sends would
not read its answer otherwise."""

SHUTDOWN_SECONDS: Final = 2.0
"""For responses to be written when the server ends."""

AHEAD: Final = 64 * 1024
"""Bytes of a body that have come and that nobody has taken; beyond them a connection waits."""


class Patience(NamedTuple):
    """Seconds that a client has."""

    head: float = 10.0
    """For the head of a request, from the connection's start or the head's first byte."""
    body: float = 30.0
    """For the body of a request, from the end of its head; see `RATE`."""
    idle: float = 75.0
    """Between two requests."""
    linger: float = 2.0
    """For the rest of a body that nobody takes."""
    leave: float = 10.0
    """For the last output to leave a connection that ends."""


PATIENCE: Final = Patience()
"""The times of a server on this machine."""
