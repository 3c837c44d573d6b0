"""A scripted client, or agent: it hears raw lines and says raw lines."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from conductor.author.check import values
from conductor.core import jsonrpc
from conductor.transports.memory import Channel

BARRIER: Final = "_check/barrier"

Reply = Callable[["Heard"], bytes]


class Fault(Exception):  # noqa: N818 - the component's, not the program's
    """A rule is broken. `sent` and `came` show it."""

    def __init__(self, text: str, sent: bytes | str = "", came: bytes | str = "") -> None:
        super().__init__(text)
        self.sent = values.shown(sent) if isinstance(sent, bytes) else sent
        self.came = values.shown(came) if isinstance(came, bytes) else came


class Skipped(Exception):  # noqa: N818 - no error at all
    """The check does not apply, and why."""


class Heard(NamedTuple):
    """A message an end received; members that are not there are None."""

    id: bytes | None
    method: str | None
    params: bytes | None
    result: bytes | None
    error: bytes | None

    @property
    def session(self) -> bytes | None:
        """The raw `sessionId` of its params."""
        return session_of(self.params)


class _Session(msgspec.Struct):
    sessionId: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815 - the protocol's name


def session_of(params: bytes | None) -> bytes | None:
    """The raw `sessionId` of params or a result; None where they cannot be read."""
    try:
        return bytes(msgspec.json.decode(params or b"{}", type=_Session).sessionId)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Asked:
    """A request on its way; `answer` waits for what comes back."""

    def __init__(self, id: bytes, answer: asyncio.Future[Heard]) -> None:  # noqa: A002 - as above
        self.id = id
        self._answer = answer

    @property
    def done(self) -> bool:
        """Whether it is answered."""
        return self._answer.done()

    async def answer(self) -> Heard:
        """The answer."""
        return await asyncio.shield(self._answer)

    async def result(self) -> bytes:
        """The result. Raises `Fault` for an error."""
        heard = await self.answer()
        if heard.result is None:
            raise Fault("a request was answered with an error", came=heard.error or b"")
        return heard.result


class End:
    """A client or an agent."""

    def __init__(self, name: str, log: Callable[[str, str, bytes], None]) -> None:
        self.name = name
        self.replies: dict[str, Reply] = {BARRIER: lambda _: b"{}"}
        """Results of requests that no check waits for."""
        self._held: dict[tuple[str, bytes | None], bytes] = {}
        self.unknown: list[bytes] = []
        """Answers to what was never asked."""
        self.arrived = asyncio.Event()
        """Set whenever anything comes."""
        self._log = log
        self._channel: Channel | None = None
        self._heard: dict[str, deque[Heard]] = defaultdict(deque)
        self._asked: dict[bytes, asyncio.Future[Heard]] = {}
        self._count = 0
        self._opened = asyncio.Event()
        self._closed = asyncio.Event()

    async def run(self, channel: Channel) -> None:
        """The in-process component: ends when it is closed, or nothing more will come."""
        self._channel = channel
        self._opened.set()
        reader = asyncio.get_running_loop().create_task(self._read(channel))
        closed = asyncio.get_running_loop().create_task(self._closed.wait())
        await asyncio.wait({reader, closed}, return_when=asyncio.FIRST_COMPLETED)
        for task in (reader, closed):
            task.cancel()
        await asyncio.gather(reader, closed, return_exceptions=True)
        if not reader.cancelled() and (error := reader.exception()) is not None:
            raise error

    def close(self) -> None:
        """Ends the connection."""
        self._closed.set()

    async def _read(self, channel: Channel) -> None:
        while (line := await channel.receive()) is not None:
            self._log(self.name, "<", line)
            message = jsonrpc.parse(line)
            assert isinstance(message, jsonrpc.Message)  # a router sends no batches
            self._take(_heard(message))
            self.arrived.set()

    def _take(self, heard: Heard) -> None:
        if heard.method is None:
            answer = self._asked.pop(_key(heard.id), None)
            if answer is None:
                self.unknown.append(heard.result or heard.error or b"")
            elif not answer.done():
                answer.set_result(heard)
            return
        if heard.id is not None and not self._holds(heard):
            reply = self.replies.get(heard.method)
            if reply is not None:
                self.reply(heard, reply(heard))
                return
            if not heard.method.startswith("_check/"):
                error = jsonrpc.error_object(jsonrpc.METHOD_NOT_FOUND, "Method not found")
                self.refuse(heard, error)
                return
        self._heard[heard.method].append(heard)

    def hold(self, method: str, session: bytes | None = None, mark: bytes = b"") -> None:
        """A check waits for requests of this method (of this session), so they are not answered.

        `mark`: only for those in whose params this stands. Others are the component's own.
        """
        self._held[method, session] = mark

    def _holds(self, heard: Heard) -> bool:
        assert heard.method is not None
        marks = [self._held.get((heard.method, one)) for one in (None, heard.session)]
        return any(mark is not None and mark in (heard.params or b"") for mark in marks)

    # -- what it says ------------------------------------------------------------------------

    async def opened(self) -> None:
        """Waits until it can say something."""
        await self._opened.wait()

    def say(self, line: bytes) -> None:
        """Sends a raw line."""
        assert self._channel is not None
        self._log(self.name, ">", line)
        self._channel.send(line)

    def ask(self, method: str, params: bytes | None = None, id: bytes | None = None) -> Asked:  # noqa: A002
        """Sends a request; by an id of its own, unless one is given."""
        if id is None:
            self._count += 1
            id = b"%d" % (1000 + self._count)  # noqa: A001 - as above
        answer: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        self._asked[_key(id)] = answer
        given = msgspec.UNSET if params is None else params
        self.say(jsonrpc.request(id, method, given))
        return Asked(id, answer)

    def tell(self, method: str, params: bytes | None = None) -> None:
        """Sends a notification."""
        self.say(jsonrpc.notification(method, msgspec.UNSET if params is None else params))

    def reply(self, asked: Heard, result: bytes) -> None:
        """Answers a request."""
        self.say(jsonrpc.answer(asked.id or b"null", b"result", result))

    def refuse(self, asked: Heard, error: bytes) -> None:
        """Answers a request with an error object."""
        self.say(jsonrpc.answer(asked.id or b"null", b"error", error))

    # -- what it hears -----------------------------------------------------------------------

    def heard(self, method: str) -> list[Heard]:
        """What has come of a method and nobody has taken."""
        return list(self._heard[method])

    def take(self, method: str) -> Heard | None:
        """The next message of a method that has come."""
        waiting = self._heard[method]
        return waiting.popleft() if waiting else None

    async def next(self, method: str) -> Heard:
        """The next message of a method."""
        while (found := self.take(method)) is None:
            self.arrived.clear()
            await self.arrived.wait()
        return found


def _key(id: bytes | None) -> bytes:  # noqa: A002 - as above
    """An id in the one spelling it is compared by."""
    return jsonrpc.canonical_id(id or b"null") or b""


def _heard(message: jsonrpc.Message) -> Heard:
    def raw(value: msgspec.Raw | msgspec.UnsetType) -> bytes | None:
        return bytes(value) if isinstance(value, msgspec.Raw) else None

    method = message.method if isinstance(message.method, str) else None
    return Heard(
        raw(message.id), method, raw(message.params), raw(message.result), raw(message.error)
    )
