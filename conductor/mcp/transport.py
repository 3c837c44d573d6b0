"""Puts the bridge between the runtime and the agent's transport, where a session needs it.

The router knows nothing of it: the bridge sends components its requests as the agent, under ids of
its own, so routing, policies, cancellation and traces treat them like the agent's own messages.
Until a session declares an MCP server of ACP transport, each line to the agent costs a look at its
first bytes, each line from the agent nothing, and nothing else of this package is loaded.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.errors import ComponentError
from conductor.transports.base import Ended, Transport, Wrapper

if TYPE_CHECKING:
    from conductor.mcp.bridge.bridge import Bridge
    from conductor.mcp.bridge.capabilities import Support
    from conductor.mcp.bridge.effects import Effect
    from conductor.mcp.chain import Chain, PinKeeper
    from conductor.mcp.doors.doors import Doors
    from conductor.mcp.links import Links
    from conductor.transports.process_groups import Guardian

_NAME: Final = "mcp"
"""The component's name in log lines."""

_MAY_CONCERN_BRIDGE: Final = re.compile(
    rb'\{"jsonrpc":"2\.0",(?:"id":(?:"conductor-mcp-|\d+,"method":"'
    rb'(?:initialize"|session/(?:new|load|resume|fork|close|delete)"|_?mcp/|_scp/(?:mcp|html_panel/event)"))'
    rb'|"method":"(?:_?mcp/|_scp/mcp"|\$/cancel_request"))'
).match
"""Matches the beginnings, as the router writes them, of lines to the agent for the bridge."""

_MAY_DECLARE: Final = re.compile(rb"acp|scp|\\u").search
"""Matches in each setup that declares a server of ACP transport, possibly with escapes."""

_SETUP: Final = b'"method":"session/'

_HEAD: Final = 80
"""Bytes of a line that have its method, as the router writes lines."""


class BridgedTransport(Wrapper):
    """The agent's transport, with a bridge before it. It implements `DoorEvents`, too."""

    def __init__(
        self,
        inner: Transport,
        chain: Chain,
        kind: str,
        *,
        line_limit: int,
        reaches: bool = False,
        guardian: Guardian | None = None,
    ) -> None:
        """`kind`: of `conductor.mcp.KINDS`. `reaches`: the MCP servers of the client are reached in
        the agent's place; `guardian` ends their processes."""
        self._reaches = reaches
        self._guardian = guardian
        self._links: Links | None = None
        super().__init__(inner)
        self._chain = chain
        self._kind = kind
        self._line_limit = line_limit
        self._keeper: PinKeeper | None = None
        self._bridge: Bridge | None = None
        self._support: Support | None = None
        self._initialize: set[bytes] = set()
        """Ids of pending `initialize` requests."""
        self._doors: Doors | None = None
        self._connections: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._to_router: list[bytes] = []
        self._paused = False
        self._in_write = False
        self._finishing = False
        self._closed = False

    # -- transport -----------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Queues whole lines for the agent; lines that concern the bridge go there first."""
        bridge, single = self._bridge, data.find(b"\n") == len(data) - 1
        if single and (bridge is None or not bridge.holds) and _MAY_CONCERN_BRIDGE(data) is None:
            self._inner.write(data)  # nearly all
            return
        batch: list[bytes] = []  # one write for many lines, since each write is a system call
        for line in [data] if single else _lines(data):
            # Asked anew for each line: a line may be a setup, which holds all lines behind it.
            holds = self._bridge is not None and self._bridge.holds
            if holds or _MAY_CONCERN_BRIDGE(line) is not None:
                if batch:
                    self._inner.write(b"".join(batch))
                    batch.clear()
                self._to_bridge(line)
            else:
                batch.append(line)
        if batch:
            self._inner.write(b"".join(batch))

    def pause(self) -> None:
        """Stops reading, from the agent and its MCP clients."""
        self._hold(wait=True)
        self._inner.pause()

    def resume(self) -> None:
        """Reads on."""
        self._hold(wait=False)
        self._inner.resume()

    def finish(self) -> None:
        """Tells the agent that nothing more will be written, once the bridge holds nothing."""
        self._finishing = True
        if self._bridge is None or not self._bridge.holds:
            self._inner.finish()

    async def close(self, grace: float) -> None:
        """Ends the agent and all its MCP connections."""
        await self.shut_down()
        await self._inner.close(grace)

    async def shut_down(self) -> None:
        """Ends the MCP connections, and tells components. The agent goes on."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)  # they use the doors
        self._end_bridge()
        if self._links is not None:
            await self._links.aclose()
        if self._doors is not None:
            await self._doors.aclose()

    def _end_bridge(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._bridge is not None:
            self._perform(self._bridge.end())
        self._flush()

    # -- to the agent --------------------------------------------------------------------------

    def _to_bridge(self, line: bytes) -> None:
        if self._bridge is None:
            self._bridge = self._needed_bridge(line)
        if self._bridge is None:
            self._inner.write(line)
            return
        self._in_write = True
        try:
            if self._keeper is not None and _SETUP in line[:_HEAD]:
                self._perform(self._bridge.agreed(self._keeper.known()))
            self._perform(self._bridge.to_agent(line))
        finally:
            self._in_write = False

    def _needed_bridge(self, line: bytes) -> Bridge | None:
        """A bridge, if a line to the agent is the first line that needs a bridge."""
        head = line[:_HEAD]
        if b'"method":"initialize"' in head:
            if self._chain.is_proxied() or self._reaches:
                self._initialize.add(line[line.index(b'"id":') + 5 : line.index(b',"method"')])
            return None
        may_declare = self._reaches or _MAY_DECLARE(line)
        if b'"method":"session/' not in head or not may_declare or self._closed:
            return None
        from conductor.mcp.bridge.bridge import Bridge
        from conductor.mcp.bridge.capabilities import Support

        self._keeper, nonce = self._chain.new_keeper(), os.urandom(6).hex()
        return Bridge(
            msgspec.structs.replace(self._support or Support(), wanted=self._kind),
            nonce=nonce,
            panels=self._chain.shows_panels(),
            pins=self._keeper.pins,
            reaches=self._reaches,
        )

    def agreed(self) -> None:
        """The kept offers of servers have grown, by the user's word."""
        if self._bridge is not None and self._keeper is not None:
            self._perform(self._bridge.agreed(self._keeper.known()))
            self._flush()

    def _show_support(self, frame: bytes) -> bytes:
        """A line of the agent; a response to `initialize` shows proxies our support."""
        from conductor.mcp.bridge import capabilities

        response = capabilities.response(frame, self._initialize)
        if response is None:
            return frame
        id_, support, shown = response
        self._initialize.discard(id_)
        self._support = support or self._support
        return shown

    # -- from the agent: `Events` of the inner transport -----------------------------------------

    def received(self, frames: list[bytes]) -> None:
        """Passes on lines of the agent; the bridge takes some of them."""
        assert self._events is not None
        bridge = self._bridge
        if not self._initialize and (bridge is None or not bridge.watches_agent):
            self._events.received(frames)
            return
        try:
            self._watch(bridge, frames)
        except Exception as error:
            self._chain.defect(error)

    def _watch(self, bridge: Bridge | None, frames: list[bytes]) -> None:
        for frame in frames:
            if self._initialize:
                self._to_router.append(self._show_support(frame))
            elif bridge is not None and bridge.watches_agent:
                self._perform(bridge.from_agent(frame))
            else:
                self._to_router.append(frame)
        self._flush()

    def ended(self, how: Ended) -> None:
        """The agent has ended, and with it its MCP connections."""
        assert self._events is not None
        self._end_bridge()
        self._events.ended(how)

    # -- from MCP clients: `DoorEvents` --------------------------------------------------------

    def client_opened(self, connection: str, listener: str) -> None:
        """An MCP client has connected."""
        if self._bridge is not None:
            self._connections.add(connection)
            self._perform(self._bridge.client_opened(connection, listener))
            if self._paused and self._doors is not None:
                self._doors.hold(connection, True)
            self._flush()

    def client_received(self, connection: str, frame: bytes) -> None:
        """An MCP client has sent one line."""
        if self._bridge is not None:
            try:
                self._perform(self._bridge.from_client(connection, frame))
            except Exception as error:
                self._chain.defect(error)
            self._flush()

    def client_closed(self, connection: str) -> None:
        """An MCP client has left."""
        self._connections.discard(connection)
        if self._bridge is not None:
            self._perform(self._bridge.client_closed(connection))
            self._flush()

    # -- from MCP servers of the client: `LinkEvents` ------------------------------------------

    def link_received(self, link: str, frame: bytes) -> None:
        """A server has sent one line."""
        if self._bridge is not None:
            try:
                self._perform(self._bridge.link_received(link, frame))
            except Exception as error:
                self._chain.defect(error)
            self._flush()

    def link_ended(self, link: str, why: str) -> None:
        """A server's link is over."""
        if self._bridge is not None:
            self._perform(self._bridge.link_ended(link, why))
            self._flush()

    def _linked(self) -> Links:
        if self._links is None:
            from conductor.mcp.links import Links

            self._links = Links(
                self,
                log=self._chain.log,
                line_limit=self._line_limit,
                start=self.carry,
                guardian=self._guardian,
            )
        return self._links

    def _hold(self, *, wait: bool) -> None:
        self._paused = wait
        if self._links is not None:
            self._links.hold(wait=wait)
        if self._doors is not None:
            for connection in self._connections:
                self._doors.hold(connection, wait)

    # -- effects -------------------------------------------------------------------------------

    def _perform(self, effects: Iterable[Effect]) -> None:
        from conductor.mcp.bridge import effects as kinds

        for effect in effects:
            match effect:
                case kinds.ToChain(frame):
                    self._to_router.append(frame)
                case kinds.ToAgent(frame):
                    self._inner.write(frame if frame.endswith(b"\n") else frame + b"\n")
                case kinds.Listen(listener, kind):
                    self._start(self._listen(listener, kind))
                case kinds.Wait(token, seconds):
                    self._wait(token, seconds)
                case kinds.Log(level, text):
                    self._chain.log(level, _NAME, text)
                case kinds.Differs() if self._keeper is not None:
                    self._keeper.differs(effect)
                case kinds.Differs():
                    pass
                case kinds.OpenLink() | kinds.ToLink() | kinds.CloseLink():
                    self._linked().perform(effect)
                case _ if self._doors is not None:
                    if isinstance(effect, kinds.CloseClient):
                        self._connections.discard(effect.connection)
                    self._doors.perform(effect)
        if self._in_write and self._to_router:
            # The router is not reentrant, and it is busy with the write that led here.
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        if self._to_router and self._events is not None:
            frames, self._to_router = self._to_router, []
            self._events.received([frame.removesuffix(b"\n") for frame in frames])

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.carry(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wait(self, token: int, seconds: float) -> None:
        def expire() -> None:
            self._timers.discard(timer)
            if self._bridge is not None:
                try:
                    self._perform(self._bridge.expired(token))
                except Exception as error:
                    self._chain.defect(error)
                self._flush()

        timer = asyncio.get_running_loop().call_later(seconds, expire)
        self._timers.add(timer)

    async def _listen(self, listener: str, kind: str) -> None:
        assert self._bridge is not None
        if self._doors is None:
            from conductor.mcp.doors.doors import Doors

            self._doors = Doors(
                self, log=self._chain.log, line_limit=self._line_limit, start=self.carry
            )
        try:
            declaration = await self._doors.listen(listener, kind)
        except ComponentError as error:
            self._perform(self._bridge.listen_failed(listener, error.with_hint))
        else:
            self._perform(self._bridge.listening(listener, declaration))
        self._flush()
        if self._finishing and not self._bridge.holds:
            self._inner.finish()


def _lines(data: bytes) -> list[bytes]:
    # Not `splitlines`, which also splits at a carriage return.
    return [line + b"\n" for line in data.split(b"\n")[:-1]]
