"""One end of a link whose packets the bus carries."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from conductor.fleet import messages
from conductor.fleet.bus import Bus
from conductor.fleet.sealed import Seal
from conductor.link import Limits, Link, LinkError, Reason

_ACK: Final = 0.02
"""Seconds after which the other end hears which packets have come, if nothing is sent before."""
_OVERDUE: Final = 0.5
"""Seconds without a packet after which packets without an answer seem to be lost: NATS drops
messages that a subscriber does not take."""
_SILENT: Final = 10
"""After so many looks without an answer in a row, the other end has forgotten the connection."""
_STILL: Final = 10.0
"""Seconds without a packet after which an end asks whether the other end still has the link: the
message that closed the link may have been lost."""


class Holder(Protocol):
    """Has a link, and hears of its end."""

    def link_failed(self, error: LinkError) -> None:
        """The link cannot go on."""

    def link_silent(self) -> None:
        """The other end no longer answers, while NATS is there."""


class Carried:
    """A link. Its owner hands over packets as they come, and calls `close`."""

    def __init__(
        self,
        bus: Bus,
        epoch: str,
        to: str,
        seal: Seal,
        limits: Limits,
        holder: Holder,
    ) -> None:
        """`to`: the subject for packets to the other end, closed by `seal`."""
        self._bus, self._to, self._holder = bus, to, holder
        self._seal = seal
        self._link = Link(epoch, limits)
        self._loop = asyncio.get_running_loop()
        self._ack: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._is_due = False
        """Whether that is for an answer that is due."""
        self._heard = 0
        """Packets that have come."""
        self._missed = 0
        """How often in a row nothing has come that was due."""
        self._over = False
        bus.cut.append(self._cut)
        bus.linked.append(self.begin)

    @property
    def kept(self) -> int:
        """The bytes that the other end does not have yet, as far as this end knows."""
        return self._link.kept

    @property
    def held(self) -> int:
        """The bytes of the other end's incomplete frames."""
        return self._link.held

    @property
    def full(self) -> bool:
        """Whether the source of frames should wait."""
        return self._link.full

    def begin(self) -> None:
        """The bus is there: both ends tell which packets they have."""
        if self._bus.is_linked:
            self._missed = 0
            self._link.linked()
            self.flush()

    def expect(self) -> None:
        """The other end begins."""
        self._link.linked()
        self._await()

    def _cut(self) -> None:
        self._link.cut()

    def send(self, frame: bytes) -> None:
        """Keeps a frame until the other end has it. Raises `LinkError` if it cannot go."""
        self._link.send(frame)

    def flush(self) -> None:
        """Sends the packets that may go."""
        if self._over:
            return
        link, bus, to, closed = self._link, self._bus, self._to, self._seal.closed
        while bus.is_linked and (packet := link.take()) is not None:
            bus.publish(to, closed(packet))
        self._await()

    def _await(self) -> None:
        """Looks later whether something has come: soon, if an answer is due."""
        is_due = self._link.waits
        if self._late is not None:
            if self._is_due or not is_due:
                return
            self._late.cancel()
        self._is_due = is_due
        seconds = _OVERDUE if is_due else _STILL
        now = self._heard, self._bus.answers
        self._late = self._loop.call_later(seconds, self._look, *now)

    def say(self, message: object) -> None:
        """Sends a message beside the link."""
        self._bus.publish(self._to, self._seal.closed(messages.write(message)))

    def opened(self, data: bytes) -> bytes | None:
        """The packet in a message; None: the message is not from the other end."""
        return self._seal.opened(data)

    def received(self, packet: bytes) -> list[bytes]:
        """The frames that a packet completes. A packet of another epoch is dropped."""
        self._heard += 1
        try:
            frames = self._link.received(packet)
        except LinkError as error:
            if error.reason not in (Reason.EPOCH, Reason.EARLY):
                self._holder.link_failed(error)
            return []
        self.flush()
        if frames and self._ack is None:
            self._ack = self._loop.call_later(_ACK, self._acknowledge)
        return frames

    def _acknowledge(self) -> None:
        self._ack = None
        self._link.ack()
        self.flush()

    def _look(self, heard: int, answers: int) -> None:
        """Sends packets again that seem to be lost; or asks, where no answer was due. Nothing
        counts as missed while NATS itself does not answer."""
        self._late = None
        if self._over:
            return
        if self._heard != heard:
            self._missed = 0
        elif self._bus.answers == answers:
            pass
        elif self._missed < _SILENT:
            self._missed += 1
            self._link.overdue()
        else:
            self._holder.link_silent()
            return
        self.flush()

    def pause(self) -> None:
        """The other end must stop sending for now."""
        self._link.pause()

    def go_on(self) -> None:
        """The other end may send again."""
        self._link.go_on()
        self.flush()

    def close(self) -> None:
        """Ends the link; waiting frames are dropped."""
        if self._over:
            return
        self._over = True
        self._bus.cut.remove(self._cut)
        self._bus.linked.remove(self.begin)
        for timer in (self._ack, self._late):
            if timer is not None:
                timer.cancel()
