"""Enforces policies: what a component may see, change, answer and send, message by message.

A message enters here where it leaves a peer's lane, if that peer or the one across is policed.
First what a policed sender does is checked (does it forward what it was given, unchanged if it
must be; does it originate), then the message walks on: past components without a verb on it, as a
copy to those that observe, into the first that may change or answer it.

A violation changes nothing for the others: the conversation goes on as if the component had passed
the message through. Nor does what passes a component by overtake what it was given before, within
one session and direction.
"""

from __future__ import annotations

from collections.abc import Iterator

from conductor.core.copies import Copies
from conductor.core.custody import Custody
from conductor.core.effects import Effect
from conductor.core.exchange import Exchange
from conductor.core.gate import Gate
from conductor.core.owners import Owners
from conductor.core.peer import Peer
from conductor.core.policed_initialize import PolicedInitialize
from conductor.core.policed_notifications import PolicedNotifications
from conductor.core.policed_requests import PolicedRequests
from conductor.core.stopped_turns import StoppedTurns
from conductor.core.verdicts import Verdicts, closure

__all__ = ["Enforcer", "closure"]


class Enforcer:
    """The checks of one chain, each in its part. Used only for lanes with a policed peer at one
    end."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        verdicts = Verdicts(exchange)
        self.copies = Copies(exchange)
        self.owners = Owners(self._gates)
        self._custody = Custody(exchange, self.copies)
        stopped = StoppedTurns(exchange, self.copies, self._custody)
        self.requests = PolicedRequests(exchange, verdicts, self.copies, self.owners, self._custody)
        self.notifications = PolicedNotifications(exchange, verdicts, self.copies, stopped)
        self.initialize = PolicedInitialize(verdicts)

    def _gates(self) -> Iterator[Gate]:
        return (peer.gate for peer in self._exchange.peers.values() if peer.gate is not None)

    def heard(self, peer: Peer, out: list[Effect]) -> None:
        """A guest has been given everything written to it before its round began, and has said all
        it had to say to that."""
        gate = peer.gate
        assert gate is not None
        gate.quick = gate.simple
        if gate.late:
            gate.late = False
        else:
            peer.forget_told()
        if gate.relays:
            self._custody.relay_on(peer, gate, out)
        if gate.owing:
            self._custody.give_up_places(peer, gate, out)
