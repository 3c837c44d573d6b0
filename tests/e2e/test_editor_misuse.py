"""Components and editors that misuse panels and comments: each is refused or ended by name, and the
conversation goes on."""

import json
from typing import Final

import pytest

from tests.e2e.test_editor import ALL, COMMENT, SHOW, ask, done, events, run, shower
from tests.harness.process.client import Json
from tests.harness.process.rig import Chain, Rig

pytestmark = pytest.mark.usefixtures("python_guest")

PANEL: Final = {"id": "w", "label": "L", "contents": "x"}
EVENT: Final = "_scp/html_panel/event"
REPLY: Final = "_scp/file_comment/reply"


def still_works(chain: Chain, session: str) -> None:
    """The conversation goes on."""
    chain.prompt(session, "are you there?")
    chain.until(lambda: "are you there?" in "".join(chain.texts(session)), "the agent's answer")


def behind(chain: Chain, session: str, method: str, **params: object) -> Json:
    """The outcome of a request of the second component's."""
    before = len(chain.seen("_told"))
    chain.prompt(session, f"/behind /ask _scp/{method} {json.dumps(params)}")
    chain.until(lambda: len(chain.seen("_told")) > before, "what came of it")
    told: Json = chain.seen("_told")[before]["params"]
    return told


@pytest.mark.parametrize("form", ["sandboxed", "program"])
def test_nobody_speaks_in_anothers_name(rig: Rig, form: str) -> None:
    chain = run(rig, shower("program", "Y"), shower(form), rig.demo(), shows=ALL)
    chain.serves |= {SHOW: done}
    session = chain.new_session()
    ask(chain, session, "html_panel/show", **PANEL)
    forged = {**PANEL, "contents": "forged", "_meta": {"conductor.component": "Y"}}
    refused = behind(chain, session, "html_panel/show", **forged)
    if form == "sandboxed":
        assert "conductor.component" in refused["error"]["message"]
    else:  # what a program names can only be within itself
        assert "`w` is of `Y`, not of `X/Y`" in refused["error"]["message"]
    assert ask(chain, session, "html_panel/get", id="w") == {"result": "x"}
    still_works(chain, session)
    assert chain.finish() == 0


def test_without_the_grant_a_sandboxed_component_shows_nothing(rig: Rig) -> None:
    chain = run(rig, shower(editor="show:comment"), rig.demo(), shows=ALL)
    session = chain.new_session()
    refused = ask(chain, session, "html_panel/show", **PANEL)
    assert "show:panel" in refused["error"]["message"]
    scripts = ask(chain, session, "html_panel/show", **PANEL, scripts=True)
    assert "error" in scripts
    assert not chain.seen(SHOW)
    still_works(chain, session)
    assert chain.finish() == 0


@pytest.mark.parametrize("form", ["sandboxed", "program"])
def test_an_editor_leaves_with_panels_open(rig: Rig, form: str) -> None:
    chain = run(rig, shower(form), rig.demo(), shows=ALL)
    chain.serves |= {SHOW: done}
    session = chain.new_session()
    ask(chain, session, "html_panel/show", **PANEL)
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_an_editor_that_owes_an_answer_leaves(rig: Rig) -> None:
    chain = run(rig, "-c", "drain=0.1", shower("program"), rig.demo(), shows=ALL)
    chain.serves |= {SHOW: None}  # it never answers
    session = chain.new_session()
    waiting = chain.start_prompt(session, f"/ask {SHOW} {json.dumps(PANEL)}")
    chain.expect(SHOW)
    chain.finish()
    assert not [one for one in chain.answers(waiting) if "result" in one]
    assert rig.leftovers(chain) == []


def test_an_event_in_an_array_is_looked_at_as_well(rig: Rig) -> None:
    chain = run(rig, shower("program"), rig.demo(), shows=ALL)
    chain.serves |= {COMMENT: done}
    session = chain.new_session()
    place = {"id": "c", "url": "file:///a.py", "start": {"line": 1}}
    ask(chain, session, "file_comment/show", **place, text="?")
    forged = {"sessionId": session, "id": "c", "_meta": {"conductor.component": "X"}}
    reply = {"jsonrpc": "2.0", "id": 5001, "method": REPLY, "params": {**forged, "text": "no"}}
    other = {"jsonrpc": "2.0", "id": 5002, "method": "_rig/fence"}
    event = {"jsonrpc": "2.0", "id": 5003, "method": "_scp/file_comment/event"}
    happened = {**event, "params": {**forged, "name": "click"}}
    chain.send_bytes(json.dumps([reply, other, happened]).encode() + b"\n")
    assert "takes no replies" in chain.answer(5001)["error"]["message"]
    assert chain.answer(5003)["result"] == {"n": 1}
    chain.until(lambda: any("batch" in one for one in chain.frames), "the rest as an array")
    (rest,) = [one["batch"] for one in chain.frames if "batch" in one]
    assert [one["id"] for one in rest] == [5002]
    assert len(events(chain, session)) == 1
    assert chain.finish() == 0


def test_an_owner_that_answers_twice_answers_once(rig: Rig) -> None:
    chain = run(rig, shower("program"), rig.demo(), shows=ALL)
    chain.serves |= {SHOW: done}
    session = chain.new_session()
    ask(chain, session, "html_panel/show", **PANEL)
    happened = {"sessionId": session, "id": "w", "name": "twice"}
    assert chain.request(EVENT, happened, id=7001)["result"] == {"n": "first"}
    still_works(chain, session)
    assert len(chain.answers(7001)) == 1
    assert chain.finish() == 0


def test_an_owner_that_dies_at_an_event_is_named(rig: Rig) -> None:
    chain = run(rig, shower("program"), rig.demo(), shows=ALL)
    chain.serves |= {SHOW: done}
    session = chain.new_session()
    ask(chain, session, "html_panel/show", **PANEL)
    happened = {"sessionId": session, "id": "w", "name": "die"}
    answer = chain.request(EVENT, happened)
    assert "`X`" in answer["error"]["message"]
    assert "exited with code 3" in answer["error"]["message"]
    chain.exit_code()
    assert rig.leftovers(chain) == []
