"""Directives that call MCP servers: through the official ``mcp`` library over stdio and HTTP
(``demo_mcp_library``), natively over the ACP connection for those of type ``acp``.

A connection is made for each directive and closed after it, so nothing is left running.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from demo_json import dumps, loads
from demo_turn import Directive, Turn
from demo_usage import Wrong, head_and_rest, json_object, words

Json = dict[str, Any]

MODERN_META: Json = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
}
"""``_meta`` of a request of MCP without sessions."""

SAMPLED: Json = {
    "role": "assistant",
    "content": {"type": "text", "text": "the demo's sample"},
    "model": "demo",
    "stopReason": "endTurn",
}
"""The answer to every ``sampling/createMessage``."""

_ROUNDS = 8
"""How often a server may ask for input during one request."""


class McpError(Exception):
    """A server could not be reached, or answered with an error; the text says which."""


Caller = Callable[[str, Json], Awaitable[Json]]
"""A connection to one server: an MCP method and its params to the JSON of its result. Raises
McpError."""

Work = Callable[[Caller], Coroutine[Any, Any, str]]
"""The work to do with a connection; the result is the text for the user."""


class _OverAcp:
    """Stateless MCP through the client: ``mcp/message`` (ACP schema, October 2026)."""

    def __init__(self, turn: Turn, server_id: str) -> None:
        self._turn = turn
        self._server_id = server_id
        self._count = 0

    async def __call__(self, method: str, params: Json) -> Json:
        for _ in range(_ROUNDS):
            result = self._once(method, params)
            if result.get("resultType") != "input_required":
                return result
            params = {**params, "inputResponses": _responses(result.get("inputRequests", {}))}
            params.pop("requestState", None)
            if "requestState" in result:
                params["requestState"] = result["requestState"]
        raise McpError(f"{method} wanted input more than {_ROUNDS} times")

    def _once(self, method: str, params: Json) -> Json:
        self._count += 1
        message = {
            "serverId": self._server_id,
            "requestId": f"{self._turn.session.id}-{self._turn.number}-{self._count}",
            "method": method,
            "params": {**params, "_meta": MODERN_META},
        }
        answer = self._turn.ask_text("mcp/message", dumps(message))
        if not answer.ok:
            raise McpError(f"mcp/message refused: {answer.text}")
        outer = loads(answer.text)
        if not isinstance(outer, dict) or not isinstance(outer.get("result"), dict):
            raise McpError(f"{method} failed: {answer.text}")
        result: Json = outer["result"]
        return result


def _responses(requests: Json) -> Json:
    for request in requests.values():
        if request["method"] != "sampling/createMessage":
            raise McpError(f"it wants {request['method']}, which the demo agent does not offer")
    return dict.fromkeys(requests, SAMPLED)


def servers(turn: Turn) -> dict[str, Json]:
    """The servers the turn's session was given, by name."""
    return listed(turn.session.mcp_servers)


def listed(declared: Any) -> dict[str, Json]:
    """Declared servers by name: of the list ACP has, or of an object keyed by name."""
    if isinstance(declared, dict):
        found = {name: entry for name, entry in declared.items() if isinstance(entry, dict)}
        return {name: {"name": name, **entry} for name, entry in found.items()}
    return {str(entry.get("name")): entry for entry in declared if isinstance(entry, dict)}


def with_server(turn: Turn, entry: Json, work: Work) -> str:
    """Connect to the server, do the work, disconnect. Raises McpError, or Cancelled."""
    if entry.get("type") == "acp":
        return _at_once(work(_OverAcp(turn, str(entry.get("serverId", entry.get("id"))))))
    try:
        from demo_mcp_library import call
    except ImportError as error:
        raise McpError(
            f"servers over stdio and HTTP need the library `mcp`, and there is no `{error.name}`"
            " (hint: install `conductor-acp[mcp]`, or leave out --http and --no-http)"
        ) from None
    return call(turn, entry, work)


def _at_once(work: Coroutine[Any, Any, str]) -> str:
    """Run a coroutine that never suspends: _OverAcp waits by blocking its thread, and needs no
    event loop, whose import alone would take as long as the agent's start."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: str = stop.value
        return result
    raise AssertionError("it suspended")


async def list_tools(call: Caller) -> list[Json]:
    """All tools of a server, page by page."""
    tools: list[Json] = []
    params: Json = {}
    while True:
        result = await call("tools/list", params)
        tools += result.get("tools", [])
        cursor = result.get("nextCursor")
        if not cursor:
            return tools
        params = {"cursor": cursor}


def _tools(turn: Turn, argument: str) -> None:
    async def work(call: Caller) -> str:
        lines = []
        for tool in await list_tools(call):
            first_line = str(tool.get("description") or "").strip().partition("\n")[0]
            lines.append(f"{name}/{tool['name']}" + (f": {first_line}" if first_line else ""))
        return "\n".join(lines) or f"{name}: no tools"

    lines = []
    for name, entry in servers(turn).items():
        try:
            lines.append(with_server(turn, entry, work))
        except McpError as failure:
            lines.append(f"{name}: {failure}")
    turn.say("\n".join(lines) or "no MCP server was declared")


def _tool(turn: Turn, argument: str) -> None:
    tool, text = head_and_rest(argument, "NAME")
    arguments = json_object(text)
    answer: list[str] = []

    found = False

    async def work(call: Caller) -> str:
        nonlocal found
        if any(each["name"] == tool for each in await list_tools(call)):
            found = True
            answer.append(await _call_tool(call, tool, arguments))
        return ""

    failures = []
    for name, entry in servers(turn).items():
        try:
            with_server(turn, entry, work)
        except McpError as failure:
            failures.append(f"\n{name}: {failure}")
            if found:
                answer.append(f"{name}: {failure}")
        if answer:
            turn.say(answer[0])
            return
    turn.say(f"no declared MCP server has the tool {tool}" + "".join(failures))


def _call(turn: Turn, argument: str) -> None:
    server, rest = head_and_rest(argument, "SERVER")
    tool, text = head_and_rest(rest, "TOOL")
    arguments = json_object(text)
    _on(turn, server, lambda call: _call_tool(call, tool, arguments))


def _resource(turn: Turn, argument: str) -> None:
    server, uri = words(argument, 2, 2)

    async def work(call: Caller) -> str:
        contents = (await call("resources/read", {"uri": uri})).get("contents", [])
        return "\n".join(_text(each) for each in contents)

    _on(turn, server, work)


def _mcpprompt(turn: Turn, argument: str) -> None:
    server, rest = head_and_rest(argument, "SERVER")
    name, text = head_and_rest(rest, "NAME")
    arguments = json_object(text)

    async def work(call: Caller) -> str:
        result = await call("prompts/get", {"name": name, "arguments": arguments})
        messages = result.get("messages", [])
        return "\n".join(f"{each['role']}: {_text(each['content'])}" for each in messages)

    _on(turn, server, work)


def _on(turn: Turn, server: str, work: Work) -> None:
    entry = servers(turn).get(server)
    if entry is None:
        raise Wrong(f"no MCP server {server!r} was declared; /servers shows them")
    try:
        turn.say(with_server(turn, entry, work))
    except McpError as failure:
        turn.say(f"{server}: {failure}")


def _early(turn: Turn, argument: str) -> None:
    from demo_early import show

    show(turn)


async def _call_tool(call: Caller, tool: str, arguments: Json) -> str:
    result = await call("tools/call", {"name": tool, "arguments": arguments})
    content = result.get("content", [])
    text = "\n".join(_text(each) for each in content)
    if not content and "structuredContent" in result:
        text = dumps(result["structuredContent"])
    return f"tool error: {text}" if result.get("isError") else text


def _text(content: Json) -> str:
    text = content.get("text")
    return text if isinstance(text, str) else dumps(content)


MCP_DIRECTIVES: dict[str, Directive] = {
    "tools": Directive(_tools, "/tools", "the tools of every declared MCP server", True),
    "tool": Directive(_tool, "/tool NAME [JSON]", "call it on the server that has it", True),
    "call": Directive(_call, "/call SERVER TOOL [JSON]", "call a tool of this server", True),
    "resource": Directive(_resource, "/resource SERVER URI", "read a resource", True),
    "mcpprompt": Directive(_mcpprompt, "/mcpprompt SERVER NAME [JSON]", "get a prompt", True),
    "early": Directive(_early, "/early", "what came of the connections of --fast", True),
}
