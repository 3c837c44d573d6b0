"""Ids in a host of guests: a request that passes keeps its own on the whole way, and none is open
twice."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import CHANNEL, Component, Effect, Send
from conductor.core.policy.rules import Policy
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import dump
from tests.harness.world.policies import ANY, TAPES
from tests.harness.world.wild import Tape, Wild

METHODS: Final = ("session/prompt", "session/list", "_x")


class Said(NamedTuple):
    """A request of the outer conductor, and whether it first answers the requests it has."""

    side: str
    method: str
    answers: bool


class Host:
    """An outer conductor, and guests in one child of it. Ids are checked as they come."""

    def __init__(self, guests: Sequence[tuple[Policy | None, Sequence[int], bool]]) -> None:
        self.names = [f"g{number}" for number in range(len(guests))]
        components = [
            Component(name, dialect=CHANNEL, policy=policy)
            for name, (policy, _, _) in zip(self.names, guests, strict=True)
        ]
        self.router = Router(components, "proxy", options=RouterOptions(upstream=CHANNEL))
        self.guests = {
            name: Wild(numbers=numbers)
            for name, (_, _, numbers) in zip(self.names, guests, strict=True)
        }
        self.asked: dict[object, str] = {}
        """The requests that the outer conductor has not answered, by id, each with its side."""
        self.open: set[int] = set()
        """The conductor's own requests without an answer: one count for both sides."""
        self._ids = count(1)
        self._outboxes: dict[str, list[bytes]] = {}
        self.ask("p", "initialize", {"protocolVersion": 1})
        self.answer()
        for name, (_, tape, _) in zip(self.names, guests, strict=True):
            self.guests[name].tape = Tape(tape)

    def ask(self, side: str, method: str, params: object) -> None:
        """The outer conductor sends a request on."""
        id_ = next(self._ids)
        self.open.add(id_)
        self._say(side, {"jsonrpc": "2.0", "id": id_, "method": method, "params": params})

    def answer(self) -> None:
        """The outer conductor answers the requests that it got."""
        asked, self.asked = self.asked, {}
        for id_, side in asked.items():
            self._say(side, {"jsonrpc": "2.0", "id": id_, "result": {"protocolVersion": 1}})

    def _say(self, side: str, message: object) -> None:
        self._perform(self.router.receive("client", side.encode() + dump(message)))
        while self._outboxes:
            name = next(iter(self._outboxes))
            lines = self._outboxes.pop(name)
            self.router.delivering(name)
            for said in self.guests[name].hear(lines):
                self._perform(self.router.receive(name, said))
            self._perform(self.router.delivered(name))

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if not isinstance(effect, Send):
                continue
            if effect.peer != "client":
                self._outboxes.setdefault(effect.peer, []).append(effect.frame[:-1])
                continue
            side, message = chr(effect.frame[0]), json.loads(effect.frame[1:])
            if "method" not in message:
                self.open.remove(message["id"])
            elif "id" in message:
                assert message["id"] not in self.asked, "an id is open twice"
                self.asked[message["id"]] = side


GUESTS: Final = st.lists(st.tuples(st.none() | ANY, TAPES, st.booleans()), min_size=1, max_size=3)
SAID: Final = st.lists(
    st.builds(Said, st.sampled_from("ps"), st.sampled_from(METHODS), st.booleans()),
    min_size=1,
    max_size=12,
)


@settings(max_examples=200)
@given(GUESTS, SAID)
def test_no_id_is_open_twice_in_a_host(
    guests: list[tuple[Policy | None, list[int], bool]], said: list[Said]
) -> None:
    host = Host(guests)
    for number, (side, method, answers) in enumerate(said):
        host.ask(side, method, {"sessionId": "S", "n": number, "prompt": []})
        if answers:
            host.answer()


@given(st.lists(st.just((None, [], False)), min_size=1, max_size=3), SAID)
def test_what_passes_a_host_keeps_its_id(
    guests: list[tuple[Policy | None, list[int], bool]], said: list[Said]
) -> None:
    host = Host(guests)
    for number, (side, method, _) in enumerate(said):
        host.ask(side, method, {"sessionId": "S", "n": number})
        assert set(host.asked) == host.open
    host.answer()
    assert not host.open
