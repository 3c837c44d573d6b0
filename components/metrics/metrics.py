"""Counts messages, turns, tool calls and errors, and how long requests take.

conductor agent -c metrics=acp.prom metrics claude-agent-acp
"""

import math
from dataclasses import dataclass, field
from typing import Any

from guest_sdk.python import Answered, Notification, Proxy, Refused, Request, Update

MOST = 100
"""Names of methods, kinds and the like that are told apart; others are `other`."""
REMEMBERED = 512
"""Tool calls of one session that are kept in mind."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    buckets: list[float] = field(default_factory=lambda: [10, 100, 1000, 10_000, 60_000, 600_000])

    def __post_init__(self) -> None:
        if self.buckets != sorted(set(self.buckets)) or len(self.buckets) > 20:
            raise ValueError("`buckets` are at most 20 numbers, each larger than the one before")


@dataclass
class Calls:
    """Tool calls of a session that have been counted, by id; the oldest first."""

    begun: dict[str, None] = field(default_factory=dict)


proxy = Proxy(
    "metrics",
    description="Counts messages, turns, tool calls and errors, and how long requests take.",
    config=Config,
    session=Calls,
)
known: dict[str, set[str]] = {}
warned: list[str] = []


def label(kind: str, value: Any) -> str:
    """A value as a label: short, and one of so many."""
    names = known.setdefault(kind, set())
    name = str(value)[:100]
    if name not in names and len(names) >= MOST:
        return "other"
    names.add(name)
    return name


@proxy.request()
async def requested(request: Request, following: Any) -> Any:
    method, way = label("method", request.method), request.direction
    proxy.metric.count("messages", way=way, kind="request", method=method)
    # Asked for, and not waited for: what passes is not held up by the clock.
    began = proxy.clock.ask("clock")
    outcome = "error"
    try:
        result = await following(request)
        outcome = "ok"
    except Answered:
        raise
    finally:
        outcome = "cancelled" if request.cancelled else outcome
        proxy.metric.count("requests", way=way, method=method, outcome=outcome)
        proxy.start(measure(method, began, proxy.clock.ask("clock")))
    if request.method == "session/prompt" and isinstance(result, dict) and "stopReason" in result:
        proxy.metric.count("turns", stop=label("stop", result["stopReason"]))
    return result


async def measure(method: str, began: Any, ended: Any) -> None:
    """Counts how long a request took: a histogram as Prometheus has it, in milliseconds."""
    try:
        start = (await began)["unixMs"]
        took = max(0, (await ended)["unixMs"] - start)
    except Refused as refused:
        if not warned:
            warned.append(str(refused))
            proxy.log.warn(f"how long requests take is not measured: {refused}")
        return
    proxy.metric.count("request_ms_sum", took, method=method)
    proxy.metric.count("request_ms_count", method=method)
    for limit in [*proxy.config.buckets, math.inf]:
        if took <= limit:
            le = "+Inf" if limit == math.inf else f"{limit:g}"
            proxy.metric.count("request_ms_bucket", method=method, le=le)


@proxy.notification()
def told(notification: Notification) -> None:
    method = label("method", notification.method)
    way = notification.direction
    proxy.metric.count("messages", way=way, kind="notification", method=method)
    if isinstance(notification, Update):
        begun = begins(notification)
        if not notification.replayed:
            updated(notification, begun=begun)


def begins(update: Update) -> bool:
    """Whether a tool call begins with an update; in ACP v2 with the first one that names it."""
    id_ = update.update.get("toolCallId")
    if update.kind not in ("tool_call", "tool_call_update") or not isinstance(id_, str):
        return update.kind == "tool_call"
    calls = update.state.begun
    new = update.kind == "tool_call" or id_ not in calls
    calls[id_] = None
    while len(calls) > REMEMBERED:
        del calls[next(iter(calls))]
    return new


def updated(update: Update, *, begun: bool) -> None:
    """Counts the agent's acts, except those that it tells again while a session is loaded."""
    proxy.metric.count("updates", kind=label("update", update.kind))
    if begun:
        proxy.metric.count("tool_calls", kind=label("tool", update.update.get("kind", "other")))
    status = update.update.get("status")
    if update.kind in ("tool_call", "tool_call_update") and status in ("completed", "failed"):
        proxy.metric.count("tool_results", status=status)
    if update.kind == "state_update" and update.update.get("state") == "idle":
        proxy.metric.count("turns", stop=label("stop", update.update.get("stopReason", "end_turn")))


if __name__ == "__main__":
    proxy.run()
