"""`Proxy`: what an author declares, and what handlers use."""

from __future__ import annotations

import atexit
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import Any, Final, Protocol, TypeVar

from . import openings, services, setup, stdio
from .engine import Engine, engine
from .mcp import Host
from .messages import DROP, Message, Notification, Request, Update, plain
from .servers import Server
from .sessions import Asked, Session, SubSession
from .tasks import Task
from .wire import Wire

F = TypeVar("F", bound=Callable[..., Any])
Handler = Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]
PROFILES: Final = ("observer", "context", "filter", "tools", "full", "trusted")
"""docs/security.md has what each allows."""


class Channel(Protocol):
    """What an in-process component is given (`conductor.transports.memory`)."""

    async def receive(self) -> bytes | None:
        """The next line; None at the end."""

    def send(self, line: bytes) -> None:
        """Sends one line."""


class Proxy(Server):
    """A proxy: handlers for what it wants to see; everything else passes it untouched.

    It is an MCP server of its own name, too: what is declared with `@proxy.tool`,
    `@proxy.resource` and `@proxy.prompt` the agent finds in each session.

    Args:
        name: what it is called where nobody says otherwise.
        version, description: shown to people and to MCP clients.
        profile: the least the proxy needs to be allowed (docs/security.md), shown by
            `conductor inspect`, e.g. `context`.
        wants: services it asks the conductor for, with the reason: `{"clock": "to say the date"}`.
        config: a dataclass the settings are read into; None: `proxy.config` is a dictionary.
        session: called without arguments for the `state` of each session.

    Raises `TypeError` for a `config` that is no dataclass, `ValueError` for an unknown profile.
    """

    clock = services.Clock()
    random = services.Random()
    kv = services.Kv()
    timer = services.Timer()
    fetch = services.Fetch()
    files = services.Files()
    log = services.Log()
    metric = services.Metric()

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.1.0",
        description: str = "",
        profile: str | None = None,
        wants: dict[str, str] | None = None,
        config: type | None = None,
        session: Callable[[], Any] = SimpleNamespace,
    ) -> None:
        super().__init__(name, instructions=description)
        if config is not None and not is_dataclass(config):
            shown = getattr(config, "__name__", repr(config))
            raise TypeError(f"proxy `{name}`: `config` is a dataclass; `{shown}` is none")
        if profile is not None and profile not in PROFILES:
            known = ", ".join(PROFILES)
            raise ValueError(f"proxy `{name}`: no profile `{profile}`; profiles are: {known}")
        self.version = version
        self.description = description
        self.profile = profile
        self.wants = wants or {}
        self.config_type = config
        self.session_factory = session
        self.handlers: dict[str, list[Handler]] = {}
        self.starters: list[Callable[[], Any]] = []
        self.opens: openings.Opens | None = None
        self.servers: list[Server] = [self]
        """Its MCP servers; those that offer something are declared to each session."""
        self.used = False
        """Whether it has been run in any way."""
        if sys._getframe(1).f_globals.get("__name__") == "__main__":
            atexit.register(stdio.remind, self)

    # -- declaring -----------------------------------------------------------------------------

    def request(self, *methods: str) -> Callable[[F], F]:
        """Declares a handler of requests; without methods, of all of them.

        `handler(request)` looks, or edits in place; what it returns, if anything, is the answer.
        `handler(request, next)` decides itself: `return await next(request)` passes it on. Either
        may be async.
        """
        return self._declare(methods, Request)

    def notification(self, *methods: str) -> Callable[[F], F]:
        """Declares a handler of notifications; without methods, of all of them.

        `handler(notification)` looks, or edits in place, and may return `DROP`.
        `handler(notification, next)` passes it on itself, or does not.
        """
        return self._declare(methods, Notification)

    def update(self, *kinds: str) -> Callable[[F], F]:
        """Declares a handler of `session/update`, of these kinds or of all.

        `handler(update)` looks, or edits in place. It may return `DROP`, or an update (a
        dictionary) or several that are sent instead.
        """

        _only_names(kinds)

        def declare(function: F) -> F:
            handler = _adapted(function)

            async def of_kind(message: Any, following: Any) -> Any:
                if kinds and message.kind not in kinds:
                    return await following(message)
                return await handler(message, following)

            self._add("session/update", of_kind)
            return function

        return declare

    def on_start(self, function: F) -> F:
        """Declares a function, sync or async, called when the proxy is told its settings."""
        self.starters.append(function)
        return function

    def opening(self, function: F) -> F:
        """Declares what is said to the agent before the user's first prompt of each new session.

        `function(opening)`, sync or async, prompts the agent by `await opening.prompt(…)`. The
        user's prompt waits for its end. Text or blocks that it returns are put in front of that
        prompt, or of the next one if that is a slash command. See `Opening`.
        """
        if self.opens is not None:
            raise TypeError("a proxy has one opening")
        self.opens = function
        return function

    def server(self, name: str, *, instructions: str = "") -> Server:
        """Another MCP server, with a name of its own, for tools that belong together."""
        one = Server(name, instructions=instructions)
        self.servers.append(one)
        return one

    def _declare(self, methods: tuple[str, ...], kind: type[Message]) -> Callable[[F], F]:
        _only_names(methods)

        def declare(function: F) -> F:
            handler = _adapted(function)

            async def of_kind(message: Any, following: Any) -> Any:
                if not isinstance(message, kind):
                    return await following(message)
                return await handler(message, following)

            for method in methods or ("*",):
                self._add(method, of_kind)
            return function

        return declare

    def _add(self, method: str, handler: Handler) -> None:
        self.handlers.setdefault(method, []).append(handler)

    def builtin(self, running: Engine) -> setup.Handlers:
        """What every proxy does: it keeps count of sessions, and serves its tools."""
        tools = Host(running).handlers() if any(one.offers for one in self.servers) else {}
        return {**setup.handlers(running), **tools}

    def innermost(self, running: Engine) -> setup.Handlers:
        """What every proxy does behind the author's handlers."""
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
    def config(self) -> Any:
        """The settings the user gave, as `Proxy(config=…)` says."""
        return engine().config

    @property
    def grants(self) -> list[str] | None:
        """Services the user granted; None where that was not said."""
        return engine().grants

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

    def subsession(self, *, cwd: str, on_request: Asked | None = None, **params: Any) -> SubSession:
        """A session with the agent that the client does not see: `async with` opens it."""
        setup = {"cwd": cwd, "mcpServers": [], **params}
        return SubSession(engine(), setup, on_request)

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


def _only_names(names: tuple[object, ...]) -> None:
    """Raises `TypeError` for a decorator without parentheses, which would declare nothing."""
    for one in names:
        if not isinstance(one, str):
            raise TypeError(
                f"`{getattr(one, '__name__', one)}`: a handler is declared with parentheses, "
                'as in `@proxy.request("session/prompt")`, or `@proxy.update()` for all of them'
            )


def _adapted(function: Callable[..., Any]) -> Handler:
    """A handler of two parameters out of a function of one or two, sync or async."""
    positional = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if len(positional) not in (1, 2):
        raise TypeError(
            f"handler `{function.__name__}` must take the message, or the message and `next`"
        )
    return _deciding(function) if len(positional) == 2 else _looking(function)


def _deciding(function: Callable[..., Any]) -> Handler:
    async def handler(message: Any, following: Any) -> Any:
        answers = []

        async def passed(other: Any) -> Any:
            answers.append(await following(other))
            return answers[-1]

        found = function(message, passed)
        while isinstance(found, Awaitable):  # twice where `return next(request)` lacks its `await`
            found = await found
        if found is not None or not isinstance(message, Request):
            return found
        if not answers:
            raise TypeError(
                f"handler `{function.__name__}` answered nothing: "
                "`return await next(request)` passes a request on"
            )
        return answers[-1]

    return handler


def _looking(function: Callable[..., Any]) -> Handler:
    async def handler(message: Any, following: Any) -> Any:
        found = function(message)
        while isinstance(found, Awaitable):
            found = await found
        if found is None:
            return await following(message)
        if isinstance(message, Request):
            return found
        if found is not DROP:
            _instead(message, found)
        return None

    return handler


def _instead(message: Message, found: Any) -> None:
    """Sends what a handler returned in place of a notification."""
    side = "p" if message.direction == "up" else "s"
    for one in found if isinstance(found, list) else [found]:
        one = one.update if isinstance(one, Update) else plain(one)  # noqa: PLW2901
        if not isinstance(one, dict):
            raise TypeError(
                f"a handler of `{message.method}` returned {one!r}; DROP or a dict is meant"
            )
        if isinstance(message, Update):
            engine().notify(side, message.method, {**message.params, "update": one})
        else:
            engine().notify(side, message.method, one)
