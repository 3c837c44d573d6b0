"""How long a further try waits: twice as long each time, up to a bound, less a random part."""

from __future__ import annotations

import asyncio
import random
from typing import Final

_FIRST: Final = 0.25
_DOUBLED: Final = 5
"""How often the pause is doubled: then it is 8 seconds, and stays that."""

PATIENCE: Final = 60.0
"""Seconds for which a client tries to come back: so long a server keeps its connection."""


def seconds(tries: int) -> float:
    """The longest pause before further try number `tries`, from 1 on; 0: it comes at once."""
    return _FIRST * 2 ** min(tries - 1, _DOUBLED) if tries > 0 else 0.0


def tries(patience: float) -> int:
    """The number of further tries that fit into some seconds; the first is at once."""
    count = 1
    while (patience := patience - seconds(count)) >= 0:
        count += 1
    return count


async def wait(tries: int) -> None:
    """Waits before further try number `tries`."""
    await asyncio.sleep(seconds(tries) * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
