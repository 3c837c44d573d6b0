"""How a chain is initialized: roles, versions, and finding out which dialect a proxy speaks.

`initialize` is the one message whose form differs by whom it is for: the role request of a proxy's
dialect, or plain `initialize` for the agent. Each proxy forwards it to its successor before it
answers, so it walks the whole chain and the capabilities come back the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core import jsonrpc, offer, versions
from conductor.core.dialects import (
    DETECTION,
    INITIALIZE,
    PACP,
    PLAIN,
    ROLE_METHODS,
    SACP,
    SCP,
    Dialect,
)
from conductor.core.effects import Closure, Effect, Listen, Reopen
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, Malformed
from conductor.core.link import Pending
from conductor.core.peer import Component, Peer, Route
from conductor.core.topology import Role, Side

if TYPE_CHECKING:
    from conductor.core.router import Router

_NEXT_ON: Final = (METHOD_NOT_FOUND, INVALID_REQUEST)
"""Errors by which a component says that it does not know this role request."""

_ONLY_CONDUCTOR: Final = "`{}` requests are only sent by the conductor"


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


_error = msgspec.json.Decoder(_Error)


class Handshake:
    """One proxy being initialized: what was asked of it and what is left to try."""

    __slots__ = ("held", "left", "params", "pending", "reopened", "seen", "tried")

    def __init__(self, pending: Pending, params: Raw | UnsetType, left: list[Dialect]) -> None:
        self.pending = pending
        self.params = params
        self.left = left
        self.tried: Dialect = PLAIN
        self.seen: Dialect | None = None
        """The dialect its first envelope was in."""
        self.reopened = False
        self.held: Raw | bytes | None = None
        """An `scp` proxy's answer, until it has launched its successor."""


class Initializer:
    """The part of a router that handles `initialize` and role requests."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.begun = False
        self._repeatable = True
        self._handshakes: dict[str, Handshake] = {}
        self._echo_upstream = False

    def check_begun(self) -> None:
        """Raises `Malformed` for a request from upstream before `initialize`."""
        if not self.begun:
            expected = INITIALIZE if self._router.mode != "proxy" else "proxy/initialize"
            raise Malformed(INVALID_REQUEST, f"expected `{expected}` request")
        self._repeatable = False

    # -- requests ----------------------------------------------------------------------------

    def request(
        self,
        peer: Peer,
        side: Side,
        method: str,
        params: Raw | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Handles `initialize` or a role request from any peer. Raises `Malformed` to refuse."""
        if peer is self._router.upstream:
            params = self._from_upstream(peer, side, method, params)
        elif method in ROLE_METHODS:
            handshake = self._handshakes.get(peer.name)
            if side is Side.S and handshake is not None and peer.guessing:
                # A proxy of another generation forwards the role request it does not know.
                raise Malformed(METHOD_NOT_FOUND, f"Method not found: `{method}`")
            raise Malformed(INVALID_REQUEST, _ONLY_CONDUCTOR.format(method))
        elif peer.role is Role.AGENT or (side is Side.P and peer.launched_by is None):
            raise Malformed(INVALID_REQUEST, "`initialize` goes to the successor only")
        pending.method = INITIALIZE
        self._deliver(peer.routes[side], params, pending, out)

    def _from_upstream(
        self, peer: Peer, side: Side, method: str, params: Raw | UnsetType
    ) -> Raw | UnsetType:
        router = self._router
        offered = method == INITIALIZE and offer.present(params)
        if router.mode == "auto":
            router.settle_mode("proxy" if offered or method in ROLE_METHODS else "agent")
        if side is Side.S:
            raise Malformed(INVALID_REQUEST, "`initialize` comes from the predecessor only")
        if router.mode == "agent":
            if method in ROLE_METHODS:
                raise Malformed(INVALID_REQUEST, _ONLY_CONDUCTOR.format(method))
        elif method in ROLE_METHODS and not peer.sideband:
            peer.speak(ROLE_METHODS[method])
        elif offered and not peer.sideband:
            self._echo_upstream = True
            if peer.dialect is not PACP:
                peer.speak(SACP)
        elif not (peer.sideband and method == INITIALIZE):
            raise Malformed(
                INVALID_REQUEST, "proxies must be initialized with `proxy/initialize`"
            )
        if router.version == 2 and not self._repeatable:
            raise Malformed(
                INVALID_REQUEST,
                "ACP initialization cannot be repeated after any other request; "
                "reconnect to initialize again",
            )
        _, params = versions.select(offer.remove(params))
        self.begun = True
        return params

    def _deliver(
        self, route: Route, params: Raw | UnsetType, pending: Pending, out: list[Effect]
    ) -> None:
        router, target = self._router, route.peer
        pending.hook = self._answered
        if target.closure is not None:
            router.fail(pending, target.closure, out)
        elif target.role is not Role.PROXY or target.launched_by is not None:
            router.send(target, route.side, INITIALIZE, offer.remove(params), pending, out)
        else:
            assert target.dialect is not None
            left = list(DETECTION) if target.guessing else [target.dialect]
            handshake = Handshake(pending, offer.remove(params), left)
            self._handshakes[target.name] = handshake
            self._attempt(target, handshake, out)

    def _attempt(self, target: Peer, handshake: Handshake, out: list[Effect]) -> None:
        dialect = handshake.tried = handshake.left.pop(0)
        params = handshake.params
        if dialect.offer and not dialect.sideband:
            params = offer.add(params, capabilities=_capabilities("client", params))
        pending = handshake.pending
        pending.hook = self._answered
        self._router.send(target, Side.P, dialect.role, params, pending, out)

    # -- what the peers' behaviour tells -------------------------------------------------------

    def envelope_seen(
        self, peer: Peer, envelope: Dialect, method: str, nested: bool, out: list[Effect]
    ) -> None:
        """Notes the form of a peer's first envelope; it tells apart what handshakes cannot."""
        if peer.envelope_seen:
            return
        peer.envelope_seen = True
        form = PACP if nested else envelope
        if peer.role is Role.OUTER:
            if peer.dialect is SACP and form is PACP:
                peer.speak(PACP)
            return
        handshake = self._handshakes.get(peer.name)
        if handshake is None or not peer.guessing:
            return
        handshake.seen = form
        if method in ROLE_METHODS:
            peer.envelope_seen = False  # it will say more once it knows its role
            if form not in handshake.left:
                handshake.left.insert(0, form)
            while handshake.left[0] is not form:
                handshake.left.pop(0)
        else:
            self._confirm(peer, form, out)

    def _confirm(self, peer: Peer, dialect: Dialect, out: list[Effect]) -> None:
        peer.guessing = False
        peer.speak(dialect)
        peer.ready = True
        waiting, peer.backlog = peer.backlog, []
        for resume in waiting:
            resume(out)

    def retry(self, peer: Peer, reason: Closure, out: list[Effect]) -> bool:
        """Whether a peer that just ended is started once more, to be asked in another dialect."""
        handshake = self._handshakes.get(peer.name)
        if handshake is None:
            return False
        if (
            peer.guessing
            and handshake.left
            and handshake.held is None
            and not handshake.reopened
            and reason.data.get("exitCode") is not None
        ):
            handshake.reopened = True
            peer.link.sent.clear()
            out.append(Reopen(peer.name))
            return True
        del self._handshakes[peer.name]
        self._router.fail(handshake.pending, reason, out)
        return False

    def reopened(self, peer: Peer, out: list[Effect]) -> None:
        """Asks a restarted peer the next way."""
        handshake = self._handshakes[peer.name]
        self._attempt(peer, handshake, out)

    # -- answers -------------------------------------------------------------------------------

    def _answered(self, pending: Pending, member: bytes, body: bytes, out: list[Effect]) -> None:
        target = pending.target
        assert target is not None
        handshake = self._handshakes.get(target.name)
        if handshake is not None and handshake.pending is pending:
            if member == b"error" and self._try_next(target, handshake, body, out):
                return
            if member == b"result" and self._not_done(target, handshake, body, out):
                return
            del self._handshakes[target.name]
        self._finish(pending, member, body, out)

    def _try_next(
        self, target: Peer, handshake: Handshake, body: bytes, out: list[Effect]
    ) -> bool:
        """Asks in the next dialect; or ends the chain, when there is none left to try."""
        if not target.guessing or _code(body) not in _NEXT_ON:
            return False
        if handshake.left:
            self._attempt(target, handshake, out)
            return True
        self._not_a_proxy(target, handshake, f"it answered: {_message(body)}", out)
        return True

    def _not_done(
        self, target: Peer, handshake: Handshake, body: bytes, out: list[Effect]
    ) -> bool:
        """Whether a successful answer needs more before it may go back."""
        tried = handshake.tried
        if tried.offer and not tried.sideband:
            if not offer.present(body):
                self._not_a_proxy(target, handshake, "its answer lacks the proxy echo", out)
                return True
            if tried.launches or (target.guessing and handshake.seen is None):
                handshake.held = body
                target.ready = False
                out.append(Listen(target.name))
                return True
        if target.guessing:
            self._confirm(target, tried, out)
        return False

    def _finish(self, pending: Pending, member: bytes, body: Raw | bytes, out: list[Effect]) -> None:
        router = self._router
        if member == b"result":
            cleaned = offer.remove(Raw(body) if isinstance(body, bytes) else body)
            assert isinstance(cleaned, Raw)
            body = cleaned
            if pending.origin is router.upstream:
                router.version = versions.answered(body)
                if self._echo_upstream:
                    body = offer.add(body, capabilities=_capabilities("agent", body))
        router.reply(pending, member, body, out)

    def _not_a_proxy(
        self, target: Peer, handshake: Handshake, why: str, out: list[Effect]
    ) -> None:
        reason = Closure(
            f"component {target.label} is not a proxy ({why})",
            "only the last component of a chain may be an agent; "
            f"if this is a proxy, name its dialect: `{target.name},dialect=acp`",
            {"component": target.name},
        )
        del self._handshakes[target.name]
        self._router.fail(handshake.pending, reason, out)
        self._router.chain_fails(target, reason, out)

    # -- scp: the proxy launches its successor itself --------------------------------------------

    def listening(self, peer: Peer, server: bytes, out: list[Effect]) -> None:
        """Tells an `scp` proxy how to launch its successor: a shim that connects back to us."""
        router = self._router
        successor = Peer(
            Component(successor_name(peer.name), f"the successor connection of {peer.label}"),
            Role.PROXY,
            PLAIN,
        )
        successor.launched_by = peer
        successor.ready = True
        route = peer.routes.pop(Side.S)
        successor.routes[Side.P] = route
        route.peer.routes[route.side] = Route(successor, Side.P)
        router.peers[successor.name] = successor
        pending = Pending(None, b"", b"null", peer.writers[Side.P], "_scp/proxy")
        pending.hook = self._launched
        router.send(peer, Side.P, "_scp/proxy", b'{"servers":[%b]}' % server, pending, out)

    def _launched(self, pending: Pending, member: bytes, body: bytes, out: list[Effect]) -> None:
        peer = pending.target
        assert peer is not None
        handshake = self._handshakes.pop(peer.name, None)
        if handshake is None or handshake.held is None:
            return
        if member == b"error":
            if peer.guessing and _code(body) == METHOD_NOT_FOUND:
                self._unjoin(peer)
                self._confirm(peer, SACP, out)
            else:
                handshake.held = None
                self._handshakes[peer.name] = handshake
                self._not_a_proxy(peer, handshake, f"`_scp/proxy` failed: {_message(body)}", out)
                return
        else:
            self._confirm(peer, SCP, out)
        self._finish(handshake.pending, b"result", handshake.held, out)

    def _unjoin(self, peer: Peer) -> None:
        successor = self._router.peers[successor_name(peer.name)]
        route = successor.routes.pop(Side.P)
        peer.routes[Side.S] = route
        route.peer.routes[route.side] = Route(peer, Side.S)


def successor_name(name: str) -> str:
    """Name of the peer that stands for an `scp` proxy's own connection to its successor."""
    return f"{name}/successor"


def _capabilities(who: str, body: Raw | UnsetType | bytes) -> str:
    """The capability member of an `initialize` request (client) or result (agent), by version."""
    version = None if isinstance(body, UnsetType) else versions.answered(body)
    return "capabilities" if version == 2 else f"{who}Capabilities"


def _read_error(body: bytes) -> _Error:
    try:
        return _error.decode(body)
    except msgspec.DecodeError:
        return _Error()


def _code(body: bytes) -> int:
    return _read_error(body).code


def _message(body: bytes) -> Any:
    return _read_error(body).message or "an error"
