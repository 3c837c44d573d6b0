"""The agent's MCP client in a playground, and its requests to the servers of a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ProxyError
from .records import Record

if TYPE_CHECKING:
    from .playground import Agent


class McpClient:
    """The half of a `Playground` that uses the proxy's MCP servers."""

    agent: Agent
    session: str
    _count: int

    async def new_session(self, cwd: str = "/project", **params: Any) -> str:
        """Opens a session; its id."""
        raise NotImplementedError

    def result(self, side: str, id: int) -> Any:  # noqa: A002 - the protocol's name
        """The result of a request."""
        raise NotImplementedError

    async def tools(self, *, server: str = "") -> list[dict[str, Any]]:
        """The tools the agent finds in its session, as `tools/list` shows them."""
        return list((await self.mcp("tools/list", {}, server=server))["tools"])

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        """Calls a tool as the agent would; the result of `tools/call`."""
        return await self.mcp("tools/call", {"name": tool, "arguments": arguments})

    async def resources(self, *, server: str = "") -> list[dict[str, Any]]:
        """The resources the agent finds in its session, as `resources/list` shows them."""
        return list((await self.mcp("resources/list", {}, server=server))["resources"])

    async def read(self, uri: str, *, server: str = "") -> Any:
        """Reads a resource as the agent would: its text, or the base64 of its bytes."""
        found = await self.mcp("resources/read", {"uri": uri}, server=server)
        first = found["contents"][0]
        return first["text"] if "text" in first else first["blob"]

    async def get_prompt(self, prompt: str, /, **arguments: str) -> list[dict[str, Any]]:
        """Gets an MCP prompt as the agent would: its messages."""
        got = await self.mcp("prompts/get", {"name": prompt, "arguments": arguments})
        return list(got["messages"])

    async def mcp(self, method: str, params: dict[str, Any], *, server: str = "") -> Any:
        """An MCP request of the agent to a server that its newest session declared.

        `server`: its name, where the proxy has several; else the last one declared is meant.
        `agent.input` answers questions of the server on the way. Raises `ProxyError` for an error.
        """
        while True:
            result = self.result("s", await self.start_mcp(method, params, server=server))
            if "error" in result:
                error = result["error"]
                raise ProxyError(error["message"], error["code"], error.get("data"))
            result = result["result"]
            if result.get("resultType") != "input_required":
                return result
            assert self.agent.input is not None
            given = {
                name: self.agent.input(Record(asked))
                for name, asked in result["inputRequests"].items()
            }
            again = {"requestState": result["requestState"], "inputResponses": given}
            params = {**params, **again}

    async def start_mcp(self, method: str, params: dict[str, Any], *, server: str = "") -> int:
        """Sends an MCP request; its id, for `answer_to("s", id)`. Others can be sent meanwhile."""
        if not self.session:
            await self.new_session()
        able: dict[str, Any] = (
            {} if self.agent.input is None else {"sampling": {}, "elicitation": {}}
        )
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": able,
            **params.get("_meta", {}),
        }
        self._count += 1
        asked = {
            "serverId": self._server_id(server),
            "requestId": f"r{self._count}",
            "method": method,
            "params": {**params, "_meta": meta},
        }
        return self.agent.request("mcp/message", asked)

    def _server_id(self, name: str) -> str:
        # Those of a session of the proxy's own are for that alone: its request has a text for id.
        setups = [one.raw for one in self.agent.requests if not isinstance(one.raw["id"], str)]
        lists = [one.get("params", {}).get("mcpServers") for one in setups]
        found = [
            {one["name"]: one["serverId"] for one in s if "serverId" in one} for s in lists if s
        ]
        servers = found[-1] if found else {}  # a sub-session has none
        assert servers, "the proxy declared no MCP server"
        assert not name or name in servers, f"no server `{name}`; there are: {', '.join(servers)}"
        return str(servers[name] if name else list(servers.values())[-1])

    @property
    def told(self) -> list[Record]:
        """The MCP notifications the agent got (`method`, `params`), in order."""
        inner = [
            one.raw["params"] for one in self.agent.notifications if one.method == "mcp/message"
        ]
        return [Record(one) for one in inner]
