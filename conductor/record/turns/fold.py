"""Finds which message answers which, who passes which message on, and the turn of each: once, in
the order of the trace. All views of a chain are made of the result.

Pure, and bounded: it keeps only the past messages that later messages may belong to.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from typing import Any, Final

from conductor.core.policy.key_table import PROMPT
from conductor.record.turns import edits
from conductor.record.turns.event import Event
from conductor.record.turns.guesses import Guesses
from conductor.record.turns.line import (
    AGENT,
    CLIENT,
    CONDUCTOR,
    ENDS,
    LONGEST,
    QUESTIONS,
    Error,
    Line,
    Own,
    Prompted,
    error_of,
    error_text,
    prompted,
    same_value,
)
from conductor.record.turns.model import OTHER_CLIENT, Change, Usage
from conductor.record.turns.open_turn import SHOWN, OpenTurn
from conductor.record.turns.seen import Asked, Bodies, Seen

_REMEMBERED: Final = 100_000
"""The most messages whose numbers are remembered, to find the messages that pass them on."""
_MOST_OPEN: Final = 10_000
"""Requests without an answer, and turns, that are known."""
_MOST_NAMES: Final = 1_000
_LARGEST: Final = 4 * 1024 * 1024
"""Bytes of two messages, at most, that are compared by their values."""

_SPOKEN: Final = frozenset(
    {
        *("agent_message_chunk", "agent_message", "agent_thought_chunk", "agent_thought"),
        *("tool_call", "plan", "notice"),
    }
)
"""Updates that a person reads: where no prompt runs they are an unprompted turn."""
_MARK: Final = b'"conductor.turn"'
"""Stands in the update that ends a component's own turn (docs/conversation.md)."""
_USER: Final = ("user_message_chunk", "user_message")
_BETWEEN: Final = ("prompt_received", "turn_complete")
"""Updates of a server of chains about the prompts of other clients (docs/remote.md)."""
_LOADS: Final = frozenset({"session/load", "session/resume", "session/attach"})


class Fold:
    """Takes the lines of one trace in order. Never raises for the content of a line."""

    def __init__(self, most: int | None = None, most_words: int = SHOWN) -> None:
        """
        Args:
            most: How many turns are told apart; None: any number.
            most_words: Characters of the prompt and of the answer of each that are kept.
        """
        self.number = -1
        """The place of the last line."""
        self.order: list[str] = []
        """Names of proxies, and maybe of the agent, in the order of the chain."""
        self.agent = ""
        """Which of the names in the header is the agent's, if it says so."""
        self.met: set[str] = set()
        """Names of the ends of events."""
        self.is_ours = False
        """Whether conductor wrote the trace."""
        self.paused: dict[str, None] = {}
        """The components that are paused now."""
        self.rest = OpenTurn(0, "", 0.0, 0)
        """Holds the events that belong to no turn."""
        self.running: dict[str, OpenTurn] = {}
        """The open turn of each session."""
        self._most = most
        self._most_words = most_words
        self._turns = 0
        self._last = self.rest
        """The last turn that began."""
        self._seen: OrderedDict[int, Seen] = OrderedDict()
        """By number of the message."""
        self._bodies = Bodies()
        self._open: OrderedDict[Any, Asked] = OrderedDict()
        """By number of the request, else by requester, receiver and id."""
        self._guesses = Guesses()
        self._loose: dict[str, OpenTurn] = {}
        """By session: the last turn that the client had not asked for. Words in the session belong
        to this turn until another turn begins."""
        self._lost: dict[int, OpenTurn] = {}
        """The turns of prompts whose answers nobody got, by number: they may come again, if their
        receiver could not take them."""
        self._loading: set[int] = set()
        """Requests of the client that load a session."""
        self._shared: set[str] = set()
        """Sessions in which other clients have prompted."""
        self._prompted: set[str] = set()
        """Sessions in which the client has prompted."""

    @property
    def top(self) -> str:
        """The component whose end of the chain shows the client's messages: the client. In a trace
        of the reference: the first proxy, since its messages to the client are not in the trace."""
        return CLIENT if self.is_ours or not self.order else self.order[0]

    def asked(self, number: int) -> Asked | None:
        """An open request, by the number of the message."""
        return self._open.get(number)

    def take(self, line: Line | None) -> Event | None:
        """Takes the next line. None: it is no event."""
        self.number += 1
        if line is None:
            return None
        if line.type == "_conductor":
            return self._about(line)
        if not line.is_event:
            return None
        if line.own is not None and not self.is_ours:
            self._begins_ours()
        for name in (line.source, line.target):
            if name not in self.met and len(self.met) < _MOST_NAMES:
                self.met.add(name)
                self._known(name)
        event = Event(self.number, line, self.rest)
        if line.type == "response":
            self._response(event, line, event.own)
        else:
            self._call(event, line, event.own)
        return event

    def _begins_ours(self) -> None:
        self.is_ours = True
        self._guesses.unwatched({})

    def direction(self, source: str, target: str) -> str:
        """`down`, towards the agent, or `up`; `aside`: between a component and conductor."""
        if CONDUCTOR in (source, target):
            return "aside"
        ends, order = {CLIENT: -1, AGENT: _MOST_NAMES}, self.order
        places = [
            ends[name] if name in ends else order.index(name) if name in order else 0
            for name in (source, target)
        ]
        return "down" if places[0] < places[1] else "up"

    def _known(self, name: str) -> None:
        if name and name not in ENDS and name not in self.order:
            if len(self.order) == _MOST_NAMES:
                return
            if self.is_ours:
                self.order.append(name)
            else:
                insort(self.order, name, key=_place)

    # -- lines about the trace -----------------------------------------------------------------

    def _about(self, line: Line) -> Event | None:
        """Takes the header, a verdict, or an event of a component."""
        if line.unwatched is not None:
            self._guesses.unwatched(line.unwatched)
        elif line.components is not None:
            self._begins_ours()
            for name in line.components:
                self._known(name[:LONGEST])
            if line.chain and line.chain[-1].role == AGENT:
                self.agent = line.chain[-1].name[:LONGEST]
        elif line.verdict is not None:
            who = str(line.verdict.get("component", ""))[:LONGEST]
            self._known(who)
            session = line.verdict.get("session")
            running = self.running.get(session) if isinstance(session, str) else None
            event = Event(self.number, line, running or self._only_running())
            if not line.verdict.get("would"):
                event.turn.verdicts += 1
                event.turn.share(who).verdicts += 1
            return event
        elif line.happened is not None:
            who = str(line.happened.get("component", ""))[:LONGEST]
            what = line.happened.get("event")
            if what == "pause" and len(self.paused) < _MOST_NAMES:
                self.paused[who] = None
            elif what in ("resume", "remove"):
                self.paused.pop(who, None)
            turn = self._only_running()
            return Event(self.number, line, turn if turn.number else self._last)
        return None

    # -- requests and notifications ------------------------------------------------------------

    def _call(self, event: Event, line: Line, own: Own) -> None:
        got = event.got = self._got_before(line, own)
        turn = event.turn = self._turn_for(line, got)
        update = event.update = line.update
        if line.type == "request" and line.method == PROMPT:
            lost = self._lost.pop(own.n, None)
            if lost is not None:
                turn = event.turn = lost
                turn.goes_on()
                _put(self.running, turn)
            elif line.source == CLIENT or self._prompts_itself(line, got):
                turn = self._begin(event, line)
        elif update is not None and update.kind in _BETWEEN:
            self._other_client(line)
        elif not turn.number and update is not None and self._is_unprompted(line, update.kind):
            turn = self._said(event, line, got)
        chunk = update.chunk if update is not None else None
        if chunk is not None:
            turn.chunk(line, chunk)
        if line.source not in ENDS and line.target != CONDUCTOR:
            self._passed(event, line, turn, got, is_chunk=chunk is not None)
        elif line.source == AGENT:
            turn.share(AGENT).messages += 1
        if line.type == "request":
            self._request(event, line, own, turn, got)
            return
        self._remember(own.n, self._met(line, turn, got), line)
        if update is not None:
            event.tool = turn.update(event.number, line, update, self.top)
            if update.is_idle and turn.inserted and line.target == self.top:
                self._end(event, turn, update.word("stopReason") or "end_turn")
            elif update.kind == "session_info_update" and _MARK in bytes(line.params):
                self._loose.pop(line.names_session, None)

    def _passed(
        self, event: Event, line: Line, turn: OpenTurn, got: Seen | None, *, is_chunk: bool
    ) -> None:
        """A component sends a request or a notification: of its own, or passed on."""
        if event.own.by and got is None:
            return  # conductor made it in its place
        before = got.body if got is not None else None
        if got is None:
            change = Change.ORIGINATED
        else:
            # A change that conductor made is no change of the component's.
            change = Change.SAME if event.own.by else self._compared(line, got)
        event.change = change
        share = turn.share(line.source)
        share.messages += 1
        if is_chunk and change is not Change.SAME and turn.number and turn.ms is None:
            share.cut.append(event.number)
        if change is not Change.SAME and not is_chunk:
            share.did(change.value)
        if got is None:
            return
        event.ms_in = max(line.left - got.at, 0.0) * 1000
        turn.had(line.source, got.at, line.left)
        if line.type == "request" and line.method == PROMPT:
            share.says = share.says or "unchanged"
            if change is Change.CHANGED:
                event.before = before
            if change is Change.CHANGED and share.prompts is None:
                share.prompts = (got.event, event.number)
                share.says = "changed"

    def _got_before(self, line: Line, own: Own) -> Seen | None:
        """The message that the sender got and passes on by this message."""
        found = None
        if not own.by:
            found = self._guesses.taken(line, self.direction(line.source, line.target))
        return self._seen.get(own.passes) if found is None else found

    def _met(self, line: Line, turn: OpenTurn, got: Seen | None) -> Seen:
        maker = line.source if got is None else got.maker
        n = line.own.n if line.own is not None else 0
        return Seen(self.number, n, line.ts, line.fingerprint, line.hidden, turn, maker)

    def _remember(self, n: int, seen: Seen, line: Line) -> None:
        """Keeps a message for the message that passes it on."""
        if n:
            self._seen[n] = seen
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        if line.type != "response":
            self._guesses.got(seen, line, self.direction(line.source, line.target))
        if line.target not in ENDS and len(line.body) < _LARGEST:
            self._bodies.keep(seen, line.body)

    def _compared(self, line: Line, got: Seen) -> Change:
        """Compares a message with the message that it passes on."""
        before, body = got.body, line.body
        if before is not None:
            self._bodies.passed_on(got)
        if got.fingerprint == line.fingerprint:
            return Change.SAME
        if before is None or got.hidden != line.hidden or bytes(body) == b"null":
            return Change.CHANGED
        if len(before) + len(body) > _LARGEST:
            return Change.CHANGED
        return Change.SAME if same_value(before, body) else Change.CHANGED

    def _request(
        self, event: Event, line: Line, own: Own, turn: OpenTurn, got: Seen | None
    ) -> None:
        parent = got if isinstance(got, Asked) and got.is_open else None
        if parent is not None:
            parent.since = line.left
            parent.changed = parent.changed or event.change is Change.CHANGED
        method = line.method[:LONGEST]
        asked = event.asked = Asked(
            self.number, own.n, line.ts, line.fingerprint, line.hidden, turn,
            line.source if got is None else got.maker, source=line.source, target=line.target,
            method=method, protocol=line.protocol[:LONGEST], session=line.names_session,
            parent=parent,
        )  # fmt: skip
        self._remember(own.n, asked, line)
        self._open[own.n or (line.source, line.target, line.key)] = asked
        if line.source == CLIENT and method in _LOADS:
            self._loading.add(self.number)
            if method == "session/attach":
                self._other_client(line)
        if len(self._open) > _MOST_OPEN:
            self._close(self._open.popitem(last=False)[1])
        if line.source == AGENT:
            turn.agent_asks(line.left)
        elif line.target == AGENT and line.method == PROMPT:
            turn.agent_begins(line)

    def _close(self, asked: Asked) -> None:
        """A request waits no longer."""
        asked.is_open = False
        self._guesses.answered(asked, self.direction(asked.source, asked.target))
        self._loading.discard(asked.event)

    # -- responses -----------------------------------------------------------------------------

    def _response(self, event: Event, line: Line, own: Own) -> None:
        event.error = error_of(line) if line.is_error else None
        asked = event.asked = self._open.pop(own.of or (line.target, line.source, line.key), None)
        if asked is None:
            event.turn = self._turn_for(line, None)
            event.gap = f"line {self.number + 1} answers nothing that was asked"
            return
        self._close(asked)
        turn = event.turn = asked.turn
        seen = self._met(line, turn, None)
        self._remember(own.n, seen, line)
        if asked.parent is not None:
            asked.parent.came_back(seen)
        if line.source in (CONDUCTOR, AGENT):
            event.ms_in = max(line.left - asked.at, 0.0) * 1000
            if line.source == AGENT and asked.method == PROMPT and prompted(line).ends:
                turn.agent_ends(line.left)
        elif line.source == self.top and line.target != CLIENT:
            event.ms_in = max(line.left - asked.at, 0.0) * 1000
            if asked.method in QUESTIONS:
                turn.person_had(asked.at, line.left)
            else:
                turn.had(CLIENT, asked.at, line.left)
        else:
            self._answered(event, line, own, asked, turn)
        if line.target == AGENT:
            turn.agent_is_answered(line.ts)
        is_its = not turn.by or asked.event == turn.first
        if own.lost and asked.method == PROMPT and turn.number:
            self._lost[own.of] = turn
            if len(self._lost) > _MOST_NAMES:
                del self._lost[next(iter(self._lost))]
        if asked.method == PROMPT and line.target == (turn.by or CLIENT) and is_its:
            self._prompt_answered(event, line, turn)
            if turn.by and turn.ms is not None:  # messages past the component may come yet
                _put(self._loose, turn)
        asked.parent = asked.answer = None  # it may be remembered for long

    def _answered(self, event: Event, line: Line, own: Own, asked: Asked, turn: OpenTurn) -> None:
        """A component answers a request that it got."""
        got = self._seen.get(own.passes) if own.passes else None
        if got is None and self._guesses.has_to(line.source) and not (own.by or own.past):
            got = asked.answer
        left = line.left if asked.since is None else min(line.left, asked.since)
        event.ms_in = max(left - asked.at - asked.outside, 0.0) * 1000
        last = asked.answer if got is None else got
        since = left if own.past else asked.at if last is None else last.at
        turn.had(line.source, since, left)
        if own.by or own.lost:
            return
        if own.past:
            event.change = Change.PAST
        elif got is None:
            event.change = Change.ANSWERED
        else:
            event.got, event.change = got, self._compared(line, got)
        share = turn.share(line.source)
        share.messages += 1
        if event.change in (Change.CHANGED, Change.ANSWERED):
            is_question = asked.method in QUESTIONS and event.change is Change.ANSWERED
            act = "question" if is_question else event.change.value
            share.did("mcp" if own.protocol == "mcp" else act)
        if event.change is Change.ANSWERED and asked.method == PROMPT:
            share.says = "answered"

    # -- turns ---------------------------------------------------------------------------------

    def _turn_for(self, line: Line, got: Seen | None) -> OpenTurn:
        session = line.names_session
        if session and session in self.running:
            return self.running[session]
        if got is not None:
            return got.turn
        if line.own is not None and line.own.of in self._open:
            return self._open[line.own.of].turn
        return self.rest if session else self._only_running()

    def _only_running(self) -> OpenTurn:
        """The turn of an event that names no session: the open turn, if there is only one."""
        if len(self.running) == 1:
            return next(iter(self.running.values()))
        return self.rest

    def _begin(self, event: Event, line: Line) -> OpenTurn:
        if self._turns == self._most:
            event.turn = self.rest
            event.gap = f"line {self.number + 1} begins one turn more than {self._most:,}"
            return self.rest
        self._turns += 1
        session = line.names_session
        turn = self._last = event.turn = OpenTurn(
            self._turns, session, line.ts, self.number, self._most_words
        )
        event.begins = True
        self._loose.pop(session, None)
        if line.method == PROMPT:
            _put(self.running, turn)
            turn.prompt = edits.text_of(bytes(line.params))[: self._most_words]
            if line.source != CLIENT:
                turn.by = line.source
            elif len(self._prompted) < _MOST_NAMES:
                self._prompted.add(session)
        return turn

    def _prompts_itself(self, line: Line, got: Seen | None) -> bool:
        """Whether a prompt is a component's own, in a session of the client that is idle."""
        own = line.own
        is_own = own is not None and not own.by and got is None and line.source not in ENDS
        session = line.names_session
        return is_own and session in self._prompted and session not in self.running

    def _is_unprompted(self, line: Line, kind: str) -> bool:
        """Whether the client gets something to read while no prompt runs. While a session is loaded
        the answer is no: then an agent repeats the words of the session."""
        is_prompt = kind in _USER and line.names_session in self._shared
        if (kind not in _SPOKEN and not is_prompt) or line.target != self.top or not self.is_ours:
            return False
        return bool(line.names_session) and not self._loading

    def _said(self, event: Event, line: Line, got: Seen | None) -> OpenTurn:
        """The unprompted turn that an update is of; it ends with each of them."""
        session = line.names_session
        turn = self._loose.get(session)
        if turn is None:
            turn = self._begin(event, line)
            if not turn.number:
                return turn
            is_other = session in self._shared
            turn.by = OTHER_CLIENT if is_other else line.source if got is None else got.maker
            _put(self._loose, turn)
        event.turn = turn
        turn.ms, turn.stop = max(line.ts - turn.at, 0.0) * 1000, turn.stop or "end_turn"
        return turn

    def _other_client(self, line: Line) -> None:
        """Another client's prompt comes, or its turn has ended: words after this belong to another
        turn."""
        self._loose.pop(line.names_session, None)
        if len(self._shared) < _MOST_NAMES:
            self._shared.add(line.names_session)

    def _prompt_answered(self, event: Event, line: Line, turn: OpenTurn) -> None:
        answer = event.answer = Prompted() if line.is_error else prompted(line)
        if line.is_error:
            turn.failed = True
            self._end(event, turn, error_text(event.error or Error()))
            return
        if answer.usage is not None:
            usage = turn.usage = turn.usage or Usage()
            usage.input = answer.usage.inputTokens or 0
            usage.output = answer.usage.outputTokens or 0
            usage.cached = answer.usage.cachedReadTokens or 0
            usage.thought = answer.usage.thoughtTokens or 0
        if answer.ends:
            self._end(event, turn, answer.ended)
        else:
            turn.inserted = True

    def _end(self, event: Event, turn: OpenTurn, stop: str) -> None:
        if turn.number and turn.ms is None:
            event.ends = True
            event.uncut = turn.end(event.line.ts, stop)
        if self.running.get(turn.session) is turn:
            del self.running[turn.session]


def _put(turns: dict[str, OpenTurn], turn: OpenTurn) -> None:
    """Keeps a turn by its session."""
    turns[turn.session] = turn
    if len(turns) > _MOST_OPEN:
        del turns[next(iter(turns))]


def _place(name: str) -> tuple[int, str]:
    """Where a proxy of the reference stands in its chain: `Proxy(10)` behind `Proxy(2)`."""
    digits = "".join(filter(str.isdecimal, name))[:9]
    return (int(digits) if digits else 0, name)
