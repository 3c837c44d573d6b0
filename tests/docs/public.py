"""The public interface of each package, in the order in which docs/api tells it."""

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
                         "read_json", "unlinked", "DROP", "Drop"),
            "Sessions": ("Session", "OwnTurn", "Nested", "Opening", "SubSession",
                         "Peer", "PeerSession", "Turn", "UsedAgent"),
            "The editor": ("Editor", "Capabilities", "Panel", "Comment", "Thread", "CommentReply",
                           "EditorEvent", "Operation", "NoOperation"),
            "Services": (*_of("services", "Clock", "Random", "Kv", "Timer", "Fetch", "Files", "Log",
                              "Metric", "Payload"), "RunningTimer", "Response"),
            "MCP": ("Server", "Call", "Elicited", "NotOffered", "Result", "ToolError", "Resource",
                    "Contents", "audio", "embedded", "image", "resource_link"),
            "Conversations": ("Conversation", "conversation:Turn", "conversation:Prompt",
                              "conversation:Response", "conversation:ToolUse", "Event",
                              "conversation:Part", "Recorder", "in_words"),
            "Errors": ("ProxyError", "Answered", "Refused", "Cancelled", "REFUSED"),
            "Tests": ("Playground", "playground:Agent", "pretend:Services",
                      "playground_editor:PretendEditor", "played"),
        },
    ),
    Page(
        "guest_sdk.python.agent",
        {
            "The agent": ("Agent", "Select", "Toggle"),
            "In a turn": ("Turn", "ToolCall", "Permission", "Terminal"),
            "Sessions": ("Session", "McpServer"),
            "Errors": ("AgentError", "UnknownSession", "NotOffered", "McpError"),
            "Tests": ("AgentPlayground", "Heard"),
        },
    ),
    Page(
        "conductor",
        {
            "A chain in your program": ("open", "Chain", "Session", "Turn", "Answer", "Update",
                                        "Permission", "PermissionOption", "ChainOptions"),
            "Components": (*_of("spec.catalog", "resolve_all", "resolve", "bundled"),
                           "spec.model:Spec"),
            "A chain": ("spec.options:Options", "run.launch:Launcher", "run.runtime:Runtime"),
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
        "Editor": "find",
        "Panel": "happened family",
        "Comment": "happened replied family",
        "PretendEditor": "asked section",
    },
    "guest_sdk.python.agent": {
        "Agent": "answerer opener loader lister closer chooser extensions info takes options "
        "session_factory",
        "Turn": "shape task begun run spoken",
        "Session": "send message_id take_over turns order params",
        "Select": "first takes shown",
        "Toggle": "first takes shown",
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
     "ConductorError", "Result", "ToolError", "Contents", "Resource", "AgentPlayground", "Select",
     "Toggle", "guest_sdk.python.agent.declared.Agent")
)  # fmt: skip
"""Classes that others make instances of; all others they are given. By name, or by path where
another one has that name."""

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
    "Payload": "`proxy.payload`",
    "guest_sdk.python.playground.Agent": "`playground.agent`",
    "open": "`conductor.open`",
    "Chain": "what `conductor.open` gives",
    "Session": "`chain.session(…)`, or of a message",
    "Turn": "`chain.stream(…)`, or `session.prompt(…)` of a proxy",
    "Services": "`playground.services`",
    "PretendEditor": "`playground.editor`",
    "Editor": "`session.editor`",
    "Capabilities": "`session.editor.capabilities`",
    "Panel": "`session.editor.panel(id)`",
    "Comment": "`session.editor.comment(id)`",
    "Thread": "what `comment.get()` returns",
    "EditorEvent": "what the handlers of `panel.on(…)` get",
    "guest_sdk.python.agent.sessions.Session": "`turn.session`, or what `@agent.new_session` gets",
    "guest_sdk.python.agent.turns.Turn": "what `@agent.prompt` gets",
    "ToolCall": "`turn.tool_call(…)`",
    "Terminal": "`turn.terminal(…)`",
    "McpServer": "`session.mcp(…)`",
    "Heard": "what `playground.prompt(…)` returns",
}
"""Where those are found that nobody imports."""
