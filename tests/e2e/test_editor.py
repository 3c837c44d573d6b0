"""Views and questions of components beside the conversation, in every form, in both
versions, through the real command line."""

import json
import re
import sys
from functools import partial
from typing import Final

import pytest

from tests.harness.process.client import Json
from tests.harness.process.command import COMMAND
from tests.harness.process.rig import Chain, Rig, python_path
from tests.places import ACTORS

pytestmark = pytest.mark.usefixtures("python_guest")

FORMS: Final = ("sandboxed", "program", "in process")
WORDS: Final = "show:panel+show:comment+do:operations+web:browser+log:editor"
TOLD: Final = "extension:_told+answer:prompts"
ALL: Final = {"html_panel": True, "file_comment": True, "ide_operation": True, "log": True}


def component(actor: str, form: str, name: str, allow: str) -> str:
    """A Python actor in one of the forms that a component can take."""
    file = str(ACTORS / f"{actor}.py")
    if form == "sandboxed":
        return json.dumps({"component": file, "name": name, "allow": allow})
    if form == "program":
        return json.dumps({"command": sys.executable, "args": [file], "name": name})
    return json.dumps({"component": f"py:tests.e2e.actors.{actor}:proxy", "name": name})


def shower(form: str = "sandboxed", name: str = "X", editor: str = WORDS) -> str:
    """The component that asks for what a prompt says."""
    return component("showing_proxy", form, name, f"{TOLD}+{editor}")


def editing(form: str = "sandboxed", name: str = "X") -> str:
    """The component that uses the editor by the SDK alone."""
    return component("editing_proxy", form, name, WORDS)


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
    """The component's report on a prompt."""
    before = len(chain.seen("_told"))
    chain.prompt(session, text)
    chain.until(lambda: len(chain.seen("_told")) > before, "what came of it")
    told: Json = chain.seen("_told")[before]["params"]
    return told


def ask(chain: Chain, session: str, method: str, **params: object) -> Json:
    """The outcome of a request of the component's to the client."""
    return does(chain, session, f"/ask _scp/{method} {json.dumps(params)}")


def events(chain: Chain, session: str) -> list[tuple[str, Json]]:
    """The events that the component got from the client."""
    heard: list[tuple[str, Json]] = does(chain, session, "/heard")["heard"]
    return heard


EACH: Final = pytest.mark.parametrize(("form", "version"), [(f, v) for f in FORMS for v in (1, 2)])
SHOW: Final = "_scp/html_panel/show"


def code(answer: Json) -> int:
    """The code of a refusal."""
    found: int = answer["error"]["code"]
    return found


def done(params: Json) -> Json:
    """The answer of an editor that shows everything."""
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
    assert code(refused) == -32001
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
    expected = "X:\n\n> **Walk**\n>\n> # Plan\n>\n> - one `x`\n>\n> more (http://a.b/)\n\n"
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
    assert "comment at p/a.py:3-5:" in passed["prompt"][0]["text"]
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


COMMENT: Final = "_scp/file_comment/show"
FORMS_OF_A_RANGE: Final = (
    {"start": {"line": 2}},
    {"start": {"line": 2, "column": 4}},
    {"start": {"line": 1}, "end": {"line": 2}},
    {"start": {"line": 1, "column": 2}, "end": {"line": 2, "column": 3}},
)


@EACH
def test_50_comments_stand_where_they_say(rig: Rig, form: str, version: int) -> None:
    chain = run(rig, shower(form), rig.demo(), shows={"file_comment": True}, version=version)
    chain.serves |= {COMMENT: done, "_scp/file_comment/clear": done}
    session = chain.new_session()
    url = "file:///p/a.py"
    for at, place in enumerate(FORMS_OF_A_RANGE):
        given = {"id": f"c{at}", "url": url, "text": "Why?", **place}
        shown = ask(chain, session, "file_comment/show", **given)
        assert shown == {"result": {"shown": "comment"}}
        params = chain.seen(COMMENT)[-1]["params"]
        assert params.pop("_meta") == {"conductor.component": "X"}
        assert params == {"sessionId": session, "can_reply": False, **given}
        held = {**given, "can_reply": False, "replies": []}
        assert ask(chain, session, "file_comment/get", id=f"c{at}") == {"result": held}
    backwards = {"url": url, "text": "?", "start": {"line": 3}, "end": {"line": 2}}
    for wrong in ({"url": url, "text": "?"}, {**backwards, "start": {"line": 0}}, backwards):
        assert code(ask(chain, session, "file_comment/show", id="c", **wrong)) == -32602
    assert ask(chain, session, "file_comment/clear", id="c0") == {"result": {}}
    assert ask(chain, session, "file_comment/get", id="c0") == {"result": None}
    assert len(chain.seen(COMMENT)) == len(FORMS_OF_A_RANGE)
    assert chain.finish() == 0


@EACH
def test_51_replies_reach_the_owner_or_the_agent(rig: Rig, form: str, version: int) -> None:
    chain = run(rig, shower(form), rig.demo(), shows={"file_comment": True}, version=version)
    chain.serves |= {COMMENT: done, "_scp/file_comment/reply": done}
    session = chain.new_session()
    comment = {"url": "file:///src/a.py", "start": {"line": 3}, "text": "Why?"}
    ask(chain, session, "file_comment/show", id="open", can_reply=True, **comment)
    ask(chain, session, "file_comment/show", id="closed", **comment)

    def reply(id_: str, text: str) -> Json:
        params = {"sessionId": session, "id": id_, "text": text}
        return chain.request("_scp/file_comment/reply", params)

    refused = reply("closed", "because")
    assert code(refused) == -32602
    assert "comment `closed` of `X` takes no replies" in refused["error"]["message"]
    assert code(reply("nowhere", "because")) == -32602
    assert reply("open", "because")["result"] == {}
    answer = ask(chain, session, "file_comment/reply", id="open", text="I see")
    assert answer == {"result": {}}
    passed = reply("open", "pass")["result"]  # its owner does not take this one
    assert passed["sessionId"] == session
    (block,) = passed["prompt"]
    said = "My reply to the comment at src/a.py:3:\n\npass"
    assert block == {"type": "text", "text": said}
    chain.prompt(session, block["text"])
    chain.until(lambda: said in "".join(chain.texts(session)), "the agent has the reply")
    thread = ask(chain, session, "file_comment/get", id="open")["result"]["replies"]
    assert [(one["from"], one["text"]) for one in thread] == [
        ("user", "because"),
        ("X", "I see"),
        ("user", "pass"),
    ]
    assert [one["text"] for _, one in events(chain, session)] == ["because", "pass"]
    event = {"sessionId": session, "id": "open", "name": "close"}
    assert chain.request("_scp/file_comment/event", event)["result"] == {"n": 3}
    assert code(reply("open", "late")) == -32602  # the user has resolved it
    assert chain.finish() == 0


@EACH
def test_52_operations_as_a_tool_of_the_agents(rig: Rig, form: str, version: int) -> None:
    chain = run(rig, editing(form), rig.demo(), shows=ALL, version=version)
    selected = {"url": "file:///p/a.py", "text": "x"}
    results: Json = {"get-selection": selected, "find-all-references": [3, 5]}
    chain.serves["_scp/ide_operation/run"] = lambda params: results[params["name"]]
    session = chain.new_session()
    chain.answer(chain.start_prompt(session, "/tool selection"))
    found = json.dumps({"selection": selected, "uses": [3, 5]}, separators=(",", ":"))
    chain.until(lambda: found in "".join(chain.texts(session)).replace(" ", ""), "its result")
    asked = chain.seen("_scp/ide_operation/run")[-1]["params"]
    assert asked["arguments"] == {"of": selected}
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_52_without_operations_there_is_no_tool(rig: Rig, version: int) -> None:
    chain = run(
        rig, shower(), editing(name="E"), rig.demo(), shows={"html_panel": True}, version=version
    )
    session = chain.new_session()
    refused = ask(chain, session, "ide_operation/run", name="get-selection")
    assert code(refused) == -32601
    assert "the editor has no operations\nhint: " in refused["error"]["message"]
    chain.prompt(session, "/tools")
    chain.until(lambda: chain.texts(session), "the tools")
    assert "selection" not in "".join(chain.texts(session))
    assert not chain.seen("_scp/ide_operation/run")
    assert chain.finish() == 0


LEVELS: Final = ("error", "warn", "info", "debug")


@EACH
def test_54_log_lines_of_proxy_and_agent_in_order(rig: Rig, form: str, version: int) -> None:
    chain = run(rig, shower(form), rig.demo(), shows={"log": True}, version=version)
    session = chain.new_session()
    for number, level in enumerate(LEVELS):
        line = {"level": level, "message": f"{number}", "data": {"n": number}}
        does(chain, session, f"/log {json.dumps(line)}")
        mine = {"sessionId": session, **line}
        chain.answer(chain.start_prompt(session, f"/notify _scp/log {json.dumps(mine)}"))
        chain.expect("_scp/log", 2 * number + 2)  # in version 2 the answer comes before
    assert [one["params"] for one in chain.seen("_scp/log")] == [
        {
            "sessionId": session,
            "level": level,
            "message": f"{number}",
            "data": {"n": number},
            "_meta": {"conductor.component": name},
        }
        for number, level in enumerate(LEVELS)
        for name in ("X", "A")
    ]
    assert code(ask(chain, session, "log", level="loud", message="x")) == -32602
    assert ask(chain, session, "log", level="info", message="x") == {"result": {}}
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_54_without_a_log_lines_are_in_the_conductors(rig: Rig, version: int) -> None:
    chain = run(rig, "--log", "debug", shower(), rig.demo(), version=version)
    session = chain.new_session()

    def both(level: str) -> bool:
        return chain.stderr.count(f"at {level} ") == 2

    for level in LEVELS:
        line = {"level": level, "message": f"at {level}", "data": {"n": 1}}
        does(chain, session, f"/log {json.dumps(line)}")
        mine = {"sessionId": session, **line}
        chain.answer(chain.start_prompt(session, f"/notify _scp/log {json.dumps(mine)}"))
        chain.until(partial(both, level), "a line of the agent's in the log")
    assert not chain.seen("_scp/log")
    assert chain.finish() == 0
    for name in ("X", "A"):
        for level in LEVELS:
            assert re.search(rf"{name}: .*at {level} \{{\"n\":1\}}", chain.stderr), level


@pytest.mark.parametrize("version", [1, 2])
def test_an_editor_without_comments_gets_text(rig: Rig, version: int) -> None:
    chain = run(rig, shower(), rig.demo(), shows={"html_panel": True}, version=version)
    session = chain.new_session()
    comment = {"id": "c", "url": "file:///src/a.py", "start": {"line": 3}, "end": {"line": 5}}
    for _ in range(2):  # the same comment comes once
        shown = ask(chain, session, "file_comment/show", text="Why?", can_reply=True, **comment)
        assert shown == {"result": {"shown": "text"}}
    assert ask(chain, session, "file_comment/reply", id="c", text="So?") == {"result": {}}
    assert [one["content"]["text"] for one in degraded(chain)] == [
        "X:\n\n> `src/a.py:3-5`: Why?\n\n",
        "X:\n\n> `src/a.py:3-5`: So?\n\n",
    ]
    assert ask(chain, session, "file_comment/clear", id="c") == {"result": {}}
    assert not [one for one in chain.frames if "_scp/" in str(one.get("method"))]
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_owns_what_it_shows(rig: Rig, version: int) -> None:
    chain = run(rig, shower(), rig.demo(), shows=ALL, version=version)
    chain.serves |= {SHOW: done, COMMENT: done}
    session = chain.new_session()
    panel = {"sessionId": session, "id": "w", "label": "L", "contents": "<b>x</b>"}
    chain.answer(chain.start_prompt(session, f"/ext {SHOW} {json.dumps(panel)}"))
    params = chain.expect(SHOW)["params"]
    assert params["_meta"] == {"conductor.component": "A"}
    refused = ask(chain, session, "html_panel/clear", id="w")
    assert "`w` is of `A`, not of `X`" in refused["error"]["message"]
    event = {"sessionId": session, "id": "w", "name": "click"}
    assert chain.request("_scp/html_panel/event", event)["result"] == {}  # demo knows no events
    comment = {"id": "c", "url": "file:///a.py", "start": {"line": 1}, "text": "?"}
    asked = json.dumps({"sessionId": session, "can_reply": True, **comment})
    chain.answer(chain.start_prompt(session, f"/ext {COMMENT} {asked}"))
    chain.expect(COMMENT)  # in version 2 the prompt is answered before the agent has done that
    reply = {"sessionId": session, "id": "c", "text": "because"}
    answer = chain.request("_scp/file_comment/reply", reply)["result"]
    assert "comment at a.py:1:" in answer["prompt"][0]["text"]
    assert events(chain, session) == []
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_components_of_a_nested_conductor_own_what_they_show(rig: Rig, version: int) -> None:
    inner = json.dumps(
        {
            "command": COMMAND[0],
            "args": [*COMMAND[1:], "proxy", "-c", f"cache={rig.cache}", shower("program")],
            "name": "inner",
        }
    )
    chain = run(rig, shower("program", "Y"), inner, rig.demo(), shows=ALL, version=version)
    chain.serves |= {SHOW: done}
    session = chain.new_session()
    panel = {"id": "w", "label": "L", "contents": "x"}
    shown = does(chain, session, f"/behind /ask {SHOW} {json.dumps(panel)}")
    assert shown == {"result": {"shown": "panel"}}
    assert chain.seen(SHOW)[0]["params"]["_meta"] == {"conductor.component": "inner/X"}
    refused = ask(chain, session, "html_panel/show", id="w", contents="mine")
    assert "`w` is of `inner/X`, not of `Y`" in refused["error"]["message"]
    event = {"sessionId": session, "id": "w", "name": "click"}
    assert chain.request("_scp/html_panel/event", event)["result"] == {"n": 1}
    assert events(chain, session) == []
    assert len(does(chain, session, "/behind /heard")["heard"]) == 1
    assert chain.finish() == 0
