"""Requests of the conductor's own to the client, past every proxy."""

from __future__ import annotations

from functools import partial
from typing import Final

from conductor.core.effects import Answered, Closure, Effects
from conductor.core.exchange import Exchange
from conductor.core.state import PendingRequest

_NO_CLIENT: Final = Closure("no client is there to answer")


class Questions:
    """The part of a router that asks the client."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._open: dict[int, PendingRequest] = {}
        """By token."""
        self._deaf = False

    def ask(self, method: str, params: bytes, token: int, out: Effects) -> None:
        """Sends the client a request; without a client that has sent `initialize`, and in proxy
        mode, that has an error for an answer."""
        exchange, client = self._exchange, self._exchange.upstream
        pending = exchange.own_request(method)
        pending.watchers = (partial(self._answered, token),)
        self._open[token] = pending
        if exchange.topology.mode == "agent" and client.admitted and not self._deaf:
            exchange.send(client.p, method, params, pending, out)
        else:
            pending.traced = None  # it was never sent
            exchange.fail(pending, _NO_CLIENT, out)

    def ended(self, reason: Closure, out: Effects) -> None:
        """Nothing more comes from the client: what was asked has an error for an answer."""
        self._deaf = True
        for pending in list(self._open.values()):
            self._exchange.fail(pending, reason, out)

    def _answered(self, token: int, member: bytes, body: bytes, out: Effects) -> None:
        del self._open[token]
        out.append(Answered(token, member, body))
