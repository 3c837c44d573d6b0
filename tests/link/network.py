"""Two ends on a network that loses, doubles, reorders, splits and cuts; their owners start anew.

What the ends write is read by other code than theirs (`tests.link.support.seen`), and held to what
the wire promises.
"""

from typing import Final

import pytest

from conductor.link import Limits, Link, LinkError, Reason, State
from tests.link.support import COST, seen

OTHER: Final = {"a": "b", "b": "a"}


class Network:
    """Two ends, `a` and `b`, and the packets between them.

    Attributes:
        links: The ends.
        air: What is on its way: for whom, the packet, and whether it is whole.
        sent, got: The frames of each end in each epoch.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.epochs = {"a": 0, "b": 0}
        self.links: dict[str, Link] = {}
        self.air: list[tuple[str, bytes, bool]] = []
        self.sent: dict[tuple[str, int], list[bytes]] = {}
        self.got: dict[tuple[str, int], list[bytes]] = {}
        self._costs: dict[tuple[str, int], dict[int, int]] = {}
        """The costs of the numbered packets that an end has written in an epoch."""
        self._credit: dict[tuple[str, int], int] = {}
        """The highest that an end has written in an epoch."""
        for name in OTHER:
            self._begin(name, 1)

    def _begin(self, name: str, epoch: int) -> None:
        here = (name, epoch)
        self.links[name] = Link(f"e{epoch}", self.limits)
        self.epochs[name] = epoch
        self.sent[here], self.got[here], self._costs[here], self._credit[here] = [], [], {}, 0

    # Acts of the owners

    def send(self, name: str, length: int) -> None:
        """A frame with characters of every length, unlike all others."""
        link, frames = self.links[name], self.sent[name, self.epochs[name]]
        text = f"{name}{self.epochs[name]}:{len(frames)}:"
        frame = (text + ("aé€😀" * length)[: max(0, length - len(text))]).encode()
        if link.kept >= 2 * self.limits.queue:
            with pytest.raises(LinkError) as caught:
                link.send(frame)
            assert caught.value.reason is Reason.FULL
            return
        link.send(frame)
        frames.append(frame)
        most = 2 * self.limits.queue + self.limits.frame
        assert link.kept <= most + COST * (2 + self.limits.frame // 512)

    def write(self, name: str, most: int) -> None:
        """Puts packets of an end into the air, `most` at most."""
        for _ in range(most):
            packet = self.links[name].take()
            if packet is None:
                return
            self._judge(name, packet)
            self.air.append((OTHER[name], packet, True))

    def restart(self, name: str) -> None:
        """An end starts anew; the other one does not know yet."""
        self._begin(name, max(self.epochs.values()) + 1)
        self.links[name].linked()

    def learn(self) -> None:
        """The end that stands in an older epoch hears of the new one."""
        newest = max(self.epochs.values())
        for name, epoch in self.epochs.items():
            if epoch < newest:
                self._begin(name, newest)
                self.links[name].linked()

    # Acts of the network

    def arrive(self, index: int, *, stays: bool = False) -> None:
        """A packet arrives; where it `stays`, it will come again."""
        name, packet, whole = self.air[index] if stays else self.air.pop(index)
        link, epoch = self.links[name], self.epochs[name]
        refused: Reason | None = None
        frames: list[bytes] = []
        try:
            frames = link.received(packet)
        except LinkError as error:
            refused = error.reason
        if whole:
            late = seen(packet).epoch != f"e{epoch}" and link.state is not State.CUT
            assert refused is (Reason.EPOCH if late else None)
        else:
            assert refused in (None, Reason.EPOCH, Reason.MALFORMED)
        assert link.failure is None
        got, sent = self.got[name, epoch], self.sent.get((OTHER[name], epoch), [])
        assert not frames or whole
        got += frames
        assert got == sent[: len(got)]

    def split(self, index: int, at: int) -> None:
        """A packet breaks into two pieces."""
        name, packet, _ = self.air[index]
        if at % len(packet):
            pieces = packet[: at % len(packet)], packet[at % len(packet) :]
            self.air[index : index + 1] = [(name, piece, False) for piece in pieces]

    def settle(self, *, lossy: bool = True) -> None:
        """From now on nothing is lost, and all is linked: everything must come."""
        self.learn()
        for link in self.links.values():
            link.go_on()
            if link.state is State.CUT:
                link.linked()
        for _ in range(2 if lossy else 0):
            self._flow()
            for link in self.links.values():
                link.ack()
                if lossy and link.waits:
                    link.overdue()
        self._flow()
        for name, epoch in self.epochs.items():
            assert self.got[name, epoch] == self.sent[OTHER[name], epoch]
            assert self.links[name].state is State.OPEN
            assert self.links[name].kept == 0 or not lossy

    def _flow(self) -> None:
        """All that is written comes, until nothing is."""
        moved = True
        while moved:
            for name in OTHER:
                self.write(name, 1000)
            moved = bool(self.air)
            while self.air:
                self.arrive(0)

    # Promises of the wire

    def _judge(self, name: str, packet: bytes) -> None:
        assert len(packet) <= self.limits.packet
        this, epoch = seen(packet), self.epochs[name]
        here, there = (name, epoch), (OTHER[name], epoch)
        assert this.epoch == f"e{epoch}"
        if this.sequence:
            costs = self._costs[here]
            assert this.sequence == len(costs) + 1 or costs[this.sequence] == this.cost
            costs[this.sequence] = this.cost
            assert sum(costs.values()) <= self._credit.get(there, 0)
        theirs = self._costs.get(there, {})
        taken = sum(theirs[sequence] for sequence in range(1, this.have + 1))
        assert self._credit[here] <= this.credit or not this.credit
        assert this.credit <= taken + self.limits.window
        self._credit[here] = max(self._credit[here], this.credit)
