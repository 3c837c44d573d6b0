"""Agents in this process, for the tests beside."""

from __future__ import annotations

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
