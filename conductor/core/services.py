"""What proxies may ask of the conductor itself: side `c` for guests, `_conductor/NAME` for others.

Here it is decided whether they may; the answer is made outside, on a `Serve` effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core import jsonrpc, members
from conductor.core.effects import Effect, Send, Serve
from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Malformed
from conductor.core.peer import Lane, Peer
from conductor.core.pending import Pending
from conductor.core.policy.keys import size_of
from conductor.core.service_table import ALWAYS_GRANTED, CALLS, SHOWN_GRANTS
from conductor.core.topology import Role

ALIASES: Final = {"_proxy/log": "log", "_proxy/metric": "metric", "_proxy/config": "config"}
"""Names by which the oldest generation of proxies calls services (the P/ACP proposal)."""

CONFIG: Final = "config"
"""A request for what `configure` told; answered here, to whoever has been configured."""

KEEP: Final = "keep"
"""By this a component keeps what it wants to be told if it is started again (`core.keeping`). It is
remembered here; whoever starts hosts of guests again is told of it, too."""

RELAYED: Final = "service"
"""By this a child that hosts guests passes on what a guest asks for: `{component, service,
params}`. What it may ask for, the guest itself must have been granted."""

_SHOWN: Final = 80
"""Characters of a component's own word that stand in an error."""

LAST_WORDS: Final = "failed"
"""By this a child process that hosts guests says why it ends; never granted to a proxy."""

TRACED: Final = "trace"
"""By this such a child reports what passed between two of its guests; never granted either."""

DELIVERED: Final = "delivered"
"""By this it reports what a guest was given and what it said, for a trace; never granted either."""

VIOLATED: Final = "violated"
"""By this it reports what a guest's policy has stopped."""

CHANGED: Final = "changed"
"""By this it reports what a guest has changed, for an audit."""

READY: Final = "ready"
"""By this it says that its guests are loaded."""

RECOVERED: Final = "recovered"
"""By this it reports what it did about a guest that failed."""

OWNED: Final = "owned"
"""By this it says which addresses of MCP are a guest's own, for when it is started again."""

INTERNAL: Final = frozenset(
    {LAST_WORDS, TRACED, DELIVERED, VIOLATED, CHANGED, READY, RECOVERED, RELAYED, OWNED}
)
"""What only hosts of guests may say, and only to the conductor that started them."""

PREFIX: Final = "_conductor/"


def granted_names(grants: Iterable[str]) -> frozenset[str]:
    """The services that grants are for: what stands behind a colon narrows them elsewhere."""
    return frozenset(grant.partition(":")[0] for grant in grants)


def called(lane: Lane, method: str) -> str | None:
    """The service that `method`, said on `lane`, calls; None if it is meant for somebody else.

    The old names are the conductor's only where a proxy says them itself, not wrapped.
    """
    if method.startswith(PREFIX):
        return method[len(PREFIX) :]
    if lane.peer.role is Role.PROXY and lane is lane.peer.p:
        return ALIASES.get(method)
    return None


def too_large(name: str, size: int, service_bytes: int) -> str | None:
    """What is wrong with a request of so many bytes, before anything of it is read."""
    own = CALLS[name].most if name in CALLS else None
    most = service_bytes if own is None else own
    if name in INTERNAL or size <= most:
        return None
    if own is not None:
        hint = f"send less at a time: {own:,} bytes are the most for everybody"
    else:
        hint = f"raise it with `,limit.service_bytes={size}` behind the component"
    limit = "" if own is not None else " (limit `service_bytes`)"
    return f"`{name}` takes at most {most:,} bytes of params{limit}, not {size:,}\nhint: {hint}"


def _service_of(name: str) -> str:
    """The service in the data of an error: a component may have made up the name."""
    return CALLS[name].service if name in CALLS else name[:_SHOWN]


class Services:
    """Grants and refuses; remembers which request an outcome belongs to."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._open: dict[int, Pending] = {}
        self._token = 0

    def ask(
        self,
        lane: Lane,
        name: str,
        params: Raw | UnsetType,
        pending: Pending | None,
        out: list[Effect],
    ) -> None:
        """Has the service called by `name` performed, or refuses it; `pending` is None for a
        notification."""
        peer = lane.peer
        if pending is not None:
            pending.trail = None  # who writes a trace sees what components ask of the conductor
        refused = self._refusal(peer, name)
        if refused is not None:
            self._exchange.note(out, "info", peer, refused)
            if pending is not None:
                data = {"service": _service_of(name)}
                self._exchange.refuse(pending, Malformed(METHOD_NOT_FOUND, refused, data=data), out)
            return
        wrong = too_large(name, size_of(params), peer.component.allowance.service_bytes)
        if wrong is not None:
            self._decline(peer, name, wrong, pending, out)
            return
        if name == CONFIG:
            if pending is not None:
                self._exchange.reply(pending, b"result", configuration(peer) or b"{}", out)
            return
        if name == KEEP:
            self._keep(peer, params, pending, out)
            return
        token = None
        if pending is not None:
            self._token = token = self._token + 1
            self._open[token] = pending
        held = None if isinstance(params, UnsetType) else bytes(params)
        out.append(Serve(peer.name, name, token, held))

    def _keep(
        self, peer: Peer, params: Raw | UnsetType, pending: Pending | None, out: list[Effect]
    ) -> None:
        if isinstance(params, UnsetType) or not peer.kept.take(params):
            self._decline(peer, KEEP, f"`{KEEP}` takes an object: what is to be kept", pending, out)
            return
        out.append(Serve(peer.name, KEEP, None, bytes(params)))
        if pending is not None:
            self._exchange.reply(pending, b"result", b"{}", out)

    def _decline(
        self, peer: Peer, name: str, wrong: str, pending: Pending | None, out: list[Effect]
    ) -> None:
        """Refuses a request for what is wrong with its params."""
        self._exchange.note(out, "warning", peer, f"{peer.label}: {wrong}")
        if pending is not None:
            data = {"service": _service_of(name)}
            self._exchange.refuse(pending, Malformed(INVALID_PARAMS, wrong, data=data), out)

    def served(self, token: int, result: bytes | None, error: bytes | None) -> list[Effect]:
        """Answers the request `token` stands for, if the peer is still there."""
        out: list[Effect] = []
        pending = self._open.pop(token)
        if result is not None:
            self._exchange.reply(pending, b"result", result, out)
        elif error is not None:
            self._exchange.reply(pending, b"error", error, out)
        else:
            text = f"service `{pending.method}` had no answer"
            self._exchange.refuse(pending, Malformed(INTERNAL_ERROR, text), out)
        return out

    @classmethod
    def configure(cls, peer: Peer) -> list[Effect]:
        """What `peer` is told before anything else."""
        params = configuration(peer)
        return cls.tell(peer, "configure", params) if params is not None else []

    @staticmethod
    def tell(peer: Peer, name: str, params: bytes) -> list[Effect]:
        """A notification from the conductor itself."""
        method = name if peer.sideband else PREFIX + name
        return [Send(peer.name, peer.c.writer.tag + jsonrpc.notification(method, params))]

    @staticmethod
    def _refusal(peer: Peer, name: str) -> str | None:
        if peer.role is not Role.PROXY:
            return f"Method not found: `{PREFIX}{name[:_SHOWN]}` is for proxies only"
        granted = peer.component.services
        if name in INTERNAL and granted is not None and name in granted:
            return None
        if name in (CONFIG, KEEP):
            return None
        if name not in CALLS:
            return f"Method not found: the conductor has no service `{name[:_SHOWN]}`"
        service = CALLS[name].service
        if granted is None or service in granted or service in ALWAYS_GRANTED:
            return None
        shown = SHOWN_GRANTS.get(service, service)
        return (
            f"Method not found: service `{service}` is not granted to {peer.label}\n"
            f"hint: grant it with `,grant={shown}` behind it"
        )


def configuration(peer: Peer) -> bytes | None:
    """The params of `configure`: what was set; which instance this is if not the first, and what
    former ones kept."""
    component = peer.component
    instance = component.instance
    if peer.run > 1:
        instance = f"{instance or 1}.{peer.run}"
    # Who had something kept is told it, though it may not be told anything else.
    told = b"{}" if component.configure is None and peer.kept else component.configure
    held = members.read(told) if instance else None
    if held is None:
        return component.configure
    held["instance"] = Raw(msgspec.json.encode(instance))
    if peer.kept:
        held["kept"] = Raw(peer.kept.told())
    return bytes(members.write(held))
