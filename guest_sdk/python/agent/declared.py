"""`Agent`: the declarations of an author."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

from . import options as choices
from . import stdio
from .running import Running
from .shapes import TAKES

F = TypeVar("F", bound=Callable[..., Any])


class Agent:
    """An agent: a function that answers prompts, and further declarations.

    Args:
        name: the name of the agent.
        version, title: shown to people.
        takes: the types that its prompts may hold besides text and links: `image`, `audio`,
            `embeddedContext`.
        modes: the name of each of its modes, by id; a new session has the first mode.
        options: further options that the user can choose for a session.
        session: called without arguments for the `state` of each session.

    Raises `ValueError` for types that ACP does not know, and for options without a valid choice.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.1.0",
        title: str | None = None,
        takes: Sequence[str] = (),
        modes: dict[str, str] | None = None,
        options: Sequence[choices.Option] = (),
        session: Callable[[], Any] = SimpleNamespace,
    ) -> None:
        unknown = sorted(set(takes) - set(TAKES))
        if unknown:
            raise ValueError(f"agent `{name}`: `takes` knows {', '.join(TAKES)}; not {unknown[0]}")
        self.name = name
        self.info = {"name": name, "version": version, **({"title": title} if title else {})}
        self.takes = tuple(takes)
        self.options = choices.declared(modes, list(options))
        self.session_factory = session
        self.answerer: Callable[..., Any] | None = None
        self.opener: Callable[..., Any] | None = None
        self.loader: Callable[..., Any] | None = None
        self.lister: Callable[..., Any] | None = None
        self.closer: Callable[..., Any] | None = None
        self.chooser: Callable[..., Any] | None = None
        self.extensions: dict[str, Callable[..., Any]] = {}

    def prompt(self, function: F) -> F:
        """Declares the function that answers prompts: `async def answer(turn)`; see `Turn`.

        Its result is the stop reason; None: `end_turn`. Turns of one session run one after
        another, those of several sessions side by side. An exception answers the prompt with an
        error. When the user stops the turn, `Cancelled` is raised where the function waits.
        """
        self.answerer = function
        return function

    def new_session(self, function: F) -> F:
        """Declares the function that gets each new `Session`, before the client knows its id."""
        self.opener = function
        return function

    def load_session(self, function: F) -> F:
        """Declares the function that brings back a session of an earlier run, by its `session.id`.

        Called with a `Session` for `session/load` and `session/resume`. If `session.replays`, the
        client shows nothing of the past yet: `show_user`, `say` and the like of the session show
        it. It raises `UnknownSession` if no session has this id. Without it the agent cannot load.
        """
        self.loader = function
        return function

    def list_sessions(self, function: F) -> F:
        """Declares the function that lists sessions. It gets a folder, or None for all sessions,
        and returns a list of `{"sessionId": …, "cwd": …}`. Without it the agent cannot list."""
        self.lister = function
        return function

    def close_session(self, function: F) -> F:
        """Declares the function that gets each `Session` which the client has closed, once the
        session's turns have ended."""
        self.closer = function
        return function

    def changed(self, function: F) -> F:
        """Declares the function that hears of the user's choices of modes and options: `(session,
        name, value)`; the name of the mode is `mode`. An exception refuses the choice."""
        self.chooser = function
        return function

    def extension(self, method: str) -> Callable[[F], F]:
        """Declares the function that takes a request or a notification that ACP does not have.

        The function gets the parameters, a dictionary, and returns the result. Raises
        `ValueError` for a method that does not begin with `_`.
        """
        if not method.startswith("_"):
            raise ValueError(f"`{method}`: extensions begin with `_`; ACP's methods have their own")

        def declare(function: F) -> F:
            self.extensions[method] = function
            return function

        return declare

    # -- running -------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the agent behind standard input and output, until the input ends.

        Last line of an agent's file, below `if __name__ == "__main__":`. Output of `print` goes to
        standard error, since standard output carries the protocol.
        """
        stdio.run(self)

    async def __call__(self, channel: Any) -> None:
        """Runs the agent in the conductor's own process (`py:module:agent`)."""
        running = Running(self, lambda line: channel.send(line.encode("utf-8", "surrogateescape")))
        try:
            while (line := await channel.receive()) is not None:
                running.feed(line.decode("utf-8", "surrogateescape"))
        finally:
            await running.end()
