"""A host of guests in this process: the real one, whose guests a storm plays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Final, cast

import wasm_host
from conductor.core import CHANNEL, Component
from conductor.core.policy.policy_words import PolicyWords
from conductor.core.policy.rules import Policy
from conductor.core.policy.words import TRUSTED
from conductor.core.router import RouterOptions
from conductor.run.segment import Segment
from conductor.run.segment_loop import ParentOutput
from conductor.run.segment_spec import GuestSpec, SegmentSpec
from tests.harness.router.actors import dump
from tests.harness.world.storm_cast import WORDS

Plays = Callable[[Sequence[bytes]], list[bytes]]
"""Lines that a guest gets, and lines that it returns."""

NUMBERS: Final = range(10**12, 2 * 10**12)
REPORTS: Final = frozenset(
    {"failed", "violated", "changed", "ready", "recovered", "service", "owned", "reached"}
)
RECORD: Final = b"jJ+"
"""How lines begin that are for a trace alone."""


class Clock:
    """The clock of all hosts: it stands until a storm lets time pass."""

    now = 0.0

    @classmethod
    def stands(cls) -> None:
        """From now on hosts look at it; it begins at 0."""
        cls.now = 0.0
        clock = SimpleNamespace(monotonic=lambda: cls.now, process_time=lambda: 0.0)
        for name, module in list(sys.modules.items()):
            if name.startswith("conductor.run.") and hasattr(module, "time"):
                module.time = clock  # type: ignore[attr-defined]


class PlayedGuest:
    """A guest; it stands for its module too."""

    carrier = "core"
    stderr = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.dies = False
        """Whether the guest ends with the next delivery."""
        self.plays: Plays = lambda lines: []

    def instantiate(self, name: str) -> PlayedGuest:
        """Itself."""
        assert name == self.name
        self.dead = False
        return self

    def start(self, data: bytes) -> bytes:
        """The guest says nothing at first."""
        return data[:0]

    def close(self) -> None:
        """The guest is freed."""
        self.dead = True

    def deliver(self, data: bytes) -> bytes:
        """Takes lines, and returns lines."""
        if self.dies:
            self.dies, self.dead = False, True
            raise wasm_host.GuestError("deliver", f"{self.name} died")
        return b"".join(line + b"\n" for line in self.plays(data.splitlines()))


class Host:
    """A host, and the lines of its parent for it."""

    def __init__(self, guests: Sequence[Component], options: RouterOptions) -> None:
        Clock.stands()
        self.name = "+".join(one.name for one in guests)
        self.inbox: list[bytes] = []
        self.guests = {one.name: PlayedGuest(one.name) for one in guests}
        policies = [one.policy for one in guests]
        alone = policies[0] if len(guests) == 1 else None
        union = alone if alone is not None and not alone.grants.sessions else _union(policies)
        inside = alone is None or union is None
        self.component = Component(
            self.name,
            f"the host of {self.name}",
            CHANNEL,
            REPORTS,
            policy=union,
            known_as=frozenset(self.guests),
            numbers=NUMBERS if options.tracing and inside else None,
            hosts=True,
            guests={one.name: one.policy.grants.turns for one in guests if one.policy is not None},
        )
        specs = [_spec(one, inside=inside) for one in guests]
        self._got: list[bytes] = []
        output = SimpleNamespace(unsent=0, send=self._got.append, flush=lambda: None)
        recording = options.tracing and inside
        numbers = NUMBERS.start if recording else 0
        audits = bool(options.audited)
        spec = SegmentSpec(specs, numbers=numbers, recording=recording, auditing=audits)
        modules = cast("dict[str, wasm_host.Module]", self.guests)
        self.segment = Segment(spec, modules, cast("ParentOutput", output))

    def plays(self, name: str, plays: Plays) -> None:
        """Who plays a guest."""
        self.guests[name].plays = plays

    def start(self) -> list[bytes]:
        """Starts the host; the result is its lines."""
        self.segment.start()
        return self._settled()

    def feed(self, lines: list[bytes]) -> list[bytes]:
        """Has the host read lines; the result is its lines."""
        self.segment.feed(lines)
        return self._settled()

    def passes(self, seconds: float) -> list[bytes]:
        """Time passes; returns the lines that the host writes."""
        Clock.now += seconds
        self.segment.run_due()
        return self._settled()

    def pauses(self, names: Sequence[str]) -> list[bytes]:
        """Has the host's parent pause these guests; the result is the host's lines."""
        params = {"component": "", "method": "paused", "params": list(names)}
        message = {"jsonrpc": "2.0", "method": "paused", "params": params}
        return self.feed([b"c" + dump(message)])

    def _settled(self) -> list[bytes]:
        for _ in range(5000):
            if self.segment.failed or self.segment.settle() != 0.0:
                lines = b"".join(self._got).splitlines()
                self._got.clear()
                return [line for line in lines if line[:1] not in RECORD]
            self.segment.run_due()
        raise AssertionError("it never comes to an end")


def _spec(guest: Component, *, inside: bool) -> GuestSpec:
    policy = guest.policy
    words = PolicyWords((TRUSTED,))
    if policy is not None and inside:
        words = PolicyWords(
            WORDS[policy],
            policy.on_violation,
            policy.fails,
            policy.ids,
            policy.hold,
        )
    return GuestSpec(
        name=guest.name,
        label=guest.label,
        services=guest.services or frozenset(),
        policy=words,
        on_failure="bypass",
    )


def _union(policies: Sequence[Policy | None]) -> Policy | None:
    """The policy of a host: the rules of its guests, as no guest of them hears the agent; else
    None."""
    held = [
        one for one in policies if one is not None and not one.hears and not one.grants.sessions
    ]
    if len(held) < len(policies):
        return None
    return Policy(tuple(dict.fromkeys(rule for one in held for rule in one.rules)))
