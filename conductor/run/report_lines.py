"""Reports: what the child that hosts guests writes to its parent about them, as lines on side `c`.

No proxy may send them (`conductor.core.services.INTERNAL`). The parent checks each report before it
believes it: `conductor.run.report_checks`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import Changed, Closure, OwnedAddresses, Serve, Trace, Violated
from conductor.core.json_text import too_deep
from conductor.core.jsonrpc import MAX_DEPTH
from conductor.core.services import DELIVERED, LAST_WORDS, READY, RELAYED, TRACED
from conductor.run.segment_spec import TRACE_FIELDS, Hop, Recovered, Relayed

_encode: Final = msgspec.json.Encoder().encode

_CHANGE_ROOM: Final = 8 * 1024
"""Bytes of a report of a change without its payloads, its method and its session."""

_DELIVERY_ROOM: Final = 1024
"""Bytes of a report of a delivery besides the lines in it."""

_LEVELS: Final = 2
"""Levels of nesting that a report puts around a payload."""


class Sized(msgspec.Struct, frozen=True):
    """Digest and size of a payload, in bytes."""

    sha256: str
    bytes: int


class Delivered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one instance received and returned; a large delivery takes several reports."""

    component: str
    number: int
    """Of the delivery, from 1; 0: what the instance returned when it was started."""
    at: float
    """When, by the machine's monotonic clock, in seconds."""
    given: list[str] = []
    said: list[str] = []
    """Whole lines, without newlines; bytes that are no UTF-8 are written with backslashes."""
    left_out: int = 0
    """Lines that were too long to be reported."""
    failed: str = ""
    """Why the delivery was the instance's last."""


def report(
    method: str, params: Hop | OwnedAddresses | Violated | Recovered | dict[str, Any]
) -> bytes:
    """A notification on side `c`."""
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    return b"c" + _encode(body) + b"\n"


def failed_line(reason: Closure) -> bytes:
    """Why the child is about to end."""
    params = {"text": reason.text, "hint": reason.hint, "data": reason.data}
    return report(LAST_WORDS, params)


def ready_line(digests: dict[str, str]) -> bytes:
    """Every guest is loaded; `digests`: of their modules, by guest."""
    return report(READY, {"digests": digests})


def relayed_line(effect: Serve) -> bytes:
    """A guest's call of a service that the parent performs; the token is the id."""
    params = Raw(effect.params) if effect.params is not None else Raw(b"{}")
    relayed = Relayed(effect.peer, effect.service, params)
    body: dict[str, object] = {"jsonrpc": "2.0", "method": RELAYED, "params": relayed}
    if effect.token is not None:
        body["id"] = effect.token
    return b"c" + _encode(body) + b"\n"


def hop_line(trace: Trace, limit: int) -> bytes:
    """A message that a guest sends or receives, for a trace.

    The payload is left out where it would make the line longer than `limit` bytes or too deep.
    """
    payload = trace.payload
    fields = {field: getattr(trace, field) for field in TRACE_FIELDS}
    hop = Hop(**fields, at=time.monotonic(), size=len(payload or b""))
    line = report(TRACED, hop)
    fits = payload is not None and len(line) + len(payload) + 32 <= limit
    if payload is None or not fits or too_deep(payload, MAX_DEPTH - _LEVELS):
        return line
    return report(TRACED, msgspec.structs.replace(hop, payload=Raw(payload)))


def sized(raw: bytes) -> Sized:
    """The digest and size of a payload."""
    import hashlib  # loads OpenSSL; only an audit needs it

    return Sized(hashlib.sha256(raw).hexdigest(), len(raw))


def change_params(changed: Changed, limit: int) -> dict[str, Any]:
    """The params of a report of a change, for an audit.

    A payload that would make the line longer than `limit` bytes, or too deep, is replaced by its
    digest.
    """
    params: dict[str, Any] = {
        "changed": msgspec.structs.replace(changed, before=None, after=None),
    }
    room = limit - _CHANGE_ROOM - len(changed.method) - len(changed.session or "")
    for name, payload in (("before", changed.before), ("after", changed.after)):
        if payload is None:
            continue
        if len(payload) > room // 2 or too_deep(payload, MAX_DEPTH - _LEVELS):
            params[f"{name}_size"] = sized(payload)
        else:
            params[name] = Raw(payload)
    return params


class DeliveryReporter:
    """Reports deliveries, for a trace: `send` takes whole lines, of `limit` bytes at most."""

    def __init__(self, send: Callable[[bytes], None], limit: int) -> None:
        self._send = send
        self._room = max(limit - _DELIVERY_ROOM, 0)
        self._numbers: Counter[str] = Counter()

    def started(self, name: str, returned: bytes) -> None:
        """A guest has been started, or started again."""
        self._numbers[name] = 0
        self._report(name, b"", returned, "")

    def delivered(self, name: str, data: bytes, returned: bytes, failed: str = "") -> None:
        """A guest received lines and returned others; `failed`: why it ended of them."""
        self._numbers[name] += 1
        self._report(name, data, returned, failed)

    def _report(self, name: str, data: bytes, returned: bytes, failed: str) -> None:
        delivered = Delivered(name, self._numbers[name], time.monotonic(), failed=failed)
        parts: dict[str, list[bytes]] = {"given": [], "said": []}
        room, left_out = self._room, 0
        for kind, lines in (("given", text_lines(data)), ("said", text_lines(returned))):
            for line in lines:
                encoded = _encode(line)
                if len(encoded) > self._room:
                    left_out += 1
                    continue
                if len(encoded) + 1 > room:
                    self._write(delivered, parts)
                    parts, room = {"given": [], "said": []}, self._room
                parts[kind].append(encoded)
                room -= len(encoded) + 1
        self._write(msgspec.structs.replace(delivered, left_out=left_out), parts)

    def _write(self, delivered: Delivered, parts: dict[str, list[bytes]]) -> None:
        lists = {kind: Raw(b"[" + b",".join(lines) + b"]") for kind, lines in parts.items()}
        self._send(report(DELIVERED, {**msgspec.to_builtins(delivered), **lists}))


def text_lines(data: bytes) -> Iterable[str]:
    """Lines as text: neither side of a report may believe that a guest's lines are JSON."""
    if not data:
        return ()
    return (
        line.decode("utf-8", "backslashreplace") for line in data.removesuffix(b"\n").split(b"\n")
    )
