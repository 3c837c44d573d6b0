"""The pure core: bytes in, effects out.

    jsonrpc     frame <-> message, error codes, strict UTF-8, depth limit
    topology    roles, sides, ports; routing is an involution over ports
    dialects    the generations of the proxy protocol as a table
    versions    which ACP version a chain speaks
    offer       the `_meta` handshake of the older dialects
    link        ids, what waits for whom, batch slots
    peer        what is known of one peer
    initialize  role requests, dialect detection
    router      Router: the one path every message takes
    effects     what the router asks the outside world to do

Imports the standard library and msgspec only, and never the rest of the package.
"""

from conductor.core.dialects import CHANNEL, DIALECTS, Dialect
from conductor.core.effects import (
    Closure,
    Effect,
    Fail,
    Listen,
    Note,
    Reopen,
    Send,
    Serve,
    Trace,
)
from conductor.core.peer import Component
from conductor.core.router import SERVICES, UPSTREAM, Router

__all__ = [
    "CHANNEL",
    "DIALECTS",
    "SERVICES",
    "UPSTREAM",
    "Closure",
    "Component",
    "Dialect",
    "Effect",
    "Fail",
    "Listen",
    "Note",
    "Reopen",
    "Router",
    "Send",
    "Serve",
    "Trace",
]
