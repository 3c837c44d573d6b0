"""The component `subagents`."""

import json
import shlex
import sys
from typing import Any

import pytest

from guest_sdk.python import Playground, Record
from tests.components.library.support import agent, component, play
from tests.harness.process.rig import Chain, Rig
from tests.places import ROOT

AGENTS = ROOT / "guest_sdk" / "python" / "examples" / "agents"


def _text(result: Any) -> str:
    return str(result["content"][0]["text"])


def _begin(p: Playground, *tasks: str) -> Any:
    """Calls the tool, without waiting for its answer."""
    return p.start_mcp("tools/call", {"name": "run", "arguments": {"tasks": list(tasks)}})


def _answer(p: Playground, id_: int) -> Any:
    found = p.answer_to("s", id_)
    return found["result"]["result"] if found is not None else None


def _holding(p: Playground) -> list[Record]:
    """Has the agent hold every prompt; those it holds."""
    held: list[Record] = []

    def answer(request: Record) -> Any:
        if request.method != "session/prompt":
            return None
        held.append(request)
        return p.agent.HOLD

    p.agent.answer = answer
    return held


async def test_tasks_run_in_sessions_of_their_own_and_are_joined() -> None:
    async with play("subagents") as p:
        session = await p.new_session(cwd="/here")
        result = await p.call("run", tasks=["one", "two"])
        assert _text(result) == "## Task 1\n\none\n\n## Task 2\n\ntwo"
        assert _text(await p.call("run", tasks=["three"])) == "three"
        asked = [one for one in p.agent.requests if one.method == "session/prompt"]
        assert len({one.params.session_id for one in asked} | {session}) == 4
        opened = [one for one in p.agent.requests if one.method == "session/new"][1:]
        assert {one.params.cwd for one in opened} == {"/here"}
        assert not any("session-2" in str(one.raw) for one in p.heard)


async def test_bounds() -> None:
    config = {"at_once": 2, "most": 3, "longest": 10}
    async with play("subagents", config=config) as p:
        await p.new_session()
        for tasks, told in (
            ([], "1 to 3 tasks, not 0"),
            (["x"] * 4, "1 to 3 tasks, not 4"),
            (["x" * 11], "10 characters at most, not 11"),
        ):
            result = await p.call("run", tasks=tasks)
            assert result["isError"]
            assert told in _text(result)
        held = _holding(p)
        first = await _begin(p, "a", "b", "c")
        assert [one.params.prompt[0]["text"] for one in held] == ["a", "b"]
        second = await _begin(p, "d")
        assert "2 sub-agents work already" in _text(_answer(p, second))
        p.agent.say(held[0].params.session_id, "much " * 10)
        p.agent.reply(held[0], {"stopReason": "end_turn"})
        assert held[2].params.prompt[0]["text"] == "c"
        for one in held[1:]:
            p.agent.reply(one, {"stopReason": "refusal"})
        said = _text(_answer(p, first))
        assert "much much \n(… 50 characters)" in said
        assert said.endswith("(no words; it ended with refusal)")


async def test_a_turn_that_never_ends_is_given_up() -> None:
    async with play("subagents", config={"seconds": 5}) as p:
        await p.new_session()
        held = _holding(p)
        asked = await _begin(p, "wait")
        p.services.advance(6)
        (stop,) = [one for one in p.agent.notifications if one.method == "session/cancel"]
        assert stop.params.session_id == held[0].params.session_id
        p.agent.reply(held[0], {"stopReason": "cancelled"})
        assert _text(_answer(p, asked)) == "failed: it was not done within 5 seconds"


async def test_permissions_are_refused_and_errors_told() -> None:
    async with play("subagents") as p:
        await p.new_session()
        held = _holding(p)
        asked = await _begin(p, "do it")
        session = held[0].params.session_id
        options = [{"optionId": "a", "kind": "allow_once"}]
        request = {"sessionId": session, "toolCall": {}, "options": options}
        permission = p.agent.request("session/request_permission", request)
        assert p.result("s", permission) == {"outcome": {"outcome": "cancelled"}}
        file = p.agent.request("fs/read_text_file", {"sessionId": session, "path": "/a"})
        answered = p.answer_to("s", file)
        assert answered is not None
        assert answered["error"]["code"] == -32601
        p.send("s", {"id": held[0].raw["id"], "error": {"code": -32000, "message": "no tokens"}})
        assert _text(_answer(p, asked)) == "failed: no tokens"


def test_a_peer_agent_does_the_tasks(rig: Rig) -> None:
    program = shlex.join([sys.executable, str(AGENTS / "assistant.py")])
    named = component("subagents", {"peer": "other"}, allow="peer:other")
    chain = agent(rig, named, rig.demo("--acp"), options=("-c", f"peer.other={program}"))
    said = chain.prompt(chain.begin(), '/call subagents run {"tasks": ["a", "b"]}')
    assert said == "## Task 1\n\nYou said: a\n\n## Task 2\n\nYou said: b"
    assert rig.methods("A").count("session/new") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def _chain(rig: Rig, version: int) -> tuple[Chain, str]:
    chain = agent(
        rig, component("subagents", {}, allow="command:hang+command:permission"), rig.demo("--acp")
    )
    more = {"info": {"name": "c", "version": "1"}, "capabilities": {}} if version == 2 else {}
    chain.initialize(protocolVersion=version, **more)
    return chain, chain.new_session()


def _idle(chain: Chain) -> list[Any]:
    updates = [one["params"]["update"] for one in chain.seen("session/update")]
    return [one["stopReason"] for one in updates if one.get("state") == "idle"]


@pytest.mark.parametrize("version", [1, 2])
def test_two_at_once_are_joined_and_a_cancel_stops_both(rig: Rig, version: int) -> None:
    chain, session = _chain(rig, version)

    def call(*tasks: str) -> int:
        arguments = json.dumps({"tasks": tasks})
        return chain.start_prompt(session, f"/call subagents run {arguments}")

    def ended(asked: int, count: int) -> str:
        result = chain.answer(asked)["result"]
        if version == 1:
            return str(result["stopReason"])
        chain.until(lambda: len(_idle(chain)) == count, "the end of the turn")
        return str(_idle(chain)[-1])

    assert ended(call("one", "/permission"), 1) == "end_turn"
    said = "".join(chain.texts(session))
    assert "## Task 1\n\none\n\n## Task 2\n\npermission: cancelled" in said
    assert chain.seen("session/request_permission") == []
    asked = call("/hang", "/hang")
    for sub in ("demo-4", "demo-5"):
        rig.until_heard("A", f'"session/prompt","params":{{"sessionId":"{sub}"'.encode())
    chain.notify("session/cancel", {"sessionId": session})
    assert ended(asked, 2) == "cancelled"
    for sub in ("demo-4", "demo-5"):
        rig.until_heard("A", f'"session/cancel","params":{{"sessionId":"{sub}"'.encode())
    assert {one["params"]["sessionId"] for one in chain.seen("session/update")} == {session}
    assert ended(call("again"), 3) == "end_turn"
    assert chain.texts(session)[-1] == "again" or version == 2
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []
