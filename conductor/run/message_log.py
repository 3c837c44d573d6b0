"""One line for each message of a chain, without its content (`--log debug`)."""

from __future__ import annotations

from collections.abc import Callable

from conductor.core import Entry
from conductor.errors import counted
from conductor.run.log import Item, Sink


class MessageLog(Sink[Item]):
    """Logs messages between two peers: direction, method, id and size."""

    takes = (Entry,)
    watches = False

    def __init__(self, log: Callable[[str, str, str], None]) -> None:
        """`log` takes level, component and text."""
        self._log = log

    def take(self, item: Item, at: float, mode: str) -> None:
        """Logs a message: `client -> demo: request session/prompt, id 3, 112 bytes`."""
        if type(item) is not Entry:
            return
        kind = "error" if item.kind == "response" and item.is_error else item.kind
        source, target = item.source or "conductor", item.target or "conductor"
        parts = [f"{kind} {item.method}"]
        if item.id is not None:
            parts.append(f"id {item.id.decode(errors='replace')}")
        parts.append(counted(len(bytes(item.payload or b"")), "byte"))
        self._log("debug", "conductor", f"{source} -> {target}: {', '.join(parts)}")
