"""The updates of tool calls that a component's hidden turn keeps from the client.

The user's approval may rest on such an update, so none is hidden by then. The updates are kept, and
go on before the agent asks anything of the user. Of calls beyond the bounds only the ids are known:
a question about such a call is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.core.guards.reading import Json, pairs, value_of
from conductor.core.jsonrpc import Params
from conductor.core.policy.headings import Message, size_of
from conductor.core.policy.key_table import TOOL_KINDS, update

MOST_CALLS: Final = 64
"""The most tool calls of one hidden turn with updates that are kept."""
MOST_BYTES: Final = 1024 * 1024
"""The most bytes of these updates."""
_MOST_LOST: Final = 1024
"""The most tool calls of one session that are known as lost: their updates are kept no more."""
_LONGEST_ID: Final = 256
"""The most characters of the id of a lost call; a longer id is not remembered."""

TOOLS: Final = frozenset(map(update, ("tool_call", "tool_call_update", *TOOL_KINDS)))
"""Keys of the updates about the work of tools."""
_BEGINS: Final = update("tool_call")
_OVER: Final = ("completed", "failed")


class _Call(msgspec.Struct):
    status: str | None = None


class _Update(msgspec.Struct):
    update: _Call


_update: Final = json_text.Decoder(_Update)


class Withheld:
    """The updates that are withheld in one session, in order."""

    __slots__ = ("_bytes", "_calls", "_hiding", "_kept", "_lost", "_too_many")

    def __init__(self) -> None:
        self._kept: list[tuple[str | None, Any, Message]] = []
        """The updates, each with the call that it is about; None: it names none."""
        self._bytes = 0
        self._hiding: set[str] = set()
        """The calls that these updates are about."""
        self._calls: dict[str, bool] = {}
        """The calls of this turn of which nothing is lost: whether each is finished."""
        self._lost: dict[str, bool] = {}
        """The calls that cannot be shown any more: whether each is finished."""
        self._too_many = False
        """Whether more calls are lost in this turn than `_lost` has, or an update that names no
        call, say the command of a terminal: it may be of any call."""

    def keep(self, source: Any, message: Message) -> None:
        """The client does not get an update of a tool call.

        Args:
            source: A `Source`, which comes back by `take`.
        """
        detail, size = message.heading.detail, size_of(message.params)
        call = detail if isinstance(detail, str) else None
        done = _call(message.params).status in _OVER
        new = call is not None and call not in self._calls
        if (
            call in self._lost
            or self._bytes + size > MOST_BYTES
            or (new and len(self._calls) >= MOST_CALLS)
        ):
            self._lose(call, done=done)
            return
        self._kept.append((call, source, message))
        self._bytes += size
        if call is not None:
            self._hiding.add(call)
            self._calls[call] = done or self._calls.get(call, False)

    def _lose(self, call: str | None, *, done: bool) -> None:
        """A call cannot be shown any more. None: the update names no call, so it may be of any."""
        if call is None or len(call) > _LONGEST_ID or len(self._lost) >= _MOST_LOST:
            self._too_many = True
        else:
            self._lost[call] = done or self._lost.get(call, False)
        if call is not None and self._calls.pop(call, None) is not None:
            self._bytes -= sum(size_of(one.params) for of, _, one in self._kept if of == call)
            self._kept = [entry for entry in self._kept if entry[0] != call]
            self._hiding.discard(call)

    def about(self, call: object) -> bool:
        """Whether updates of a call are kept, so that later ones may not go on alone."""
        return call in self._hiding

    def begins(self, message: Message, version: int | None) -> None:
        """The client gets an update: a call that begins by it is another than the lost call. In
        version 2 no update says that a call begins, so there a lost call stays lost until it is
        finished."""
        if self._lost and (
            message.key == _BEGINS or (version == 2 and _call(message.params).status in _OVER)
        ):
            self._lost.pop(str(message.heading.detail), None)

    def hides(self, question: Params) -> bool:
        """Whether a question is about a call that cannot be shown."""
        if self._too_many or not self._lost:
            return self._too_many
        return not self._lost.keys().isdisjoint(_named(value_of(question)))

    def take(self) -> list[tuple[Any, Message]]:
        """The updates, which go on now."""
        kept, self._kept, self._bytes, self._hiding = self._kept, [], 0, set()
        return [(source, message) for _, source, message in kept]

    def over(self) -> bool:
        """The turn is over: nothing is kept any more. Returns whether calls go on that the client
        has not seen: a question about such a call is refused still."""
        unseen = {call: self._calls[call] for call in self._hiding}
        self._lost = {of: done for of, done in {**self._lost, **unseen}.items() if not done}
        self._calls, self._too_many = {}, False
        self.take()
        return bool(self._lost)


def _call(params: Params) -> _Call:
    """The call in an update; an empty one, where the update cannot be read."""
    read = _update.find(params)
    return _Call() if read is None else read.update


def _named(value: Json) -> Iterator[str]:
    """The ids of tool calls anywhere in a value."""
    found = [value]
    while found:
        one = found.pop()
        if isinstance(one, list):
            found += one
            continue
        for name, held in pairs(one):
            if name == "toolCallId" and isinstance(held, str):
                yield held
            found.append(held)
