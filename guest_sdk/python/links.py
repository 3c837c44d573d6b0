"""The ways back to whoever calls a proxy's MCP server, one for each generation of MCP over ACP."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .calls import LEVELS
from .errors import INVALID_PARAMS, METHOD_NOT_FOUND, ProxyError
from .tasks import Task, Waiter, current

if TYPE_CHECKING:
    from .engine import Engine
    from .servers import Server
    from .sessions import Session

NAMESPACE: Final = "io.modelcontextprotocol/"
VERSION: Final = NAMESPACE + "protocolVersion"
CAPABILITIES: Final = NAMESPACE + "clientCapabilities"
LOG_LEVEL: Final = NAMESPACE + "logLevel"
SUBSCRIPTION: Final = NAMESPACE + "subscriptionId"


@dataclass(slots=True, eq=False)
class Declared:
    """A server as it was declared to one session; which one is known when that is set up."""

    id: str
    server: Server
    session: Session | None = None

    def entry(self, name: str) -> dict[str, str]:
        """The server as a session's setup declares it."""
        return {"type": "acp", "name": name, "serverId": self.id}


@dataclass(slots=True, eq=False)
class Connection:
    """A connection of the agent, in the generation that has connections."""

    id: str
    declared: Declared
    engine: Engine
    able: dict[str, Any] = field(default_factory=dict)
    level: str | None = "info"
    """The level of `logging/setLevel`; MCP does not say which level holds before."""
    uris: set[str] = field(default_factory=set)
    """Resources it subscribed to."""
    token: Any = None

    @property
    def name(self) -> str:
        """The name of the proxy in its chain."""
        return self.engine.name

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tells it."""
        inner = {"connectionId": self.id, "method": method, "params": params}
        self.engine.notify("s", "mcp/message", inner)

    def ask(self, method: str, params: dict[str, Any]) -> Waiter[Any]:
        """Asks it."""
        inner = {"connectionId": self.id, "method": method, "params": params}
        return self.engine.request("s", "mcp/message", inner)

    def calling(self, token: Any) -> _Calling:
        """The way back for one of its requests, by whose progress token it is told."""
        return _Calling(self, token)


class _Calling:
    """A connection, with the progress token of one request."""

    def __init__(self, connection: Connection, token: Any) -> None:
        self.token = token
        self.name = connection.name
        self.able = connection.able
        self.level = connection.level
        self.notify = connection.notify
        self.ask = connection.ask


class Work:
    """A request without a connection, which may end by asking its caller for something.

    The function runs as a task of its own. What it asks becomes the answer to the request,
    `input_required`; the caller makes the request again with what it was asked for, and the
    function goes on.
    """

    def __init__(self, engine: Engine, declared: Declared, request_id: str) -> None:
        self.declared = declared
        self.able: dict[str, Any] = {}
        self.token: Any = None
        self.level: str | None = None
        self._engine = engine
        self._request_id = request_id
        self._task: Task | None = None
        self._wanted: dict[str, dict[str, Any]] = {}
        """Its questions that nobody has been told of."""
        self._asked: dict[str, Waiter[Any]] = {}
        self._told: list[str] = []
        """Its questions that the caller was told of."""
        self._news: Waiter[None] = Waiter()
        self._count = 0

    @property
    def name(self) -> str:
        """The name of the proxy in its chain."""
        return self._engine.name

    def read(self, params: dict[str, Any]) -> None:
        """Reads the facts of a request about its caller."""
        meta = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        able, level = meta.get(CAPABILITIES), meta.get(LOG_LEVEL)
        self.able = able if isinstance(able, dict) else {}
        self.level = level if level in LEVELS else None
        self.token = meta.get("progressToken")

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tells whoever waits for the answer."""
        inner = {"serverId": self.declared.id, "requestId": self._request_id}
        self._engine.notify("s", "mcp/message", {**inner, "method": method, "params": params})

    def ask(self, method: str, params: dict[str, Any]) -> Waiter[Any]:
        """Asks, with the answer to the request."""
        self._count += 1
        name = f"input-{self._count}"
        self._wanted[name] = {"method": method, "params": params}
        self._asked[name] = Waiter()
        self._news.resolve(None)
        return self._asked[name]

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Starts the function."""
        self._task = self._engine.spawn(work)
        self._task.then(lambda: self._news.resolve(None))

    def resume(self, request_id: str, given: Any) -> None:
        """Goes on, with what its caller brings: answers by name."""
        running = current()
        assert running is not None
        assert self._task is not None
        self._task.context = running.context
        self._request_id = request_id
        held = given if isinstance(given, dict) else {}
        for name in self._told:
            waiter = self._asked.pop(name)
            if name in held:
                waiter.resolve(held[name])
            else:
                error = f"the MCP client came back without an answer for `{name}`"
                waiter.fail(ProxyError(error, INVALID_PARAMS))

    async def outcome(self) -> Any:
        """The function's result; None if something is wanted first. Raises its error."""
        assert self._task is not None
        try:
            while not self._task.done and not self._wanted:
                self._news = Waiter()
                await self._news
        except BaseException:
            self._task.cancel()
            raise
        return self._task.result() if self._task.done else None

    def wants(self, state: str) -> dict[str, Any]:
        """The answer that asks."""
        wanted, self._wanted = self._wanted, {}
        self._told = list(wanted)
        return {"resultType": "input_required", "inputRequests": wanted, "requestState": state}

    def drop(self) -> None:
        """Gives it up: nobody brings what it waits for."""
        if self._task is not None:
            self._task.cancel()


def token_of(params: dict[str, Any]) -> Any:
    """The progress token of a request."""
    meta = params.get("_meta")
    return meta.get("progressToken") if isinstance(meta, dict) else None


def unknown(method: str) -> ProxyError:
    """The error for a method that is not there."""
    return ProxyError(f"Method not found: {method}", METHOD_NOT_FOUND)
