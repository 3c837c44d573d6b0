"""What proxies may ask of the conductor itself: side `c` for guests, `_conductor/NAME` for others.

Here it is decided whether they may; the answer is made outside, on a `Serve` effect.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.effects import Effect, Send, Serve
from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Malformed
from conductor.core.link import Pending
from conductor.core.peer import Lane, Peer
from conductor.core.topology import Role

SERVICES: Final = frozenset({"clock", "random", "log"})
"""What the conductor offers on the channel (side `c`, or `_conductor/NAME`)."""

ALWAYS_GRANTED: Final = frozenset({"log"})

LAST_WORDS: Final = "failed"
"""By this a child process that hosts guests says why it ends; never granted to a proxy."""

TRACED: Final = "trace"
"""By this such a child reports what passed between two of its guests; never granted either."""

VIOLATED: Final = "violated"
"""By this it reports what a guest's policy has stopped."""

READY: Final = "ready"
"""By this it says that its guests are loaded."""

RECOVERED: Final = "recovered"
"""By this it reports what it did about a guest that failed."""

INTERNAL: Final = frozenset({LAST_WORDS, TRACED, VIOLATED, READY, RECOVERED})
"""What only hosts of guests may say, and only to the conductor that started them."""

PREFIX: Final = "_conductor/"


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
        """Has service `name` performed, or refuses it; `pending` is None for a notification."""
        peer = lane.peer
        refused = self._refusal(peer, name)
        if refused is not None:
            self._exchange.note(out, "info", peer, refused)
            if pending is not None:
                error = Malformed(METHOD_NOT_FOUND, refused, data={"service": name})
                self._exchange.refuse(pending, error, out)
            return
        token = None
        if pending is not None:
            self._token = token = self._token + 1
            self._open[token] = pending
        held = None if isinstance(params, UnsetType) else bytes(params)
        out.append(Serve(peer.name, name, token, held))

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

    @staticmethod
    def configure(peer: Peer) -> list[Effect]:
        """What `peer` is told before anything else."""
        params = peer.component.configure
        if params is None:
            return []
        method = "configure" if peer.sideband else PREFIX + "configure"
        return [Send(peer.name, peer.c.writer.tag + jsonrpc.notification(method, params))]

    @staticmethod
    def _refusal(peer: Peer, name: str) -> str | None:
        if peer.role is not Role.PROXY:
            return f"Method not found: `{PREFIX}{name}` is for proxies only"
        granted = peer.component.services
        if name in INTERNAL and granted is not None and name in granted:
            return None
        if name not in SERVICES:
            return f"Method not found: the conductor has no service `{name}`"
        if granted is None or name in granted or name in ALWAYS_GRANTED:
            return None
        return (
            f"Method not found: service `{name}` is not granted to {peer.label}\n"
            f"hint: grant it with `{peer.name},grant={name}`"
        )
