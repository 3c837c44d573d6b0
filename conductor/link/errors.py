"""The reasons to refuse a packet, a frame or the other end, by name."""

from __future__ import annotations

from enum import Enum

from conductor.errors import ConductorError


class Reason(Enum):
    """Why a link refuses something. GAP, AHEAD, WINDOW and a FRAME of the other end are the end of
    a link; after any other reason nothing has changed."""

    EPOCH = "epoch"
    """A packet of another epoch: the other end has started anew, or its connection is dead."""
    MALFORMED = "malformed"
    """No packet of `conductor.link.1`."""
    LARGE = "large"
    """A packet above the limit."""
    EARLY = "early"
    """A packet of the other end before its `hello`."""
    GAP = "gap"
    """One end needs frames that the other end no longer keeps."""
    AHEAD = "ahead"
    """The other end reports a packet that this end has never sent."""
    WINDOW = "window"
    """The other end sends more bytes than it may."""
    FRAME = "frame"
    """A frame above the limit."""
    TEXT = "text"
    """A frame to send that is no UTF-8."""
    FULL = "full"
    """A frame to send, and the link keeps as much as it may: its source was not paused."""


class LinkError(ConductorError):
    """A packet, a frame or the other end of a link is refused.

    Attributes:
        reason: The reason for the refusal.
    """

    def __init__(self, reason: Reason, text: str, hint: str) -> None:
        super().__init__(text, hint, {"reason": reason.value})
        self.reason = reason
