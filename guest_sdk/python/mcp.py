"""The MCP servers a proxy is, over either generation of MCP over ACP.

The agent's calls come as `mcp/message`: with a `connectionId`, opened by `mcp/connect`, they carry
MCP with sessions; with a `serverId` and a `requestId` each stands for itself, and carries MCP of
2026-07-28 (docs/mcp.md).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from . import setup
from .calls import LEVELS
from .engine import engine
from .errors import INTERNAL_ERROR, INVALID_PARAMS, ProxyError
from .failures import report, sentence
from .links import NAMESPACE, Connection, Declared, Work, token_of
from .listening import UPDATED, Listener
from .messages import Request
from .serving import MAY_ASK, about, name_of, serve
from .stateless import VERSIONS, check_version, complete, inner
from .tasks import current

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .engine import Engine
    from .handling import Next
    from .servers import Server
    from .sessions import Session
    from .setup import Handlers

_MOST_SUSPENDED: Final = 64
"""Requests that wait for input which their callers may never bring."""


class Host:
    """Declares a proxy's servers to each session, and answers the agent's calls."""

    def __init__(self, running: Engine) -> None:
        self._engine = running
        self._declared: dict[str, Declared] = {}
        self._connections: dict[str, Connection] = {}
        self._suspended: OrderedDict[str, Work] = OrderedDict()
        self._listeners: list[Listener] = []
        self._others: set[Any] = set()
        """Ids of servers that others have declared, in whatever session."""
        self._count = self._opened = 0
        self._secret = ""
        """The part of its ids that nobody can guess; empty without the right to randomness."""
        running.mcp = self

    def handlers(self) -> Handlers:
        """The handlers, by method."""
        inner = setup.handlers(self._engine)

        async def declare(request: Request, following: Next) -> Any:
            await self._draw()
            declared = self._declare(request)
            result = await inner[request.method](request, following)
            session = result.get("sessionId") if isinstance(result, dict) else None
            session = session or request.params.get("sessionId")
            if declared and isinstance(session, str):
                found = self._engine.session(session)
                for one in declared:
                    one.session = found
                self._engine.keep({one.id: _kept(found) for one in declared})
            return result

        async def end(request: Request, following: Next) -> Any:
            result = await inner[request.method](request, following)
            self._forget(request.params.get("sessionId"))
            return result

        return {
            **dict.fromkeys(setup.SETUPS, declare),
            **dict.fromkeys(setup.ENDS, end),
            "mcp/connect": self._connect,
            "mcp/message": self._message,
            "mcp/disconnect": self._disconnect,
        }

    # -- declarations --------------------------------------------------------------------------

    async def _draw(self) -> None:
        """Draws the secret of the ids of servers, once; others could squat on them."""
        if self._secret or "random" not in (self._engine.grants or ()):
            return
        try:
            drawn = (await self._engine.proxy.random.bytes(8)).hex()
        except ProxyError:
            return
        self._secret = self._secret or drawn

    def _declare(self, request: Request) -> list[Declared]:
        """Adds the servers to a session's setup."""
        held = request.params.setdefault("mcpServers", [])
        if request.direction != "down" or not isinstance(held, list):
            return []
        entries = [one for one in held if isinstance(one, dict)]
        names = {one.get("name") for one in entries}
        self._others |= {one.get("serverId") for one in entries}
        declared = []
        for server in self._engine.proxy.servers:
            if not server.offers:
                continue
            base = name = name_of(self._engine, server)
            number = 1
            while name in names:
                number += 1
                name = f"{base}-{number}"
            names.add(name)
            one = Declared(self._fresh_id(base), server)
            self._declared[one.id] = one
            held.append(one.entry(name))
            declared.append(one)
        return declared

    def offer(self, servers: Iterable[Server], session: Session | None) -> list[Declared]:
        """Servers for a session of the proxy's own; `session` is what their calls are of."""
        found = [
            Declared(self._fresh_id(name_of(self._engine, one)), one, session) for one in servers
        ]
        self._declared |= {one.id: one for one in found}
        return found

    def withdraw(self, declared: Iterable[Declared]) -> None:
        """Withdraws the offers to a session of the proxy's own, which is over."""
        gone = {one.id for one in declared}
        for key in gone:
            self._declared.pop(key, None)
        for connection in [one for one in self._connections.values() if one.declared.id in gone]:
            del self._connections[connection.id]

    def _fresh_id(self, base: str) -> str:
        while True:
            self._count += 1
            fresh = f"{base}:{self._numbered(self._count)}"
            if fresh not in self._others:
                return fresh

    def _numbered(self, number: int) -> str:
        """A number no former life of this proxy has given."""
        life = self._life()
        return f"{life}.{number}" if life else str(number)

    def _life(self) -> str:
        """The beginning of all numbers of this life of the proxy."""
        return ".".join(one for one in (self._engine.instance, self._secret) if one)

    def _of_former_life(self, number: str) -> bool:
        life, _, last = number.rpartition(".")
        return life != self._life() and last.isdecimal()

    def _known(self, id_: Any) -> Declared | None:
        """The declaration of an id; if a former life of this proxy made it, it is taken over.

        Sessions go on when a proxy is started again, and with them the servers they know. Which
        session it was is known where the conductor has kept it.
        """
        if not isinstance(id_, str) or id_ in self._declared:
            return self._declared.get(id_)
        base, _, number = id_.rpartition(":")
        if id_ in self._others or not self._of_former_life(number):
            return None
        for server in self._engine.proxy.servers:
            if server.offers and base == name_of(self._engine, server):
                session = self._session_of(self._engine.kept.get(id_))
                self._declared[id_] = one = Declared(id_, server, session)
                return one
        return None

    def _session_of(self, kept: Any) -> Session | None:
        """The session that a former life has kept."""
        if not isinstance(kept, dict) or not isinstance(kept.get("session"), str):
            return None
        session = self._engine.session(kept["session"])
        session.cwd = session.cwd or kept.get("cwd")
        return session

    def _connection(self, id_: Any) -> Connection | None:
        """The connection of an id, likewise."""
        if not isinstance(id_, str) or id_ in self._connections:
            return self._connections.get(id_)
        server, _, number = id_.rpartition("/")
        declared = self._known(server) if self._of_former_life(number) else None
        if declared is None:
            return None
        self._connections[id_] = one = Connection(id_, declared, self._engine)
        return one

    def _forget(self, session: Any) -> None:
        """Drops the servers that were declared to a session that has ended."""
        gone = {
            one.id
            for one in self._declared.values()
            if one.session is not None and one.session.id == session
        }
        for key in gone:
            del self._declared[key]
        kept = self._engine.kept
        former = {key for key, one in kept.items() if one.get("session") == session}
        for key in former:
            del kept[key]
        if gone or former:
            self._engine.keep(dict.fromkeys(sorted(gone | former)))
        for connection in [one for one in self._connections.values() if one.declared.id in gone]:
            del self._connections[connection.id]
        for state in [key for key, one in self._suspended.items() if one.declared.id in gone]:
            self._suspended.pop(state).drop()
        for listener in self._listeners:
            if listener.declared.id in gone:
                listener.over.resolve(None)

    # -- carriers ------------------------------------------------------------------------------

    async def _connect(self, request: Request, following: Next) -> Any:
        params = request.params
        declared = self._known(params.get("serverId", params.get("acpId")))
        if declared is None:
            return await following(request)
        self._opened += 1
        connection = Connection(
            f"{declared.id}/{self._numbered(self._opened)}", declared, self._engine
        )
        self._connections[connection.id] = connection
        return {"connectionId": connection.id}

    async def _disconnect(self, request: Any, following: Next) -> Any:
        connection = self._connection(request.params.get("connectionId"))
        if connection is None:
            return await following(request)
        del self._connections[connection.id]
        return {}

    async def _message(self, message: Any, following: Next) -> Any:
        connection = self._connection(message.params.get("connectionId"))
        declared = self._known(message.params.get("serverId"))
        if connection is None and declared is None:
            return await following(message)
        self._aside()
        if not isinstance(message, Request):
            return None  # `notifications/initialized` and the like; a cancel comes as ACP's own
        if connection is not None:
            return await self._connected(message, connection)
        assert declared is not None
        return await self._stateless(message, declared)

    def _aside(self) -> None:
        """A call of MCP keeps nothing else waiting, however long it takes."""
        task = current()
        if task is not None and task.context is not None:
            self._engine.lanes.release(task.context)

    # -- with connections ----------------------------------------------------------------------

    async def _connected(self, request: Request, connection: Connection) -> Any:
        method, params = inner(request.params)
        if method == "initialize":
            return self._initialize(connection, params)
        if method == "logging/setLevel":
            if params.get("level") not in LEVELS:
                raise ProxyError(f"levels are: {', '.join(LEVELS)}", INVALID_PARAMS)
            connection.level = params["level"]
            return {}
        if method in ("resources/subscribe", "resources/unsubscribe"):
            change = connection.uris.add if method[10] == "s" else connection.uris.discard
            change(str(params.get("uri", "")))
            return {}
        link = connection.calling(token_of(params))
        return await serve(self._engine, connection.declared, method, params, link)

    def _initialize(self, connection: Connection, params: dict[str, Any]) -> dict[str, Any]:
        able = params.get("capabilities")
        connection.able = able if isinstance(able, dict) else {}
        asked = params.get("protocolVersion")
        version = asked if asked in VERSIONS[1:] else VERSIONS[1]
        return {"protocolVersion": version, **about(self._engine, connection.declared)}

    # -- without -------------------------------------------------------------------------------

    async def _stateless(self, request: Request, declared: Declared) -> Any:
        """The outer answer holds the inner one."""
        request_id = request.params.get("requestId")
        if not isinstance(request_id, str):
            raise ProxyError("mcp/message: `requestId` must be text", INVALID_PARAMS)
        method, params = inner(request.params)
        try:
            check_version(method, params)
            return {"result": await self._alone(declared, method, params, request_id)}
        except ProxyError as error:
            return {"error": error.body()}
        except (Exception, SystemExit) as error:
            report(self._engine, f"`{method}` failed", error)
            return {"error": {"code": INTERNAL_ERROR, "message": sentence(error)}}

    async def _alone(
        self, declared: Declared, method: str, params: dict[str, Any], request_id: str
    ) -> dict[str, Any]:
        if method == "server/discover":
            said = about(self._engine, declared)
            info = {NAMESPACE + "serverInfo": said.pop("serverInfo")}
            return complete(method, {"supportedVersions": [VERSIONS[0]], **said, "_meta": info})
        if method == "subscriptions/listen":
            return await self._listen(Listener(self._engine, declared, request_id, params))
        state = params.get("requestState")
        if state is not None and method in MAY_ASK:
            work = self._suspended.pop(state, None) if isinstance(state, str) else None
            if work is None or work.declared is not declared:
                raise ProxyError("no request of this `requestState` is open", INVALID_PARAMS)
            work.read(params)
            work.resume(request_id, params.get("inputResponses"))
        else:
            work = Work(self._engine, declared, request_id)
            work.read(params)
            work.begin(serve(self._engine, declared, method, params, work, INVALID_PARAMS))
        found = await work.outcome()
        if found is not None:
            return complete(method, found)
        return self._suspend(work)

    def _suspend(self, work: Work) -> dict[str, Any]:
        self._count += 1
        state = f"{work.declared.id}/{self._count}"
        self._suspended[state] = work
        if len(self._suspended) > _MOST_SUSPENDED:
            self._suspended.popitem(last=False)[1].drop()
        return work.wants(state)

    async def _listen(self, listener: Listener) -> dict[str, Any]:
        self._listeners.append(listener)
        try:
            listener.acknowledge()
            await listener.over
        finally:
            self._listeners.remove(listener)
        return listener.result()

    # -- changes -------------------------------------------------------------------------------

    def changed(self, server: Server, kind: str, session: Session | None) -> None:
        """A list of a server is another than before, in one session or in all."""
        for connection in self._connected_to(server, session):
            connection.notify(f"notifications/{kind}/list_changed", {})
        for listener in list(self._listeners):
            if _concerns(listener.declared, server, session):
                listener.changed(kind)

    def updated(self, server: Server, uri: str, session: Session | None) -> None:
        """A resource is another than before."""
        for connection in self._connected_to(server, session):
            if uri in connection.uris:
                connection.notify(UPDATED, {"uri": uri})
        for listener in list(self._listeners):
            if _concerns(listener.declared, server, session):
                listener.updated(uri)

    def _connected_to(self, server: Server, session: Session | None) -> list[Connection]:
        found = self._connections.values()
        return [one for one in found if _concerns(one.declared, server, session)]


def _concerns(declared: Declared, server: Server, session: Session | None) -> bool:
    return declared.server is server and (session is None or declared.session is session)


def _kept(session: Session) -> dict[str, Any]:
    """The facts about a session that the next life must know."""
    return {"session": session.id, "cwd": session.cwd}


def host() -> Host:
    """The servers of the proxy whose handler runs. Raises `RuntimeError` outside of handlers."""
    found = engine().mcp
    if found is None:
        raise RuntimeError("this proxy declared no tool, resource or prompt before it was started")
    return found


__all__ = ["VERSIONS", "Host", "host"]
