"""`Proxy`: the declarations of an author, and the calls of handlers."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import Any, Generic, Protocol, TypeVar, cast, is_typeddict, overload

from . import keeping, names, openings, schemas, services, setup, stdio, summaries
from .engine import Engine, engine
from .errors import ProxyError
from .handlers import Handler, adapted
from .mcp import Host
from .messages import Message, Notification, Request
from .peers import Peer
from .servers import Server
from .sessions import Asked, Session, SubSession
from .tasks import Task
from .wire import Wire

F = TypeVar("F", bound=Callable[..., Any])
Settings = TypeVar("Settings")
"""The type of `proxy.config`."""


class Channel(Protocol):
    """The channel of an in-process component (`conductor.transports.memory`)."""

    async def receive(self) -> bytes | None:
        """The next line; None at the end."""

    def send(self, line: bytes) -> None:
        """Sends one line."""


class Proxy(Server, Generic[Settings]):
    """A proxy: handlers for some messages; all others pass it untouched.

    It is an MCP server of its own name, too. In each session the agent finds the tools, resources
    and prompts of `@proxy.tool`, `@proxy.resource` and `@proxy.prompt`.

    Args:
        name: its name, unless the user gives it another.
        version, description: shown to people and to MCP clients.
        rights: the rights that the proxy asks for, each with the reason. `conductor help rights`
            has the words: `{"change:prompts": "to add the date", "clock": "to know it"}`.
        config: a dataclass or `TypedDict` for the settings, the type of
            `proxy.config`; None: a dictionary.
        session: called without arguments for the `state` of each session.

    Raises `TypeError` for a `config` that is neither, or has fields that settings cannot be, and
    for a right without a reason.
    """

    clock = services.Clock()
    random = services.Random()
    kv = services.Kv()
    timer = services.Timer()
    fetch = services.Fetch()
    files = services.Files()
    log = services.Log()
    metric = services.Metric()
    payload = services.Payload()

    @overload
    def __init__(
        self: Proxy[dict[str, Any]],
        name: str,
        *,
        version: str = "0.1.0",
        description: str = "",
        rights: dict[str, str] | None = None,
        config: None = None,
        session: Callable[[], Any] = SimpleNamespace,
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        *,
        version: str = "0.1.0",
        description: str = "",
        rights: dict[str, str] | None = None,
        config: type[Settings],
        session: Callable[[], Any] = SimpleNamespace,
    ) -> None: ...

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.1.0",
        description: str = "",
        rights: dict[str, str] | None = None,
        config: type[Any] | None = None,
        session: Callable[[], Any] = SimpleNamespace,
    ) -> None:
        super().__init__(name, instructions=description)
        _settable(name, config)
        _asked_for(name, rights or {})
        self.version = version
        self.description = description
        self.rights = rights
        self.config_type = config
        self.session_factory = session
        self.handlers: dict[str, list[Handler]] = {}
        self.starters: list[Callable[[], Any]] = []
        self.opens: openings.Opens | None = None
        self.servers: list[Server] = [self]
        """Its MCP servers; those that offer something are declared to each session."""
        self.doubts: list[str] = []
        """The remarks about its handlers that the log gets when it starts."""
        self.used = False
        """Whether it has been run in any way."""
        if _declared_in() == "__main__":
            atexit.register(stdio.remind, self)

    # -- declaring -----------------------------------------------------------------------------

    def request(self, *methods: str, unknown: bool = False) -> Callable[[F], F]:
        """Declares a handler of requests; without methods, of all of them.

        `handler(request)` looks, or edits in place; its result, if any, is the answer.
        `handler(request, next)` decides itself: `return await next(request)` passes it on. Either
        may be async.

        Raises `ValueError` for a method that looks misspelt, or is no request. The log names a
        method that is merely unknown. `unknown`: the author means it all the same.
        """
        return self._declare("request", methods, unknown, Request)

    def notification(self, *methods: str, unknown: bool = False) -> Callable[[F], F]:
        """Declares a handler of notifications; without methods, of all of them.

        `handler(notification)` looks, or edits in place, and may return `DROP`.
        `handler(notification, next)` passes it on itself, or does not. `unknown`: as of requests.
        """
        return self._declare("notification", methods, unknown, Notification)

    def update(self, *kinds: str, unknown: bool = False) -> Callable[[F], F]:
        """Declares a handler of `session/update`, of these kinds or of all.

        `handler(update)` looks, or edits in place. It may return `DROP`, or an update (a
        dictionary) or several that are sent instead. `unknown`: as of requests.
        """

        self._check("update", kinds, unknown)

        def declare(function: F) -> F:
            self._add("session/update", adapted(function, Message, kinds))
            return function

        return declare

    def on_start(self, function: F) -> F:
        """Declares a function, sync or async, called when the proxy gets its settings."""
        self.starters.append(function)
        return function

    def opening(self, function: F) -> F:
        """Declares the opening: prompts before the user's first prompt of each new session.

        `function(opening)`, sync or async, prompts the agent by `await opening.prompt(…)`. The
        user's prompt waits for its end. Returned text or blocks go in front of the user's
        prompt, or of the next prompt if that is a slash command. See `Opening`.
        """
        if self.opens is not None:
            raise TypeError("a proxy has one opening")
        self.opens = function
        return function

    def summarize(self, function: F) -> F:
        """Declares the proxy's additions to a conversation that the client asks for.

        `function(conversation, session)`, sync or async, gets the `Conversation` from
        the agent's side. Its result, any JSON or a dataclass, goes into the `_meta` under
        the proxy's name in the chain. It may also add to `meta` of a turn or of its parts, as
        `proxy.meta_key`. A sandboxed proxy takes the right
        `extension:_conversation/summarize`.
        """
        self._add(summaries.SUMMARIZE, adapted(summaries.adding(function), Request))
        return function

    def augment(self, function: F) -> F:
        """Declares additions to a conversation that the agent presents, on its way back from the
        client's side. A sandboxed proxy takes the right `extension:_conversation/augment`."""
        self._add(summaries.AUGMENT, adapted(summaries.adding(function), Request))
        return function

    def server(self, name: str, *, instructions: str = "") -> Server:
        """Another MCP server, with a name of its own, for tools that belong together."""
        one = Server(name, instructions=instructions)
        self.servers.append(one)
        return one

    def _check(self, decorator: str, declared: tuple[str, ...], unknown: bool) -> None:
        _only_names(declared)
        if not unknown:
            self.doubts += names.doubts(decorator, declared)

    def _declare(
        self, decorator: str, methods: tuple[str, ...], unknown: bool, kind: type[Message]
    ) -> Callable[[F], F]:
        self._check(decorator, methods, unknown)

        def declare(function: F) -> F:
            handler = adapted(function, kind)
            for method in methods or ("*",):
                self._add(method, handler)
            return function

        return declare

    def _add(self, method: str, handler: Handler) -> None:
        self.handlers.setdefault(method, []).append(handler)

    def builtin(self, running: Engine) -> setup.Handlers:
        """The handlers of every proxy: they count sessions, and serve its tools."""
        tools = Host(running).handlers() if any(one.offers for one in self.servers) else {}
        return {**setup.handlers(running), **tools}

    def innermost(self, running: Engine) -> setup.Handlers:
        """The handlers of every proxy behind the author's handlers."""
        if self.opens is None:
            return setup.last(running)
        return {**setup.last(running), "session/prompt": openings.handler(running, self.opens)}

    # -- used by handlers ----------------------------------------------------------------------

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The client's sessions that are not closed, by id."""
        return engine().sessions

    def session(self, id: str) -> Session:  # noqa: A002 - the protocol's name
        """The session of this id; also one that the proxy opened itself, by `ask_agent`."""
        return engine().session(id)

    @property
    def config(self) -> Settings:
        """The settings the user gave, as `Proxy(config=…)` says."""
        return cast("Settings", engine().config)

    @property
    def grants(self) -> list[str] | None:
        """Its rights to services; None where they were not said."""
        return engine().grants

    @property
    def chain_name(self) -> str:
        """Its name in its chain (`,name=…`), by which the agent knows its tools."""
        return engine().name

    @property
    def meta_key(self) -> str:
        """The member of `_meta` for additions to a conversation, with the proxy's name."""
        return summaries.member(engine().name)

    def keep(self, name: str, value: Any) -> None:
        """Has the conductor keep a JSON value for the next instance of the proxy, after a failure
        or a new build; None: no longer. The value is gone when the conductor ends; `proxy.kv` keeps
        values for longer. See `Session.keep`."""
        held = None if value is None else {"value": keeping.plain(value)}
        engine().keep({keeping.of_value(name): held})

    def kept(self, name: str) -> Any:
        """The value that a former instance has kept under this name; None: none."""
        held = engine().kept.get(keeping.of_value(name))
        return held["value"] if held is not None else None

    async def ask_client(self, method: str, **params: Any) -> Any:
        """Sends the client a request of the proxy's own; the result."""
        return await engine().request("p", method, params)

    async def ask_agent(self, method: str, **params: Any) -> Any:
        """Sends the agent a request of the proxy's own; the result."""
        return await engine().request("s", method, params)

    def tell_client(self, method: str, **params: Any) -> None:
        """Sends the client a notification of the proxy's own."""
        engine().notify("p", method, params)

    def tell_agent(self, method: str, **params: Any) -> None:
        """Sends the agent a notification of the proxy's own."""
        engine().notify("s", method, params)

    def start(self, work: Coroutine[Any, Any, Any]) -> Task:
        """Runs a coroutine in the background; the handler does not wait for it."""
        return engine().start(work, "background work")

    def subsession(
        self,
        *,
        cwd: str,
        on_request: Asked | None = None,
        servers: Iterable[Server] = (),
        session: Session | None = None,
        **params: Any,
    ) -> SubSession:
        """A session with the agent that the client does not see: `async with` opens it.

        `servers`: MCP servers (`Server("…")`) with tools for that session alone. `session` is their
        `call.session`, such as the client's session for which the proxy works.
        """
        setup = {"cwd": cwd, "mcpServers": [], **params}
        return SubSession(engine(), setup, on_request, servers, session)

    @property
    def protocol_version(self) -> int | None:
        """The version of ACP that client and agent agreed on; None: the proxy was not shown
        `initialize`."""
        version: int | None = engine().version
        return version

    @property
    def peers(self) -> list[str]:
        """The names of the peer agents that the user gave it (`,allow=peer:NAME`)."""
        return engine().peers

    def peer(self, name: str) -> Peer:
        """A peer agent of this name. Raises `ProxyError` if the proxy has none."""
        if name not in engine().peers:
            known = ", ".join(engine().peers) or "none"
            raise ProxyError(f"there is no peer agent `{name}`: it has {known}")
        return Peer(engine(), name)

    # -- running -------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the proxy behind standard input and output, until the input ends.

        Last line of a proxy's file, below `if __name__ == "__main__":`. In the sandbox it does
        nothing: there the conductor runs the proxy.
        """
        stdio.run(self)

    async def __call__(self, channel: Channel) -> None:
        """Runs the proxy in the conductor's own process (`py:module:proxy`)."""
        wire = Wire(Engine(self))
        while (line := await channel.receive()) is not None:
            for said in wire.receive([line.decode("utf-8", "surrogateescape")]):
                channel.send(said.encode("utf-8", "surrogateescape"))


def _declared_in() -> str | None:
    """The name of the module that makes a proxy, behind what `Proxy[Settings](…)` calls."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "typing":
        frame = frame.f_back
    return frame.f_globals.get("__name__") if frame is not None else None


def _settable(name: str, config: Any) -> None:
    """Raises `TypeError` for a type that cannot hold settings."""
    if config is None:
        return
    if not is_dataclass(config) and not is_typeddict(config):
        shown = getattr(config, "__name__", repr(config))
        raise TypeError(f"proxy `{name}`: `config` is a dataclass; `{shown}` is none")
    try:
        schemas.schema(config)
    except NameError:
        return  # a type is declared further down
    except TypeError as error:
        raise TypeError(f"proxy `{name}`, `config`: {error}") from None


def _asked_for(name: str, rights: Any) -> None:
    """Raises `TypeError` for a right without a reason. Which rights there are conductor knows."""
    if not isinstance(rights, dict) or not all(isinstance(one, str) for one in rights.values()):
        raise TypeError(
            f"proxy `{name}`: `rights` says what for, as in "
            '`rights={"clock": "to say what day it is"}`'
        )


def _only_names(declared: tuple[object, ...]) -> None:
    """Raises `TypeError` for a decorator without parentheses, which would declare nothing."""
    for one in declared:
        if not isinstance(one, str):
            raise TypeError(
                f"`{getattr(one, '__name__', one)}`: a handler is declared with parentheses, "
                'as in `@proxy.request("session/prompt")`, or `@proxy.update()` for all of them'
            )
