"""Whatever becomes of a chain between and within turns, no message is lost or doubled."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conductor.core import DIALECTS, Closure, Component
from conductor.core.component import newcomer
from conductor.core.effects import Held
from tests.harness.router.actors import FORMS, INITIALIZE, NEW, Stage, chain, proxy

KINDS = (*FORMS, "channel")
AGENT = Component("agent")
OTHERS = Closure("other components")

orders = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(KINDS)), max_size=4, unique_by=lambda c: c[0]
)


def take(stage: Stage, order: list[tuple[str, str]], now: dict[str, str]) -> dict[str, str]:
    """Gives the chain other components: those of another dialect than before are started anew."""
    router = stage.router
    components = [Component(name, dialect=DIALECTS[kind]) for name, kind in order]
    fresh = [name for name, kind in order if now.get(name) != kind]
    actors = {name: proxy(kind, newcomer(name)) for name, kind in order if name in fresh}
    stage.actors |= {newcomer(name): actor for name, actor in actors.items()}
    stage.apply(router.prepare([*components, AGENT], fresh))
    assert router.prepared()
    for name, actor in actors.items():
        actor.name = name
        stage.actors[name] = actor
    stage.apply(router.rearrange(OTHERS))
    assert {*router.peers} == {"client", "agent", *dict(order)}
    return dict(order)


@given(st.lists(st.tuples(orders, st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_each_prompt_is_answered_once_by_the_agent(
    changes: list[tuple[list[tuple[str, str]], bool, bool]],
) -> None:
    stage = chain(())
    stage.say(INITIALIZE)
    stage.say(NEW)
    now: dict[str, str] = {}
    for number, (order, held, running) in enumerate(changes, 10):
        if held:
            stage.router.hold()
        request: dict[str, Any] = {"jsonrpc": "2.0", "method": "session/prompt"}
        asked = stage.say({**request, "id": number, "params": {"text": str(number)}})
        assert bool(asked) is not held
        # The components that have the prompt stay, for as long as its turn runs.
        if running and not held:
            more = [*order, *((n, k) for n, k in now.items() if n not in dict(order))]
            now = take(stage, [(name, now.get(name, kind)) for name, kind in more], now)
        elif held:
            assert stage.router.quiet()
            now = take(stage, order, now)
            asked = stage.apply(stage.router.release())
        assert [m["method"] for m in asked] == ["session/update", "session/request_permission"]
        answer = {"jsonrpc": "2.0", "id": asked[-1]["id"], "result": {"outcome": "allow"}}
        (done,) = stage.say(answer)
        assert (done["id"], done["result"]) == (number, {"stopReason": "end_turn"})
        assert stage.router.quiet()
        if not held and not running:
            now = take(stage, order, now)
    ends = [line for line in stage.log if line.startswith("agent<")]
    assert sum('"initialize"' in line for line in ends) == 1
    assert sum('"session/prompt"' in line for line in ends) == len(changes)
    assert [effect for effect in stage.effects if not isinstance(effect, Held)] == []
