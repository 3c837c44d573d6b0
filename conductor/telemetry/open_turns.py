"""Makes spans of turns and of the tool calls within them, from the events of a trace."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from conductor.record.turns.event import Event
from conductor.record.turns.line import AGENT, CLIENT, Line, Prompted
from conductor.record.turns.messages import Update
from conductor.record.turns.open_turn import OpenTurn, ToolCall
from conductor.record.turns.seen import Asked
from conductor.telemetry import names, payloads
from conductor.telemetry.progress import TOOLS, TURNS, Progress
from conductor.telemetry.span import Attributes, Span, What, read_traceparent

_MOST_OPEN: Final = 10_000


class Turn(msgspec.Struct, eq=False):
    """A turn of the client without an end so far."""

    of: OpenTurn
    span: Span
    tools: dict[str, Span] = {}


class Turns:
    """The open turns of one trace that the client has asked for."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._open: OrderedDict[int, Turn] = OrderedDict()
        """By number."""
        self._models: OrderedDict[str, str] = OrderedDict()
        """The model of each session."""
        self._agent: Attributes = {}

    def of(self, turn: OpenTurn) -> Turn | None:
        """The open turn, as spans have it."""
        return self._open.get(turn.number)

    def finish(self) -> None:
        """Nothing more will come."""
        while self._open:
            self._abandon()

    def begin(self, event: Event, body: payloads.Params, chain: str) -> None:
        """The client sends a prompt; `chain`: the names of its components."""
        line, session = event.line, event.turn.session
        remote = read_traceparent(body.traceparent) if body.traceparent else None
        agent = self._agent.get(names.AGENT_NAME, "") or AGENT
        span = Span(
            what=What.TURN,
            name=f"{names.INVOKE} {agent}",
            context=self._progress.ids.below(remote),
            parent=remote,
            is_remote=remote is not None,
            links=self._progress.links,
            start=line.ts,
            end=line.ts,
            attributes={
                names.OPERATION: names.INVOKE,
                names.PROVIDER: names.OTHER,
                **self._agent,
                names.CONVERSATION: session[: payloads.MOST_NAME],
                names.SESSION: session[: payloads.MOST_NAME],
                names.CHAIN: chain,
            },
            moments=[],
            place=self._progress.place(TURNS),
            event=event.number,
        )
        if model := self._models.get(session):
            span.attributes[names.MODEL] = model
        if self._progress.content:
            span.attributes[names.INPUT] = payloads.message("user", event.turn.prompt)
        self._open[event.turn.number] = Turn(event.turn, span, tools={})
        if len(self._open) > _MOST_OPEN:
            self._abandon()

    def answered(self, turn: Turn, event: Event, answer: Prompted, hop: Span) -> None:
        """The client has the answer to its prompt."""
        found = turn.span.attributes
        if event.line.is_error:
            turn.span.error = hop.error
            if names.ERROR in hop.attributes:
                found[names.ERROR] = hop.attributes[names.ERROR]
        if names.CANCELLED in hop.attributes:
            found[names.CANCELLED] = True
        usage = answer.usage
        if usage is not None:
            for name, count in (
                (names.INPUT_TOKENS, usage.inputTokens),
                (names.OUTPUT_TOKENS, usage.outputTokens),
                (names.CACHE_READ, usage.cachedReadTokens),
                (names.CACHE_CREATION, usage.cachedWriteTokens),
                (names.REASONING, usage.thoughtTokens),
            ):
                if count is not None:
                    found[name] = count
        if event.ends:
            self._end(turn, event.line.ts, payloads.name_of(answer.stop))

    def _abandon(self) -> None:
        """The oldest turn ends without its answer."""
        turn = next(iter(self._open.values()))
        turn.span.attributes[names.UNFINISHED] = True
        self._end(turn, self._progress.at)

    def _end(self, turn: Turn, at: float, stop: str = "") -> None:
        for tool in turn.tools.values():
            tool.attributes[names.UNFINISHED] = True
            self._end_tool(tool, at)
        turn.tools.clear()
        found = turn.span.attributes
        if stop:
            found[names.FINISH] = (stop,)
            if stop == "cancelled":
                found[names.CANCELLED] = True
        if turn.of.person.ms:
            found[names.PERSON_TIME] = round(turn.of.person.ms / 1000, 6)
        if turn.of.usage is not None and turn.of.usage.cost is not None:
            found[names.COST], found[names.CURRENCY] = (
                turn.of.usage.cost,
                payloads.name_of(turn.of.usage.currency),
            )
        if self._progress.content and turn.of.answer:
            found[names.OUTPUT] = payloads.message("assistant", turn.of.answer, stop)
        del self._open[turn.of.number]
        self._progress.free(turn.span.place)
        self._progress.finish(turn.span, at)

    def learn(self, asked: Asked, line: Line, body: payloads.Result, model: str) -> None:
        """Takes facts about the agent and the model from an answer; `model`: the chosen model."""
        if is_agents(asked, line):
            self._met(body)
        elif line.target == CLIENT and not line.is_error and (model := body.model or model):
            self._models[payloads.name_of(body.session) or asked.session] = model
            if len(self._models) > _MOST_OPEN:
                self._models.popitem(last=False)

    def _met(self, body: payloads.Result) -> None:
        if agent := body.agent:
            name, version = (payloads.name_of(agent.get(each)) for each in ("name", "version"))
            self._agent = {
                names.AGENT_NAME: name,
                names.AGENT_VERSION: version,
                names.PROVIDER: names.provider(name),
            }

    def update(self, event: Event, update: Update, asked: Callable[[Turn], Span | None]) -> None:
        """The client gets an update; `asked` finds the prompt of a turn that the agent has."""
        turn = self.of(event.turn)
        if turn is None:
            return
        if event.tool is not None:
            self._tool(turn, event, event.tool, update, asked)
        elif event.ends:
            self._end(turn, event.line.ts, payloads.name_of(turn.of.stop))

    def _tool(
        self,
        turn: Turn,
        event: Event,
        call: ToolCall,
        update: Update,
        asked: Callable[[Turn], Span | None],
    ) -> None:
        span = turn.tools.get(call.id)
        if span is None:
            if call.first != event.number:
                return  # it has ended
            name = payloads.name_of(update.held.get("name"))
            span = self._tool_began(event, call, name, asked(turn) or turn.span)
            span.attributes[names.CONVERSATION] = turn.of.session[: payloads.MOST_NAME]
            turn.tools[call.id] = span
        if kind := payloads.name_of(update.held.get("kind")):
            span.attributes[names.TOOL_KIND] = kind
        if self._progress.content:
            for name, member in (
                (names.TOOL_ARGUMENTS, "rawInput"),
                (names.TOOL_RESULT, "rawOutput"),
            ):
                if member in update.held and (text := payloads.value_text(update.held[member])):
                    span.attributes[name] = text
        if call.is_done:
            del turn.tools[call.id]
            if call.status == "failed":
                span.error = span.attributes[names.ERROR] = "tool_error"
            elif call.status == "cancelled":
                span.attributes[names.CANCELLED] = True
            self._end_tool(span, event.line.ts)

    def _tool_began(self, event: Event, call: ToolCall, name: str, parent: Span) -> Span:
        """The span of a tool call."""
        span = Span(
            what=What.TOOL,
            name=f"{names.EXECUTE} {name}".rstrip(),
            context=self._progress.ids.below(parent.context),
            parent=parent.context,
            start=event.line.ts,
            end=event.line.ts,
            attributes={names.OPERATION: names.EXECUTE, names.TOOL_ID: call.id},
            place=self._progress.place(TOOLS),
            origin=parent.place,
            event=event.number,
        )
        if name:
            span.attributes[names.TOOL_NAME] = name
        return span

    def _end_tool(self, span: Span, at: float) -> None:
        self._progress.free(span.place)
        self._progress.finish(span, at)


def is_agents(asked: Asked, line: Line) -> bool:
    """Whether an answer is that of the agent to `initialize`."""
    return asked.method == "initialize" and line.source == AGENT and asked.protocol != "mcp"
