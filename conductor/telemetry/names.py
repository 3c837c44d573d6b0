"""The words of exports: attributes, metrics and methods.

OpenTelemetry's conventions for GenAI, MCP and RPC name as much as they can. `acp.*` has the names
of the schema of ACP, `conductor.*` all others. These conventions still change, and their constants
in Python are marked as moved: so the strings stand here.
"""

from __future__ import annotations

from typing import Final

from conductor.core.guards.names import KNOWN

OTHER: Final = "_OTHER"
"""In place of a word that a stranger may choose and that is none of a list."""

# -- attributes ------------------------------------------------------------------------------------

RPC_SYSTEM: Final = "rpc.system.name"
RPC_METHOD: Final = "rpc.method"
RPC_STATUS: Final = "rpc.response.status_code"
REQUEST_ID: Final = "jsonrpc.request.id"
ERROR: Final = "error.type"

ACP_VERSION: Final = "acp.protocol.version"
SESSION: Final = "acp.session.id"
TOOL_KIND: Final = "acp.tool.kind"

CHAIN: Final = "conductor.chain"
COMPONENT: Final = "conductor.component.name"
INDEX: Final = "conductor.component.index"
KIND: Final = "conductor.component.kind"
DIGEST: Final = "conductor.component.digest"
SOURCE: Final = "conductor.source"
"""The component that sent the request."""
CHANGED: Final = "conductor.changed"
BYTES_IN: Final = "conductor.bytes.in"
BYTES_OUT: Final = "conductor.bytes.out"
OWN_TIME: Final = "conductor.own_time"
"""Seconds that the component itself had the message, without the time further down the chain."""
CANCELLED: Final = "conductor.cancelled"
LOST: Final = "conductor.lost"
UNFINISHED: Final = "conductor.unfinished"
"""True: the trace ended before it did."""
PERSON_TIME: Final = "conductor.person_time"
"""Seconds that a turn waited for a person to answer."""
COST: Final = "conductor.cost.amount"
CURRENCY: Final = "conductor.cost.currency"
POLICY: Final = "conductor.policy"
POLICY_VERDICT: Final = "conductor.policy.verdict"
POLICY_RULE: Final = "conductor.policy.rule"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
CONVERSATION: Final = "gen_ai.conversation.id"
MODEL: Final = "gen_ai.request.model"
FINISH: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING: Final = "gen_ai.usage.reasoning.output_tokens"
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
PROMPT_NAME: Final = "gen_ai.prompt.name"

MCP_METHOD: Final = "mcp.method.name"
MCP_VERSION: Final = "mcp.protocol.version"
MCP_RESOURCE: Final = "mcp.resource.uri"

RUN: Final = "conductor.run"
INVOKE: Final = "invoke_agent"
EXECUTE: Final = "execute_tool"

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that says whether words of people and agents are exported."""
_CAPTURES: Final = frozenset({"true", "1", "span_only", "span_and_event"})

PROVIDERS: Final = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini"}
"""The vendor of an agent, by a part of its name."""


def captures(value: str | None) -> bool:
    """Whether content is exported, by the value of `CAPTURE`."""
    return (value or "").strip().lower() in _CAPTURES


def provider(agent: str) -> str:
    """The vendor of an agent."""
    lowered = agent.lower()
    return next((it for part, it in PROVIDERS.items() if part in lowered), OTHER)


# -- methods ---------------------------------------------------------------------------------------

MCP_METHODS: Final = frozenset(
    {
        *("initialize", "ping", "server/discover", "logging/setLevel", "completion/complete"),
        *("tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list"),
        *("resources/read", "resources/templates/list", "resources/subscribe"),
        *("resources/unsubscribe", "sampling/createMessage", "roots/list", "elicitation/create"),
        *("subscriptions/listen", "tasks/get", "tasks/list", "tasks/result", "tasks/cancel"),
        *("tasks/update", "notifications/initialized", "notifications/cancelled"),
        *("notifications/progress", "notifications/message", "notifications/tasks/status"),
        *("notifications/tools/list_changed", "notifications/prompts/list_changed"),
        *("notifications/resources/list_changed", "notifications/resources/updated"),
        *("notifications/roots/list_changed", "notifications/elicitation/complete"),
    }
)

METHODS: Final = KNOWN | {
    "proxy/successor",
    # Conductor's own methods: those that tell proxies something, and its services.
    *("configure", "bye", "clock", "random", "log", "kv", "timer", "fetch", "files", "metric"),
}
"""Methods of ACP, and of conductor's services."""


def method(name: str, protocol: str = "acp") -> str:
    """A method as exports name it: strangers choose methods, and a collector keeps each of them."""
    known = MCP_METHODS if protocol == "mcp" else METHODS
    return name if name in known else OTHER
