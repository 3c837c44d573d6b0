"""How much of everything a run measures, and which parts there are."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Part(StrEnum):
    """The parts of a run."""

    TRIP = "trip"
    TURN = "turn"
    STREAM = "stream"
    MEMORY = "memory"
    MANY = "many"


@dataclass(frozen=True, slots=True)
class Load:
    """Counts; ``sessions`` stream at once, ``more`` idle sessions are weighed."""

    rounds: int = 7
    trips: int = 400
    turns: int = 20
    updates: int = 5_000
    sessions: int = 200
    updates_each: int = 300
    more: int = 8
    users: int = 3
    text_bytes: int = 100
    update_bytes: int = 200
    limit_s: int = 60


QUICK: Final = Load(rounds=1, trips=50, turns=3, updates=500, sessions=8, more=2, users=1)
