"""Many idle sessions of several users on several workers."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from websockets.asyncio.client import ClientConnection, connect


class Client:
    """One client over a WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request; other messages are dropped."""
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        await self._socket.send(json.dumps(asked))
        while True:
            message = json.loads(await self._socket.recv())
            if message.get("id") == self._number:
                answer: dict[str, Any] = message
                return answer


async def opened(
    address: str, tokens: Sequence[str], sessions: int, each: int, held: asyncio.Event
) -> None:
    """Opens `sessions` sessions for each user, `each` to a connection, and calls `held.set`; the
    sessions stay until it is cancelled."""

    async def one(token: str) -> ClientConnection:
        headers = {"Authorization": f"Bearer {token}"}
        socket = await connect(address, additional_headers=headers, open_timeout=60)
        client = Client(socket)
        await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        for _ in range(each):
            await client.ask("session/new", {"cwd": "/", "mcpServers": []})
        return socket

    sockets = [await one(token) for token in tokens for _ in range(sessions // each)]
    held.set()
    await asyncio.Event().wait()
    del sockets
