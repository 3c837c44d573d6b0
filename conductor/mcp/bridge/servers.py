"""The MCP servers that components declared, and the setups they were declared in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from conductor.mcp.bridge.declarations import Declared
from conductor.mcp.bridge.generations import LADDERS, Carried, Generation

if TYPE_CHECKING:
    from conductor.mcp.bridge.calls import Call
    from conductor.mcp.bridge.clients import Client
    from conductor.mcp.bridge.downgrade import Downgrade
    from conductor.mcp.bridge.providers import Provider


class Setup:
    """One `session/new`, `load`, `resume` or `fork`, and the servers declared in it."""

    def __init__(
        self, number: int, session: bytes | None, on_wait: Callable[[Setup], None]
    ) -> None:
        """`on_wait` is called when somebody begins to wait for the session's id."""
        self.number = number
        self.session = session
        """Raw JSON of the session's id, once it is known."""
        self.servers: list[Server] = []
        self.settled = session is not None
        """Whether nobody has to wait for the session's id (any more)."""
        self._waiting: list[Callable[[], None]] = []
        self._on_wait = on_wait

    def settle(self, session: bytes | None) -> None:
        """The session's id is known, or nobody waits for it any longer (None)."""
        self.session = session if session is not None else self.session
        self.settled = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()

    def when_settled(self, then: Callable[[], None]) -> None:
        """Calls `then` when the session's id is known."""
        if self.settled:
            then()
            return
        if not self._waiting:
            self._on_wait(self)
        self._waiting.append(then)


class Server:
    """One declared server: which generation its component speaks, and who is connected to it."""

    def __init__(self, setup: Setup, declared: Declared, listener: str, name: str) -> None:
        self.setup = setup
        self.declared = declared
        self.listener = listener
        self.name = name
        """What the agent calls it."""
        self.ladder = LADDERS[declared.form]
        self.generation = self.ladder[0]
        self.confirmed = len(self.ladder) == 1
        """Whether the component has shown that this is its generation."""
        self.discovered: bytes | None = None
        """What a stateless server says of itself (the result of `server/discover`)."""
        self.providers: list[Provider] = []
        self.clients: list[Client] = []
        self.shared: Downgrade | None = None
        """The session all clients without sessions share, where the component has one."""
        self.calls: dict[str, Call] = {}
        """Open requests by `requestId`, or by progress token in generations without connections."""
        self.unanswered = 0
        """Requests to the component that it has not answered, those nobody waits for included."""
        self._last = 0

    @property
    def label(self) -> str:
        """How errors call it."""
        return f"MCP server `{self.name}`"

    def fresh(self) -> int:
        """A number not used before for this server."""
        self._last += 1
        return self._last

    def after(self, generation: Generation) -> Generation | None:
        """What to try when the component does not know `generation`."""
        at = self.ladder.index(generation) + 1
        return self.ladder[at] if not self.confirmed and at < len(self.ladder) else None

    def prefer(self, generation: Generation) -> None:
        """Whoever asks speaks `generation`: it is tried first, where the declaration is in a form
        of it. (Components of the stateless one declare as others do, and are told by that.)"""
        if generation in self.ladder and not self.confirmed and not self.ladder[0].stateless:
            others = (one for one in self.ladder if one is not generation)
            self.generation, self.ladder = generation, (generation, *others)

    def confirm(self, generation: Generation) -> None:
        """The component has shown that it speaks `generation`."""
        self.generation, self.confirmed = generation, True

    def provider_for(self, message: Carried) -> tuple[Provider | None, Call | None]:
        """Whom of the connected a message of the component is for, and which request it is about.

        Generations without connections name the server only: the message is for whoever has
        asked it something last.
        """
        if message.request_id is not None:
            call = self.calls.get(message.request_id)
            return (call.provider if call is not None else None), call
        for provider in self.providers:
            if message.connection is not None and provider.connection == message.connection:
                return provider, None
        if message.connection is None and self.providers:
            return max(self.providers, key=lambda one: (one.latest, one.number)), None
        return None, None

    def close(self) -> None:
        """Drops everybody connected, and tells the component."""
        for client in list(self.clients):
            client.drop()
        if self.shared is not None:
            self.shared.close()
            self.shared = None
