"""An event of a trace, as it is read into turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from conductor.record.turns.line import Error, Line, Own, Prompted
from conductor.record.turns.messages import Update
from conductor.record.turns.model import Change
from conductor.record.turns.open_turn import OpenTurn, ToolCall
from conductor.record.turns.seen import Asked, Seen

_NONE: Final = Own()


class Event(msgspec.Struct, eq=False):
    """A message, a verdict, or something that happened to a component, with all that is found out
    about it."""

    number: int
    """The event's place in the trace."""
    line: Line
    turn: OpenTurn
    asked: Asked | None = None
    """Of a response its request; of a request itself."""
    got: Seen | None = None
    """The message that its sender passes on by this event."""
    change: Change | None = None
    """How its sender treated the message `got`; None: the sender is no component."""
    ms_in: float = 0.0
    """Of a response for how long its sender had the request and the answer, of another message for
    how long its sender had the message that it passes on, in milliseconds."""
    update: Update | None = None
    tool: ToolCall | None = None
    """The tool call that the client is told of."""
    error: Error | None = None
    """Of a response the error that it is."""
    before: msgspec.Raw | None = None
    """The params of the prompt that its sender changed by it; None: it changed none, or they are
    not known any more."""
    begins: bool = False
    """Whether the turn begins with this event."""
    ends: bool = False
    """Whether the turn ends with this event."""
    answer: Prompted | None = None
    """The result of the turn's prompt."""
    uncut: Sequence[int] = ()
    """Events with words of this turn, which has ended: their sender has only cut them anew."""
    gap: str = ""
    """The gap before this event, in words."""

    @property
    def own(self) -> Own:
        """Our own members of it."""
        return self.line.own or _NONE
