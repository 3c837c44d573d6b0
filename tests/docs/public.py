"""What belongs to the public interface of each package, in the order in which docs/api tells it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Page(NamedTuple):
    """The page of a package: headings, and the names described below each.

    A name is one the package exports, or `module:name` within it.
    """

    package: str
    parts: dict[str, tuple[str, ...]]


def _of(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{module}:{name}" for name in names)


PAGES: Final = (
    Page(
        "guest_sdk.python",
        {
            "The proxy": ("Proxy", "gather"),
            "Messages": ("Message", "Request", "Notification", "Update", "Next", "Record", "text",
                         "unlinked", "DROP", "Drop"),
            "Sessions": ("Session", "Opening", "SubSession", "Turn"),
            "Services": (*_of("services", "Clock", "Random", "Kv", "Timer", "Fetch", "Files", "Log",
                              "Metric"), "RunningTimer", "Response"),
            "MCP": ("Server", "Call", "Elicited", "NotOffered", "Result", "ToolError", "Resource",
                    "Contents", "audio", "embedded", "image", "resource_link"),
            "Errors": ("ProxyError", "Answered", "Refused", "Cancelled"),
            "Tests": ("Playground", "playground:Agent", "pretend:Services", "played"),
        },
    ),
    Page(
        "conductor",
        {
            "A chain in your program": ("open", "Chain", "Session", "Turn", "Answer", "Update",
                                        "Permission", "PermissionOption", "ChainOptions"),
            "Components": (*_of("spec.catalog", "resolve_all", "resolve", "bundled"),
                           "spec.model:Spec"),
            "A chain": ("run.plan:Options", "run.launch:plan", "run.runtime:Runtime"),
            "Its ends": (*_of("transports.memory", "MemoryTransport", "Channel"),
                         "transports.stdio:StdioTransport",
                         *_of("transports.base", "Transport", "Events", "Ended")),
            "Errors": ("ConductorError", "UsageError", "ComponentError", "RequestError"),
        },
    ),
    Page(
        "wasm_host",
        {
            "Modules": ("load", "Module", "describe", "ModuleInfo"),
            "Guests": ("Guest", "Limits", "too_deep"),
            "Errors": ("GuestError", "LoadError", "LimitRefused"),
        },
    ),
)  # fmt: skip

INSIDE: Final = {
    "guest_sdk.python": {
        "Proxy": "handlers starters opener config_type session_factory used innermost servers",
        "Server": "tools resources templates prompts",
        "Service": "ask",
        "Message": "render",
        "Request": "id",
        "Session": "replaying",
        "SubSession": "updated asked",
        "ProxyError": "body",
        "Agent": "asked HOLD",
        "Services": "asked",
    },
    "conductor": {
        "Spec": "label what aliases",
        "Runtime": "*",
        "MemoryTransport": "*",
        "StdioTransport": "*",
        "Channel": "waiting",
    },
    "wasm_host": {},
}
"""Members that the package itself uses; `*`: all but what `OUTSIDE` names."""

OUTSIDE: Final = {"Runtime": "run stop reload health failure"}

MADE: Final = frozenset(
    ("Proxy", "Record", "ProxyError", "Playground", "Runtime", "MemoryTransport", "StdioTransport",
     "ConductorError", "Result", "ToolError", "Contents", "Resource")
)  # fmt: skip
"""Classes that others make instances of; all others they are given."""

WHERE: Final = {
    "Message": "the base of requests and notifications",
    "Clock": "`proxy.clock`",
    "Random": "`proxy.random`",
    "Kv": "`proxy.kv`",
    "Timer": "`proxy.timer`",
    "Fetch": "`proxy.fetch`",
    "Files": "`proxy.files`",
    "Log": "`proxy.log`",
    "Metric": "`proxy.metric`",
    "Agent": "`playground.agent`",
    "open": "`conductor.open`",
    "Chain": "what `conductor.open` gives",
    "Session": "`chain.session(…)`, or of a message",
    "Turn": "`chain.stream(…)`, or `session.prompt(…)` of a proxy",
    "Services": "`playground.services`",
}
"""Where those are found that nobody imports."""
