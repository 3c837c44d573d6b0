"""Agents in this process, for the tests beside."""

import asyncio
import json

from conductor.transports.memory import Channel

left = asyncio.Event()
"""Set when `leaving` has failed."""


async def leaving(channel: Channel) -> None:
    """Opens a session, and then fails."""
    results = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
    while (line := await channel.receive()) is not None:
        asked = json.loads(line)
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
        channel.send(json.dumps(answer).encode())
        if asked["method"] == "session/new":
            asyncio.get_running_loop().call_soon(left.set)
            raise ValueError("as it was to")


async def printing(channel: Channel) -> None:
    """Answers `initialize`, and prints before and after it."""
    print("it runs")
    while (line := await channel.receive()) is not None:
        answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"protocolVersion": 1}}
        channel.send(json.dumps(answer).encode())
        print("it has answered")
