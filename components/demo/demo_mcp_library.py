"""MCP over stdio and Streamable HTTP, by the official ``mcp`` library.

Only this module imports it, and only ``demo_mcp`` imports this module, when a server is called:
the library takes half a second to load.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
from demo_mcp import SAMPLED, Json, McpError, Work
from demo_turn import Cancelled, Turn
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

if TYPE_CHECKING:
    import mcp_types

_CONNECT_SECONDS = 30.0
_ANSWER_SECONDS = 300.0


def call(turn: Turn, entry: Json, work: Work) -> str:
    """Connect to the server ``entry`` declares, do ``work``, disconnect. Raises McpError, and
    Cancelled with the turn."""
    turn.flush()
    try:
        return asyncio.run(_session(turn, entry, work))
    except (McpError, Cancelled):
        raise
    except asyncio.CancelledError:
        raise Cancelled from None
    except Exception as error:  # any of three libraries' errors: all mean the call failed
        raise McpError(_reason(error)) from None


async def _session(turn: Turn, entry: Json, work: Work) -> str:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    cancel = task.cancel
    # Taken back before the loop closes, so it is never called into a dead one.
    turn.on_stop(partial(_call_soon, loop, cancel))
    try:
        async with AsyncExitStack() as stack:
            return await work(_Caller(await _connect(turn, entry, stack)))
    finally:
        turn.on_stop(None)


async def _connect(turn: Turn, entry: Json, stack: AsyncExitStack) -> Client:
    kind = entry.get("type", "stdio" if "command" in entry else "http")
    target: Any
    if kind == "http":
        headers = {each["name"]: each["value"] for each in entry.get("headers", [])}
        timeout = httpx2.Timeout(_CONNECT_SECONDS, read=_ANSWER_SECONDS)
        http = httpx2.AsyncClient(headers=headers, timeout=timeout)
        await stack.enter_async_context(http)
        target = streamable_http_client(entry["url"], http_client=http)
    elif kind == "stdio":
        target = StdioServerParameters(
            command=entry["command"],
            args=entry.get("args", []),
            env={each["name"]: each["value"] for each in entry.get("env", [])},
            cwd=turn.session.cwd,
        )
    else:
        raise McpError(f"servers of type {kind!r} are not supported (hint: stdio, http or acp)")
    client = Client(
        target,
        mode=turn.mcp_mode,
        read_timeout_seconds=_ANSWER_SECONDS,
        sampling_callback=_sample,
    )
    return await stack.enter_async_context(client)


async def _sample(
    context: object, params: "mcp_types.CreateMessageRequestParams"
) -> "mcp_types.CreateMessageResult":
    from mcp_types import CreateMessageResult

    return CreateMessageResult.model_validate(SAMPLED)


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    loop.call_soon_threadsafe(callback)


class _Caller:
    """The library's client as demo_mcp's Caller."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, method: str, params: Json) -> Json:
        result: mcp_types.Result
        match method:
            case "tools/list":
                result = await self._client.list_tools(cursor=params.get("cursor"))
            case "tools/call":
                result = await self._client.call_tool(params["name"], params["arguments"])
            case "resources/read":
                result = await self._client.read_resource(params["uri"])
            case "prompts/get":
                result = await self._client.get_prompt(params["name"], params["arguments"])
            case _:
                raise McpError(f"{method} is not implemented by the demo agent")
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):  # task groups wrap what went wrong
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
