"""A turn that nobody asked for, seen by the client or hidden from it."""

import json
import sys
from typing import Any

import pytest

from tests.harness.process.rig import Chain, Rig
from tests.places import ROOT

FILE = ROOT / "tests" / "e2e" / "actors" / "reminding_proxy.py"
GRANTED = {"allow": "prompt:anytime+timer"}
FORMS: dict[str, dict[str, Any]] = {
    "sandboxed": {"component": str(FILE), **GRANTED},
    "program": {"command": sys.executable, "args": [str(FILE)], "only": "trusted"},
    "in process": {"component": "py:tests.e2e.actors.reminding_proxy:proxy"},
}


def begun(rig: Rig, form: str, version: int, **more: Any) -> Chain:
    """A chain with the proxy before the agent that counts; `more`: members of the component."""
    reminding = {**FORMS[form], "name": "reminding", **more}
    counting = rig.actor("counting_agent", name="counting")
    chain = rig.run("agent", "passthrough", json.dumps(reminding), counting)
    if version == 2:
        chain.initialize(protocolVersion=2, info={"name": "c", "version": "1"}, capabilities={})
    else:
        chain.initialize()
    return chain


def ends(chain: Chain, version: int) -> list[int]:
    """How many updates the client had got when it saw a turn end that it did not ask for; in
    version 2 any turn."""
    updates = [frame["params"]["update"] for frame in chain.seen("session/update")]
    if version == 2:
        return [at for at, update in enumerate(updates) if update.get("state") == "idle"]
    mark = {"conductor.turn": {"state": "idle", "component": "reminding"}}
    return [at for at, update in enumerate(updates) if update.get("_meta") == mark]


def is_over(chain: Chain, version: int, session: str, words: str) -> bool:
    """Whether the last words of a turn that nobody asked for have come, and its end behind them. In
    version 2 the timer may fire before the agent is idle: then the turn nests in the user's."""
    last = len(chain.seen("session/update")) - 1
    return words in "".join(chain.texts(session)) and ends(chain, version)[-1:] == [last]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_a_turn_that_nobody_asked_for(rig: Rig, form: str, version: int) -> None:
    chain = begun(rig, form, version)
    session = chain.new_session()
    chain.start_prompt(session, "remind")
    said = "1:remind;2:one;3:two;"
    chain.until(
        lambda: is_over(chain, version, session, "3:two;"), "the end of the unprompted turn"
    )
    assert "".join(chain.texts(session)) == said
    # While another prompt runs it waits, and what is prompted meanwhile comes behind it.
    blocks = [{"type": "text", "text": text} for text in ("remind", "hold")]
    held = chain.start("session/prompt", {"sessionId": session, "prompt": blocks})
    chain.until(lambda: chain.stderr.count("the timer has fired") == 2, "the timer")
    chain.until(lambda: "4:hold;" in "".join(chain.texts(session)), "the prompt that is held")
    assert "".join(chain.texts(session)) == said + "4:hold;"
    chain.notify("session/cancel", {"sessionId": session})
    chain.answer(held)
    chain.until(lambda: "5:one;" in "".join(chain.texts(session)), "the second unprompted turn")
    chain.answer(chain.start_prompt(session, "behind"))
    chain.until(lambda: "7:behind;" in "".join(chain.texts(session)), "the prompt behind it")
    said += "4:hold;5:one;6:two;7:behind;"
    assert "".join(chain.texts(session)) == said
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_one_that_shows_words_and_prompts_nobody(rig: Rig, form: str, version: int) -> None:
    more = {"only": "full+prompt:anytime+timer"} if form == "sandboxed" else {}
    chain = begun(rig, form, version, config={"says": "tea"}, **more)
    session = chain.new_session()
    chain.answer(chain.start_prompt(session, "remind"))
    chain.until(lambda: is_over(chain, version, session, "tea"), "the end of the unprompted turn")
    assert "".join(chain.texts(session)) == "1:remind;tea"
    assert chain.finish() == 0


@pytest.mark.proves("nothing of a hidden turn reaches")
@pytest.mark.parametrize("version", [2, 1])
@pytest.mark.parametrize("form", FORMS)
def test_of_a_hidden_one_the_client_sees_nothing(rig: Rig, form: str, version: int) -> None:
    chain = begun(rig, form, version, config={"show": False})
    session = chain.new_session()
    answer = chain.answer(chain.start_prompt(session, "remind"))["result"]
    assert answer["_meta"] == {"example.com/n": 1}
    chain.until_stderr("the agent said 2:one;3:two;")
    answer = chain.answer(chain.start_prompt(session, "next"))["result"]
    assert answer["_meta"] == {"example.com/n": 4}
    chain.until(lambda: "4:next;" in "".join(chain.texts(session)), "the next turn")
    assert "".join(chain.texts(session)) == "1:remind;4:next;"
    if version == 1:
        assert ends(chain, version) == []
    assert chain.finish() == 0
