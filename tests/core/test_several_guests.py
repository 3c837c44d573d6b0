"""Guests in a row that do as they like, die, and come back: each request has its one answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import CHANNEL, Closure, Component, Router
from conductor.core.policy import Policy
from tests.core.test_noninterference import PROFILED, TAPES, policies, steps
from tests.core.worlds import INITIALIZE, End, Step, Tape, Wild, World

GONE: Final = Closure("gone")


class Mishap(NamedTuple):
    """A guest ends before a step."""

    step: int
    guest: int
    returns: bool
    tape: tuple[int, ...]
    """What it does when it has returned."""


class Several(World):
    """A chain of guests, each with its policy (None: trusted) and its tape."""

    def __init__(
        self, guests: Sequence[tuple[Policy | None, Sequence[int]]], *, rounds: bool, audited: bool
    ) -> None:
        self._rounds = rounds
        self.names = [f"g{number}" for number in range(len(guests))]
        self.guests = {name: Wild() for name in self.names}
        components = [
            Component(name, f"proxy `{name}`", CHANNEL, policy=policy)
            for name, (policy, _) in zip(self.names, guests, strict=True)
        ]
        agent = Component("agent", "agent `agent`")
        self.router = Router([*components, agent], audited=self.names if audited else ())
        self.changes, self.violations = [], []
        self.client, self.agent = End("client"), End("agent")
        self._outboxes = {}
        self.play("client", INITIALIZE)
        self.settle()
        assert self.client.answers.pop(0) == 1
        for name, (_, tape) in zip(self.names, guests, strict=True):
            self.guests[name].tape = Tape(tape)

    def settle(self) -> None:
        for _ in range(2000):
            if not self._outboxes:
                return
            name = next(iter(self._outboxes))
            lines = self._outboxes.pop(name)
            if name in self.guests:
                self._hand(name, lines)
                continue
            end = self.client if name == "client" else self.agent
            for line in lines:
                for said in end.hear(line):
                    self.play(name, said)
        raise AssertionError("they never come to an end")

    def _hand(self, name: str, lines: Sequence[bytes]) -> None:
        if self._rounds:
            self.router.delivering(name)
        for said in self.guests[name].hear(lines):
            self.play(name, said)
        if self._rounds:
            self.apply(self.router.delivered(name))

    def play_out(self, script: Sequence[Step], mishaps: Sequence[Mishap]) -> None:
        """Plays the script and what befalls the guests, and in the end all of them are gone."""
        for number, step in enumerate(script):
            for mishap in mishaps:
                if mishap.step == number:
                    self._befall(self.names[mishap.guest % len(self.names)], mishap)
            end = self.client if step.who == "client" else self.agent
            self.play(step.who, end.say(step, number))
            if step.pause:
                self.settle()
        self.settle()
        for name in self.names:
            self._leave_out(name)
            self.settle()

    def _befall(self, name: str, mishap: Mishap) -> None:
        if not mishap.returns:
            self._leave_out(name)
        elif self.router.has_role(name) and self.router.peers[name].closure is None:
            self._outboxes.pop(name, None)
            self.apply(self.router.leaving(name, GONE))
            assert name not in self._outboxes
            self.guests[name] = Wild()
            self.apply(self.router.returned(name))
            self.settle()
            self.guests[name].tape = Tape(mishap.tape)

    def _leave_out(self, name: str) -> None:
        self._outboxes.pop(name, None)
        self.apply(self.router.bypassed(name, GONE))
        assert name not in self._outboxes


GUESTS: Final = st.lists(
    st.tuples(st.one_of(st.none(), PROFILED, policies()), TAPES), min_size=1, max_size=3
)
MISHAPS: Final = st.lists(
    st.builds(Mishap, st.integers(0, 9), st.integers(0, 2), st.booleans(), TAPES.map(tuple)),
    max_size=2,
)


@settings(max_examples=120, deadline=None)
@given(GUESTS, st.lists(steps(), max_size=12), MISHAPS, st.booleans(), st.booleans())
def test_each_request_has_one_answer_whatever_becomes_of_whom(
    guests: list[tuple[Policy | None, list[int]]],
    script: list[Step],
    mishaps: list[Mishap],
    rounds: bool,
    audited: bool,
) -> None:
    world = Several(guests, rounds=rounds, audited=audited)
    world.play_out(script, mishaps)
    for end in (world.client, world.agent):
        assert end.answers == dict.fromkeys(end.open, 1)
    for guest in world.guests.values():
        assert guest.answers <= guest.asked
    for peer in world.router.peers.values():
        assert world.router.waiting_on(peer.name) == []
        for lane in (peer.p, peer.s):
            assert not lane.way.busy
