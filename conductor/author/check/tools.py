"""The tools that a component gives the agent, as an agent lists them."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from conductor.author.check.scripted_chain import ScriptedChain
from conductor.author.check.scripted_end import Fault, Skipped
from conductor.author.check.sessions import at_agent
from conductor.core import json_text

LONGEST: Final = 64
"""Characters of a tool's name that every model takes."""

_TOKEN: Final = "CONDUCTOR_MCP_TOKEN"  # noqa: S105 - the variable's name, not a secret
"""In the environment of a server that the bridge declares (`conductor.mcp.doors.shim`)."""

_MOST_PAGES: Final = 100
_LONGEST_LINE: Final = 16 * 1024 * 1024

_OPENING: Final[dict[str, object]] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "check", "version": "1"},
}


class _Variable(msgspec.Struct):
    name: str
    value: str


class _Server(msgspec.Struct):
    """A server as the bridge declares it: the last argument is where its shim connects."""

    name: str = ""
    args: list[str] = []
    env: list[_Variable] = []


class _Setup(msgspec.Struct):
    mcpServers: list[_Server] = []  # noqa: N815 - the protocol's name


class _Tool(msgspec.Struct):
    name: str


class _Page(msgspec.Struct):
    tools: list[_Tool] = []
    nextCursor: str | None = None  # noqa: N815 - as above


class _Answer(msgspec.Struct):
    id: int | None = None
    result: _Page | None = None


async def tool_names(chain: ScriptedChain) -> None:
    """Lists the tools of each server that it adds, by way of the bridge."""
    await chain.initialize()
    chain.agent.hold("session/new")
    params = b'{"cwd":%b,"mcpServers":[]}' % chain.cwd
    pending = chain.client.request("session/new", params)
    request = await at_agent(chain, pending, "session/new")
    chain.agent.reply(request, b'{"sessionId":"check-tools"}')
    await pending.result()
    try:
        servers = json_text.decode(request.params or b"{}", type=_Setup).mcpServers
    except msgspec.DecodeError:
        raise Skipped("it declares MCP servers in a form of its own") from None
    for server in servers:
        if not any(variable.name == _TOKEN for variable in server.env):
            continue  # a program, which nobody starts here
        for name in await _names(server):
            if len(name) > LONGEST:
                raise Fault(
                    f"a tool of its MCP server `{server.name}` has a name of {len(name)} "
                    "characters: give it a shorter one",
                    came=name,
                )


async def _names(server: _Server) -> list[str]:
    """The names of a server's tools. Raises `Skipped` where it lists none."""
    reader, writer = await asyncio.open_unix_connection(server.args[-1], limit=_LONGEST_LINE)

    async def asked(number: int, method: str, params: dict[str, object]) -> _Page:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        writer.write(json_text.encode(request) + b"\n")
        return await _answered(reader, number, server.name)

    try:
        writer.write(server.env[0].value.encode() + b"\n")
        await asked(0, "initialize", _OPENING)
        writer.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        page = await asked(1, "tools/list", {})
        found = [tool.name for tool in page.tools]
        for number in range(2, _MOST_PAGES):
            if page.nextCursor is None:
                break
            page = await asked(number, "tools/list", {"cursor": page.nextCursor})
            found += [tool.name for tool in page.tools]
        return found
    finally:
        writer.close()


async def _answered(reader: asyncio.StreamReader, number: int, server: str) -> _Page:
    """The result of this number. Raises `Skipped` if there is none."""
    while line := await reader.readline():
        try:
            answer = json_text.decode(line, type=_Answer)
        except msgspec.DecodeError as error:
            raise Skipped(f"its MCP server `{server}` lists no tools: {error}") from None
        if answer.id == number:
            if answer.result is None:
                break
            return answer.result
    raise Skipped(f"its MCP server `{server}` lists no tools")
