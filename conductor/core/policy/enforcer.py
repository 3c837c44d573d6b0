"""Enforces policies: what a component may see, change, answer and send, message by message.

A message enters here where it leaves a peer's lane, if that peer or the one across has a policy
state. First the engine identifies what the sender did (it passed on what it was given, or sends a
message of its own) and checks that. Then it routes the message on: past components that hold no
right on it, with a copy to those that may look, to the first that carries it.

A violation changes nothing for the others: the conversation goes on as if the component had passed
the message on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

from conductor.core.exchange import Exchange
from conductor.core.own_turns import OwnTurns
from conductor.core.policy.checks import Checks
from conductor.core.policy.deadlines import Deadlines
from conductor.core.policy.handshake import PolicedHandshake
from conductor.core.policy.notifications import PolicedNotifications
from conductor.core.policy.observers import Observers
from conductor.core.policy.ownership import McpOwnership
from conductor.core.policy.policy_state import PolicyState
from conductor.core.policy.requests import PolicedRequests
from conductor.core.policy.turns import Turns
from conductor.core.state import Carried, Peer


class Enforcer:
    """The engine of one chain. Used only for lanes with a policy state at one end."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.checks = checks = Checks(exchange)
        self.deadlines = Deadlines(exchange)
        self.observers = Observers(exchange)
        self.mcp_ownership = McpOwnership(exchange, self._policy_states)
        self.turns = turns = Turns(exchange, self.observers, self.deadlines, self._over)
        self.notifications = PolicedNotifications(
            exchange, checks, self.observers, turns, self.deadlines
        )
        self.own_turns = OwnTurns(exchange, self.notifications, turns, self.deadlines)
        self.requests = PolicedRequests(
            exchange,
            checks,
            self.observers,
            self.mcp_ownership,
            turns,
            self.deadlines,
            self.notifications,
            self.own_turns,
        )
        self.handshake = PolicedHandshake(exchange, checks)

    def _over(self, carried: Carried, member: bytes, body: bytes) -> None:
        self.requests.over(carried, member, body)

    def _policy_states(self) -> Iterator[PolicyState]:
        return (
            peer.policy_state
            for peer in self._exchange.peers.values()
            if peer.policy_state is not None
        )

    def round_over(self, peer: Peer) -> None:
        """A guest has been delivered everything that was written to it before its round began, and
        has returned all it had to send for that."""
        policy_state = peer.policed
        self.notifications.round_over(peer.p, policy_state.round)
        self.notifications.round_over(peer.s, policy_state.round)

    def gone(self, peer: Peer) -> None:
        """A component is gone: what it carried, and what waits for that."""
        if peer.policy_state is not None:
            if peer.p.across is not None:
                self.notifications.show_withheld(peer.p.other, None)
            self.notifications.gone(peer.p, settled=False)
            self.notifications.gone(peer.p.other, settled=False)

    def settled(self, peer: Peer) -> None:
        """A component ends with its chain: what it has not passed on it never will."""
        if peer.policy_state is not None:
            self.notifications.gone(peer.p, settled=True)
            self.notifications.gone(peer.p.other, settled=True)
