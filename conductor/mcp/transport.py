"""Puts the bridge between the runtime and the agent's transport, where it is needed.

A wrapper: the router knows nothing of it. What the bridge asks components it asks as the agent,
under ids of its own, so routing, policies, cancellation and traces treat it like the agent's own
words. Until a session with MCP servers of ACP transport is set up, each line to the agent costs a
look at its first bytes, each line from it nothing, and nothing else of this package is loaded.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Final, Literal, cast

from conductor.errors import ComponentError
from conductor.transports.base import Ended, Transport, Wrapper

if TYPE_CHECKING:
    from conductor.mcp.bridge.bridge import Bridge
    from conductor.mcp.bridge.capabilities import Support
    from conductor.mcp.bridge.effects import Effect
    from conductor.mcp.doors.manager import Shells

Log = Callable[[str, str, str], None]

_NAME: Final = "mcp"
"""Whom log lines name."""

_HEAD: Final = re.compile(
    rb'\{"jsonrpc":"2\.0",(?:"id":(?:"conductor-mcp-|\d+,"method":"'
    rb'(?:initialize"|session/(?:new|load|resume|fork|close|delete)"|_?mcp/|_scp/mcp"))'
    rb'|"method":"(?:_?mcp/|_scp/mcp"|\$/cancel_request"))'
).match
"""How lines begin that may concern the bridge, as the router writes them."""

_DECLARES: Final = re.compile(rb"acp|scp|\\u").search
"""What a setup contains that may declare a server of ACP transport."""


class BridgedTransport(Wrapper):
    """The agent's transport, with a bridge in it."""

    def __init__(
        self,
        inner: Transport,
        kind: str,
        *,
        log: Log,
        line_limit: int,
        proxied: Callable[[], bool],
    ) -> None:
        """`kind`: of `conductor.mcp.KINDS`. `proxied`: whether behind `inner` is an agent that
        proxies stand before; asked when it is initialized."""
        super().__init__(inner)
        self._kind = kind
        self._log = log
        self._line_limit = line_limit
        self._proxied = proxied
        self._bridge: Bridge | None = None
        self._support: Support | None = None
        self._initialize: set[bytes] = set()
        """Ids of `initialize` requests that are open."""
        self._shells: Shells | None = None
        self._connections: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._up: list[bytes] = []
        self._paused = False
        self._writing = False
        self._finishing = False
        self._over = False

    # -- transport -----------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Queues whole lines; what concerns the bridge it gets."""
        bridge = self._bridge
        if data.find(b"\n") == len(data) - 1 and (bridge is None or not bridge.holds):
            if _HEAD(data) is None:
                self._inner.write(data)
            else:
                self._concerns(data)
            return
        plain: list[bytes] = []  # written together: one system call, not one a line
        for line in _lines(data):
            if (self._bridge is not None and self._bridge.holds) or _HEAD(line) is not None:
                if plain:
                    self._inner.write(b"".join(plain))
                    plain.clear()
                self._concerns(line)
            else:
                plain.append(line)
        if plain:
            self._inner.write(b"".join(plain))

    def pause(self) -> None:
        """Stops reading, from the agent and its MCP clients."""
        self._hold(wait=True)
        self._inner.pause()

    def resume(self) -> None:
        """Reads on."""
        self._hold(wait=False)
        self._inner.resume()

    def finish(self) -> None:
        """Tells the agent that nothing more will be written."""
        self._finishing = True
        if self._bridge is None or not self._bridge.holds:
            self._inner.finish()

    async def close(self, grace: float) -> None:
        """Ends the agent and all its MCP connections."""
        await self.shut_down()
        await self._inner.close(grace)

    async def shut_down(self) -> None:
        """Ends the MCP connections; components are told. The agent is left as it is."""
        if self._over:
            return
        self._over = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._end()
        if self._shells is not None:
            await self._shells.aclose()

    def _end(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._bridge is not None:
            self._perform(self._bridge.end())
        self._flush()

    # -- to the agent --------------------------------------------------------------------------

    def _concerns(self, line: bytes) -> None:
        """Takes a line to the agent that may concern the bridge."""
        if self._bridge is None and not self._wakes(line):
            self._inner.write(line)
            return
        assert self._bridge is not None
        self._writing = True
        try:
            self._perform(self._bridge.down(line))
        finally:
            self._writing = False

    def _wakes(self, line: bytes) -> bool:
        """Whether a line is the first that needs the bridge, which then is there."""
        if b'"method":"initialize"' in line[:80]:
            if self._proxied():
                self._initialize.add(line[line.index(b'"id":') + 5 : line.index(b',"method"')])
            return False
        if b'"method":"session/' not in line[:80] or not _DECLARES(line) or self._over:
            return False
        from conductor.mcp.bridge.bridge import Bridge
        from conductor.mcp.bridge.capabilities import Support

        nonce = os.urandom(6).hex()
        self._bridge = Bridge(self._support or Support(), self._kind, nonce=nonce)
        return True

    def _initialized(self, frame: bytes) -> bytes:
        """A line of the agent's while `initialize` is open: its answer shows support of ours."""
        from conductor.mcp.bridge import capabilities

        found = capabilities.answered(frame, self._initialize)
        if found is None:
            return frame
        id_, support, shown = found
        self._initialize.discard(id_)
        self._support = support or self._support
        return shown

    # -- from the agent: `Events` of the inner transport ------------------------------------------

    def received(self, frames: list[bytes]) -> None:
        """Lines of the agent's; the bridge sees them where it has to."""
        assert self._events is not None
        bridge = self._bridge
        if not self._initialize and (bridge is None or not bridge.listens):
            self._events.received(frames)
            return
        for frame in frames:
            if self._initialize:
                self._up.append(self._initialized(frame))
            elif bridge is not None and bridge.listens:
                self._perform(bridge.up(frame))
            else:
                self._up.append(frame)
        self._flush()

    def ended(self, how: Ended) -> None:
        """The agent is gone: so are its MCP connections."""
        assert self._events is not None
        self._end()
        self._events.ended(how)

    # -- from MCP clients: `ShellEvents` -----------------------------------------------------------

    def opened(self, connection: str, listener: str) -> None:
        """A client has come in."""
        if self._bridge is not None:
            self._connections.add(connection)
            self._perform(self._bridge.opened(connection, listener))
            if self._paused and self._shells is not None:
                self._shells.hold(connection, True)
            self._flush()

    def closed(self, connection: str) -> None:
        """It is gone."""
        self._connections.discard(connection)
        if self._bridge is not None:
            self._perform(self._bridge.closed(connection))
            self._flush()

    def said(self, connection: str, frame: bytes) -> None:
        """It sent one line."""
        if self._bridge is not None:
            self._perform(self._bridge.received(connection, frame))
            self._flush()

    # -- effects -------------------------------------------------------------------------------

    def _perform(self, effects: Iterable[Effect]) -> None:
        from conductor.mcp.bridge import effects as known

        for effect in effects:
            match effect:
                case known.ToChain(frame):
                    self._up.append(frame)
                case known.ToAgent(frame):
                    self._inner.write(frame if frame.endswith(b"\n") else frame + b"\n")
                case known.Listen(listener, kind):
                    self._start(self._listen(listener, kind))
                case known.Wait(token, seconds):
                    self._wait(token, seconds)
                case known.Note(level, text):
                    self._log(level, _NAME, text)
                case _ if self._shells is not None:
                    from conductor.mcp.doors import manager

                    if isinstance(effect, known.CloseConnection):
                        self._connections.discard(effect.connection)
                    manager.perform(effect, self._shells)
        if self._writing and self._up:
            # What goes up goes through the router, which is still busy with what comes down.
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Hands over what goes up."""
        if self._up and self._events is not None:
            up, self._up = self._up, []
            self._events.received([frame.removesuffix(b"\n") for frame in up])

    def _hold(self, *, wait: bool) -> None:
        self._paused = wait
        if self._shells is not None:
            for connection in self._connections:
                self._shells.hold(connection, wait)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wait(self, token: int, seconds: float) -> None:
        def expire() -> None:
            self._timers.discard(timer)
            if self._bridge is not None:
                self._perform(self._bridge.expired(token))
                self._flush()

        timer = asyncio.get_running_loop().call_later(seconds, expire)
        self._timers.add(timer)

    async def _listen(self, listener: str, kind: str) -> None:
        assert self._bridge is not None
        if self._shells is None:
            from conductor.mcp.doors.manager import Shells

            self._shells = Shells(_ShellEvents(self), log=self._log, line_limit=self._line_limit)
        try:
            declaration = await self._shells.listen(listener, cast(Literal["stdio", "http"], kind))
        except ComponentError as error:
            text = f"{error.text}\nhint: {error.hint}" if error.hint else error.text
            self._perform(self._bridge.refused(listener, text))
        else:
            self._perform(self._bridge.listening(listener, declaration))
        self._flush()
        if self._finishing and not self._bridge.holds:
            self._inner.finish()


class _ShellEvents:
    """What shells report, for a `BridgedTransport`, which hears of the agent by the same words."""

    def __init__(self, owner: BridgedTransport) -> None:
        self._owner = owner
        self.opened = owner.opened
        self.received = owner.said
        self.closed = owner.closed

    def drained(self, connection: str) -> None:
        """Nobody waits for that."""


def _lines(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]]
