"""Adding a sink is a class and a row: docs/architecture.md, "How to add something"."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import conductor
from conductor.core import Entry
from conductor.record import wanted
from conductor.run.log import Item, Sink
from tests.places import DEADLINE


class Counts(Sink):
    """Counts what passes, and says so when nothing more will come."""

    watches = False

    def __init__(self, said: list[str]) -> None:
        self._said = said
        self._met: Counter[str] = Counter()

    def take(self, item: Item, at: float, mode: str) -> None:
        """Counts a message."""
        if isinstance(item, Entry):
            self._met[f"{item.source} {item.kind} {item.method} {item.target}"] += 1

    def close(self) -> None:
        """Says what it has counted."""
        self._said += [f"{count} {what}" for what, count in sorted(self._met.items())]


def test_a_sink_is_a_class_and_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(wanted, "SINKS", (*wanted.SINKS, lambda chain: Counts(said)))

    async def program() -> None:
        async with asyncio.timeout(DEADLINE), conductor.open("demo") as chain:
            await chain.prompt("hi")

    asyncio.run(program())
    assert said == [
        "1 client request initialize demo",
        "1 client request session/new demo",
        "1 client request session/prompt demo",
        "1 demo notification session/update client",
        "1 demo response initialize client",
        "1 demo response session/new client",
        "1 demo response session/prompt client",
    ]
