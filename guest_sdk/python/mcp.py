"""The MCP server a proxy with tools is, over either generation of MCP over ACP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from . import setup
from .errors import INVALID_PARAMS, METHOD_NOT_FOUND, Cancelled, ProxyError
from .messages import Notification, Request
from .tools import Call, Tool, failed

if TYPE_CHECKING:
    from .engine import Engine, Next
    from .sessions import Session
    from .setup import Handlers

VERSIONS: Final = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions of MCP this server knows; the first one has no handshake."""

STATELESS: Final = "io.modelcontextprotocol/protocolVersion"
_UNSUPPORTED_VERSION: Final = -32022

_CACHEABLE: Final = ("tools/list", "server/discover")
"""What a consumer may keep, and is told for how long."""

Notify = Callable[[str, dict[str, Any]], None]


class Server:
    """Declares the tools to each session, and answers the agent's calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tools: dict[str, Tool] = engine.proxy.tools
        self._servers: dict[str, Session | None] = {}
        """Servers by id, and the session each was declared to."""
        self._connections: dict[str, str] = {}
        """Connections by id, and the server of each."""
        self._others: set[Any] = set()
        """Ids of servers that others have declared, in whatever session."""

    def handlers(self) -> Handlers:
        """The handlers, by method."""
        inner = setup.handlers(self._engine)

        async def declare(request: Request, following: Next) -> Any:
            server = self._declare(request)
            result = await inner[request.method](request, following)
            session = result.get("sessionId") if isinstance(result, dict) else None
            session = session or request.params.get("sessionId")
            if server is not None and isinstance(session, str):
                self._servers[server] = self._engine.session(session)
            return result

        return {
            **dict.fromkeys(setup.SETUPS, declare),
            "mcp/connect": self._connect,
            "mcp/message": self._message,
            "mcp/disconnect": self._disconnect,
        }

    def _declare(self, request: Request) -> str | None:
        """Adds the server to a session's setup; its id."""
        declared = request.params.setdefault("mcpServers", [])
        if request.direction != "down" or not isinstance(declared, list):
            return None
        entries = [one for one in declared if isinstance(one, dict)]
        names = {one.get("name") for one in entries}
        self._others |= {one.get("serverId") for one in entries}
        base = name = self._engine.name
        number = 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        number = len(self._servers) + 1
        while (server := f"{base}:{number}") in self._others or server in self._servers:
            number += 1
        self._servers[server] = None
        declared.append({"type": "acp", "name": name, "serverId": server})
        return server

    # -- carriers ------------------------------------------------------------------------------

    async def _connect(self, request: Request, following: Next) -> Any:
        server = request.params.get("serverId", request.params.get("acpId"))
        if server not in self._servers:
            return await following(request)
        connection = f"{server}/{len(self._connections) + 1}"
        self._connections[connection] = str(server)
        return {"connectionId": connection}

    async def _disconnect(self, request: Any, following: Next) -> Any:
        if self._connections.pop(request.params.get("connectionId"), None) is None:
            return await following(request)
        return {}

    async def _message(self, message: Any, following: Next) -> Any:
        params = message.params
        connection, server = params.get("connectionId"), params.get("serverId")
        if connection in self._connections:
            return await self._connected(message, connection)
        if server in self._servers:
            return await self._stateless(message, server)
        return await following(message)

    async def _connected(self, message: Request | Notification, connection: str) -> Any:
        def notify(method: str, params: dict[str, Any]) -> None:
            inner = {"connectionId": connection, "method": method, "params": params}
            self._engine.notify("s", "mcp/message", inner)

        method, params = _inner(message.params)
        if not isinstance(message, Request):
            return None  # `notifications/initialized` and the like; a cancel comes as ACP's own
        server = self._connections[connection]
        return await self._serve(method, params, self._servers[server], notify)

    async def _stateless(self, message: Request, server: str) -> Any:
        """The outer answer holds the inner one."""

        def notify(method: str, params: dict[str, Any]) -> None:
            inner = {"serverId": server, "requestId": request_id}
            self._engine.notify("s", "mcp/message", {**inner, "method": method, "params": params})

        request_id = message.params.get("requestId")
        if not isinstance(request_id, str):
            raise ProxyError("mcp/message: `requestId` must be text", INVALID_PARAMS)
        method, params = _inner(message.params)
        try:
            _check_version(method, params)
            served = await self._serve(method, params, self._servers[server], notify)
            cached = {"ttlMs": 0, "cacheScope": "private"} if method in _CACHEABLE else {}
            return {"result": {"resultType": "complete", **cached, **served}}
        except ProxyError as error:
            return {"error": error.body()}

    # -- MCP -----------------------------------------------------------------------------------

    async def _serve(
        self, method: str, params: dict[str, Any], session: Session | None, notify: Notify
    ) -> Any:
        proxy = self._engine.proxy
        about = {"name": self._engine.name, "version": proxy.version}
        if method == "initialize":
            asked = params.get("protocolVersion")
            version = asked if asked in VERSIONS[1:] else VERSIONS[1]
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": about,
            }
        if method == "server/discover":
            return {
                "supportedVersions": [VERSIONS[0]],
                "capabilities": {"tools": {}},
                "serverInfo": about,
                **({"instructions": proxy.description} if proxy.description else {}),
            }
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [tool.card() for tool in self._tools.values()]}
        if method == "tools/call":
            return await self._call(params, session, notify)
        raise ProxyError(f"Method not found: {method}", METHOD_NOT_FOUND)

    async def _call(
        self, params: dict[str, Any], session: Session | None, notify: Notify
    ) -> dict[str, Any]:
        tool = self._tools.get(params.get("name", ""))
        if tool is None:
            known = ", ".join(self._tools)
            raise ProxyError(f"no tool `{params.get('name')}`; tools are: {known}", INVALID_PARAMS)
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        given = params.get("arguments") or {}
        try:
            return await tool.call(given, Call(session, token, notify))
        except (ProxyError, Cancelled):
            raise
        except Exception as error:  # the model is told, and may try otherwise
            return failed(self._engine, tool, error)


def _inner(params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    inner = params.get("params")
    return str(params.get("method", "")), inner if isinstance(inner, dict) else {}


def _check_version(method: str, params: dict[str, Any]) -> None:
    """Stateless MCP says its version with every request, and has no handshake."""
    if method == "initialize":
        raise ProxyError("Method not found: initialize", METHOD_NOT_FOUND)
    meta = params.get("_meta")
    version = meta.get(STATELESS) if isinstance(meta, dict) else None
    if version is None:
        raise ProxyError(f"`_meta` must hold `{STATELESS}`", INVALID_PARAMS)
    if version != VERSIONS[0]:
        data = {"requested": version, "supported": [VERSIONS[0]]}
        raise ProxyError(f"MCP {version} is not supported", _UNSUPPORTED_VERSION, data)
