"""The numbers of a server, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conductor.serve.served import Served


class Counts:
    """Counts that only grow."""

    def __init__(self) -> None:
        self.connections = 0
        self.denied: Counter[int] = Counter()
        """By HTTP status."""


def present(rooms: Collection[Served]) -> dict[str, int]:
    """The present counts, by name."""
    return {
        "connections": sum(len(room.connections) for room in rooms),
        "chains": sum(len(room.running) for room in rooms),
        "sessions": sum(len(room.sessions) for room in rooms),
        "open_turns": sum(room.open_turns for room in rooms),
    }


def text(counts: Counts, rooms: Collection[Served], *, draining: bool) -> str:
    """All numbers. They name no principal, no session and no connection."""
    sessions = [session for room in rooms for session in room.sessions]
    gauges = {
        **present(rooms),
        "principals": len(rooms),
        "unread_bytes": sum(
            one.outlet.waiting for room in rooms for one in room.connections.values()
        ),
        "history_bytes": sum(session.history_bytes for session in sessions),
        "draining": int(draining),
    }
    lines = []
    for name, number in gauges.items():
        lines += [f"# TYPE conductor_serve_{name} gauge", f"conductor_serve_{name} {number}"]
    lines += [
        "# TYPE conductor_serve_connections_opened_total counter",
        f"conductor_serve_connections_opened_total {counts.connections}",
        "# TYPE conductor_serve_denied_total counter",
    ]
    lines += [
        f'conductor_serve_denied_total{{status="{status}"}} {number}'
        for status, number in sorted(counts.denied.items())
    ]
    return "\n".join([*lines, ""])
