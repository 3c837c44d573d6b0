"""One line for each message of a chain, without its content (`--log debug`)."""

from __future__ import annotations

from collections.abc import Callable

from conductor.core import Trace
from conductor.errors import counted
from conductor.run.report_checks import Tracing


class MessageLog(Tracing):
    """Logs what crosses between two peers: direction, method, id and size."""

    def __init__(self, log: Callable[[str, str, str], None]) -> None:
        """`log` takes level, component and text."""
        self._log = log

    def crossed(self, trace: Trace, mode: str) -> None:
        """Logs a message: `client -> demo: request session/prompt, id 3, 112 bytes`."""
        kind = "error" if trace.kind == "response" and trace.is_error else trace.kind
        source, target = trace.source or "conductor", trace.target or "conductor"
        parts = [f"{kind} {trace.method}" if trace.method is not None else kind]
        if trace.id is not None:
            parts.append(f"id {trace.id}")
        parts.append(counted(len(trace.payload or b""), "byte"))
        self._log("debug", "conductor", f"{source} -> {target}: {', '.join(parts)}")
