"""Sessions as a proxy sees them, and sessions of its own behind the client's back."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from . import checked, keeping, names
from .editor import Editor
from .errors import METHOD_NOT_FOUND, Cancelled, ProxyError
from .messages import Request, Update, text
from .nested import Nested
from .recorder import EVENT
from .retelling import END, TOLD, in_words, updates
from .tasks import Waiter
from .turns import OwnTurn, Running, Turn, begin

if TYPE_CHECKING:
    from .conversation import Conversation
    from .links import Declared
    from .openings import Opening
    from .records import Record
    from .servers import Server
    from .speaker import Speaker

_TEXT = "agent_message_chunk"


@dataclass
class UsedAgent:
    """With which agent a session goes on."""

    agent: str
    agents: list[str]
    """All agents that the proxy may choose; the chain's is the first."""
    unset: list[str]
    """The user's settings that the agent refused."""


class Session:
    """A session of the client. `state`: the proxy's own data, gone when the session is closed."""

    __slots__ = (
        "_editor", "_engine", "_kept", "_state", "began", "cwd", "id", "opening", "replaying",
        "told",
    )  # fmt: skip

    def __init__(
        self,
        engine: Speaker,
        id: str,  # noqa: A002 - the protocol's name
        kept: keeping.Kept | None = None,
    ) -> None:
        held = kept or {}
        self._engine = engine
        self._editor: Editor | None = None
        self._state: Any = None
        self._kept: dict[str, Any] | None = held.get("state")
        self.told: keeping.Kept | None = kept
        """The members that the conductor keeps for the next instance of the proxy; None: none."""
        self.id = id
        self.cwd: str | None = held.get("cwd")
        """The folder the client works in, once a setup of the session has passed."""
        self.began: str | None = held.get("began")
        """The request that last set it up, e.g. `session/new`; None if none has passed."""
        self.opening: Opening | None = None
        """The proxy's words before the first prompt (`Proxy.opening`), once they were begun."""
        self.replaying = 0
        """How many loads of it are under way."""

    @property
    def state(self) -> Any:
        """The object of `Proxy(session=…)` for this session, made at its first use."""
        if self._state is None:
            self._state = self._engine.proxy.session_factory()
            if self._kept:
                keeping.restore(self._state, self._kept)
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._state = value

    @property
    def editor(self) -> Editor:
        """The user's editor: panels, comments in files, operations, log lines."""
        if self._editor is None:
            self._editor = Editor(self._engine, self)
        return self._editor

    def keep(self, *names: str) -> None:
        """Has the conductor keep this session for the next instance of the proxy, after a failure
        or a new build. There the session has its `cwd`, its `began`, and these members of its
        `state`, or all of them.

        Call it when they have changed; unchanged members cost nothing. The state is a
        dataclass, or the default without `Proxy(session=…)`; its members are JSON, or dataclasses
        and sets of JSON. It is gone when the session is closed, and when the conductor ends.
        Raises `TypeError` for other states.
        """
        held = {
            "session": self.id,
            "cwd": self.cwd,
            "began": self.began,
            "state": keeping.members(self.state, names),
        }
        if held != self.told:
            self._engine.notify("c", "keep", {keeping.of_session(self.id): held})
            self.told = held

    def update(self, kind: str, **members: Any) -> None:
        """Sends the client an update of the session, as if the agent had.

        Raises `ValueError` for a kind that looks misspelt, `TypeError` for no content.
        """
        if "content" in members:
            members["content"] = checked.content(kind, members["content"])
        update = {"sessionUpdate": names.update(kind), **members}
        params = {"sessionId": self.id, "update": update}
        self._engine.notify("p", "session/update", params)

    def say(self, said: str, **members: Any) -> None:
        """Shows the client text, as if the agent had said it. `members`: of the update, too."""
        self.update(_TEXT, **self._engine.message_id(), content=text(said), **members)

    def think(self, thought: str, **members: Any) -> None:
        """Shows the client text as a thought. `members`: of the update, too."""
        named = self._engine.message_id()
        self.update("agent_thought_chunk", **named, content=text(thought), **members)

    def nested(self, title: str) -> Nested:
        """An exchange that a client may show apart: `review = session.nested("Review")`, then
        `await review.prompt("…")` or `review.say("…")`. Raises `TypeError` for no text."""
        if not isinstance(title, str):
            raise TypeError(f"the title of an exchange is text, not {title!r}")
        return Nested(self._engine, self, self._engine.unique(), title)

    def event(self, kind: str, said: str, data: Any = None) -> None:
        """Shows the client text that is an event of the conversation, too: a `walkthrough`, a
        `comment`. `data`: any JSON, for readers who know the kind."""
        meta = {EVENT: {"kind": kind, "data": data}}
        self.update(_TEXT, **self._engine.message_id(), content=text(said), _meta=meta)

    def replay(self, conversation: Conversation) -> None:
        """Shows the client a conversation, as `session/load` does, by updates of the session."""
        for update in updates(conversation, self._engine.version or 1):
            self._engine.notify("p", "session/update", {"sessionId": self.id, "update": update})

    async def preload(self, conversation: Conversation) -> Turn:
        """Tells the agent a conversation, so that the agent goes on from there; the agent's answer.

        For agents that take no conversation in `session/new`: a hidden prompt has the last 100,000
        characters in words.
        """
        return await self.prompt(f"{TOLD}{in_words(conversation)}\n{END}", show=False)

    def turn(self, *, show: bool = True) -> OwnTurn:
        """A turn of the proxy's own in this session: `async with session.turn() as turn:
        await turn.prompt("…")`.

        It begins once nobody prompts there, or at once in a handler of the user's prompt that has
        not passed it on; until it ends, prompts of others wait. `show`: whether the client sees
        the agent's words. The client always sees questions to the user, and updates of the session
        as a whole. Raises `Refused` without `prompt:within`.
        """
        return OwnTurn(self._engine, self.id, show)

    async def prompt(self, *blocks: str | dict[str, Any] | Record, show: bool = True) -> Turn:
        """A turn of one prompt; the agent's answer. Its next words to a prompt of the
        user's that the proxy holds are parted from the shown ones."""
        async with self.turn(show=show) as turn:
            return await turn.prompt(*blocks)

    async def rebind(self, to: SubSession | str | None) -> None:
        """Has this session go on with the agent as another session, which the proxy has opened. The
        client's acts in this session happen there from now on, and the client hears of the other
        session as of this one. None: this session is itself again.

        The two change places: under the other's id the proxy then finds the former session.
        Raises `Refused` without the right `prompt:unseen`, and for a session that is not its own.
        """
        id_ = to.id if isinstance(to, SubSession) else to or self.id
        await self._engine.serve("rebind", {"sessionId": self.id, "to": id_})

    async def use_agent(self, name: str = "") -> UsedAgent:
        """Has this session go on with another agent of the chain; without a name it returns the
        present agent.

        It takes a prompt of the user's that the proxy has not passed on. The new agent does
        not know the conversation: see `in_words`. Raises `Refused` without the right `agent:NAME`,
        and `ProxyError` where the agent does not take the session.
        """
        params = {"sessionId": self.id, **({"agent": name} if name else {})}
        told = await self._engine.serve("agent/use", params)
        return UsedAgent(told["agent"], list(told["agents"]), list(told["unset"]))

    def __repr__(self) -> str:
        return f"<Session {self.id!r}>"


Asked = Callable[[Request], Any]
"""Answers a request of the agent in a sub-session: a result, or an awaitable of a result."""

Seen = Callable[[Update], Any]
"""Takes each update of a turn as it comes."""


class SubSession:
    """A session that the proxy opens with the agent; the client never hears of it.

    `async with proxy.subsession(cwd="/project") as sub: answer = await sub.prompt("…")`. The
    agent's requests in it (permissions, files) are refused, unless `on_request` answers them. At
    the end of the block the agent stops its work there, and closes the session where it can.
    """

    def __init__(
        self,
        engine: Speaker,
        params: dict[str, Any],
        on_request: Asked | None,
        servers: Iterable[Server] = (),
        session: Session | None = None,
    ) -> None:
        self._engine = engine
        self._params = params
        self._on_request = on_request
        self._servers = tuple(servers)
        self._session = session
        self._offered: list[Declared] = []
        self._running: Running | None = None
        self._seen: Seen | None = None
        self._left = False
        self.id = ""

    async def __aenter__(self) -> Self:
        self._offer()
        opened: Waiter[Any] = self._engine.request("s", "session/new", self._params)
        # Its first updates may come in the same delivery as the answer.
        opened.then(lambda: self._opened(opened))
        try:
            await opened
        except Cancelled:
            self._left = True
            raise
        except ProxyError:
            self._withdraw()
            raise
        return self

    def _offer(self) -> None:
        """Declares the servers that are for this session alone."""
        if not self._servers:
            return
        if self._engine.mcp is None:
            raise RuntimeError("a proxy that serves no tool has no servers for sessions of its own")
        self._offered = self._engine.mcp.offer(self._servers, self._session)
        entries = [one.entry(one.server.name or self._engine.name) for one in self._offered]
        self._params = {**self._params, "mcpServers": [*self._params["mcpServers"], *entries]}

    def _withdraw(self) -> None:
        if self._engine.mcp is not None:
            self._engine.mcp.withdraw(self._offered)

    def _opened(self, opened: Waiter[Any]) -> None:
        try:
            self.id = str(opened.result()["sessionId"])
        except (ProxyError, KeyError, TypeError):
            return  # the error reaches whoever awaits the answer
        self._engine.adopt(self)
        if self._left:  # nobody waits for it any more
            self._close()

    async def __aexit__(self, *exception: object) -> None:
        self._close()

    def _close(self) -> None:
        """Ends it. Nobody is shown later messages of the agent in it."""
        self._on_request = None
        self._withdraw()
        if self._running is not None and not self._running.over.done:
            self.cancel()
        self._running = None
        closed: Waiter[Any] = self._engine.request("s", "session/close", {"sessionId": self.id})
        closed.then(lambda: self._closed(closed))

    def _closed(self, closed: Waiter[Any]) -> None:
        with contextlib.suppress(ProxyError):  # an agent that closes none may still speak in it
            closed.result()
            self._engine.disown(self)

    async def prompt(
        self, *blocks: str | dict[str, Any] | Record, on_update: Seen | None = None
    ) -> Turn:
        """Prompts the agent with text or content blocks; the agent's answer. `on_update` gets each
        update as it comes."""
        running = self._running = Running()
        self._seen = on_update
        begin(self._engine, self.id, blocks, running)
        await running.over
        return running.turn()

    def cancel(self) -> None:
        """Stops the turn that runs."""
        self._engine.notify("s", "session/cancel", {"sessionId": self.id})

    def updated(self, update: Update) -> None:
        """Keeps an update for the turn that runs."""
        if self._running is not None:
            show(self._engine, self._seen, update)
            self._running.heard(update)

    async def asked(self, request: Request) -> Any:
        """The answer to a request of the agent."""
        return await answered(self._on_request, request)


def show(engine: Speaker, seen: Seen | None, update: Update) -> None:
    """Calls `on_update` as a handler is called: the log has its mistakes."""

    async def called() -> None:
        found = seen(update) if seen is not None else None
        if isinstance(found, Awaitable):
            await found

    if seen is not None:
        engine.start(called(), "`on_update`")


async def answered(on_request: Asked | None, request: Request) -> Any:
    """The answer to a request of the agent in a session that is not the client's. Raises
    `ProxyError` where nobody answers."""
    if on_request is not None:
        answer = on_request(request)
        return await answer if isinstance(answer, Awaitable) else answer
    if request.method == "session/request_permission":
        return {"outcome": {"outcome": "cancelled"}}
    raise ProxyError(f"`{request.method}` is not available in this session", METHOD_NOT_FOUND)


__all__ = ["Asked", "OwnTurn", "Seen", "Session", "SubSession", "Turn"]
