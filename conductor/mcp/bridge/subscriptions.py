"""Subscriptions of clients without sessions, held as subscriptions of the session they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core.jsonrpc import canonical_id
from conductor.mcp import limits
from conductor.mcp.bridge import protocol
from conductor.mcp.bridge.endpoints import ClientConnection
from conductor.mcp.bridge.json import meta, read, text, with_meta, write

_KINDS: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
_UPDATED: Final = "notifications/resources/updated"


class _Subscription(msgspec.Struct, eq=False):
    """One open `subscriptions/listen`."""

    client: ClientConnection
    id: bytes
    kinds: dict[str, bool]
    uris: list[str]

    def wants(self, method: str, params: bytes | None) -> bool:
        if method == _UPDATED:
            return text(read(params).get("uri")) in self.uris
        return _KINDS[method] in self.kinds


class Subscriptions:
    """All subscriptions over a session with a component."""

    def __init__(
        self, subscribe: Callable[[str, str], None], refusal: Callable[[str], bytes]
    ) -> None:
        """`subscribe` sends the component `resources/subscribe` or `resources/unsubscribe` for a
        URI. `refusal`: the error for a subscription beyond the limit."""
        self._subscribe = subscribe
        self._refusal = refusal
        self._open: list[_Subscription] = []
        self._uris: dict[str, int] = {}
        """The number of subscriptions with each URI: the component gets only one for all."""

    def listen(
        self,
        client: ClientConnection,
        id_: bytes,
        wanted: dict[str, Any],
        capabilities: dict[str, dict[str, Any]],
    ) -> None:
        """A client subscribes. `capabilities`: those of the component, which bound the
        subscription."""
        uris = wanted.get("resourceSubscriptions")
        uris = list(dict.fromkeys(map(str, uris))) if isinstance(uris, list) else []
        total = sum(len(subscription.uris) for subscription in self._open) + len(uris)
        if max(len(self._open) + 1, total) > limits.SUBSCRIPTIONS:
            error = self._refusal(f"{limits.SUBSCRIPTIONS} subscriptions are open")
            client.respond(id_, b"error", error)
            return
        kinds = {
            name: True
            for name in _KINDS.values()
            if wanted.get(name) is True
            and capabilities.get(name.removesuffix("ListChanged"), {}).get("listChanged") is True
        }
        if capabilities.get("resources", {}).get("subscribe") is not True:
            uris = []
        self._open.append(_Subscription(client, id_, kinds, uris))
        agreed = {**kinds, "resourceSubscriptions": uris} if uris else kinds
        params = {"_meta": {protocol.SUBSCRIPTION: Raw(id_)}, "notifications": agreed}
        client.notify(protocol.ACKNOWLEDGED, write(params), id_)
        for uri in uris:
            self._uris[uri] = self._uris.get(uri, 0) + 1
            if self._uris[uri] == 1:
                self._subscribe("resources/subscribe", uri)

    def _remove(self, subscription: _Subscription) -> None:
        self._open.remove(subscription)
        for uri in subscription.uris:
            self._uris[uri] -= 1
            if not self._uris[uri]:
                del self._uris[uri]
                self._subscribe("resources/unsubscribe", uri)

    def leave(self, client: ClientConnection) -> None:
        """A client has left."""
        for subscription in list(self._open):
            if subscription.client is client:
                self._remove(subscription)

    def cancel(self, client: ClientConnection, key: bytes) -> bool:
        """A client ends the subscription with this canonical id; False if there is none."""
        for subscription in self._open:
            if subscription.client is client and canonical_id(subscription.id) == key:
                self._remove(subscription)
                return True
        return False

    def notify(self, method: str, params: bytes | None) -> None:
        """Passes a notification of the component to the clients that subscribed to it."""
        if method not in _KINDS and method != _UPDATED:
            return
        for subscription in self._open:
            if subscription.wants(method, params):
                fields = read(params)
                about = {**meta(fields), protocol.SUBSCRIPTION: Raw(subscription.id)}
                subscription.client.notify(method, with_meta(fields, about), subscription.id)

    def end(self) -> None:
        """The session is over; each `subscriptions/listen` gets its result."""
        for subscription in self._open:
            about = {protocol.SUBSCRIPTION: Raw(subscription.id)}
            result = write({"resultType": "complete", "_meta": about})
            subscription.client.respond(subscription.id, b"result", result)
        self._open.clear()
        self._uris.clear()
