"""The router: bytes of one peer in, effects out. No await, clock, randomness or logging.

Everything a peer sends takes one path in arrival order, answers included, so nothing overtakes
(`docs/architecture.md` walks one message through it). `receive` never raises, whatever the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import dialects, jsonrpc
from conductor.core.dialects import CANCEL, CHANNEL, ENVELOPES, INITIALIZE, PLAIN, ROLE_METHODS
from conductor.core.effects import Closure, Effect, Fail, Note, Send, Serve, Trace
from conductor.core.initialize import Initializer
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Malformed,
    Message,
)
from conductor.core.link import Batch, Pending
from conductor.core.peer import Component, Peer, Route
from conductor.core.topology import Port, Role, Side, Topology, chain

UPSTREAM: Final = "client"
"""Name of the peer on the conductor's own stdio: the client, or the outer conductor."""

SERVICES: Final = frozenset({"clock", "random", "log"})
"""What the conductor offers on the channel (side `c`, or `_conductor/NAME`)."""

ALWAYS_GRANTED: Final = frozenset({"log"})

LAST_WORDS: Final = "failed"
"""By this a child process that hosts guests says why it ends; never granted to a proxy."""

_SERVICE_PREFIX: Final = "_conductor/"
_BY_TAG: Final = {ord("p"): Side.P, ord("s"): Side.S}
_MISPLACED: Final = (
    "`{}` is only exchanged between the conductor and the proxies it initialized"
)


_HEAD_ID: Final = re.compile(rb'^\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"]*"\s*,)*\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)')
_HEAD_METHOD: Final = re.compile(rb'^\s*\{(?:\s*"(?:jsonrpc|id)"\s*:\s*(?:"[^"]*"|-?\d+)\s*,)*\s*"method"')


class _CancelParams(msgspec.Struct):
    requestId: Raw  # noqa: N815 - the wire's name


_cancel_params = msgspec.json.Decoder(_CancelParams)


class Router:
    """Routes one chain.

    `components` are the proxies and, in agent mode, the agent last. `mode` is `agent`, `proxy`, or
    `auto`: then the first request from upstream decides (`initialize`, or a role request).
    `upstream` is the dialect spoken with an outer conductor where it is known beforehand.
    """

    def __init__(
        self,
        components: Sequence[Component],
        mode: str = "agent",
        *,
        upstream: dialects.Dialect | None = None,
        tracing: bool = False,
        max_depth: int = jsonrpc.MAX_DEPTH,
    ) -> None:
        self._components = list(components)
        self._max_depth = max_depth
        self._upstream_dialect = upstream
        self.tracing = tracing
        self.mode = mode
        self.version: int | None = None
        """The ACP version the chain settled on, once `initialize` has been answered."""
        self.upstream = Peer(Component(UPSTREAM, "the client"), Role.CLIENT, PLAIN)
        self.peers: dict[str, Peer] = {UPSTREAM: self.upstream}
        for component in components:
            self.peers[component.name] = Peer(component, Role.PROXY, component.dialect)
        if len(self.peers) != len(components) + 1:
            raise ValueError("two components have the same name")
        self._served: dict[int, tuple[Peer, bytes, bytes]] = {}
        self._token = 0
        self._failed: Closure | None = None
        self._initializer = Initializer(self)
        if mode != "auto":
            self.settle_mode(mode)

    # -- the chain's shape -------------------------------------------------------------------

    def settle_mode(self, mode: str) -> None:
        """Fixes agent or proxy mode and joins the ports accordingly."""
        self.mode = mode
        upstream = self.upstream
        proxies = [c.name for c in self._components]
        if mode == "agent":
            if not self._components:
                raise ValueError("agent mode needs an agent")
            agent = self.peers[proxies.pop()]
            agent.role, agent.ready, agent.guessing = Role.AGENT, True, False
            agent.speak(PLAIN)
            tail = Port(agent.name, Side.P)
        else:
            upstream.role, upstream.label = Role.OUTER, "the outer conductor"
            upstream.speak(self._upstream_dialect or PLAIN)
            tail = Port(UPSTREAM, Side.S)
        self.join(
            chain(
                (Port(UPSTREAM, Side.P), tail),
                [(Port(name, Side.P), Port(name, Side.S)) for name in proxies],
            )
        )

    def join(self, topology: Topology) -> None:
        """Replaces every peer's routes by those of `topology`."""
        for peer in self.peers.values():
            peer.routes.clear()
        for here, there in topology:
            self.peers[here.peer].routes[here.side] = Route(self.peers[there.peer], there.side)

    def start(self) -> list[Effect]:
        """What is sent before anything is received: each component's configuration."""
        out: list[Effect] = []
        for component in self._components:
            if component.configure is not None:
                peer = self.peers[component.name]
                out.append(Send(peer.name, self._service_notification(peer, component.configure)))
        return out

    def pending(self, name: str = UPSTREAM) -> int:
        """How many requests of this peer have not been answered."""
        return len(self.peers[name].link.received)

    # -- in ----------------------------------------------------------------------------------

    def receive(self, name: str, frame: bytes) -> list[Effect]:
        """Routes one frame (no newline needed) of the peer `name`. Never raises."""
        out: list[Effect] = []
        peer = self.peers[name]
        side, tag = Side.P, b""
        if peer.sideband:
            tag = frame[:1]
            if tag == b"c":
                self._on_service_side(peer, frame[1:], out)
                return out
            known = _BY_TAG.get(frame[0]) if frame else None
            if known is None:
                self._note(out, "warning", peer, f"line without a side byte: {frame[:60]!r}")
                return out
            side, frame = known, frame[1:]
        if not frame or frame.isspace():
            return out
        try:
            message = jsonrpc.parse(frame, self._max_depth)
        except Malformed as error:
            self._refuse_malformed(peer, tag, frame, error, out)
            return out
        if isinstance(message, Message):
            self._dispatch(peer, side, message, None, out)
        else:
            self._batch(peer, side, message, out)
        return out

    def closed(self, name: str, reason: Closure) -> list[Effect]:
        """Answers everything that waited on a peer that is gone, and withdraws what it asked."""
        out: list[Effect] = []
        peer = self.peers[name]
        if peer.closure is not None or self._initializer.retry(peer, reason, out):
            return out
        peer.closure = reason
        waiting, peer.backlog = peer.backlog, []
        for pending in list(peer.link.sent.values()):
            self.fail(pending, reason, out)
        peer.link.sent.clear()
        for resume in waiting:
            resume(out)
        for pending in list(peer.link.received.values()):
            pending.origin = None
            target = pending.target
            if target is not None and target.closure is None:
                out.append(Send(target.name, self._cancel_frame(pending, target)))
        peer.link.received.clear()
        if peer.role is not Role.CLIENT and peer.role is not Role.OUTER:
            self.chain_fails(peer, reason, out)
        return out

    def abandon(self, reason: Closure) -> list[Effect]:
        """Answers everything upstream still waits for: the chain is over."""
        out: list[Effect] = []
        for pending in list(self.upstream.link.received.values()):
            self.fail(pending, reason, out)
        return out

    def skipped(self, name: str, head: bytes, why: str) -> list[Effect]:
        """A line of `name` was too long to be taken; `head` are its first bytes.

        Where an id can be read off them, whoever waits is told: the sender of a request, or the
        one whose request this was the answer to.
        """
        out: list[Effect] = []
        peer = self.peers[name]
        side, tag = Side.P, b""
        if peer.sideband and head:
            tag, head = head[:1], head[1:]
            side = _BY_TAG.get(tag[0], Side.P)
        found = _HEAD_ID.search(head)
        raw = jsonrpc.canonical_id(found.group(1)) if found is not None else None
        if raw is None:
            return out
        body = jsonrpc.error_object(INVALID_REQUEST, why)
        if _HEAD_METHOD.search(head):
            out.append(Send(name, tag + jsonrpc.answer(raw, b"error", body)))
            return out
        key = (peer.writers[side].tag if peer.sideband else b"") + raw
        pending = peer.link.sent.pop(key, None)
        if pending is not None:
            text = f"the answer of {peer.label} to `{pending.method}` was lost: {why}"
            self.reply(pending, b"error", jsonrpc.error_object(INTERNAL_ERROR, text), out)
        return out

    def undeliverable(self, name: str, frame: bytes, why: str) -> list[Effect]:
        """A frame sent to `name` was refused by its transport; a request in it is answered."""
        out: list[Effect] = []
        peer = self.peers[name]
        side, tag = Side.P, b""
        if peer.sideband:
            tag, frame = frame[:1], frame[1:]
            side = _BY_TAG.get(tag[0], Side.P)
        self._note(out, "warning", peer, f"not delivered: {why}")
        message = jsonrpc.parse(frame, self._max_depth)
        if isinstance(message, Message) and isinstance(message.id, Raw):
            pending = peer.link.sent.pop(tag + bytes(message.id), None)
            if pending is not None:
                text = f"{peer.label} was not given `{pending.method}` ({side.value}): {why}"
                body = jsonrpc.error_object(INVALID_REQUEST, text, {"component": name})
                self.reply(pending, b"error", body, out)
        return out

    def served(self, token: int, result: bytes | None, error: bytes | None = None) -> list[Effect]:
        """The outcome of a `Serve` effect: raw JSON of the result, or of an error object."""
        peer, tag, raw_id = self._served.pop(token)
        if peer.closure is not None:
            return []
        if result is not None:
            return [Send(peer.name, tag + jsonrpc.answer(raw_id, b"result", result))]
        return [Send(peer.name, tag + jsonrpc.answer(raw_id, b"error", error or b"null"))]

    def reopened(self, name: str) -> list[Effect]:
        """The peer named by a `Reopen` effect is up again."""
        out: list[Effect] = []
        self._initializer.reopened(self.peers[name], out)
        return out

    def listening(self, name: str, server: bytes) -> list[Effect]:
        """The address asked for by a `Listen` effect: raw JSON of a stdio server entry."""
        out: list[Effect] = []
        self._initializer.listening(self.peers[name], server, out)
        return out

    # -- one message -------------------------------------------------------------------------

    def _dispatch(
        self, peer: Peer, side: Side, message: Message, batch: Batch | None, out: list[Effect]
    ) -> None:
        method = message.method
        if message.jsonrpc != "2.0":
            raw = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
            error = Malformed(INVALID_REQUEST, '`jsonrpc` must be "2.0"', raw)
            self._refuse(peer, side, raw, error, batch, out)
        elif isinstance(method, UnsetType):
            self._response(peer, side, message, out)
            self._no_answer(peer, side, batch, out)
        elif message.id is UNSET:
            self._notification(peer, side, method, message.params, out)
            self._no_answer(peer, side, batch, out)
        else:
            self._request(peer, side, method, message, batch, out)

    def _notification(
        self,
        peer: Peer,
        side: Side,
        method: str,
        params: Raw | UnsetType,
        out: list[Effect],
    ) -> None:
        envelope = ENVELOPES.get(method)
        if envelope is not None:
            if not self._may_wrap(peer, side):
                self._note(out, "warning", peer, f"misplaced `{method}` notification dropped")
                return
            try:
                inner = dialects.unwrap(params)
            except Malformed as error:
                self._note(out, "warning", peer, f"`{method}` dropped: {error.text}")
                return
            self._initializer.envelope_seen(peer, envelope, inner.method, inner.nested, out)
            if inner.method in ENVELOPES or inner.method in ROLE_METHODS:
                self._note(out, "warning", peer, f"misplaced `{inner.method}` dropped")
                return
            side, method, params = Side.S, inner.method, inner.params
        if method == CANCEL:
            self._cancel(peer, side, params, out)
            return
        if method.startswith(_SERVICE_PREFIX):
            self._service(peer, b"", None, method[len(_SERVICE_PREFIX) :], params, out)
            return
        route = peer.routes.get(side)
        if route is None or (peer is self.upstream and not self._initializer.begun):
            self._note(out, "debug", peer, f"`{method}` before `initialize` dropped")
            return
        target = route.peer
        if target.closure is not None:
            return
        if target.ready:
            frame = target.writers[route.side].notification(method, params)
            out.append(Send(target.name, frame))
            if self.tracing:
                self._trace(out, "notification", peer, target, None, method, params)
        else:
            target.backlog.append(
                lambda out: self._notification(peer, side, method, params, out)
            )

    def _request(
        self,
        peer: Peer,
        side: Side,
        method: str,
        message: Message,
        batch: Batch | None,
        out: list[Effect],
    ) -> None:
        assert isinstance(message.id, Raw)
        raw = jsonrpc.canonical_id(message.id)
        if raw is None or (raw == b"null" and self.version == 2):
            error = Malformed(INVALID_REQUEST, "a request id must be a 64-bit integer or a string")
            self._refuse(peer, side, None, error, batch, out)
            return
        writer = peer.writers[side] if peer.sideband else peer.writers[Side.P]
        key = writer.tag + raw
        if key in peer.link.received:
            text = f"request id {raw.decode(errors='replace')} is still in use"
            self._refuse(peer, side, None, Malformed(INVALID_REQUEST, text), batch, out)
            return
        pending = Pending(peer, key, raw, writer, method, batch)
        peer.link.received[key] = pending
        params = message.params
        try:
            envelope = ENVELOPES.get(method)
            if envelope is not None:
                if not self._may_wrap(peer, side):
                    raise Malformed(INVALID_REQUEST, _MISPLACED.format(method))
                inner = dialects.unwrap(params)
                self._initializer.envelope_seen(peer, envelope, inner.method, inner.nested, out)
                side, method, params = Side.S, inner.method, inner.params
                pending.method = method
                if method in ENVELOPES:
                    raise Malformed(INVALID_REQUEST, _MISPLACED.format(method))
            self._route_request(peer, side, method, params, pending, out)
        except Malformed as error:
            self.reply(pending, b"error", jsonrpc.error_object(error.code, error.text), out)

    def _route_request(
        self,
        peer: Peer,
        side: Side,
        method: str,
        params: Raw | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        if method == INITIALIZE or method in ROLE_METHODS:
            self._initializer.request(peer, side, method, params, pending, out)
            return
        if method.startswith(_SERVICE_PREFIX):
            name = method[len(_SERVICE_PREFIX) :]
            self._service(peer, b"", pending, name, params, out)
            return
        if peer is self.upstream:
            self._initializer.check_begun()
        route = peer.routes.get(side)
        if route is None:
            raise Malformed(INVALID_REQUEST, f"`{method}` before `initialize`")
        self.forward(route, method, params, pending, out)

    def forward(
        self,
        route: Route,
        method: str,
        params: Raw | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Sends a request on under a fresh id of the link it goes out on."""
        target = route.peer
        if target.closure is not None:
            self.fail(pending, target.closure, out)
        elif target.ready:
            self.send(target, route.side, method, params, pending, out)
        else:
            target.backlog.append(lambda out: self._resume(route, method, params, pending, out))

    def _resume(
        self,
        route: Route,
        method: str,
        params: Raw | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        if pending.origin is not None:  # else: whoever asked is gone
            self.forward(route, method, params, pending, out)

    def send(
        self,
        target: Peer,
        side: Side,
        method: str,
        params: Raw | bytes | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Writes a request to `target` now and remembers what its answer belongs to."""
        writer = target.writers[side]
        id_ = target.link.fresh_id()
        pending.target = target
        pending.target_key = (writer.tag + id_) if target.sideband else id_
        target.link.sent[pending.target_key] = pending
        out.append(Send(target.name, writer.request(id_, method, params)))
        if self.tracing and pending.origin is not None:
            self._trace(out, "request", pending.origin, target, pending.raw_id, method, params)
        if pending.cancelled:
            out.append(Send(target.name, self._cancel_frame(pending, target)))

    # -- answers -----------------------------------------------------------------------------

    def _response(self, peer: Peer, side: Side, message: Message, out: list[Effect]) -> None:
        raw = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
        key = (peer.writers[side].tag if peer.sideband else b"") + (raw or b"")
        pending = peer.link.sent.pop(key, None) if raw is not None else None
        if pending is None:
            what = "an answer without a request" if raw is None else f"no request {raw!r} is open"
            self._note(out, "warning", peer, f"answer dropped: {what}")
            return
        has_result = isinstance(message.result, Raw)
        has_error = isinstance(message.error, Raw) and bytes(message.error) != b"null"
        member, body = (b"error", message.error) if has_error else (b"result", message.result)
        if has_result is has_error:
            both = "both result and error" if has_result else "neither result nor error"
            text = f"{peer.label} answered `{pending.method}` with {both}"
            member, body = b"error", Raw(jsonrpc.error_object(INTERNAL_ERROR, text))
        assert isinstance(body, Raw)
        if pending.hook is not None:
            pending.hook(pending, member, bytes(body), out)
            return
        self.reply(pending, member, body, out)

    def reply(
        self, pending: Pending, member: bytes, body: Raw | bytes, out: list[Effect]
    ) -> None:
        """Answers `pending`'s origin; nothing happens if it is gone or has its answer."""
        origin = pending.origin
        if origin is None or origin.link.received.pop(pending.key, None) is None:
            return
        pending.origin = None
        if self.tracing:
            self._trace(
                out,
                "response",
                pending.target or self.upstream,
                origin,
                pending.raw_id,
                pending.method,
                body,
                is_error=member == b"error",
            )
        if pending.batch is None:
            out.append(Send(origin.name, pending.writer.answer(pending.raw_id, member, body)))
            return
        whole = pending.batch.add(jsonrpc.answer(pending.raw_id, member, body))
        if whole is not None:
            out.append(Send(origin.name, pending.writer.tag + whole))

    def fail(self, pending: Pending, reason: Closure, out: list[Effect]) -> None:
        """Answers `pending` with the reason a component is gone."""
        text = f"{reason.text}\nhint: {reason.hint}" if reason.hint else reason.text
        body = jsonrpc.error_object(INTERNAL_ERROR, text, reason.data or None)
        self.reply(pending, b"error", body, out)

    # -- cancellation, batches, services ------------------------------------------------------

    def _cancel(
        self, peer: Peer, side: Side, params: Raw | UnsetType, out: list[Effect]
    ) -> None:
        """`$/cancel_request` concerns one hop: it is issued anew with the next hop's id."""
        try:
            raw = jsonrpc.canonical_id(_cancel_params.decode(params).requestId)  # type: ignore[arg-type]
        except (msgspec.DecodeError, TypeError):
            raw = None
        tag = peer.writers[side].tag if peer.sideband else b""
        pending = peer.link.received.get(tag + raw) if raw is not None else None
        if pending is None or pending.cancelled:
            return
        pending.cancelled = True
        if pending.target is not None and pending.target.closure is None:
            out.append(Send(pending.target.name, self._cancel_frame(pending, pending.target)))

    @staticmethod
    def _cancel_frame(pending: Pending, target: Peer) -> bytes:
        key = pending.target_key
        if target.sideband:
            return key[:1] + jsonrpc.notification(CANCEL, b'{"requestId":%b}' % key[1:])
        return jsonrpc.notification(CANCEL, b'{"requestId":%b}' % key)

    def _batch(self, peer: Peer, side: Side, entries: list[Raw], out: list[Effect]) -> None:
        """Serves an older peer's array in order and answers with one array (never sends one)."""
        tag = peer.writers[side].tag if peer.sideband else b""
        text = None
        if not entries:
            text = "an empty JSON-RPC batch"
        elif self.version == 2:
            text = "JSON-RPC batches are not part of ACP v2; send each message individually"
        if text is not None:
            frame = jsonrpc.answer(b"null", b"error", jsonrpc.error_object(INVALID_REQUEST, text))
            out.append(Send(peer.name, tag + frame))
            return
        batch = Batch(len(entries))
        for entry in entries:
            try:
                message = jsonrpc.parse(bytes(entry), self._max_depth)
            except Malformed as error:
                self._refuse(peer, side, error.id, error, batch, out)
                continue
            if isinstance(message, Message):
                self._dispatch(peer, side, message, batch, out)
            else:
                nested = Malformed(INVALID_REQUEST, "a batch inside a batch")
                self._refuse(peer, side, None, nested, batch, out)

    def _on_service_side(self, peer: Peer, frame: bytes, out: list[Effect]) -> None:
        """A guest's message to the conductor itself (side `c`)."""
        try:
            message = jsonrpc.parse(frame, self._max_depth)
        except Malformed as error:
            self._refuse_malformed(peer, b"c", frame, error, out)
            return
        if not isinstance(message, Message) or isinstance(message.method, UnsetType):
            self._note(out, "warning", peer, "only single requests and notifications on side c")
            return
        pending = None
        if isinstance(message.id, Raw):
            raw = jsonrpc.canonical_id(message.id)
            if raw is None:
                self._note(out, "warning", peer, "service request with an invalid id dropped")
                return
            pending = Pending(peer, b"c" + raw, raw, dialects.Writer(b"c"), message.method)
            peer.link.received[b"c" + raw] = pending
        self._service(peer, b"c", pending, message.method, message.params, out)

    def _service(
        self,
        peer: Peer,
        tag: bytes,
        pending: Pending | None,
        name: str,
        params: Raw | UnsetType,
        out: list[Effect],
    ) -> None:
        """Serves or refuses a request to the conductor; only proxies may ask."""
        refused = None
        if peer.role is not Role.PROXY:
            refused = f"Method not found: `{_SERVICE_PREFIX}{name}` is for proxies only"
        elif name not in SERVICES and not (name == LAST_WORDS and self._granted(peer, name)):
            refused = f"Method not found: the conductor has no service `{name}`"
        elif not self._granted(peer, name):
            refused = (
                f"Method not found: service `{name}` is not granted to {peer.label}\n"
                f"hint: grant it with `{peer.name},grant={name}`"
            )
        if refused is not None:
            self._note(out, "info", peer, refused)
            if pending is not None:
                body = jsonrpc.error_object(METHOD_NOT_FOUND, refused, {"service": name})
                self.reply(pending, b"error", body, out)
            return
        token = None
        if pending is not None:
            peer.link.received.pop(pending.key, None)
            self._token = token = self._token + 1
            self._served[token] = (peer, tag, pending.raw_id)
        out.append(Serve(peer.name, name, token, bytes(params) if isinstance(params, Raw) else None))

    @staticmethod
    def _granted(peer: Peer, name: str) -> bool:
        services = peer.component.services
        if services is None:
            return name != LAST_WORDS
        return name in services or name in ALWAYS_GRANTED

    @staticmethod
    def _service_notification(peer: Peer, params: bytes) -> bytes:
        if peer.dialect is CHANNEL:
            return b"c" + jsonrpc.notification("configure", params)
        return jsonrpc.notification(_SERVICE_PREFIX + "configure", params)

    # -- refusals ----------------------------------------------------------------------------

    def _may_wrap(self, peer: Peer, side: Side) -> bool:
        return (
            peer.role in (Role.PROXY, Role.OUTER)
            and not peer.sideband
            and side is Side.P
            and peer.launched_by is None
        )

    def _refuse_malformed(
        self, peer: Peer, tag: bytes, frame: bytes, error: Malformed, out: list[Effect]
    ) -> None:
        """Junk is answered to whoever could make use of it: upstream, or where an id was read."""
        self._note(out, "warning", peer, f"{error.text}: {frame[:120]!r}")
        if error.id is None and peer is not self.upstream:
            return  # some agents choke on an unexpected error
        body = jsonrpc.error_object(error.code, error.text)
        out.append(Send(peer.name, tag + jsonrpc.answer(error.id or b"null", b"error", body)))

    def _refuse(
        self,
        peer: Peer,
        side: Side,
        raw: bytes | None,
        error: Malformed,
        batch: Batch | None,
        out: list[Effect],
    ) -> None:
        tag = peer.writers[side].tag if peer.sideband else b""
        frame = jsonrpc.answer(
            raw or b"null", b"error", jsonrpc.error_object(error.code, error.text)
        )
        self._note(out, "warning", peer, error.text)
        if batch is not None:
            whole = batch.add(frame)
            if whole is not None:
                out.append(Send(peer.name, tag + whole))
        else:
            out.append(Send(peer.name, tag + frame))

    def _no_answer(
        self, peer: Peer, side: Side, batch: Batch | None, out: list[Effect]
    ) -> None:
        if batch is not None:
            whole = batch.add(None)
            if whole is not None:
                tag = peer.writers[side].tag if peer.sideband else b""
                out.append(Send(peer.name, tag + whole))

    def chain_fails(self, peer: Peer, reason: Closure, out: list[Effect]) -> None:
        """Reports, once, that the chain cannot go on."""
        if self._failed is None:
            self._failed = reason
            out.append(Fail(peer.name, reason))

    @staticmethod
    def _note(out: list[Effect], level: str, peer: Peer, text: str) -> None:
        out.append(Note(level, peer.name, text))

    @staticmethod
    def _trace(
        out: list[Effect],
        kind: str,
        source: Peer,
        target: Peer,
        raw_id: bytes | None,
        method: str,
        payload: Raw | bytes | UnsetType,
        *,
        is_error: bool = False,
    ) -> None:
        out.append(
            Trace(
                kind,
                source.name,
                target.name,
                raw_id.decode(errors="replace") if raw_id is not None else None,
                method,
                None if isinstance(payload, UnsetType) else bytes(payload),
                is_error,
            )
        )
