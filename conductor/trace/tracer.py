"""Writes what passes through a chain to a file, one JSON object a line (`--trace FILE`).

The lines are events as the reference conductor writes them, so its viewer shows them
(`docs/cli.md`, "Traces"): `type` (request, response, notification), `ts` (seconds since the trace
began), `protocol`, `from`, `to`, `id`, `method`, `session`, `params` or `payload`, `is_error`,
`error_domain`. What is ours stands under `_conductor`. An `id` is unique in its file, since the
viewer pairs by receiver and id; the one the asker used is `_conductor.id`.

Lines of type `_conductor` hold what each component was given and said (`conductor.trace.records`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from conductor.core import UPSTREAM, Trace
from conductor.core.policy.rights import Policy
from conductor.planned import Planned
from conductor.redaction import redacted
from conductor.reports.deliveries import Delivered, text_lines
from conductor.trace.file import TraceFile
from conductor.trace.messages import carried_by, code, read_hop, session_of, unwrapped
from conductor.trace.names import Names, proxy
from conductor.trace.records import Conversation, header
from conductor.transports.base import Transport
from conductor.transports.recorded import Recorded

_KINDS: Final = frozenset({"request", "response", "notification"})
_Key = tuple[str, str, str, str, str | None]
"""Which peer asked on which side, which was asked on which, and under which id."""

_LATE: Final = 1.0
"""Seconds by which a child's report may be older than its arrival to be dated by it."""


class _Open(msgspec.Struct, gc=False):
    """A request whose answer has not passed yet."""

    number: int
    source: str
    target: str
    """By their names in the file."""
    method: str
    session: bytes | None
    at: float
    mcp: bool
    wrapped: bool
    """Whether the answer holds MCP's own result or error as a member."""


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
        self._mode = ""
        self._open: dict[_Key, _Open] = {}
        self._guests: dict[str, Conversation] = {}
        """What guests in a child are given and say now."""
        self._runs: Counter[str] = Counter()
        """How many instances of each component there have been."""

    def begin(self, chain: Sequence[tuple[str, Sequence[str], Sequence[Policy | None]]]) -> None:
        """Names the chain's peers in order, each with the guests it hosts, if it is a host, and
        what those may do."""
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

    def crossed(self, trace: Trace, mode: str) -> None:
        """Writes a message that crossed between two peers of the router, which is in `mode`."""
        self._mode = mode
        if trace.kind == "response":  # as its request
            source = self._names.end(trace.source, trace.source_side, mode)
            target = self._names.end(trace.target, trace.target_side, mode)
        else:
            source, target = self._names.ends(trace, mode)
        self._write(trace, source, target, self._now())

    def hop(self, segment: str, params: bytes) -> None:
        """Writes a message between two guests, as the child that hosts them reported it, or notes
        which of them has sent what leaves the child next.

        Raises `ValueError` for a report of anything else: a child is not trusted.
        """
        hop, payload = read_hop(params)
        guests = self._names.guests[segment]
        if hop.source not in guests or hop.kind not in _KINDS:
            raise ValueError(f"not a message of a guest of {segment}")
        if hop.target == UPSTREAM and payload is None:
            self._names.leaving(segment, hop)
            return
        if hop.target not in guests:
            raise ValueError(f"not a message between guests of {segment}")
        at = self._now(hop.at - self._start)
        trace = Trace(hop.kind, hop.source, hop.target, hop.id, hop.method, payload, hop.is_error)
        self._write(trace, proxy(hop.source), proxy(hop.target), at, hop.size)

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
        self._write(trace, source, target, self._last, size)

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
        if trace.kind == "response":
            parts = self._response(trace, self._asked(trace, source, target, at), at, size)
        else:
            parts = self._call(trace, source, target, at, size)
        self._file.write(b"".join((head, *parts, b"}}\n")))

    def _call(self, trace: Trace, source: str, target: str, at: float, size: int) -> list[bytes]:
        """A request or notification, without its head."""
        method, params = trace.method or "", trace.payload or b"null"
        carried = carried_by(method, params)
        own = b'"_conductor":{"bytes":%d' % size
        if carried is not None:
            own += b',"carrier":' + _encode(method)
            method, params = carried.method, carried.params
        session = session_of(trace.payload)
        parts = [b'"protocol":"mcp",' if carried is not None else b'"protocol":"acp",']
        parts.append(b'"from":%b,"to":%b,' % (_encode(source), _encode(target)))
        if trace.kind == "request":
            self._number += 1
            key = trace.source, trace.source_side, trace.target, trace.target_side, trace.id
            self._open[key] = _Open(
                number=self._number,
                source=source,
                target=target,
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

    def _asked(self, trace: Trace, source: str, target: str, at: float) -> _Open:
        """The request that a response from `source` to `target` answers."""
        key = trace.target, trace.target_side, trace.source, trace.source_side, trace.id
        asked = self._open.pop(key, None)
        if asked is None:  # a child's report that makes no sense
            self._number += 1
            asked = _Open(
                self._number, target, source, trace.method or "", None, at, mcp=False, wrapped=False
            )
        return asked

    def _response(self, trace: Trace, asked: _Open, at: float, size: int) -> list[bytes]:
        """A response, without its head."""
        payload, domain = trace.payload or b"null", "acp" if trace.is_error else None
        if asked.wrapped and domain is None:
            payload, domain = unwrapped(payload)
        session = asked.session
        if session is None and domain is None:
            session = session_of(payload)
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
            own += code(payload)
        parts = [b'"from":%b,"to":%b,' % (_encode(asked.target), _encode(asked.source))]
        parts.append(b'"id":%d,' % asked.number)
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

    def given(self, data: bytes) -> None:
        """Lines were written to it."""
        if not self._tracer.is_agent(self._name):
            self._conversation().write(self._tracer.now(), text_lines(data), ())

    def said(self, frames: list[bytes]) -> None:
        """Lines came from it."""
        if not self._tracer.is_agent(self._name):
            lines = [one.decode("utf-8", "backslashreplace") for one in frames]
            self._conversation().write(self._tracer.now(), (), lines)

    def delivered(self, given: bytes, said: bytes, failed: str) -> None:
        """Lines were delivered to it."""
        self._conversation().delivered(self._tracer.now(), given, said, failed)
