"""Whatever a component does that holds prompts: what the user cancels does not begin, nor hang."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.policy import NO_PROFILE, Direction, Policy, Rule, Verb
from tests.core.test_noninterference import TAPES, check_answers, check_as_without, check_untouched
from tests.core.worlds import Item, Step, World

PROMPT, STOP = "session/prompt", "session/cancel"
SEES, HOLDS, ANSWERS = Verb.OBSERVE, Verb.MODIFY, Verb.ANSWER


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Verbs to hold prompts by, and some others; none to hold, or send, a cancellation."""
    down, up = Direction.DOWN, Direction.UP
    prompts = draw(st.sampled_from([HOLDS, HOLDS, HOLDS | ANSWERS, ANSWERS, Verb.NONE]))
    rules = [
        Rule(down, PROMPT, prompts),
        Rule(down, STOP, draw(st.sampled_from([Verb.NONE, Verb.NONE, SEES]))),
        Rule(down, "session/load", draw(st.sampled_from([Verb.NONE, HOLDS]))),
        Rule(down, "_x", draw(st.sampled_from([Verb.NONE, SEES, HOLDS]))),
        Rule(up, "session/update", draw(st.sampled_from([Verb.NONE, HOLDS]))),
    ]
    return Policy(NO_PROFILE, tuple(rules))


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """What an end says: mostly prompts and cancellations."""
    methods = [PROMPT, PROMPT, STOP, STOP, "session/load", "session/close", "_x"]
    who = draw(st.sampled_from(["client"] * 5 + ["agent"]))
    method = draw(st.sampled_from(methods if who == "client" else ["session/update"]))
    asks = method in (PROMPT, "session/load", "session/close")
    return Step(who, method, draw(st.sampled_from("SST")), asks, draw(st.booleans()))


SCRIPTS: Final = st.lists(steps(), max_size=14)


class Watched(World):
    """A world that looks at what is held whenever something is cancelled."""

    heard: tuple[str, ...] = ()
    """The sessions of which the guest was given a prompt (`+`) and those of its notices (`-`)."""

    def play(self, name: str, line: bytes) -> None:
        super().play(name, line)
        message = json.loads(line) if name == "client" else {}
        if message.get("method") != STOP:
            return
        session = message["params"]["sessionId"]
        for pending in self.router.upstream.p.link.received.values():
            token = pending.token
            if token is not None and token.method == PROMPT and token.session == session:
                assert token.forwarded is not None or token.late is not None

    def _deliver(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            message = json.loads(line[1:])
            if line[:1] == b"p" and message.get("method") in (PROMPT, STOP):
                sign = "+" if message["method"] == PROMPT else "-"
                self.heard += (sign + message["params"]["sessionId"],)
        super()._deliver(lines)


def of_turns(items: Sequence[Item]) -> list[tuple[str, str, int]]:
    """Prompts and cancellations: method, session, and the number of the step."""
    found = [one for one in items if one.kind != "answer" and one.method in (PROMPT, STOP)]
    return [(one.method, one.session or "", json.loads(one.body)["n"]) for one in found]


def check_begun(world: World) -> None:
    """No prompt reaches the agent after a cancellation that came after it."""
    got = of_turns(world.agent.got)
    for place, (method, session, number) in enumerate(got):
        if method == STOP:
            assert not [
                one
                for one in got[place:]
                if one[0] == PROMPT and one[1] == session and one[2] < number
            ]


@settings(max_examples=120, deadline=None)
@given(policies(), SCRIPTS, TAPES, st.booleans())
def test_what_is_cancelled_does_not_begin(
    policy: Policy, script: list[Step], tape: list[int], rounds: bool
) -> None:
    world = Watched(policy, tape, rounds=rounds)
    world.run(script)
    check_begun(world)
    check_untouched(policy, world.client, world.agent)
    check_untouched(policy, world.agent, world.client)
    check_answers(world)
    if not policy.verbs(Direction.DOWN, STOP):
        for place, one in enumerate(world.heard):
            before = world.heard[:place]
            assert one[0] == "+" or before.count("+" + one[1]) > before.count(one)


@settings(max_examples=60, deadline=None)
@given(policies(), SCRIPTS, st.booleans())
def test_an_honest_guest_breaks_no_rule(policy: Policy, script: list[Step], rounds: bool) -> None:
    world, alone = Watched(policy, [], rounds=rounds), World(None, None)
    world.run(script)
    alone.run(script)
    assert world.violations == []
    assert world.open == (0, 0)
    check_as_without(world, alone)
    check_begun(world)
    check_untouched(policy, world.client, world.agent)
    check_untouched(policy, world.agent, world.client)
    check_answers(world)
