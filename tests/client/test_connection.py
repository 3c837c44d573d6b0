"""The client's end of a chain: in which order it hears of things."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from conductor.client.connection import Connection
from conductor.errors import ConductorError
from conductor.transports.base import Ended
from conductor.transports.memory import Channel, MemoryTransport
from tests.transports.ends import Carrying


def test_who_waits_for_an_answer_goes_on_before_what_came_with_it() -> None:
    """An answer tells the state of a session: it must not undo the state of a later update."""
    order: list[str] = []

    async def updated(_session: str, update: dict[str, Any]) -> None:
        order.append(update["sessionUpdate"])

    connection = Connection("test", {}, on_update=updated)

    async def client(channel: Channel) -> None:
        async with connection.over(channel):
            await connection.request("session/attach", {})
            order.append("answer")
            await connection.closed()

    transport = MemoryTransport(client)
    asyncio.run(_answered_in_one_write(transport))
    assert order == ["before", "answer", "turn_complete", "session_closed"]


@pytest.mark.parametrize(
    "line",
    [
        *(b"SSH-2.0-OpenSSH_9", b"\xff", b'{"id":1,', b"[" * 200_000),
        *(b'{"id":{},"result":{}}', b'{"id":[1],"method":"x"}'),
        b'{"id":1,"method":"ask"}\n{"id":1,"method":"ask"}',
    ],
)
def test_what_is_no_message_ends_a_connection_with_an_error(line: bytes) -> None:
    """Where a client connects by itself nobody has checked the lines that come."""
    assert _raised_by(line) == "the server there sent something that is no message of ACP"


@pytest.mark.parametrize("message", [b"null", b'""', b'"","data":' + b"9" * 5_000])
def test_an_error_without_words_says_that_it_has_none(message: bytes) -> None:
    answer = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":%b}}'
    assert _raised_by(answer % message) == "initialize failed: no reason given"


def test_a_cancellation_that_names_nothing_is_dropped() -> None:
    async def ignored(*_: object) -> None: ...

    connection = Connection("test", {}, on_update=ignored)
    answers: list[dict[str, Any]] = []

    async def client(channel: Channel) -> None:
        async with connection.over(channel):
            answers.append(await connection.request("x", {}))

    cancelled = b'{"method":"$/cancel_request","params":{"requestId":[1]}}\n'
    transport = MemoryTransport(client)
    asyncio.run(_answered_by(transport, lambda _: cancelled + b'{"id":1,"result":{"a":1}}'))
    assert answers == [{"a": 1}]


def _raised_by(line: bytes) -> str:
    """The words of the error that a client raises whose first request is answered with a line."""

    async def ignored(*_: object) -> None: ...

    connection = Connection("test", {"ask": ignored}, on_update=ignored)
    raised: list[str] = []

    async def client(channel: Channel) -> None:
        async with connection.over(channel):
            with pytest.raises(ConductorError) as error:
                await connection.request("initialize", {})
            raised.append(error.value.text)

    asyncio.run(_answered_by(MemoryTransport(client), lambda _: line))
    (text,) = raised
    return text


async def _answered_in_one_write(transport: MemoryTransport) -> None:
    """Answers the first request, with updates before and behind the answer."""

    def answered(asked: dict[str, Any]) -> bytes:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
        sent = [_update("before"), answer, _update("turn_complete"), _update("session_closed")]
        return b"\n".join(json.dumps(frame).encode() for frame in sent)

    await _answered_by(transport, answered)


async def _answered_by(
    transport: MemoryTransport, answered: Callable[[dict[str, Any]], bytes]
) -> None:
    """Answers the first request with lines."""
    over = asyncio.Event()

    class Agent(Carrying):
        def received(self, frames: list[bytes]) -> None:
            if not over.is_set():
                transport.write(answered(json.loads(frames[0])) + b"\n")
                transport.finish()

        def oversized(self, head: bytes, limit: int) -> None: ...

        def undeliverable(self, frame: bytes, why: str) -> None: ...

        def drained(self) -> None: ...

        def ended(self, how: Ended) -> None:
            over.set()

    await transport.open(Agent())
    await over.wait()


def _update(kind: str) -> dict[str, Any]:
    params = {"sessionId": "s", "update": {"sessionUpdate": kind}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}
