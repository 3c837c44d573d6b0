"""Requests: taken into the books, taken out of their envelope, and sent on across the chain."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw, UnsetType

from conductor.core import dialects, jsonrpc
from conductor.core.dialects import ENVELOPES, INITIALIZE, LAUNCH, PACP, ROLE_METHODS
from conductor.core.effects import Effect
from conductor.core.exchange import Exchange
from conductor.core.json_text import read_members
from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Malformed,
    Message,
)
from conductor.core.peer import Lane
from conductor.core.pending import Batch, Pending
from conductor.core.policy.enforcer import Enforcer
from conductor.core.policy.keys import session_of, size_of
from conductor.core.policy.ownership import CONCERNED
from conductor.core.policy.sessions import ENTERING, FOLLOWED
from conductor.core.refusals import refuse
from conductor.core.roles.initialize import Initializer
from conductor.core.services import Services, called
from conductor.core.trail import Source, Trail

ROLES: Final = frozenset({INITIALIZE, LAUNCH, *ROLE_METHODS})
STRUCTURED: Final = b"{["
"""How JSON-RPC params may begin."""
ONE_HOP: Final = "$/"
"""How methods begin that concern one connection: the ids they name are those of nobody else."""
NOT_STRUCTURED: Final = "JSON-RPC params must be an object or array"

_LONGEST_ID: Final = 1024
"""Bytes: an id is kept until the request is answered."""

_NOTIFIED: Final = "Method not found: `{}` is no request; what begins with `$/` is only notified"
_MISPLACED: Final = "`{}` is only exchanged between the conductor and the proxies it initialized"


class Requests:
    """The part of a router that handles requests."""

    def __init__(
        self,
        exchange: Exchange,
        initializer: Initializer,
        services: Services,
        enforcer: Enforcer,
    ) -> None:
        self._exchange = exchange
        self._initializer = initializer
        self._services = services
        self._owners = enforcer.owners
        self._policed = enforcer.requests

    def accept(
        self, lane: Lane, method: str, message: Message, batch: Batch | None, out: list[Effect]
    ) -> Pending | None:
        """Takes a request into the books, or refuses its id."""
        assert isinstance(message.id, Raw)
        key = jsonrpc.canonical_id(message.id)
        known = None
        if key is None:
            text = "a request id must be null, a 64-bit integer or a string"
        elif key == b"null" and self._exchange.version == 2:
            text = "ACP protocol v2 request ids must be a string or an integer, not null"
        elif len(key) > _LONGEST_ID:
            text = f"a request id has at most {_LONGEST_ID} bytes, this one has {len(key)}"
        elif key in lane.link.received:
            text = f"request id {key.decode(errors='replace')} is still in use"
        elif over := self._too_many(lane, key, message):
            text, known = over, key
        else:
            pending = Pending(lane, bytes(message.id), key, method, batch)
            pending.number = self._exchange.number
            pending.size = size_of(message.params)
            lane.link.size += pending.size
            if self._exchange.tracing:
                pending.trail = Trail(lane, message.params)
            lane.link.received[key] = pending
            return pending
        refuse(self._exchange, lane, Malformed(INVALID_REQUEST, text, known), batch, out)
        return None

    def _too_many(self, lane: Lane, key: bytes, message: Message) -> str:
        """Why a component may not ask yet one more; empty if it may. The client may always, and
        what a component carries it may always pass on."""
        link, peer = lane.link, lane.peer
        allowed = peer.component.allowance
        if len(link.received) >= allowed.open_requests:
            limit, most = "open_requests", f"{allowed.open_requests} of its requests"
        elif link.size and link.size + size_of(message.params) > allowed.open_bytes:
            limit, most = "open_bytes", f"{link.size} bytes of its requests"
        else:
            return ""
        carried = key in peer.p.given.requests or key in peer.s.given.requests
        if carried or peer is self._exchange.upstream:
            return ""
        return (
            f"{peer.label} asks too much at once: {most} have no answer yet\n"
            f"hint: raise the component's {limit} if this is intended"
        )

    def route(
        self,
        lane: Lane,
        method: str,
        params: Raw | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Sends an accepted request where it belongs, or refuses it."""
        try:
            if method in ENVELOPES:
                lane, method, params = self._open(lane, method, params, out)
                pending.method = method
            if isinstance(params, Raw) and memoryview(params)[0] not in STRUCTURED:
                if bytes(params) != b"null":
                    raise Malformed(INVALID_PARAMS, NOT_STRUCTURED)
                params = UNSET
            if pending.trail is not None:
                pending.trail.source, pending.trail.params = lane, params
            if method in ROLES:
                self._initializer.request(lane, method, params, pending, out)
            elif method.startswith(ONE_HOP):
                raise Malformed(METHOD_NOT_FOUND, _NOTIFIED.format(method))
            elif method.startswith("_") and (service := called(lane, method)) is not None:
                self._services.ask(lane, service, params, pending, out)
            else:
                if lane.peer is self._exchange.upstream:
                    self._initializer.check_begun()
                if lane.across is None:
                    raise Malformed(INVALID_REQUEST, f"`{method}` before `initialize`")
                if method in CONCERNED:
                    self._owners.asked(lane, method, params, pending)
                if method in ENTERING and lane.peer is self._exchange.upstream:
                    self._exchange.sessions.entered(session_of(params), "")
                if method in FOLLOWED and (lane.peer.gate is None or not lane.peer.gate.enforced):
                    self._exchange.sessions.follow(method, params, pending)
                if lane.policed:
                    self._policed.ask(lane, method, params, pending, out)
                else:
                    self._exchange.forward(lane.across, method, params, pending, out)
        except Malformed as error:
            self._exchange.refuse(pending, error, out)

    def _open(
        self, lane: Lane, method: str, params: Raw | UnsetType, out: list[Effect]
    ) -> tuple[Lane, str, Raw | UnsetType]:
        """Opens an envelope. Raises `Malformed` where it does not belong."""
        if not lane.wraps:
            raise Malformed(INVALID_REQUEST, _MISPLACED.format(method))
        inner, held, nested = dialects.unwrap(params)
        if lane.peer.unsettled:
            form = PACP if nested else ENVELOPES[method]
            self._initializer.envelope_seen(lane.peer, form, inner, out)
        if inner in ENVELOPES:
            raise Malformed(INVALID_REQUEST, _MISPLACED.format(inner))
        return lane.peer.s, inner, held

    def cancel(self, lane: Lane, params: Raw | UnsetType, out: list[Effect]) -> None:
        """`$/cancel_request` concerns one hop: it is issued anew with the next hop's id."""
        raw = (read_members(params) or {}).get("requestId")
        key = jsonrpc.canonical_id(raw) if raw is not None else None
        pending = lane.link.received.get(key) if key is not None else None
        if pending is not None and self._policed.may_cancel(pending, out):
            self._exchange.cancel(pending, out, Source(lane, self._exchange.number))
