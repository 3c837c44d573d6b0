"""The links to MCP servers of the client that conductor reaches in the agent's place: each is a
process, or a session over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol

from conductor import children
from conductor.errors import ConductorError
from conductor.mcp import limits
from conductor.mcp.bridge.declarations import Declaration, StdioDeclaration
from conductor.mcp.bridge.effects import CloseLink, OpenLink, ToLink
from conductor.transports.base import Ended, Transport

if TYPE_CHECKING:
    from conductor.transports.process_groups import Guardian

_GRACE: Final = 2.0
"""Seconds before each harder step of ending a server."""


class LinkEvents(Protocol):
    """Hears of links."""

    def link_received(self, link: str, frame: bytes) -> None:
        """A server has sent one line."""

    def link_ended(self, link: str, why: str) -> None:
        """A link is over; `why` follows the server's name."""


class Links:
    """All links of one agent."""

    def __init__(
        self,
        events: LinkEvents,
        *,
        log: Callable[[str, str, str], None],
        line_limit: int,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        guardian: Guardian | None,
    ) -> None:
        self._events = events
        self._log = log
        self._limit = line_limit
        self._start = start
        self._guardian = guardian
        self._open: dict[str, _Link] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._paused = False

    def perform(self, effect: OpenLink | ToLink | CloseLink) -> None:
        """Performs an effect of the bridge. One for a link that is over does nothing."""
        match effect:
            case OpenLink(link, reach):
                if len(self._open) >= limits.LINKS:
                    why = f"is not reached: {limits.LINKS} connections to servers are open"
                    asyncio.get_running_loop().call_soon(self._events.link_ended, link, why)
                    return
                opened = self._open[link] = _Link(self, link, self._transport(reach, link))
                self._start(opened.open())
            case ToLink(link, frame):
                if link in self._open:
                    self._open[link].write(frame)
            case CloseLink(link):
                if link in self._open:
                    self._close(self._open.pop(link))

    def hold(self, *, wait: bool) -> None:
        """Reads nothing from servers, or goes on."""
        self._paused = wait
        for link in self._open.values():
            link.hold(wait=wait)

    async def aclose(self) -> None:
        """Ends everything; returns when no process is left."""
        for name in list(self._open):
            self._close(self._open.pop(name))
        if self._closing:
            await asyncio.wait(self._closing)

    def _transport(self, reach: Declaration, link: str) -> Transport:
        if not isinstance(reach, StdioDeclaration):
            from conductor.mcp.streamable import StreamableHttp

            return StreamableHttp(reach, line_limit=self._limit)
        from conductor.transports.process import ProcessTransport

        return ProcessTransport(
            [reach.command, *reach.args],
            env={**children.inherited(), **dict(reach.env)},
            cwd=reach.cwd or None,
            guardian=self._guardian,
            on_stderr=lambda line: self._log("info", "mcp", f"{link}: {line}"),
            line_limit=self._limit,
            shown=reach.command,
        )

    def _close(self, link: _Link) -> None:
        link.over = True
        task = self._start(link.transport.close(_GRACE))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def over(self, link: _Link, why: str) -> None:
        """A link has ended by itself."""
        if self._open.pop(link.name, None) is not None:
            self._close(link)
            self._events.link_ended(link.name, why)

    def received(self, link: _Link, frames: list[bytes]) -> None:
        """Lines of a server."""
        for frame in frames:
            if not link.over:
                self._events.link_received(link.name, frame)

    def carry(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task of a link."""
        return self._start(work)

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read."""
        return self._paused


class _Link:
    """One link. It implements `Owner` of transports, too."""

    def __init__(self, links: Links, name: str, transport: Transport) -> None:
        self.name = name
        self.transport = transport
        self.over = False
        self._links = links

    async def open(self) -> None:
        try:
            await self.transport.open(self)
        except ConductorError as error:
            self._links.over(self, f"cannot be reached: {error.with_hint}")
            return
        if self._links.is_paused:
            self.transport.pause()

    def write(self, frame: bytes) -> None:
        self.transport.write(frame)
        if self.transport.buffered > limits.UNSENT:
            self._later(f"took none of {limits.UNSENT} bytes")

    def hold(self, *, wait: bool) -> None:
        (self.transport.pause if wait else self.transport.resume)()

    def received(self, frames: list[bytes]) -> None:
        self._links.received(self, frames)

    def oversized(self, head: bytes, limit: int) -> None:
        self._later(f"sent a message longer than {limit} bytes (hint: `line-limit` raises that)")

    def undeliverable(self, frame: bytes, why: str) -> None:
        self._later(why)

    def drained(self) -> None:
        """Nobody waits for that."""

    def ended(self, how: Ended) -> None:
        self._later(f"{how.text}{f' (hint: {how.hint})' if how.hint else ''}")

    def carry(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._links.carry(work)

    def _later(self, why: str) -> None:
        # The bridge may be in a call for this link.
        asyncio.get_running_loop().call_soon(self._links.over, self, why)
