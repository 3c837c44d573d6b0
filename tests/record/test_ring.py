"""The events that a ring writes and counts, over routers that nobody watches."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import CHANNEL, Component, Entry, Send, Violated
from conductor.core.component import Side
from conductor.core.policy.rules import Policy
from conductor.core.router import Router, RouterOptions
from conductor.record.ring.figures import Figures
from conductor.record.ring.file import saved
from conductor.record.turns import reader
from conductor.record.turns.line import KINDS
from conductor.run.host_record import Crossed
from conductor.run.log import ChainLog, OfHost
from conductor.run.planned import Planned
from conductor.run.ring import Ring
from conductor.transports.memory import MemoryTransport
from tests.harness.router.rules import held
from tests.record.trace import pairs

Event = dict[str, Any]

NAMES: Final = ("a", "b", "agent")
VERSION: Final = {"protocolVersion": 1}


@pytest.fixture(name="folder", autouse=True, scope="module")
def _folder() -> Iterator[Path]:
    """The state folder of these tests."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("XDG_STATE_HOME", folder)
        yield Path(folder)


class Ringed:
    """A chain of two guests before an agent, and its ring; all is played by hand."""

    def __init__(self, most: int = 1 << 20, **policies: Policy) -> None:
        async def nothing(*_: object) -> None:
            pass

        self.ring = Ring(most, lambda ring, why, mode: saved(ring, why, mode, "all", _no_log))
        components = [
            Component(name, dialect=CHANNEL if name != "agent" else None, policy=policies.get(name))
            for name in NAMES
        ]
        self.router = Router(components, options=RouterOptions(logging=True))
        self.log = ChainLog([self.ring], _no_log)
        self.log.chain([Planned(one, MemoryTransport(nothing)) for one in components], {})
        self.told: list[tuple[str, bytes]] = []
        self.say("client", "", {"id": 0, "method": "initialize", "params": VERSION})
        for name, other in (("a", "s"), ("b", "s")):
            self.say(name, other, {"id": self.id(name), "method": "initialize", "params": VERSION})
        for name, side in (("agent", ""), ("b", "p"), ("a", "p")):
            self.say(name, side, {"id": self.id(name), "result": VERSION})

    def say(self, peer: str, side: str, message: Event) -> None:
        """A peer sends a message."""
        line = side + json.dumps({"jsonrpc": "2.0", **message})
        for effect in self.router.receive(peer, line.encode()):
            if isinstance(effect, Entry | Violated):
                self.log.add(effect)
            elif isinstance(effect, Send):
                self.told.append((effect.peer, effect.frame))
        self.log.mode = self.router.mode
        self.log.drain()

    def id(self, peer: str) -> Any:
        """The id of the last request that a peer got."""
        frames = (frame for name, frame in reversed(self.told) if name == peer)
        asked = (json.loads(frame.lstrip(b"ps")) for frame in frames)
        return next(one["id"] for one in asked if "method" in one and "id" in one)

    def written(self) -> list[Event]:
        """The events of the ring after the handshake, with the links between hops that readers
        find; the file goes away again."""
        made = self.ring.save("", lambda: self.router.mode)
        for _ in made.work:
            pass
        path = Path(made.path)
        events = pairs.read(path)
        lines = path.read_bytes().splitlines(keepends=True)
        found, held = reader.held()
        for line in lines:
            held.append(line)
            found.take(line)
        os.unlink(path)
        numbers = (row.n for row in found.rows(limit=len(lines)) if row.kind in KINDS)
        for one, number in zip(events, numbers, strict=True):
            before = found.before(number)
            if before is not None:
                one["passes"] = json.loads(lines[before])["_conductor"]["n"]
        return [one for one in events if "initialize" not in (
            one.get("method"), one["_conductor"].get("method"))]  # fmt: skip


def _no_log(*said: str) -> None:
    raise AssertionError(said)


def prompt(id_: object, text: str) -> Event:
    """A prompt."""
    return {"id": id_, "method": "session/prompt", "params": {"sessionId": "s", "t": text}}


def update(text: str) -> Event:
    """An update."""
    return {"method": "session/update", "params": {"sessionId": "s", "update": {"t": text}}}


def short(events: list[Event]) -> list[str]:
    """The events in a few words: sender, message, receiver, and the message that each passes on."""
    return [
        f"{one['from']} {one['to']} {one['params']['update']['t']} {one['_conductor']['n']}"
        f" {one['_conductor'].get('passes', 0)}"
        for one in events
    ]


def test_equal_messages_are_each_their_senders() -> None:
    """`b` keeps the agent's words, and says the same later; `a` does so at once."""
    chain = Ringed()
    chain.say("agent", "", update("x"))
    chain.say("a", "p", update("x"))
    chain.say("b", "p", update("x"))
    chain.say("a", "p", update("x"))
    found = chain.written()
    assert [(one["from"], one["to"]) for one in found] == [
        ("agent", "b"), ("a", "client"), ("b", "a"), ("a", "client"),
    ]  # fmt: skip
    agents, own, kept, on = found
    assert "passes" not in own, "it had got nothing"
    assert kept["passes"] == agents["_conductor"]["n"]
    assert on["passes"] == kept["_conductor"]["n"]


def test_what_a_trusted_guest_changes_is_its_change() -> None:
    chain = Ringed()
    chain.say("client", "", prompt(1, "good"))
    chain.say("a", "s", prompt(chain.id("a"), "better"))
    chain.say("agent", "", update("first"))
    chain.say("agent", "", update("second"))
    chain.say("b", "p", update("second"))
    chain.say("b", "p", update("first, late"))
    asked, changed, first, second, passed, late = chain.written()
    assert (changed["from"], changed["params"]["t"]) == ("a", "better")
    assert changed["passes"] == asked["_conductor"]["n"]
    assert first["_conductor"]["n"] < second["_conductor"]["n"]
    assert passed["passes"] == second["_conductor"]["n"]
    assert "passes" not in late, "what came before it was kept"


@pytest.mark.parametrize("most", [1 << 20, 24_000])
def test_what_passes_is_counted_while_somebody_watches(most: int) -> None:
    chain = Ringed(most)
    figures = Figures(chain.ring, lambda: "agent", "~method session/prompt")

    def counted() -> dict[str, tuple[int, int, int]]:
        for _ in figures.work():
            pass
        found = figures.counted().items()
        return {name: (it.messages, it.changed, len(it.times)) for name, it in found}

    def turn(number: int) -> None:
        """A prompt that `a` changes, and its answer."""
        chain.say("client", "", prompt(number, "x"))
        chain.say("a", "s", prompt(chain.id("a"), "y"))
        chain.say("b", "s", prompt(chain.id("b"), "y"))
        for name, side in (("agent", ""), ("b", "p"), ("a", "p")):
            chain.say(name, side, {"id": chain.id(name), "result": {}})

    assert counted() == {}
    turn(1)
    one = {"client": (1, 0, 0), "a": (2, 1, 1), "b": (2, 0, 1), "agent": (1, 0, 1)}
    assert counted() == one
    chain.say("client", "", {"method": "_n"})
    assert counted() == one
    for number in range(2, 40):
        turn(number)
    many = counted()
    if most == 1 << 20:
        assert many == {name: (39 * n, 39 * c, 39 * t) for name, (n, c, t) in one.items()}
    else:  # what it had counted is not there any more: it begins anew with what is
        assert 0 < many["a"][0] < 20
    assert 0 < figures.seconds < 300


def test_it_is_counted_anew_when_the_chain_has_another_end() -> None:
    modes = ["agent"]
    figures = Figures(Ringed().ring, lambda: modes[-1])

    def ends() -> list[str]:
        for _ in figures.work():
            pass
        return [name for name in figures.counted() if name.startswith("agent")]

    assert ends() == ["agent"]
    modes.append("proxy")
    assert ends() == ["agent (proxy)"]


def test_a_copy_and_what_comes_of_it_are_left_out() -> None:
    chain = Ringed(a=held("observer"))
    chain.say("client", "", prompt(1, "x"))
    chain.say("a", "s", prompt(chain.id("a"), "x"))
    chain.say("b", "s", prompt(chain.id("b"), "x"))
    chain.say("a", "p", {"id": chain.id("a"), "result": {"own": 1}})
    for name, side in (("agent", ""), ("b", "p")):
        chain.say(name, side, {"id": chain.id(name), "result": {}})
    events = chain.written()
    assert not pairs.wrong(events)
    assert [(one["from"], one["to"]) for one in events] == [
        ("client", "b"), ("b", "agent"), ("agent", "b"), ("b", "client"),
    ]  # fmt: skip


def test_what_came_before_the_ring_is_not_made_up() -> None:
    chain = Ringed(most=8000)
    chain.say("client", "", prompt(1, "x"))
    first = chain.id("a")
    for number in range(2, 40):
        chain.say("client", "", prompt(number, "x" * 20))
    chain.say("a", "p", {"id": first, "result": {}})
    assert {(one["from"], one["to"]) for one in chain.written()} == {("client", "a")}
    assert chain.ring.held().forgotten


def test_what_a_host_says_of_what_is_forgotten_is_left_out() -> None:
    chain = Ringed()
    answer = Crossed("response", "g", Side.P, "h", Side.P, 9, "_m", b"{}", request=7, at=1.0)
    chain.ring.take(OfHost("h", answer), 1.0, "agent")
    chain.say("client", "", {"method": "_n"})
    assert [one["from"] for one in chain.written()] == ["client"]


SAID: Final = st.tuples(
    st.sampled_from([("client", ""), ("agent", ""), *((n, s) for n in "ab" for s in "psc")]),
    st.sampled_from(
        [
            prompt(1, "x"), prompt(2, "x"), update("x"), update("y"), {"method": "_n"},
            {"id": 1, "result": {}}, {"id": 2, "error": {"code": 1, "message": ""}},
            {"method": "$/cancel_request", "params": {"requestId": 1}},
            {"id": 3, "method": "clock"}, {"method": "log", "params": {"message": "m"}},
        ]
    ),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(SAID, max_size=40), st.booleans())
def test_whatever_passes_each_request_has_one_answer(
    said: list[tuple[tuple[str, str], Event]], policed: bool
) -> None:
    chain = Ringed(a=held("full"), b=held("observer")) if policed else Ringed()
    for (peer, side), message in said:
        chain.say(peer, side, message)
    chain.written()
    events = chain.written()
    answers = [event["id"] for event in events if event["type"] == "response"]
    assert len(answers) == len(set(answers))
    assert sorted(e["ts"] for e in events) == [e["ts"] for e in events]
