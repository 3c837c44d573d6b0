"""Plays: storms as numbers, and the outcome of a play in a revision of the conductor.

A process that plays has one revision on its path, and writes its outcome of each play.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import msgspec

import conductor
from conductor.core import Component
from conductor.core.router import Router, RouterOptions
from tests.harness.world.storm import Storm, Weather
from tests.harness.world.storm_events import calms, ends, step

_TOKENS: Final = ("Wake", "Serve", "Resolve", "Recall")
"""Effects with a token, which each revision may choose as it likes."""
_TAKEN: Final = ("woken", "served", "resolved", "recalled")
"""The calls that it comes back with, in the same order."""


class Play(msgspec.Struct, frozen=True):
    """A storm, as numbers."""

    kind: str
    salt: int
    cast: tuple[int, ...]
    """A seed for each component."""
    steps: tuple[int, ...]
    """A seed for each step."""


def drawn(kind: str, seed: int) -> Play:
    """A play of a kind."""
    rng = Random(f"{kind} {seed}")  # noqa: S311 - a seed
    cast = tuple(rng.randrange(2**32) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4))))
    steps = tuple(rng.randrange(2**32) for _ in range(rng.choice((20, 60, 100, 200))))
    return Play(kind, rng.randrange(2**32), cast, steps)


KINDS: Final = (
    "policed", "programs", "free", "detected", "hosts", "plain", "ports", "revived", "watched",
    "outside", "moves",
)  # fmt: skip


def _weather(play: Play) -> Weather:
    rng = Random(play.salt)  # noqa: S311
    version = rng.choice((1, 1, 2))
    audited = [f"g{at}" for at in range(len(play.cast))]
    options = RouterOptions()
    match play.kind:
        case "watched":
            watched = audited if rng.random() < 0.6 else ()
            options = RouterOptions(tracing=rng.random() < 0.7, audited=watched)
        case "outside":
            options = RouterOptions(propagating=True, resolving=True, keeping=True, tracing=True)
        case "hosts" if rng.random() < 0.3:
            options = RouterOptions(tracing=rng.random() < 0.5, audited=audited)
    return Weather(
        version,
        programs=play.kind in ("programs", "detected")
        or (play.kind not in ("policed", "plain") and rng.random() < 0.2),
        free=play.kind == "free" or (play.kind in ("hosts", "watched") and rng.random() < 0.4),
        detected=play.kind == "detected",
        hosts=play.kind in ("hosts", "plain"),
        plain=play.kind == "plain",
        ports=play.kind == "ports",
        moves=play.kind == "moves",
        revived=play.kind == "revived",
        limited=rng.random() < 0.3,
        options=options,
    )


class Broken(Exception):  # noqa: N818 - a fact, which ends a play
    """Something has happened that never happens."""


class Recording:
    """Stands before a router: keeps its calls, and the effects that it asks for."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.lines: list[str] = []
        """All that happens, in order, for a reader."""
        self.streams: dict[str, list[str]] = {}
        """The streams to compare: for each peer the lines to it, and the effects of each kind."""
        self._tokens: dict[tuple[int, int], str] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._router, name)
        if not callable(found):
            return found

        def called(*args: Any, **more: Any) -> Any:
            shown = [
                self._token(_TAKEN.index(name), arg) if name in _TAKEN and at == 0 else _shown(arg)
                for at, arg in enumerate(args)
            ] + [f"{key}={value}" for key, value in more.items()]
            self.lines.append(f"{name}({', '.join(shown)})")
            answer = found(*args, **more)
            if isinstance(answer, list) and all(isinstance(one, msgspec.Struct) for one in answer):
                for effect in answer:
                    self._note(effect)
            elif answer is not None:
                self._add(name, _shown(sorted(answer) if isinstance(answer, list) else answer))
            return answer

        return called

    def _token(self, kind: int, token: int) -> str:
        return self._tokens.setdefault((kind, token), f"#{len(self._tokens)}")

    def _note(self, effect: Any) -> None:
        kind = type(effect).__name__
        if kind == "Send":
            self._add(f"to {effect.peer}", effect.frame.decode(errors="replace").rstrip("\n"))
            return
        fields = msgspec.structs.asdict(effect)
        if kind in _TOKENS and fields["token"] is not None:
            fields["token"] = self._token(_TOKENS.index(kind), fields["token"])
        self._add(kind, ", ".join(f"{name}={_shown(value)}" for name, value in fields.items()))

    def _add(self, stream: str, text: str) -> None:
        self.lines.append(f"    {stream}: {text}")
        self.streams.setdefault(stream, []).append(text)

    def log(self, log: io.StringIO) -> None:
        """Takes the log of hosts."""
        for line in log.getvalue().splitlines():
            self._add("the log of hosts", line)
        log.seek(0)
        log.truncate()

    def taken(self) -> dict[str, list[str]]:
        """The streams since the last call."""
        streams, self.streams = self.streams, {}
        return streams


def _shown(value: object) -> str:
    if isinstance(record := getattr(value, "record", None), bytes):  # a prompt that is kept
        return record.decode()
    if isinstance(value, bytes | msgspec.Raw):
        return bytes(value).decode(errors="replace")
    if isinstance(value, Component):
        return value.name
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, msgspec.Struct):
        fields = [f"{name}={_shown(one)}" for name, one in msgspec.structs.asdict(value).items()]
        return f"{type(value).__name__}({', '.join(fields)})"
    return str(value)


class Recorded(Storm):
    """A storm that is put on record."""

    def made(self, components: Sequence[Component]) -> Router:
        self.record = Recording(super().made(components))
        self.record.lines += [str(one) for one in components]
        return self.record  # type: ignore[return-value]

    def broken(self, what: str) -> None:
        raise Broken(what)


class Made(msgspec.Struct, frozen=True):
    """The outcome of a play in one revision."""

    steps: list[dict[str, list[str]]]
    """For the start, each step and the calm: the lines of each stream."""
    lines: list[list[str]]
    """The same for a reader."""

    @property
    def digest(self) -> str:
        """Equal for equal plays."""
        return hashlib.sha256(json.dumps(self.steps, sort_keys=True).encode()).hexdigest()


def played(play: Play) -> Made:
    """Plays a play, as far as it can be played."""
    made = Made([], [])
    storm = Recorded.__new__(Recorded)
    log = io.StringIO()

    def note(error: str = "") -> None:
        taken: dict[str, list[str]] = {}
        lines: list[str] = []
        if hasattr(storm, "record"):  # else it has failed while it was made
            storm.record.log(log)
            taken = storm.record.taken()
            lines, storm.record.lines = storm.record.lines, []
        made.steps.append(taken | ({"it ends": [error]} if error else {}))
        made.lines.append([*lines, f"    it ends: {error}"] if error else lines)

    with contextlib.redirect_stderr(log):
        _plays(storm, play, note)
    return made


def _plays(storm: Recorded, play: Play, note: Callable[..., None]) -> None:
    try:
        storm.__init__(play.cast, _weather(play), play.salt)  # type: ignore[misc]
        note()
        for seed in play.steps:
            if storm.over:
                break
            step(storm, seed)
            _look(storm)
            note()
        if not storm.over and play.salt % 3:
            calms(storm)
            _look(storm)
            note()
        ends(storm)
        note()
    except Exception as error:
        if not hasattr(storm, "record"):
            raise  # it has not begun
        note(f"{type(error).__name__}: {error}")


def _look(storm: Storm) -> None:
    """Asks the router all that a shell can ask."""
    router = storm.router
    router.quiet()
    for name, node in storm.nodes.items():
        if node.host is None:
            router.pending(name)
            router.waiting_on(name)


def main() -> None:
    """Reads plays, a list in a line; writes their outcomes: digests, or all of them."""
    sys.stdout.write(f"{conductor.__file__}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        whole, plays = msgspec.json.decode(line, type=tuple[bool, list[Play]])
        made = [played(play) for play in plays]
        answer = made if whole else [[one.digest, _end(one)] for one in made]
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.flush()


def _end(made: Made) -> str:
    """Why a play ended early."""
    return made.steps[-1].get("it ends", [""])[0]


if __name__ == "__main__":
    main()
