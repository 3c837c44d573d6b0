"""What upstream shows by its `initialize`: that it is a client, or an outer conductor, and how it
speaks."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.dialects import INITIALIZE, ROLE_METHODS, SACP
from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed
from conductor.core.peer import Lane, Peer
from conductor.core.roles import offer, versions
from conductor.core.topology import Side

ONLY_CONDUCTOR: Final = "`{}` requests are only sent by the conductor"
_REPEATED: Final = (
    "ACP initialization cannot be repeated after any other request; reconnect to initialize again"
)


class UpstreamRole:
    """The part of an initializer that is about upstream."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._repeatable = True
        self._echo = False
        """Whether its answer has to say that this is a proxy."""

    def check_begun(self) -> None:
        """Raises `Malformed` for a request from upstream before `initialize`."""
        if not self._exchange.upstream.admitted:
            expected = "proxy/initialize" if self._exchange.chain.mode == "proxy" else INITIALIZE
            raise Malformed(INVALID_REQUEST, f"expected `{expected}` request")
        self._repeatable = False

    def request(self, lane: Lane, method: str, params: Raw | UnsetType) -> Raw | UnsetType:
        """What goes on of an `initialize`, or role request, of upstream's. Raises `Malformed` to
        refuse."""
        exchange, peer = self._exchange, lane.peer
        offered = method == INITIALIZE and offer.present(params)
        if exchange.chain.mode == "auto":
            exchange.chain.settle_mode("proxy" if offered or method in ROLE_METHODS else "agent")
        if lane.side is Side.S:
            raise Malformed(INVALID_REQUEST, "`initialize` comes from the predecessor only")
        as_proxy = exchange.chain.mode == "proxy"
        if not as_proxy and method in ROLE_METHODS:
            raise Malformed(INVALID_REQUEST, ONLY_CONDUCTOR.format(method))
        if as_proxy and not (offered or method in ROLE_METHODS or peer.sideband):
            raise Malformed(INVALID_REQUEST, "proxies must be initialized with `proxy/initialize`")
        if as_proxy and method in ROLE_METHODS and peer.sideband:
            raise Malformed(INVALID_REQUEST, f"on side p it is plain `{INITIALIZE}`")
        if exchange.version == 2 and not self._repeatable:
            raise Malformed(INVALID_REQUEST, _REPEATED)
        selected = versions.select(params)
        if as_proxy and not peer.sideband:
            self._speak(peer, method)
        peer.admitted = True
        # In agent mode a section that only held the flag is the client's own: it stays.
        return offer.remove(selected, None if as_proxy else offer.shape(selected))

    def _speak(self, peer: Peer, method: str) -> None:
        """Takes the outer conductor's dialect from its role request."""
        self._echo = method == INITIALIZE
        if method in ROLE_METHODS:
            peer.speak(ROLE_METHODS[method])
        elif not peer.dialect.offer:
            peer.speak(SACP)
            peer.unsettled = True
        peer.ready = True

    def answered(self, answer: Raw | UnsetType) -> Raw | UnsetType:
        """The answer to upstream's `initialize`, as it is to be told."""
        assert isinstance(answer, Raw)
        self._exchange.version = versions.answered(answer)
        return offer.add(answer, "agent") if self._echo else answer
