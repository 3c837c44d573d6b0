"""Makes spans of the events of a trace: one translation for a chain that runs and for a file.

Pure: events go in, finished spans come out. The number of open spans is bounded; beyond it the
oldest is forgotten, with a span that says it was not finished.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import Final

import msgspec

from conductor.core.policy.key_table import PROMPT
from conductor.record.turns.event import Event
from conductor.record.turns.fold import Fold
from conductor.record.turns.line import AGENT, CLIENT, Line
from conductor.record.turns.model import Change
from conductor.record.turns.seen import Asked
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
_MOST_PLACES: Final = 20_000
_MOST_MOMENTS: Final = 100


class _Open(msgspec.Struct):
    """A request without an answer so far."""

    asked: Asked
    span: Span
    turn: Turn | None
    traceparent: str
    model: str
    """The model that it chooses."""


class Translator:
    """Takes the events of one trace in order and returns the spans that each event finishes."""

    def __init__(
        self,
        fold: Fold,
        ids: Ids,
        *,
        content: bool = False,
        pictures: bool = False,
        facts: Mapping[str, Attributes] | None = None,
        run: Span | None = None,
    ) -> None:
        """
        Args:
            fold: The source of the events.
            ids: Makes the ids of spans.
            content: Whether words of people and agents are exported.
            pictures: Whether there are spans of notifications too.
            facts: The known facts about components, by name.
            run: The span of the whole run, which each trace links to.
        """
        self._fold = fold
        self._pictures = pictures
        self._facts = dict(facts or {})
        self._run = run
        links = (run.context,) if run is not None else ()
        self._progress = Progress(ids, links, content=content)
        self._turns = Turns(self._progress)
        self._open: OrderedDict[int, _Open] = OrderedDict()
        """By event."""
        self._held: defaultdict[str, dict[int, _Open]] = defaultdict(dict)
        """The open requests that each component has."""
        self._places: OrderedDict[int, Place] = OrderedDict()
        """Where the pictures of notifications are, by event."""
        self._version: int | None = None

    @property
    def components(self) -> list[str]:
        """The names in the order of the chain, without its ends."""
        return self._fold.order

    # -- events --------------------------------------------------------------------------------

    def take(self, event: Event) -> list[Span]:
        """The spans that an event finishes; inner spans come first."""
        line = event.line
        if line.is_event:
            self._progress.at = max(self._progress.at, line.ts)
        if line.verdict is not None:
            words = {k: v for k, v in line.verdict.items() if isinstance(v, str)}
            outcome = "would" if line.verdict.get("would") else "refused"
            self._verdict(event, words, outcome)
        elif line.type == "request":
            self._request(event, line)
        elif line.type == "response":
            self._response(event, line)
        elif line.type == "notification":
            if self._pictures and event.got is not None and event.change is not None:
                self._passed(event, event.got.event, event.got.at)
            if event.update is not None and line.target == CLIENT:
                self._turns.update(event, event.update, self._prompt_of)
        return self._progress.take()

    def finish(self) -> list[Span]:
        """The spans that are still open: no more events will come."""
        for waiting in [*self._open.values()]:
            self._abandon(waiting)
        self._turns.finish()
        if self._run is not None:
            self._run.attributes[names.CHAIN] = self._chain
            self._progress.finish(self._run, self._progress.at)
        return self._progress.take()

    def context(self, number: int) -> Context | None:
        """The context of an open request's span, by the number of the message; None: no such
        request is open."""
        asked = self._fold.asked(number)
        waiting = self._open.get(asked.event) if asked is not None else None
        return waiting.span.context if waiting is not None else None

    @property
    def _chain(self) -> str:
        return " ".join(self.components)[: payloads.MOST_TEXT]

    # -- requests ------------------------------------------------------------------------------

    def _request(self, event: Event, line: Line) -> None:
        asked = event.asked
        if asked is None:
            return
        body = payloads.params(line.params)
        is_turn = event.begins and not event.turn.by
        if is_turn:
            self._turns.begin(event, body, self._chain)
        passed_on = self._open.get(event.got.event) if event.got is not None else None
        turn = self._turns.of(event.turn)
        around = passed_on or self._around(line.source, turn)
        # A message that a component passes on with the context it got belongs to the message it
        # got.
        remote = None
        if body.traceparent and (around is None or body.traceparent != around.traceparent):
            remote = read_traceparent(body.traceparent)
        if is_turn:
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
            attributes=self._attributes(event, body),
            moments=[],
            place=self._progress.place(line.target),
            origin=parent.place if isinstance(parent, Span) else None,
            event=event.number,
        )
        model = payloads.name_of(body.modelId) if line.method == "session/set_model" else ""
        waiting = _Open(asked, span, turn, body.traceparent, model)
        self._open[asked.event] = self._held[line.target][asked.event] = waiting
        if len(self._open) > _MOST_OPEN:
            self._abandon(next(iter(self._open.values())))

    def _attributes(self, event: Event, body: payloads.Params) -> Attributes:
        line = event.line
        found = hops.attributes(line, event.own, body, content=self._progress.content)
        found |= self._facts.get(line.target, {})
        if line.target in self.components:
            found[names.INDEX] = self.components.index(line.target)
        if self._version is not None:
            found[names.ACP_VERSION] = self._version
        return found

    def _around(self, source: str, turn: Turn | None) -> _Open | None:
        """The request on which the sender of a request of its own works, if that is certain: the
        last request that it has of this turn."""
        held = (one for one in reversed(self._held[source].values()) if one.turn is turn)
        last = next(held, None)
        return last if turn is not None or next(held, None) is None else None

    # -- responses -----------------------------------------------------------------------------

    def _response(self, event: Event, line: Line) -> None:
        waiting = self._take(event.asked)
        if waiting is None:
            return
        span, asked, own = waiting.span, waiting.asked, event.own
        body = payloads.result(line.payload) if not line.is_error else payloads.Result()
        found = span.attributes
        found[names.BYTES_OUT] = own.bytes or len(line.payload)
        found[names.OWN_TIME] = round(event.ms_in / 1000, 6)
        if own.lost:
            found[names.LOST] = True
        if asked.target in self.components:
            answered = event.change in (Change.CHANGED, Change.ANSWERED)
            found[names.CHANGED] = asked.changed or answered
        if event.error is not None:
            hops.failed(span, event.error, own, content=self._progress.content)
        elif body.is_error is True and asked.protocol == "mcp":
            span.error = found[names.ERROR] = "tool_error"
        if body.stop == "cancelled":
            found[names.CANCELLED] = True
        if is_agents(asked, line) and isinstance(body.version, int):
            self._version = min(max(body.version, 0), 1 << 31)
        self._turns.learn(asked, line, body, waiting.model)
        self._progress.finish(span, line.ts)
        turn = self._turns.of(event.turn)
        if turn is not None and event.answer is not None:
            self._turns.answered(turn, event, event.answer, span)

    def _take(self, asked: Asked | None) -> _Open | None:
        waiting = self._open.pop(asked.event, None) if asked is not None else None
        if waiting is not None:
            del self._held[waiting.asked.target][waiting.asked.event]
            self._progress.free(waiting.span.place)
        return waiting

    def _abandon(self, waiting: _Open) -> None:
        self._take(waiting.asked)
        waiting.span.attributes[names.UNFINISHED] = True
        self._progress.finish(waiting.span, self._progress.at)

    # -- notifications -------------------------------------------------------------------------

    def _prompt_of(self, turn: Turn) -> Span | None:
        """The prompt of a turn that the agent has."""
        held = reversed(self._held[AGENT].values())
        found = (one.span for one in held if one.turn is turn and one.asked.method == PROMPT)
        return next(found, None)

    def _passed(self, event: Event, got: int, since: float) -> None:
        """A component passes a notification on: how long it had it."""
        line = event.line
        place = self._progress.passed(line.source, since, line.ts)
        self._progress.finish(
            Span(
                what=What.PASSED,
                name=names.method(line.method, line.protocol),
                context=Context(1, 1),
                start=since,
                end=line.ts,
                attributes={
                    names.CHANGED: event.change is not Change.SAME,
                    names.BYTES_OUT: event.own.bytes or len(line.params),
                },
                place=place,
                origin=self._places.get(got),
                event=got,
            ),
            line.ts,
        )
        self._places[event.number] = place
        if len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)

    # -- verdicts ------------------------------------------------------------------------------

    def _verdict(self, event: Event, verdict: dict[str, str], outcome: str) -> None:
        """Conductor refused an act of a component, or would have: a moment of its request."""
        who, method, at = verdict.get("component", ""), verdict.get("method", ""), event.line.ts
        found: Attributes = {
            names.POLICY_VERDICT: outcome,
            names.POLICY_RULE: verdict.get("rule", ""),
            names.COMPONENT: who,
            names.RPC_METHOD: names.method(method),
        }
        moment = Moment(at, names.POLICY, found)
        span = self._concerned(event, who, method, verdict.get("session", ""))
        if span is not None:
            if len(span.moments) < _MOST_MOMENTS:
                span.moments.append(moment)
            return
        place = self._progress.place(who)
        self._progress.free(place)
        context = self._progress.ids.below(None)
        made = Span(
            what=What.VERDICT, name=names.POLICY, context=context, start=at, end=at,
            links=self._progress.links, attributes=found, moments=[moment], place=place,
            event=event.number,
        )  # fmt: skip
        self._progress.finish(made, at)

    def _concerned(self, event: Event, who: str, method: str, session: str) -> Span | None:
        """The span of a component's last request of this method, else of the turn."""
        held = [
            one
            for one in self._held[who].values()
            if one.asked.method == method and session in ("", one.asked.session)
        ]
        if held:
            return held[-1].span
        turn = self._turns.of(event.turn)
        return turn.span if turn is not None else None
