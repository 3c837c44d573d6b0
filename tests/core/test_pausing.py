"""A paused component: all that is new goes past it; nothing is lost, doubled or overtaken."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from tests.core.test_noninterference import (
    HONEST,
    VERSIONS,
    by_session,
    check,
    check_as_without,
    is_among,
)
from tests.harness.router.actors import FORMS, INITIALIZE, NEW, Stage, chain
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    PROMPT,
    Hole,
    Json,
    Noted,
    Playbook,
    chain_of,
    error,
    given,
    guest,
    passed,
    prompt,
    request,
    result,
    trusted,
    update,
)
from tests.harness.world.ends import Item, Step
from tests.harness.world.policies import ANY, KINDS, SCRIPTS, casts, overtakes
from tests.harness.world.world import Cast, Mishap, World, check_nothing_is_held

ALL = ("down:session/prompt:carry+amend+originate", CARRY_TEXT, "down:session/new:carry")


def pause(pb: Playbook, name: str = "g") -> None:
    """At a moment at which nothing is open."""
    assert pb.router.quiet()
    pb.router.pause(name, paused=True)


def resume(pb: Playbook, name: str = "g") -> None:
    """New messages go through it again."""
    pb.router.pause(name, paused=False)


def past(pb: Playbook, asked: object) -> None:
    """A turn without `g`."""
    pb >> ("client", request(asked, PROMPT, prompt("hi")))
    pb << ("agent", request(Hole(f"a-{asked}"), PROMPT, prompt("hi")))
    pb >> ("agent", update("yes")) << ("client", update("yes"))
    pb >> ("agent", result(Hole(f"a-{asked}"), DONE)) << ("client", result(asked, DONE))


def through(pb: Playbook, asked: object) -> None:
    """Plays a turn that goes through the component."""
    given(pb, asked=asked)
    passed(pb, asked=asked)
    pb >> ("agent", update("yes")) << ("g", "s", update("yes"))
    pb >> ("g", "p", update("yes")) << ("client", update("yes"))
    pb >> ("agent", result(Hole(f"a-{asked}"), DONE))
    pb << ("g", "s", result(Hole(f"g-{asked}"), DONE))
    pb >> ("g", "p", result(Hole(f"g-{asked}"), DONE)) << ("client", result(asked, DONE))


def test_who_is_watched_stays_so() -> None:
    with chain_of(trusted("g"), audited=["g"]) as pb:
        state = pb.router.peers["g"].policy_state
        pause(pb)
        past(pb, 1)
        resume(pb)
        assert pb.router.peers["g"].policy_state is state


def test_what_it_sends_of_its_own_does_not_go_on() -> None:
    with chain_of(guest(*ALL)) as pb:
        pause(pb)
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        text = "`session/prompt` of its own does not go on: proxy `g` is paused"
        pb << ("g", "s", error("own", -32600, text))
        pb >> ("g", "p", update("mine")) << Noted("debug", "g", "is paused")
        resume(pb)


def test_an_update_that_it_has_stays_with_it() -> None:
    with chain_of(guest(*ALL)) as pb:
        pb >> ("agent", update("secret")) << ("g", "s", update("secret"))
        pb.router.pause("g", paused=True)
        pb >> ("agent", update("next"))
        pb >> ("g", "p", update("***")) << ("client", update("***")) << ("client", update("next"))


@pytest.mark.parametrize("kind", [*FORMS, "scp", "channel"])
def test_a_program_of_any_dialect_is_paused(kind: str) -> None:
    stage = chain((kind, kind))
    stage.say(INITIALIZE)
    stage.say(NEW)
    for names in (["p1"], ["p2"], ["p1", "p2"], []):
        for name in ("p1", "p2"):
            stage.router.pause(name, paused=name in names)
        before = len(stage.log)
        asked = turn(stage, 9)
        assert asked["id"] == 9
        seen = {line.partition("<")[0].partition("/")[0] for line in stage.log[before:]}
        assert {"p1", "p2"} - seen == set(names)


def turn(stage: Stage, number: int) -> Json:
    """Plays a turn with a question in it; returns the answer."""
    asked = stage.say({"jsonrpc": "2.0", "id": number, "method": PROMPT, "params": {"text": "hi"}})
    answer = {"jsonrpc": "2.0", "id": asked[-1]["id"], "result": {"outcome": "allow"}}
    (done,) = stage.say(answer)
    return done


# -- whatever it would do ------------------------------------------------------------------------


class Flip(NamedTuple):
    """Before a step a component is paused or resumed, if nothing is open."""

    step: int
    which: int
    paused: bool


class Switched(World):
    """A world whose mishaps are flips."""

    def _befall(self, mishap: Mishap | Flip) -> None:
        if isinstance(mishap, Flip) and self.router.quiet():
            names = [*self.casts]
            self.router.pause(names[mishap.which % len(names)], paused=mishap.paused)


FLIPS: Any = st.lists(
    st.builds(Flip, st.integers(0, 9), st.integers(0, 2), st.booleans()), min_size=1, max_size=6
)


@pytest.mark.proves("a paused component does not lose")
@settings(max_examples=40)
@examples(st.lists(casts(ANY | st.none(), HONEST), min_size=1, max_size=3), SCRIPTS, FLIPS)
def test_honest_components_are_paused_and_resumed(
    several: list[Cast], script: list[Step], flips: Sequence[Any]
) -> None:
    world, alone = Switched(*several), World()
    world.play_out(script, flips)
    assert not world.violations
    assert world.open == (0, 0)
    world.leave()
    alone.run(script)
    check_as_without(world, alone)
    check(world)
    for sender, receiver in ((world.client, world.agent), (world.agent, world.client)):
        got, arrived = by_session(receiver.got), Counter(receiver.got)
        sent = [one for one in sender.sent if arrived[one] and one.session and in_order(one)]
        for session, items in by_session(sent).items():
            assert is_among(items, got.get(session, []))


def in_order(item: Item) -> bool:
    """Whether an item keeps its place: answers about MCP may come from a trusted component."""
    return not (overtakes(item) or (item.kind == "answer" and item.key.startswith("mcp/")))


@settings(max_examples=40)
@examples(st.lists(casts(ANY, kinds=KINDS), min_size=1, max_size=2), SCRIPTS, FLIPS, VERSIONS)
def test_wild_components_are_paused_and_resumed(
    several: list[Cast], script: list[Step], flips: Sequence[Any], version: int
) -> None:
    world = Switched(*several, version=version)
    world.play_out(script, flips)
    check_nothing_is_held(world)
    world.leave()
    check(world)
