"""One session with an MCP server over Streamable HTTP, as a transport: lines in, lines out."""

from __future__ import annotations

import asyncio
import functools
import re
import ssl
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from conductor.core.jsonrpc import INTERNAL_ERROR, error_object
from conductor.errors import ComponentError, ConductorError, one_line
from conductor.mcp.bridge.declarations import HttpDeclaration
from conductor.mcp.bridge.json import read, text
from conductor.mcp.bridge.protocol import CANCELLED, INITIALIZE
from conductor.transports import backoff
from conductor.transports.base import Ended, Owner
from conductor.transports.remote import client, wire
from conductor.transports.remote.address import SCHEMES, Address
from conductor.transports.remote.sse import EventParser

if TYPE_CHECKING:
    from httpcore2 import AsyncConnectionPool, Response

_SESSION: Final = "Mcp-Session-Id"
_VERSION: Final = "MCP-Protocol-Version"
_NO_STREAM: Final = frozenset({400, 404, 405, 406, 501})
"""Answers of a server that has no stream of its own."""
_LOGIN: Final = 401
_OPENED: Final = 30.0
"""Seconds until a server has begun its stream, or has accepted a notification."""
_LEAVE: Final = 2.0
"""Seconds for the end of a session, and of a stream that has its answer."""

_NAME: Final = re.compile(r"[!#-'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
_VISIBLE: Final = re.compile(r"[!-~]+")
"""Of such characters are the words that a server chooses and conductor sends back."""


class StreamableHttp:
    """See `conductor.transports.base.Transport`."""

    def __init__(self, reach: HttpDeclaration, *, line_limit: int) -> None:
        self._reach = reach
        self._limit = line_limit
        self._events: Owner | None = None
        self._pool: AsyncConnectionPool | None = None
        self._session = ""
        self._version = ""
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._queued = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._posts: dict[bytes, asyncio.Task[None]] = {}
        """Requests that are not answered, by the JSON of their ids."""
        self._flows = asyncio.Event()
        self._flows.set()

    # -- the contract of transports --------------------------------------------------------------

    async def open(self, events: Owner) -> None:
        """Begins to send. Raises `ComponentError` for a URL or a header that is none."""
        address = _address(self._reach.url)
        _check(self._reach.headers)
        tls = ssl.create_default_context() if address.has_tls else None
        self._events, self._pool = events, client.pool(address, tls)
        self._start(self._send_all())

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        for frame in data.split(b"\n"):
            if frame:
                self._queued += len(frame)
                self._queue.put_nowait(frame)

    @property
    def buffered(self) -> int:
        """Bytes that no server has taken yet."""
        return self._queued

    def pause(self) -> None:
        """Stops reading."""
        self._flows.clear()

    def resume(self) -> None:
        """Reads on."""
        self._flows.set()

    def finish(self) -> None:
        """Does nothing: `close` ends the session."""

    def hear(self) -> None:
        """Does nothing: a server elsewhere has no standard error here."""

    async def close(self, grace: float) -> None:
        """Ends the session."""
        self._events = None
        self._flows.set()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._session:
            try:
                async with (
                    asyncio.timeout(min(grace, _LEAVE)),
                    pool.stream("DELETE", self._reach.url, headers=self._headers()),
                ):
                    pass
            except (*client.FAILED, ConductorError):
                pass  # who is gone has no session either
        await pool.aclose()

    # -- sending ---------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        assert self._events is not None
        task = self._events.carry(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _headers(self, *more: tuple[str, str]) -> list[tuple[str, str]]:
        own = [(_SESSION, self._session)] if self._session else []
        own += [(_VERSION, self._version)] if self._version else []
        return [*self._reach.headers, *own, *more]

    async def _send_all(self) -> None:
        """Sends in order. Nothing overtakes `initialize`, nor a notification."""
        while True:
            frame = await self._queue.get()
            fields = read(frame)
            method, id_ = text(fields.get("method")), fields.get("id")
            if method is not None and id_ is not None and method != INITIALIZE:
                posted = self._start(self._post(frame, bytes(id_)))
                self._posts[bytes(id_)] = posted
                posted.add_done_callback(functools.partial(self._posted, bytes(id_)))
            else:
                asked = bytes(id_) if method is not None and id_ is not None else None
                await self._post(frame, asked, begins=method == INITIALIZE)
            if method == CANCELLED:
                # The server knows; its answer is not waited for.
                wanted = bytes(read(fields.get("params")).get("requestId", b""))
                if wanted in self._posts:
                    self._posts[wanted].cancel()

    def _posted(self, id_: bytes, _: asyncio.Task[None]) -> None:
        self._posts.pop(id_, None)

    async def _post(self, frame: bytes, asked: bytes | None, *, begins: bool = False) -> None:
        """Sends one message; `asked`: the id of a request, which gets an answer in any case."""
        kinds = ("Accept", f"application/json, {wire.EVENTS}"), ("Content-Type", "application/json")
        why, answered, size = "answered nothing", False, len(frame)
        parser = EventParser(self._limit)
        assert self._pool is not None
        try:
            async with (
                asyncio.timeout(_OPENED if asked is None else None) as limit,
                self._pool.stream(
                    "POST", self._reach.url, headers=self._headers(*kinds), content=frame
                ) as answer,
            ):
                self._queued, size = self._queued - size, 0
                if answer.status >= 300:
                    why = _refused(answer.status)
                    if answer.status == 404 and self._session:
                        self._end("has forgotten its session")
                else:
                    if begins:
                        self._session = _session(answer)
                    async for line in self._messages(answer, parser):
                        if asked is not None and _answers(line, asked):
                            answered = True
                            # A server that ends its stream now has its connection used again.
                            limit.reschedule(asyncio.get_running_loop().time() + _LEAVE)
                            if begins:
                                self._begun(line)
                        self._deliver(line)
        except (*client.FAILED, ConductorError) as error:
            why = getattr(error, "text", "") or str(error) or type(error).__name__
        finally:
            self._queued -= size
        if asked is not None and not answered and not begins and parser.last_id:
            answered = await self._follow(parser.last_id, asked)
        if asked is not None and not answered:
            error_ = error_object(INTERNAL_ERROR, f"the MCP server {why}")
            self._deliver(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (asked, error_))

    def _begun(self, line: bytes) -> None:
        result = read(read(line).get("result"))
        version = text(result.get("protocolVersion")) or ""
        self._version = version if _VISIBLE.fullmatch(version) else ""
        if result:
            self._start(self._follow())

    # -- receiving -------------------------------------------------------------------------------

    def _deliver(self, line: bytes) -> None:
        if self._events is not None:
            self._events.received([line])

    async def _messages(self, answer: Response, parser: EventParser) -> AsyncIterator[bytes]:
        """The messages of an answer, as lines; `parser` reads a stream."""
        if client.kind(answer) != wire.EVENTS:
            body = await client.body(answer, self._limit)
            if body is None:
                raise ComponentError(f"sent more than {self._limit} bytes", "")
            if body.strip():
                yield body
            return
        async for chunk in answer.aiter_stream():
            for event in parser.feed(chunk):
                await self._flows.wait()
                if event.data:
                    yield event.data
            if parser.oversized or parser.skips:
                parser.last_id = ""  # who goes on there may get the same once more, or nothing
                raise ComponentError(f"sent more than {self._limit} bytes", "")

    async def _follow(self, last_id: str = "", asked: bytes | None = None) -> bool:
        """Reads a stream of the server, and goes on with a stream that breaks. Returns whether a
        request was answered.

        Args:
            last_id: The last event of a stream that has broken.
            asked: The id of the request; None: the stream is for messages of the server's own, and
                many servers have no such stream.
        """
        tries = 1 if last_id else 0
        while self._events is not None and self._pool is not None:
            if tries:
                await backoff.wait(tries)
            parser = EventParser(self._limit)
            parser.last_id = last_id
            kinds = [("Accept", wire.EVENTS), *([("Last-Event-ID", last_id)] if last_id else [])]
            try:
                async with (
                    asyncio.timeout(_OPENED) as head,
                    self._pool.stream(
                        "GET", self._reach.url, headers=self._headers(*kinds)
                    ) as answer,
                ):
                    head.reschedule(None)
                    if answer.status in _NO_STREAM or answer.status == _LOGIN:
                        return False
                    if answer.status == 200:
                        async for line in self._messages(answer, parser):
                            tries = 0
                            self._deliver(line)
                            if asked is not None and _answers(line, asked):
                                return True
            except (*client.FAILED, ConductorError):
                pass  # it is tried again
            last_id = parser.last_id
            tries += 1
            if tries > backoff.tries(backoff.PATIENCE) or (asked is not None and not last_id):
                return False
        return False

    def _end(self, why: str) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.ended(Ended(why))


def _answers(line: bytes, asked: bytes) -> bool:
    fields = read(line)
    return "method" not in fields and bytes(fields.get("id", b"")) == asked


def _refused(status: int) -> str:
    if status == _LOGIN:
        return (
            "wants a login, which only the agent itself could do (hint: set its header in the "
            "editor, or `pin-mcp=false`)"
        )
    return f"answered with HTTP status {status}"


def _session(answer: Response) -> str:
    """The session that a server names; empty: it names none. Raises `ComponentError`."""
    named = client.first(answer, _SESSION)
    if named and not _VISIBLE.fullmatch(named):
        raise ComponentError("gave its session a name that no header can have", "")
    return named


def _check(headers: tuple[tuple[str, str], ...]) -> None:
    """Raises `ComponentError`, which has no value in it: values are secrets."""
    for name, value in headers:
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise ComponentError(
                f"has a header with characters that no header can have: `{one_line(name)}`",
                "check it in the editor's settings; a line break may stand at its end",
            )


def _address(url: str) -> Address:
    try:
        split = urlsplit(url)
        host, port = split.hostname or "", split.port
        host.encode("idna")
    except ValueError:
        host, port = "", None
    if not host or not _VISIBLE.fullmatch(url) or split.scheme not in ("http", "https"):
        raise ComponentError("has no URL of http or https", "check it in the editor's settings")
    return Address(split.scheme, host, port or SCHEMES[split.scheme].port, split.path)
