"""A turn in detail: the text that a person reads, and each component's work on each message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conductor.record.turns.items import Items
from conductor.record.turns.model import Item, Turn, TurnDetail, Verdict
from conductor.record.turns.visits import Visits

if TYPE_CHECKING:
    from conductor.record.turns.reader import Reader


def detail(reader: Reader, turn: Turn) -> TurnDetail:
    """All that is shown of a turn."""
    items, visits = Items(reader, turn), Visits(reader)
    verdicts: list[Verdict] = []
    for number, line in reader.of_turn(turn):
        if line.verdict is not None:
            verdict = verdict_of(line.verdict, line.ts, number)
            verdicts.append(verdict)
            items.refused(number, verdict)
        elif line.happened is not None:
            items.happened(number, line)
        elif line.is_event:
            update = line.update
            items.event(number, line, update)
            visits.event(number, line, update)
    return TurnDetail(
        turn=turn,
        items=items.taken(),
        visits=tuple(visits.in_order(reader.components)),
        verdicts=tuple(verdicts),
    )


def repeated(reader: Reader, session: str, first: int, behind: int) -> tuple[Item, ...]:
    """The part of an older session that the agent repeated, between two numbers of events."""
    turn = Turn(number=0, events=(first, behind))
    items = Items(reader, turn)
    for number, line in reader.of_turn(turn):
        update = line.update
        if update is not None and line.names_session == session:
            items.event(number, line, update)
    return items.taken()


def verdict_of(record: dict[str, Any], at: float = 0.0, event: int | None = None) -> Verdict:
    """A verdict as a line of a trace or of an audit has it; members that are no text are empty."""
    names = ("component", "rule", "direction", "method", "pointer", "text")
    known = {name: held if isinstance(held := record.get(name), str) else "" for name in names}
    return Verdict(**known, at=at, event=event, would=bool(record.get("would")))
