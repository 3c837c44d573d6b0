"""The component `ide`."""

import json
from typing import Any

import pytest

from guest_sdk.python import Playground, Record
from tests.components.library.support import FORMS, agent, folders, in_form, load, play
from tests.harness.process.client import Json
from tests.harness.process.rig import Chain, Rig

FILES = {"fs": {"readTextFile": True}}
ABLE = {"symposium": {"version": "1.0", "ide_operation": True}}
STANDARD = [
    "get-selection", "find-all-references", "find-definitions", "type-hints", "rename",
    "extract-method", "get-diagnostics", "open-file",
]  # fmt: skip
FOUND = [{"url": "file:///project/a.rs", "start": {"line": 3, "column": 8}}]


def text(result: Any) -> str:
    """The text of a tool's result."""
    return str(result["content"][0]["text"])


async def names(p: Playground) -> list[str]:
    """The tools that the agent sees."""
    return [one["name"] for one in await p.tools(server="editor")]


def planning(p: Playground, *answers: str) -> list[str]:
    """Has the agent answer in a session of the component's own; what it was prompted with."""
    left, asked = list(answers), []

    def answer(request: Record) -> Any:
        if request.method != "session/prompt" or request.params.session_id == p.session:
            return None
        asked.append("\n".join(one["text"] for one in request.params.prompt))
        p.agent.say(request.params.session_id, left.pop(0))
        return {"stopReason": "end_turn"}

    p.agent.answer = answer
    return asked


def editor(p: Playground) -> None:
    """Gives the editor operations."""
    p.editor.operations = {
        "find-definitions": lambda symbol: FOUND if symbol == "parse" else [],
        "fold": lambda: "folded",
        "ide_operation": lambda: "never",
    }


async def test_only_what_the_editor_can_is_offered() -> None:
    async with play("ide") as p:
        await p.new_session()
        assert await names(p) == []
    async with play("ide") as p:
        await p.initialize(clientCapabilities=FILES)
        await p.new_session()
        assert await names(p) == ["read", "ide_operation"]
    async with play("ide", config={"primitives": False}, editor=["operation"]) as p:
        await p.new_session()
        assert await names(p) == ["ide_operation"]
    async with play("ide", editor=["operation"]) as p:
        await p.initialize(clientCapabilities={"terminal": True, "_meta": ABLE})
        editor(p)
        await p.new_session()
        assert await names(p) == ["terminal", "ide_operation", "find-definitions", "fold"]
        assert "left out: there are two tools `ide_operation`" in p.services.log[0]
        assert text(await p.call("fold")) == "folded"
        assert json.loads(text(await p.call("find-definitions", symbol="parse"))) == FOUND
        p.restart(load("ide"))
        assert {"terminal", "find-definitions", "ide_operation"} <= {*await names(p)}


async def test_an_editor_that_does_not_list_its_operations() -> None:
    async with play("ide", editor=["operation"], grants=[]) as p:
        p.editor.asked = _refusing  # type: ignore[method-assign]
        await p.new_session()
        assert await names(p) == [*STANDARD, "ide_operation"]
        assert "does not say which operations it has" in p.services.log[0]
        failed = await p.call("rename", to="x")
        assert (failed["isError"], text(failed)) == (True, "the editor cannot: not now")


def _refusing(method: str, params: Json) -> Any:
    from guest_sdk.python import ProxyError

    raise ProxyError("not now", -32000)


async def test_a_plan_is_performed_and_the_answer_comes_back() -> None:
    async with play("ide", editor=["operation"], client=lambda _: {"content": "fn parse"}) as p:
        await p.initialize(clientCapabilities={**FILES, "_meta": ABLE})
        editor(p)
        session = await p.new_session(cwd="/project")
        plan = [
            {"operation": "find-definitions", "arguments": {"symbol": "parse"}},
            {"operation": "read", "arguments": {"path": "/project/a.rs"}},
            {"operation": "read", "arguments": {"nope": 1}},
            {"operation": "terminal"},
        ]
        asked = planning(
            p,
            "```plan\nnot\n```",
            f"Let me see.\n```plan\n{json.dumps(plan)}\n```\n",
            "It is `src/a.rs:3`.",
        )
        called = await p.call("ide_operation", request="find the definition of parse")
        assert text(called) == "It is `src/a.rs:3`."
        assert "- find-definitions: " in asked[0]
        assert asked[0].endswith("\n\nfind the definition of parse")
        assert asked[1].startswith("the plan is no JSON")
        results = asked[2].splitlines()
        assert results[2] == f"1. find-definitions: {json.dumps(FOUND)}"
        assert results[3] == "2. read: fn parse"
        assert results[4].startswith("3. read: error: file() got an unexpected keyword")
        assert results[5].startswith("4. terminal: error: there is no such operation; there are: ")
        (own,) = [one.raw["params"] for one in p.agent.requests if one.method == "session/new"][1:]
        (server,) = own["mcpServers"]
        assert (server["type"], server["name"]) == ("acp", "editor-primitives")
        closed = [
            one.params.session_id for one in p.agent.requests if one.method == "session/close"
        ]
        assert closed == ["session-2"]
        assert session == "session-1"
        assert not any("session-2" in str(one.raw) for one in p.heard)


async def test_what_leads_to_no_answer() -> None:
    config = {"rounds": 2, "longest": 100, "seconds": 9}
    async with play("ide", config=config, editor=["operation"]) as p:
        editor(p)
        session = await p.new_session()
        for request in (" ", "x" * 101):
            assert "1 to 100 characters" in text(await p.call("ide_operation", request=request))
        for wrong in ("[]", '[{"operation": 1}]', "[1]", '[{"operation": "a", "arguments": 1}]'):
            planning(p, *[f"```plan\n{wrong}\n```"] * 2)
            told = text(await p.call("ide_operation", request="find"))
            assert told == "no answer: there was none after 2 plans"
        held: list[Record] = []

        def hold(request: Record) -> Any:
            held.append(request)
            return p.agent.HOLD if request.method == "session/prompt" else None

        p.agent.answer = hold
        params = {"name": "ide_operation", "arguments": {"request": "find"}}
        asked = await p.start_mcp("tools/call", params, server="editor")
        p.services.advance(9)
        assert "no answer: it did not end within 9 seconds" in str(p.answer_to("s", asked))
        asked = await p.start_mcp("tools/call", params, server="editor")
        p.notify("session/cancel", {"sessionId": session})
        assert "no answer: the turn was stopped" in str(p.answer_to("s", asked))
        asked = await p.start_mcp("tools/call", params, server="editor")
        prompted = held[-1].params.session_id
        for _ in range(5):
            p.agent.say(prompted, "x" * (1 << 20))
        assert "no answer: it sent more than" in str(p.answer_to("s", asked))
        assert len([one for one in held if one.method == "session/close"]) == 3


async def test_a_command_that_does_not_end_is_stopped() -> None:
    asked: list[str] = []

    def client(request: Record) -> Any:
        asked.append(request.method)
        return {"terminalId": "t", "output": "some", "exitCode": None, "signal": "KILL"}

    async with play("ide", config={"seconds": 5}, client=client) as p:
        await p.initialize(clientCapabilities={"terminal": True})
        await p.new_session()
        said = text(await p.call("terminal", command="make", args=["all"]))
        assert said == "some\nended by KILL"
        assert asked == [
            f"terminal/{one}" for one in ("create", "wait_for_exit", "output", "release")
        ]


# -- through a chain -------------------------------------------------------------------------------

EACH = pytest.mark.parametrize(("form", "version"), [(f, v) for f in FORMS for v in (1, 2)])


def run(rig: Rig, form: str, version: int, last: str, **able: Any) -> tuple[Chain, str]:
    """A chain whose editor has operations, files and terminals, as far as the version has them."""
    made = in_form(form, "ide")
    chain = agent(rig, made, last, PYTHONPATH=folders("ide"))
    chain.serves |= {
        "_scp/ide_operation/list": lambda _: {"operations": [
            {"name": name, "category": "navigation", "description": f"does {name}"}
            for name in ("get-selection", "find-all-references", "find-definitions",
                         "get-diagnostics")]},
        "_scp/ide_operation/describe": lambda params: {
            "name": params["name"], "inputSchema": {"type": "object"}},
        "_scp/ide_operation/run": lambda params: [params["name"], params["arguments"]],  # type: ignore[dict-item, return-value]
        "fs/read_text_file": lambda params: {"content": f"of {params['path']}"},
        "terminal/create": lambda _: {"terminalId": "t1"},
        "terminal/wait_for_exit": lambda _: {"exitCode": 3},
        "terminal/output": lambda _: {"output": "built", "truncated": False},
        "terminal/release": lambda _: {},
    }  # fmt: skip
    if version == 2:
        info = {"name": "c", "version": "1"}
        chain.initialize(protocolVersion=2, info=info, capabilities=able)
    else:
        chain.initialize(clientCapabilities=able)
    return chain, chain.new_session(cwd="/p")


def says(chain: Chain, session: str, prompt: str, wanted: str) -> None:
    """The user prompts, and reads this in the end."""
    before = len(chain.texts(session))
    chain.answer(chain.start_prompt(session, prompt))
    chain.until(lambda: "".join(chain.texts(session)[before:]).strip() == wanted, wanted)


@EACH
def test_what_the_editor_can(rig: Rig, form: str, version: int) -> None:
    files: Json = {**FILES, "terminal": True} if version == 1 else {}
    chain, session = run(rig, form, version, rig.demo("--acp"), _meta=ABLE, **files)
    chain.expect("_scp/ide_operation/describe", 4)
    chain.settled()
    for name in ("get-selection", "find-all-references", "get-diagnostics"):
        says(chain, session, f'/call editor {name} {{"a":[1]}}', f'["{name}", {{"a": [1]}}]')
    if version == 1:
        says(chain, session, '/call editor read {"path":"/p/a.rs","line":2}', "of /p/a.rs")
        (asked,) = chain.seen("fs/read_text_file")
        assert asked["params"] == {"sessionId": session, "path": "/p/a.rs", "line": 2}
        says(chain, session, '/call editor terminal {"command":"make"}', "built\nexit code 3")
        chain.expect("terminal/release")
        created = chain.seen("terminal/create")[0]["params"]
        assert (created["command"], created["cwd"]) == ("make", "/p")
    assert chain.finish() == 0
    assert chain.stderr == ""


@pytest.mark.parametrize("version", [1, 2])
def test_what_it_cannot_is_absent(rig: Rig, version: int) -> None:
    chain, session = run(rig, "sandboxed", version, rig.demo("--acp"))
    says(chain, session, "/tools", "editor: no tools")
    assert not [one for one in chain.frames if str(one.get("method")).startswith(("_scp", "fs"))]
    assert chain.finish() == 0


@EACH
def test_a_way_is_found_in_a_session_of_its_own(rig: Rig, form: str, version: int) -> None:
    planner = rig.actor("planning_agent", str(rig.folder / "history"), name="A")
    chain, session = run(rig, form, version, planner, _meta=ABLE)
    chain.expect("_scp/ide_operation/describe", 4)
    chain.settled()
    for request in ("by plan: find definition of f", "by tool: find definition of f"):
        asked = json.dumps({"request": request})
        before = len(chain.seen("_scp/ide_operation/run"))
        found = 'It is ["find-definitions", {"symbol": "f"}].'
        says(chain, session, f"call editor ide_operation {asked}", found)
        (ran,) = chain.seen("_scp/ide_operation/run")[before:]
        assert ran["params"]["sessionId"] == session
        assert ran["params"]["arguments"] == {"symbol": "f"}
    assert {one["params"]["sessionId"] for one in chain.seen("session/update")} == {session}
    assert chain.finish() == 0
    # The prompts of each of the agent's sessions, and the sessions that were closed.
    prompted, closed = json.loads((rig.folder / "history").read_text("utf-8"))
    own = [id_ for id_ in prompted if id_ != session]
    assert [len(prompted[id_]) for id_ in own] == [2, 1]
    assert closed == own
    assert [one.split(" ")[0] for one in prompted[session]] == ["call", "call"]
