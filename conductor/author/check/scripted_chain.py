"""One component between a scripted client and a scripted agent, under a real runtime.

Both ends receive and send raw lines. A request that no check waits for is answered as an editor or
an agent would. Nothing here measures time: the arrival of a later message shows that an earlier one
is lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from conductor import tasks
from conductor.author.check.scripted_end import (
    BARRIER,
    Fault,
    Received,
    ScriptedEnd,
    session_of,
    shown,
)
from conductor.core import json_text
from conductor.transports.base import Ended, Transport, Wrapper

T = TypeVar("T")
U = TypeVar("U")
_REPORTED: Final = 12
"""Messages that a report shows."""


class Tap(Wrapper):
    """The component's transport, which records its messages and its end."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.lines: list[bytes] = []
        """Raw lines that the component sent."""
        self.given: list[bytes] | None = None
        """Raw lines it got, if a check sets this to a list: most would only fill memory."""
        self.how: Ended | None = None
        self.ended_itself = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Records lines that go to the component."""
        if self.given is not None:
            self.given += data.split(b"\n")[:-1]
        super().write(data)

    def received(self, frames: list[bytes]) -> None:
        """Records lines that come from it."""
        self.lines += frames
        super().received(frames)

    def ended(self, how: Ended) -> None:
        """Records how it ended."""
        self.how = how
        self.ended_itself.set()
        super().ended(how)


class ScriptedChain:
    """The chain that a check uses: both ends, the tap between, and the steps of most checks."""

    def __init__(self, folder: str) -> None:
        """`folder`: for its sessions, and for the files that the component may read."""
        self.cwd = json_text.encode(folder)
        self._traffic: deque[str] = deque(maxlen=_REPORTED)
        self.client = ScriptedEnd("client", self._on_line)
        self.agent = ScriptedEnd("agent", self._on_line)
        self.stderr: deque[str] = deque(maxlen=20)
        self.memory = 0
        """Bytes of memory the component may have, if it is a guest."""
        self.dialect: Callable[[], str] = lambda: ""
        """The component's dialect; empty until it is known."""
        self._tap: Tap | None = None
        self._sessions = 0
        self.agent.replies |= {
            "initialize": lambda _: _INITIALIZED,
            "session/new": self._new_session,
            "session/prompt": self._prompt,
            "session/load": lambda _: b"{}",
            "session/resume": lambda _: b"{}",
        }
        cancelled = b'{"outcome":{"outcome":"cancelled"}}'
        self.client.replies["session/request_permission"] = lambda _: cancelled

    @property
    def tap(self) -> Tap:
        """The component's transport."""
        assert self._tap is not None
        return self._tap

    def tapped(self, transport: Transport) -> Tap:
        """The component's transport from now on."""
        self._tap = Tap(transport)
        return self._tap

    @property
    def directions(self) -> tuple[tuple[ScriptedEnd, ScriptedEnd], ...]:
        """Down and up: the end that sends, and the end that receives."""
        return (self.client, self.agent), (self.agent, self.client)

    @property
    def traffic(self) -> list[str]:
        """The last messages, for people."""
        return list(self._traffic)

    def _on_line(self, name: str, verb: str, line: bytes) -> None:
        if BARRIER.encode() not in line:
            self._traffic.append(f"{name} {verb} {shown(line.rstrip())}")

    def _new_session(self, _: Received) -> bytes:
        self._sessions += 1
        return b'{"sessionId":"check-%d"}' % self._sessions

    def _prompt(self, request: Received) -> bytes:
        update = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"ok"}}'
        session = request.session or b'""'
        self.agent.notify("session/update", b'{"sessionId":%b,"update":%b}' % (session, update))
        return b'{"stopReason":"end_turn"}'

    # -- steps of most checks ------------------------------------------------------------------

    async def initialize(
        self, params: bytes = b'{"protocolVersion":1,"clientCapabilities":{}}'
    ) -> bytes:
        """Initializes the chain; the result as the client receives it."""
        await self.client.opened()
        return await self.client.request("initialize", params).result()

    async def session(self) -> bytes:
        """Opens a session; its raw id."""
        params = b'{"cwd":%b,"mcpServers":[]}' % self.cwd
        result = await self.client.request("session/new", params).result()
        session = session_of(result)
        if session is None or session == b"null":
            raise Fault("the answer to `session/new` has no sessionId", came=result)
        return session

    async def settled(self, sender: ScriptedEnd) -> None:
        """Returns when everything this end has sent so far must have arrived."""
        answer = await sender.request(BARRIER).answer()
        if answer.result is None:
            raise Fault(
                f"a request it does not know (`{BARRIER}`) was not passed on",
                came=answer.error or b"",
            )

    async def passed(self, source: ScriptedEnd, target: ScriptedEnd, method: str) -> Received:
        """The message of this method that `source` has sent, at `target`.

        Raises `Fault` if a later message arrives and this one does not.
        """
        message = target.take(method)
        if message is not None:
            return message
        barrier = self.settled(source)
        message = await first(target.next(method), barrier)
        message = message or target.take(method)
        if message is None:
            raise Fault(f"`{method}` never reached the {target.name}, a later message did")
        return message


_INITIALIZED: Final = (
    b'{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"authMethods":[]}'
)


async def first(preferred: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> T | U:
    """The result or error of the first of two to end, `preferred` if both have; ends the other."""
    done: dict[int, asyncio.Future[T | U]] = {}

    async def wait(place: int, work: Coroutine[Any, Any, T | U]) -> None:
        ended: asyncio.Future[T | U] = asyncio.get_running_loop().create_future()
        try:
            ended.set_result(await work)
        except Exception as error:
            ended.set_exception(error)
        done[place] = ended

    await tasks.first(partial(wait, 0, preferred), partial(wait, 1, other))
    results = [done[place] for place in sorted(done)]
    for late in results[1:]:
        late.exception()  # nobody needs it
    return results[0].result()
