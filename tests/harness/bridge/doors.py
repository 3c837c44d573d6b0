"""A bridge that answers by itself, for testing the doors without a chain.

What it is asked decides what it does:

    anything        answered with {"listener": …, "method": …, "params": …}
    big N           answered with a text of N bytes
    wait            not answered until the test says so
    progress N      N notifications/progress under the request's token, then the answer
    log N           N notifications/message that name no request, then the answer
    ask             asks the client `sampling/createMessage`, and answers with what that answered
    refuse          answered with an error, -32601
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from conductor.mcp.bridge.effects import CloseClient, CloseListener, NoResponse, ToClient
from conductor.mcp.doors.doors import Doors

Json = dict[str, Any]
PATIENCE = 30.0
"""Seconds anything may take before a test fails instead of hanging."""


def descriptors() -> int:
    """How many descriptors this process has open."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    return len(os.listdir(folder))


class Bridge:
    """`conductor.mcp.doors.doors.DoorEvents`, remembering all, and answering."""

    def __init__(self) -> None:
        self.opens: list[tuple[str, str]] = []
        self.frames: list[tuple[str, bytes]] = []
        self.closes: list[str] = []
        self.logs: list[str] = []
        self.waiting: list[tuple[str, Json]] = []
        self.quiet = False
        """Answers nothing at all."""
        self.doors: Doors
        self._forwarded: dict[Any, tuple[str, Any]] = {}
        self._changed = asyncio.Event()

    def log(self, level: str, name: str, text: str) -> None:
        self.logs.append(f"{level}: {name}: {text}")
        self._changed.set()

    def client_opened(self, connection: str, listener: str) -> None:
        self.opens.append((connection, listener))
        self._changed.set()

    def client_closed(self, connection: str) -> None:
        self.closes.append(connection)
        self._changed.set()

    def client_received(self, connection: str, frame: bytes) -> None:
        self.frames.append((connection, frame))
        self._changed.set()
        if not self.quiet:
            self._react(connection, json.loads(frame))

    @property
    def open(self) -> list[str]:
        """Connections that are open."""
        return [name for name, _ in self.opens if name not in self.closes]

    def messages(self) -> list[Json]:
        """All that was received."""
        return [json.loads(frame) for _, frame in self.frames]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until `condition` holds; fails after a generous while."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                if not condition():
                    await self._changed.wait()

    def answer(self, connection: str, message: Json, result: Any = None) -> None:
        """Answers a request."""
        self.send(connection, {"id": message["id"], "result": result or {}})

    def send(self, connection: str, message: Json, related: bytes | None = None) -> None:
        """Sends a message to the client."""
        frame = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.doors.perform(ToClient(connection, frame, related))

    def no_response(self, connection: str, id_: bytes) -> None:
        """The request with this raw id gets no response."""
        self.doors.perform(NoResponse(connection, id_))

    def close(self, connection: str) -> None:
        """Closes the connection of a client."""
        self.doors.perform(CloseClient(connection))

    def close_listener(self, listener: str) -> None:
        """Closes a listener."""
        self.doors.perform(CloseListener(listener))

    def _react(self, connection: str, message: Json) -> None:
        if "method" not in message:
            forwarded = self._forwarded.pop(message["id"], None)
            if forwarded is not None:
                self.send(
                    forwarded[0], {"id": forwarded[1], "result": {"answered": message["result"]}}
                )
            return
        if "id" not in message:
            return
        params = message.get("params", {})
        what, _, argument = message["method"].partition(" ")
        listener = dict(self.opens)[connection]
        match what:
            case "big":
                self.answer(connection, message, {"text": "x" * int(argument)})
            case "wait":
                self.waiting.append((connection, message))
                self._changed.set()
            case "refuse":
                self.send(connection, {"id": message["id"], "error": {"code": -32601}})
            case "ask":
                self._forwarded["s1"] = (connection, message["id"])
                asking = {"id": "s1", "method": "sampling/createMessage", "params": {}}
                self.send(connection, asking, json.dumps(message["id"]).encode())
            case "progress" | "log":
                token = params.get("_meta", {}).get("progressToken")
                name = {"progress": "progress", "log": "message"}[what]
                for n in range(int(argument)):
                    said = {"progressToken": token, "n": n} if what == "progress" else {"n": n}
                    self.send(connection, {"method": f"notifications/{name}", "params": said})
                self.answer(connection, message, {"done": True})
            case _:
                held = {"listener": listener, "method": message["method"], "params": params}
                self.answer(connection, message, held)


@asynccontextmanager
async def running(line_limit: int = 64 * 1024 * 1024) -> AsyncIterator[Bridge]:
    """A bridge with its doors, which are gone afterwards."""
    bridge = Bridge()
    bridge.doors = Doors(
        bridge,
        log=bridge.log,
        line_limit=line_limit,
        start=lambda work: asyncio.get_running_loop().create_task(work),
    )
    try:
        yield bridge
    finally:
        await bridge.doors.aclose()


@asynccontextmanager
async def listener(
    kind: str, line_limit: int = 64 * 1024 * 1024
) -> AsyncIterator[tuple[Bridge, Any]]:
    """A bridge, and the declaration of one listener, called `7:tools`."""
    async with running(line_limit) as bridge:
        yield bridge, await bridge.doors.listen("7:tools", kind)
