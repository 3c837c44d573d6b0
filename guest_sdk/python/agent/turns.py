"""A turn of an agent: a prompt, and the agent's work on the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from .. import checked
from ..content import BLOCKS
from ..errors import CANCELLED, ProxyError
from .shapes import V1
from .terminals import Terminal

if TYPE_CHECKING:
    from ..messages import Request
    from .declared import Agent
    from .sessions import Session

STOPS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
OPTIONS: Final = {
    "allow_once": "Allow once",
    "allow_always": "Always allow",
    "reject_once": "Reject",
    "reject_always": "Always reject",
}
"""The options of `Turn.ask`, where no others are given; the kinds are the ids."""


class NotOffered(ProxyError):  # noqa: N818 - the name of an event
    """The client did not name the capability that a call needs."""


class Permission:
    """The user's decision. `option`: the id of the option; None: the turn was cancelled."""

    def __init__(self, option: str | None, kind: str = "") -> None:
        self.option = option
        self.kind = kind
        """`allow_once`, `allow_always`, `reject_once` or `reject_always`."""

    @property
    def allowed(self) -> bool:
        """Whether the user allows it."""
        return self.kind.startswith("allow")

    def __bool__(self) -> bool:
        return self.allowed

    def __repr__(self) -> str:
        return f"<Permission {self.option!r}>"


class ToolCall:
    """A tool call that the client shows; `async with turn.tool_call("…") as call`.

    The call is in progress within the block, and then `completed`; `failed` if the block raises.
    """

    def __init__(self, turn: Turn, id: str, title: str, members: dict[str, Any]) -> None:  # noqa: A002
        self._turn = turn
        self.id = id
        self.title = title
        self._members = members
        self._ended = False

    async def __aenter__(self) -> Self:
        begins = {"title": self.title, "status": "in_progress", **self._members}
        await self._send(begins, first=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._ended:
            await self._send({"status": "completed" if error is None else "failed"})

    async def update(self, **members: Any) -> None:
        """Shows more of the call: `title`, `status`, `content` (text, blocks, or ACP's diffs and
        terminals, one or several), `locations`, `rawInput`, `rawOutput`."""
        self._ended = members.get("status") in ("completed", "failed") or self._ended
        await self._send(members)

    async def _send(self, members: dict[str, Any], *, first: bool = False) -> None:
        if "content" in members:
            members = {**members, "content": _shown(members["content"])}
        call = {"toolCallId": self.id, **members}
        self._turn.session.send(self._turn.shape.tool_call(call, first=first))
        await self._turn.spoken()


class Turn:
    """One prompt in one session; the argument of the function of `@agent.prompt`."""

    def __init__(self, session: Session, request: Request, agent: Agent) -> None:
        self._running = session._running
        self._request = request
        self._agent = agent
        self.session = session
        self.shape = self._running.acp.shape
        self.task: asyncio.Task[Any]
        self.begun: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        """The answer to the prompt in version 2."""
        self.accepted = asyncio.Event()
        """Set once the answer is written: nothing of the turn may overtake the answer."""
        self._ids: dict[str, str] = {}
        self._calls = 0

    # -- the prompt ----------------------------------------------------------------------------

    @property
    def prompt(self) -> list[dict[str, Any]]:
        """The blocks of the prompt."""
        return list(self._request.params["prompt"])

    @property
    def text(self) -> str:
        """The text blocks of the prompt, joined by newlines."""
        return self._request.text

    @property
    def state(self) -> Any:
        """The agent's own state of the session."""
        return self.session.state

    @property
    def client(self) -> dict[str, Any]:
        """The client's capabilities, in the words of the version of ACP."""
        return self._running.acp.client

    @property
    def version(self) -> int:
        """The version of ACP that is spoken: 1 or 2."""
        return self.shape.number

    # -- messages to the client ----------------------------------------------------------------

    async def say(self, said: str | dict[str, Any]) -> None:
        """Says text, or a content block; all text of a turn is one message."""
        await self._chunk("agent", "agent_message_chunk", said)

    async def think(self, thought: str | dict[str, Any]) -> None:
        """Shows a thought."""
        await self._chunk("thought", "agent_thought_chunk", thought)

    async def plan(self, entries: Sequence[str | dict[str, Any]]) -> None:
        """Shows the whole plan: texts, or ACP's entries, which have a `status` and a `priority`."""
        usual = {"priority": "medium", "status": "pending"}
        known = [{"content": one} if isinstance(one, str) else one for one in entries]
        self.session.send(self.shape.plan([{**usual, **one} for one in known]))
        await self.spoken()

    def tool_call(self, title: str, *, kind: str = "other", **members: Any) -> ToolCall:
        """A tool call; `async with` shows it. `members`: further members, such as `rawInput`."""
        self._calls += 1
        name = f"{self.session.message_id('call')}"
        return ToolCall(self, name, title, {"kind": kind, **members})

    async def update(self, kind: str, **members: Any) -> None:
        """Sends any update. Raises `ValueError` for a kind that looks misspelt."""
        await self.session.update(kind, **members)

    # -- requests to the client ----------------------------------------------------------------

    async def ask(
        self,
        title: str,
        *,
        call: ToolCall | None = None,
        options: Sequence[dict[str, Any]] | dict[str, str] = OPTIONS,
    ) -> Permission:
        """Asks the user to permit something; true if they do.

        `call`: the tool call that needs permission; None: a new one. `options`: names by kind
        (`allow_once` …), or ACP's options.
        """
        if isinstance(options, dict):
            options = [
                {"optionId": kind, "name": name, "kind": kind} for kind, name in options.items()
            ]
        held = {"toolCallId": call.id if call is not None else self.session.message_id("call")}
        if call is None:
            held |= {"title": title, "kind": "other", "status": "pending"}
        params = {**self.shape.permission(title, held), "options": list(options)}
        outcome = _member(await self._blocked("session/request_permission", params), "outcome")
        if outcome.get("outcome") != "selected":
            return Permission(None)
        chosen = str(outcome.get("optionId"))
        kinds = {str(one.get("optionId")): str(one.get("kind")) for one in options}
        return Permission(chosen, kinds.get(chosen, ""))

    async def read(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file, as the editor has it, also if it is not saved.

        Raises `NotOffered` if the client cannot.
        """
        self._needs("fs", "readTextFile")
        where = {"line": line, "limit": limit}
        more = {name: value for name, value in where.items() if value is not None}
        held = await self.ask_client("fs/read_text_file", path=path, **more)
        content = held.get("content") if isinstance(held, dict) else None
        if not isinstance(content, str):
            raise ProxyError("the client answered `fs/read_text_file` without `content`")
        return content

    async def write(self, path: str, content: str) -> None:
        """Writes a file by the editor. Raises `NotOffered` if the client cannot."""
        self._needs("fs", "writeTextFile")
        await self.ask_client("fs/write_text_file", path=path, content=content)

    def terminal(
        self,
        command: str,
        *arguments: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
    ) -> Terminal:
        """A command that the client runs; `async with` starts it, and ends it.

        Raises `NotOffered` if the client cannot.
        """
        self._needs("terminal")
        variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
        params = {"command": command, "args": list(arguments), "cwd": cwd or self.session.cwd}
        return Terminal(self, {**params, "env": variables} if variables else params)

    async def ask_client(self, method: str, **params: Any) -> Any:
        """Sends the client a request in this session; its result. Raises `Answered`."""
        return await self._running.ask(method, {"sessionId": self.session.id, **params})

    def tell_client(self, method: str, **params: Any) -> None:
        """Sends the client a notification in this session."""
        self._running.notify("p", method, {"sessionId": self.session.id, **params})

    def cancel(self) -> None:
        """Stops it, as the user does."""
        from .running import stop

        stop(self.task)

    # -- its life ------------------------------------------------------------------------------

    async def run(self) -> dict[str, Any]:
        """Runs the turn, once the turns before it are done. Returns the answer of version 1."""
        try:
            async with self.session.order:
                return await self._run()
        except asyncio.CancelledError:
            if self.shape is V1:
                return {"stopReason": "cancelled"}
            if not self.begun.done():
                self.begun.set_exception(ProxyError("Request cancelled", CANCELLED))
        return {}

    async def _run(self) -> dict[str, Any]:
        if self.shape is V1:
            return {"stopReason": await self._answered()}
        self._state("running")
        name = self._message_id("user")
        for update in self.shape.user(self.prompt, name):
            self.session.send(update)
        self.begun.set_result({"messageId": name})
        try:
            await self.accepted.wait()
            stop: dict[str, Any] = {"stopReason": await self._answered()}
        except asyncio.CancelledError:
            stop = {"stopReason": "cancelled"}
        except Exception as error:  # the prompt is answered already
            known = isinstance(error, ProxyError)
            told = error if known else self._running.failed("session/prompt", error)
            assert isinstance(told, ProxyError)
            stop = {"stopReason": "error", "error": told.body()}
        self._state("idle", **stop)
        return {}

    async def _answered(self) -> str:
        """Has the author's function answer; the stop reason."""
        function = self._agent.answerer
        if function is None:
            raise ProxyError(f"agent `{self._agent.name}` has no function for prompts")
        found = await function(self)
        if found is not None and found not in STOPS:
            known = ", ".join(STOPS)
            raise TypeError(
                f"{checked.place(function)} returned {found!r}; a stop reason is: {known}"
            )
        return "cancelled" if self.task.cancelling() else found or "end_turn"

    async def _blocked(self, method: str, params: dict[str, Any]) -> Any:
        """Asks something that the user must answer."""
        if self.shape is V1:
            return await self.ask_client(method, **params)
        self._state("requires_action")
        try:
            return await self.ask_client(method, **params)
        finally:
            self._state("running")

    def _state(self, state: str, **more: Any) -> None:
        self.session.send({"sessionUpdate": "state_update", "state": state, **more})

    async def spoken(self) -> None:
        """Lets messages leave; waits while the client does not read."""
        await self._running.spoken()

    def _message_id(self, kind: str) -> str:
        if kind not in self._ids:
            self._ids[kind] = self.session.message_id(kind)
        return self._ids[kind]

    async def _chunk(self, who: str, kind: str, said: str | dict[str, Any]) -> None:
        named = {} if self.shape is V1 else {"messageId": self._message_id(who)}
        self.session.send({"sessionUpdate": kind, **named, "content": checked.block(said)})
        await self.spoken()

    def _needs(self, *path: str) -> None:
        value: Any = self.client if self.shape is V1 else {}  # version 2 has neither
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not True:
            raise NotOffered(f"the client does not offer `{'.'.join(path)}`")


def _member(held: Any, name: str) -> dict[str, Any]:
    found = held.get(name) if isinstance(held, dict) else None
    return found if isinstance(found, dict) else {}


def _shown(content: Any) -> list[dict[str, Any]]:
    """The content of a tool call, as ACP has it."""
    shown = []
    for one in content if isinstance(content, (list, tuple)) else [content]:
        block = checked.block(one)
        wrapped = block.get("type") in BLOCKS
        shown.append({"type": "content", "content": block} if wrapped else block)
    return shown
