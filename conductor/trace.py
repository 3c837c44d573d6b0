"""Writes what passes through a chain to a file, one JSON object a line (`--trace FILE`).

The lines are events as the reference conductor writes them, so its viewer shows them
(`docs/cli.md`, "Traces"): `type` (request, response, notification), `ts` (seconds since the trace
began), `protocol`, `from`, `to`, `id`, `method`, `session`, `params` or `payload`, `is_error`,
`error_domain`. What is ours stands under `_conductor`. An `id` is unique in its file, since the
viewer pairs by receiver and id; the one the asker used is `_conductor.id`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from conductor.core import UPSTREAM, Trace, members
from conductor.core.launching import successor_name
from conductor.guest_spec import Hop
from conductor.redaction import redacted
from conductor.trace_file import TraceFile

_KINDS: Final = frozenset({"request", "response", "notification"})
_ENDS: Final = frozenset({"client", "agent"})
"""The names the viewer puts first and last: what is before the chain and what is behind it."""

_CARRIERS: Final = frozenset({"mcp/message", "_mcp/message", "_mcp/request", "_mcp/notification"})
"""Methods that carry a message of MCP; it is shown in their place."""

_Key = tuple[str, str, str | None]
"""Who asked whom, by the names in the file, and under which id."""

_LATE: Final = 1.0
"""Seconds by which a child's report may be older than its arrival to be dated by it."""


class _Carried(msgspec.Struct):
    method: str
    params: bytes
    numbered: bool
    """Whether it names a `requestId`, as stateless MCP does."""


class _Error(msgspec.Struct):
    code: int


class _Open(msgspec.Struct, gc=False):
    """A request whose answer has not passed yet."""

    number: int
    method: str
    session: bytes | None
    at: float
    mcp: bool
    wrapped: bool
    """Whether the answer holds MCP's own result or error as a member."""


_error = msgspec.json.Decoder(_Error)
_hop = msgspec.json.Decoder(Hop)
_text = msgspec.json.Decoder(str)
_id = msgspec.json.Decoder(int | str | None)
_encode = msgspec.json.Encoder().encode


class Tracer:
    """Turns messages into events; `content` is `redacted`, `all` or `none` (sizes only)."""

    def __init__(
        self,
        file: TraceFile,
        content: str = "redacted",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._content = content
        self._clock = clock
        self._start = clock()
        self._last = 0.0
        self._number = 0
        self._names: dict[str, tuple[str, str]] = {UPSTREAM: ("client", "agent")}
        self._guests: dict[str, frozenset[str]] = {}
        self._agent = ""
        self._open: dict[_Key, _Open] = {}

    def begin(self, chain: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Names the chain's peers in order, each with the guests it hosts, if it is a host."""
        for name, guests in chain:
            inside = [_proxy(one) for one in guests] or [_proxy(name)]
            self._names[name] = self._names[successor_name(name)] = inside[0], inside[-1]
            self._guests[name] = frozenset(guests)
            self._agent = name

    def crossed(self, trace: Trace, mode: str) -> None:
        """Writes a message that crossed between two peers of the router, which is in `mode`."""
        source = self._name(trace.source, trace.source_side, mode)
        target = self._name(trace.target, trace.target_side, mode)
        self._write(trace, source, target, self._now())

    def hop(self, segment: str, params: bytes) -> None:
        """Writes a message between two guests, as the child that hosts them reported it.

        Raises `ValueError` for a report of anything else: a child is not trusted.
        """
        hop, payload = _read_hop(params)
        if not {hop.source, hop.target} <= self._guests[segment] or hop.kind not in _KINDS:
            raise ValueError(f"not a message between guests of {segment}")
        at = self._now(hop.at - self._start)
        trace = Trace(hop.kind, hop.source, hop.target, hop.id, hop.method, payload, hop.is_error)
        self._write(trace, _proxy(hop.source), _proxy(hop.target), at, hop.size)

    def close(self) -> None:
        """Writes what is left."""
        self._file.close()

    # -- inside ------------------------------------------------------------------------------

    def _name(self, peer: str, side: str, mode: str) -> str:
        if mode == "agent" and peer == self._agent:
            return "agent"
        return self._names[peer][side == "s"]

    def _now(self, reported: float | None = None) -> float:
        """Seconds since the start; never less than the event before, as readers expect."""
        now = self._clock() - self._start
        if reported is not None and now - _LATE < reported < now:
            now = reported
        self._last = max(now, self._last)
        return self._last

    def _write(
        self, trace: Trace, source: str, target: str, at: float, size: int | None = None
    ) -> None:
        if self._file.failed:
            return
        if size is None:
            size = len(trace.payload or b"")
        head = f'{{"type":"{trace.kind}","ts":{at:.6f},'.encode()
        ends = b'"from":%b,"to":%b,' % (_encode(source), _encode(target))
        if trace.kind == "response":
            asked = self._asked(trace, (target, source, trace.id), at)
            parts = self._response(trace, asked, ends, at, size)
        else:
            parts = self._call(trace, (source, target, trace.id), ends, at, size)
        self._file.write(b"".join((head, *parts, b"}}\n")))

    def _call(self, trace: Trace, key: _Key, ends: bytes, at: float, size: int) -> list[bytes]:
        """A request or notification, without its head."""
        method, params = trace.method or "", trace.payload or b"null"
        carried = _carried_by(method, params)
        own = b'"_conductor":{"bytes":%d' % size
        if carried is not None:
            own += b',"carrier":' + _encode(method)
            method, params = carried.method, carried.params
        session = _session_of(trace.payload)
        parts = [b'"protocol":"mcp",' if carried is not None else b'"protocol":"acp",', ends]
        if trace.kind == "request":
            self._number += 1
            self._open[key] = _Open(
                number=self._number,
                method=method,
                session=session,
                at=at,
                mcp=carried is not None,
                wrapped=carried is not None and carried.numbered,
            )
            parts.append(b'"id":%d,' % self._number)
            own += b',"id":' + (trace.id or "null").encode()
        parts.append(b'"method":%b,' % _encode(method))
        if session is not None:
            parts.append(b'"session":%b,' % session)
        parts += [b'"params":', self._shown(params, method), b",", own]
        return parts

    def _asked(self, trace: Trace, key: _Key, at: float) -> _Open:
        """The request a response answers."""
        asked = self._open.pop(key, None)
        if asked is None:  # a child's report that makes no sense
            self._number += 1
            asked = _Open(self._number, trace.method or "", None, at, mcp=False, wrapped=False)
        return asked

    def _response(
        self, trace: Trace, asked: _Open, ends: bytes, at: float, size: int
    ) -> list[bytes]:
        """A response, without its head."""
        payload, domain = trace.payload or b"null", "acp" if trace.is_error else None
        if asked.wrapped and domain is None:
            payload, domain = _unwrapped(payload)
        session = asked.session
        if session is None and domain is None:
            session = _session_of(payload)
        own = b'"_conductor":{"bytes":%d,"id":%b,"method":%b,"ms":%.3f' % (
            size,
            (trace.id or "null").encode(),
            _encode(asked.method),
            (at - asked.at) * 1000,
        )
        if asked.mcp:
            own += b',"protocol":"mcp"'
        if session is not None:
            own += b',"session":' + session
        if domain is not None:
            own += _code(payload)
        parts = [ends, b'"id":%d,' % asked.number]
        if domain is None:
            parts.append(b'"is_error":false,')
        else:
            parts.append(b'"is_error":true,"error_domain":%b,' % _encode(domain))
        parts += [b'"payload":', self._shown(payload, None), b",", own]
        return parts

    def _shown(self, payload: bytes, method: str | None) -> bytes:
        if self._content == "none":
            return b"null"
        if self._content == "redacted":
            payload = redacted(payload, method)
        # Outside of strings a newline is only space, and inside of them there is none.
        return payload.replace(b"\n", b" ") if b"\n" in payload else payload


def _read_hop(params: bytes) -> tuple[Hop, bytes | None]:
    """A child's report and the payload it holds. Raises `ValueError`."""
    held = members.read(params)
    if held is None:
        raise ValueError("it is no object")
    payload = held.pop("payload", None)
    try:
        hop = _hop.decode(members.write(held))
        if hop.id is not None and (_id.decode(hop.id) is None or "\n" in hop.id):
            raise ValueError("its id is none")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    return hop, None if payload is None else bytes(payload)


def _proxy(name: str) -> str:
    """How a proxy is called; never as the ends of the chain are."""
    return f"{name} (proxy)" if name in _ENDS else name


def _session_of(payload: bytes | None) -> bytes | None:
    """The session a payload names, as raw JSON."""
    if payload is None or b'"sessionId"' not in payload:
        return None
    raw = bytes((members.read(payload) or {}).get("sessionId", b""))
    return raw if raw[:1] == b'"' else None


def _carried_by(method: str, params: bytes) -> _Carried | None:
    """The message of MCP that `method` carries."""
    if method not in _CARRIERS:
        return None
    held = members.read(params) or {}
    try:
        inner = _text.decode(held.get("method", b"null"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # it is shown as it is
    return _Carried(inner, bytes(held.get("params", b"null")), "requestId" in held)


def _unwrapped(payload: bytes) -> tuple[bytes, str | None]:
    """The outcome of MCP in an answer that carries one, and whose error it is."""
    held = members.read(payload) or {}
    if "result" in held:
        return bytes(held["result"]), None
    if "error" in held:
        return bytes(held["error"]), "mcp"
    return payload, None


def _code(error: bytes) -> bytes:
    """The member `code` of an error object, for traces without content."""
    try:
        return b',"code":%d' % _error.decode(error).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
