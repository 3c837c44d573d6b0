"""Makes spans of the events of a trace: one translation for a chain that runs and for a file.

Pure: lines go in, finished spans come out. What is open is bounded; beyond that the oldest is
forgotten, with a span that says it was not finished.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from conductor.record.turns.line import (
    AGENT,
    CLIENT,
    CONDUCTOR,
    PROMPT,
    UPDATE,
    Line,
    Own,
    read_line,
)
from conductor.telemetry import hops, names, payloads
from conductor.telemetry.open_turns import Turn, Turns, is_agents
from conductor.telemetry.progress import Progress
from conductor.telemetry.span import (
    Attributes,
    Context,
    Ids,
    Moment,
    Place,
    Span,
    What,
    read_traceparent,
)

_MOST_OPEN: Final = 2_000
_MOST_SEEN: Final = 20_000
_MOST_MOMENTS: Final = 100
_QUESTION: Final = "session/request_permission"


class _Open(msgspec.Struct):
    """A request without an answer so far."""

    line: Line
    own: Own
    span: Span
    key: Any
    turn: Turn | None
    print: int
    passed: int | None = None
    """A hash of the params with which its receiver passed it on."""
    traceparent: str = ""


class _Seen(msgspec.Struct, gc=False):
    """A message that was seen, for what passes it on."""

    at: float
    print: int
    place: Place | None
    event: int


class Translator:
    """Takes the lines of one trace in order and returns the spans that each one finishes."""

    def __init__(
        self,
        ids: Ids,
        *,
        content: bool = False,
        pictures: bool = False,
        facts: Mapping[str, Attributes] | None = None,
        run: Span | None = None,
    ) -> None:
        """
        Args:
            ids: Makes the ids of spans.
            content: Whether words of people and agents are exported.
            pictures: Whether there are spans of notifications too.
            facts: What is known of components, by name.
            run: The span of the whole run, which each trace links to.
        """
        self._pictures = pictures
        self._facts = dict(facts or {})
        self._run = run
        links = (run.context,) if run is not None else ()
        self._progress = Progress(ids, links, content=content)
        self._turns = Turns(self._progress)
        self.components: list[str] = []
        """The names in the order of the chain, without its ends."""
        self._open: OrderedDict[Any, _Open] = OrderedDict()
        self._held: defaultdict[str, dict[Any, _Open]] = defaultdict(dict)
        """The open requests that each component has."""
        self._seen: OrderedDict[int, _Seen] = OrderedDict()
        self._version: int | None = None

    # -- lines ---------------------------------------------------------------------------------

    def take(self, text: bytes) -> list[Span]:
        """The spans that a line finishes; those within others come first."""
        return self.read(line_of(text))

    def read(self, line: Line | None) -> list[Span]:
        """The same for a line that was read; None: it says nothing here."""
        self._progress.number += 1
        if line is None:
            return []
        if line.type == "_conductor":
            self._about(line)
        elif line.type in ("request", "notification", "response"):
            self._progress.at = max(self._progress.at, line.ts)
            for name in (line.source, line.target):
                self._known(name)
            own = line.own or Own()
            if line.type == "request":
                self._request(line, own)
            elif line.type == "response":
                self._response(line, own)
            else:
                self._notification(line, own)
        return self._progress.take()

    def finish(self) -> list[Span]:
        """The spans of what is still open: nothing more will come."""
        for waiting in [*self._open.values()]:
            self._abandon(waiting)
        self._turns.finish()
        if self._run is not None:
            self._run.attributes[names.CHAIN] = self._chain
            self._progress.finish(self._run, self._progress.at)
        return self._progress.take()

    def context(self, number: int) -> Context | None:
        """What the span of an open request is known by; None: no such request is open."""
        waiting = self._open.get(number)
        return waiting.span.context if waiting is not None else None

    @property
    def _chain(self) -> str:
        return " ".join(self.components)[: payloads.MOST_TEXT]

    def _known(self, name: str) -> None:
        if name and name not in (CLIENT, AGENT, CONDUCTOR) and name not in self.components:
            self.components.append(name)

    def _about(self, line: Line) -> None:
        for name in line.components or ():
            self._known(name)
        if line.verdict is not None:
            self._verdict({k: v for k, v in line.verdict.items() if isinstance(v, str)}, line.ts)

    # -- requests ------------------------------------------------------------------------------

    def _request(self, line: Line, own: Own) -> None:
        body = payloads.params(line.params)
        passed_on = self._passed_on(line, own)
        if line.method == PROMPT and line.source == CLIENT:
            self._turns.begin(line, body, self._chain)
        turn = self._turn_of(line, passed_on)
        around = passed_on or self._around(line.source, turn)
        # What a component passes on with the context it got belongs to what it got.
        remote = None
        if body.traceparent and (around is None or body.traceparent != around.traceparent):
            remote = read_traceparent(body.traceparent)
        if line.method == PROMPT and line.source == CLIENT:
            remote = None  # it is the parent of the turn
        parent = remote or (around.span if around else turn.span if turn else None)
        context = parent if isinstance(parent, Context) else parent.context if parent else None
        span = Span(
            what=What.MCP if line.protocol == "mcp" else What.HOP,
            name=hops.name(line, body),
            kind=hops.kind(line),
            context=self._progress.ids.below(context),
            parent=context,
            is_remote=remote is not None,
            links=self._progress.links if context is None else (),
            start=line.ts,
            end=line.ts,
            attributes=self._attributes(line, own, body),
            moments=[],
            place=self._progress.place(line.target),
            origin=parent.place if isinstance(parent, Span) else None,
            event=self._progress.number,
        )
        key = own.n or (line.source, line.target, bytes(line.id))
        print_ = _print(line, own)
        waiting = _Open(line, own, span, key, turn, print_, traceparent=body.traceparent)
        if (before := self._open.get(key)) is not None:
            self._abandon(before)
        self._open[key] = waiting
        self._held[line.target][key] = waiting
        if passed_on is not None:
            passed_on.passed = print_
        if len(self._open) > _MOST_OPEN:
            self._abandon(next(iter(self._open.values())))

    def _attributes(self, line: Line, own: Own, body: payloads.Params) -> Attributes:
        found = hops.attributes(line, own, body, content=self._progress.content)
        found |= self._facts.get(line.target, {})
        if line.target in self.components:
            found[names.INDEX] = self.components.index(line.target)
        if self._version is not None:
            found[names.ACP_VERSION] = self._version
        return found

    def _passed_on(self, line: Line, own: Own) -> _Open | None:
        """The request that the sender passes on by this one."""
        if own.passes:
            return self._open.get(own.passes)
        if own.n or line.source in (CLIENT, AGENT):
            return None
        # Another program's trace does not say: the oldest of the same method and session.
        session = line.names_session
        for waiting in self._held[line.source].values():
            asked = waiting.line  # its session is read last: that takes longest
            same = waiting.passed is None and asked.method == line.method
            if same and asked.names_session == session:
                return waiting
        return None

    def _turn_of(self, line: Line, passed_on: _Open | None) -> Turn | None:
        if passed_on is not None and passed_on.turn is not None:
            return passed_on.turn
        return self._turns.of(line.names_session)

    def _around(self, source: str, turn: Turn | None) -> _Open | None:
        """What the sender of a request of its own works on, if that is certain: the last request
        that it has of this turn."""
        held = (one for one in reversed(self._held[source].values()) if one.turn is turn)
        last = next(held, None)
        return last if turn is not None or next(held, None) is None else None

    # -- responses -----------------------------------------------------------------------------

    def _response(self, line: Line, own: Own) -> None:
        waiting = self._take(own.of or (line.target, line.source, bytes(line.id)))
        if waiting is None:
            return
        span, asked = waiting.span, waiting.line
        body = payloads.result(line.payload) if not line.is_error else payloads.Result()
        found = span.attributes
        found[names.BYTES_OUT] = own.bytes or len(line.payload)
        if own.ms_in is not None:
            found[names.OWN_TIME] = round(own.ms_in / 1000, 6)
        if own.lost:
            found[names.LOST] = True
        if asked.target in self.components:
            found[names.CHANGED] = self._changed(line, own, waiting)
        if line.is_error:
            hops.failed(span, line, own, content=self._progress.content)
        elif body.is_error is True and asked.protocol == "mcp":
            span.error = found[names.ERROR] = "tool_error"
        if body.stop == "cancelled":
            found[names.CANCELLED] = True
        if own.n:
            self._remember(line, own, span.place)
        if is_agents(asked, line) and isinstance(body.version, int):
            self._version = min(max(body.version, 0), 1 << 31)
        self._turns.learn(asked, line, body)
        self._progress.finish(span, line.ts)
        turn = waiting.turn
        if turn is None:
            return
        if asked.method == _QUESTION and line.source == CLIENT:
            turn.person += line.ts - span.start
        if asked.method == PROMPT and line.target == CLIENT:
            self._turns.answered(turn, line, span, body)

    def _changed(self, line: Line, own: Own, waiting: _Open) -> bool:
        """Whether a component changed the request or its answer, or answered it itself."""
        if own.by:
            return waiting.passed is not None and waiting.passed != waiting.print
        if waiting.passed is None:
            return True
        if waiting.passed != waiting.print:
            return True
        got = self._seen.get(own.passes) if own.passes else None
        return got is not None and got.print != _print(line, own)

    def _take(self, key: Any) -> _Open | None:
        waiting = self._open.pop(key, None)
        if waiting is not None:
            del self._held[waiting.line.target][key]
            self._progress.free(waiting.span.place)
        return waiting

    def _abandon(self, waiting: _Open) -> None:
        self._take(waiting.key)
        waiting.span.attributes[names.UNFINISHED] = True
        self._progress.finish(waiting.span, self._progress.at)

    # -- notifications -------------------------------------------------------------------------

    def _notification(self, line: Line, own: Own) -> None:
        if self._pictures:
            self._passed(line, own)
        if line.method == UPDATE and line.target == CLIENT:
            self._turns.update(line, self._prompt_of)

    def _prompt_of(self, turn: Turn) -> Span | None:
        """The prompt of a turn that the agent has."""
        held = reversed(self._held[AGENT].values())
        found = (one.span for one in held if one.turn is turn and one.line.method == PROMPT)
        return next(found, None)

    def _passed(self, line: Line, own: Own) -> None:
        """A component passes a notification on: how long it had it."""
        got = self._seen.get(own.passes) if own.passes else None
        place = None
        if got is not None and not own.by and line.source in self.components:
            place = self._progress.passed(line.source, got.at, line.ts)
            self._progress.finish(
                Span(
                    what=What.PASSED,
                    name=names.method(line.method, line.protocol),
                    context=Context(1, 1),
                    start=got.at,
                    end=line.ts,
                    attributes={
                        names.CHANGED: got.print != _print(line, own),
                        names.BYTES_OUT: own.bytes or len(line.params),
                    },
                    place=place,
                    origin=got.place,
                    event=got.event,
                ),
                line.ts,
            )
        if own.n:
            self._remember(line, own, place)

    # -- verdicts ------------------------------------------------------------------------------

    def _verdict(self, verdict: dict[str, str], at: float) -> None:
        """Conductor refused what a component did: a moment of what the component had."""
        who, method = verdict.get("component", ""), verdict.get("method", "")
        found: Attributes = {
            names.POLICY_VERDICT: "refused",
            names.POLICY_RULE: verdict.get("rule", ""),
            names.COMPONENT: who,
            names.RPC_METHOD: names.method(method),
        }
        moment = Moment(at, names.POLICY, found)
        span = self._concerned(who, method, verdict.get("session", ""))
        if span is not None:
            if len(span.moments) < _MOST_MOMENTS:
                span.moments.append(moment)
            return
        self._known(who)
        place = self._progress.place(who)
        self._progress.free(place)
        context = self._progress.ids.below(None)
        made = Span(
            what=What.VERDICT, name=names.POLICY, context=context, start=at, end=at,
            links=self._progress.links, attributes=found, moments=[moment], place=place,
            event=self._progress.number,
        )  # fmt: skip
        self._progress.finish(made, at)

    def _concerned(self, who: str, method: str, session: str) -> Span | None:
        """The span of what a component has of this method, else of the turn."""
        held = [
            one
            for one in self._held[who].values()
            if one.line.method == method and session in ("", one.line.names_session)
        ]
        if held:
            return held[-1].span
        turn = self._turns.of(session)
        return turn.span if turn is not None else None

    def _remember(self, line: Line, own: Own, place: Place | None) -> None:
        seen = _Seen(line.ts, _print(line, own), place, self._progress.number)
        self._seen[own.n] = seen
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)


def line_of(text: bytes) -> Line | None:
    """A line of a trace; None if it is no event, and nothing about the chain."""
    if text.startswith(b'{"type":"_conductor","records"'):
        return None
    line = read_line(text)
    if line is None or not isinstance(line.ts, float):
        return None
    return line


def _print(line: Line, own: Own) -> int:
    """A hash of what a message holds; without content, of its size."""
    return hash(bytes(line.body)) if bytes(line.body) != b"null" else own.bytes
