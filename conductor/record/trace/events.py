"""Makes events of hops: the lines of a trace (`conductor.record.turns.line.Line`).

An `id` is unique in its trace, since the reference's viewer pairs by receiver and id; the sender's
own id is `_conductor.id`.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections import defaultdict
from typing import Final

import msgspec

from conductor.core import Entry, Violated
from conductor.core.guards.names import KNOWN
from conductor.core.json_text import too_many_values
from conductor.record.trace.hops import CONDUCTOR, Crossings, Departure
from conductor.record.trace.payloads import code_of, mcp_message, texts, unwrapped, value_digest
from conductor.record.trace.services import ServiceCall, called_service, clean_service
from conductor.record.turns.line import Line, Own
from conductor.run.log import session_in
from conductor.spec.redaction import (
    LOGIN,
    MOST_VALUES,
    clean_id,
    clean_name,
    clean_text,
    redacted,
)

_LONGEST: Final = 200
"""Characters of a session in a verdict; the most bytes of a session that is remembered."""
_SMALL: Final = 64 * 1024
"""The most bytes of a payload for which its written form is remembered: most payloads cross a chain
unchanged."""
_REMEMBERED: Final = 4 * 1024 * 1024
"""The most bytes of all remembered payloads; as much may be on its way through a chain at once."""
_SPARE: Final = 200
"""Bytes that is remembered beside a payload."""
_KEPT: Final = 64 * 1024
"""Bytes of a payload that are kept until its request is answered, at most."""
_ROOM: Final = 1024
"""Bytes that a request without an answer takes besides its payload, roughly."""
_MOST_OPEN: Final = 256 * 1024 * 1024
"""The most bytes of the requests without an answer that one host may report. Answers to further
requests are left out."""


class _PendingRequest(msgspec.Struct, gc=False):
    """A request without an answer so far."""

    number: int
    """The request's `id` in the file."""
    departure: Departure
    target: str
    """The request's receiver, by its name in the trace."""
    method: str
    session: str | None
    at: float
    mcp: bool
    wrapped: bool
    """Whether the answer holds MCP's own result or error as a member."""
    by: str | None = None
    """The host that reported it; None: the router bounds them."""
    service: ServiceCall | None = None
    """The call of a service that it is."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return _ROOM + self.departure.size


class _Shown(msgspec.Struct, gc=False):
    """A payload as it is written."""

    text: msgspec.Raw
    hidden: str
    """A digest of the payload, where something was left out of it."""
    session: str | None
    """The session that it names."""


_often: Final = functools.lru_cache(64)(clean_id)
"""For sessions: few are named in many messages."""


class Events:
    """Makes events; `content` is `redacted`, `all` or `none` (sizes only)."""

    def __init__(self, content: str, crossings: Crossings) -> None:
        self._content = content
        self._crossings = crossings
        self._key = os.urandom(16)
        """The key for digests of hidden values: nobody without it can try secrets for a digest."""
        self._memory: dict[bytes, _Shown] = {}
        """The written forms of the last payloads."""
        self._size = 0
        """The bytes that the entries of `_memory` take."""
        self._number = 0
        self._pending: dict[int, _PendingRequest] = {}
        """By number."""
        self._open: defaultdict[str | None, int] = defaultdict(int)
        """Bytes of these, by `_PendingRequest.by`."""

    def hop(
        self,
        entry: Entry,
        departure: Departure,
        target: str,
        at: float,
        host: str | None = None,
    ) -> Line | None:
        """A hop to `target`, by its name in the trace. None: it answers nothing that is known.

        Args:
            entry: the message when it was last seen.
            departure: the message when it was seen before.
            host: the host that reported the hop; None if the router saw it.

        Raises `ValueError` if the host reports a response that does not concern its guests.
        """
        payload = entry.payload if entry.payload is not None else departure.entry.payload
        payload = None if payload is None else bytes(payload)
        size = entry.whole or len(payload or b"")
        digest = ""
        if payload is not None and too_many_values(payload, MOST_VALUES):
            # To look for secrets in it would hold up the chain.
            digest = "" if self._content == "none" else hashlib.sha256(payload).hexdigest()
            payload = None
        line = Line(type=entry.kind, ts=at)
        line.own = own = Own(
            bytes=size, n=entry.number, of=entry.request, passes=departure.entry.passes,
            lost=entry.lost, by=CONDUCTOR if departure.entry.own or entry.own else "",
            sha256=digest,
        )  # fmt: skip
        if departure.left < at:
            own.way = _milliseconds(at - departure.left)
        if entry.kind == "response":
            request = self._answered(entry, host)
            if request is None:
                return None
            if entry.lost:
                self._crossings.put_back(request.departure, entry.request)
            self._response(line, own, entry, payload, departure, request, at)
        else:
            self._call(line, own, entry, payload, departure, target, at, host)
        return line

    def verdict(self, violation: Violated, component: str, at: float) -> Line:
        """`component` broke a rule of its policy, or would have."""
        verdict: dict[str, str | bool] = {
            "component": component,
            "rule": violation.rule,
            "direction": violation.direction,
            "method": clean_name(violation.method),
            "pointer": clean_text(violation.pointer),
            "text": clean_text(violation.text),
        }
        if violation.session is not None:
            verdict["session"] = clean_name(violation.session[:_LONGEST])
        if violation.would:
            verdict["would"] = True
        if self._content == "none":
            del verdict["pointer"], verdict["text"]
        return Line(type="_conductor", ts=at, verdict=verdict)

    def happened(self, event: str, component: str, text: str, at: float) -> Line:
        """The line for an event of `component`: `restart`, `pause` …, and words for it."""
        happened = {"event": event, "component": component, "text": clean_text(text)}
        if self._content == "none":
            del happened["text"]  # a component may have written it
        return Line(type="_conductor", ts=at, happened=happened)

    def gap(self, text: str, at: float) -> Line:
        """The line for a gap; `text` names the missing part."""
        shown = clean_text(text) if self._content != "none" else "something is missing here"
        return Line(type="_conductor", ts=at, gap=shown)

    def ended(self, why: str, at: float) -> Line:
        """The chain has ended; `why` it failed, if it did."""
        shown = clean_text(why) if self._content != "none" else ""
        return Line(type="_conductor", ts=at, ended=shown)

    def _call(
        self,
        line: Line,
        own: Own,
        entry: Entry,
        payload: bytes | None,
        departure: Departure,
        target: str,
        at: float,
        host: str | None,
    ) -> None:
        """Fills in the line of a request or a notification."""
        method, params = entry.method, payload or b"null"
        mcp = mcp_message(method, params)
        if mcp is not None:
            line.protocol, own.carrier = "mcp", self._name(method)
            method, params = mcp.method, mcp.params
        line.source, line.target = departure.source, target
        line.session = self._session_of(payload)
        if entry.kind == "request":
            self._number += 1
            request = _PendingRequest(
                number=self._number,
                departure=_light(departure),
                target=target,
                method=method,
                session=line.session,
                at=at,
                mcp=mcp is not None,
                wrapped=mcp is not None and mcp.numbered,
                by=host,
                service=called_service(entry, params),
            )
            self._begin(entry.number, request)
            line.id, own.id = msgspec.Raw(b"%d" % self._number), self._id(departure.entry)
        line.method = self._name(method)
        line.params = self._shown(params, method, own, called_service(entry, params))

    def _begin(self, key: int, request: _PendingRequest) -> None:
        """A request waits for its answer."""
        self._end(key)
        if request.by is None or self._open[request.by] < _MOST_OPEN:
            self._pending[key] = request
            self._open[request.by] += request.size

    def _end(self, key: int) -> _PendingRequest | None:
        request = self._pending.pop(key, None)
        if request is not None:
            self._open[request.by] -= request.size
        return request

    def _answered(self, entry: Entry, host: str | None) -> _PendingRequest | None:
        """Removes the pending request that a response answers. Raises `ValueError`; see `write`."""
        request = self._pending.get(entry.request)
        # A child is not trusted: it might claim answers to requests that never went to it.
        if host is not None and (request is None or host not in request.departure.hosts):
            raise ValueError("it answers no request to or from its guests")
        return self._end(entry.request)

    def _response(
        self,
        line: Line,
        own: Own,
        entry: Entry,
        payload: bytes | None,
        departure: Departure,
        request: _PendingRequest,
        at: float,
    ) -> None:
        """Fills in the line of a response."""
        body, domain = payload or b"null", "acp" if entry.is_error else ""
        if request.wrapped and not domain:
            body, domain = unwrapped(body)
        line.source, line.target = request.target, request.departure.source
        line.id = msgspec.Raw(b"%d" % request.number)
        line.is_error, line.error_domain = bool(domain), domain
        own.id = self._id(request.departure.entry)
        own.method = self._name(request.method)
        own.ms = _milliseconds(at - request.at)
        own.past = departure.entry.past or entry.past
        own.protocol = "mcp" if request.mcp else ""
        own.session = request.session
        if own.session is None and not domain:
            own.session = self._session_of(body)
        own.code = code_of(body) if domain else None
        line.payload = self._shown(body, None, own, request.service)

    def _name(self, method: str) -> str:
        """A method as it is written."""
        return method if method in KNOWN or self._content == "all" else clean_name(method)

    def _id(self, entry: Entry) -> msgspec.Raw:
        """The sender's own id, as it is written."""
        raw = entry.id or b"null"
        return msgspec.Raw(raw if self._content == "all" else clean_id(raw))

    def _shown(
        self, payload: bytes, method: str | None, own: Own, service: ServiceCall | None
    ) -> msgspec.Raw:
        """The written form of a payload; `own` notes the parts that are left out."""
        if self._content == "none":
            return msgspec.Raw(b"null")
        is_any = service is None and method not in LOGIN
        shown = self._known(payload) if is_any else self._made(payload, method, service)
        own.hidden = shown.hidden
        return shown.text

    def _session_of(self, payload: bytes | None) -> str | None:
        """The session that a payload names, as it is written."""
        return None if payload is None else self._known(payload).session

    def _known(self, payload: bytes) -> _Shown:
        """How a payload is written. To look for secrets takes longer than all else that a trace
        does with a message, and most messages cross a chain unchanged."""
        shown = self._memory.get(payload)
        if shown is None:
            shown = self._made(payload)
            if len(payload) <= _SMALL:
                self._size += len(payload) + _SPARE
                if self._size > _REMEMBERED:
                    self._memory, self._size = {}, 0
                self._memory[payload] = shown
        return shown

    def _made(
        self, payload: bytes, method: str | None = None, service: ServiceCall | None = None
    ) -> _Shown:
        """How a payload is to be written."""
        clean, session = payload, session_in(payload)
        if self._content == "redacted":
            clean = clean_service(payload, service) if service else redacted(payload, method)
        if self._content != "all":
            session = (_often if len(session) <= _LONGEST else clean_id)(session)
        hides = clean != payload and clean != payload.strip()
        # Outside of strings a newline is only space, and inside of them there is none.
        text = clean.replace(b"\n", b" ") if b"\n" in clean else clean
        return _Shown(
            msgspec.Raw(text),
            value_digest(payload, self._key) if hides else "",
            texts.decode(session) if session[:1] == b'"' else None,
        )


def _milliseconds(seconds: float) -> float:
    """Milliseconds without the part below a microsecond; `round` takes many times as long."""
    return int(seconds * 1_000_000 + 0.5) / 1000


def _light(departure: Departure) -> Departure:
    """A departure without its payload, since all pending requests of a chain are in memory. Small
    payloads stay while a host may still take the request back."""
    if departure.hosts and departure.size <= _KEPT:
        return departure
    entry = msgspec.structs.replace(departure.entry, payload=None)
    return msgspec.structs.replace(departure, entry=entry)


# -- payloads --------------------------------------------------------------------------------------
