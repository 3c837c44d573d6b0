"""MCP over stdio and HTTP, by the package `mcp`; imported when an agent connects to a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from .servers import McpError

Json = dict[str, Any]
_CONNECT_SECONDS = 30.0
_ANSWER_SECONDS = 300.0


async def connected(
    entry: Json, cwd: str, stack: AsyncExitStack
) -> Callable[[str, Json], Awaitable[Json]]:
    """Connects to a server that ACP describes. Returns a function that sends it requests."""
    client = await stack.enter_async_context(
        Client(await _target(entry, cwd, stack), read_timeout_seconds=_ANSWER_SECONDS)
    )

    async def request(method: str, params: Json) -> Json:
        try:
            result = await _sent(client, method, params)
        except McpError:
            raise
        except Exception as error:  # any of three libraries' errors
            raise McpError(f"`{method}` of `{entry.get('name')}`: {reason(error)}") from None
        found: Json = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return found

    return request


async def _target(entry: Json, cwd: str, stack: AsyncExitStack) -> Any:
    kind = entry.get("type", "stdio" if "command" in entry else "http")
    if kind == "http":
        headers = {one["name"]: one["value"] for one in entry.get("headers", [])}
        timeout = httpx2.Timeout(_CONNECT_SECONDS, read=_ANSWER_SECONDS)
        http = httpx2.AsyncClient(headers=headers, timeout=timeout)
        await stack.enter_async_context(http)
        return streamable_http_client(entry["url"], http_client=http)
    if kind == "stdio":
        env = {one["name"]: one["value"] for one in entry.get("env", [])}
        return StdioServerParameters(
            command=entry["command"], args=entry.get("args", []), env=env, cwd=cwd
        )
    raise McpError(f"a server of type `{kind}` cannot be reached (hint: stdio, http or acp)")


async def _sent(client: Client, method: str, params: Json) -> Any:
    match method:
        case "tools/list":
            return await client.list_tools(cursor=params.get("cursor"))
        case "tools/call":
            return await client.call_tool(params["name"], params["arguments"])
        case "resources/read":
            return await client.read_resource(params["uri"])
        case "prompts/get":
            return await client.get_prompt(params["name"], params["arguments"])
    raise McpError(f"`{method}` is not among what the package `mcp` is asked here")


def reason(error: BaseException) -> str:
    """The error in one line."""
    while isinstance(error, BaseExceptionGroup):  # task groups wrap it
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
