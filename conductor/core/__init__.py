"""The pure core: bytes in, effects out.

    jsonrpc     frame <-> message, error codes, strict UTF-8
    depth, surrogates, members
                what frames may hold that parsers do not like; objects opened one level deep
    topology    roles, sides, ports; routing is an involution over ports
    dialects    the generations of the proxy protocol as a table; opens envelopes
    writer      writes messages in a dialect
    link        ids, what waits for whom, batch slots
    peer        what is known of one peer and of its two sides (lanes)
    effects     what the router asks the outside world to do

    router      Router: frames in, effects out; notifications
    requests    accepted, opened, sent on, cancelled
    answers     matched to their requests
    refusals    what never became a request
    exchange    sending, answering, withdrawing: what all of these do
    services    what proxies may ask of the conductor itself
    ledger, flows, alike
                what components change, for an audit
    endings, oversize
                peers that are gone, frames that no transport takes

    initialize  roles; versions and offer hold the rules of version and `_meta` handshake
    detection   which dialect a proxy speaks
    launching   dialect `scp`: successors that proxies launch themselves

Imports the standard library and msgspec only, and never the rest of the package.
"""

from conductor.core.dialects import CHANNEL, DIALECTS, Dialect
from conductor.core.effects import (
    Changed,
    Closure,
    Effect,
    Fail,
    Listen,
    Note,
    Owned,
    Reopen,
    Send,
    Serve,
    Trace,
    Violated,
    Wake,
)
from conductor.core.peer import Component
from conductor.core.router import UPSTREAM, Router
from conductor.core.service_table import SERVICES

__all__ = [
    "CHANNEL",
    "DIALECTS",
    "SERVICES",
    "UPSTREAM",
    "Changed",
    "Closure",
    "Component",
    "Dialect",
    "Effect",
    "Fail",
    "Listen",
    "Note",
    "Owned",
    "Reopen",
    "Router",
    "Send",
    "Serve",
    "Trace",
    "Violated",
    "Wake",
]
