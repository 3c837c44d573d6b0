"""Asks a policy engine of the user's about permissions and tool calls; it never allows anything.

conductor agent decide,config.url=unix:/run/opa.sock:/v1/data/agents/decision,\\
allow=web:POST@unix:/run/opa.sock claude-agent-acp
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from endpoint import Config, Endpoint, clean

from guest_sdk.python import REFUSED, Next, Notification, Proxy, ProxyError, Request, Update

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")
CALLS = ("mcp/message", "_mcp/message", "_mcp/request", "_mcp/client_to_server/request", "_scp/mcp")
TOLD = ("mcp/message", "_mcp/message", "_mcp/notification", "_mcp/client_to_server/notification")
IDS = ("id", "url", "serverId", "acpId", "acp_id", "acp_url", "connectionId", "connection_id")
"""Members that name a server or a connection to one, in any generation of MCP over ACP."""
FINISHED = ("completed", "failed", "cancelled")
REMEMBERED = 128
"""Tool calls of one session that are kept in mind."""
SERVERS = 1_000
"""Servers and connections whose names are remembered."""
ONCE = ("allow_once", "reject_once", "reject_always")


@dataclass
class State:
    """Tool calls of a session, as far as the agent has told of them, by id."""

    known: dict[str, dict[str, Any]] = field(default_factory=dict)


proxy = Proxy(
    "decide",
    description="Asks a policy engine about permissions and tool calls; never allows anything.",
    config=Config,
    session=State,
)
endpoint = Endpoint()
agent: list[str] = ["agent"]
"""The name that the agent gives itself."""
servers: dict[str, str] = {}
"""The names of servers, by the values that messages use for them."""


def texts(held: Any, *names: str) -> Iterator[str]:
    """The members with these names that are text."""
    for name in names:
        if isinstance(held, dict) and isinstance(held.get(name), str):
            yield held[name]


@proxy.request("initialize")
async def begun(request: Request, following: Next) -> Any:
    result = await following(request)
    held = result if isinstance(result, dict) else {}
    agent[:] = [next(texts(held.get("agentInfo") or held.get("info"), "name"), "agent")[:100]]
    return result


@proxy.request(*SETUPS)
async def declared(request: Request, following: Next) -> Any:
    found = request.params.get("mcpServers")
    for entry in found if isinstance(found, list) else []:
        name = next(texts(entry, "name"), "")
        for known in (name, *texts(entry, *IDS)):
            call_it(known, name)
            call_it(known.removeprefix("acp:"), name)
    return await following(request)


@proxy.request("mcp/connect", "_mcp/connect")
async def connected(request: Request, following: Next) -> Any:
    result = await following(request)
    for server in texts(request.params, *IDS):
        for connection in texts(result, *IDS):
            call_it(connection, servers.get(server.removeprefix("acp:"), ""))
    return result


def call_it(known: str, name: str) -> None:
    """Remembers the name of a server."""
    servers.pop(known, None)
    servers[known] = name
    while len(servers) > SERVERS:
        del servers[next(iter(servers))]


@proxy.update("tool_call", "tool_call_update")
def remember(update: Update) -> None:
    """Keeps the tool call: a later request may give the id alone."""
    id_, calls = update.update.get("toolCallId"), update.state.known
    if update.replayed or not isinstance(id_, str):
        return
    before = calls.pop(id_, {})
    if update.update.get("status") not in FINISHED:
        calls[id_] = merged(before, update.update)
    while len(calls) > REMEMBERED:
        del calls[next(iter(calls))]


def merged(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """A tool call as it is after an update, as far as it is asked about."""
    kept = ("title", "name", "kind", "rawInput", "locations", "_meta", "toolCallId")
    found = {**before, **{name: after[name] for name in kept if after.get(name) is not None}}
    if after.get("content") is not None:
        found["edits"] = list(edited(after["content"]))
    return found


def edited(content: Any) -> Iterator[str]:
    """The files that a tool call shows changes of."""
    for block in content if isinstance(content, list) else []:
        yield from texts(block, "path")
        changes = block.get("changes") if isinstance(block, dict) else None
        for change in changes if isinstance(changes, list) else []:
            yield from texts(change, "path", "oldPath")


# -- permissions -----------------------------------------------------------------------------------


@proxy.request("session/request_permission")
async def permission(request: Request, following: Next) -> Any:
    if request.direction != "up" or not proxy.config.url:
        return await following(request)
    asked = about_permission(request)
    decision = await endpoint.decision(proxy.config, asked)
    if decision.verdict == "narrow":
        options = request.params.get("options")
        held = options if isinstance(options, list) else []
        kept = [one for one in held if isinstance(one, dict) and one.get("kind") in ONCE]
        if any(one["kind"] == "allow_once" for one in kept):
            request.params["options"] = kept
            return await following(request)
    elif decision.verdict == "allow":
        return await following(request)
    reason = decision.reason or "the endpoint says so"
    what = clean(asked["context"]["title"]) or asked["resource"]["id"]
    proxy.log.warn(f"refused `{what}`: {reason}")
    if isinstance(request.params.get("sessionId"), str):
        request.session.say(f"\n[{proxy.chain_name}: refused `{what}`: {reason}]\n")
    return request.refuse()


def about_permission(request: Request) -> dict[str, Any]:
    """The call, the tool and the session of a permission request."""
    subject = request.params.get("subject")
    subject = subject if isinstance(subject, dict) else {}
    call = request.params.get("toolCall", subject.get("toolCall"))
    call = merged({}, call) if isinstance(call, dict) else {}
    session = request.session if isinstance(request.params.get("sessionId"), str) else None
    id_ = call.get("toolCallId", subject.get("toolCallId"))
    if session is not None and isinstance(id_, str):
        call = {**session.state.known.get(id_, {}), **call}
    command = {name: subject[name] for name in ("command", "args", "cwd") if name in subject}
    kind = next(texts(call, "kind"), "execute" if command else "other")
    context = {
        "title": [*texts(call, "title"), *texts(request.params, "title"), ""][0],
        "kind": kind,
        "arguments": command or call.get("rawInput"),
        "paths": sorted({*members(call.get("locations"), "path"), *call.get("edits", ())}),
        "options": sorted(set(members(request.params.get("options"), "kind"))),
        "cwd": session.cwd if session is not None else None,
    }
    return question("permission", [*texts(call, "name"), *named(call), kind][0], context)


def members(held: Any, name: str) -> list[str]:
    """The texts that the entries of a list have as this member."""
    return [one for entry in held for one in texts(entry, name)] if isinstance(held, list) else []


def named(call: dict[str, Any]) -> list[str]:
    """The names that the agent gives the tool in its `_meta`."""
    metas = call.get("_meta")
    held = [metas, *metas.values()] if isinstance(metas, dict) else []
    return [one for inner in held for one in texts(inner, "toolName")]


def question(action: str, tool: str, context: dict[str, Any]) -> dict[str, Any]:
    """A question as the endpoint gets it; unknown members are left out."""
    return {
        "principal": {"type": "Agent", "id": clean(agent[0])},
        "action": {"type": "Action", "id": action},
        "resource": {"type": "Tool", "id": clean(tool)},
        "context": {name: value for name, value in context.items() if value is not None},
    }


# -- calls of MCP tools ----------------------------------------------------------------------------


@proxy.request(*CALLS)
async def called(request: Request, following: Next) -> Any:
    error = await refusal(request) if request.direction == "up" else None
    if error is None:
        return await following(request)
    params = request.params
    if "message" in params:
        number = params["message"].get("id") if isinstance(params["message"], dict) else None
        return {"message": {"jsonrpc": "2.0", "id": number, "error": error.body()}}
    if "serverId" in params:
        return {"error": error.body()}
    raise error


@proxy.notification(*TOLD)
async def told(notification: Notification, following: Next) -> None:
    if await refusal(notification) is None:
        await following(notification)


async def refusal(message: Request | Notification) -> ProxyError | None:
    """Why the call of a tool is refused; None: it is not, or is none. A call cannot be narrowed."""
    held = message.params.get("message")
    inner = held if isinstance(held, dict) else message.params
    if inner.get("method") != "tools/call" or not proxy.config.url:
        return None
    params = inner.get("params")
    tool = next(texts(params, "name"), "")
    known = (servers.get(one.removeprefix("acp:")) for one in texts(message.params, *IDS, "name"))
    context = {
        "title": tool,
        "server": next(filter(None, known), None),
        "arguments": params.get("arguments") if isinstance(params, dict) else None,
    }
    decision = await endpoint.decision(proxy.config, question("tool", tool, context))
    if decision.verdict == "allow":
        return None
    reason = decision.reason or "the endpoint says so"
    proxy.log.warn(f"refused a call of the tool `{clean(tool)}`: {reason}")
    return ProxyError(f"the tool `{clean(tool)}` is refused: {reason}", REFUSED)


if __name__ == "__main__":
    proxy.run()
