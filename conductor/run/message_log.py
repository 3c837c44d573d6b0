"""One line for each message of a chain, without its content (`--log debug`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from conductor.core import Trace, Violated
from conductor.errors import counted
from conductor.run.report_checks import Tracing

if TYPE_CHECKING:
    from conductor.transports.recorded import Recorder


class MessageLog:
    """Logs what crosses between two peers: direction, method, id and size.

    A `Tracing`: what the trace of the run is to see as well goes on to that.
    """

    def __init__(self, log: Callable[[str, str, str], None], trace: Tracing | None) -> None:
        """`log` takes level, component and text; `trace` is None without `--trace`."""
        self._log = log
        self._trace = trace

    def begin(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """Passes on."""
        if self._trace is not None:
            self._trace.begin(chain)

    def recorder(self, name: str) -> Recorder | None:
        """Passes on."""
        return None if self._trace is None else self._trace.recorder(name)

    def rearranged(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """Passes on."""
        if self._trace is not None:
            self._trace.rearranged(chain)

    def crossed(self, trace: Trace, mode: str) -> None:
        """Logs a message, and passes on."""
        self._log("debug", "conductor", line(trace))
        if self._trace is not None:
            self._trace.crossed(trace, mode)

    def hop(self, host: str, trace: Trace, at: float) -> None:
        """Passes on."""
        if self._trace is not None:
            self._trace.hop(host, trace, at)

    def delivered(
        self, host: str, guest: str, given: bytes, returned: bytes, failed: str, *, at: float
    ) -> None:
        """Passes on."""
        if self._trace is not None:
            self._trace.delivered(host, guest, given, returned, failed, at=at)

    def violated(self, violation: Violated) -> None:
        """Passes on: the log has a line of its own about it."""
        if self._trace is not None:
            self._trace.violated(violation)

    def happened(self, event: str, component: str, text: str) -> None:
        """Passes on: the log has a line of its own about it."""
        if self._trace is not None:
            self._trace.happened(event, component, text)

    def close(self) -> None:
        """Passes on."""
        if self._trace is not None:
            self._trace.close()


def line(trace: Trace) -> str:
    """A message in a line: `client -> demo: request session/prompt, id 3, 112 bytes`."""
    kind = "error" if trace.kind == "response" and trace.is_error else trace.kind
    source, target = trace.source or "conductor", trace.target or "conductor"
    parts = [f"{kind} {trace.method}" if trace.method is not None else kind]
    if trace.id is not None:
        parts.append(f"id {trace.id}")
    parts.append(counted(len(trace.payload or b""), "byte"))
    return f"{source} -> {target}: {', '.join(parts)}"
