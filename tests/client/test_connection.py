"""The client's end of a chain: in which order it hears of things."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from conductor.client.connection import Connection
from conductor.transports.base import Ended
from conductor.transports.memory import Channel, MemoryTransport


def test_who_waits_for_an_answer_goes_on_before_what_came_with_it() -> None:
    """An answer says how a session is: that must not undo what an update behind it says."""
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


async def _answered_in_one_write(transport: MemoryTransport) -> None:
    """Answers the first request, with updates before and behind the answer."""
    over = asyncio.Event()

    class Agent:
        def received(self, frames: list[bytes]) -> None:
            (asked,) = map(json.loads, frames)
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
            sent = [_update("before"), answer, _update("turn_complete"), _update("session_closed")]
            transport.write(b"".join(json.dumps(frame).encode() + b"\n" for frame in sent))
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
