"""The draws from the seed: the chains, the turns, the harms, the end of each life.

Every act of a life is drawn before it is performed, so that events in the life (which are a
matter of timing) do not change the next draws.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.chaos.expected import Expected, Numbered, Text


class Harm(enum.Enum):
    """The harm to a chain amid a round."""

    KILL_HOST = "kill a host of guests"
    KILL_PROXY = "kill a proxy process"
    STALL_HOST = "stall a host of guests"
    STALL_PROXY = "stall a proxy process"
    STALL_AGENT = "stall the agent"
    STALL_CONDUCTOR = "stall the conductor"
    DEAF_CLIENT = "the client does not read"
    SWAP = "swap every proxy"


class Ending(enum.Enum):
    """How a life ends."""

    EOF = "end of input"
    SIGTERM = "SIGTERM"
    AGENT = "the agent is killed"
    CONDUCTOR = "the conductor is killed"


_HARMS = {
    Harm.KILL_HOST: 4,
    Harm.KILL_PROXY: 4,
    Harm.STALL_HOST: 2,
    Harm.STALL_PROXY: 2,
    Harm.STALL_AGENT: 1,
    Harm.STALL_CONDUCTOR: 1,
    Harm.DEAF_CLIENT: 1,
    Harm.SWAP: 4,
}

CHAINS: tuple[tuple[str, ...], ...] = (
    ("guest", "process"),
    ("guest", "guest", "process"),
    ("process", "guest"),
    ("guest", "process", "guest"),
    ("process", "guest", "process"),
)
ISOLATIONS = ("process", "process", "separate")


@dataclass(frozen=True, slots=True)
class Blow:
    """One harm: when in its round, for how long (both seconds), and a number to pick whom."""

    harm: Harm
    after: float
    lasts: float
    pick: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt: its text, and the expected updates."""

    what: str
    text: str
    expected: Callable[[], Expected]
    cancel_after: float | None = None
    """Seconds after which the client cancels it; None: never."""
    sure: bool = True
    """Whether cancelling ends the prompt."""
    more: int = 0
    """The number of short turns that follow in its session, one after the other."""


@dataclass(frozen=True, slots=True)
class Round:
    """Turns side by side, requests of unknown methods, and the harms meanwhile."""

    turns: tuple[Turn, ...]
    unknown: int
    blows: tuple[Blow, ...]
    hold_permissions: float
    """Seconds the client thinks about a permission."""


@dataclass(frozen=True, slots=True)
class LifePlan:
    """One chain: its proxies from the client's side on, its rounds, its end."""

    proxies: tuple[str, ...]
    isolation: str
    rounds: int
    ending: Ending


def draw_life(rng: Random) -> LifePlan:
    """A chain; each fourth lives long, so that memory has time to grow."""
    rounds = rng.randint(60, 120) if rng.random() < 0.25 else rng.randint(6, 20)
    ending = rng.choice((Ending.EOF, Ending.EOF, *Ending))
    return LifePlan(rng.choice(CHAINS), rng.choice(ISOLATIONS), rounds, ending)


def draw_turns(rng: Random, number: int) -> tuple[Turn, ...]:
    """The turns of a round; ``number`` makes their texts unlike those of all others."""
    return tuple(
        rng.choices(_TURNS, _WEIGHTS)[0](rng, f"{number}.{at}") for at in range(rng.randint(1, 4))
    )


def draw_round(rng: Random, number: int) -> Round:
    """One round of this number."""
    turns = draw_turns(rng, number)
    harms = rng.choices(list(_HARMS), list(_HARMS.values()), k=rng.choice((0, 1, 1, 1, 2)))
    blows = tuple(
        Blow(harm, rng.uniform(0, 0.08), rng.uniform(0.05, 0.25), rng.randrange(1 << 16))
        for harm in harms
    )
    return Round(turns, rng.choice((0, 0, 1, 3)), blows, rng.choice((0.0, 0.0, 0.1)))


def chat(name: str, more: int) -> Turn:
    """A short turn with a text of its own, and ``more`` to follow."""
    text = f"turn {name} with {more} more to come"
    return Turn(f"chat {name}", f"/echo {text}", lambda: Text(text), more=more)


def _chat(rng: Random, name: str) -> Turn:
    return chat(name, rng.randint(5, 30))


def _stream(rng: Random, name: str) -> Turn:
    count, size = rng.choice(((500, 200), (2000, 100), (2000, 100), (10000, 60)))
    return Turn(f"stream {name}", f"/stream {count} {size}", lambda: Numbered(count, size))


def _cut_stream(rng: Random, name: str) -> Turn:
    cancel = rng.uniform(0.0, 0.05)
    return Turn(
        f"cancelled stream {name}",
        "/stream 20000 60",
        lambda: Numbered(20000, 60),
        cancel_after=cancel,
        sure=False,
    )


def _hang(rng: Random, name: str) -> Turn:
    return Turn(f"hang {name}", "/hang", lambda: Text(""), cancel_after=rng.uniform(0.01, 0.15))


def _big(rng: Random, name: str) -> Turn:
    words = rng.choice((2_000, 20_000, 100_000))
    text = "".join(f"{name}-{at} " for at in range(words))
    return Turn(f"big message {name}", text, lambda: Text(text))


def _size(rng: Random, name: str) -> Turn:
    size = rng.choice((100_000, 1_000_000))
    return Turn(f"one chunk of {size} bytes {name}", f"/size {size}", lambda: Text("x" * size))


def _permission(rng: Random, name: str) -> Turn:
    choice = "permission: allow-once"
    return Turn(f"permission {name}", f"/permission {name}", lambda: Text(choice))


_TABLE = (
    (_chat, 3),
    (_stream, 4),
    (_cut_stream, 2),
    (_hang, 2),
    (_big, 1),
    (_size, 1),
    (_permission, 3),
)
_TURNS = [draw for draw, _ in _TABLE]
_WEIGHTS = [weight for _, weight in _TABLE]
