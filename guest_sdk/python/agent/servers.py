"""Connections of an agent to the MCP servers of a session."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ..errors import ProxyError

if TYPE_CHECKING:
    from .running import Running
    from .sessions import Session

Json = dict[str, Any]
Request = Callable[[str, Json], Awaitable[Json]]

_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""`_meta` of a request of MCP without sessions."""
_SECONDS: Final = 300.0
_requests = itertools.count(1)


class McpError(Exception):
    """A server could not be reached, or answered with an error."""


class McpServer:
    """A connection to an MCP server: `async with session.mcp("files") as server`.

    Servers of type `acp` are reached through the client. Servers over stdio and HTTP take the
    package `mcp`, which is imported only then.
    """

    def __init__(self, name: str, connect: Callable[[AsyncExitStack], Awaitable[Request]]) -> None:
        self.name = name
        self._connect = connect
        self._stack = AsyncExitStack()
        self._request: Request | None = None

    async def __aenter__(self) -> Self:
        try:
            self._request = await self._connect(self._stack)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, at)

    async def request(self, method: str, params: Json) -> Json:
        """Sends a request of MCP; its result. Raises `McpError`."""
        assert self._request is not None, "`async with session.mcp(…)` opens it"
        return await self._request(method, params)

    async def tools(self) -> list[Json]:
        """All its tools, as `tools/list` shows them."""
        found: list[Json] = []
        params: Json = {}
        while True:
            result = await self.request("tools/list", params)
            found += result.get("tools", [])
            if not result.get("nextCursor"):
                return found
            params = {"cursor": result["nextCursor"]}

    async def call(self, tool: str, /, **arguments: Any) -> Json:
        """Calls a tool; the result of `tools/call`. With `isError` in it, the tool failed."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def read(self, uri: str) -> list[Json]:
        """Reads a resource: its contents."""
        return list((await self.request("resources/read", {"uri": uri})).get("contents", []))


def opened(running: Running, session: Session, name: str) -> McpServer:
    """A server of a session, by name. Raises `McpError` if there is none."""
    entry = next((one for one in session.mcp_servers if one.get("name") == name), None)
    if entry is None:
        known = ", ".join(str(one.get("name")) for one in session.mcp_servers) or "there is none"
        raise McpError(f"no MCP server `{name}` (hint: {known})")
    if entry.get("type") == "acp":
        return McpServer(name, lambda _: _native(running, entry))
    return McpServer(name, lambda stack: _by_library(entry, session, stack))


async def _native(running: Running, entry: Json) -> Request:
    server = entry.get("serverId", entry.get("id"))

    async def request(method: str, params: Json) -> Json:
        message = {
            "serverId": server,
            "requestId": f"agent-{next(_requests)}",
            "method": method,
            "params": {**params, "_meta": _META},
        }
        try:
            outer = await running.ask("mcp/message", message)
        except ProxyError as error:
            raise McpError(f"`{entry.get('name')}`: {error.message}") from None
        held = outer if isinstance(outer, dict) else {}
        refused, result = held.get("error"), held.get("result")
        if isinstance(refused, dict):
            raise McpError(f"`{method}` of `{entry.get('name')}`: {refused.get('message')}")
        if not isinstance(result, dict) or result.get("resultType") == "input_required":
            raise McpError(f"`{method}` of `{entry.get('name')}` answered with no result")
        return result

    return request


async def _by_library(entry: Json, session: Session, stack: AsyncExitStack) -> Request:
    try:
        from . import mcp_library
    except ImportError as error:
        raise McpError(f"`{error.name}` is missing (hint: pip install mcp)") from None
    try:
        return await mcp_library.connected(entry, session.cwd, stack)
    except Exception as error:  # any of three libraries' errors
        raise McpError(f"`{entry.get('name')}`: {mcp_library.reason(error)}") from None
