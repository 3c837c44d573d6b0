"""One end of a scripted chain: the messages that it sends and gets."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec

from conductor import tasks
from conductor.core import json_text, jsonrpc
from conductor.core.jsonrpc import Message

BARRIER: Final = "_check/barrier"
"""A request that neither end acts on: its answer shows that all lines before it have arrived."""

_LISTING: Final = re.compile(rb'"sessionUpdate":\s*"available_commands_update"').search
"""Finds an update that lists commands."""

_SHOWN: Final = 200
"""Characters of a message that are shown."""


class Fault(Exception):  # noqa: N818 - the component's, not the program's
    """The component breaks a rule; `sent` and `came` show it."""

    def __init__(self, text: str, sent: bytes | str = "", came: bytes | str = "") -> None:
        super().__init__(text)
        self.sent = shown(sent) if isinstance(sent, bytes) else sent
        self.came = shown(came) if isinstance(came, bytes) else came


class Skipped(Exception):  # noqa: N818 - no error at all
    """The check does not apply; the text says why."""


def shown(text: bytes) -> str:
    """A text for people, cut."""
    whole = text.decode("utf-8", "backslashreplace")
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}… ({len(text):,} bytes)"


class Received(NamedTuple):
    """A message at an end of the chain; members that are absent are None."""

    id: bytes | None
    method: str | None
    params: bytes | None
    result: bytes | None
    error: bytes | None

    @property
    def session(self) -> bytes | None:
        """The raw `sessionId` of its params."""
        return session_of(self.params)


class _WithSession(msgspec.Struct):
    sessionId: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815 - the protocol's name


def session_of(params: bytes | None) -> bytes | None:
    """The raw `sessionId` of params or a result; None if they cannot be read."""
    try:
        return bytes(json_text.decode(params or b"{}", type=_WithSession).sessionId)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class ScriptedRequest:
    """A request that an end has sent."""

    def __init__(
        self,
        id: bytes,  # noqa: A002 - JSON-RPC's name
        answer: asyncio.Future[Received],
    ) -> None:
        self.id = id
        self._answer = answer

    @property
    def done(self) -> bool:
        """Whether it is answered."""
        return self._answer.done()

    async def answer(self) -> Received:
        """The answer, when it has come."""
        # Shielded: several waiters may race for it, and the losers are cancelled.
        return await asyncio.shield(self._answer)

    async def result(self) -> bytes:
        """The result. Raises `Fault` for an error."""
        answer = await self.answer()
        if answer.result is None:
            raise Fault("a request was answered with an error", came=answer.error or b"")
        return answer.result


class Lines(Protocol):
    """Carries the lines of an end."""

    async def receive(self) -> bytes | None:
        """The next line without its newline; None once nothing more will come."""

    def send(self, line: bytes) -> None:
        """Sends one line."""


class ScriptedEnd:
    """A scripted client or agent."""

    def __init__(self, name: str, on_line: Callable[[str, str, bytes], None]) -> None:
        """`on_line` takes the name, `says` or `hears`, and the line."""
        self.name = name
        self.replies: dict[str, Callable[[Received], bytes]] = {BARRIER: lambda _: b"{}"}
        """Results of requests that no check waits for, by method."""
        self.unknown: list[bytes] = []
        """Answers to requests that it did not make."""
        self._held: dict[tuple[str, bytes | None], bytes] = {}
        self._arrived = asyncio.Event()
        self._on_line = on_line
        self._channel: Lines | None = None
        self._received: dict[str, deque[Received]] = defaultdict(deque)
        self._pending: dict[bytes, asyncio.Future[Received]] = {}
        self._count = 0
        self._opened = asyncio.Event()
        self._closed = asyncio.Event()

    async def run(self, channel: Lines) -> None:
        """The in-process component: ends when it is closed, or nothing more will come."""
        self._channel = channel
        self._opened.set()
        await tasks.first(partial(self._read, channel), self._closed.wait)

    def close(self) -> None:
        """Ends the connection."""
        self._closed.set()

    async def _read(self, channel: Lines) -> None:
        while (line := await channel.receive()) is not None:
            self._on_line(self.name, "hears", line)
            message = jsonrpc.parse(line)
            assert isinstance(message, Message)  # a router sends no batches
            self._receive(_received(message))
            self._arrived.set()

    def _receive(self, message: Received) -> None:
        if message.method is None:
            answer = self._pending.pop(_key(message.id), None)
            if answer is None:
                self.unknown.append(message.result or message.error or b"")
            elif not answer.done():
                answer.set_result(message)
            return
        if message.id is not None and not self._holds(message):
            reply = self.replies.get(message.method)
            if reply is not None:
                self.reply(message, reply(message))
                return
            if not message.method.startswith("_check/"):
                error = jsonrpc.error_object(jsonrpc.METHOD_NOT_FOUND, "Method not found")
                self.refuse(message, error)
                return
        # A component may list commands of its own at any time; the agent here has none.
        if message.method == "session/update" and _LISTING(message.params or b""):
            return
        self._received[message.method].append(message)

    def hold(self, method: str, session: bytes | None = None, mark: bytes = b"") -> None:
        """Leaves requests of this method (of this session) to the check, which answers them.

        `mark`: only those whose params hold this; others are the component's own.
        """
        self._held[method, session] = mark

    def _holds(self, message: Received) -> bool:
        assert message.method is not None
        marks = [self._held.get((message.method, of)) for of in (None, message.session)]
        return any(mark is not None and mark in (message.params or b"") for mark in marks)

    # -- sending -----------------------------------------------------------------------------

    async def opened(self) -> None:
        """Waits until it can send."""
        await self._opened.wait()

    def send(self, line: bytes) -> None:
        """Sends a raw line."""
        assert self._channel is not None
        self._on_line(self.name, "says", line)
        self._channel.send(line)

    def request(
        self,
        method: str,
        params: bytes | None = None,
        id: bytes | None = None,  # noqa: A002 - JSON-RPC's name
    ) -> ScriptedRequest:
        """Sends a request; under an id of its own, unless an id is given."""
        if id is None:
            self._count += 1
            id = b"%d" % (1000 + self._count)  # noqa: A001 - as above
        answer: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._pending[_key(id)] = answer
        self.send(jsonrpc.request(id, method, msgspec.UNSET if params is None else params))
        return ScriptedRequest(id, answer)

    def notify(self, method: str, params: bytes | None = None) -> None:
        """Sends a notification."""
        self.send(jsonrpc.notification(method, msgspec.UNSET if params is None else params))

    def reply(self, request: Received, result: bytes) -> None:
        """Answers a request."""
        self.send(jsonrpc.answer(request.id or b"null", b"result", result))

    def refuse(self, request: Received, error: bytes) -> None:
        """Answers a request with an error object."""
        self.send(jsonrpc.answer(request.id or b"null", b"error", error))

    # -- receiving ---------------------------------------------------------------------------

    def received(self, method: str) -> list[Received]:
        """The messages of a method that no check has taken."""
        return list(self._received[method])

    def take(self, method: str) -> Received | None:
        """The next message of a method, if it has come."""
        waiting = self._received[method]
        return waiting.popleft() if waiting else None

    async def next(self, method: str) -> Received:
        """The next message of a method, when it has come."""
        while (message := self.take(method)) is None:
            self._arrived.clear()
            await self._arrived.wait()
        return message


def _key(id: bytes | None) -> bytes:  # noqa: A002 - as above
    """An id in the spelling it is compared by."""
    return jsonrpc.canonical_id(id or b"null") or b""


def _received(message: Message) -> Received:
    def raw(value: msgspec.Raw | msgspec.UnsetType) -> bytes | None:
        return bytes(value) if isinstance(value, msgspec.Raw) else None

    method = message.method if isinstance(message.method, str) else None
    return Received(
        raw(message.id), method, raw(message.params), raw(message.result), raw(message.error)
    )
