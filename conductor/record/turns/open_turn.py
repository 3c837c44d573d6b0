"""A turn as it grows while its trace is read."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from conductor.errors import counted
from conductor.record.turns import edits, tokens
from conductor.record.turns.line import (
    AGENT,
    CLIENT,
    ENDS,
    LONGEST,
    Line,
    read_line,
)
from conductor.record.turns.messages import Messages, Update, text_in
from conductor.record.turns.model import Share, Turn, Usage

SHOWN: Final = 500
"""Characters of a prompt and an answer in a turn's summary."""
_MOST_SPANS: Final = 64
_MOST_TOOLS: Final = 10_000
"""The most tool calls of one turn that are known."""
_TOOL: Final = ("tool_call", "tool_call_update")
_DONE: Final = ("completed", "failed", "cancelled")
_MESSAGE: Final = ("agent_message_chunk", "agent_message")
_ACTS: Final = {
    "changed": ("changed", "message", ""),
    "answered": ("answered", "request", ""),
    "question": ("answered", "question", " for you"),
    "originated": ("sent", "message", " of its own"),
    "mcp": ("answered", "MCP request", ""),
}
"""A component's acts on messages, and the words for each: a verb, a noun, and further words."""


class _Cost(msgspec.Struct):
    amount: float
    currency: str = ""


Stored = Callable[[int], bytes]
"""The line of an event, by its number."""


class Time:
    """For how long somebody had anything: moments that overlap count once."""

    __slots__ = ("_after", "_spans", "ms")

    def __init__(self) -> None:
        self.ms = 0.0
        self._spans: list[tuple[float, float]] = []
        """Apart from each other, in order."""
        self._after = 0.0
        """Spans before this moment are forgotten, and count no longer."""

    def add(self, since: float, until: float) -> None:
        """The component had a message between two moments."""
        since = max(since, self._after)
        if until <= since:
            return
        while self._spans and self._spans[-1][1] >= since:
            begin, end = self._spans.pop()
            self.ms -= (end - begin) * 1000
            since, until = min(since, begin), max(until, end)
        self._spans.append((since, until))
        self.ms += (until - since) * 1000
        if len(self._spans) > _MOST_SPANS:
            self._after = self._spans.pop(0)[1]

    def end(self) -> None:
        """Nothing more will come."""
        self._spans = []


class OpenShare:
    """A component's share of a turn, as it grows."""

    __slots__ = ("acts", "cut", "got_text", "messages", "prompts", "says", "sent_text", "time",
                 "tokens", "verdicts")  # fmt: skip

    def __init__(self) -> None:
        self.time = Time()
        self.got_text = self.sent_text = 0
        """Checksums of the words of the agent that it got and passed on: it may cut them anew."""
        self.cut = array("i")
        """Events with words of the agent that are not the words of one event the component got."""
        self.messages = self.tokens = self.verdicts = 0
        self.acts: dict[str, int] = {}
        """How many messages it changed, answered …, by the keys of `_ACTS`."""
        self.says = ""
        """The component's changes of the prompt, in words."""
        self.prompts: tuple[int, int] | None = None
        """The events with which it got and passed on a prompt that it changed; read when somebody
        asks for the words."""

    def did(self, act: str) -> None:
        """Counts an act of the component on a message."""
        self.acts[act] = self.acts.get(act, 0) + 1

    @property
    def changed(self) -> int:
        """The number of messages that the component changed, answered or originated. Answers to MCP
        do not count: a component with a server of its own exists to give them."""
        return sum(self.acts.get(act, 0) for act in _ACTS if act != "mcp")

    def does(self, stored: Stored, *, ends: bool) -> str:
        """The component's acts in words; `ends`: the component is the client or the agent."""
        prompt = self._prompt(stored)
        its_act = prompt if prompt == "answered" else "changed"
        made = [prompt] if prompt != "unchanged" else []
        if not ends and self.got_text != self.sent_text and prompt != "answered":
            made.append("changed the answer" if self.got_text else "added words")
        for act, (verb, noun, rest) in _ACTS.items():
            is_prompt = act == its_act and prompt not in ("", "unchanged")
            if (count := self.acts.get(act, 0) - is_prompt) > 0:
                made.append(f"{verb} {counted(count, noun)}{rest}")
        return ", ".join(filter(None, made)) or prompt

    def _prompt(self, stored: Stored) -> str:
        """The component's changes of the prompt, in words."""
        prompts, self.prompts = self.prompts, None  # two threads may ask
        if prompts is not None:
            got, sent = (read_line(stored(number)) for number in prompts)
            self.says = "changed"
            if got is not None and sent is not None:
                made = edits.of_changed(bytes(got.params), bytes(sent.params))
                self.says = edits.in_words(made)
                self.tokens += edits.added_tokens(made)
        return self.says


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call of the agent, as the client knows the call at one event."""

    id: str
    first: int
    """The event that told of it first: in ACP v2 that is an update like all others."""
    status: str = ""

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self.status in _DONE


class OpenTurn:
    """A turn, as it grows."""

    __slots__ = ("_calls", "_messages", "_most_words", "_waits", "_works", "answer", "at", "by",
                 "failed", "first", "inserted", "last", "ms", "number", "person", "prompt",
                 "session", "shares", "stop", "tokens_in", "tokens_out", "tools", "usage",
                 "verdicts")  # fmt: skip

    def __init__(
        self, number: int, session: str, at: float, event: int, most_words: int = SHOWN
    ) -> None:
        """`most_words`: characters of its prompt and of its answer that are kept."""
        self.number = number
        self._most_words = most_words
        self.session = session
        self.at = at
        self.first = self.last = event
        self.ms: float | None = None
        self.prompt = self.answer = self.stop = self.by = ""
        self.failed = False
        self.person = Time()
        self.shares: dict[str, OpenShare] = {}
        self.usage: Usage | None = None
        self.tokens_in = self.tokens_out = self.tools = self.verdicts = 0
        self._calls: dict[str, ToolCall] | None = {}
        """The tool calls by id; None: the turn has ended."""
        self._messages: dict[str, Messages] = {}
        """The answer's messages that each end was told of."""
        self.inserted = False
        """Whether the prompt was answered when it was inserted (ACP v2); an update ends the
        turn."""
        self._works: float | None = None
        """The time since which the agent works; None: it does not work."""
        self._waits = 0
        """The number of answers that the agent waits for."""

    def share(self, component: str) -> OpenShare:
        """A component's share of the turn."""
        found = self.shares.get(component)
        if found is None:
            found = self.shares[component] = OpenShare()
        return found

    def had(self, component: str, since: float, until: float) -> None:
        """A component had a message between two moments."""
        if self.ms is None:
            self.share(component).time.add(max(since, self.at), until)

    def person_had(self, since: float, until: float) -> None:
        """A person had a question between two moments."""
        if self.ms is None:
            self.person.add(max(since, self.at), until)

    # -- the agent -----------------------------------------------------------------------------

    def agent_begins(self, line: Line) -> None:
        """The agent gets a prompt."""
        text = edits.text_of(bytes(line.params))
        self.tokens_in += tokens.estimated(text)
        size = len(memoryview(line.params))
        if size > edits.LARGEST:  # only the beginnings of its words are known
            self.tokens_in += (size - len(text)) // 4
        if self._works is None and not self._waits:
            self._works = line.ts

    def agent_asks(self, at: float) -> None:
        """The agent asks something, and waits."""
        self._rests(at)
        self._waits += 1

    def agent_is_answered(self, at: float) -> None:
        """The agent has an answer, and works on if it was the last that it waits for."""
        self._waits = max(self._waits - 1, 0)
        if not self._waits and self.ms is None:
            self._works = at

    def agent_ends(self, at: float) -> None:
        """The agent has answered the prompt."""
        self._rests(at)
        self._waits = 0

    def _rests(self, at: float) -> None:
        if self._works is not None:
            self.had(AGENT, self._works, at)
            self._works = None

    # -- messages ------------------------------------------------------------------------------

    def chunk(self, line: Line, text: str) -> None:
        """Words on their way: a component may cut them anew without changing them."""
        data = text.encode("utf-8", "surrogatepass")
        if line.source not in ENDS:
            share = self.share(line.source)
            share.sent_text = zlib.crc32(data, share.sent_text)
        if line.target not in ENDS:
            share = self.share(line.target)
            share.got_text = zlib.crc32(data, share.got_text)

    def update(self, number: int, line: Line, update: Update, top: str) -> ToolCall | None:
        """Takes a `session/update`, the event `number`, for the summary. `top`: the component at
        the client's end.

        Returns the tool call that the update tells the client of; None: it tells of none.
        """
        if line.source == AGENT:
            self.tokens_out += tokens.estimated(self._new_words(AGENT, update))
            if update.kind == "usage_update":
                self._costs(update.held.get("cost"))
            if update.is_idle:
                self.agent_ends(line.ts)
        if line.target != top:
            return None
        if len(self.answer) < self._most_words:
            self.answer = (self.answer + self._new_words(CLIENT, update))[: self._most_words]
        return self._tool(number, update) if update.kind in _TOOL else None

    def _costs(self, said: object) -> None:
        """The agent reports the cost of the session so far."""
        try:
            cost = msgspec.convert(said, _Cost)
        except msgspec.ValidationError:
            return
        usage = self.usage = self.usage or Usage()
        usage.cost, usage.currency = cost.amount, cost.currency

    def _new_words(self, end: str, update: Update) -> str:
        """The words of the answer that an end does not have yet: in ACP v2 a message may come whole
        once more."""
        if update.kind not in _MESSAGE:
            return ""
        messages = self._messages.setdefault(end, Messages())
        return "".join(text_in(each.get("content")) or "" for each in messages.read(update.held))

    def _tool(self, number: int, update: Update) -> ToolCall | None:
        id_ = update.word("toolCallId")
        if self._calls is None:
            return None
        call = self._calls.get(id_)
        if call is None:
            if len(self._calls) == _MOST_TOOLS:
                return None
            self.tools += 1
            call = ToolCall(id_[:LONGEST], number)
        if status := update.word("status"):
            call = msgspec.structs.replace(call, status=status)
        self._calls[id_] = call
        return call

    def end(self, at: float, stop: str) -> list[int]:
        """The turn has ended. Returns the events with words that their sender has only cut anew."""
        self.agent_ends(at)
        self.stop = stop
        self.ms = max(at - self.at, 0.0) * 1000
        uncut: list[int] = []
        for share in self.shares.values():
            share.time.end()
            if share.got_text == share.sent_text:
                uncut += share.cut
            share.cut = array("i")
        self.person.end()
        self._calls, self._messages = None, {}
        return uncut

    def goes_on(self) -> None:
        """The turn had not ended: its prompt comes again."""
        self.ms, self.stop, self.failed, self._calls = None, "", False, {}

    def _within(self, time: Time) -> float:
        """Milliseconds; not more than the turn took, whatever order the events have."""
        return round(time.ms if self.ms is None else min(time.ms, self.ms), 3)

    def _on_the_way(self) -> float:
        times = [self.person, *(share.time for share in self.shares.values())]
        return 0.0 if self.ms is None else round(max(self.ms - sum(t.ms for t in times), 0.0), 3)

    # -- the turn as shown ---------------------------------------------------------------------

    def shown(self, components: Iterable[str], top: str, stored: Stored) -> Turn:
        """The turn as it is by now, the shares in the order of the chain."""
        shares = []
        for name in components:
            share = self.shares.get(name)
            if share is None:
                continue
            ends = name in (top, AGENT)
            does = share.does(stored, ends=ends)  # this may count tokens
            words = not ends and share.got_text != share.sent_text
            shares.append(
                Share(
                    component=name, ms=self._within(share.time), messages=share.messages,
                    changed=share.changed + words, tokens=share.tokens, verdicts=share.verdicts,
                    says=does,
                )
            )  # fmt: skip
        return Turn(
            number=self.number,
            session=self.session,
            at=self.at,
            ms=None if self.ms is None else round(self.ms, 3),
            by=self.by,
            prompt=self.prompt[:SHOWN],
            answer=self.answer[:SHOWN],
            stop=self.stop,
            failed=self.failed,
            person_ms=self._within(self.person),
            way_ms=self._on_the_way(),
            shares=tuple(shares),
            usage=self.usage,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            tools=self.tools,
            verdicts=self.verdicts,
            events=(self.first, self.last + 1),
        )
