"""Reads the lines of a trace, ours or the reference's: events, how they belong together, turns.

Each line is read once. What is kept of an event are a few numbers; its text stays where it is
(`conductor.record.turns.lines`) and is read again when somebody looks at it. So a trace may be much
larger than memory.
"""

from __future__ import annotations

import zlib
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from conductor.core.json_text import hide_surrogates
from conductor.errors import UsageError
from conductor.record.turns import edits, tokens
from conductor.record.turns.lines import FileLines, HeldLines
from conductor.record.turns.model import Change, Head, Row, Share, Turn, TurnDetail, Usage

PROMPT: Final = "session/prompt"
UPDATE: Final = "session/update"
_QUESTION: Final = "session/request_permission"
CLIENT: Final = "client"
AGENT: Final = "agent"
CONDUCTOR: Final = "conductor"
_ENDS: Final = {"Client": CLIENT, "Agent": AGENT}
"""What the reference calls the ends of a chain."""

_REMEMBERED: Final = 100_000
"""Messages whose numbers are known, to find what passes them on."""
_MOST_OPEN: Final = 10_000
"""Requests without an answer that are known."""
_WAITING: Final = 256
"""Notifications that a component got and may still pass on, of one method and session; in traces
that do not say what passes on what."""
_MOST_GAPS: Final = 20
_SHOWN: Final = 500
"""Characters of a prompt and an answer in a turn's summary."""

_CHANGES: Final = tuple(Change)
_PLACES: Final = {change: place for place, change in enumerate(_CHANGES)}
_NO_CHANGE: Final = 255
"""In place of a change: the sender is an end of the chain, or the conductor."""
_COUNTED: Final = {Change.CHANGED, Change.ANSWERED, Change.ORIGINATED, Change.DROPPED}


class Own(msgspec.Struct, gc=False):
    """Our own members of an event (docs/cli.md, "Traces")."""

    bytes: int = 0
    id: msgspec.Raw = msgspec.Raw(b"null")
    n: int = 0
    of: int = 0
    passes: int = 0
    carrier: str = ""
    method: str = ""
    session: Any = None
    ms: float | None = None
    ms_in: float | None = None
    past: bool = False
    lost: bool = False
    by: str = ""
    code: int | None = None
    through: list[str] = []


class Line(msgspec.Struct, gc=False):
    """A line of a trace, as far as it is understood."""

    type: str = ""
    ts: float = 0.0
    protocol: str = "acp"
    source: str = msgspec.field(name="from", default="")
    target: str = msgspec.field(name="to", default="")
    id: msgspec.Raw = msgspec.Raw(b"null")
    method: str = ""
    session: Any = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    payload: msgspec.Raw = msgspec.Raw(b"null")
    is_error: bool = False
    error_domain: str = ""
    own: Own | None = msgspec.field(name="_conductor", default=None)
    # Of lines of type `_conductor`:
    format: int | None = None
    content: str = ""
    components: list[str] | None = None
    verdict: dict[str, Any] | None = None

    @property
    def body(self) -> msgspec.Raw:
        """Its params, result or error."""
        return self.payload if self.type == "response" else self.params

    @property
    def names_session(self) -> str:
        """The session that it names; empty: none."""
        session = self.session or (self.own.session if self.own is not None else None)
        return session if isinstance(session, str) else ""


_decode: Final = msgspec.json.Decoder(Line).decode
_KINDS: Final = ("request", "response", "notification")


class _Error(msgspec.Struct):
    code: int | None = None
    message: str = ""


class _Content(msgspec.Struct):
    text: str = ""


class _Cost(msgspec.Struct):
    amount: float = 0.0
    currency: str = ""


class Update(msgspec.Struct, rename={"kind": "sessionUpdate"}):
    """A `session/update`, as far as a summary needs it."""

    kind: str = ""
    content: Any = None
    state: str = ""
    stop: str = msgspec.field(name="stopReason", default="")
    cost: _Cost | None = None


class _Updated(msgspec.Struct):
    update: Update = msgspec.field(default_factory=Update)


class _Tokens(msgspec.Struct):
    inputTokens: int = 0  # noqa: N815 - ACP's names
    outputTokens: int = 0  # noqa: N815
    thoughtTokens: int | None = None  # noqa: N815
    cachedReadTokens: int | None = None  # noqa: N815


class _Prompted(msgspec.Struct):
    stop: str = msgspec.field(name="stopReason", default="")
    message: str = msgspec.field(name="messageId", default="")
    usage: _Tokens | None = None


_error: Final = msgspec.json.Decoder(_Error).decode
_updated: Final = msgspec.json.Decoder(_Updated).decode
_prompted: Final = msgspec.json.Decoder(_Prompted).decode
_BAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_line(line: bytes) -> Line | None:
    """A line of a trace; None if it is none. Lone surrogates are replaced."""
    try:
        return _decode(line)
    except _BAD:
        pass
    try:
        hidden = hide_surrogates(line)
        return _decode(hidden) if hidden is not None else None
    except _BAD:
        return None


class _Seen(msgspec.Struct, gc=False):
    """A message that was seen, for what passes it on."""

    event: int
    at: float
    print: int
    """A hash of its body."""
    turn: int


class _Open(msgspec.Struct):
    """A request without an answer so far."""

    event: int
    at: float
    source: str
    target: str
    method: str
    session: str
    turn: int
    parent: _Open | None
    """The request that its sender passes on by it."""
    passed: bool = False
    outside: float = 0.0
    """Milliseconds that those further down had it."""
    number: int = 0


class _Share(msgspec.Struct):
    """A component's share of a turn, as it grows."""

    ms: float = 0.0
    until: float = 0.0
    """Until when the notifications that it held are counted in `ms`."""
    got_text: int = 0
    sent_text: int = 0
    """Checksums of the words of the agent that it got and passed on: it may cut them anew."""
    messages: int = 0
    changed: int = 0
    tokens: int = 0
    verdicts: int = 0
    says: str = ""


class OpenTurn:
    """A turn, as it grows."""

    def __init__(self, number: int, session: str, at: float, event: int) -> None:
        self.number = number
        self.session = session
        self.at = at
        self.first = self.last = event
        self.ms: float | None = None
        self.prompt = self.answer = self.stop = ""
        self.failed = False
        self.person_ms = 0.0
        self.shares: dict[str, _Share] = {}
        self.usage: Usage | None = None
        self.tokens_in = self.tokens_out = self.tools = self.verdicts = 0
        self.inserted = False
        """Its prompt was answered when it was inserted (ACP v2); its end is an update."""

    def share(self, component: str) -> _Share:
        """What a component has of it."""
        found = self.shares.get(component)
        if found is None:
            found = self.shares[component] = _Share()
        return found


class Stored(Protocol):
    """The lines that a reader has taken, by number."""

    def line(self, number: int) -> bytes:
        """A line; empty if it is not there any more."""


class Reader:
    """Takes the lines of one trace in order. Never raises for what a line holds."""

    def __init__(self, lines: Stored, source: str = "") -> None:
        """`lines`: where each line can be read again once it was taken. `source`: what is shown as
        the origin of the trace."""
        self._lines = lines
        self._head = Head(source=source, content="unknown")
        self._order: list[str] = []
        """Names of proxies, in the order of the chain."""
        self._met: set[str] = set()
        """Names of the ends of events."""
        self._is_ours = False
        self._pairs = array("i")
        self._turn_of = array("i")
        self._change_of = bytearray()
        self._seen: OrderedDict[int, _Seen] = OrderedDict()
        """By number of the message."""
        self._open: OrderedDict[Any, _Open] = OrderedDict()
        """By number of the request, else by requester, receiver and id."""
        self._waiting: dict[tuple[str, str, str], deque[int]] = {}
        """Of traces without numbers: what a component may pass on, by its events."""
        self._turns: list[OpenTurn] = [OpenTurn(0, "", 0.0, 0)]
        self._running: dict[str, OpenTurn] = {}
        """The open turn of each session."""
        self._gaps: list[str] = []

    # -- what was read -------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pairs)

    def head(self, *, live: bool = False) -> Head:
        """What the trace is of. `live`: whether more may come."""
        return msgspec.structs.replace(
            self._head,
            components=tuple(self.components),
            events=len(self),
            live=live,
            gaps=tuple(self._gaps),
            by="conductor" if self._is_ours else "reference",
        )

    @property
    def components(self) -> list[str]:
        """The names in the order of the chain: `client`, the proxies, `agent`."""
        order = self._order
        # The header names all components; as the agent the last one is called `agent` in events.
        if self._is_ours and order and order[-1] not in self._met and AGENT in self._met:
            order = order[:-1]
        return [CLIENT, *order, AGENT]

    @property
    def turns(self) -> list[Turn]:
        """The turns so far, in order; the first holds what belongs to no turn."""
        return [self._made(turn) for turn in self._turns]

    @property
    def count(self) -> int:
        """How many turns there are so far."""
        return len(self._turns)

    def turn(self, number: int) -> Turn:
        """A turn by its number. Raises `IndexError`."""
        if number < 0:
            raise IndexError(number)
        return self._made(self._turns[number])

    def line(self, number: int) -> bytes:
        """A line as it is in the trace; empty if it is not there."""
        return self._lines.line(number)

    def rows(self, after: int = 0, limit: int = 1_000) -> list[Row]:
        """The events from number `after` on, in short; at most `limit` of them."""
        made: list[Row] = []
        for number in range(max(after, 0), len(self)):
            if len(made) == limit:
                break
            row = self.row(number)
            if row is not None:
                made.append(row)
        return made

    def row(self, number: int) -> Row | None:
        """An event in short; None for a line that is none."""
        line = read_line(self._lines.line(number))
        if line is None:
            return None
        turn = self._turn_of[number]
        if line.verdict is not None:
            verdict = {k: v for k, v in line.verdict.items() if isinstance(v, str)}
            return Row(
                n=number, at=line.ts, kind="verdict", source=verdict.get("component", ""),
                target=CONDUCTOR, method=verdict.get("method", ""), session="", bytes=0, ms=0.0,
                ms_in=0.0, change="", protocol="acp", error=verdict.get("rule", ""), pair=-1,
                turn=turn,
            )  # fmt: skip
        if line.type not in _KINDS:
            return None
        own = line.own or Own()
        place = self._change_of[number]
        pair = self._pairs[number]
        method, ms, ms_in = line.method, own.ms or 0.0, own.ms_in or 0.0
        if line.type == "response":
            if not own.method or own.ms is None:
                asked = read_line(self._lines.line(pair)) if pair >= 0 else None
                if asked is not None:
                    method = asked.method
                    ms = ms or (line.ts - asked.ts) * 1000
            method = own.method or method
        elif pair < -1:
            # Of a message that passes on another one: its place, coded.
            got = read_line(self._lines.line(-2 - pair))
            ms_in = (line.ts - got.ts) * 1000 if got is not None else 0.0
        elif line.type == "request" and own.passes and own.passes in self._seen:
            ms_in = (line.ts - self._seen[own.passes].at) * 1000
        return Row(
            n=number,
            at=line.ts,
            kind=line.type,
            source=_name(line.source),
            target=_name(line.target),
            method=method,
            session=line.names_session,
            bytes=own.bytes or len(line.body),
            ms=round(ms, 3),
            ms_in=round(ms_in, 3),
            change="" if place == _NO_CHANGE else _CHANGES[place].value,
            protocol=line.protocol,
            error=_error_text(line) if line.is_error else "",
            pair=max(pair, -1),
            turn=turn,
        )

    def detail(self, number: int) -> TurnDetail:
        """All that is shown of a turn. Raises `IndexError`."""
        from conductor.record.turns.detail import detail

        return detail(self, self.turn(number))

    def of_turn(self, turn: Turn) -> Iterator[tuple[int, Line]]:
        """The events of a turn, each with its number."""
        first, behind = turn.events
        for number in range(first, min(behind, len(self))):
            if self._turn_of[number] == turn.number:
                line = read_line(self._lines.line(number))
                if line is not None:
                    line.source, line.target = _name(line.source), _name(line.target)
                    yield number, line

    def pair(self, number: int) -> int:
        """The event of the request that a response answers, or of the response to a request; -1:
        none."""
        return max(self._pairs[number], -1)

    def change(self, number: int) -> Change | None:
        """What the sender of an event made of what it passes on; None: it is no component."""
        place = self._change_of[number]
        return None if place == _NO_CHANGE else _CHANGES[place]

    # -- reading -------------------------------------------------------------------------------

    def take(self, text: bytes) -> None:
        """Takes the next line, which `lines` has already."""
        number = len(self)
        self._pairs.append(-1)
        self._turn_of.append(0)
        self._change_of.append(_NO_CHANGE)
        if text.startswith(b'{"type":"_conductor","records"'):
            return
        line = read_line(text)
        if line is None:
            if text.strip():
                self.gap(f"line {number + 1} is no event")
            return
        if line.type == "_conductor":
            self._about(number, line)
        elif line.type in _KINDS and isinstance(line.ts, float):
            self._event(number, line)
        else:
            self.gap(f"line {number + 1} is no event")

    def gap(self, text: str) -> None:
        """Notes that something is missing."""
        if len(self._gaps) < _MOST_GAPS:
            self._gaps.append(text)
        elif len(self._gaps) == _MOST_GAPS:
            self._gaps.append("more like this")

    def _about(self, number: int, line: Line) -> None:
        """A line about the trace: its header, or a verdict."""
        if line.components is not None:
            self._is_ours = True
            self._head.content = line.content or "redacted"
            for name in line.components:
                self._known(name)
        elif line.verdict is not None:
            who = str(line.verdict.get("component", ""))
            self._known(who)
            turn = self._verdict_turn(line.verdict)
            self._turn_of[number] = turn.number
            turn.last = number
            turn.verdicts += 1
            turn.share(who).verdicts += 1

    def _verdict_turn(self, verdict: dict[str, Any]) -> OpenTurn:
        session = verdict.get("session")
        if isinstance(session, str) and session in self._running:
            return self._running[session]
        return self._only_running()

    def _only_running(self) -> OpenTurn:
        """The turn that what names no session belongs to: the open one, if there is but one."""
        if len(self._running) == 1:
            return next(iter(self._running.values()))
        return self._turns[0]

    def _known(self, name: str) -> None:
        if name and name not in (CLIENT, AGENT, CONDUCTOR) and name not in self._order:
            self._order.append(name)
            if not self._is_ours:
                self._order.sort(key=_place)

    def _event(self, number: int, line: Line) -> None:
        line.source, line.target = _name(line.source), _name(line.target)
        own = line.own
        if own is None:
            own = line.own = Own()
        else:
            self._is_ours = True
        for name in (line.source, line.target):
            if name not in self._met:
                self._met.add(name)
                self._known(name)
        if line.type == "response":
            self._response(number, line, own)
        else:
            self._call(number, line, own)

    def _call(self, number: int, line: Line, own: Own) -> None:
        """A request or a notification."""
        got = self._got(line, own)
        turn = self._turn_for(line, got)
        is_prompt = line.method == PROMPT and line.type == "request"
        if is_prompt and line.source == CLIENT:
            turn = self._begin(number, line)
        self._belongs(number, turn)
        at_proxy = line.source not in (CLIENT, AGENT, CONDUCTOR) and not own.by
        update = update_of(line)
        chunk = chunk_of(update)
        if chunk is not None:
            self._chunk(line, turn, chunk)
        print_ = hash(bytes(line.params)) ^ (own.bytes if line.params == b"null" else 0)
        if at_proxy and line.target != CONDUCTOR:
            change = Change.ORIGINATED
            if got is not None:
                change = Change.SAME if got.print == print_ else Change.CHANGED
                self._pairs[number] = -2 - got.event if line.type == "notification" else -1
            self._change_of[number] = _PLACES[change]
            share = turn.share(line.source)
            share.messages += 1
            share.changed += change in _COUNTED and chunk is None
            if line.type == "notification" and got is not None:
                # Of several that it holds at a time, each moment counts once.
                share.ms += max(line.ts - max(got.at, share.until), 0.0) * 1000
                share.until = line.ts
            if is_prompt and got is not None:
                self._prompt_passed(share, got, line, change)
        elif line.source == AGENT:
            turn.share(AGENT).messages += 1
        if own.n:
            self._remember(own.n, _Seen(number, line.ts, print_, turn.number))
        elif not self._is_ours and line.target != AGENT:
            self._wait(number, line, print_, turn.number)
        if line.type == "request":
            self._request(number, line, own, turn, got)
        elif update is not None:
            self._update(line, turn, update)
        if is_prompt and line.target == AGENT:
            turn.tokens_in += tokens.estimated(edits.text_of(bytes(line.params)))

    def _got(self, line: Line, own: Own) -> _Seen | None:
        """What the sender got and passes on by this message."""
        if own.passes:
            return self._seen.get(own.passes)
        if self._is_ours or line.source in (CLIENT, AGENT):
            return None
        waiting = self._waiting.get((line.source, line.method, line.names_session))
        return self._seen.get(waiting.popleft()) if waiting else None

    def _wait(self, number: int, line: Line, print_: int, turn: int) -> None:
        """Of a trace without numbers: a component may pass this on."""
        key = line.target, line.method, line.names_session
        waiting = self._waiting.setdefault(key, deque(maxlen=_WAITING))
        waiting.append(-1 - number)
        self._remember(-1 - number, _Seen(number, line.ts, print_, turn))

    def _remember(self, number: int, seen: _Seen) -> None:
        self._seen[number] = seen
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _request(
        self, number: int, line: Line, own: Own, turn: OpenTurn, got: _Seen | None
    ) -> None:
        parent = None
        if got is not None:
            parent = next(
                (open_ for open_ in reversed(self._open.values()) if open_.event == got.event), None
            )
            if parent is not None:
                parent.passed = True
        key = own.n or (line.source, line.target, bytes(line.id))
        self._open[key] = _Open(
            number, line.ts, line.source, line.target, line.method, line.names_session,
            turn.number, parent, number=own.n,
        )  # fmt: skip
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)

    def _response(self, number: int, line: Line, own: Own) -> None:
        key = own.of or (line.target, line.source, bytes(line.id))
        asked = self._open.pop(key, None)
        if asked is None:
            if own.of:
                self._belongs(number, self._turn_for(line, None))
            else:
                self.gap(f"line {number + 1} answers nothing that was asked")
            return
        turn = self._turns[asked.turn]
        self._belongs(number, turn)
        self._pairs[number], self._pairs[asked.event] = asked.event, number
        ms = own.ms if own.ms is not None else max(line.ts - asked.at, 0.0) * 1000
        ms_in = own.ms_in if own.ms_in is not None else max(ms - asked.outside, 0.0)
        if asked.parent is not None:
            asked.parent.outside += ms
        at_proxy = line.source not in (CLIENT, AGENT, CONDUCTOR)
        if at_proxy and not own.by:
            self._answered(number, line, own, asked, turn)
        if at_proxy:
            turn.share(line.source).ms += ms_in
        elif line.source == AGENT and asked.method == PROMPT:
            turn.share(AGENT).ms += ms_in
        if asked.method == _QUESTION and line.source == CLIENT:
            turn.person_ms += ms
        if asked.method == PROMPT and line.target == CLIENT:
            self._prompt_answered(line, turn)

    def _answered(self, number: int, line: Line, own: Own, asked: _Open, turn: OpenTurn) -> None:
        """A component answers a request that it got."""
        if not asked.passed:
            change = Change.ANSWERED
        elif own.past:
            change = Change.PAST
        else:
            got = self._seen.get(own.passes) if own.passes else None
            print_ = hash(bytes(line.payload))
            change = Change.CHANGED if got is not None and got.print != print_ else Change.SAME
        self._change_of[number] = _PLACES[change]
        share = turn.share(line.source)
        share.messages += 1
        share.changed += change in _COUNTED
        if change is Change.ANSWERED and asked.method == PROMPT:
            share.says = "answered"
        if own.n and not own.past:
            self._remember(own.n, _Seen(number, line.ts, hash(bytes(line.payload)), turn.number))

    # -- turns ---------------------------------------------------------------------------------

    def _turn_for(self, line: Line, got: _Seen | None) -> OpenTurn:
        session = line.names_session
        if session and session in self._running:
            return self._running[session]
        if got is not None:
            return self._turns[got.turn]
        if line.own is not None and line.own.of in self._open:
            return self._turns[self._open[line.own.of].turn]
        return self._turns[0] if session else self._only_running()

    def _belongs(self, number: int, turn: OpenTurn) -> None:
        self._turn_of[number] = turn.number
        turn.last = number

    def _begin(self, number: int, line: Line) -> OpenTurn:
        session = line.names_session
        turn = OpenTurn(len(self._turns), session, line.ts, number)
        self._turns.append(turn)
        self._running[session] = turn
        turn.prompt = edits.text_of(bytes(line.params))[:_SHOWN]
        return turn

    def _prompt_passed(self, share: _Share, got: _Seen, line: Line, change: Change) -> None:
        """A component passes a prompt on."""
        if change is Change.SAME:
            share.says = share.says or "unchanged"
            return
        before = read_line(self._lines.line(got.event))
        made = edits.edits(bytes(before.params), bytes(line.params)) if before is not None else ()
        share.says = edits.in_words(made) or "unchanged"
        share.tokens += edits.added_tokens(made)

    def _chunk(self, line: Line, turn: OpenTurn, text: str) -> None:
        """Words on their way: a component may cut them anew without changing them."""
        data = text.encode("utf-8", "surrogatepass")
        if line.source not in (CLIENT, AGENT, CONDUCTOR):
            share = turn.share(line.source)
            share.sent_text = zlib.crc32(data, share.sent_text)
        if line.target not in (CLIENT, AGENT, CONDUCTOR):
            share = turn.share(line.target)
            share.got_text = zlib.crc32(data, share.got_text)

    def _update(self, line: Line, turn: OpenTurn, update: Update) -> None:
        """A `session/update`: what the summary of a turn shows of it."""
        text = update.content.get("text") if isinstance(update.content, dict) else None
        is_message = update.kind in ("agent_message_chunk", "agent_message")
        if line.source == AGENT:
            if is_message and isinstance(text, str):
                turn.tokens_out += tokens.estimated(text)
            if update.kind == "usage_update" and update.cost is not None:
                usage = turn.usage = turn.usage or Usage()
                usage.cost, usage.currency = update.cost.amount, update.cost.currency
        if line.target == CLIENT:
            if is_message and isinstance(text, str) and len(turn.answer) < _SHOWN:
                turn.answer = (turn.answer + text)[:_SHOWN]
            if update.kind == "tool_call":
                turn.tools += 1
            if update.kind == "state_update" and update.state == "idle" and turn.inserted:
                self._end(line, turn, update.stop or "end_turn")

    def _prompt_answered(self, line: Line, turn: OpenTurn) -> None:
        if line.is_error:
            turn.failed = True
            self._end(line, turn, _error_text(line))
            return
        try:
            answer = _prompted(line.payload)
        except _BAD:
            answer = _Prompted()
        if answer.usage is not None:
            usage = turn.usage = turn.usage or Usage()
            usage.input, usage.output = answer.usage.inputTokens, answer.usage.outputTokens
            usage.cached = answer.usage.cachedReadTokens or 0
            usage.thought = answer.usage.thoughtTokens or 0
        if answer.message and not answer.stop:
            turn.inserted = True
        else:
            self._end(line, turn, answer.stop or "ended")

    def _end(self, line: Line, turn: OpenTurn, stop: str) -> None:
        turn.stop = stop
        turn.ms = max(line.ts - turn.at, 0.0) * 1000
        if self._running.get(turn.session) is turn:
            del self._running[turn.session]

    def _made(self, turn: OpenTurn) -> Turn:
        shares = []
        for name in self.components:
            share = turn.shares.get(name)
            if share is None:
                continue
            ms = max(share.ms - turn.person_ms, 0.0) if name == AGENT else share.ms
            shares.append(
                Share(
                    component=name, ms=round(ms, 3), messages=share.messages,
                    changed=share.changed + (share.got_text != share.sent_text),
                    tokens=share.tokens, verdicts=share.verdicts,
                    says=share.says,
                )
            )  # fmt: skip
        return Turn(
            number=turn.number,
            session=turn.session,
            at=turn.at,
            ms=None if turn.ms is None else round(turn.ms, 3),
            prompt=turn.prompt,
            answer=turn.answer,
            stop=turn.stop,
            failed=turn.failed,
            person_ms=round(turn.person_ms, 3),
            shares=tuple(shares),
            usage=turn.usage,
            tokens_in=turn.tokens_in,
            tokens_out=turn.tokens_out,
            tools=turn.tools,
            verdicts=turn.verdicts,
            events=(turn.first, turn.last + 1),
        )


def update_of(line: Line) -> Update | None:
    """The update that a notification carries."""
    if line.method != UPDATE or line.type != "notification":
        return None
    try:
        return _updated(line.params).update
    except _BAD:
        return None


def chunk_of(update: Update | None) -> str | None:
    """The words in a chunk of text; None: the update is something else."""
    if update is None or not update.kind.endswith("_chunk"):
        return None
    text = update.content.get("text") if isinstance(update.content, dict) else None
    return text if isinstance(text, str) else None


def _name(name: str) -> str:
    return _ENDS.get(name, name)


def _place(name: str) -> tuple[int, str]:
    """Where a proxy of the reference stands in its chain: `Proxy(10)` behind `Proxy(2)`."""
    digits = "".join(filter(str.isdecimal, name))[:9]
    return (int(digits) if digits else 0, name)


def _error_text(line: Line) -> str:
    """Code and text of an error."""
    try:
        error = _error(line.payload)
    except _BAD:
        error = _Error()
    code = error.code if error.code is not None else (line.own.code if line.own else None)
    return " ".join(part for part in (str(code or ""), error.message[:200]) if part) or "error"


# -- whole traces ----------------------------------------------------------------------------------


def opened(path: str) -> Reader:
    """Reads the whole trace in a file. Raises `UsageError` for one that cannot be read, or has no
    event."""
    lines = FileLines(path)
    reader = Reader(lines, path)
    read_on(reader, lines)
    if lines.cut:
        reader.gap("the last line is cut off")
    if not reader.turns[0].events[1] and len(reader.turns) == 1 and not reader._is_ours:
        raise UsageError(
            f"`{path}` is no trace",
            "`conductor agent --trace FILE …` writes one; so does the reference conductor",
        )
    return reader


def read_on(reader: Reader, lines: FileLines) -> int:
    """Reads what a file has more by now; how many lines. Raises `UsageError`."""
    count = 0
    while (line := lines.next()) is not None:
        reader.take(line)
        count += 1
    return count


def held(most: int | None = None) -> tuple[Reader, HeldLines]:
    """A reader of lines that are in memory alone, and what holds them."""
    lines = HeldLines() if most is None else HeldLines(most)
    return Reader(lines), lines
