"""Who is told of changes: subscriptions of MCP without sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import offers
from .links import SUBSCRIPTION, Declared
from .tasks import Waiter

if TYPE_CHECKING:
    from .engine import Engine

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"


class Listener:
    """One `subscriptions/listen`, open until its caller cancels it or the session ends."""

    def __init__(
        self, engine: Engine, declared: Declared, request_id: str, params: dict[str, Any]
    ) -> None:
        self.declared = declared
        self.over: Waiter[None] = Waiter()
        self._engine = engine
        self._request_id = request_id
        self._agreed = _agreed(declared, params.get("notifications"))

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Sends a notification of this subscription."""
        told = {**params, "_meta": {SUBSCRIPTION: self._request_id}}
        inner = {"serverId": self.declared.id, "requestId": self._request_id}
        self._engine.notify("s", "mcp/message", {**inner, "method": method, "params": told})

    def acknowledge(self) -> None:
        """Says what it will be told of."""
        self.tell(ACKNOWLEDGED, {"notifications": self._agreed})

    def changed(self, kind: str) -> None:
        """A list has changed."""
        if f"{kind}ListChanged" in self._agreed:
            self.tell(f"notifications/{kind}/list_changed", {})

    def updated(self, uri: str) -> None:
        """There is something else to read."""
        if uri in self._agreed.get("resourceSubscriptions", ()):
            self.tell(UPDATED, {"uri": uri})

    def result(self) -> dict[str, Any]:
        """The answer, once there is nothing more to be told."""
        return {"resultType": "complete", "_meta": {SUBSCRIPTION: self._request_id}}


def _agreed(declared: Declared, wanted: Any) -> dict[str, Any]:
    """The wanted notifications that the server ever sends."""
    wanted = wanted if isinstance(wanted, dict) else {}
    able = offers.capabilities(declared.server)
    agreed: dict[str, Any] = {
        f"{kind}ListChanged": True
        for kind in ("tools", "prompts", "resources")
        if wanted.get(f"{kind}ListChanged") is True and "listChanged" in able.get(kind, {})
    }
    uris = wanted.get("resourceSubscriptions")
    if isinstance(uris, list) and "resources" in able:
        agreed["resourceSubscriptions"] = [uri for uri in uris if isinstance(uri, str)]
    return agreed
