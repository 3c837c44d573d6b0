"""A session of an agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .. import checked, names
from ..errors import ProxyError
from .servers import McpServer, opened

if TYPE_CHECKING:
    from .running import Running
    from .turns import Turn

NOT_FOUND = -32002
"""The code of ACP's error for a session, or a file, that there is none of."""


class UnknownSession(ProxyError):  # noqa: N818 - the name of an event
    """There is no session of this id."""

    def __init__(self, name: Any) -> None:
        super().__init__(f"Unknown session: {name!r:.200}", NOT_FOUND, {"sessionId": name})


class Session:
    """One session. `state`: the agent's own state of the session (`Agent(session=…)`)."""

    def __init__(self, running: Running, id: str, params: dict[str, Any]) -> None:  # noqa: A002
        self._running = running
        self.id = id
        self.params = params
        """The params with which the client set the session up."""
        self.cwd: str = params["cwd"]
        """The folder the client works in."""
        self.state: Any = running.agent.session_factory()
        self.options: dict[str, Any] = {n: o.first for n, o in running.agent.options.items()}
        """The chosen values, by the ids of `Agent(options=…)`."""
        self.replays = False
        """Whether the client wants to be shown its past, while it is loaded."""
        self.turns: list[Turn] = []
        self._submitted: dict[str, asyncio.Future[Any]] = {}
        """The answers to prompts that the client may send again (version 2), by their keys."""
        self.order = asyncio.Lock()
        """Held by the turn that runs."""
        self._count = 0

    @property
    def mode(self) -> str | None:
        """The mode it is in; None for an agent without modes."""
        return self.options.get("mode")

    @property
    def mcp_servers(self) -> list[dict[str, Any]]:
        """The MCP servers of the session, as ACP describes them; `mcp` connects to one of them."""
        return list(self.params.get("mcpServers") or [])

    def mcp(self, name: str) -> McpServer:
        """A connection to the MCP server of this name, opened by `async with`.

        Raises `McpError` if the session has none.
        """
        return opened(self._running, self, name)

    async def say(self, said: str | dict[str, Any]) -> None:
        """Shows the client text, or a content block, as the agent's; also between turns."""
        await self._chunk("agent_message_chunk", said)

    async def think(self, thought: str | dict[str, Any]) -> None:
        """Shows the client a thought."""
        await self._chunk("agent_thought_chunk", thought)

    async def show_user(self, *blocks: str | dict[str, Any]) -> None:
        """Shows the client the words of the user; for sessions that are loaded."""
        shown = [checked.block(block) for block in blocks]
        for update in self._running.acp.shape.user(shown, self.message_id("user")):
            self.send(update)
        await self._running.spoken()

    async def update(self, kind: str, **members: Any) -> None:
        """Sends any update. Raises `ValueError` for a kind that looks misspelt."""
        if "content" in members:
            members["content"] = checked.content(kind, members["content"])
        self.send({"sessionUpdate": names.update(kind), **members})
        await self._running.spoken()

    async def choose(self, option: str, value: Any) -> None:
        """Chooses an option, or the mode (`mode`), on the agent's own account. The client is shown
        the choice. Raises `ProxyError` for an option that does not exist."""
        options = self._running.agent.options
        from .options import chosen

        self.options[chosen(options, option, value)] = value
        self.send(self._running.acp.shape.option_changed(options, self.options, option))
        await self._running.spoken()

    def cancel(self) -> None:
        """Stops its turns."""
        for turn in self.turns:
            turn.cancel()

    # -- used inside ---------------------------------------------------------------------------

    def send(self, update: dict[str, Any]) -> None:
        """Queues an update."""
        self._running.notify("p", "session/update", {"sessionId": self.id, "update": update})

    def message_id(self, kind: str) -> str:
        """A name for a message that has begun."""
        self._count += 1
        return f"{kind}-{self._count}"

    def take_over(self, before: Session) -> None:
        """Goes on where the same session was, which is loaded once more."""
        self.state, self.options = before.state, before.options
        self.turns, self.order, self._count = before.turns, before.order, before._count
        self._submitted = before._submitted

    async def _chunk(self, kind: str, said: str | dict[str, Any]) -> None:
        members = {"messageId": self.message_id("agent")} if self._running.version == 2 else {}
        await self.update(kind, **members, content=said)

    def __repr__(self) -> str:
        return f"<Session {self.id!r}>"
