"""Writes hops as events, one JSON object a line, as the reference conductor writes them.

So its viewer shows them (docs/cli.md, "Traces"): `type` (request, response, notification), `ts`
(seconds since the trace began), `protocol`, `from`, `to`, `id`, `method`, `session`, `params` or
`payload`, `is_error`, `error_domain`. Our own members stand under `_conductor`. An `id` is unique
in its file, since the viewer pairs by receiver and id; the sender's own id is
`_conductor.id`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import defaultdict
from typing import Final

import msgspec

from conductor.core import Trace, Violated, json_text
from conductor.core.json_text import read_members, too_many_values
from conductor.record.redaction import (
    MOST_VALUES,
    clean_id,
    clean_name,
    clean_text,
    redacted,
)
from conductor.record.trace.hops import Crossings, Departure
from conductor.record.trace.sinks import Sink

_MCP_CARRIERS: Final = frozenset(
    {"mcp/message", "_mcp/message", "_mcp/request", "_mcp/notification"}
)
"""Methods that carry a message of MCP; the trace shows that in their place."""

_LONGEST: Final = 200
"""Characters of a session in a verdict."""
_KEPT: Final = 64 * 1024
"""Bytes of a payload that are kept until its request is answered, at most."""
_ROOM: Final = 1024
"""Bytes that a request without an answer takes besides its payload, roughly."""
_MOST_OPEN: Final = 256 * 1024 * 1024
"""Bytes of the requests without an answer that one host may report, or that one component may have
at the conductor. Of more the answers are left out."""

_SHORT: Final = 0.05
"""Milliseconds on the way that are not worth a member."""

_Key = int | tuple[str, str | None]
"""Of a request: its number; for a request to a service, which has none, its sender and id."""


class _PendingRequest(msgspec.Struct, gc=False):
    """A request without an answer so far."""

    number: int
    """Its `id` in the file."""
    departure: Departure
    target: str
    """Its receiver, by its name in the trace."""
    method: str
    session: bytes | None
    at: float
    mcp: bool
    wrapped: bool
    """Whether the answer holds MCP's own result or error as a member."""
    outside: float = 0.0
    """Seconds that the components further down had it …"""
    since: float | None = None
    """… and since when they have it now; None: they do not have it."""
    by: str | None = None
    """The host that reported it, or who asks the conductor; None: the router bounds them."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return _ROOM + self.departure.size


class _McpMessage(msgspec.Struct):
    """A message of MCP within another."""

    method: str
    params: bytes
    numbered: bool
    """Whether it names a `requestId`, as stateless MCP does."""


class _Error(msgspec.Struct):
    code: int


_error = json_text.Decoder(_Error)
_text = json_text.Decoder(str)
_encode = json_text.encode
_any = json_text.Decoder().decode
_sorted = json_text.encode_sorted


class EventWriter:
    """Writes events; `content` is `redacted`, `all` or `none` (sizes only)."""

    def __init__(self, file: Sink, content: str, crossings: Crossings) -> None:
        self._file = file
        self._content = content
        self._crossings = crossings
        self._key = os.urandom(16)
        """Of digests of what is left out: without it nobody can try which secret has a digest."""
        self._number = 0
        self._pending: dict[_Key, _PendingRequest] = {}
        self._open: defaultdict[str | None, int] = defaultdict(int)
        """Bytes of these, by `_PendingRequest.by`."""

    def write(
        self,
        trace: Trace,
        departure: Departure,
        target: str,
        at: float,
        size: int | None = None,
        host: str | None = None,
    ) -> None:
        """Writes a hop to `target`, by its name in the trace.

        Args:
            trace: the message when it was last seen.
            departure: the message when it was seen before.
            size: bytes of the payload; needed if `trace` no longer has it.
            host: the host that reported the hop; None if the router saw it.

        Raises `ValueError` if the host reports a response that does not concern its guests.
        """
        if self._file.failed:
            return
        payload = trace.payload if trace.payload is not None else departure.trace.payload
        if payload is not None and (size is None or trace.payload is None):
            size = len(payload)
        digest = b""
        if payload is not None and too_many_values(payload, MOST_VALUES):
            # To look for secrets in it would hold up the chain.
            digest, payload = b"" if self._content == "none" else _digest(payload), None
        if payload is not trace.payload:
            trace = msgspec.structs.replace(trace, payload=payload)
        if trace.kind == "response":
            request = self._answered(trace, host)
            if request is None:
                return
            if trace.lost:
                self._crossings.put_back(request.departure, trace.request)
            parts = self._response(trace, departure, request, at, size or 0)
        else:
            parts = self._call(trace, departure, target, at, size or 0, host)
        head = f'{{"type":"{trace.kind}","ts":{at:.6f},'.encode()
        self._file.write(b"".join((head, *parts, digest, b"}}\n")))

    def verdict(self, violation: Violated, component: str, at: float) -> None:
        """Writes that `component` broke a rule of its policy."""
        verdict = {
            "component": component,
            "rule": violation.rule,
            "direction": violation.direction,
            "method": clean_name(violation.method),
            "pointer": clean_text(violation.pointer),
            "text": clean_text(violation.text),
        }
        if violation.session is not None:
            verdict["session"] = clean_name(violation.session[:_LONGEST])
        if self._content == "none":
            del verdict["pointer"], verdict["text"]
        self._write_about("verdict", verdict, at)

    def happened(self, event: str, component: str, text: str, at: float) -> None:
        """Writes what has happened to `component`: `restart`, `pause` …, and words for it."""
        happened = {"event": event, "component": component, "text": clean_text(text)}
        if self._content == "none":
            del happened["text"]  # a component may have written it
        self._write_about("happened", happened, at)

    def _write_about(self, name: str, value: dict[str, str], at: float) -> None:
        """Writes a line that is no event."""
        line = b'{"type":"_conductor","ts":%.6f,"%b":%b}\n' % (at, name.encode(), _encode(value))
        self._file.write(line)

    def _call(
        self,
        trace: Trace,
        departure: Departure,
        target: str,
        at: float,
        size: int,
        host: str | None,
    ) -> list[bytes]:
        """A request or notification, without its head."""
        method, params = trace.method or "", trace.payload or b"null"
        mcp = _mcp_message(method, params)
        own = b'"_conductor":{"bytes":%d' % size
        if mcp is not None:
            own += b',"carrier":' + self._name(method)
            method, params = mcp.method, mcp.params
        session = self._session_of(trace.payload)
        parts = [b'"protocol":"mcp",' if mcp is not None else b'"protocol":"acp",']
        parts.append(b'"from":%b,"to":%b,' % (_encode(departure.source), _encode(target)))
        passes = departure.trace.passes
        if trace.kind == "request":
            self._number += 1
            request = _PendingRequest(
                number=self._number,
                departure=_light(departure),
                target=target,
                method=method,
                session=session,
                at=at,
                mcp=mcp is not None,
                wrapped=mcp is not None and mcp.numbered,
                by=host if trace.number else departure.source,
            )
            self._begin(_key(trace), request)
            if (passed_on := self._pending.get(passes)) is not None:
                passed_on.since = departure.left
            parts.append(b'"id":%d,' % self._number)
            own += b',"id":' + self._id(departure.trace)
        own += _numbers(n=trace.number, of=trace.request, passes=passes) + _way(departure, at)
        if departure.trace.own or trace.own:
            own += b',"by":"conductor"'
        parts.append(b'"method":%b,' % self._name(method))
        if session is not None:
            parts.append(b'"session":%b,' % session)
        return [*parts, b'"params":', *self._shown(params, method, own)]

    def _begin(self, key: _Key, request: _PendingRequest) -> None:
        """A request waits for its answer."""
        self._end(key)
        if request.by is None or self._open[request.by] < _MOST_OPEN:
            self._pending[key] = request
            self._open[request.by] += request.size

    def _end(self, key: _Key) -> _PendingRequest | None:
        request = self._pending.pop(key, None)
        if request is not None:
            self._open[request.by] -= request.size
        return request

    def _answered(self, trace: Trace, host: str | None) -> _PendingRequest | None:
        """Removes the pending request that a response answers. Raises `ValueError`; see `write`."""
        key = trace.request or _key(trace)
        request = self._pending.get(key)
        # A child is not trusted: it might claim answers to requests that never went to it.
        if host is not None and (request is None or host not in request.departure.hosts):
            raise ValueError("it answers no request to or from its guests")
        return self._end(key)

    def _response(
        self, trace: Trace, departure: Departure, request: _PendingRequest, at: float, size: int
    ) -> list[bytes]:
        """A response, without its head."""
        payload, domain = trace.payload or b"null", "acp" if trace.is_error else None
        if request.wrapped and domain is None:
            payload, domain = _unwrapped(payload)
        session = request.session
        if session is None and domain is None:
            session = self._session_of(payload)
        inside = self._seconds_inside(request, departure.left, at)
        own = b'"_conductor":{"bytes":%d,"id":%b%b,"method":%b,"ms":%.3f,"ms_in":%.3f' % (
            size,
            self._id(request.departure.trace),
            _numbers(n=trace.number, of=trace.request, passes=departure.trace.passes),
            self._name(request.method),
            (at - request.at) * 1000,
            inside * 1000,
        )
        own += _way(departure, at)
        if departure.trace.past or trace.past:
            own += b',"past":true'
        if trace.lost:
            own += b',"lost":true'
        if departure.trace.own or trace.own:
            own += b',"by":"conductor"'
        if request.mcp:
            own += b',"protocol":"mcp"'
        if session is not None:
            own += b',"session":' + session
        if domain is not None:
            own += _code(payload)
        ends = (_encode(request.target), _encode(request.departure.source))
        parts = [b'"from":%b,"to":%b,"id":%d,' % (*ends, request.number)]
        if domain is None:
            parts.append(b'"is_error":false,')
        else:
            parts.append(b'"is_error":true,"error_domain":%b,' % _encode(domain))
        return [*parts, b'"payload":', *self._shown(payload, None, own)]

    def _seconds_inside(self, request: _PendingRequest, left: float, at: float) -> float:
        """Seconds that the component itself had a request whose answer leaves it at `left`, without
        the time further down the chain."""
        passed_on = self._pending.get(request.departure.trace.passes)
        if passed_on is not None and passed_on.since is not None:
            passed_on.outside += max(at - passed_on.since, 0.0)
            passed_on.since = None
        if request.since is not None:  # the components it was passed on to have it still
            left = min(left, request.since)
        return max(left - request.at - request.outside, 0.0)

    def _name(self, method: str) -> bytes:
        """A method as it is written."""
        return _encode(method if self._content == "all" else clean_name(method))

    def _id(self, trace: Trace) -> bytes:
        """The sender's own id, as it is written."""
        raw = (trace.id or "null").encode()
        return raw if self._content == "all" else clean_id(raw)

    def _session_of(self, payload: bytes | None) -> bytes | None:
        """The session that a payload names, as it is written."""
        raw = _session_of(payload)
        return raw if raw is None or self._content == "all" else clean_id(raw)

    def _shown(self, payload: bytes, method: str | None, own: bytes) -> tuple[bytes, ...]:
        """What is written of a payload, and our own members behind it."""
        if self._content == "none":
            return b"null", b",", own
        hidden = b""
        if self._content == "redacted":
            clean = redacted(payload, method)
            if clean != payload and clean != payload.strip():
                hidden = b',"hidden":"%b"' % _value_digest(payload, self._key)
            payload = clean
        # Outside of strings a newline is only space, and inside of them there is none.
        return payload.replace(b"\n", b" ") if b"\n" in payload else payload, b",", own, hidden


def _light(departure: Departure) -> Departure:
    """A departure without its payload, since all pending requests of a chain are in memory. Small
    payloads stay while a host may still take the request back."""
    if departure.hosts and departure.size <= _KEPT:
        return departure
    trace = msgspec.structs.replace(departure.trace, payload=None)
    return msgspec.structs.replace(departure, trace=trace)


def _key(trace: Trace) -> _Key:
    """By what a request waits for its answer."""
    sender = trace.target if trace.kind == "response" else trace.source
    return trace.number or (sender, trace.id)


def _numbers(n: int, of: int, passes: int) -> bytes:
    """Numbers of messages as members; those that are 0 are left out."""
    own = b',"n":%d' % n if n else b""
    if of:
        own += b',"of":%d' % of
    return own + b',"passes":%d' % passes if passes else own


def _way(departure: Departure, at: float) -> bytes:
    """Between its sender and its receiver, in milliseconds: that time is neither's."""
    ms = (at - departure.left) * 1000
    return b',"way":%.3f' % ms if ms >= _SHORT else b""


# -- payloads --------------------------------------------------------------------------------------


def _digest(payload: bytes) -> bytes:
    """The member `sha256`, in place of a payload."""
    return b',"sha256":"%b"' % hashlib.sha256(payload).hexdigest().encode()


def _value_digest(payload: bytes, key: bytes) -> bytes:
    """A digest of the value of a payload: spelling and order of members do not count."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        payload = _sorted(_any(payload))
    return hashlib.blake2b(payload, digest_size=8, key=key).hexdigest().encode()


def _session_of(payload: bytes | None) -> bytes | None:
    """The session that a payload names, as raw JSON."""
    # The search comes first: it spares most payloads from being opened.
    if payload is None or b'"sessionId"' not in payload:
        return None
    raw = bytes((read_members(payload) or {}).get("sessionId", b""))
    return raw if raw[:1] == b'"' else None


def _mcp_message(method: str, params: bytes) -> _McpMessage | None:
    """The message of MCP that `method` carries."""
    if method not in _MCP_CARRIERS:
        return None
    held = read_members(params) or {}
    try:
        inner = _text.decode(held.get("method", b"null"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # it is shown as it is
    return _McpMessage(inner, bytes(held.get("params", b"null")), "requestId" in held)


def _unwrapped(payload: bytes) -> tuple[bytes, str | None]:
    """The outcome of MCP that an answer carries, and the domain of its error."""
    held = read_members(payload) or {}
    if "result" in held:
        return bytes(held["result"]), None
    if "error" in held:
        return bytes(held["error"]), "mcp"
    return payload, None


def _code(error: bytes) -> bytes:
    """The member `code` of an error object: traces without content have nothing else of it."""
    try:
        return b',"code":%d' % _error.decode(error).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
