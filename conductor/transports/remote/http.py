"""`http://` and `https://`: ACP over HTTP. `http_rules` decides the requests; this sends them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from conductor.errors import ConductorError
from conductor.transports import backoff
from conductor.transports.base import Ended, Owner
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.remote import client, failures, http_actions, wire
from conductor.transports.remote.address import Address
from conductor.transports.remote.cookies import Cookies
from conductor.transports.remote.http_rules import HttpRules
from conductor.transports.remote.sse import EventParser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from ssl import SSLContext

    from httpcore2 import AsyncConnectionPool, Response

_OPENED: Final = 300.0
"""Seconds that a chain may take for `initialize`."""
_POSTED: Final = 60.0
"""Seconds that a server may take to accept a message, or to open a stream."""
_SILENT: Final = 60.0
"""Seconds without a comment after which a stream is lost that had some."""
_BODY: Final = 64 * 1024
"""Bytes of the answer to a POST that are read, but for that of the first."""


class HttpTransport:
    """One connection to an address."""

    def __init__(
        self,
        address: Address,
        *,
        token: Callable[[], str] | None = None,
        tls: SSLContext | None = None,
        line_limit: int = LINE_LIMIT,
        log: Callable[[str], None] = lambda _: None,
        patience: float = backoff.PATIENCE,
    ) -> None:
        """`token` is called for each request: the token may change. `log` takes sentences about
        streams that are lost, and are there again. `patience`: seconds to get a stream back."""
        self._address, self._token, self._tls = address, token, tls
        self._limit, self._log = line_limit, log
        self._cookies = Cookies()
        self._rules = HttpRules(backoff.tries(patience))
        self._events: Owner | None = None
        self._client: AsyncConnectionPool | None = None
        self._early: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._leaving: asyncio.Task[None] | None = None
        """The task that tells the server that this connection is done."""
        self._finished = self._ended = False
        self._hint = "check the address, and the network"

    # -- the contract of transports ------------------------------------------------------------

    async def open(self, events: Owner) -> None:
        """Prepares; the first request of the owner opens the connection."""
        self._events = events
        self._client = client.pool(self._address, self._tls)
        early, self._early = self._early, []
        for data in early:
            self.write(data)
        if self._finished:
            self.finish()

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        if self._client is None:
            if not self._ended:
                self._early.append(data)
            return
        for frame in data.split(b"\n"):
            if frame:
                self._do(self._rules.write(frame))

    @property
    def buffered(self) -> int:
        """Bytes that no answer of the server has accepted yet."""
        return sum(map(len, self._early)) + self._rules.buffered

    def pause(self) -> None:
        """Stops reading."""
        self._flows.clear()

    def resume(self) -> None:
        """Reads on."""
        self._flows.set()

    def finish(self) -> None:
        """Ends the connection once everything has been sent."""
        self._finished = True
        if self._client is not None:
            self._do(self._rules.finish())

    def hear(self) -> None:
        """Does nothing: a component elsewhere has no standard error here."""

    async def close(self, grace: float) -> None:
        """Ends the connection, after queued frames had `grace` seconds to arrive."""
        was_over, self._ended = self._ended, True
        self._flows.set()
        pool = self._client
        if pool is None:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        while self.buffered and not was_over and loop.time() < deadline:
            await asyncio.sleep(0.005)
        if not was_over:
            self._leaving = self._start(self._leave())
        if self._leaving is not None:
            await asyncio.wait((self._leaving,), timeout=max(grace, 0.1))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)  # they use the pool
        self._client = None
        await pool.aclose()

    # -- actions of the rules ------------------------------------------------------------------

    def _do(self, actions: Sequence[http_actions.Action]) -> None:
        for action in actions:
            match action:
                case http_actions.Deliver(frame):
                    if not self._ended and self._events is not None:
                        self._events.received([frame])
                case http_actions.Undelivered(frame, why):
                    if not self._ended and self._events is not None:
                        self._events.undeliverable(frame, why)
                case http_actions.Post():
                    self._start(self._post(action))
                case http_actions.Listen():
                    self._start(self._listen(action))
                case http_actions.Leave():
                    self._leaving = self._start(self._leave())
                case http_actions.Over(text, status):
                    self._over(text, status)

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def quietly() -> None:
            with contextlib.suppress(*client.FAILED, ConductorError):
                await work

        assert self._events is not None
        task = self._events.carry(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _headers(self, session: str | None = None) -> dict[str, str]:
        headers = self._cookies.header()
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token()}"
        if self._rules.connection_id:
            headers[wire.CONNECTION] = self._rules.connection_id
        if session is not None:
            headers[wire.SESSION] = session
        return headers

    async def _post(self, post: http_actions.Post) -> None:
        await _pause(post.tries)
        assert self._client is not None
        is_opening = not post.number
        seconds = _OPENED if is_opening else _POSTED
        try:
            headers = {**self._headers(post.session), "Content-Type": "application/json"}
            if is_opening:
                headers.pop(wire.CONNECTION, None)
            else:
                headers[wire.NUMBER] = str(post.number)
            async with (
                asyncio.timeout(seconds),
                self._client.stream(
                    "POST", str(self._address), headers=[*headers.items()], content=post.frame
                ) as answer,
            ):
                self._cookies.take(client.named(answer.headers, "Set-Cookie"))
                id_ = client.first(answer, wire.CONNECTION)
                counts = bool(client.named(answer.headers, wire.NUMBER))
                said = await _read(answer, self._limit if is_opening else _BODY)
        except ConductorError as error:  # of a token that is gone, or of a proxy
            self._hint = error.hint or self._hint
            actions = self._rules.failed(post, error.text)
        except client.FAILED as error:
            actions = self._rules.failed(post, self._why(error))
        else:
            if is_opening:
                actions = self._rules.opened(post, answer.status, id_, said, counts=counts)
            else:
                actions = self._rules.posted(post, answer.status, said)
        self._do(actions)
        if not self._ended and self._events is not None:
            self._events.drained()

    async def _listen(self, listen: http_actions.Listen) -> None:
        await _pause(listen.tries)
        assert self._client is not None
        why, status, was_open = "ended", 0, False
        parser = EventParser(self._limit)
        parser.last_id = listen.after
        try:
            headers = {**self._headers(listen.session), "Accept": wire.EVENTS}
            if listen.after:
                headers["Last-Event-ID"] = listen.after
            asked = [*headers.items()]
            async with (
                asyncio.timeout(_POSTED) as head,
                self._client.stream("GET", str(self._address), headers=asked) as answer,
            ):
                head.reschedule(None)
                self._cookies.take(client.named(answer.headers, "Set-Cookie"))
                if (refusal := _refusal(answer)) is not None:
                    why, status = refusal
                else:
                    if listen.tries:
                        self._log(f"linked to {self._address} again")
                    was_open = True
                    self._do(self._rules.listening(listen.session))
                    await self._hear(answer.aiter_stream(), parser, listen.session)
        except failures.LinkError as error:
            why = f"was cut ({error.text})"
        except ConductorError as error:  # of a token that is gone
            why, status = error.text, 401
        except TimeoutError:
            seconds = _SILENT if was_open else _POSTED
            why = f"{'was silent' if was_open else 'did not begin'} for {seconds:g} s"
        except client.FAILED as error:
            why = f"was cut ({self._why(error)})"
        if not self._ended:
            if was_open and self._rules.goes_on(listen.session):
                self._log(f"a stream of {self._address} {why}; trying again")
            self._do(self._rules.lost(listen.session, why, status))

    async def _hear(
        self, content: AsyncIterator[bytes], parser: EventParser, session: str | None
    ) -> None:
        """Reports the events of a stream until it ends."""
        while True:
            async with asyncio.timeout(_SILENT if parser.has_comments else None):
                chunk = await anext(content, b"")
            if not chunk:
                return
            events = parser.feed(chunk)
            await self._flows.wait()
            for event in events:
                self._do(self._rules.heard(session, event.id, event.data))
                await self._flows.wait()
            self._rules.named(session, parser.last_id)
            heads, parser.oversized = parser.oversized, []
            for head in heads:
                if not self._ended and self._events is not None:
                    self._events.oversized(head, self._limit)

    async def _leave(self) -> None:
        if self._client is None or not self._rules.connection_id:
            return
        headers = self._headers()
        async with (
            asyncio.timeout(failures.CONNECT),
            self._client.stream("DELETE", str(self._address), headers=[*headers.items()]),
        ):
            pass

    # -- the end -------------------------------------------------------------------------------

    def _why(self, error: Exception) -> str:
        """The error in words."""
        if isinstance(error, OSError | TimeoutError):
            return failures.unreachable(self._address, error).text
        return f"{self._address} broke off ({type(error).__name__})"

    def _over(self, text: str, status: int) -> None:
        if self._ended or self._events is None:
            return
        self._ended = True
        data: dict[str, object] = {"address": str(self._address)}
        hint = self._hint
        if status == 404 and self._rules.connection_id:
            text, hint = f"is lost: {failures.FORGOTTEN}", failures.FORGOTTEN_HINT
            data["status"] = status
        elif status:
            refused = failures.refused(self._address, status)
            text, hint, data = f"{text}: {refused.text}", refused.hint, refused.data
        self._events.ended(Ended(text, clean=self._finished and not status, hint=hint, data=data))


async def _pause(tries: int) -> None:
    """Before a try: the second follows the first at once."""
    if tries > 1:
        await backoff.wait(tries - 1)


def _refusal(answer: Response) -> tuple[str, int] | None:
    """Why an answer is no stream of events, and its status; None: it is a stream of events."""
    if answer.status != 200:
        return f"got HTTP status {answer.status}", answer.status
    kind = client.kind(answer)
    return None if kind == wire.EVENTS else (f"is `{kind[:40]}`, and no event stream", 406)


async def _read(answer: Response, limit: int) -> bytes:
    """The body of an answer. Raises `OSError` for a body that is too long."""
    body = await client.body(answer, limit)
    if body is None:
        raise OSError(f"its answer has more than {limit:,} bytes")
    return body
