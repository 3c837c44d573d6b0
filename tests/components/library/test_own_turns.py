"""Turns of a component's own before an agent whose results can be told apart: the user gets the
user's own result, however it ends and whichever components are in front."""

from functools import partial
from typing import Any

import pytest

from tests.components.library.support import agent, component
from tests.harness.process.rig import Chain, Rig

HIDDEN = component("sparkle", {"prompt": "sparkle", "show": "hidden"})
"""`sparkle`, whose prompt is not shown."""
PERSONALITY = component("personality", {"prompts": ["one", "two"]})
ORDERS = {
    "personality-sparkle": ((PERSONALITY, HIDDEN), 4),
    "sparkle-personality": ((HIDDEN, PERSONALITY), 4),
    "personality": ((PERSONALITY,), 3),
    "sparkle": ((HIDDEN,), 2),
}
"""Components, and which of the agent's turns is then the user's first."""


def begun(rig: Rig, version: int, *components: str) -> Chain:
    """A chain before the agent that counts."""
    chain = agent(rig, *components, rig.actor("counting_agent", name="counting"))
    if version == 2:
        chain.initialize(protocolVersion=2, info={"name": "c", "version": "1"}, capabilities={})
    else:
        chain.initialize()
    return chain


def meta(number: int) -> dict[str, int]:
    """The `_meta` of the agent's turn with this number."""
    return {"example.com/n": number}


def states(chain: Chain) -> list[Any]:
    """The ends of turns the client was told of, in version 2."""
    updates = [frame["params"]["update"] for frame in chain.seen("session/update")]
    return [one for one in updates if one.get("state") == "idle"]


def more_states(chain: Chain, before: int) -> bool:
    """Whether another turn is over."""
    return len(states(chain)) > before


def ended(chain: Chain, version: int, prompted: int, before: int) -> tuple[Any, Any]:
    """The end of a turn of the user's: its reason, its `_meta`, and the `_meta` of the answer."""
    answer = chain.answer(prompted)["result"]
    if version == 1:
        return answer["stopReason"], [answer["_meta"]]
    chain.until(partial(more_states, chain, before), "the end of the turn")
    assert len(states(chain)) == before + 1
    return states(chain)[-1]["stopReason"], [answer["_meta"], states(chain)[-1]["_meta"]]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("order", ORDERS)
def test_the_user_gets_the_users_own_result(rig: Rig, order: str, version: int) -> None:
    components, first = ORDERS[order]
    chain = begun(rig, version, *components)
    session = chain.new_session()
    for at, said in enumerate(("hi", "max_tokens", "refusal", "hold", "bye")):
        number = first + at
        before = len(states(chain))
        prompted = chain.start_prompt(session, said)
        if said == "hold":
            chain.until(lambda: "hold;" in "".join(chain.texts(session)), "the turn")
            chain.notify("session/cancel", {"sessionId": session})
        stops = {"hold": "cancelled", "hi": "end_turn", "bye": "end_turn"}
        stop, metas = ended(chain, version, prompted, before)
        assert (stop, metas) == (stops.get(said, said), [meta(number)] * version)
    expected = ("hi", "max_tokens", "refusal", "hold", "bye")
    assert "".join(chain.texts(session)) == "".join(
        f"{first + at}:{said};" for at, said in enumerate(expected)
    )
    assert chain.finish() == 0
    assert chain.stderr == ""


@pytest.mark.parametrize("version", [1, 2])
def test_a_turn_cancelled_within_a_components_own(rig: Rig, version: int) -> None:
    """The agent's turn that is cancelled is the component's; the user's is answered as cancelled,
    and the next prompt of the user's is about itself."""
    chain = begun(rig, version, component("personality", {"prompts": "hold"}), HIDDEN)
    session = chain.new_session()
    prompted = chain.start_prompt(session, "hi")
    chain.notify("session/cancel", {"sessionId": session})
    answer = chain.answer(prompted)
    if version == 1:
        assert answer["result"]["stopReason"] == "cancelled"
    else:
        assert answer["error"]["code"] == -32800
    assert "".join(chain.texts(session)) == ""
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_prompt_of_a_rule_does_not_answer_the_users(rig: Rig, version: int) -> None:
    rules = {"rules": [{"on": "turn", "match": "hi", "prompt": "and now?"}]}
    more = {"allow": "prompt:anytime"} if version == 2 else {}
    chain = begun(rig, version, component("hooks", rules, **more))
    session = chain.new_session()
    prompted = chain.start_prompt(session, "hi")
    answer = chain.answer(prompted)["result"]
    assert answer["_meta"] == meta(1)
    if version == 2:
        chain.until(partial(more_states, chain, 1), "the end of both turns")
    assert "".join(chain.texts(session)) == "1:hi;2:and now?;"
    assert chain.finish() == 0
    assert chain.stderr == ""


def test_the_users_turn_ends_when_that_of_a_rule_is_cancelled(rig: Rig) -> None:
    rules = {"rules": [{"on": "turn", "match": "hi", "prompt": "hold"}]}
    chain = begun(rig, 1, component("hooks", rules))
    session = chain.new_session()
    prompted = chain.start_prompt(session, "hi")
    chain.until(lambda: "hold;" in "".join(chain.texts(session)), "the turn of the rule")
    chain.notify("session/cancel", {"sessionId": session})
    assert chain.answer(prompted)["result"] == {"stopReason": "end_turn", "_meta": meta(1)}
    assert chain.prompt(session, "bye") == "3:bye;"
    assert chain.finish() == 0
