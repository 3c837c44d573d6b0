"""Writes what passes through a chain to a file, one JSON object a line (`--trace FILE`).

The lines are events as the reference conductor writes them, so its viewer shows them
(`docs/cli.md`, "Traces"): `type` (request, response, notification), `ts` (seconds since the trace
began), `protocol`, `from`, `to`, `id`, `method`, `session`, `params` or `payload`, `is_error`,
`error_domain`. What is ours stands under `_conductor`. An `id` is unique in its file, since the
viewer pairs by receiver and id; the one the asker used is `_conductor.id`.

Lines of type `_conductor` hold what each component was given and said (`records`).
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from conductor.core import UPSTREAM, Trace
from conductor.core.depth import too_many_values
from conductor.core.sparing import sparing
from conductor.record.redaction import MOST_VALUES, redacted
from conductor.record.trace.file import TraceFile
from conductor.record.trace.messages import carried_by, code, read_hop, session_of, unwrapped
from conductor.record.trace.names import Names, proxy
from conductor.record.trace.records import Conversation, header
from conductor.record.trace.ways import Way, Ways
from conductor.run.plan import Planned
from conductor.run.report_lines import Delivered, text_lines
from conductor.transports.base import Transport
from conductor.transports.recorded import Recorded

_KINDS: Final = frozenset({"request", "response", "notification"})
_Key = int | tuple[str, str | None]
"""Of a request: its number; of one for a service who asks, and under which id."""

_KEPT: Final = 64 * 1024
"""Bytes of a payload that are kept until its request is answered, at most."""

_LATE: Final = 1.0
"""Seconds by which a child's report may be older than its arrival to be dated by it."""


class _Open(msgspec.Struct, gc=False):
    """A request whose answer has not passed yet."""

    number: int
    """By which its response is found in the file."""
    way: Way
    target: str
    """By its name in the file."""
    method: str
    session: bytes | None
    at: float
    mcp: bool
    wrapped: bool
    """Whether the answer holds MCP's own result or error as a member."""
    outside: float = 0.0
    """How long those it was passed on to have had it, in seconds …"""
    since: float | None = None
    """… and since when they have it now."""


_delivered = msgspec.json.Decoder(Delivered)
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
        self._names = Names()
        self._ways = Ways()
        self._mode = ""
        self._open: dict[_Key, _Open] = {}
        self._guests: dict[str, Conversation] = {}
        """What guests in a child are given and say now."""
        self._runs: Counter[str] = Counter()
        """How many instances of each component there have been."""

    def begin(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """Names the chain's peers in order, each with the guests it hosts, if it is a host, and if
        it reports what passes between them, with the numbers of its messages."""
        self._names.begin(chain)
        names = [one for name, guests, _ in chain for one in guests or (name,)]
        self._file.begin(header(self._content, names))

    def watched(self, planned: Planned) -> Planned:
        """A component whose lines are written down; a host says those of its guests itself."""
        if planned.guests:
            return planned
        name, renew = planned.component.name, planned.renew

        def again(make: Callable[[], Transport]) -> Callable[[], Transport]:
            return lambda: Recorded(make(), _Lines(self, name))

        return msgspec.structs.replace(
            planned,
            transport=Recorded(planned.transport, _Lines(self, name)),
            renew=renew and again(renew),
        )

    @sparing
    def crossed(self, trace: Trace, mode: str) -> None:
        """Writes a message that crossed between two peers of the router, which is in `mode`."""
        self._mode = mode
        hosts = self._names.hosts
        came = trace.source if trace.source in hosts else None
        goes = trace.target if trace.target in hosts else None
        now = self._now()
        way = None if came is None else self._ways.take(came, trace.number, inward=False)
        if way is None:
            source = self._names.end(trace.source, trace.source_side, mode)
            # Of what a host says only it knows what that passes on.
            seen = trace if came is None else msgspec.structs.replace(trace, passes=0, past=False)
            way = Way(source, now, seen)
        if goes is not None and not trace.lost:
            self._ways.put(goes, way, trace.number, inward=True)
            return
        target = self._names.end(trace.target, trace.target_side, mode)
        self._write(trace, way, target, now)

    @sparing
    def hop(self, segment: str, params: bytes) -> None:
        """Writes a message that a guest got, as the child that hosts it reported it, or keeps what
        it reports of one that is about to leave it.

        Raises `ValueError` for a report of anything else: a child is not trusted.
        """
        hop, payload = read_hop(params)
        ends = self._names.guests[segment] | {"", UPSTREAM}
        if hop.source not in ends or hop.target not in ends or hop.kind not in _KINDS:
            raise ValueError(f"not a message of a guest of {segment}")
        asks = hop.source != UPSTREAM and hop.kind != "response"
        if asks and hop.number not in self._names.hosts[segment]:
            raise ValueError(f"not a number of a message of {segment}")
        at = self._now(hop.at - self._start)
        trace = Trace(
            kind=hop.kind,
            source=hop.source,
            target=hop.target,
            id=hop.id,
            method=hop.method,
            payload=payload,
            is_error=hop.is_error,
            number=hop.number,
            request=hop.request,
            passes=hop.passes,
            past=hop.past,
            own=hop.own,
            lost=hop.lost,
        )
        way: Way | None = Way(proxy(hop.source), at, trace, (segment,))
        if hop.source == UPSTREAM:
            way = self._ways.take(segment, hop.number, inward=True)
        if way is None:
            return  # a copy: what it is of has been written
        if hop.target == UPSTREAM and not hop.lost:
            self._ways.put(segment, way, hop.number, inward=False)
        else:
            self._write(trace, way, proxy(hop.target), at, hop.size, segment)

    @sparing
    def delivered(self, segment: str, params: bytes) -> None:
        """Writes down what a guest was given and said, as the child that hosts it reported it.

        Raises `ValueError` for a report that is none, or is about somebody else.
        """
        try:
            told = _delivered.decode(params)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(str(error)) from None
        if told.component not in self._names.guests[segment]:
            raise ValueError(f"`{told.component}` is not one of its guests")
        at = self._now(told.at - self._start)
        if told.number == 0 or told.component not in self._guests:
            self._guests[told.component] = self.conversation(told.component)
        self._guests[told.component].reported(told, at)

    def close(self) -> None:
        """Writes what is left."""
        self._file.close()

    def conversation(self, name: str) -> Conversation:
        """Where what the next instance of a component is given and says is written down."""
        self._runs[name] += 1
        run = self._runs[name]
        return Conversation(name, run, self._file.gather, self._service, self._content)

    def is_agent(self, name: str) -> bool:
        """Whether it is the agent, as far as that is known: it is told nothing before."""
        return self._mode == "agent" and name == self._names.agent

    def now(self) -> float:
        """Seconds since the start; never less than before."""
        return self._now()

    # -- inside ------------------------------------------------------------------------------

    def _service(self, trace: Trace, source: str, target: str, size: int) -> None:
        """Writes what passed between a component and the conductor itself."""
        self._write(trace, Way(source, self._last, trace), target, self._last, size)

    def _now(self, reported: float | None = None) -> float:
        """Seconds since the start; never less than the event before, as readers expect."""
        now = self._clock() - self._start
        if reported is not None and now - _LATE < reported < now:
            now = reported
        self._last = max(now, self._last)
        return self._last

    def _write(
        self,
        trace: Trace,
        way: Way,
        target: str,
        at: float,
        size: int | None = None,
        host: str | None = None,
    ) -> None:
        """Writes a hop: `trace` is what was seen of it last, `way` what was seen before; `host`
        has reported it."""
        if self._file.failed:
            return
        payload = trace.payload if trace.payload is not None else way.trace.payload
        if payload is not None and (size is None or trace.payload is None):
            size = len(payload)
        digest = b""
        if payload is not None and too_many_values(payload, MOST_VALUES):
            digest = b',"sha256":"%b"' % hashlib.sha256(payload).hexdigest().encode()
            payload = None
        trace = msgspec.structs.replace(trace, payload=payload)
        if trace.kind == "response":
            asked = self._asked(trace, host)
            if asked is None:
                return
            if trace.lost:
                self._ways.again(asked.way, trace.request)
            parts = self._response(trace, way, asked, at, size or 0)
        else:
            parts = self._call(trace, way, target, at, size or 0)
        parts.append(digest)
        head = f'{{"type":"{trace.kind}","ts":{at:.6f},'.encode()
        self._file.write(b"".join((head, *parts, b"}}\n")))

    def _call(self, trace: Trace, way: Way, target: str, at: float, size: int) -> list[bytes]:
        """A request or notification, without its head."""
        method, params = trace.method or "", trace.payload or b"null"
        carried = carried_by(method, params)
        own = b'"_conductor":{"bytes":%d' % size
        if carried is not None:
            own += b',"carrier":' + _encode(method)
            method, params = carried.method, carried.params
        session = session_of(trace.payload)
        parts = [b'"protocol":"mcp",' if carried is not None else b'"protocol":"acp",']
        parts.append(b'"from":%b,"to":%b,' % (_encode(way.source), _encode(target)))
        passes = way.trace.passes
        if trace.kind == "request":
            self._number += 1
            self._open[_key(trace)] = _Open(
                number=self._number,
                way=_light(way),
                target=target,
                method=method,
                session=session,
                at=at,
                mcp=carried is not None,
                wrapped=carried is not None and carried.numbered,
            )
            if (given := self._open.get(passes)) is not None:
                given.since = way.left
            parts.append(b'"id":%d,' % self._number)
            own += b',"id":' + (way.trace.id or "null").encode()
        own += _numbers(n=trace.number, of=trace.request, passes=passes)
        if way.trace.own or trace.own:
            own += b',"by":"conductor"'
        parts.append(b'"method":%b,' % _encode(method))
        if session is not None:
            parts.append(b'"session":%b,' % session)
        parts += [b'"params":', self._shown(params, method), b",", own]
        return parts

    def _asked(self, trace: Trace, host: str | None) -> _Open | None:
        """The request that a response answers. Raises `ValueError` where a host reports one to a
        request that it has not to do with."""
        key = trace.request or _key(trace)
        asked = self._open.get(key)
        if host is not None and (asked is None or host not in asked.way.hosts):
            raise ValueError("it answers nothing that its guests were asked, or have asked")
        return self._open.pop(key, None)

    def _response(self, trace: Trace, way: Way, asked: _Open, at: float, size: int) -> list[bytes]:
        """A response, without its head."""
        payload, domain = trace.payload or b"null", "acp" if trace.is_error else None
        if asked.wrapped and domain is None:
            payload, domain = unwrapped(payload)
        session = asked.session
        if session is None and domain is None:
            session = session_of(payload)
        within = self._within(asked, way.left, at)
        own = b'"_conductor":{"bytes":%d,"id":%b%b,"method":%b,"ms":%.3f,"ms_in":%.3f' % (
            size,
            (asked.way.trace.id or "null").encode(),
            _numbers(n=trace.number, of=trace.request, passes=way.trace.passes),
            _encode(asked.method),
            (at - asked.at) * 1000,
            within * 1000,
        )
        for name, holds in (("past", way.trace.past or trace.past), ("lost", trace.lost)):
            if holds:
                own += b',"%b":true' % name.encode()
        if way.trace.own or trace.own:
            own += b',"by":"conductor"'
        if asked.mcp:
            own += b',"protocol":"mcp"'
        if session is not None:
            own += b',"session":' + session
        if domain is not None:
            own += code(payload)
        parts = [b'"from":%b,"to":%b,' % (_encode(asked.target), _encode(asked.way.source))]
        parts.append(b'"id":%d,' % asked.number)
        if domain is None:
            parts.append(b'"is_error":false,')
        else:
            parts.append(b'"is_error":true,"error_domain":%b,' % _encode(domain))
        parts += [b'"payload":', self._shown(payload, None), b",", own]
        return parts

    def _within(self, asked: _Open, left: float, at: float) -> float:
        """How long who was asked has had a request, or its answer, that leaves it now; who has
        passed the request on has the answer from `at` on."""
        given = self._open.get(asked.way.trace.passes)
        if given is not None and given.since is not None:
            given.outside += max(at - given.since, 0.0)
            given.since = None
        if asked.since is not None:  # those it was passed on to have it still
            left = min(left, asked.since)
        return max(left - asked.at - asked.outside, 0.0)

    def _shown(self, payload: bytes, method: str | None) -> bytes:
        if self._content == "none":
            return b"null"
        if self._content == "redacted":
            payload = redacted(payload, method)
        # Outside of strings a newline is only space, and inside of them there is none.
        return payload.replace(b"\n", b" ") if b"\n" in payload else payload


def _light(way: Way) -> Way:
    """The way of a request without its payload: only one that a host may take back needs it."""
    if way.hosts and len(way.trace.payload or b"") <= _KEPT:
        return way
    return msgspec.structs.replace(way, trace=msgspec.structs.replace(way.trace, payload=None))


def _key(trace: Trace) -> _Key:
    """Under which a request waits for its answer."""
    who = trace.target if trace.kind == "response" else trace.source
    return trace.number or (who, trace.id)


def _numbers(**numbers: int) -> bytes:
    """Numbers of messages as members; those that are 0 are left out."""
    return b"".join(b',"%b":%d' % (name.encode(), n) for name, n in numbers.items() if n)


class _Lines:
    """Takes the lines of one component that is no host; those of the agent are not kept."""

    def __init__(self, tracer: Tracer, name: str) -> None:
        self._tracer = tracer
        self._name = name
        self._known: Conversation | None = None

    def _conversation(self) -> Conversation:
        """The instance gets its number when the first line passes."""
        if self._known is None:
            self._known = self._tracer.conversation(self._name)
        return self._known

    @sparing
    def given(self, data: bytes) -> None:
        """Lines were written to it."""
        if not self._tracer.is_agent(self._name):
            self._conversation().write(self._tracer.now(), text_lines(data), ())

    @sparing
    def said(self, frames: list[bytes]) -> None:
        """Lines came from it."""
        if not self._tracer.is_agent(self._name):
            lines = [one.decode("utf-8", "backslashreplace") for one in frames]
            self._conversation().write(self._tracer.now(), (), lines)

    @sparing
    def delivered(self, given: bytes, said: bytes, failed: str) -> None:
        """Lines were delivered to it."""
        self._conversation().delivered(self._tracer.now(), given, said, failed)
