"""Adding a sink is a class and a row: docs/architecture.md, "How to add something"."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

import conductor
from conductor.core import Entry
from conductor.record import wanted
from conductor.record.audit.file import BrokenChainError, verified
from conductor.run.log import Item, Sink
from tests.places import DEADLINE


class Counts(Sink[Item]):
    """Counts the items that pass, and says so when no more will come."""

    watches = False

    def __init__(self, said: list[str]) -> None:
        self._said = said
        self._met: Counter[str] = Counter()

    def take(self, item: Item, at: float, mode: str) -> None:
        """Counts a message."""
        if isinstance(item, Entry):
            self._met[f"{item.source} {item.kind} {item.method} {item.target}"] += 1

    def close(self) -> None:
        """Says its count."""
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


class Breaks(Sink[Item]):
    """Fails on every item."""

    def take(self, item: Item, at: float, mode: str) -> None:
        """Fails."""
        raise OSError("there is no room")


Row = Callable[[wanted.Sinking], Sink[Item] | None]

OTHERS: Final[tuple[Row, ...]] = (lambda chain: Breaks(), lambda chain: Counts([]))
ORDERS: Final[list[Sequence[Row]]] = [
    wanted.SINKS,
    wanted.SINKS[::-1],
    (*OTHERS, *wanted.SINKS),
    (*wanted.SINKS, *OTHERS),
    *itertools.islice(itertools.permutations((*wanted.SINKS, *OTHERS)), 7, None, 2017),
    [wanted._audit],
]


@pytest.mark.parametrize("order", range(len(ORDERS)))
def test_an_audit_is_whole_beside_any_sinks(
    order: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit"
    monkeypatch.setattr(wanted, "SINKS", ORDERS[order])

    async def program() -> None:
        trace = str(tmp_path / "trace")
        async with (
            asyncio.timeout(DEADLINE),
            conductor.open("datetime", "demo", audit=str(path), trace=trace) as chain,
        ):
            await chain.prompt("hi")

    asyncio.run(program())
    with path.open("rb") as file:
        assert [record.event for record, _ in verified(file)] == [
            *("chain", "component", "component", "loaded", "change", "end"),
        ]
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for touched in (
        whole.replace(b"datetime", b"datetine"),
        b"".join(lines[1:]),
        lines[0] + b"".join(lines[2:]),
        b"".join(lines[::-1]),
        whole[:-2] + b" \n",
        whole + lines[-1],
    ):
        path.write_bytes(touched)
        with path.open("rb") as file, pytest.raises(BrokenChainError):
            list(verified(file))
