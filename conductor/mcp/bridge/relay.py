"""Client and component speak of one kind of MCP: messages pass as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Raw

from conductor.core.jsonrpc import canonical_id
from conductor.mcp.bridge.adapters import Request, cancelled
from conductor.mcp.bridge.calls import Call
from conductor.mcp.bridge.consumers import Consumer
from conductor.mcp.bridge.json import read, write
from conductor.mcp.bridge.line import OnAnswer
from conductor.mcp.bridge.providers import Provider
from conductor.mcp.bridge.revisions import CANCELLED, SUBSCRIPTION


class Relay:
    """Passes everything on, both ways, with ids and cancellations put right."""

    def __init__(
        self,
        consumer: Consumer,
        provider: Provider,
        give_back: Callable[[Request], None] | None = None,
    ) -> None:
        """`give_back`: takes requests whose component is of another kind after all."""
        self._consumer = consumer
        self._provider = provider
        self._give_back = give_back
        self._calls: dict[bytes, Call] = {}
        self._asked: dict[OnAnswer, bytes] = {}

    # -- from the client -----------------------------------------------------------------------

    def request(self, asked: Request) -> None:
        """The client asks."""
        id_, key = asked.id, canonical_id(asked.id) or asked.id

        def answered(member: bytes, body: bytes) -> None:
            self._calls.pop(key, None)
            shown = body if asked.request_id is not None else subscription(body, id_)
            self._consumer.answer(id_, member, shown)

        call = Call(
            asked.method,
            asked.params,
            answered,
            owner_id=id_,
            request_id=asked.request_id,
            raw=asked.raw,
        )
        if self._give_back is not None:
            call.give_back = partial(self._gives_back, key, asked, self._give_back)
        self._calls[key] = call
        self._provider.request(call)

    def _gives_back(self, key: bytes, asked: Request, to: Callable[[Request], None]) -> None:
        self._calls.pop(key, None)
        to(asked)

    def cancel(self, key: bytes) -> None:
        """The client's request of this id is to be cancelled, and answered nevertheless."""
        call = self._calls.get(key)
        if call is not None:
            self._provider.cancel(call)

    def notification(self, method: str, params: bytes | None) -> None:
        """The client tells."""
        if method == CANCELLED:
            key = cancelled(params)
            call = self._calls.pop(key, None) if key is not None else None
            if call is not None and call.owner_id is not None:
                self._provider.tell_cancelled(call, params)
                self._provider.cancel(call, forget=True)
                self._consumer.give_up(call.owner_id)
            return
        self._provider.notify(method, params)

    def closed(self) -> None:
        """The client is gone."""
        self._provider.close()

    # -- from the component --------------------------------------------------------------------

    def asked(self, method: str, params: bytes | None, reply: OnAnswer, call: Call | None) -> None:
        """The component asks the client."""

        def answered(member: bytes, body: bytes) -> None:
            self._asked.pop(reply, None)
            reply(member, body)

        related = call.owner_id if call is not None else self._only()
        id_ = self._consumer.ask(method, params, answered, related)
        if id_ is not None:
            self._asked[reply] = id_

    def withdrawn(self, reply: OnAnswer) -> None:
        """It does not want the answer any more."""
        id_ = self._asked.pop(reply, None)
        if id_ is not None:
            params = b'{"requestId":%b}' % id_
            self._consumer.tell(CANCELLED, params, self._only())

    def told(self, method: str, params: bytes | None, call: Call | None) -> None:
        """The component tells the client."""
        related = call.owner_id if call is not None else self._only()
        if call is not None and call.owner_id and call.request_id is None and params is not None:
            params = subscription(params, call.owner_id)
        self._consumer.tell(method, params, related)

    def _only(self) -> bytes | None:
        """The one request that is open, if it is one."""
        return next(iter(self._calls.values())).owner_id if len(self._calls) == 1 else None


def subscription(body: bytes, id_: bytes) -> bytes:
    """The params or result with the client's own id in place of the one the component was given."""
    if SUBSCRIPTION.encode() not in body:
        return body
    held = read(body)
    meta = read(held.get("_meta"))
    if SUBSCRIPTION not in meta:
        return body
    meta[SUBSCRIPTION] = Raw(id_)
    return write({**held, "_meta": Raw(write(meta))})
