"""What clients without sessions have subscribed to, held as subscriptions of the one session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Raw

from conductor.core.jsonrpc import canonical_id
from conductor.mcp.bridge import limits
from conductor.mcp.bridge.json import read, text, write
from conductor.mcp.bridge.ports import Port
from conductor.mcp.bridge.revisions import ACKNOWLEDGED, SUBSCRIPTION

_KINDS: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
_UPDATED: Final = "notifications/resources/updated"


class Listening:
    """One `subscriptions/listen` that is open."""

    def __init__(self, port: Port, id_: bytes, wanted: dict[str, Any]) -> None:
        self.port = port
        self.id = id_
        self.wanted = wanted

    def wants(self, method: str, params: bytes | None) -> bool:
        """Whether this notification was subscribed to."""
        if method == _UPDATED:
            uris = self.wanted.get("resourceSubscriptions", [])
            return text(read(params).get("uri")) in uris
        return self.wanted.get(_KINDS[method]) is True


class Subscriptions:
    """All of them over one session with a component."""

    def __init__(self, label: str, subscribe: Callable[[str, str], None]) -> None:
        """`label`: the server. `subscribe` asks the component to, or not to any more: method and
        URI."""
        self._label = label
        self._subscribe = subscribe
        self._open: list[Listening] = []
        self._uris: dict[str, int] = {}

    def listen(self, port: Port, id_: bytes, wanted: dict[str, Any], able: dict[str, Any]) -> None:
        """A client subscribes; `able`: the component's capabilities."""
        uris = wanted.get("resourceSubscriptions")
        uris = list(dict.fromkeys(map(str, uris))) if isinstance(uris, list) else []
        held = sum(len(one.wanted.get("resourceSubscriptions", ())) for one in self._open)
        if max(len(self._open) + 1, held + len(uris)) > limits.SUBSCRIPTIONS:
            what = f"{limits.SUBSCRIPTIONS} subscriptions are open"
            port.answer(id_, b"error", limits.refusal(self._label, what))
            return
        agreed: dict[str, Any] = {}
        for name in _KINDS.values():
            kind = able.get(name.removesuffix("ListChanged"), {})
            if wanted.get(name) is True and kind.get("listChanged") is True:
                agreed[name] = True
        if uris and able.get("resources", {}).get("subscribe") is True:
            agreed["resourceSubscriptions"] = uris
        listening = Listening(port, id_, agreed)
        self._open.append(listening)
        params = {"_meta": {SUBSCRIPTION: Raw(id_)}, "notifications": agreed}
        port.tell(ACKNOWLEDGED, write(params), id_)
        for uri in agreed.get("resourceSubscriptions", []):
            self._uris[uri] = self._uris.get(uri, 0) + 1
            if self._uris[uri] == 1:
                self._subscribe("resources/subscribe", uri)

    def _unlisten(self, listening: Listening) -> None:
        self._open.remove(listening)
        for uri in listening.wanted.get("resourceSubscriptions", []):
            self._uris[uri] -= 1
            if not self._uris[uri]:
                del self._uris[uri]
                self._subscribe("resources/unsubscribe", uri)

    def leave(self, port: Port) -> None:
        """A client is gone."""
        for listening in [one for one in self._open if one.port is port]:
            self._unlisten(listening)

    def cancel(self, port: Port, id_: bytes) -> bool:
        """A client ends a subscription; whether there was one of this id."""
        for listening in self._open:
            if listening.port is port and canonical_id(listening.id) == id_:
                self._unlisten(listening)
                return True
        return False

    def told(self, method: str, params: bytes | None) -> None:
        """The component tells something; whoever subscribed to that hears it."""
        if method not in _KINDS and method != _UPDATED:
            return
        for one in self._open:
            if one.wants(method, params):
                held = read(params)
                meta = {**read(held.get("_meta")), SUBSCRIPTION: Raw(one.id)}
                one.port.tell(method, write({**held, "_meta": meta}), one.id)

    def end(self) -> None:
        """The session is over, and so are they."""
        for listening in self._open:
            result = {"resultType": "complete", "_meta": {SUBSCRIPTION: Raw(listening.id)}}
            listening.port.answer(listening.id, b"result", write(result))
        self._open.clear()
        self._uris.clear()
