"""The first `initialize` from upstream: it tells a client from an outer conductor."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.component import Side
from conductor.core.dialects import INITIALIZE, ROLE_METHODS, SACP
from conductor.core.exchange import Exchange
from conductor.core.json_text import read_members
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed, Params
from conductor.core.roles.initialize_params import (
    add_agent,
    add_offer,
    has_offer,
    has_section,
    offer_shape,
    remove_offer,
    select_version,
    version_of,
)
from conductor.core.state import DialectState, Lane, Life, Peer

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
        """Whether the answer must say that this is a proxy."""
        self._is_agent = False
        """Whether the answer must say that this is an agent: the editor takes part in SCP."""

    def check_begun(self) -> None:
        """Checks a request from upstream that is no `initialize`.

        Raises:
            Malformed: no `initialize` came before it.
        """
        if not self._exchange.upstream.admitted:
            expected = "proxy/initialize" if self._exchange.topology.mode == "proxy" else INITIALIZE
            raise Malformed(INVALID_REQUEST, f"expected `{expected}` request")
        self._repeatable = False

    def request(self, lane: Lane, method: str, params: Params) -> Params:
        """The params that go on of an `initialize` or role request from upstream.

        Raises:
            Malformed: it is refused.
        """
        exchange, peer = self._exchange, lane.peer
        offered = method == INITIALIZE and has_offer(params)
        if exchange.topology.mode == "auto":
            exchange.topology.settle_mode("proxy" if offered or method in ROLE_METHODS else "agent")
        if lane.side is Side.S:
            raise Malformed(INVALID_REQUEST, "`initialize` comes from the predecessor only")
        as_proxy = exchange.topology.mode == "proxy"
        if not as_proxy and method in ROLE_METHODS:
            raise Malformed(INVALID_REQUEST, ONLY_CONDUCTOR.format(method))
        if as_proxy and not (offered or method in ROLE_METHODS or peer.sideband):
            raise Malformed(INVALID_REQUEST, "proxies must be initialized with `proxy/initialize`")
        if as_proxy and method in ROLE_METHODS and peer.sideband:
            raise Malformed(INVALID_REQUEST, f"on side p it is plain `{INITIALIZE}`")
        if exchange.version == 2 and not self._repeatable:
            raise Malformed(INVALID_REQUEST, _REPEATED)
        selected = select_version(params)
        if as_proxy and not peer.sideband:
            self._speak(peer, method)
        self._is_agent = not as_proxy and not offered and has_section(params)
        peer.admitted = True
        peer.initialize = selected
        # In agent mode nobody flagged it on this hop: a section with nothing but the flag in it is
        # the client's own, and stays.
        return remove_offer(selected, None if as_proxy else offer_shape(selected))

    def _speak(self, peer: Peer, method: str) -> None:
        """Takes the outer conductor's dialect from its role request."""
        self._echo = method == INITIALIZE
        if method in ROLE_METHODS:
            peer.speak(ROLE_METHODS[method])
        elif not peer.dialect.offer:
            peer.speak(SACP)
            peer.dialect_state = DialectState.TENTATIVE
        peer.move(Life.READY)

    def answered(self, answer: Params) -> Params:
        """Rewrites the answer to upstream's `initialize`."""
        assert isinstance(answer, Raw)
        self._exchange.version = version_of(read_members(answer) or {})
        if self._is_agent:
            return add_agent(answer)
        return add_offer(answer, "agent") if self._echo else answer
