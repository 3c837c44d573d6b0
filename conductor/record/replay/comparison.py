"""A run of a chain compared with its recording, turn by turn: the messages that the agent and the
client got.

Words count, not the pieces they came in: neighbouring chunks are one text, also with an update
between them that has no place in the conversation. Ids do not count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

import msgspec

from conductor.core.policy.key_table import UPDATE
from conductor.record import exact_json
from conductor.record.turns import edits
from conductor.record.turns.line import (
    AGENT,
    CLIENT,
    CONDUCTOR,
    Line,
    Own,
    plain,
)
from conductor.record.turns.model import Edit, Op, Turn
from conductor.record.turns.reader import Reader

_TEXTS: Final = {
    "agent_message_chunk": "the answer",
    "agent_thought_chunk": "the thoughts",
    "user_message_chunk": "the user's words",
}
_BESIDE: Final = (
    "usage_update", "available_commands_update", "current_mode_update", "config_option_update",
    "session_info_update",
)  # fmt: skip
"""Updates that have no place in the conversation: a text goes on behind them."""
_KIND_OF_SECRET: Final = re.compile(rb"(\[redacted): [\w-]+(?=\])")
"""Behind the mark that `redact` puts in the place of a secret."""
_MOST_PAIRS: Final = 4_000_000
"""Pairs of messages that are compared; more are too many to find which belongs to which."""


class Message(msgspec.Struct):
    """A message that came to an end of the chain, or a text in chunks."""

    what: str
    """In words: `session/prompt`, `the answer`, `answer to session/new`."""
    body: bytes
    is_text: bool = False
    is_error: bool = False

    @property
    def print(self) -> tuple[str, bytes]:
        """Equal for equal messages, whatever their spelling."""
        body = self.body if self.is_text else _plain(self.body)
        return self.what, hashlib.sha256(body).digest()


class Difference(msgspec.Struct, omit_defaults=True):
    """One message that differs from its recording."""

    what: str
    op: Op
    """`added`: it did not come then; `removed`: it does not come now."""
    edits: tuple[Edit, ...] = ()
    """The differences within the message; for a message that came only once, the whole message."""


class Says(msgspec.Struct):
    """The words for a component's work on the prompt of a turn, then and now, where they differ."""

    component: str
    then: str
    now: str


class TurnComparison(msgspec.Struct, omit_defaults=True):
    """One turn then and now. Turn 0 holds the messages that belong to no turn."""

    turn: int
    session: str = ""
    prompt: str = ""
    agent: tuple[Difference, ...] = ()
    """The differences in the messages that the agent gets."""
    client: tuple[Difference, ...] = ()
    """The differences in the messages that the client gets."""
    says: tuple[Says, ...] = ()
    then: bool = True
    """Whether the recording has the turn."""
    now: bool = True
    """Whether the run has the turn."""

    @property
    def same(self) -> bool:
        """Whether nothing differs at either end."""
        return not (self.agent or self.client) and self.then and self.now


def compared(then: Reader, now: Reader) -> list[TurnComparison]:
    """Compares every turn of the recording, and the turns that only the run has."""
    old, new = then.turns, now.turns
    # The run finds no secret where the recording hides one: edits of such a mark say nothing.
    hides = then.head().content == "redacted"
    made = []
    for number in range(max(len(old), len(new))):
        before = old[number] if number < len(old) else None
        after = new[number] if number < len(new) else None
        turn = before or after
        assert turn is not None
        made.append(
            TurnComparison(
                number,
                turn.session,
                turn.prompt,
                _differences(then, before, now, after, AGENT, hides=hides),
                _differences(then, before, now, after, CLIENT, hides=hides),
                tuple(_says(before, after)),
                before is not None,
                after is not None,
            )
        )
    return made


def _says(before: Turn | None, after: Turn | None) -> Iterator[Says]:
    if before is None or after is None:
        return
    then, now = ({s.component: s.says for s in turn.shares} for turn in (before, after))
    for component in dict.fromkeys((*then, *now)):
        # A component in only one of the two was swapped or left out: the user knows.
        if component in then and component in now and then[component] != now[component]:
            yield Says(component, then[component] or "nothing", now[component] or "nothing")


def _differences(
    then: Reader, before: Turn | None, now: Reader, after: Turn | None, end: str, *, hides: bool
) -> tuple[Difference, ...]:
    old = list(messages(then, then.of_turn(before), end)) if before is not None else []
    new = list(messages(now, now.of_turn(after), end)) if after is not None else []
    for message in (*old, *new) if hides else ():
        message.body = _KIND_OF_SECRET.sub(rb"\1", message.body)
    prints = [message.print for message in old], [message.print for message in new]
    made: list[Difference] = []
    for is_same, i, j, k, m in _aligned(*prints):
        if not is_same:
            made += _between(old[i:j], new[k:m])
    return tuple(made)


def _between(old: list[Message], new: list[Message]) -> Iterator[Difference]:
    """The differences of messages that are all unequal; those of one kind are compared in pairs."""
    kinds = [message.what for message in old], [message.what for message in new]
    for is_same, i, j, k, m in _aligned(*kinds):
        if is_same:
            for one, other in zip(old[i:j], new[k:m], strict=True):
                if made := _edits(one, other):  # else only the order of members differs
                    yield Difference(one.what, Op.CHANGED, made)
            continue
        for message in old[i:j]:
            yield Difference(message.what, Op.REMOVED, _whole(message, Op.REMOVED))
        for message in new[k:m]:
            yield Difference(message.what, Op.ADDED, _whole(message, Op.ADDED))


def _aligned(
    old: Sequence[Hashable], new: Sequence[Hashable]
) -> Iterator[tuple[bool, int, int, int, int]]:
    """Ranges of two lists: whether they are the same, and where each begins and ends."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    if first:
        yield True, 0, first, 0, first
    if (len(old) - first) * (len(new) - first) > _MOST_PAIRS:
        yield False, first, len(old), first, len(new)
        return
    rest = SequenceMatcher(None, old[first:], new[first:], autojunk=False)
    for op, i, j, k, m in rest.get_opcodes():
        yield op == "equal", first + i, first + j, first + k, first + m


def _edits(one: Message, other: Message) -> tuple[Edit, ...]:
    if one.is_text and other.is_text:
        return edits.of_texts(one.body.decode(), other.body.decode())
    return edits.edits(one.body, other.body)


def _whole(message: Message, op: Op) -> tuple[Edit, ...]:
    text = message.body.decode("utf-8", "replace")[:4_000]
    before, after = (text, "") if op is Op.REMOVED else ("", text)
    return (Edit(op=op, what="the whole", pointer="", before=before, after=after),)


def messages(
    reader: Reader, events: Iterable[tuple[int, Line]], end: str, *, conductors: bool = False
) -> Iterator[Message]:
    """The messages that came to an end of the chain with some events, in order. Only with
    `conductors` the conductor's own messages, and its answers in place of a component: their words
    name programs and times."""
    text: Message | None = None
    for number, line in events:
        if line.target != end or line.protocol == "mcp":
            continue
        own = line.own or Own()
        is_conductors = line.source == CONDUCTOR or (line.type == "response" and bool(own.by))
        if own.lost or (is_conductors and not conductors):
            continue
        if line.method.startswith(("mcp/", "_mcp/")):
            continue
        message = _message(reader, number, line)
        if text is not None and message.is_text and message.what == text.what:
            text.body += message.body
            continue
        if text is not None and message.what not in _BESIDE:
            yield text
            text = None
        if message.is_text:
            text = message
        else:
            yield message
    if text is not None:
        yield text


def _message(reader: Reader, number: int, line: Line) -> Message:
    body = bytes(line.body)
    if line.type == "response":
        row = reader.row(number)
        what = f"answer to {plain(row.method)}" if row is not None else "answer"
        return Message(what, body, is_error=line.is_error)
    if line.method == UPDATE:
        update = line.update
        kind = update.kind if update is not None else ""
        words = update.chunk if update is not None else None
        if words is not None and kind in _TEXTS:
            return Message(_TEXTS[kind], words.encode("utf-8", "replace"), is_text=True)
        return Message(f"{kind or 'update'}", body)
    return Message(plain(line.method), body)


def _plain(body: bytes) -> bytes:
    """The same JSON in one spelling."""
    try:
        return exact_json.encode(exact_json.parse(body))
    except (ValueError, RecursionError):
        return body
