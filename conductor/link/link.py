"""One end of a link: its packets that the other end does not have yet, and those that have come."""

from __future__ import annotations

from enum import Enum
from typing import Final, NoReturn

import msgspec

from conductor.link.errors import LinkError, Reason
from conductor.link.packets import HEADING, OVERHEAD, Kind, Packet, epoch_of, is_text, parts
from conductor.link.packets import read as read_packet
from conductor.link.packets import write as write_packet

MIB: Final = 1024 * 1024


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one end, in bytes but for `acked`."""

    packet: int = 512 * 1024
    """One packet, in both directions: the same at both ends."""
    window: int = 4 * MIB
    """The other end's packets that have not come yet, or have come out of order."""
    frame: int = 64 * MIB
    """One frame, in both directions."""
    queue: int = 8 * MIB
    """Frames that the other end does not have: with so many the link is `full`; with twice as many
    it takes no more."""
    acked: int = 64
    """So many packets are acknowledged at the latest; a quarter of the window, too."""

    def __post_init__(self) -> None:
        if self.packet < 4 * HEADING or self.window < 2 * (self.packet + OVERHEAD):
            raise ValueError("a packet has 768 bytes or more, and the window room for two of them")


class State(Enum):
    """The state of a link."""

    CUT = "cut"
    """There is no network connection."""
    GREETING = "greeting"
    """There is a network connection; the packets that the other end has are unknown."""
    OPEN = "open"
    """Frames flow."""
    FAILED = "failed"
    """The link cannot go on; `Link.failure` says why."""


class Event(Enum):
    """The events of a link."""

    LINKED = "a network connection is there"
    OVERDUE = "nothing has come for too long"
    WELCOMED = "the other end has told the packets that it has"
    CUT = "the network connection is gone"
    FAILED = "an end demands something impossible, or something that is gone"


MOVES: Final = {
    (State.CUT, Event.LINKED): State.GREETING,
    (State.GREETING, Event.LINKED): State.GREETING,
    (State.GREETING, Event.OVERDUE): State.GREETING,
    (State.GREETING, Event.WELCOMED): State.OPEN,
    (State.GREETING, Event.CUT): State.CUT,
    (State.OPEN, Event.LINKED): State.GREETING,
    (State.OPEN, Event.OVERDUE): State.GREETING,
    (State.OPEN, Event.CUT): State.CUT,
    (State.GREETING, Event.FAILED): State.FAILED,
    (State.OPEN, Event.FAILED): State.FAILED,
}
"""Every move; any other event changes nothing."""


class Link:
    """One end of a link, in one epoch.

    Attributes:
        state: The state of the link.
        failure: Why the link has failed.
        kept: Bytes of the packets that the other end does not have, with 256 more for each.
    """

    def __init__(self, epoch: str, limits: Limits | None = None) -> None:
        self.state = State.CUT
        self.failure: LinkError | None = None
        self.kept = 0
        self._epoch = epoch_of(epoch)
        self._limits = limits or Limits()
        # Towards the other end: it has all packets up to `_base`. `_sent` is the highest packet
        # that it may have, `_next` goes next, `_last` is the highest of all.
        self._packets: dict[int, tuple[Kind, bytes]] = {}
        self._base = self._sent = self._last = 0
        self._next = 1
        self._spent = self._credit = 0
        """The bytes of all packets up to `_sent`, and the most that they may be."""
        self._hellos = self._base_then = 0
        """The number of the last `hello`, and `_base` when it was due."""
        self._hello_due = False
        # From the other end: all packets up to `_have` have come in order, those in `_ahead` have
        # not.
        self._ahead: dict[int, Packet] = {}
        self._have = self._taken = self._early = self._granted = 0
        """With `_have`: the bytes of packets in order and ahead, and the most that they may be."""
        self._parts = bytearray()
        self._their_hello = 0
        self._welcome_due = self._ack_due = self._paused = False
        self._owed = self._owed_bytes = 0
        """The packets and bytes that have come in order since this end last told its state."""

    @property
    def full(self) -> bool:
        """Whether the owner should pause the source of frames."""
        return self.kept >= self._limits.queue

    @property
    def held(self) -> int:
        """The bytes of the other end's incomplete frames."""
        return len(self._parts) + self._early

    @property
    def waits(self) -> bool:
        """Whether the other end owes an answer: if none comes, call `overdue`."""
        return self.state is State.GREETING or (self.state is State.OPEN and self.kept > 0)

    def linked(self) -> None:
        """A network connection is there: this end tells which packets it has."""
        self._greet(Event.LINKED)

    def overdue(self) -> None:
        """Packets seem to be lost: the other end must tell again which packets it has, and this end
        sends the rest again. The owner writes all packets of `take` before this call."""
        self._greet(Event.OVERDUE)

    def cut(self) -> None:
        """The network connection is gone. Frames wait."""
        self._move(Event.CUT)

    def ack(self) -> None:
        """The next packet tells which packets this end has, if the other end does not know yet."""
        self._ack_due = self._ack_due or self._owed > 0

    def pause(self) -> None:
        """The other end may send no more than it already may, until `go_on`."""
        self._paused = True

    def go_on(self) -> None:
        """The other end may send again."""
        self._paused = False
        self._ack_due = True

    def send(self, frame: bytes) -> None:
        """Keeps a frame until the other end has it.

        Raises:
            LinkError: the frame is too long or no text, the link keeps too much, or has failed.
        """
        if self.failure is not None:
            raise self.failure
        if self.kept >= 2 * self._limits.queue:
            raise LinkError(
                Reason.FULL,
                f"a link keeps {self.kept} bytes that the other end does not take",
                "pause the source of frames while the link is full",
            )
        if len(frame) > self._limits.frame:
            raise self._long_frame("this", len(frame))
        if not is_text(frame):
            raise LinkError(
                Reason.TEXT, "a frame is no UTF-8, so no link takes it", "send JSON in UTF-8"
            )
        payloads = list(parts(frame, self._limits.packet - HEADING))
        for payload in payloads[:-1]:
            self._keep(Kind.PART, payload)
        self._keep(Kind.FRAME, payloads[-1])

    def take(self) -> bytes | None:
        """The next packet to write; None: there is none now."""
        if self.state not in (State.GREETING, State.OPEN):
            return None
        if self._welcome_due:
            self._welcome_due = False
            return self._stating(Kind.WELCOME, number=self._their_hello, oldest=self._base + 1)
        if self._hello_due:
            self._hello_due = False
            return self._stating(Kind.HELLO, number=self._hellos, oldest=self._base + 1)
        if self.state is State.OPEN and self._may_send():
            kind, payload = self._packets[self._next]
            self._next += 1
            return self._stating(kind, sequence=self._next - 1, payload=payload)
        if self.state is State.OPEN and self._ack_due:
            return self._stating(Kind.ACK)
        return None

    def received(self, raw: bytes) -> list[bytes]:
        """The frames that a packet completes, in order.

        Raises:
            LinkError: the packet is refused. If the state is FAILED then, the link is over;
                otherwise nothing has changed.
        """
        if self.failure is not None:
            raise self.failure
        if self.state is State.CUT:
            return []
        packet = read_packet(self._epoch, raw, self._limits.packet)
        if packet.kind not in (Kind.HELLO, Kind.WELCOME) and not self._their_hello:
            raise LinkError(
                Reason.EARLY,
                f"the other end of a link sent `{packet.kind.name.lower()}` before its `hello`",
                "it must say `hello` first on each connection",
            )
        self._acknowledged(packet)
        if packet.kind is Kind.HELLO:
            self._greeted(packet)
        elif packet.kind is Kind.WELCOME:
            self._welcomed(packet)
        elif packet.kind is not Kind.ACK:
            return self._numbered(packet)
        return []

    # Towards the other end

    def _keep(self, kind: Kind, payload: bytes) -> None:
        self._last += 1
        self._packets[self._last] = (kind, payload)
        self.kept += len(payload) + OVERHEAD

    def _may_send(self) -> bool:
        """Whether a packet may go; at its first time it takes its part of the window."""
        if self._next <= self._sent:
            return True
        if self._next > self._last:
            return False
        cost = len(self._packets[self._next][1]) + OVERHEAD
        if self._spent + cost > self._credit:
            return False
        self._spent += cost
        self._sent = self._next
        return True

    def _stating(
        self, kind: Kind, sequence: int = 0, number: int = 0, oldest: int = 0, payload: bytes = b""
    ) -> bytes:
        """A packet, which also tells the packets that this end has, and its credit."""
        self._owed = self._owed_bytes = 0
        self._ack_due = False
        if not self._paused:
            self._granted = self._taken + self._limits.window
        packet = Packet(kind, self._have, self._granted, sequence, number, oldest, payload)
        return write_packet(self._epoch, packet)

    def _acknowledged(self, packet: Packet) -> None:
        """Forgets the packets that the other end has."""
        if packet.have > self._sent:
            self._fail(
                Reason.AHEAD,
                f"the other end of a link has packet {packet.have}; {self._sent} were sent",
                "one end has lost its state: open a new connection",
            )
        for sequence in range(self._base + 1, packet.have + 1):
            self.kept -= len(self._packets.pop(sequence)[1]) + OVERHEAD
        self._base = max(self._base, packet.have)
        self._next = max(self._next, self._base + 1)
        self._credit = max(self._credit, packet.credit)

    # The handshake

    def _greet(self, event: Event) -> None:
        """Says `hello`; again, if the answer to the last `hello` has not come."""
        if self.state is not State.GREETING:
            self._hellos += 1
            self._base_then = self._base
        self._hello_due = self._move(event)

    def _greeted(self, packet: Packet) -> None:
        self._reaches(packet)
        if packet.number >= self._their_hello:
            self._their_hello = packet.number
            self._welcome_due = True

    def _welcomed(self, packet: Packet) -> None:
        """Takes the answer to the last `hello`, and to no earlier one: it tells where to go on."""
        if packet.number != self._hellos or self.state is not State.GREETING:
            return
        self._reaches(packet)
        if packet.have < self._base_then:
            self._gap(packet.have + 1, self._base_then + 1, "this")
        self._move(Event.WELCOMED)
        self._next = self._base + 1

    def _reaches(self, packet: Packet) -> None:
        if packet.oldest > self._have + 1:
            self._gap(self._have + 1, packet.oldest, "the other")

    # From the other end

    def _numbered(self, packet: Packet) -> list[bytes]:
        """Keeps a packet until all before it have come."""
        if packet.sequence <= self._have or packet.sequence in self._ahead:
            self._ack_due = True  # the other end does not know that the packet has come
            return []
        missing = max(0, packet.sequence - self._have - 1 - len(self._ahead))
        total = self._taken + self._early + packet.cost + missing * OVERHEAD
        if total > self._granted:
            self._fail(
                Reason.WINDOW,
                f"the other end of a link sent {total} bytes where {self._granted} are allowed",
                "it must keep to the credit that it is given",
            )
        self._ahead[packet.sequence] = packet
        self._early += packet.cost
        frames: list[bytes] = []
        while (ready := self._ahead.pop(self._have + 1, None)) is not None:
            self._in_order(ready, frames)
        return frames

    def _in_order(self, packet: Packet, frames: list[bytes]) -> None:
        self._have += 1
        self._early -= packet.cost
        self._taken += packet.cost
        self._owed += 1
        self._owed_bytes += packet.cost
        if self._owed >= self._limits.acked or self._owed_bytes >= self._limits.window // 4:
            self._ack_due = True
        length = len(self._parts) + len(packet.payload)
        if length > self._limits.frame:
            self._end(self._long_frame("the other", length))
        if packet.kind is Kind.PART or self._parts:
            self._parts += packet.payload
        if packet.kind is Kind.FRAME:
            frames.append(bytes(self._parts) or packet.payload)
            self._parts = bytearray()

    # The end

    def _move(self, event: Event) -> bool:
        """Takes the step of an event. Returns whether there is such a step."""
        after = MOVES.get((self.state, event))
        self.state = after or self.state
        return after is not None

    def _gap(self, needed: int, oldest: int, end: str) -> NoReturn:
        self._fail(
            Reason.GAP,
            f"a link needs packet {needed}, and {end} end keeps none before {oldest}",
            "open a new connection; session/load brings the history",
        )

    def _long_frame(self, end: str, length: int) -> LinkError:
        return LinkError(
            Reason.FRAME,
            f"{end} end of a link sends a frame of {length} bytes; the limit is "
            f"{self._limits.frame}",
            "send it in smaller messages, or raise the limit at both ends",
        )

    def _fail(self, reason: Reason, text: str, hint: str) -> NoReturn:
        self._end(LinkError(reason, text, hint))

    def _end(self, error: LinkError) -> NoReturn:
        """The link is over: nothing is kept any more."""
        self._move(Event.FAILED)
        self.failure = error
        self._packets.clear()
        self._ahead.clear()
        self._parts = bytearray()
        self.kept = 0
        raise error
