"""Tests of an agent without a process: its client, in memory.

@played
async def test_parrot():
    async with AgentPlayground(agent) as p:
        heard = await p.prompt("hello")
        assert heard.text == "You said: hello"
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from ..errors import METHOD_NOT_FOUND, ProxyError
from ..jsontext import dumps, loads
from ..records import Record
from .running import Running

if TYPE_CHECKING:
    from .declared import Agent

_SAID = "agent_message_chunk"


class Heard:
    """The updates that the client got in one turn. `text`: all words of the agent. `updates`:
    all."""

    def __init__(self, stop_reason: str, updates: list[Record]) -> None:
        self.stop_reason = stop_reason
        self.updates = updates
        said = [one.content.raw for one in updates if one.get("sessionUpdate") == _SAID]
        self.text = "".join(str(one.get("text", "")) for one in said)


class AgentPlayground:
    """A client for one agent.

    Args:
        agent: the agent.
        version: of ACP.
        client: answers the agent's requests: called with each request (`Record`: `method`,
            `params`), sync or async; returns the result. None: a request is refused.
        capabilities: the client's capabilities.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        version: int = 1,
        client: Callable[[Record], Any] | None = None,
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        self._agent = agent
        self._version = version
        self._client = client
        self._capabilities = capabilities or {}
        self._running: Running
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._turns: dict[str, list[asyncio.Future[str]]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._count = 0
        self.heard: list[Record] = []
        """All that the client was sent but answers, in order."""
        self.session = ""
        """The session `prompt` uses, opened when first needed."""

    async def __aenter__(self) -> Self:
        self._running = Running(self._agent, self._received)
        info = {"name": "playground", "version": "1"}
        name = "clientCapabilities" if self._version == 1 else "capabilities"
        params = {"protocolVersion": self._version, "info": info, name: self._capabilities}
        self.initialized = await self.request("initialize", params)
        return self

    async def __aexit__(self, *exception: object) -> None:
        for task in self._answering:
            task.cancel()
        await self._running.end()

    async def request(self, method: str, params: Any) -> Any:
        """Sends any request; its result. Raises `ProxyError` for an error."""
        return await self._sent(method, params)

    def notify(self, method: str, params: Any) -> None:
        """Sends a notification."""
        self.feed(dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    async def new_session(self, cwd: str = "/project", **params: Any) -> Any:
        """Opens a session, which `prompt` uses from now on; the whole answer."""
        setup = {"cwd": cwd, "mcpServers": [], **params}
        result = await self.request("session/new", setup)
        self.session = str(result["sessionId"])
        return result

    async def prompt(self, *blocks: str | dict[str, Any], session: str = "") -> Heard:
        """Prompts, and waits for the end of the turn. Raises `ProxyError` for an error."""
        if not (session or self.session):
            await self.new_session()
        session = session or self.session
        mark = len(self.heard)
        content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
        idle: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        turns = self._turns.setdefault(session, [])
        turns.append(idle)
        try:
            result = await self.request("session/prompt", {"sessionId": session, "prompt": content})
        except ProxyError:
            turns.remove(idle)
            raise
        stop = result["stopReason"] if self._version == 1 else await idle
        updates = [
            Record(one.raw["params"]["update"])
            for one in self.heard[mark:]
            if one.raw.get("method") == "session/update"
            and one.raw["params"].get("sessionId") == session
        ]
        return Heard(str(stop), updates)

    def cancel(self, session: str = "") -> None:
        """Stops the turn that runs."""
        self.notify("session/cancel", {"sessionId": session or self.session})

    def feed(self, line: str) -> None:
        """Gives the agent a raw line."""
        self._running.feed(line)

    # -- messages of the agent -----------------------------------------------------------------

    def _sent(self, method: str, params: Any) -> asyncio.Future[Any]:
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self.feed(dumps(request))
        return answer

    def _received(self, line: str) -> None:
        said = loads(line)
        if "method" not in said and said.get("id") in self._answers:
            answer = self._answers.pop(said["id"])
            error = said.get("error")
            if answer.done():
                return
            if error is None:
                answer.set_result(said.get("result"))
            else:
                answer.set_exception(
                    ProxyError(error.get("message", ""), error.get("code", 0), error.get("data"))
                )
            return
        record = Record(said)
        self.heard.append(record)
        if "id" in said and "method" in said:
            task = asyncio.get_running_loop().create_task(self._answer(record))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        elif said.get("method") == "session/update":
            self._updated(said["params"])

    def _updated(self, params: dict[str, Any]) -> None:
        update = params["update"]
        if update.get("sessionUpdate") == "state_update" and update.get("state") == "idle":
            turns = self._turns.get(params["sessionId"])
            if turns:
                turns.pop(0).set_result(update.get("stopReason", "end_turn"))

    async def _answer(self, request: Record) -> None:
        head = {"jsonrpc": "2.0", "id": request.raw["id"]}
        try:
            if self._client is None:
                raise ProxyError(f"Method not found: {request.method}", METHOD_NOT_FOUND)
            result = self._client(request)
            result = await result if isinstance(result, Awaitable) else result
        except ProxyError as error:
            self.feed(dumps({**head, "error": error.body()}))
        else:
            self.feed(dumps({**head, "result": result}))
