"""The router: bytes of one peer in, effects out. No await, clock, randomness or logging.

Here is what the shells around the core ask of it; how messages go is in the parts it has, from
`conductor.core.dispatch` on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from conductor.core import dialects, endings, jsonrpc, oversize, turns
from conductor.core.chain import UPSTREAM
from conductor.core.dispatch import Intake
from conductor.core.effects import Closure, Effect
from conductor.core.exchange import Exchange
from conductor.core.peer import Component, Peer
from conductor.core.policy.enforcer import Enforcer
from conductor.core.requests import Requests
from conductor.core.roles.initialize import Initializer
from conductor.core.roles.recovery import LostRoles
from conductor.core.services import LAST_WORDS, Services
from conductor.core.topology import Side, Topology

_TURN: Final = b"turn:"
"""How the key of a turn begins."""

__all__ = ["LAST_WORDS", "UPSTREAM", "Router"]


class Router:
    """Routes one chain.

    `components` are the proxies and, in agent mode, the agent last. `mode` is `agent`, `proxy`, or
    `auto`: then the first request from upstream decides (`initialize`, or a role request).
    `upstream` is the dialect spoken with an outer conductor where it is known beforehand;
    `tracing` has `Trace` effects made, `audited` names the components of which `Changed` are;
    `reserved` are names of MCP servers besides those of the components that only their owners may
    use; `first_number` is where the numbers of messages begin in a host of guests that reports what
    passes between them (`conductor.core.trail`); `max_depth` how deep a frame may nest (at most
    `jsonrpc.MAX_DEPTH`). Raises `ValueError` for a chain that cannot be: two components of one
    name, or no agent.
    """

    def __init__(
        self,
        components: Sequence[Component],
        mode: str = "agent",
        *,
        upstream: dialects.Dialect | None = None,
        tracing: bool = False,
        audited: Collection[str] = (),
        owned: Mapping[str, Collection[str]] | None = None,
        reserved: Collection[str] = (),
        first_number: int = 0,
        max_depth: int = jsonrpc.MAX_DEPTH,
    ) -> None:
        if mode != "proxy" and not components:
            raise ValueError("agent mode needs an agent")
        self._exchange = Exchange(
            list(components),
            upstream,
            tracing=tracing,
            audited=audited,
            reserved=reserved,
            first_number=first_number,
        )
        self._enforcer = Enforcer(self._exchange)
        self._initializer = Initializer(self._exchange, self._enforcer)
        self._roles = LostRoles(self._exchange, self._initializer)
        self._services = Services(self._exchange)
        requests = Requests(self._exchange, self._initializer, self._services, self._enforcer)
        intake = Intake(
            self._exchange,
            self._initializer,
            self._services,
            requests,
            self._enforcer.notifications,
            min(max_depth, jsonrpc.MAX_DEPTH),
        )
        self.receive: Callable[[str, bytes], list[Effect]] = intake.receive
        """Routes one frame (no newline needed) of the peer of a name. Never raises, whatever the
        bytes."""
        self.peers = self._exchange.peers
        self.upstream = self._exchange.upstream
        for name, addresses in (owned or {}).items():
            self._enforcer.owners.restored(self.peers.get(name), addresses)
        if mode != "auto":
            self.settle_mode(mode)

    # -- the chain -----------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """`agent`, `proxy`, or `auto` as long as that is open."""
        return self._exchange.chain.mode

    @property
    def version(self) -> int | None:
        """The ACP version the chain settled on, once `initialize` has been answered."""
        return self._exchange.version

    @property
    def addresses(self) -> AbstractSet[str]:
        """Of all MCP servers and connections it knows of (`conductor.core.policy.ownership`)."""
        return self._enforcer.owners.addresses

    @property
    def tracing(self) -> bool:
        """Whether `Trace` effects are made."""
        return self._exchange.tracing

    def settle_mode(self, mode: str) -> None:
        """Fixes agent or proxy mode and joins the ports accordingly."""
        self._exchange.chain.settle_mode(mode)

    def join(self, topology: Topology) -> None:
        """Replaces what every peer is joined to by what `topology` says."""
        self._exchange.chain.join(topology)

    def start(self) -> list[Effect]:
        """What is sent before anything is received: each component's configuration."""
        peers = [self.peers[component.name] for component in self._exchange.chain.components]
        return [effect for peer in peers for effect in self._services.configure(peer)]

    def pending(self, name: str = UPSTREAM) -> int:
        """How many requests of this peer have not been answered."""
        return sum(len(link.received) for link in self.peers[name].links())

    def observers(self) -> list[Peer]:
        """Those that get copies and change nothing."""
        gates = ((peer, peer.gate) for peer in self.peers.values() if peer.closure is None)
        return [peer for peer, gate in gates if gate is not None and gate.watches_only]

    def observed(self) -> bool:
        """Whether all observers have been shown, and have taken, what has been answered."""
        unseen = self._enforcer.copies.unseen
        return all(peer.ready and not unseen(peer) for peer in self.observers())

    # -- what happens to peers -------------------------------------------------------------------

    def closed(self, name: str, reason: Closure) -> list[Effect]:
        """Answers everything that waited on a peer that is gone, and withdraws what it asked."""
        out: list[Effect] = []
        endings.closed(self._exchange, self._roles, self.peers[name], reason, out)
        return out

    def bypassed(self, name: str, reason: Closure) -> list[Effect]:
        """A proxy is gone and the chain goes on without it."""
        out: list[Effect] = []
        endings.bypassed(self._exchange, self._roles, self.peers[name], reason, out)
        return out

    def leaving(self, name: str, reason: Closure) -> list[Effect]:
        """A proxy is gone and will be started again: messages for it wait until `returned`."""
        out: list[Effect] = []
        endings.leaving(self._exchange, self._roles, self.peers[name], reason, out)
        return out

    def faltered(self, name: str, *, goes_on: bool) -> None:
        """A host says that its only guest has failed, and will answer for it; `goes_on`: the chain
        does."""
        if name in self.peers:
            endings.faltered(self.peers[name], goes_on=goes_on)

    def returned(self, name: str) -> list[Effect]:
        """A proxy that was `leaving` is up again; it is configured and initialized anew."""
        peer = self.peers[name]
        peer.run += 1
        out = self._services.configure(peer)
        self._roles.returned(peer, out)
        return out

    def has_role(self, name: str) -> bool:
        """Whether this peer has taken its role, and only that could be lost by its ending."""
        peer = self.peers[name]
        return peer.initialize is not None and (peer.handshake is None or peer.returning)

    def may_retry(self, name: str) -> bool:
        """Whether a proxy without its role could still take it, if it were started again."""
        return self._roles.may_retry(self.peers[name])

    def idle(self, name: str) -> bool:
        """Whether nobody waits for this peer, nor it for anybody."""
        links = self.peers[name].links()
        return not any(link.received for link in links) and not self.waiting_on(name)

    def waiting_on(self, name: str) -> list[tuple[bytes, str]]:
        """The requests that this peer has not answered, and somebody waits for: id (with side) and
        method."""
        return [
            (b"%d:%b" % (at, key), pending.method)
            for at, link in enumerate(self.peers[name].links())
            for key, pending in link.sent.items()
            if pending.wanted
        ]

    def expire(self, name: str, key: bytes, reason: Closure) -> list[Effect]:
        """A request has waited too long (`key` from `waiting_on`): it is failed and cancelled."""
        out: list[Effect] = []
        endings.expire(self._exchange, self.peers[name], key, reason, out)
        return out

    def heard(self, name: str) -> int | None:
        """The number of the last message that came from a peer; None while it waits for an answer
        itself, say of the user."""
        peer = self.peers[name]
        return None if any(link.received for link in peer.links()) else peer.heard

    def turns(self, name: str) -> list[bytes]:
        """Version 2: the turns that run in an agent whose turns are limited, each with a key."""
        return [_TURN + session.encode() for session in self.peers[name].turns or ()]

    def end_turn(self, name: str, key: bytes, reason: Closure) -> list[Effect]:
        """Nothing moves in a turn of an agent (`key` from `waiting_on` or `turns`): it is
        cancelled, and its prompt is failed. In version 2 a notice says why; if that does not end
        it, the next call does."""
        out: list[Effect] = []
        if key.startswith(_TURN):
            session, says = key.removeprefix(_TURN).decode(), self._enforcer.notifications.says
            turns.end(self._exchange, says, self.peers[name], session, reason, out)
            return out
        endings.end_turn(self._exchange, self.peers[name], key, reason, out)
        return out

    def abandon(self, reason: Closure) -> list[Effect]:
        """Answers everything upstream still waits for: the chain is over."""
        out: list[Effect] = []
        endings.abandon(self._exchange, reason, out)
        return out

    def overdue(self, why: str, hint: str) -> tuple[Closure | None, list[Effect]]:
        """Like `abandon`, but names for each request who has not answered it; and the first."""
        out: list[Effect] = []
        return endings.overdue(self._exchange, why, hint, out), out

    def skipped(self, name: str, head: bytes, why: str) -> list[Effect]:
        """A line of `name` was too long to be taken; `head` are its first bytes."""
        out: list[Effect] = []
        oversize.skipped(self._exchange, self.peers[name], head, why, out)
        return out

    def undeliverable(self, name: str, frame: bytes, why: str) -> list[Effect]:
        """A frame sent to `name` was refused by its transport; never raises."""
        out: list[Effect] = []
        oversize.undeliverable(self._exchange, self.peers[name], frame, why, out)
        return out

    def delivering(self, name: str) -> None:
        """A guest is about to be given everything sent to it so far."""
        gate = self.peers[name].gate
        if gate is not None:
            gate.round += 1
            gate.rounds = True

    def delivered(self, name: str) -> list[Effect]:
        """… and has said all it had to say to that."""
        peer = self.peers[name]
        out: list[Effect] = []
        if peer.gate is not None and (peer.p.given.queue or peer.s.given.queue):
            self._enforcer.heard(peer, out)
        return out

    def settled(self, name: str) -> list[Effect]:
        """A peer has been given everything, and has said all it had to: for an audit, what it has
        not passed on by now."""
        out: list[Effect] = []
        self._enforcer.settled(self.peers[name], out)
        return out

    def woken(self, token: int) -> list[Effect]:
        """The time of a `Wake` effect has come."""
        out: list[Effect] = []
        self._enforcer.wakes.woken(token, out)
        return out

    def asker(self, name: str, side: str, key: bytes) -> tuple[str, str] | None:
        """Who asked what a peer got on a side under the id `key`, and under which id; None where
        that is not open."""
        lane = self.peers[name].lane(Side(side))
        pending = lane.link.sent.get(key)
        if pending is None or pending.origin is None:
            return None
        return pending.origin.peer.name, pending.raw_id.decode(errors="replace")

    def neighbour(self, name: str, side: str) -> str | None:
        """Who is next to a peer on a side; None if some messages pass that by, or nobody is."""
        across = self.peers[name].lane(Side(side)).across
        return None if across is None or across.peer.gate is not None else across.peer.name

    def forget_lost(self, name: str) -> int:
        """How many copies an observer has missed since this was last asked, for it was not ready.

        Zero for a peer that is none, or not known.
        """
        peer = self.peers.get(name)
        if peer is None or peer.gate is None:
            return 0
        lost, peer.gate.lost = peer.gate.lost, 0
        return lost

    def served(self, token: int, result: bytes | None, error: bytes | None = None) -> list[Effect]:
        """The outcome of a `Serve` effect: raw JSON of the result, or of an error object."""
        return self._services.served(token, result, error)

    def tell(self, name: str, method: str, params: bytes) -> list[Effect]:
        """A notification of the conductor's own for a proxy; none for one that is not there now."""
        peer = self.peers[name]
        return self._services.tell(peer, method, params) if peer.ready else []

    def reconfigure(self, name: str, params: bytes) -> list[Effect]:
        """A proxy's configuration has changed: it is told, now and whenever it is started again."""
        peer = self.peers[name]
        peer.component = msgspec.structs.replace(peer.component, configure=params)
        return self._services.configure(peer) if peer.ready else []

    def reopened(self, name: str) -> list[Effect]:
        """The peer named by a `Reopen` effect is up again (or has failed, and is closed)."""
        peer = self.peers[name]
        if peer.closure is not None:
            return []
        out = self._services.configure(peer)
        self._roles.reopened(peer, out)
        return out

    def listening(self, name: str, server: bytes) -> list[Effect]:
        """The address asked for by a `Listen` effect: raw JSON of a stdio server entry."""
        out: list[Effect] = []
        self._initializer.listening(self.peers[name], server, out)
        return out

    def not_launching(self, name: str) -> list[Effect]:
        """Since a `Listen` effect so much time has passed that the peer would have done something
        about it, were it one that launches its successor."""
        out: list[Effect] = []
        self._initializer.not_launching(self.peers[name], out)
        return out
