"""Lines of a ring become hops, whatever the lines are."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import UPSTREAM
from conductor.core.component import Component
from conductor.core.policy.rules import Policy
from conductor.record.ring.figures import Figures
from conductor.record.ring.file import saved
from conductor.run.plan import Planned
from conductor.run.ring import Ring
from conductor.transports.memory import MemoryTransport
from tests.record.trace import pairs

Event = dict[str, Any]

PEERS: Final = (UPSTREAM, "a", "b", "agent")


@pytest.fixture(name="folder", autouse=True, scope="module")
def _folder() -> Iterator[Path]:
    """The state folder of these tests."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("XDG_STATE_HOME", folder)
        yield Path(folder)


def begun(most: int = 1 << 20, **policies: Policy) -> Ring:
    """The ring of a chain of two proxies before an agent."""

    async def nothing(*_: object) -> None:
        pass

    ring = Ring(most, lambda ring, why, mode: saved(ring, why, mode, "all", lambda *_: None))
    components = [Component(name, policy=policies.get(name)) for name in PEERS[1:]]
    ring.chain([Planned(component, MemoryTransport(nothing)) for component in components])
    return ring


def written(ring: Ring) -> list[Event]:
    """What is written of it; the file goes away again."""
    troubles: list[str] = []
    made = saved(ring, "", lambda: "agent", "all", lambda level, name, text: troubles.append(text))
    for _ in made.work:
        pass
    assert not troubles
    events = pairs.read(Path(made.path))
    os.unlink(made.path)
    return events


def passed(ring: Ring, *hops: tuple[str, str, Event]) -> None:
    """Messages that one peer sends (`+a`) or gets (`-a`), by its side byte."""
    for peer, side, message in hops:
        line = side.encode() + json.dumps({"jsonrpc": "2.0", **message}).encode()
        if peer[0] == "+":
            ring.sent(peer[1:], [line], len(line))
        else:
            ring.given(peer[1:], line + b"\n")


def short(events: list[Event]) -> list[str]:
    """Events in a few words."""
    return [
        f"{event['from']} {event['to']} {event.get('method', 'answer')}"
        f" {event.get('params', event.get('payload'))}"
        for event in events
    ]


def prompt(id_: int, text: str) -> Event:
    """A prompt."""
    return {"id": id_, "method": "session/prompt", "params": {"sessionId": "s", "t": text}}


def test_a_change_that_is_undone_goes_on_from_who_made_it() -> None:
    ring = begun()
    passed(
        ring,
        ("+client", "", prompt(1, "good")),
        ("-a", "p", prompt(5, "good")),
        ("+a", "s", prompt(5, "bad")),
        ("-b", "p", prompt(6, "good")),
    )
    first, second = written(ring)
    assert (first["from"], first["to"]) == ("client", "a")
    assert (second["from"], second["to"], second["params"]["t"]) == ("a", "b", "good")
    assert second["_conductor"]["passes"] == first["_conductor"]["n"]


@pytest.mark.parametrize("most", [1 << 20, 8000])
def test_what_passes_is_counted_while_somebody_watches(most: int) -> None:
    ring = begun(most)
    figures = Figures(ring, lambda: "agent", "~method session/prompt")

    def counted() -> dict[str, tuple[int, int, int]]:
        for _ in figures.work():
            pass
        found = figures.counted().items()
        return {name: (it.messages, it.changed, len(it.times)) for name, it in found}

    def turn(number: int) -> None:
        """A prompt that `a` changes, and its answer."""
        passed(
            ring,
            ("+client", "", prompt(number, "x")),
            ("-a", "p", prompt(number, "x")),
            ("+a", "s", prompt(number, "y")),
            ("-b", "p", prompt(number, "y")),
            ("+b", "s", prompt(number, "y")),
            ("-agent", "", prompt(number, "y")),
        )
        for sender, receiver in (("+agent", "-b"), ("+b", "-a"), ("+a", "-client")):
            side = {"+agent": "", "+b": "p", "+a": "p"}[sender], {"-client": ""}.get(receiver, "s")
            answer = {"id": number, "result": {}}
            passed(ring, (sender, side[0], answer), (receiver, side[1], answer))

    assert counted() == {}
    turn(1)
    one = {"client": (1, 0, 0), "a": (2, 1, 1), "b": (2, 0, 1), "agent": (1, 0, 1)}
    assert counted() == one
    passed(ring, ("+client", "", {"id": 9, "method": "initialize"}))
    assert counted() == one
    for number in range(2, 40):
        turn(number)
    many = counted()
    if most == 1 << 20:
        assert many == {name: (39 * n, 39 * c, 39 * t) for name, (n, c, t) in one.items()}
    else:  # what it had counted is not there any more: it begins anew with what is
        assert 0 < many["a"][0] < 20
    assert 0 < figures.seconds < 300


def test_a_copy_and_what_comes_of_it_are_left_out() -> None:
    ring = begun(a=Policy("observer"))
    passed(
        ring,
        ("+client", "", prompt(1, "x")),
        ("-a", "p", prompt(5, "x")),
        ("+a", "s", prompt(5, "x")),
        ("-agent", "", prompt(6, "x")),
        ("+a", "p", {"id": 5, "result": {"own": 1}}),
        ("+agent", "", {"id": 6, "result": {}}),
        ("-a", "s", {"id": 5, "result": {}}),
        ("-client", "", {"id": 1, "result": {}}),
    )
    events = written(ring)
    assert not pairs.wrong(events)
    assert [(e["from"], e["to"]) for e in events] == [("client", "agent"), ("agent", "client")]


def test_an_answer_that_goes_past_a_component_is_its_own_and_the_next_ones() -> None:
    ring = begun()
    passed(
        ring,
        ("+client", "", prompt(1, "x")),
        ("-a", "p", prompt(5, "x")),
        ("+a", "s", prompt(5, "y")),
        ("-agent", "", prompt(6, "y")),
        ("+agent", "", {"id": 6, "result": {"stopReason": "end_turn"}}),
        ("-client", "", {"id": 1, "result": {"stopReason": "end_turn"}}),
    )
    events = written(ring)
    assert not pairs.wrong(events)
    assert [(e["from"], e["to"]) for e in events[2:]] == [("agent", "a"), ("a", "client")]
    assert events[3]["_conductor"]["past"]


def test_what_the_conductor_does_is_its_own() -> None:
    ring = begun()
    passed(
        ring,
        ("+client", "", prompt(1, "x")),
        ("-agent", "", prompt(6, "x")),
        ("-agent", "", {"method": "$/cancel_request", "params": {"requestId": 6}}),
        ("-client", "", {"id": 1, "error": {"code": -32603, "message": "gone"}}),
        ("+client", "", {"id": 2, "method": "_x"}),
        ("-client", "", {"id": 2, "error": {"code": -32601, "message": "no"}}),
    )
    events = written(ring)
    assert not pairs.wrong(events)
    assert short(events) == [
        "client agent session/prompt {'sessionId': 's', 't': 'x'}",
        "conductor agent $/cancel_request {'requestId': 6}",
        "agent client answer {'code': -32603, 'message': 'gone'}",
        "client conductor _x None",
        "conductor client answer {'code': -32601, 'message': 'no'}",
    ]
    assert [e["_conductor"].get("by") for e in events[1:3]] == ["conductor", "conductor"]


def test_a_cancellation_of_the_client_is_the_clients() -> None:
    ring = begun()
    passed(
        ring,
        ("+client", "", prompt(1, "x")),
        ("-agent", "", prompt(6, "x")),
        ("+client", "", {"method": "$/cancel_request", "params": {"requestId": 1}}),
        ("-agent", "", {"method": "$/cancel_request", "params": {"requestId": 6}}),
    )
    cancel = written(ring)[-1]
    assert (cancel["from"], cancel["to"]) == ("client", "agent")
    assert cancel["_conductor"]["of"] == 1


def test_what_came_before_the_ring_is_not_made_up() -> None:
    ring = begun(most=2048)
    for number in range(20):
        passed(ring, ("+client", "", prompt(number, "x" * 20)))
        passed(ring, ("-agent", "", prompt(number + 100, "x" * 20)))
    passed(ring, ("+agent", "", {"id": 100, "result": {}}))
    passed(ring, ("-client", "", {"id": 0, "result": {}}))
    events = written(ring)
    assert {(e["from"], e["to"]) for e in events} == {("client", "agent")}
    assert ring.kept().forgotten


METHODS: Final = ("initialize", "proxy/initialize", "session/prompt", "session/update", "_x")
BODIES: Final[tuple[object, ...]] = ({}, {"sessionId": "s"}, {"sessionId": "s", "t": "u"}, None)
INNER: Final = st.fixed_dictionaries(
    {"method": st.sampled_from(METHODS), "params": st.sampled_from(BODIES)}
)
MESSAGES: Final = st.one_of(
    INNER,
    st.builds(lambda inner: {"method": "proxy/successor", "params": inner}, INNER),
    st.sampled_from(
        [
            {"method": "$/cancel_request", "params": {"requestId": 1}},
            {"method": "_conductor/clock"},
            {"result": {}},
            {"error": {"code": 1, "message": ""}},
            {"params": {"method": "session/prompt"}, "method": "proxy/successor", "id": None},
        ]
    ),
)
STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from([f"{way}{peer}" for peer in PEERS for way in "+-"]),
        st.sampled_from(["", "p", "s", "c"]),
        st.tuples(MESSAGES, st.sampled_from([None, 1, 2, "a"])),
    ),
    max_size=40,
)


@settings(max_examples=100)
@given(STEPS, st.booleans())
def test_whatever_passes_each_request_has_one_answer(
    steps: list[tuple[str, str, tuple[Event, object]]], policed: bool
) -> None:
    ring = begun(a=Policy("full"), b=Policy("observer")) if policed else begun()
    for peer, side, (message, id_) in steps:
        passed(ring, (peer, side, message if id_ is None else {**message, "id": id_}))
    written(ring)
    events = written(ring)
    answers = [event["id"] for event in events if event["type"] == "response"]
    assert len(answers) == len(set(answers))
    assert sorted(e["ts"] for e in events) == [e["ts"] for e in events]
