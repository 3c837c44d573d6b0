"""The router: bytes of one peer in, effects out. No await, clock, randomness or logging.

Everything a peer sends takes one path in arrival order, answers included, so nothing overtakes
(`docs/architecture.md` walks one message through it). `receive` never raises, whatever the bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import answers, dialects, endings, jsonrpc, oversize
from conductor.core.dialects import CANCEL, ENVELOPES, PACP
from conductor.core.effects import Closure, Effect, Send
from conductor.core.enforcement import Enforcer
from conductor.core.exchange import UPSTREAM, Exchange
from conductor.core.initialize import Initializer
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed, Message
from conductor.core.link import Batch
from conductor.core.peer import Component, Lane, Peer
from conductor.core.refusals import refuse, refuse_frame, refuse_version
from conductor.core.requests import NOT_STRUCTURED, ROLES, STRUCTURED, Requests
from conductor.core.services import LAST_WORDS, SERVICES, Services, called
from conductor.core.topology import Side, Topology

__all__ = ["LAST_WORDS", "SERVICES", "UPSTREAM", "Router"]

_SPECIAL: Final = frozenset({CANCEL, *ROLES, *ENVELOPES})
_NO_BATCHES: Final = "JSON-RPC batches are not supported; send each message individually"


class Router:
    """Routes one chain.

    `components` are the proxies and, in agent mode, the agent last. `mode` is `agent`, `proxy`, or
    `auto`: then the first request from upstream decides (`initialize`, or a role request).
    `upstream` is the dialect spoken with an outer conductor where it is known beforehand;
    `tracing` has `Trace` effects made, `audited` names the components of which `Changed` are;
    `max_depth` how deep a frame may nest (at most `jsonrpc.MAX_DEPTH`). Raises `ValueError` for a
    chain that cannot be: two components of one name, or no agent.
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
        max_depth: int = jsonrpc.MAX_DEPTH,
    ) -> None:
        if mode != "proxy" and not components:
            raise ValueError("agent mode needs an agent")
        self._max_depth = min(max_depth, jsonrpc.MAX_DEPTH)
        self._exchange = Exchange(list(components), upstream, tracing=tracing, audited=audited)
        self._enforcer = Enforcer(self._exchange)
        self._policed = self._enforcer.notifications
        self._initializer = Initializer(self._exchange, self._enforcer)
        self._services = Services(self._exchange)
        self._requests = Requests(self._exchange, self._initializer, self._services, self._enforcer)
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
        return self._exchange.mode

    @property
    def version(self) -> int | None:
        """The ACP version the chain settled on, once `initialize` has been answered."""
        return self._exchange.version

    @property
    def addresses(self) -> AbstractSet[str]:
        """Of all MCP servers and connections it knows of (`conductor.core.owners`)."""
        return self._enforcer.owners.addresses

    @property
    def tracing(self) -> bool:
        """Whether `Trace` effects are made."""
        return self._exchange.traced

    def settle_mode(self, mode: str) -> None:
        """Fixes agent or proxy mode and joins the ports accordingly."""
        self._exchange.settle_mode(mode)

    def join(self, topology: Topology) -> None:
        """Replaces what every peer is joined to by what `topology` says."""
        self._exchange.join(topology)

    def start(self) -> list[Effect]:
        """What is sent before anything is received: each component's configuration."""
        peers = [self.peers[component.name] for component in self._exchange.components]
        return [effect for peer in peers for effect in self._services.configure(peer)]

    def pending(self, name: str = UPSTREAM) -> int:
        """How many requests of this peer have not been answered."""
        return sum(len(link.received) for link in self.peers[name].links())

    # -- what happens to peers -------------------------------------------------------------------

    def closed(self, name: str, reason: Closure) -> list[Effect]:
        """Answers everything that waited on a peer that is gone, and withdraws what it asked."""
        out: list[Effect] = []
        endings.closed(self._exchange, self._initializer, self.peers[name], reason, out)
        return out

    def bypassed(self, name: str, reason: Closure) -> list[Effect]:
        """A proxy is gone and the chain goes on without it."""
        out: list[Effect] = []
        endings.bypassed(self._exchange, self._initializer, self.peers[name], reason, out)
        return out

    def leaving(self, name: str, reason: Closure) -> list[Effect]:
        """A proxy is gone and will be started again: messages for it wait until `returned`."""
        out: list[Effect] = []
        endings.leaving(self._exchange, self._initializer, self.peers[name], reason, out)
        return out

    def returned(self, name: str) -> list[Effect]:
        """A proxy that was `leaving` is up again; it is configured and initialized anew."""
        peer = self.peers[name]
        peer.run += 1
        out = self._services.configure(peer)
        self._initializer.returned(peer, out)
        return out

    def has_role(self, name: str) -> bool:
        """Whether this peer has taken its role, and only that could be lost by its ending."""
        peer = self.peers[name]
        return peer.initialize is not None and (peer.handshake is None or peer.returning)

    def may_retry(self, name: str) -> bool:
        """Whether a proxy without its role could still take it, if it were started again."""
        return self._initializer.may_retry(self.peers[name])

    def idle(self, name: str) -> bool:
        """Whether no request is open towards or from this peer."""
        links = self.peers[name].links()
        return not any(link.sent or link.received for link in links)

    def waiting_on(self, name: str) -> list[tuple[bytes, str]]:
        """The requests this peer has not answered: id (with side) and method."""
        return [
            (b"%d:%b" % (at, key), pending.method)
            for at, link in enumerate(self.peers[name].links())
            for key, pending in link.sent.items()
        ]

    def expire(self, name: str, key: bytes, reason: Closure) -> list[Effect]:
        """A request has waited too long (`key` from `waiting_on`): it is failed and cancelled."""
        out: list[Effect] = []
        endings.expire(self._exchange, self.peers[name], key, reason, out)
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
        if self._exchange.ledger is not None:
            self._exchange.ledger.delivering(name)

    def delivered(self, name: str) -> list[Effect]:
        """… and has said all it had to say to that."""
        gate = self.peers[name].gate
        out: list[Effect] = []
        if self._exchange.ledger is not None:
            self._exchange.ledger.delivered(name, out)
        if gate is None:
            return out
        if gate.simple and not gate.late:
            for told in gate.told:
                if told or told.skipped:
                    told.forget()
            return out
        self._enforcer.heard(self.peers[name], out)
        return out

    def settled(self, name: str) -> list[Effect]:
        """A peer has been given everything, and has said all it had to: for an audit, what it has
        not passed on by now."""
        out: list[Effect] = []
        if self._exchange.ledger is not None:
            self._exchange.ledger.settled(name, out)
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
        self._initializer.reopened(peer, out)
        return out

    def listening(self, name: str, server: bytes) -> list[Effect]:
        """The address asked for by a `Listen` effect: raw JSON of a stdio server entry."""
        out: list[Effect] = []
        self._initializer.listening(self.peers[name], server, out)
        return out

    # -- frames --------------------------------------------------------------------------------

    def receive(self, name: str, frame: bytes) -> list[Effect]:
        """Routes one frame (no newline needed) of the peer `name`. Never raises."""
        out: list[Effect] = []
        peer = self.peers[name]
        if peer.closure is not None:
            return out
        lane = peer.p
        if peer.sideband:
            side = peer.sides.get(frame[:1])
            if side is None:
                self._on_other_side(peer, frame, out)
                return out
            lane, frame = side, frame[1:]
        try:
            message = jsonrpc.parse(frame, self._max_depth)
        except Malformed as error:
            refuse_frame(self._exchange, lane, frame, error, out)
            return out
        if type(message) is Message:
            self._dispatch(lane, message, None, out)
        else:
            assert isinstance(message, list)
            self._batch(lane, message, out)
        return out

    def _batch(self, lane: Lane, entries: list[Raw], out: list[Effect]) -> None:
        """Serves an older peer's array in order and answers with one array (never sends one)."""
        if not entries or self._exchange.version == 2:
            body = jsonrpc.error_object(INVALID_REQUEST, "Invalid request", _NO_BATCHES)
            out.append(Send(lane.peer.name, lane.writer.answer(b"null", b"error", body)))
            return
        batch = Batch(len(entries))
        for entry in entries:
            try:
                message = jsonrpc.parse(bytes(entry), self._max_depth)
                if not isinstance(message, Message):
                    raise Malformed(INVALID_REQUEST, "a batch inside a batch")
            except Malformed as error:
                refuse(self._exchange, lane, error, batch, out)
            else:
                self._dispatch(lane, message, batch, out)

    def _on_other_side(self, peer: Peer, frame: bytes, out: list[Effect]) -> None:
        """A guest's message to the conductor itself (side `c`), or a line of no side at all."""
        if frame[:1] != b"c":
            if frame and not frame.isspace():
                self._exchange.note(out, "warning", peer, f"line without a side: {frame[:60]!r}")
            return
        try:
            message = jsonrpc.parse(frame[1:], self._max_depth)
        except Malformed as error:
            refuse_frame(self._exchange, peer.c, frame[1:], error, out)
            return
        if not isinstance(message, Message) or isinstance(message.method, UnsetType):
            text = "only single requests and notifications on side c"
            self._exchange.note(out, "warning", peer, text)
        elif message.id is UNSET:
            self._services.ask(peer.c, message.method, message.params, None, out)
        else:
            pending = self._requests.accept(peer.c, message.method, message, None, out)
            if pending is not None:
                self._services.ask(peer.c, message.method, message.params, pending, out)

    # -- one message -----------------------------------------------------------------------------

    def _dispatch(
        self, lane: Lane, message: Message, batch: Batch | None, out: list[Effect]
    ) -> None:
        method = message.method
        if isinstance(method, UnsetType):
            answers.take(self._exchange, lane, message, out)
        elif message.jsonrpc != "2.0":
            refuse_version(self._exchange, lane, message, batch, out)
            return
        elif message.id is UNSET:
            self._notification(lane, method, message.params, out)
        else:
            pending = self._requests.accept(lane, method, message, batch, out)
            if pending is not None:
                self._requests.route(lane, method, message.params, pending, out)
            return
        if batch is not None:
            self._exchange.add_to_batch(lane, batch, None, out)

    def _notification(
        self, lane: Lane, method: str, params: Raw | UnsetType, out: list[Effect]
    ) -> None:
        if isinstance(params, Raw) and memoryview(params)[0] not in STRUCTURED:
            if bytes(params) != b"null":
                self._exchange.note(
                    out, "warning", lane.peer, f"`{method}` dropped: {NOT_STRUCTURED}"
                )
                return
            params = UNSET
        if method in _SPECIAL:
            self._special_notification(lane, method, params, out)
            return
        if method.startswith("_") and (service := called(lane, method)) is not None:
            self._services.ask(lane, service, params, None, out)
            return
        target = lane.across
        if target is None or not lane.peer.admitted:
            self._exchange.note(out, "debug", lane.peer, f"`{method}` before `initialize` dropped")
            return
        if lane.policed:
            self._policed.notify(lane, method, params, out)
        elif target.peer.ready:
            out.append(Send(target.peer.name, target.writer.notification(method, params)))
            if self._exchange.tracing:
                self._exchange.trace(out, ("notification", lane, target), None, method, params)
        else:
            self._exchange.notify(target, method, params, lane, out)

    def _special_notification(
        self, lane: Lane, method: str, params: Raw | UnsetType, out: list[Effect]
    ) -> None:
        peer = lane.peer
        if method in ENVELOPES and lane.wraps:
            try:
                inner, held, nested = dialects.unwrap(params)
            except Malformed as error:
                self._exchange.note(out, "warning", peer, f"`{method}` dropped: {error.text}")
                return
            if peer.unsettled:
                form = PACP if nested else ENVELOPES[method]
                self._initializer.envelope_seen(peer, form, inner, out)
            if inner not in ENVELOPES:
                self._notification(peer.s, inner, held, out)
                return
        elif method == CANCEL:
            self._requests.cancel(lane, params, out)
            return
        self._exchange.note(out, "warning", peer, f"misplaced `{method}` notification dropped")
