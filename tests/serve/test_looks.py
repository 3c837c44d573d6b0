"""A server and its rooms: the periodic look at them, and their end."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from conductor.serve import server as server_module
from conductor.serve.access.gate import Gate
from conductor.serve.owners import Owners
from conductor.serve.server import Server
from conductor.serve.settings import Settings


def _server(complain: Callable[[str], None], room: Callable[[str, Server], Any]) -> Server:
    gate = Gate(names=[], allowed=[], open_=True, known=[])
    factory: Any = None
    return Server(Settings(), gate, factory, Owners(), [""], complain, room)


def test_a_room_that_fails_is_reported_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else no turn of anybody would ever be too long again, and no token would expire."""
    monkeypatch.setattr(server_module, "_LOOK", 0)
    complaints: list[str] = []
    looked = {"broken": 0, "sound": 0}

    async def work() -> None:
        enough = asyncio.Event()

        def look(principal: str) -> None:
            looked[principal] += 1
            if looked["sound"] >= 3:
                enough.set()
            if principal == "broken":
                raise RuntimeError("\x1b[31m what a client wrote")

        def room(principal: str, _: Server) -> Any:
            return SimpleNamespace(
                overdue=lambda: look(principal), check=lambda holds: None, is_empty=False
            )

        made = _server(complaints.append, room)
        for principal in looked:
            made.room(principal)
        looking = asyncio.create_task(made._look())
        await enough.wait()
        looking.cancel()

    asyncio.run(work())
    assert looked["broken"] >= 3
    assert "RuntimeError at " in complaints[0]
    assert "test_looks.py" in complaints[0]
    assert "\x1b" not in "".join(complaints)


async def test_a_room_is_over_when_its_chains_are() -> None:
    """Who gives a room away does so after that: else two of it would run."""
    over: list[str] = []

    async def chain() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):  # it ends its components
                await asyncio.sleep(0)
            over.append("chain")

    task = asyncio.create_task(chain())
    await asyncio.sleep(0)
    room = SimpleNamespace(
        close=lambda why: None,
        running=[SimpleNamespace(task=task)],
        stop=task.cancel,
        is_empty=True,
    )
    made = _server(over.append, lambda *_: room)
    made.room("ann")
    await made.end_room("ann", now=True)
    assert over == ["chain"]
    assert made.found("ann") is None
