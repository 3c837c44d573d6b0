"""Makes spans of the events of a trace: one translation for a chain that runs and for a file.

Pure: lines go in, finished spans come out. What is open is bounded; beyond that the oldest is
forgotten, with a span that says it was not finished.
"""

from __future__ import annotations

import heapq
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
from conductor.telemetry import names, payloads
from conductor.telemetry.span import (
    Attributes,
    Context,
    Ids,
    Kind,
    Moment,
    Place,
    Span,
    What,
    read_traceparent,
)

TURNS: Final = "turns"
TOOLS: Final = "tools"
PASSED: Final = 100_000
"""The first row of notifications in each lane."""

_MOST_OPEN: Final = 10_000
_MOST_SEEN: Final = 20_000
_MOST_TOOLS: Final = 1_000
"""Tool calls of one turn that are open."""
_MOST_MOMENTS: Final = 100
_CANCELLED: Final = -32800
_QUESTION: Final = "session/request_permission"
_DONE: Final = frozenset({"completed", "failed", "cancelled"})


class _Open(msgspec.Struct):
    """A request without an answer so far."""

    line: Line
    own: Own
    span: Span
    key: Any
    turn: _Turn | None
    print: int
    passed: int | None = None
    """A hash of the params with which its receiver passed it on."""
    traceparent: str = ""


class _Turn(msgspec.Struct):
    """A prompt without an end so far."""

    span: Span
    session: str
    said: str = ""
    """The words of the answer, where content is exported."""
    tools: dict[str, Span] = {}
    person: float = 0.0
    inserted: bool = False


class _Seen(msgspec.Struct, gc=False):
    """A message that was seen, for what passes it on."""

    at: float
    print: int
    place: Place | None
    event: int


class _Lane:
    """The rows of one lane: the lowest free one is taken."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._count = 0
        self._ends: list[tuple[float, int]] = []
        """When each row of notifications is free again."""

    def take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._count += 1
        return self._count - 1

    def give(self, row: int) -> None:
        heapq.heappush(self._free, row)

    def passed(self, start: float, end: float) -> int:
        """A row of those for notifications, whose beginning is known late; ends only grow."""
        if self._ends and self._ends[0][0] <= start:
            row = self._ends[0][1]
            heapq.heapreplace(self._ends, (end, row))
            return row
        row = PASSED + len(self._ends)
        heapq.heappush(self._ends, (end, row))
        return row


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
        self._ids = ids
        self._content = content
        self._pictures = pictures
        self._facts = dict(facts or {})
        self._run = run
        self._links = (run.context,) if run is not None else ()
        self.components: list[str] = []
        """The names in the order of the chain, without its ends."""
        self._open: OrderedDict[Any, _Open] = OrderedDict()
        self._held: defaultdict[str, dict[Any, _Open]] = defaultdict(dict)
        """The open requests that each component has."""
        self._seen: OrderedDict[int, _Seen] = OrderedDict()
        self._turns: OrderedDict[str, _Turn] = OrderedDict()
        """The open turns, by session."""
        self._models: OrderedDict[str, str] = OrderedDict()
        """The model of each session."""
        self._agent: Attributes = {}
        self._version: int | None = None
        self._lanes: defaultdict[str, _Lane] = defaultdict(_Lane)
        self._number = -1
        self._at = 0.0
        self._done: list[Span] = []

    # -- lines ---------------------------------------------------------------------------------

    def take(self, text: bytes) -> list[Span]:
        """The spans that a line finishes; those within others come first."""
        return self.read(line_of(text))

    def read(self, line: Line | None) -> list[Span]:
        """The same for a line that was read; None: it says nothing here."""
        self._number += 1
        if line is None:
            return []
        if line.type == "_conductor":
            self._about(line)
        elif line.type in ("request", "notification", "response"):
            self._at = max(self._at, line.ts)
            for name in (line.source, line.target):
                self._known(name)
            own = line.own or Own()
            if line.type == "request":
                self._request(line, own)
            elif line.type == "response":
                self._response(line, own)
            else:
                self._notification(line, own)
        done, self._done = self._done, []
        return done

    def finish(self) -> list[Span]:
        """The spans of what is still open: nothing more will come."""
        for waiting in [*self._open.values()]:
            self._abandon(waiting)
        for turn in [*self._turns.values()]:
            turn.span.attributes[names.UNFINISHED] = True
            self._end_turn(turn, self._at)
        if self._run is not None:
            self._run.attributes[names.CHAIN] = self._chain
            self._finished(self._run, self._at)
        done, self._done = self._done, []
        return done

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
            self._begin_turn(line, body)
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
        lane = self._lanes[line.target]
        span = Span(
            what=What.MCP if line.protocol == "mcp" else What.HOP,
            name=self._hop_name(line, body),
            kind=_kind(line),
            context=self._ids.below(context),
            parent=context,
            is_remote=remote is not None,
            links=self._links if context is None else (),
            start=line.ts,
            end=line.ts,
            attributes=self._hop_attributes(line, own, body),
            moments=[],
            place=Place(line.target, lane.take()),
            origin=parent.place if isinstance(parent, Span) else None,
            event=self._number,
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

    def _passed_on(self, line: Line, own: Own) -> _Open | None:
        """The request that the sender passes on by this one."""
        if own.passes:
            return self._open.get(own.passes)
        if own.n or line.source in (CLIENT, AGENT):
            return None
        # Another program's trace does not say: the oldest of the same method and session.
        for waiting in self._held[line.source].values():
            same = (waiting.line.method, waiting.line.names_session)
            if waiting.passed is None and same == (line.method, line.names_session):
                return waiting
        return None

    def _turn_of(self, line: Line, passed_on: _Open | None) -> _Turn | None:
        if passed_on is not None and passed_on.turn is not None:
            return passed_on.turn
        session = line.names_session
        if session:
            return self._turns.get(session)
        return next(iter(self._turns.values())) if len(self._turns) == 1 else None

    def _around(self, source: str, turn: _Turn | None) -> _Open | None:
        """What the sender of a request of its own works on, if that is certain: the last request
        that it has of this turn."""
        held = [one for one in self._held[source].values() if one.turn is turn]
        if turn is None and len(held) != 1:
            return None
        return held[-1] if held else None

    def _hop_name(self, line: Line, body: payloads.Params) -> str:
        method = names.method(line.method, line.protocol)
        if line.protocol == "mcp" and line.method in ("tools/call", "prompts/get"):
            return f"{method} {payloads.name_of(body.name)}".rstrip()
        return method

    def _hop_attributes(self, line: Line, own: Own, body: payloads.Params) -> Attributes:
        found: Attributes = {
            names.RPC_SYSTEM: "jsonrpc",
            names.RPC_METHOD: names.method(line.method, line.protocol),
            names.SOURCE: line.source,
            names.COMPONENT: line.target,
            names.BYTES_IN: own.bytes or len(line.params),
            **self._facts.get(line.target, {}),
        }
        if line.target in self.components:
            found[names.INDEX] = self.components.index(line.target)
        written = own.id if own.id != b"null" else line.id
        if written != b"null":
            found[names.REQUEST_ID] = bytes(written).decode(errors="replace").strip('"')[:200]
        if self._version is not None:
            found[names.ACP_VERSION] = self._version
        if line.names_session:
            found[names.SESSION] = line.names_session[: payloads.MOST_NAME]
        if line.protocol == "mcp":
            self._mcp_attributes(found, line, body)
        return found

    def _mcp_attributes(self, found: Attributes, line: Line, body: payloads.Params) -> None:
        found[names.MCP_METHOD] = found.pop(names.RPC_METHOD)
        name, uri = payloads.name_of(body.name), payloads.name_of(body.uri)
        if line.method == "tools/call" and name:
            found[names.TOOL_NAME] = name
            found[names.OPERATION] = names.EXECUTE
            if self._content and (text := payloads.json_text(body.arguments)):
                found[names.TOOL_ARGUMENTS] = text
        elif line.method == "prompts/get" and name:
            found[names.PROMPT_NAME] = name
        if uri:
            found[names.MCP_RESOURCE] = uri
        if body.meta is not None and (version := payloads.name_of(body.meta.mcp_version)):
            found[names.MCP_VERSION] = version

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
            self._failed(span, line, own)
        elif body.is_error is True and asked.protocol == "mcp":
            span.error = found[names.ERROR] = "tool_error"
        if body.stop == "cancelled":
            found[names.CANCELLED] = True
        if own.n:
            self._remember(own.n, _Seen(line.ts, _print(line, own), span.place, self._number))
        self._learn(asked, line, body)
        self._finished(span, line.ts)
        turn = waiting.turn
        if turn is None:
            return
        if asked.method == _QUESTION and line.source == CLIENT:
            turn.person += line.ts - span.start
        if asked.method == PROMPT and line.target == CLIENT:
            self._answered(turn, line, span, body)

    def _failed(self, span: Span, line: Line, own: Own) -> None:
        """An error as its answer."""
        error = payloads.error(line.payload)
        code = error.code if error.code is not None else own.code
        found = span.attributes
        if code is not None:
            found[names.RPC_STATUS] = str(code)
        if code == _CANCELLED:
            found[names.CANCELLED] = True
            return
        kind = str(code) if code is not None else names.OTHER
        if own.by and isinstance(error.data, dict) and "component" in error.data:
            data = error.data
            died = not {"exit_code", "signal"}.isdisjoint(data)
            kind = "component_died" if died else "policy_denied" if "rule" in data else kind
        found[names.ERROR] = kind
        message = payloads.name_of(error.message) if self._content else ""
        span.error = message or kind

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

    def _learn(self, asked: Line, line: Line, body: payloads.Result) -> None:
        """What answers say about agent and model."""
        if asked.method == "initialize" and line.source == AGENT and asked.protocol != "mcp":
            if isinstance(body.version, int):
                self._version = min(max(body.version, 0), 1 << 31)
            if body.agent is not None:
                name, version = (payloads.name_of(x) for x in (body.agent.name, body.agent.version))
                self._agent = {
                    names.AGENT_NAME: name,
                    names.AGENT_VERSION: version,
                    names.PROVIDER: names.provider(name),
                }
        elif line.target == CLIENT and body.model:
            session = payloads.name_of(body.session) or asked.names_session
            self._models[session] = body.model
            if len(self._models) > _MOST_OPEN:
                self._models.popitem(last=False)
        elif line.target == CLIENT and asked.method == "session/set_model" and not line.is_error:
            chosen = payloads.name_of(payloads.params(asked.params).modelId)
            if chosen:
                self._models[asked.names_session] = chosen

    def _take(self, key: Any) -> _Open | None:
        waiting = self._open.pop(key, None)
        if waiting is not None:
            del self._held[waiting.line.target][key]
            self._lanes[waiting.span.place.lane].give(waiting.span.place.row)
        return waiting

    def _abandon(self, waiting: _Open) -> None:
        self._take(waiting.key)
        waiting.span.attributes[names.UNFINISHED] = True
        self._finished(waiting.span, self._at)

    def _finished(self, span: Span, at: float) -> None:
        span.end = max(at, span.start)
        self._done.append(span)

    # -- turns ---------------------------------------------------------------------------------

    def _begin_turn(self, line: Line, body: payloads.Params) -> None:
        session = line.names_session
        if (before := self._turns.get(session)) is not None:
            before.span.attributes[names.UNFINISHED] = True
            self._end_turn(before, line.ts)
        remote = read_traceparent(body.traceparent) if body.traceparent else None
        agent = self._agent.get(names.AGENT_NAME, "") or AGENT
        span = Span(
            what=What.TURN,
            name=f"{names.INVOKE} {agent}",
            context=self._ids.below(remote),
            parent=remote,
            is_remote=remote is not None,
            links=self._links,
            start=line.ts,
            end=line.ts,
            attributes={
                names.OPERATION: names.INVOKE,
                names.PROVIDER: names.OTHER,
                **self._agent,
                names.CONVERSATION: session[: payloads.MOST_NAME],
                names.SESSION: session[: payloads.MOST_NAME],
                names.CHAIN: self._chain,
            },
            moments=[],
            place=Place(TURNS, self._lanes[TURNS].take()),
            event=self._number,
        )
        if model := self._models.get(session):
            span.attributes[names.MODEL] = model
        if self._content:
            span.attributes[names.INPUT] = payloads.message("user", payloads.words(line.params))
        self._turns[session] = _Turn(span, session, tools={})
        if len(self._turns) > _MOST_OPEN:
            self._end_turn(next(iter(self._turns.values())), line.ts)

    def _answered(self, turn: _Turn, line: Line, hop: Span, body: payloads.Result) -> None:
        """The client has the answer to its prompt."""
        found = turn.span.attributes
        if line.is_error:
            turn.span.error = hop.error
            if names.ERROR in hop.attributes:
                found[names.ERROR] = hop.attributes[names.ERROR]
        if names.CANCELLED in hop.attributes:
            found[names.CANCELLED] = True
        usage = body.usage
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
        stop = payloads.name_of(body.stop)
        if body.message is not None and not stop and not line.is_error:
            turn.inserted = True  # ACP v2: an update ends the turn
            return
        self._end_turn(turn, line.ts, stop)

    def _end_turn(self, turn: _Turn, at: float, stop: str = "") -> None:
        for tool in turn.tools.values():
            tool.attributes[names.UNFINISHED] = True
            self._end_tool(tool, at)
        turn.tools.clear()
        found = turn.span.attributes
        if stop:
            found[names.FINISH] = (stop,)
            if stop == "cancelled":
                found[names.CANCELLED] = True
        if turn.person:
            found[names.PERSON_TIME] = round(turn.person, 6)
        if self._content and turn.said:
            found[names.OUTPUT] = payloads.message("assistant", turn.said, stop)
        if self._turns.get(turn.session) is turn:
            del self._turns[turn.session]
        self._lanes[TURNS].give(turn.span.place.row)
        self._finished(turn.span, at)

    # -- notifications -------------------------------------------------------------------------

    def _notification(self, line: Line, own: Own) -> None:
        if self._pictures:
            self._passed(line, own)
        if line.method != UPDATE or line.target != CLIENT:
            return
        turn = self._turns.get(line.names_session)
        if turn is None:
            return
        update = payloads.update(line.params)
        if update is None:
            return
        if update.kind in ("agent_message_chunk", "agent_message"):
            if self._content and len(turn.said) < payloads.MOST_TEXT:
                turn.said = (turn.said + update.text)[: payloads.MOST_TEXT]
        elif update.kind in ("tool_call", "tool_call_update"):
            self._tool(turn, line, update)
        elif update.kind == "usage_update" and update.price is not None:
            found = turn.span.attributes
            found[names.COST], found[names.CURRENCY] = update.price
        elif update.kind == "state_update" and update.state == "idle" and turn.inserted:
            self._end_turn(turn, line.ts, payloads.name_of(update.stop) or "end_turn")

    def _passed(self, line: Line, own: Own) -> None:
        """A component passes a notification on: how long it had it."""
        got = self._seen.get(own.passes) if own.passes else None
        place = None
        if got is not None and not own.by and line.source in self.components:
            place = Place(line.source, self._lanes[line.source].passed(got.at, line.ts))
            self._finished(
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
            self._remember(own.n, _Seen(line.ts, _print(line, own), place, self._number))

    def _tool(self, turn: _Turn, line: Line, update: payloads.Update) -> None:
        id_ = payloads.name_of(update.id)
        span = turn.tools.get(id_)
        if span is None:
            if len(turn.tools) >= _MOST_TOOLS or update.kind != "tool_call":
                return
            parent = turn.span
            for waiting in self._held[AGENT].values():
                if waiting.turn is turn and waiting.line.method == PROMPT:
                    parent = waiting.span
            name = payloads.name_of(update.name)
            span = turn.tools[id_] = Span(
                what=What.TOOL,
                name=f"{names.EXECUTE} {name}".rstrip(),
                context=self._ids.below(parent.context),
                parent=parent.context,
                start=line.ts,
                end=line.ts,
                attributes={names.OPERATION: names.EXECUTE, names.TOOL_ID: id_},
                place=Place(TOOLS, self._lanes[TOOLS].take()),
                origin=parent.place,
                event=self._number,
            )
            if name:
                span.attributes[names.TOOL_NAME] = name
            span.attributes[names.CONVERSATION] = turn.session[: payloads.MOST_NAME]
        if kind := payloads.name_of(update.tool_kind):
            span.attributes[names.TOOL_KIND] = kind
        if self._content:
            for name, raw in (
                (names.TOOL_ARGUMENTS, update.input),
                (names.TOOL_RESULT, update.output),
            ):
                if text := payloads.json_text(raw):
                    span.attributes[name] = text
        if update.status in _DONE:
            del turn.tools[id_]
            if update.status == "failed":
                span.error = span.attributes[names.ERROR] = "tool_error"
            elif update.status == "cancelled":
                span.attributes[names.CANCELLED] = True
            self._end_tool(span, line.ts)

    def _end_tool(self, span: Span, at: float) -> None:
        self._lanes[TOOLS].give(span.place.row)
        self._finished(span, at)

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
        lane = self._lanes[who]
        place = Place(who, lane.take())
        lane.give(place.row)
        context = self._ids.below(None)
        made = Span(
            what=What.VERDICT, name=names.POLICY, context=context, start=at, end=at,
            links=self._links, attributes=found, moments=[moment], place=place, event=self._number,
        )  # fmt: skip
        self._finished(made, at)

    def _concerned(self, who: str, method: str, session: str) -> Span | None:
        """The span of what a component has of this method, else of the turn."""
        held = [
            one
            for one in self._held[who].values()
            if one.line.method == method and session in ("", one.line.names_session)
        ]
        if held:
            return held[-1].span
        if session in self._turns:
            return self._turns[session].span
        if len(self._turns) == 1:
            return next(iter(self._turns.values())).span
        return None

    def _remember(self, number: int, seen: _Seen) -> None:
        self._seen[number] = seen
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


def _kind(line: Line) -> Kind:
    """A request enters the chain as at a server; to what follows conductor is the client. Of MCP
    the agent is the client, and the component the server."""
    if line.protocol == "mcp":
        return Kind.CLIENT if line.source == AGENT else Kind.SERVER
    return Kind.SERVER if line.source in (CLIENT, AGENT) else Kind.CLIENT


def _print(line: Line, own: Own) -> int:
    """A hash of what a message holds; without content, of its size."""
    return hash(bytes(line.body)) if line.body != b"null" else own.bytes
