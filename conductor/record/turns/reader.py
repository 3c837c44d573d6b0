"""Reads the lines of a trace, ours or the reference's: events, how they belong together, turns.

Each line is read once. What is kept of an event are a few numbers; its text stays where it is
(`conductor.record.turns.lines`) and is read again when somebody looks at it. So a trace may be much
larger than memory.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from conductor.errors import UsageError
from conductor.record.turns import edits
from conductor.record.turns.line import (
    AGENT,
    CLIENT,
    CONDUCTOR,
    ENDS,
    LONGEST,
    PROMPT,
    QUESTIONS,
    Line,
    Own,
    Prompted,
    Ring,
    chunk_of,
    error_text,
    prompted,
    read_line,
    same_value,
    update_of,
)
from conductor.record.turns.lines import FileLines, HeldLines
from conductor.record.turns.model import (
    OTHER_CLIENT,
    Change,
    Head,
    Row,
    Turn,
    TurnDetail,
    Usage,
)
from conductor.record.turns.open_turn import SHOWN, OpenTurn

_REMEMBERED: Final = 100_000
"""Messages whose numbers are known, to find what passes them on."""
_MOST_OPEN: Final = 10_000
"""Requests without an answer that are known."""
_WAITING: Final = 256
"""Notifications that a component got and may still pass on, of one method and session; in traces
that do not say what passes on what."""
_MOST_TURNS: Final = 200_000
_MOST_NAMES: Final = 1_000
_MOST_GAPS: Final = 20
_LARGEST: Final = 4 * 1024 * 1024
"""Bytes of two messages that are compared by their values."""

_SPOKEN: Final = frozenset(
    {
        *("agent_message_chunk", "agent_message", "agent_thought_chunk", "agent_thought"),
        *("tool_call", "plan", "notice"),
    }
)
"""Updates that a person reads: where no prompt runs they are an unprompted turn."""
_MARK: Final = b'"conductor.turn"'
"""Stands in the update that ends a component's own turn (docs/conversation.md)."""
_USER: Final = "user_message_chunk"
_BETWEEN: Final = ("prompt_received", "turn_complete")
"""Updates of a server of chains about the prompts of other clients (docs/remote.md)."""
_LOADS: Final = frozenset({"session/load", "session/resume", "session/attach"})
_CHANGES: Final = tuple(Change)
_PLACES: Final = {change: place for place, change in enumerate(_CHANGES)}
_NO_CHANGE: Final = 255
"""In place of a change: the sender is an end of the chain, or the conductor."""
_NONE: Final = Own()


class _Seen(msgspec.Struct, gc=False):
    """A message that was seen, for what passes it on."""

    event: int
    at: float
    fingerprint: int
    turn: int


class _Open(msgspec.Struct):
    """A request without an answer so far."""

    event: int
    at: float
    source: str
    target: str
    method: str
    turn: int
    parent: _Open | None
    """The request that its sender passes on by it."""
    passed: float | None = None
    """When its receiver passed it on."""
    answer: _Seen | None = None
    """The answer that its receiver got then; in traces that do not say what passes on what."""


class Stored(Protocol):
    """The lines that a reader has taken, by number."""

    def line(self, number: int) -> bytes:
        """A line; empty if it is not there any more."""


class Reader:
    """Takes the lines of one trace in order. Never raises for what a line holds.

    While one thread takes lines, others may look at what it has taken."""

    def __init__(self, lines: Stored, source: str = "") -> None:
        """`lines`: where each line can be read again once it was taken. `source`: what is shown as
        the origin of the trace."""
        self._lines = lines
        self._head = Head(source=source, content="unknown")
        self._order: list[str] = []
        """Names of proxies, in the order of the chain."""
        self._agent = ""
        """Which of the names in the header is the agent's, if it says so."""
        self._met: set[str] = set()
        """Names of the ends of events."""
        self._is_ours = False
        self._count = 0
        """How many events and verdicts there are."""
        self._pairs = array("i")
        """Of a response the event of its request, of a request that of its response; else -1."""
        self._got = array("i")
        """The event with which the sender got what it passes on by this one; else -1."""
        self._turn_of = array("i")
        self._later = array("i")
        """The next event of the same turn; else -1. Turns of many sessions run at once: to look for
        the events of one among those of all would take time with the square."""
        self._ms_in = array("f")
        self._change_of = bytearray()
        self._seen: OrderedDict[int, _Seen] = OrderedDict()
        """By number of the message."""
        self._open: OrderedDict[Any, _Open] = OrderedDict()
        """By number of the request, else by requester, receiver and id."""
        self._asked: dict[int, _Open] = {}
        """The same, by event."""
        self._waiting: dict[tuple[str, str, str], deque[_Seen]] = {}
        """Of traces without numbers: what a component may pass on."""
        self._turns: list[OpenTurn] = [OpenTurn(0, "", 0.0, 0)]
        self._running: dict[str, OpenTurn] = {}
        """The open turn of each session."""
        self._loose: dict[str, OpenTurn] = {}
        """By session: the last turn that the client had not asked for. What is said there belongs
        to it until another one begins."""
        self._loading: set[int] = set()
        """Requests of the client that load a session."""
        self._shared: set[str] = set()
        """Sessions in which other clients have prompted."""
        self._prompted: set[str] = set()
        """Sessions in which the client has prompted."""
        self._gaps: list[str] = []
        self._paused: dict[str, None] = {}
        """The components that are paused now."""
        self._between: list[int] = []
        """Lines about what has happened since the last turn ended …"""
        self._ended_at = 0
        """… the last event of that turn …"""
        self._before_turn: dict[int, list[int]] = {}
        """… and such lines by the turn that came then: it is the first that they are of use for."""

    # -- what was read -------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pairs)

    def head(self, *, live: bool = False) -> Head:
        """What the trace is of. `live`: whether more may come."""
        return msgspec.structs.replace(
            self._head,
            components=tuple(self.components),
            events=self._count,
            live=live,
            gaps=tuple(self._gaps),
            paused=tuple(self._paused),
            by="conductor" if self._is_ours else "reference",
        )

    @property
    def components(self) -> list[str]:
        """The names in the order of the chain: `client`, the proxies, `agent`."""
        order = [name for name in self._order if name != self._agent]
        # Without content a header says no roles; as the agent the last one is `agent` in events.
        has_no_roles = self._is_ours and not self._agent
        if has_no_roles and order and order[-1] not in self._met and AGENT in self._met:
            order = order[:-1]
        return [CLIENT, *order, AGENT]

    @property
    def top(self) -> str:
        """Whose end of the chain shows what the client gets: the client's; in a trace of the
        reference that of the first proxy, since what that one sends to the client is not in it."""
        return CLIENT if self._is_ours or not self._order else self._order[0]

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

    @property
    def running(self) -> list[int]:
        """The turns that have not ended."""
        return [turn.number for turn in list(self._running.values())]

    def span(self, number: int) -> tuple[int, int]:
        """Numbers of the first event of a turn and behind its last. Raises `IndexError`."""
        turn = self._turns[number]
        return turn.first, turn.last + 1

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
        about, kind = line.verdict or line.happened, "verdict" if line.verdict else "notice"
        if about is not None:
            words = {k: v for k, v in about.items() if isinstance(v, str)}
            return Row(
                n=number, at=line.ts, kind=kind, source=words.get("component", ""),
                target=CONDUCTOR, method=words.get("method") or words.get("event", ""),
                session=words.get("session", "")[:LONGEST], bytes=0, ms=0.0, ms_in=0.0,
                change="", protocol="acp", error=words.get("rule", ""), pair=-1,
                turn=turn,
            )  # fmt: skip
        if not line.is_event:
            return None
        own, pair, place = line.own or _NONE, self._pairs[number], self._change_of[number]
        method, ms, protocol = own.method or line.method, own.ms or 0.0, line.protocol
        if line.type == "response" and pair >= 0 and (not own.method or own.ms is None):
            asked = read_line(self._lines.line(pair))
            if asked is not None:
                method, protocol = method or asked.method, asked.protocol
                ms = ms or max(line.ts - asked.ts, 0.0) * 1000
        return Row(
            n=number,
            at=line.ts,
            kind=line.type,
            source=line.source,
            target=line.target,
            method=method,
            session=line.names_session,
            bytes=own.bytes or len(line.body),
            ms=round(ms, 3),
            ms_in=round(self._ms_in[number], 3),
            change="" if place == _NO_CHANGE else _CHANGES[place].value,
            protocol=own.protocol or protocol,
            error=error_text(line) if line.is_error else "",
            pair=pair,
            turn=turn,
        )

    def detail(self, number: int) -> TurnDetail:
        """All that is shown of a turn. Raises `IndexError`."""
        from conductor.record.turns.detail import detail

        return detail(self, self.turn(number))

    def of_turn(self, turn: Turn) -> Iterator[tuple[int, Line]]:
        """The events of a turn, each with its number."""
        before = self._before_turn.get(turn.number, ())
        for number in itertools.chain(before, self._from(turn)):
            if self._turn_of[number] == turn.number:
                line = read_line(self._lines.line(number))
                if line is not None:
                    yield number, line

    def _from(self, turn: Turn) -> Iterator[int]:
        """The events of a turn since its first, and maybe others."""
        number, behind = turn.events
        if not turn.number:
            yield from range(number, min(behind, len(self)))
            return
        while 0 <= number < behind:
            yield number
            number = self._later[number]

    def pair(self, number: int) -> int:
        """The event of the request that a response answers, or of the response to a request; -1:
        none."""
        return self._pairs[number]

    def before(self, number: int) -> int | None:
        """The event with which the sender of an event got what it passes on by it; None: it passes
        nothing on, or that is long ago."""
        got = self._got[number]
        return None if got < 0 else got

    def turn_of(self, number: int) -> int:
        """The turn that an event belongs to; -1 for a line that is none."""
        return self._turn_of[number]

    @property
    def is_empty(self) -> bool:
        """Whether no event has come so far."""
        return not self._met

    def change(self, number: int) -> Change | None:
        """What the sender of an event made of what it passes on; None: it is no component."""
        place = self._change_of[number]
        return None if place == _NO_CHANGE else _CHANGES[place]

    def ms_in(self, number: int) -> float:
        """Of a response for how long its sender had the request and the answer, of another message
        for how long its sender had what it passes on by it, in milliseconds."""
        return self._ms_in[number]

    def _made(self, turn: OpenTurn) -> Turn:
        return turn.shown(self.components, self.top, self._lines.line)

    # -- reading -------------------------------------------------------------------------------

    def take(self, text: bytes) -> None:
        """Takes the next line, which `lines` has already."""
        number = len(self)
        for numbers in (self._pairs, self._got):
            numbers.append(-1)
        self._turn_of.append(-1)
        self._later.append(-1)
        self._ms_in.append(0.0)
        self._change_of.append(_NO_CHANGE)
        if text.startswith(b'{"type":"_conductor","records"'):
            return
        line = read_line(text)
        if line is not None and line.type == "_conductor":
            self._about(number, line)
        elif line is not None and line.is_event:
            self._event(number, line)
        elif text.strip():
            self.gap(f"line {number + 1} is no event")

    def gap(self, text: str) -> None:
        """Notes that something is missing."""
        if len(self._gaps) < _MOST_GAPS:
            self._gaps.append(text)
        elif len(self._gaps) == _MOST_GAPS:
            self._gaps.append("more like this")

    def _about(self, number: int, line: Line) -> None:
        """A line about the trace: its header, a verdict, or what has happened to a component."""
        if line.components is not None:
            self._is_ours = True
            self._head.content = line.content or "redacted"
            self._head.process, self._head.began = line.process, line.began
            for name in line.components:
                self._known(name[:LONGEST])
            if line.chain and line.chain[-1].role == AGENT:
                self._agent = line.chain[-1].name[:LONGEST]
            if line.ring is not None:
                self._head.ring = _of_ring(line.ring)
        elif line.verdict is not None:
            who = str(line.verdict.get("component", ""))[:LONGEST]
            self._known(who)
            session = line.verdict.get("session")
            running = self._running.get(session) if isinstance(session, str) else None
            turn = running or self._only_running()
            self._belongs(number, turn)
            self._count += 1
            turn.verdicts += 1
            turn.share(who).verdicts += 1
        elif line.happened is not None:
            self._happened(number, line.happened)
        elif line.full is not None:
            self.gap(f"the trace was full at line {number + 1}: what came then is not in it")

    def _happened(self, number: int, happened: dict[str, Any]) -> None:
        """Something has happened to a component. Between two turns the next one shows it, and
        until that begins the former one."""
        turn = self._only_running()
        if not turn.number:
            turn = self._turns[-1]
        if turn.number and not self._running:
            if not self._between:
                self._ended_at = turn.last
            self._between.append(number)
        self._belongs(number, turn)
        self._count += 1
        who, event = str(happened.get("component", ""))[:LONGEST], happened.get("event")
        if event == "pause" and len(self._paused) < _MOST_NAMES:
            self._paused[who] = None
        elif event in ("resume", "remove"):
            self._paused.pop(who, None)

    def _known(self, name: str) -> None:
        if name and name not in ENDS and name not in self._order:
            if len(self._order) == _MOST_NAMES:
                return
            if self._is_ours:
                self._order.append(name)
            else:
                insort(self._order, name, key=_place)

    def _event(self, number: int, line: Line) -> None:
        self._count += 1
        self._is_ours = self._is_ours or line.own is not None
        for name in (line.source, line.target):
            if name not in self._met and len(self._met) < _MOST_NAMES:
                self._met.add(name)
                self._known(name)
        own = line.own or _NONE
        if line.type == "response":
            self._response(number, line, own)
        else:
            self._call(number, line, own)

    def _call(self, number: int, line: Line, own: Own) -> None:
        """A request or a notification."""
        got = self._got_before(line, own)
        turn = self._turn_for(line, got)
        update = update_of(line)
        if line.type == "request" and line.method == PROMPT:
            if line.source == CLIENT or self._prompts_itself(line, got):
                turn = self._begin(number, line)
        elif update is not None and update.kind in _BETWEEN:
            self._other_client(line)
        elif not turn.number and update is not None and self._is_unprompted(line, update.kind):
            turn = self._said(number, line, got)
        self._belongs(number, turn)
        seen = _Seen(number, line.ts, line.fingerprint, turn.number)
        chunk = chunk_of(update)
        if chunk is not None:
            turn.chunk(line, chunk)
        if line.source not in ENDS and line.target != CONDUCTOR:
            self._passed(number, line, turn, got, is_chunk=chunk is not None)
        elif line.source == AGENT:
            turn.share(AGENT).messages += 1
        self._remember(own.n, seen, line)
        if line.type == "request":
            self._request(number, line, own, turn, got)
        elif update is not None:
            turn.update(line, update, self.top)
            is_idle = update.kind == "state_update" and update.state == "idle"
            if is_idle and turn.inserted and line.target == self.top:
                self._end(line, turn, update.stop or "end_turn")
            elif update.kind == "session_info_update" and _MARK in bytes(line.params):
                self._loose.pop(line.names_session, None)

    def _passed(
        self, number: int, line: Line, turn: OpenTurn, got: _Seen | None, *, is_chunk: bool
    ) -> None:
        """A component sends a request or a notification: its own, or one that it passes on."""
        if line.own is not None and line.own.by:
            return  # conductor made it in its place
        change = Change.ORIGINATED if got is None else self._compared(line, got)
        self._change_of[number] = _PLACES[change]
        share = turn.share(line.source)
        share.messages += 1
        if is_chunk and change is not Change.SAME and turn.ms is None:
            share.cut.append(number)
        if change is not Change.SAME and not is_chunk:
            share.did(change.value)
        if got is None:
            return
        self._got[number] = got.event
        self._ms_in[number] = max(line.left - got.at, 0.0) * 1000
        turn.had(line.source, got.at, line.left)
        if line.type == "request" and line.method == PROMPT:
            share.says = share.says or "unchanged"
            if change is Change.CHANGED and share.prompts is None:
                share.prompts = (got.event, number)
                share.says = "changed"

    def _compared(self, line: Line, got: _Seen) -> Change:
        """Whether a message has another value than the one that it passes on."""
        if got.fingerprint == line.fingerprint:
            return Change.SAME
        before = read_line(self._lines.line(got.event)) if bytes(line.body) != b"null" else None
        if before is None or before.hidden != line.hidden:
            return Change.CHANGED
        if len(before.body) + len(line.body) > _LARGEST:
            return Change.CHANGED
        return Change.SAME if same_value(before.body, line.body) else Change.CHANGED

    def _got_before(self, line: Line, own: Own) -> _Seen | None:
        """What the sender got and passes on by this message."""
        if own.passes:
            return self._seen.get(own.passes)
        if self._is_ours or line.source in ENDS:
            return None
        waiting = self._waiting.get((line.source, _plain(line.method), line.names_session))
        return waiting.popleft() if waiting else None

    def _remember(self, n: int, seen: _Seen, line: Line) -> None:
        """Keeps a message for what passes it on."""
        if n:
            self._seen[n] = seen
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        elif not self._is_ours and line.target not in ENDS and len(self._waiting) < _MOST_OPEN:
            # Of a trace without numbers: a component may pass this on.
            key = line.target, _plain(line.method), line.names_session
            self._waiting.setdefault(key, deque(maxlen=_WAITING)).append(seen)

    def _request(
        self, number: int, line: Line, own: Own, turn: OpenTurn, got: _Seen | None
    ) -> None:
        parent = self._asked.get(got.event) if got is not None else None
        if parent is not None and parent.passed is None:
            parent.passed = line.left
        method = line.method[:LONGEST]
        asked = _Open(
            number, line.ts, line.source, line.target, method, turn.number, parent
        )  # fmt: skip
        self._open[own.n or (line.source, line.target, line.key)] = asked
        self._asked[number] = asked
        if line.source == CLIENT and method in _LOADS:
            self._loading.add(number)
            if method == "session/attach":
                self._other_client(line)
        if len(self._open) > _MOST_OPEN:
            forgotten = self._open.popitem(last=False)[1].event
            del self._asked[forgotten]
            self._loading.discard(forgotten)
        if line.source == AGENT:
            turn.agent_asks(line.left)
        elif line.target == AGENT and line.method == PROMPT:
            turn.agent_begins(line)

    def _response(self, number: int, line: Line, own: Own) -> None:
        asked = self._open.pop(own.of or (line.target, line.source, line.key), None)
        if asked is None:
            self._belongs(number, self._turn_for(line, None))
            self.gap(f"line {number + 1} answers nothing that was asked")
            return
        self._asked.pop(asked.event, None)
        self._loading.discard(asked.event)
        turn = self._turns[asked.turn]
        self._belongs(number, turn)
        self._pairs[number], self._pairs[asked.event] = asked.event, number
        seen = _Seen(number, line.ts, line.fingerprint, turn.number)
        self._remember(own.n, seen, line)
        if asked.parent is not None:
            asked.parent.answer = seen
        if line.source in (CONDUCTOR, AGENT):
            self._ms_in[number] = _ms_in(own, line.left - asked.at)
            if line.source == AGENT and asked.method == PROMPT and _ends(prompted(line)):
                turn.agent_ends(line.left)
        elif line.source == self.top and line.target != CLIENT:
            self._ms_in[number] = _ms_in(own, line.left - asked.at)
            if asked.method in QUESTIONS:
                turn.person_had(asked.at, line.left)
            else:
                turn.had(CLIENT, asked.at, line.left)
        else:
            self._answered(number, line, own, asked, turn)
        if line.target == AGENT:
            turn.agent_is_answered(line.ts)
        is_its = not turn.by or asked.event == turn.first
        if asked.method == PROMPT and line.target == (turn.by or CLIENT) and is_its:
            self._prompt_answered(line, turn)
            if turn.by and turn.ms is not None:  # what went past the component may come later
                self._loose[turn.session] = turn

    def _answered(self, number: int, line: Line, own: Own, asked: _Open, turn: OpenTurn) -> None:
        """A component answers a request that it got."""
        got = self._seen.get(own.passes) if own.passes else None
        if got is None and not self._is_ours:
            got = asked.answer
        before = asked.passed - asked.at if asked.passed is not None else 0.0
        since = line.left if own.past else got.at if got is not None else asked.at
        self._ms_in[number] = _ms_in(own, max(before, 0.0) + max(line.left - since, 0.0))
        turn.had(line.source, since, line.left)
        if own.by:
            return
        if own.past:
            change = Change.PAST
        elif got is None:
            change = Change.ANSWERED
        else:
            self._got[number] = got.event
            change = self._compared(line, got)
        self._change_of[number] = _PLACES[change]
        share = turn.share(line.source)
        share.messages += 1
        if change in (Change.CHANGED, Change.ANSWERED):
            is_question = asked.method in QUESTIONS and change is Change.ANSWERED
            act = "mcp" if own.protocol == "mcp" else "question" if is_question else change.value
            share.did(act)
        if change is Change.ANSWERED and asked.method == PROMPT:
            share.says = "answered"

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

    def _only_running(self) -> OpenTurn:
        """The turn that what names no session belongs to: the open one, if there is but one."""
        if len(self._running) == 1:
            return next(iter(self._running.values()))
        return self._turns[0]

    def _belongs(self, number: int, turn: OpenTurn) -> None:
        self._turn_of[number] = turn.number
        if turn.number and turn.last != number:
            self._later[turn.last] = number
        turn.last = number

    def _begin(self, number: int, line: Line) -> OpenTurn:
        if len(self._turns) > _MOST_TURNS:
            self.gap(f"line {number + 1} begins one turn more than {_MOST_TURNS:,}")
            return self._turns[0]
        session = line.names_session
        turn = OpenTurn(len(self._turns), session, line.ts, number)
        if self._between:
            former = self._turns[-1]
            if former.last == self._between[-1]:
                former.last = self._ended_at
            for each in self._between:
                self._turn_of[each] = turn.number
            self._before_turn[turn.number], self._between = self._between, []
        self._turns.append(turn)
        self._loose.pop(session, None)
        if line.method == PROMPT:
            self._running[session] = turn
            turn.prompt = edits.text_of(bytes(line.params))[:SHOWN]
            if line.source != CLIENT:
                turn.by = line.source
            elif len(self._prompted) < _MOST_NAMES:
                self._prompted.add(session)
        return turn

    def _prompts_itself(self, line: Line, got: _Seen | None) -> bool:
        """Whether a prompt is a component's own, in a session of the client that is idle."""
        own = line.own
        is_own = own is not None and not own.by and got is None and line.source not in ENDS
        session = line.names_session
        return is_own and session in self._prompted and session not in self._running

    def _is_unprompted(self, line: Line, kind: str) -> bool:
        """Whether the client gets something to read while no prompt runs, and no session is
        loaded: then an agent repeats what was said in it."""
        is_prompt = kind == _USER and line.names_session in self._shared
        if (kind not in _SPOKEN and not is_prompt) or line.target != self.top or not self._is_ours:
            return False
        return bool(line.names_session) and not self._loading

    def _said(self, number: int, line: Line, got: _Seen | None) -> OpenTurn:
        """The unprompted turn that an update is of; it ends with each of them."""
        session = line.names_session
        turn = self._loose.get(session)
        if turn is None:
            turn = self._begin(number, line)
            if not turn.number:
                return turn
            is_other = line.names_session in self._shared
            turn.by = OTHER_CLIENT if is_other else self._maker(line, got)
            self._loose[session] = turn
        turn.ms, turn.stop = max(line.ts - turn.at, 0.0) * 1000, turn.stop or "end_turn"
        return turn

    def _other_client(self, line: Line) -> None:
        """A prompt of another client comes, or its turn has ended: what is said then is of another
        turn."""
        self._loose.pop(line.names_session, None)
        if len(self._shared) < _MOST_NAMES:
            self._shared.add(line.names_session)

    def _maker(self, line: Line, got: _Seen | None) -> str:
        """Who has made a message that has come up the chain."""
        if got is None:
            return line.source
        first = got.event
        while self._got[first] >= 0:
            first = self._got[first]
        made = read_line(self._lines.line(first))
        return line.source if made is None else made.source

    def _prompt_answered(self, line: Line, turn: OpenTurn) -> None:
        if line.is_error:
            turn.failed = True
            self._end(line, turn, error_text(line))
            return
        answer = prompted(line)
        if answer.usage is not None:
            usage = turn.usage = turn.usage or Usage()
            usage.input, usage.output = answer.usage.inputTokens, answer.usage.outputTokens
            usage.cached = answer.usage.cachedReadTokens or 0
            usage.thought = answer.usage.thoughtTokens or 0
        if _ends(answer):
            self._end(line, turn, answer.ended)
        else:
            turn.inserted = True

    def _end(self, line: Line, turn: OpenTurn, stop: str) -> None:
        if turn.number and turn.ms is None:
            turn.end(line.ts, stop)
            for share in turn.shares.values():
                if share.got_text == share.sent_text:  # it has only cut the words anew
                    for number in share.cut:
                        self._change_of[number] = _PLACES[Change.SAME]
                share.cut = array("i")
        if self._running.get(turn.session) is turn:
            del self._running[turn.session]


def _ends(answer: Prompted) -> bool:
    """Whether an answer ends its turn. One of ACP v2 may say that the prompt was inserted."""
    return bool(answer.stop or not answer.message)


def _ms_in(own: Own, seconds: float) -> float:
    """For how many milliseconds the sender of a response had what it answers."""
    return max(seconds * 1000 if own.ms_in is None else own.ms_in, 0.0)


def _of_ring(ring: Ring) -> str:
    """What the file of a ring holds, in words."""
    why = f" ({ring.why[:LONGEST]})" if ring.why else ""
    begins = "it begins in mid-session, older messages are not in it"
    return f"a ring{why}: {begins if ring.forgotten else 'it has all since the start'}"


def _plain(method: str) -> str:
    """A method as the next component gets it: proxies are initialized in a way of their own."""
    return "initialize" if method.endswith("proxy/initialize") else method[:LONGEST]


def _place(name: str) -> tuple[int, str]:
    """Where a proxy of the reference stands in its chain: `Proxy(10)` behind `Proxy(2)`."""
    digits = "".join(filter(str.isdecimal, name))[:9]
    return (int(digits) if digits else 0, name)


# -- whole traces ----------------------------------------------------------------------------------


def opened(path: str) -> Reader:
    """Reads the whole trace in a file. Raises `UsageError` for one that cannot be read, or has no
    event."""
    lines = FileLines(path)
    reader = Reader(lines, path)
    read_on(reader, lines)
    if lines.cut:
        reader.gap("the last line is cut off")
    head = reader.head()
    if not head.events and head.content == "unknown":
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
