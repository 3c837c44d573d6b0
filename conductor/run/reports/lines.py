"""What the child that hosts guests tells its parent, as lines: see `conductor.run.reports`."""

from __future__ import annotations

import time

import msgspec

from conductor.core import Closure, OwnedAddresses, Serve, Trace, Violated
from conductor.core.json_text import too_deep
from conductor.core.jsonrpc import MAX_DEPTH
from conductor.core.services import READY, RELAYED, TRACED
from conductor.run.segment_spec import Hop, Recovered, Relayed


def failed_line(reason: Closure) -> bytes:
    """How a segment tells its parent why it is about to end (a notification on side `c`)."""
    body = msgspec.json.encode(
        {
            "jsonrpc": "2.0",
            "method": "failed",
            "params": {"text": reason.text, "hint": reason.hint, "data": reason.data},
        }
    )
    return b"c" + body + b"\n"


def ready_line(digests: dict[str, str]) -> bytes:
    """How a segment tells its parent that every guest is loaded (a notification on side `c`)."""
    return report(READY, {"digests": digests})


def relayed_line(effect: Serve) -> bytes:
    """How a segment asks its parent for a service (on side `c`; the token is the id)."""
    params = msgspec.Raw(effect.params) if effect.params is not None else msgspec.Raw(b"{}")
    asked = Relayed(effect.peer, effect.service, params)
    body: dict[str, object] = {"jsonrpc": "2.0", "method": RELAYED, "params": asked}
    if effect.token is not None:
        body["id"] = effect.token
    return b"c" + msgspec.json.encode(body) + b"\n"


def hop_line(trace: Trace, limit: int) -> bytes:
    """How a segment tells its parent of a message of a guest (a notification on side `c`).

    The payload is left out where it would make the line longer than `limit` bytes or too deep.
    """
    payload = trace.payload
    hop = Hop(
        kind=trace.kind,
        source=trace.source,
        target=trace.target,
        at=time.monotonic(),
        size=len(payload or b""),
        number=trace.number,
        id=trace.id,
        method=trace.method,
        is_error=trace.is_error,
        request=trace.request,
        passes=trace.passes,
        past=trace.past,
        own=trace.own,
        lost=trace.lost,
    )
    line = report(TRACED, hop)
    if payload is None or len(line) + len(payload) + 32 > limit or too_deep(payload, MAX_DEPTH - 2):
        return line
    return report(TRACED, msgspec.structs.replace(hop, payload=msgspec.Raw(payload)))


def report(
    method: str, params: Hop | OwnedAddresses | Violated | Recovered | dict[str, object]
) -> bytes:
    """A notification on side `c`."""
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    return b"c" + msgspec.json.encode(body) + b"\n"
