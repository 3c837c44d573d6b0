"""The router: what the shells ask of the core. Bytes of one peer go in, effects come out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from conductor.core import dialects, jsonrpc
from conductor.core.component import Component, Side
from conductor.core.dispatch import Dispatcher
from conductor.core.effects import Closure, Effect
from conductor.core.endings import Endings
from conductor.core.exchange import Exchange
from conductor.core.oversize import Oversize
from conductor.core.policy.enforcer import Enforcer
from conductor.core.requests import Requests
from conductor.core.roles.detection import Detection
from conductor.core.roles.initialize import Initializer
from conductor.core.services import LAST_WORDS, SERVICES, Services
from conductor.core.state import Peer
from conductor.core.topology import UPSTREAM

_TURN: Final = b"turn:"
"""How the key of a turn begins."""

__all__ = ["LAST_WORDS", "SERVICES", "UPSTREAM", "Router"]


class Router:
    """Routes one chain.

    Args:
        components: the proxies and, in agent mode, the agent last.
        mode: `agent`, `proxy`, or `auto`: then the first request from upstream decides
            (`initialize`, or a role request).
        upstream: the dialect spoken with an outer conductor, where it is known beforehand.
        tracing: `Trace` effects are made.
        audited: the components of which `Changed` effects are made.
        owned: addresses of MCP servers that a former router knew, by the component that owns them.
        reserved: names of MCP servers, besides those of the components, that only their owners may
            use.
        first_number: where the numbers of messages begin in a host of guests that reports what
            passes between them (`conductor.core.tracing`).
        max_depth: how deep a frame may nest, at most `jsonrpc.MAX_DEPTH`.

    Raises:
        ValueError: two components have one name, or there is no agent.
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
        self._exchange = exchange = Exchange(
            list(components),
            upstream,
            tracing=tracing,
            audited=audited,
            reserved=reserved,
            first_number=first_number,
        )
        # Lower parts first: each knows only those above it here.
        self._enforcer = enforcer = Enforcer(exchange)
        self._initializer = initializer = Initializer(exchange, enforcer)
        self._detection = Detection(exchange, initializer)
        self._endings = Endings(exchange, enforcer, initializer)
        self._services = Services(exchange)
        requests = Requests(exchange, initializer, self._detection, self._services, enforcer)
        self._oversize = Oversize(exchange, requests, enforcer)
        dispatcher = Dispatcher(
            exchange,
            self._services,
            requests,
            self._oversize,
            enforcer.notifications,
            min(max_depth, jsonrpc.MAX_DEPTH),
        )
        self.receive: Callable[[str, bytes], list[Effect]] = dispatcher.receive
        """Routes one frame (no newline needed) of the peer of a name. Never raises, whatever the
        bytes. The method itself, since a method that calls it costs each message 0.1 µs."""
        self.peers = exchange.peers
        self.upstream = exchange.upstream
        for name, addresses in (owned or {}).items():
            enforcer.mcp_ownership.restored(self.peers.get(name), addresses)
        if mode != "auto":
            self.settle_mode(mode)

    # -- the chain -----------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """`agent`, `proxy`, or `auto` as long as that is open."""
        return self._exchange.topology.mode

    @property
    def version(self) -> int | None:
        """The ACP version the chain settled on, once `initialize` has been answered."""
        return self._exchange.version

    @property
    def addresses(self) -> AbstractSet[str]:
        """Of all MCP servers and connections it knows of (`conductor.core.policy.ownership`)."""
        return self._enforcer.mcp_ownership.addresses

    @property
    def tracing(self) -> bool:
        """Whether `Trace` effects are made."""
        return self._exchange.tracing

    def settle_mode(self, mode: str) -> None:
        """Fixes agent or proxy mode and joins the ports accordingly."""
        self._exchange.topology.settle_mode(mode)

    def start(self) -> list[Effect]:
        """What is sent before anything is received: each component's configuration."""
        peers = [self.peers[component.name] for component in self._exchange.topology.components]
        return [effect for peer in peers for effect in self._services.configure(peer)]

    def pending(self, name: str = UPSTREAM) -> int:
        """How many requests of this peer have not been answered."""
        return sum(len(requests.received) for requests in self.peers[name].id_spaces())

    def observers(self) -> list[Peer]:
        """Those that get copies and change nothing."""
        policy_states = (
            (peer, peer.policy_state) for peer in self.peers.values() if peer.closure is None
        )
        return [
            peer
            for peer, policy_state in policy_states
            if policy_state is not None and policy_state.watches_only
        ]

    def observed(self) -> bool:
        """Whether all observers have been shown, and have taken, what has been answered."""
        unseen = self._enforcer.observers.unseen
        return all(peer.ready and not unseen(peer) for peer in self.observers())

    # -- what happens to peers -------------------------------------------------------------------

    def closed(self, name: str, reason: Closure) -> list[Effect]:
        """Answers everything that waited on a peer that is gone, and withdraws what it asked."""
        out: list[Effect] = []
        self._endings.closed(self.peers[name], reason, out)
        return out

    def bypassed(self, name: str, reason: Closure) -> list[Effect]:
        """A proxy is gone and the chain goes on without it."""
        out: list[Effect] = []
        self._endings.bypassed(self.peers[name], reason, out)
        return out

    def leaving(self, name: str, reason: Closure) -> list[Effect]:
        """A proxy is gone and will be started again: messages for it wait until `returned`."""
        out: list[Effect] = []
        self._endings.leaving(self.peers[name], reason, out)
        return out

    def faltered(self, name: str, *, goes_on: bool) -> None:
        """A host says that its only guest has failed, and will answer for it; `goes_on`: the chain
        does."""
        if name in self.peers:
            self._endings.faltered(self.peers[name], goes_on=goes_on)

    def returned(self, name: str) -> list[Effect]:
        """A proxy that was `leaving` is up again; it is configured and initialized anew."""
        peer = self.peers[name]
        peer.starts += 1
        out = self._services.configure(peer)
        self._endings.returned(peer, out)
        return out

    def has_role(self, name: str) -> bool:
        """Whether this peer has taken its role, and only that could be lost by its ending."""
        peer = self.peers[name]
        return peer.initialize is not None and (peer.handshake is None or peer.restarting)

    def may_retry(self, name: str) -> bool:
        """Whether a proxy without its role could still take it, if it were started again."""
        return self._endings.may_retry(self.peers[name])

    def idle(self, name: str) -> bool:
        """Whether nobody waits for this peer, nor it for anybody."""
        spaces = self.peers[name].id_spaces()
        return not any(requests.received for requests in spaces) and not self.waiting_on(name)

    def waiting_on(self, name: str) -> list[tuple[bytes, str]]:
        """The requests that this peer has not answered, and somebody waits for: id (with side) and
        method."""
        return [
            (b"%d:%b" % (at, key), pending.method)
            for at, requests in enumerate(self.peers[name].id_spaces())
            for key, pending in requests.sent.items()
            if pending.wanted
        ]

    def expire(self, name: str, key: bytes, reason: Closure) -> list[Effect]:
        """A request has waited too long (`key` from `waiting_on`): it is failed and cancelled."""
        out: list[Effect] = []
        self._endings.expire(self.peers[name], key, reason, out)
        return out

    def heard(self, name: str) -> int | None:
        """The number of the last message that came from a peer; None while it waits for an answer
        itself, say of the user."""
        peer = self.peers[name]
        return None if any(requests.received for requests in peer.id_spaces()) else peer.last_number

    def turns(self, name: str) -> list[bytes]:
        """Version 2: the turns that run in an agent whose turns are limited, each with a key."""
        return [_TURN + session.encode() for session in self.peers[name].turns or ()]

    def end_turn(self, name: str, key: bytes, reason: Closure) -> list[Effect]:
        """Nothing moves in a turn of an agent (`key` from `waiting_on` or `turns`): it is
        cancelled, and its prompt is failed. In version 2 a notice says why; if that does not end
        it, the next call does."""
        out: list[Effect] = []
        if key.startswith(_TURN):
            session = key.removeprefix(_TURN).decode()
            self._endings.end_turn(self.peers[name], session, reason, out)
        else:
            self._endings.end_prompt(self.peers[name], key, reason, out)
        return out

    def abandon(self, reason: Closure) -> list[Effect]:
        """Answers everything upstream still waits for: the chain is over."""
        out: list[Effect] = []
        self._endings.abandon(reason, out)
        return out

    def overdue(self, why: str, hint: str) -> tuple[Closure | None, list[Effect]]:
        """Like `abandon`, but names for each request who has not answered it; and the first."""
        out: list[Effect] = []
        return self._endings.overdue(why, hint, out), out

    def skipped(self, name: str, head: bytes, why: str) -> list[Effect]:
        """A line of `name` was too long to be taken; `head` are its first bytes."""
        out: list[Effect] = []
        self._oversize.skipped(self.peers[name], head, why, out)
        return out

    def undeliverable(self, name: str, frame: bytes, why: str) -> list[Effect]:
        """A frame sent to `name` was refused by its transport; never raises."""
        out: list[Effect] = []
        self._oversize.undeliverable(self.peers[name], frame, why, out)
        return out

    def delivering(self, name: str) -> None:
        """A guest is about to be given everything sent to it so far."""
        policy_state = self.peers[name].policy_state
        if policy_state is not None:
            policy_state.round += 1
            policy_state.rounds = True

    def delivered(self, name: str) -> list[Effect]:
        """… and has said all it had to say to that."""
        peer = self.peers[name]
        out: list[Effect] = []
        if peer.policy_state is not None and (peer.p.in_flight.queue or peer.s.in_flight.queue):
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
        self._enforcer.deadlines.woken(token, out)
        return out

    def asker(self, name: str, side: str, key: bytes) -> tuple[str, str] | None:
        """Who asked what a peer got on a side under the id `key`, and under which id; None where
        that is not open."""
        lane = self.peers[name].lane(Side(side))
        pending = lane.requests.sent.get(key)
        if pending is None or pending.origin is None:
            return None
        return pending.origin.peer.name, pending.raw_id.decode(errors="replace")

    def neighbour(self, name: str, side: str) -> str | None:
        """Who is next to a peer on a side; None if some messages pass that by, or nobody is."""
        across = self.peers[name].lane(Side(side)).across
        return None if across is None or across.peer.policy_state is not None else across.peer.name

    def forget_lost(self, name: str) -> int:
        """How many copies an observer has missed since this was last asked, for it was not ready.

        Zero for a peer that is none, or not known.
        """
        peer = self.peers.get(name)
        if peer is None or peer.policy_state is None:
            return 0
        lost, peer.policy_state.lost = peer.policy_state.lost, 0
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
        assert peer.handshake is not None
        self._initializer.attempt(peer, peer.handshake, out)
        return out

    def listening(self, name: str, server: bytes) -> list[Effect]:
        """The address asked for by a `Listen` effect: raw JSON of a stdio server entry."""
        out: list[Effect] = []
        self._detection.listening(self.peers[name], server, out)
        return out

    def not_launching(self, name: str) -> list[Effect]:
        """Since a `Listen` effect so much time has passed that the peer would have done something
        about it, were it one that launches its successor."""
        out: list[Effect] = []
        self._detection.not_launching(self.peers[name], out)
        return out
