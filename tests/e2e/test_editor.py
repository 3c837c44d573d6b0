"""What components show and ask beside the conversation: rows of SEEDS §25, in every form, in both
versions, through the real command line."""

from __future__ import annotations

import json
import sys
from typing import Final

import pytest

from tests.harness.process.client import Json
from tests.harness.process.rig import Chain, Rig, python_path
from tests.places import ACTORS

FORMS: Final = ("sandboxed", "program", "in process")
WORDS: Final = "panel+comment+operation+log"
ALL: Final = {"html_panel": True, "file_comment": True, "ide_operation": True, "log": True}


def component(actor: str, form: str, name: str, **grants: object) -> str:
    """A Python actor in one of the forms that a component can take."""
    file = str(ACTORS / f"{actor}.py")
    if form == "sandboxed":
        return json.dumps({"component": file, "name": name, **grants})
    if form == "program":
        return json.dumps({"command": sys.executable, "args": [file], "name": name})
    return json.dumps({"component": f"py:tests.e2e.actors.{actor}:proxy", "name": name})


def shower(form: str = "sandboxed", name: str = "X", editor: str = WORDS) -> str:
    """The component that asks for what a prompt says."""
    given = {"editor": editor} if editor else {}
    allow = ["down:session/prompt:answer"]
    return component("showing_proxy", form, name, methods="_told", allow=allow, **given)


def editing(form: str = "sandboxed") -> str:
    """The component that uses the editor by the SDK alone."""
    return component("editing_proxy", form, "X", editor=WORDS)


def run(
    rig: Rig, *components: str, shows: Json | None = None, version: int = 1, **env: str
) -> Chain:
    """A chain whose client says that it shows this."""
    path = f"{ACTORS}:{python_path()}"
    chain = rig.run("agent", *components, PYTHONPATH=path, **env)
    meta = {} if shows is None else {"_meta": {"symposium": {"version": "1.0", **shows}}}
    if version == 2:
        info = {"name": "c", "version": "1"}
        chain.initialize(protocolVersion=2, info=info, capabilities=meta)
    else:
        chain.initialize(clientCapabilities=meta)
    return chain


def does(chain: Chain, session: str, text: str) -> Json:
    """What the component says came of a prompt."""
    before = len(chain.seen("_told"))
    chain.prompt(session, text)
    chain.until(lambda: len(chain.seen("_told")) > before, "what came of it")
    told: Json = chain.seen("_told")[before]["params"]
    return told


def ask(chain: Chain, session: str, method: str, **params: object) -> Json:
    """The outcome of a request of the component's to the client."""
    return does(chain, session, f"/ask _scp/{method} {json.dumps(params)}")


def events(chain: Chain, session: str) -> list[tuple[str, Json]]:
    """What the component has got from the client."""
    heard: list[tuple[str, Json]] = does(chain, session, "/heard")["heard"]
    return heard


EACH: Final = pytest.mark.parametrize(("form", "version"), [(f, v) for f in FORMS for v in (1, 2)])
SHOW: Final = "_scp/html_panel/show"


def code(answer: Json) -> int:
    """The code of a refusal."""
    found: int = answer["error"]["code"]
    return found


def done(params: Json) -> Json:
    """What an editor answers that shows everything."""
    return {"ok": True}


def degraded(chain: Chain) -> list[Json]:
    """The updates that stand for what the editor cannot show."""
    updates: list[Json] = [one["params"]["update"] for one in chain.seen("session/update")]
    return [one for one in updates if "conductor.component" in one.get("_meta", {})]


@EACH
def test_48_and_49_panels_and_their_events(rig: Rig, form: str, version: int) -> None:
    chain = run(rig, shower(form), rig.demo(), shows={"html_panel": True}, version=version)
    chain.serves |= {SHOW: done, "_scp/html_panel/clear": done}
    session = chain.new_session()

    def panel(method: str, **params: object) -> Json:
        return ask(chain, session, f"html_panel/{method}", id="w", **params)

    assert code(panel("show", label="Walk")) == -32602  # a new one needs both
    assert panel("get") == {"result": None}
    assert panel("show", label="Walk", contents="<b>1</b>") == {"result": {"shown": "panel"}}
    assert panel("show", contents="<b>2</b>") == {"result": {"shown": "panel"}}  # the rest stays
    named = {"sessionId": session, "id": "w", "_meta": {"conductor.component": "X"}}
    assert [one["params"] for one in chain.seen(SHOW)] == [
        {**named, "label": "Walk", "contents": f"<b>{n}</b>", "scripts": False} for n in (1, 2)
    ]
    assert panel("get") == {"result": "<b>2</b>"}
    happened = {"sessionId": session, "id": "w", "name": "click", "data": {"a": [1]}}
    forged = {**happened, "_meta": {"conductor.component": "A"}}
    assert chain.request("_scp/html_panel/event", forged)["result"] == {"n": 1}
    refused = chain.request("_scp/html_panel/event", {**happened, "name": "refuse"})
    assert code(refused) == -32000
    assert code(chain.request("_scp/html_panel/event", {**happened, "id": "v"})) == -32602
    heard = [[of, {name: one[name] for name in happened}] for of, one in events(chain, session)]
    assert heard == [["html_panel/event", {**happened, "name": n}] for n in ("click", "refuse")]
    assert panel("clear") == {"result": {}}
    assert len(chain.seen("_scp/html_panel/clear")) == 1
    assert panel("get") == {"result": None}
    assert code(chain.request("_scp/html_panel/event", happened)) == -32602
    chain.prompt(session, "hi")
    chain.until(lambda: "hi" in chain.texts(session), "the conversation goes on")
    assert not degraded(chain)
    assert not any("_scp/html_panel" in str(one.raw) for one in rig.log("A"))
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_an_editor_without_panels_gets_text(rig: Rig, version: int) -> None:
    chain = run(rig, shower(), rig.demo(), version=version)
    session = chain.new_session()
    html = "<h1>Plan</h1><ul><li>one <code>x</code></li></ul><a href='http://a.b/'>more</a>"
    for _ in range(2):  # the same contents come once
        shown = ask(chain, session, "html_panel/show", id="w", label="Walk", contents=html)
        assert shown == {"result": {"shown": "text"}}
    (one,) = degraded(chain)
    assert one["sessionUpdate"] == "agent_message_chunk"
    assert one["_meta"] == {"conductor.component": "X"}
    expected = "**Walk**\n\n# Plan\n\n- one `x`\n\nmore (http://a.b/)\n"
    assert one["content"] == {"type": "text", "text": expected}
    assert ask(chain, session, "html_panel/get", id="w") == {"result": html}
    assert not chain.seen(SHOW)
    assert chain.finish() == 0


@EACH
def test_the_sdk_shows_and_hears(rig: Rig, form: str, version: int) -> None:
    chain = run(rig, editing(form), rig.demo(), shows=ALL, version=version)
    chain.serves |= {
        SHOW: done,
        "_scp/file_comment/show": done,
        "_scp/file_comment/reply": done,
        "_scp/ide_operation/run": lambda params: [params["name"], params["arguments"]],  # type: ignore[dict-item, return-value]
        "_scp/ide_operation/list": lambda _: {"operations": [{"name": "get-selection"}]},
    }
    session = chain.new_session()
    chain.prompt(session, "hi")
    can = "Capabilities(panel=True, comment=True, operation=True, log=True)"
    found = f"{can}, True, True, ['get-selection', {{}}], ['get-selection']"
    chain.until(
        lambda: f"{found}, [], []]" in "".join(chain.texts(session)), "what the agent heard"
    )
    click = {"sessionId": session, "id": "plan", "name": "click", "data": {"x": 1}}
    assert chain.request("_scp/html_panel/event", click)["result"] == {"clicks": 1}
    logged = chain.expect("_scp/log")["params"]
    assert (logged["message"], logged["data"]) == ("clicked", {"x": 1})
    reply = {"sessionId": session, "id": "why", "text": "because"}
    assert chain.request("_scp/file_comment/reply", reply)["result"] == {}
    assert chain.expect("_scp/file_comment/reply")["params"]["text"] == "You wrote: because"
    passed = chain.request("_scp/file_comment/reply", {**reply, "text": "pass it on"})["result"]
    assert passed["sessionId"] == session
    assert "At p/a.py:3-5 " in passed["prompt"][0]["text"]
    chain.prompt(session, "again")
    replies = "[('user', 'because'), ('owner', 'You wrote: because'), ('user', 'pass it on')]"
    heard = f"{found}, {replies}, [{{'x': 1}}]]"
    chain.until(lambda: heard in "".join(chain.texts(session)), "what the agent heard then")
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_the_sdk_before_an_editor_without_any_of_it(rig: Rig, version: int) -> None:
    chain = run(rig, editing(), rig.demo(), version=version)
    session = chain.new_session()
    chain.prompt(session, "hi")
    can = "Capabilities(panel=False, comment=False, operation=False, log=False)"
    heard = f"{can}, False, False, None, [], [], []]"
    chain.until(lambda: heard in "".join(chain.texts(session)), "what the agent heard")
    assert len(degraded(chain)) == 2
    assert not [one for one in chain.frames if "_scp/" in str(one.get("method"))]
    assert chain.finish() == 0
