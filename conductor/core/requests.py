"""Requests: accepted, unwrapped, and sent on across the chain."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core import dialects, jsonrpc
from conductor.core.component import Role, Side
from conductor.core.dialects import ENVELOPES, PACP, ROLES
from conductor.core.effects import Reached
from conductor.core.jsonrpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Malformed,
    Message,
    Params,
)
from conductor.core.parts import Part
from conductor.core.policy import own_terminals
from conductor.core.policy.headings import read_message, session_of, size_of
from conductor.core.policy.key_table import (
    CLOSING,
    EVENTS,
    LIST,
    MCP_FAMILIES,
    OF_EDITOR,
    PROMPT,
    Direction,
)
from conductor.core.policy.ownership import CONCERNED
from conductor.core.policy.sessions import ENTERING, FOLLOWED, MAKES_ONE, Followed, guest_of
from conductor.core.policy.states import State
from conductor.core.services import called
from conductor.core.state import (
    AtPort,
    Batch,
    DialectState,
    Flow,
    Lane,
    Next,
    TracedRequest,
    Visit,
    Waiting,
)
from conductor.errors import counted

ONE_HOP: Final = "$/"
"""The prefix of methods that concern one connection: the ids they name are only known there."""
_GIVEN: Final = State.GIVEN
_LONGEST_ID: Final = 1024
"""Bytes: an id is kept until the request is answered."""

_NOTIFIED: Final = "Method not found: `{}` is no request; methods in `$/` are notifications"
_MISPLACED: Final = "`{}` is only exchanged between the conductor and the proxies it initialized"


class Requests(Part):
    """The part of a router that takes the requests of peers."""

    # -- requests ------------------------------------------------------------------------------

    def accept(
        self, lane: Lane, method: str, message: Message, batch: Batch | None
    ) -> Visit | None:
        """Makes a request pending, or refuses its id."""
        assert isinstance(message.id, Raw)
        raw_id = bytes(message.id)
        key = jsonrpc.canonical_id(raw_id)
        requests, allowed, known = lane.requests, lane.peer.component.allowance, None
        size = size_of(message.params)
        if key is None:
            text = "a request id must be null, a 64-bit integer or a string"
        elif key == b"null" and self._exchange.version == 2:
            text = "ACP protocol v2 request ids must be a string or an integer, not null"
        elif len(key) > _LONGEST_ID:
            text = f"a request id has at most {_LONGEST_ID} bytes, this one has {len(key)}"
        elif key in requests.received:
            text = f"request id {key.decode()} is still in use"
        elif (
            len(requests.received) >= allowed.open_requests
            or requests.size + size > allowed.open_bytes
        ) and (excess := self._excess(lane, key, size)):
            text, known = excess, key
        else:
            number = self._exchange.number
            flow = Flow(lane, key)
            pending = Visit(lane, raw_id, key, flow, batch, number, size, method=method)
            self._opens(lane, message.params, pending)
            return pending
        self._parts.rejections.reject(lane, Malformed(INVALID_REQUEST, text, known), batch)
        return None

    def _opens(self, lane: Lane, params: Params, pending: Visit) -> None:
        """A request of a peer's is open from now on."""
        lane.requests.size += pending.size
        if self._exchange.logs and lane.peer.joined:
            pending.traced = TracedRequest(lane, params)
        lane.requests.received[pending.key] = pending

    def passed_as_it_came(self, lane: Lane, carried: Visit) -> bool:
        """A component passes on, as it came, a request that it was given; False: it may not, or has
        another request open under that id."""
        key, method, params = carried.target_id, carried.method, carried.params
        if carried.state is not _GIVEN or key in lane.requests.received:
            return False
        number, size = self._exchange.number, size_of(params)
        pending = Visit(lane, key, key, carried.flow, None, number, size, method=method)
        self._opens(lane, params, pending)
        if method in CONCERNED:
            self._parts.mcp_ownership.requested(lane, method, params, pending)
        lane.in_flight.queue.popleft()
        self._parts.policed.goes_on(carried, params, pending)
        return True

    def _excess(self, lane: Lane, key: bytes, size: int) -> str | None:
        """Why a component that has reached a limit may not send another request; None if it may.

        The client always may, and a component may always pass on a request that it carries: a limit
        there would fail requests of others. A single request may have any size.
        """
        requests, peer = lane.requests, lane.peer
        allowed = peer.component.allowance
        carried = key in peer.p.in_flight.requests or key in peer.s.in_flight.requests
        # A guest, and a host of guests, passes on under the same id, also where it has no policy.
        carried = carried or (peer.sideband and key in lane.other.requests.sent)
        if carried or peer is self._exchange.upstream:
            return None
        if len(requests.received) >= allowed.open_requests:
            limit, most = "open_requests", f"{allowed.open_requests} of its requests"
        elif requests.size:
            limit, most = "open_bytes", f"{counted(requests.size, 'byte')} of its requests"
        else:
            return None
        return (
            f"{peer.label} asks too much at once: {most} have no answer yet\n"
            f"hint: raise the component's {limit} if this is intended"
        )

    def route(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends an accepted request where it belongs, or refuses it."""
        try:
            if method in ENVELOPES:
                lane, method, params = self.unwrap(lane, method, params)
                pending.method = method
            params = jsonrpc.structured(params)
            if pending.traced is not None:
                pending.traced.source, pending.traced.params = lane, params
            if method in ROLES:
                self._parts.initializer.request(lane, method, params, pending)
            elif method.startswith(ONE_HOP):
                raise Malformed(METHOD_NOT_FOUND, _NOTIFIED.format(method))
            elif method.startswith("_"):
                self._extension(lane, method, params, pending)
            else:
                self._send_across(lane, method, params, pending)
        except Malformed as error:
            self._exchange.refuse(pending, error)

    def _extension(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request outside of ACP where it belongs; `Malformed` if it belongs nowhere."""
        service = called(lane, method)
        if service is not None:
            self._parts.services.ask(lane, service, params, pending)
            return
        if method.startswith(OF_EDITOR):
            if method in EVENTS and lane is self._exchange.upstream.p:
                self._parts.initializer.upstream.check_begun()
                if self._parts.editor.deliver(method, params, pending):
                    return
            params = self._parts.editor.named(lane, method, params)
        self._send_across(lane, method, params, pending)

    def _send_across(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request of the conversation on; `Malformed` where it comes too early."""
        if lane.peer is self._exchange.upstream:
            self._parts.initializer.upstream.check_begun()
            if self._parts.held.may_keep and self._parts.held.keeps(lane, method, params, pending):
                return
        if lane.across is None:
            raise Malformed(INVALID_REQUEST, f"`{method}` before `initialize`")
        if lane.port:
            self._cross(lane, method, params, pending)
        else:
            self.send_on(lane, method, params, pending)

    def _cross(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request on across a port. Reported are a component's prompts there, the messages
        and answers of its MCP servers, and each request that is refused. The conductor above a host
        reports the requests that the host lets through."""
        by_mcp, refused = method.startswith(MCP_FAMILIES), ""
        if lane.direction is Direction.UP and by_mcp:
            assert lane.across is not None
            pending.followers = (*pending.followers, AtPort(lane.across))
        try:
            self._parts.ports.ask(lane, method, params, pending)
        except Malformed as wrong:
            refused = wrong.text
            raise
        finally:
            goes = (method == PROMPT or by_mcp) and not self._exchange.topology.hosted
            if lane.direction is Direction.DOWN and (refused or goes):
                peer = lane.peer
                name = (guest_of(pending.key) if peer.component.hosts else "") or peer.name
                session = session_of(params) or ""
                where = f"{lane.port}, session {session}" if session else lane.port
                self._exchange.emit(Reached(name, method, where, size_of(params), refused))

    def send_on(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends on a request of the conversation that nothing holds."""
        exchange, peer = self._exchange, lane.peer
        trusted = peer.policy_state is None or not peer.policy_state.enforced
        if trusted and peer.sideband and peer.role is Role.PROXY:
            # A guest, and a host of guests, passes a request on under the same id.
            given = lane.other.requests.sent.get(pending.key)
            if given is not None and given.method == method and not given.flow.made:
                pending.flow = given.flow
                if pending.traced is not None:
                    pending.traced.passes = given.number
        if method in own_terminals.FOLLOWED and trusted and lane.direction is Direction.UP:
            own_terminals.asked(self._parts, lane, method, params, pending)
        if method in CONCERNED:
            self._parts.mcp_ownership.requested(lane, method, params, pending)
        if method in FOLLOWED and trusted:
            self._parts.names.follow(lane, method, params, pending)
        elif method in CLOSING and trusted:
            exchange.sessions.closes(session_of(params), pending)
        if lane is exchange.upstream.p:
            self._client_asks(method, params, pending)
            if exchange.keeps and self._parts.replays.client_asks(lane, method, params, pending):
                return
        elif method == PROMPT and trusted and lane.direction is Direction.DOWN:
            pending.names = session_of(params)
            if not self._parts.own_turns.passes_on(lane, pending):
                pending.flow.own = True
                send = Waiting(Next.SENT, lane, pending, read_message(method, params))
                self._parts.own_turns.prompts(lane, pending, send)
                return
        elif trusted and peer.component.hosts and method.startswith(MCP_FAMILIES):
            own_prompts = self._parts.own_turns.own_prompts
            wrong = own_prompts.samples(lane, params, pending) if pending.is_first else None
            if wrong is not None:
                exchange.refuse(pending, wrong)
                return
        self.send_out(lane, method, params, pending)

    def _client_asks(self, method: str, params: Params, pending: Visit) -> None:
        """A request of the client's goes on."""
        sessions, pending.names = self._exchange.sessions, session_of(params)
        if method in ENTERING:
            if method != PROMPT or not sessions.is_client_in(pending.names):
                sessions.client_enters(pending.names, method)
            if method == PROMPT:
                self._parts.own_turns.client_prompts(pending)
            elif method in MAKES_ONE and self._exchange.topology.mode == "agent":
                self._parts.early.opens()
        elif method == LIST:
            pending.rewriters = (Followed(sessions),)
        elif method in CLOSING:
            sessions.client_ends(pending.names, method, params, pending)
            self._parts.own_turns.closed(pending.names)

    def send_out(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """A request leaves its sender, who may send it."""
        if lane.policed:
            self._parts.policed.ask(lane, method, params, pending)
        else:
            assert lane.across is not None
            self._exchange.forward(lane.across, method, params, pending)

    def unwrap(self, lane: Lane, method: str, params: Params) -> tuple[Lane, str, Params]:
        """Opens an envelope; `Malformed` where it does not belong."""
        if not lane.wraps:
            raise Malformed(INVALID_REQUEST, _MISPLACED.format(method))
        inner, inner_params, nested, peer = dialects.unwrap(params)
        if lane.peer.dialect_state is not DialectState.KNOWN:
            form = PACP if nested else ENVELOPES[method]
            self._parts.detection.envelope_seen(lane.peer, form, inner)
        if inner in ENVELOPES:
            raise Malformed(INVALID_REQUEST, _MISPLACED.format(inner))
        if peer:
            return self._parts.ports.named(lane.peer, peer, inner), inner, inner_params
        if lane.side is Side.S:
            raise Malformed(INVALID_REQUEST, _MISPLACED.format(method))
        return lane.peer.s, inner, inner_params
