"""One component between a scripted client and a scripted agent, under a real runtime.

Both ends hear raw lines and say raw lines. What nobody waits for is answered as an editor or an
agent would. Nothing here measures time: that a message was lost is seen by a later one arriving.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from conductor.author.check import values
from conductor.author.check.ends import BARRIER, Asked, End, Fault, Heard, Skipped, session_of
from conductor.author.check.tap import Tap

_KEPT: Final = 12
"""Messages that a report shows."""


class Chain:
    """What a check is given: both ends, and what it takes to use them."""

    def __init__(self, name: str, folder: str) -> None:
        """`folder`: where its sessions are, and the component reads files if it was granted to."""
        self.proxy = name
        self.cwd = msgspec.json.encode(folder)
        self._traffic: deque[str] = deque(maxlen=_KEPT)
        self.client = End("client", self._log)
        self.agent = End("agent", self._log)
        self.tap: Tap | None = None
        self.stderr: deque[str] = deque(maxlen=20)
        self.memory = 0
        """Bytes of memory it may have, if it is a guest."""
        self.dialect: Callable[[], str] = lambda: ""
        """What the component speaks, as far as that is known."""
        self._sessions = 0
        self.agent.replies |= {
            "initialize": self._initialized,
            "session/new": self._opened,
            "session/prompt": self._prompted,
            "session/load": lambda _: b"{}",
            "session/resume": lambda _: b"{}",
        }
        cancelled = b'{"outcome":{"outcome":"cancelled"}}'
        self.client.replies["session/request_permission"] = lambda _: cancelled

    @property
    def traffic(self) -> list[str]:
        """The last messages, for people."""
        return list(self._traffic)

    def _log(self, name: str, way: str, line: bytes) -> None:
        if BARRIER.encode() not in line:
            verb = "says" if way == ">" else "hears"
            self._traffic.append(f"{name} {verb} {values.shown(line.rstrip())}")

    def _initialized(self, asked: Heard) -> bytes:
        del asked
        return b'{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"authMethods":[]}'

    def _opened(self, asked: Heard) -> bytes:
        del asked
        self._sessions += 1
        return b'{"sessionId":"check-%d"}' % self._sessions

    def _prompted(self, asked: Heard) -> bytes:
        update = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"ok"}}'
        session = asked.session or b'""'
        self.agent.tell("session/update", b'{"sessionId":%b,"update":%b}' % (session, update))
        return b'{"stopReason":"end_turn"}'

    # -- what most checks do -----------------------------------------------------------------

    async def initialize(
        self, params: bytes = b'{"protocolVersion":1,"clientCapabilities":{}}'
    ) -> bytes:
        """Initializes the chain; the result as the client sees it."""
        await self.client.opened()
        return await self.client.ask("initialize", params).result()

    async def session(self) -> bytes:
        """Opens a session; its raw id."""
        params = b'{"cwd":%b,"mcpServers":[]}' % self.cwd
        result = await self.client.ask("session/new", params).result()
        found = session_of(result)
        if found in (None, b"null"):
            raise Fault("the answer to `session/new` has no sessionId", came=result)
        assert found is not None
        return found

    async def settled(self, behind: End) -> None:
        """Returns when everything this end has said so far must have arrived."""
        heard = await behind.ask(BARRIER).answer()
        if heard.result is None:
            raise Fault(
                f"a request it does not know (`{BARRIER}`) was not passed on",
                came=heard.error or b"",
            )

    async def passed(self, source: End, target: End, method: str) -> Heard:
        """The message of this method that `source` has sent, at `target`. Raises `Fault` where a
        later message arrives and it does not."""
        found = target.take(method)
        if found is not None:
            return found
        barrier = asyncio.get_running_loop().create_task(self.settled(source))
        arrival = asyncio.get_running_loop().create_task(target.next(method))
        try:
            await asyncio.wait({barrier, arrival}, return_when=asyncio.FIRST_COMPLETED)
            if arrival.done():
                return arrival.result()
            await barrier
            found = target.take(method)
            if found is None:
                raise Fault(f"`{method}` never reached the {target.name}, a later message did")
            return found
        finally:
            for task in (barrier, arrival):
                task.cancel()
            await asyncio.gather(barrier, arrival, return_exceptions=True)


__all__ = ["Asked", "Chain", "End", "Fault", "Heard", "Skipped"]
