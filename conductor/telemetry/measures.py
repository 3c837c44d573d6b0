"""Numbers of a chain that runs, from the events of its trace. Pure: events go in, numbers come out.

The sets of labels are bounded: components are those of the chain, methods those of the schema.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple, Protocol

from conductor.core.policy.key_table import STOP_REASONS
from conductor.record.turns import edits
from conductor.record.turns.event import Event
from conductor.record.turns.fold import Fold
from conductor.record.turns.line import AGENT, ENDS, Error, Line
from conductor.record.turns.open_turn import OpenTurn
from conductor.record.turns.seen import Asked
from conductor.telemetry import names, payloads

Labels = dict[str, str]

_MOST_OPEN: Final = 10_000
_MOST_NAMES: Final = 200
_MOST_PROMPTS: Final = 512 * 1024
"""Bytes of two prompts of which changes are counted."""
_CONNECT: Final = "mcp/connect"
_DISCONNECT: Final = "mcp/disconnect"


class Number(NamedTuple):
    """A number that is kept."""

    name: str
    unit: str
    what: str
    kind: str = "counter"
    buckets: tuple[float, ...] = ()


_MILLISECONDS: Final = (1, 2.5, 5, 10, 25, 50, 100, 250, 500)
_SECONDS: Final = (*(ms / 1000 for ms in _MILLISECONDS), 1, 2.5, 5, 10, 30, 120, 600)
_TOKENS: Final = tuple(float(4**power) for power in range(14))


def _time(name: str, what: str) -> Number:
    return Number(name, "s", what, "histogram", _SECONDS)


HOP: Final = _time("conductor.hop.duration", "Time from a request to its answer.")
OWN: Final = _time(
    "conductor.own.duration",
    "Time that a component itself had a request, without that further down the chain.",
)
TURN: Final = _time("conductor.turn.duration", "Time from a prompt to the end of its turn.")
MCP_CLIENT: Final = _time("mcp.client.operation.duration", "Time of a request of MCP of the agent.")
MCP_SERVER: Final = _time("mcp.server.operation.duration", "Time of another request of MCP.")
MCP_CLIENT_SESSION: Final = _time(
    "mcp.client.session.duration", "Time of a connection of MCP of the agent."
)
MCP_SERVER_SESSION: Final = _time(
    "mcp.server.session.duration", "Time of another connection of MCP."
)
MESSAGES: Final = Number("conductor.messages", "", "Messages that a component got.")
BYTES: Final = Number("conductor.bytes", "By", "Bytes of their params, results and errors.")
ADDED: Final = Number("conductor.tokens.added", "", "Tokens added to prompts, estimated.")
VERDICTS: Final = Number("conductor.verdicts", "", "Actions of a component that conductor refused.")
WOULD: Final = Number(
    "conductor.would", "", "Watched acts of a component: conductor would have refused the act, or "
                           "the component would have changed a message."
)  # fmt: skip
USAGE: Final = Number(
    "gen_ai.client.token.usage", "", "Tokens of a turn, as the agent reports them.", "histogram",
    _TOKENS,
)  # fmt: skip
RESTARTS: Final = Number("conductor.restarts", "", "How often a component was started again.")
OUTBOX: Final = Number(
    "conductor.outbox.bytes", "By", "Bytes that wait to be written to a component.", "gauge"
)
MEMORY: Final = Number(
    "conductor.guest.memory", "By", "Bytes of memory of a child that hosts guests.", "gauge"
)
STATE: Final = (RESTARTS, OUTBOX, MEMORY)
"""The numbers that are read when somebody looks."""


class Keeper(Protocol):
    """Keeps numbers."""

    def add(self, number: Number, labels: Labels, amount: float) -> None:
        """A counter grows."""

    def record(self, number: Number, labels: Labels, value: float) -> None:
        """One more value of a histogram."""


class Measures:
    """Takes the events of a trace in order, and gives its numbers to the keepers."""

    def __init__(self, fold: Fold, *keepers: Keeper) -> None:
        """`fold`: the source of the events."""
        self._fold = fold
        self._keepers = keepers
        self._connections: OrderedDict[str, float] = OrderedDict()
        """When each connection of MCP began, by its id."""

    def take(self, event: Event) -> None:
        """Takes an event."""
        line = event.line
        if line.verdict is not None:
            self._verdict(line.verdict)
        elif line.type == "response":
            if event.asked is not None:
                self._response(event, line, event.asked)
        elif line.is_event:
            self._call(event, line)
        if event.ends and not event.turn.by:
            self._turn(event, event.turn)

    def _add(self, number: Number, amount: float, **labels: str) -> None:
        for keeper in self._keepers:
            keeper.add(number, labels, amount)

    def _record(self, number: Number, value: float, **labels: str) -> None:
        for keeper in self._keepers:
            keeper.record(number, labels, value)

    def _component(self, name: str) -> str:
        known = name in ENDS or name in self._fold.order[:_MOST_NAMES]
        return name if known else names.OTHER

    def _got(self, line: Line, method: str, direction: str, size: int) -> None:
        labels = {
            "component": self._component(line.target),
            "method": method,
            "direction": direction,
        }
        self._add(MESSAGES, 1, type=line.type, **labels)
        self._add(BYTES, size, **labels)

    def _call(self, event: Event, line: Line) -> None:
        method = names.method(line.method, line.protocol)
        self._got(line, method, self._fold.direction(line.source, line.target), event.own.bytes)
        if line.method == _DISCONNECT:
            self._disconnected(line)
        elif event.before is not None and len(event.before) + len(line.params) < _MOST_PROMPTS:
            added = edits.added_tokens(edits.edits(bytes(event.before), bytes(line.params)))
            if added > 0:
                self._add(ADDED, added, component=self._component(line.source))

    def _response(self, event: Event, line: Line, asked: Asked) -> None:
        method, own = names.method(asked.method, asked.protocol), event.own
        direction = self._fold.direction(asked.source, asked.target)
        back = {"down": "up", "up": "down"}.get(direction, direction)
        self._got(line, method, back, own.bytes)
        component, failed = self._component(line.source), _error(event.error)
        seconds = max(line.ts - asked.at, 0.0)
        labels = {"component": component, "method": method}
        self._record(HOP, seconds, direction=direction, error=failed, **labels)
        self._record(OWN, event.ms_in / 1000, **labels)
        if asked.protocol == "mcp":
            number = MCP_CLIENT if line.target == AGENT else MCP_SERVER
            self._record(number, seconds, **{"mcp.method.name": method, "error.type": failed})
        if asked.method == _CONNECT and not line.is_error:
            self._connected(line)
        if event.answer is not None and event.answer.usage is not None and not event.turn.by:
            usage = event.answer.usage
            counts = {"input": usage.inputTokens, "output": usage.outputTokens}
            for kind, count in counts.items():
                if count is not None and 0 <= count < 1 << 53:
                    self._record(USAGE, count, **{"gen_ai.token.type": kind})

    def _connected(self, line: Line) -> None:
        """A connection of MCP begins: where it is known by the id that its opener gets."""
        name = payloads.name_of(payloads.result(line.payload).connectionId)
        self._connections[f"{line.target} {name}"] = line.ts
        if len(self._connections) > _MOST_OPEN:
            self._connections.popitem(last=False)

    def _disconnected(self, line: Line) -> None:
        name = payloads.name_of(payloads.params(line.params).connectionId)
        began = self._connections.pop(f"{line.source} {name}", None)
        if began is not None:
            number = MCP_CLIENT_SESSION if line.source == AGENT else MCP_SERVER_SESSION
            self._record(number, max(line.ts - began, 0.0))

    def _turn(self, event: Event, turn: OpenTurn) -> None:
        stop = turn.stop if event.answer is None else event.answer.stop
        stop = "error" if turn.failed else stop if stop in STOP_REASONS else names.OTHER
        self._record(TURN, (turn.ms or 0.0) / 1000, stop=stop)

    def _verdict(self, verdict: dict[str, Any]) -> None:
        who, rule = verdict.get("component"), verdict.get("rule")
        if isinstance(who, str) and isinstance(rule, str):
            number = WOULD if verdict.get("would") else VERDICTS
            self._add(number, 1, component=self._component(who), rule=rule)


def _error(error: Error | None) -> str:
    """The code of an error; empty: there is none. All codes without a specification are one."""
    if error is None:
        return ""
    code = error.code
    reserved = code is not None and (-32900 <= code <= -32000)
    return str(code) if reserved else names.OTHER
