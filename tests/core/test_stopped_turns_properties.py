"""Whatever a component does that holds prompts: a turn that the user cancels does not begin, nor
hang."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.policy.key_table import AMEND, ANSWER, CARRY, COPY, DROP, Direction
from conductor.core.policy.rules import Policy, Rule
from tests.core.test_noninterference import check, check_as_without
from tests.harness.world.ends import PROMPT, STOP, Item, Step
from tests.harness.world.policies import PAUSES, casts
from tests.harness.world.world import Cast, World, check_nothing_is_held

CLOSE: Final = "session/close"
HOLDS, ANSWERS, AMENDS = CARRY, ANSWER, AMEND


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Rights to hold prompts by, and some others; none to send a cancellation."""
    down, up = Direction.DOWN, Direction.UP
    prompts = [HOLDS, HOLDS | AMENDS, HOLDS | ANSWERS | AMENDS, ANSWERS, 0]
    text = [0, HOLDS, HOLDS | DROP]
    shown = [0, 0, COPY]
    rules = (
        Rule(down, PROMPT, draw(st.sampled_from(prompts))),
        Rule(down, STOP, draw(st.sampled_from(shown))),
        Rule(down, "session/load", draw(st.sampled_from([0, HOLDS]))),
        Rule(down, "session/set_mode", draw(st.sampled_from(shown))),
        Rule(up, "session/update[agent_message_chunk]", draw(st.sampled_from(text))),
    )
    fails = draw(st.sampled_from(["open", "open", "closed"]))
    return Policy(rules, fails=fails)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """The messages of an end: mostly prompts and cancellations."""
    who = draw(st.sampled_from(["client"] * 5 + ["agent"]))
    keys = [PROMPT, PROMPT, STOP, STOP, "session/load", "session/set_mode", CLOSE]
    if who == "agent":
        keys = ["session/update[agent_message_chunk]", "session/update[tool_call]"]
    key = draw(st.sampled_from(keys))
    asked = who == "client" and key != STOP
    return Step(who, key, draw(st.sampled_from("SST")), asked, draw(PAUSES))


SCRIPTS: Final = st.lists(steps(), max_size=14) | st.lists(steps(), min_size=7, max_size=14)


class Watched(World):
    """A world that notes the messages about turns that the component gets."""

    def __init__(self, cast: Cast, **more: bool | int) -> None:
        self.heard: list[tuple[str, str]] = []
        """Prompts and cancellations, with their session."""
        super().__init__(cast, **more)  # type: ignore[arg-type]

    def deliver(self, name: str, peer: str, lines: Sequence[bytes]) -> None:
        for line in lines:
            message = json.loads(line[1:])
            if line[:1] == b"p" and message.get("method") in (PROMPT, STOP):
                self.heard.append((message["method"], message["params"]["sessionId"]))
        super().deliver(name, peer, lines)


def of_turns(items: Sequence[Item]) -> list[tuple[str, str, int]]:
    """Prompts and ends of turns: method, session, and the number of the step."""
    found = [one for one in items if one.kind != "answer" and one.key in (PROMPT, STOP, CLOSE)]
    return [(one.key, one.session or "", json.loads(one.body)["n"]) for one in found]


def check_begun(world: World) -> None:
    """No prompt reaches the agent after the message that ended its turn."""
    got = of_turns(world.agent.got)
    for place, (key, session, number) in enumerate(got):
        late = [one for one in got[place:] if one[:2] == (PROMPT, session) and one[2] < number]
        assert key == PROMPT or not late


def check_heard(world: Watched, cast: Cast) -> None:
    """A component without copies of cancellations hears only of those about prompts it was
    given."""
    assert cast.policy is not None
    if cast.policy.rights(Direction.DOWN, STOP) & COPY:
        return
    heard: Counter[tuple[str, str]] = Counter()
    for method, session in world.heard:
        heard[method, session] += 1
        assert heard[STOP, session] <= heard[PROMPT, session]


@pytest.mark.proves("a prompt that is cancelled while")
@settings(max_examples=200)
@given(casts(policies()), SCRIPTS, st.booleans(), st.booleans(), st.sampled_from([1, 2]))
def test_what_is_cancelled_does_not_begin(
    cast: Cast, script: list[Step], rounds: bool, slow: bool, version: int
) -> None:
    world = Watched(cast, rounds=rounds, slow=slow, version=version)
    world.play_out(script)
    check_nothing_is_held(world)
    world.leave()
    check_begun(world)
    check_heard(world, cast)
    check(world)


@settings(max_examples=100)
@given(casts(policies(), st.just([])), SCRIPTS, st.booleans(), st.sampled_from([1, 2]))
def test_an_honest_component_breaks_no_rule(
    cast: Cast, script: list[Step], rounds: bool, version: int
) -> None:
    world, alone = Watched(cast, rounds=rounds, version=version), World(version=version)
    world.run(script)
    alone.run(script)
    assert world.violations == []
    assert world.open == (0, 0)
    check_as_without(world, alone)
    check_begun(world)
    check(world)


@settings(max_examples=100)
@given(casts(policies()), SCRIPTS)
def test_what_is_held_is_answered_once_it_is_cancelled(cast: Cast, script: list[Step]) -> None:
    world = World(cast)
    world.play_out([*script, *(Step("client", STOP, session, False, 1) for session in "ST")])
    for id_, item in world.client.open.items():
        assert item.key != PROMPT or world.client.answers[id_] == 1
