"""The rights that a component uses in its transcripts, and those of them that it lacks. Pure.

The input and output of the component are compared as the engine does it in a chain. A message that
differs from its input is a change, a message without input is its own, a request that the
component answered itself did not go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import UNSET, Raw

from conductor.author import sides, transcripts
from conductor.core import jsonrpc
from conductor.core.jsonrpc import Message
from conductor.core.policy import words
from conductor.core.policy.headings import heading
from conductor.core.policy.key_table import (
    AMEND,
    ANSWER,
    CARRY,
    COPY,
    DROP,
    MCP_FAMILIES,
    ORIGINATE,
    PROMPT,
    ROWS,
    SEEN,
    Direction,
)
from conductor.core.policy.rules import Policy
from conductor.core.service_table import (
    ALWAYS_GRANTED,
    CALLS,
    SHOWN_GRANTS,
    TURN_BEGIN,
    granted_names,
)
from conductor.record import diff

_WAY: Final = {b"p": Direction.DOWN, b"s": Direction.UP}
"""The direction of a message that comes in on a side."""
_OTHER: Final = {b"p": b"s", b"s": b"p"}


class Cell(NamedTuple):
    """A use of a message by a component."""

    direction: Direction
    key: str
    right: int


class Uses:
    """The uses of a component in its transcripts, each with its first place."""

    def __init__(self) -> None:
        self.cells: dict[Cell, str] = {}
        self.services: dict[str, str] = {}

    def play(self, text: bytes, path: str) -> None:
        """Takes a transcript that the component has kept."""
        played = _Play(self, path)
        for delivery in transcripts.read(text, path):
            played.line = delivery.line
            for line in delivery.given.split(b"\n")[:-1]:
                played.got(line)
            for line in delivery.expected.split(b"\n")[:-1]:
                played.sent(line)
        played.ends()

    def lacking(self, held: Iterable[str]) -> dict[str, str]:
        """The words for uses without a right, each with a place."""
        held = tuple(held)
        policy, services = words.policy(*held), granted_names(words.services(held))
        found: dict[str, str] = {}
        for (direction, key, right), place in self.cells.items():
            if policy is None or right in (COPY, DROP) or policy.rights(direction, key) & right:
                continue
            is_own = policy.serves if key.startswith(MCP_FAMILIES) else policy.grants.sessions
            if is_own and (right == ORIGINATE or key.startswith(MCP_FAMILIES)):
                continue  # it has all rights to its own
            if word := words.word_for(direction, key, right):
                found.setdefault(word, place)
        for service, place in self.services.items():
            if service not in services:
                found.setdefault(SHOWN_GRANTS.get(service, service), place)
        return found

    def unused(self, held: Iterable[str]) -> list[str]:
        """The words that it holds and does nothing with, as far as messages show it."""
        return [name for name in held if not any(map(self._uses, words.flat([name])))]

    def _uses(self, name: str) -> bool:
        if words.word(name).is_service:
            return name.partition(":")[0] in self.services
        policy = words.policy(name)
        if policy is None or not (given := _given(policy)):
            return True  # a message does not show it
        # A component that changes a message sees it: the word for both is there for the change.
        bits = COPY if given & ~SEEN == 0 and not given & CARRY else ~COPY
        return any(
            policy.rights(direction, key) & right & bits for direction, key, right in self.cells
        )


def _given(policy: Policy) -> int:
    """All rights that a policy gives on any key."""
    given = 0
    for row in ROWS:
        for key in row.keys:
            given |= policy.rights(row.direction, key)
    return given


class _Arrived:
    """A message that the component has got."""

    def __init__(self, direction: Direction, message: Message) -> None:
        self.direction = direction
        self.params = _bytes(message.params)
        self.method = message.method
        self.key = heading(str(message.method), message.params).key
        self.went_on = False
        self.answer: bytes | None = None


class _Play:
    """One transcript, line by line."""

    def __init__(self, uses: Uses, path: str) -> None:
        self._uses = uses
        self._path = path
        self.line = 0
        self._requests: dict[tuple[bytes, bytes], _Arrived] = {}
        """Requests that came in, by side and id; and those that went on, by their new side and
        id."""
        self._waiting: list[_Arrived] = []
        """Notifications that have not gone on."""

    def got(self, line: bytes) -> None:
        """A line that the component gets."""
        side, message = _read(line)
        if message is None or side not in _WAY:
            return
        if message.method is UNSET:
            asked = self._requests.get((_OTHER[side], _bytes(message.id)))
            if asked is not None and asked.went_on:
                asked.answer = _body(message)
            return
        arrived = _Arrived(_WAY[side], message)
        self._use(arrived.direction, arrived.key, COPY)
        if isinstance(message.id, Raw):
            self._requests[side, bytes(message.id)] = arrived
        else:
            self._waiting.append(arrived)

    def sent(self, line: bytes) -> None:
        """A line that the component returns."""
        side, message = _read(line)
        if message is None:
            return
        if side == b"c":
            if message.method == TURN_BEGIN:
                self._use(Direction.DOWN, PROMPT, ORIGINATE)
            call = CALLS.get(str(message.method))
            if call is not None and call.service not in ALWAYS_GRANTED:
                self._uses.services.setdefault(call.service, self._place)
        elif side in _WAY and message.method is UNSET:
            self._answers(side, message)
        elif side in _WAY:
            self._sends(_WAY[_OTHER[side]], side, message)

    def ends(self) -> None:
        """Notifications that have not gone on are dropped."""
        for arrived in self._waiting:
            self._use(arrived.direction, arrived.key, DROP)

    def _answers(self, side: bytes, message: Message) -> None:
        asked = self._requests.get((side, _bytes(message.id)))
        if asked is None:
            return
        if not asked.went_on:
            self._use(asked.direction, asked.key, ANSWER)
        elif asked.answer is not None and not diff.same(asked.answer, _body(message)):
            self._use(asked.direction, asked.key, AMEND)

    def _sends(self, direction: Direction, side: bytes, message: Message) -> None:
        key = heading(str(message.method), message.params).key
        arrived: _Arrived | None = None
        if isinstance(message.id, Raw):
            arrived = self._requests.get((_OTHER[side], bytes(message.id)))
        else:
            like = [a for a in self._waiting if (a.direction, a.key) == (direction, key)]
            same = (a for a in like if diff.same(a.params, _bytes(message.params)))
            arrived = next(same, like[0] if like else None)
            if arrived is not None:
                self._waiting.remove(arrived)
        if arrived is None or arrived.method != message.method or arrived.went_on:
            self._use(direction, key, ORIGINATE)
            return
        arrived.went_on = True
        if not diff.same(arrived.params, _bytes(message.params)):
            self._use(direction, key, CARRY)

    def _use(self, direction: Direction, key: str, right: int) -> None:
        self._uses.cells.setdefault(Cell(direction, key, right), self._place)

    @property
    def _place(self) -> str:
        return f"{self._path}:{self.line}"


def _read(line: bytes) -> tuple[bytes, Message | None]:
    side, text = sides.split(line)
    return side, jsonrpc.message_of(text)


def _body(message: Message) -> bytes:
    return _bytes(message.result) + _bytes(message.error)


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, Raw) else b""
