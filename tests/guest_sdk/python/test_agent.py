"""The SDK for agents, in its playground: no process, no conductor."""

import asyncio
import sys
from typing import Any

import pytest

from guest_sdk.python.agent import (
    Agent,
    AgentError,
    AgentPlayground,
    Cancelled,
    NotOffered,
    Select,
    Toggle,
    Turn,
)
from guest_sdk.python.examples.agents.assistant import agent as assistant
from guest_sdk.python.examples.agents.echo import agent as echo

BOTH = pytest.mark.parametrize("version", [1, 2])
CAPABLE = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


def _kinds(updates: list[Any]) -> list[str]:
    return [f"{one.sessionUpdate} {one.get('state', '')}".strip() for one in updates]


@BOTH
async def test_it_answers(version: int) -> None:
    async with AgentPlayground(echo, version=version) as p:
        heard = await p.prompt("hello ", "there")
        assert (heard.text, heard.stop_reason) == ("hello there", "end_turn")
        if version == 2:
            assert _kinds(heard.updates) == [
                "state_update running", "user_message", "agent_message_chunk",
                "agent_message_chunk", "state_update idle",
            ]  # fmt: skip
            assert len({one.messageId for one in heard.updates[2:4]}) == 1
        else:
            assert _kinds(heard.updates) == ["agent_message_chunk"] * 2


async def test_in_version_2_the_answer_to_a_prompt_comes_before_the_turn() -> None:
    """Otherwise its client would wait for the end of a turn that is over."""
    agent = Agent("quick")

    @agent.prompt
    async def answer(turn: Turn) -> str:
        return "done"

    async with AgentPlayground(agent, version=2) as p:
        await p.new_session()
        for _ in range(3):
            mark, params = len(p.heard), {"sessionId": p.session, "prompt": []}
            await p.request("session/prompt", params)
            kinds = [one.raw["params"]["update"].get("state") for one in p.heard[mark:]]
            assert "idle" not in kinds
            while p.heard[-1].raw["params"]["update"].get("state") != "idle":
                await asyncio.sleep(0)


@BOTH
async def test_cancel_is_raised_where_the_handler_waits(version: int) -> None:
    seen: list[str] = []
    agent = Agent("slow")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("begun")
        try:
            await asyncio.Event().wait()
        except Cancelled:
            await turn.say("stopped")
            seen.append("cancelled")
            raise

    async with AgentPlayground(agent, version=version) as p:
        await p.new_session()
        p.cancel()  # before any prompt: nothing
        first, second = (asyncio.ensure_future(p.prompt("go")) for _ in range(2))
        while not any("begun" in repr(one) for one in p.heard):
            await asyncio.sleep(0)
        p.cancel()
        p.cancel()
        heard = await first
        assert (heard.stop_reason, seen) == ("cancelled", ["cancelled"])
        assert heard.text.startswith("begunstopped")
        # The one that waits has not begun: version 2 has no turn that could end.
        if version == 1:
            assert (await second).stop_reason == "cancelled"
        else:
            with pytest.raises(AgentError) as caught:
                await second
            assert caught.value.code == -32800


@BOTH
async def test_permissions(version: int) -> None:
    answers = iter(["allow_once", "reject_once", None])
    asked = []

    def client(request: Any) -> Any:
        asked.append(request.params.raw)
        option = next(answers)
        outcome = (
            {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}
        )
        return {"outcome": outcome}

    agent = Agent("careful")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        async with turn.tool_call("Delete it", kind="delete") as call:
            await turn.say(str(bool(await turn.ask("Really?", call=call))))

    async with AgentPlayground(agent, version=version, client=client) as p:
        said = [(await p.prompt("go")).text for _ in range(3)]
        assert said == ["True", "False", "False"]
    call = asked[0]["toolCall"] if version == 1 else asked[0]["subject"]["toolCall"]
    begun = next(
        one.params["update"]
        for one in p.heard
        if "tool_call" in one.params.raw.get("update", {}).get("sessionUpdate", "")
    )
    assert call["toolCallId"] == begun["toolCallId"]


async def test_files_and_terminals_of_the_client() -> None:
    asked: list[str] = []

    def client(request: Any) -> Any:
        asked.append(request.method)
        return {
            "fs/read_text_file": {"content": "text"},
            "terminal/create": {"terminalId": "t"},
            "terminal/wait_for_exit": {"exitCode": 3},
            "terminal/output": {"output": "out "},
        }.get(request.method, {})

    async with AgentPlayground(assistant, client=client, capabilities=CAPABLE) as p:
        assert (await p.prompt("read /a")).text == "text"
        assert (await p.prompt("run make it")).text == "out exit code 3"
        await p.request("session/set_mode", {"sessionId": p.session, "modeId": "code"})
        heard = await p.prompt("write /a b")
        assert heard.text == "written"
        statuses = [one.get("status") for one in heard.updates if "toolCallId" in one.raw]
        assert statuses == ["in_progress", "completed"]
    assert asked == [
        "fs/read_text_file", "terminal/create", "terminal/wait_for_exit", "terminal/output",
        "terminal/release", "fs/write_text_file",
    ]  # fmt: skip
    async with AgentPlayground(assistant, version=2, capabilities=CAPABLE) as p:
        heard = await p.prompt("read /a")  # version 2 has no files
        assert heard.stop_reason == "error"
        assert "fs.readTextFile" in heard.updates[-1].error.message


@BOTH
async def test_what_fails_is_an_error_with_its_place(version: int) -> None:
    agent = Agent("broken")

    @agent.prompt
    async def answer(turn: Turn) -> str:
        if turn.text == "stop":
            return "because"
        raise {"own": AgentError("mine", -32050), "not": NotOffered("no")}.get(
            turn.text, ZeroDivisionError("by zero")
        )

    async with AgentPlayground(agent, version=version) as p:
        for text, code, told in (
            ("own", -32050, "mine"),
            ("bug", -32603, "ZeroDivisionError: by zero (test_agent.py, line"),
            ("stop", -32603, "'because'; a stop reason is: end_turn"),
        ):
            if version == 1:
                with pytest.raises(AgentError) as caught:
                    await p.prompt(text)
                found = caught.value.body()
            else:
                heard = await p.prompt(text)
                assert heard.stop_reason == "error"
                found = heard.updates[-1].error.raw
            assert found["code"] == code
            assert told in found["message"]


@BOTH
async def test_modes_and_options(version: int) -> None:
    chosen = []
    model = Select("model", "Model", {"a": "A", "b": "B"}, category="model")
    modes = {"ask": "Ask", "code": "Code"}
    agent = Agent("choosy", modes=modes, options=[model, Toggle("x", "X")])

    @agent.changed
    def changed(session: Any, name: str, value: Any) -> None:
        if value == "b":
            raise AgentError("not today")
        chosen.append((name, value))

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.session.choose("mode", "ask")
        await turn.say(str(turn.session.options))

    async with AgentPlayground(agent, version=version) as p:
        setup = await p.new_session()
        key = "id" if version == 1 else "configId"
        ids = [one[key] for one in setup["configOptions"]]
        assert ids == (["model", "x"] if version == 1 else ["mode", "model", "x"])
        assert (setup.get("modes") or {}).get("currentModeId") == ("ask" if version == 1 else None)

        async def choose(name: str, value: Any) -> Any:
            params = {"sessionId": p.session, "configId": name, "value": value}
            return await p.request("session/set_config_option", params)

        if version == 1:
            await p.request("session/set_mode", {"sessionId": p.session, "modeId": "code"})
        else:
            await choose("mode", "code")
        shown = await choose("x", True)
        assert shown["configOptions"][-1]["currentValue"] is True
        for name, value in (("model", "c"), ("model", "b"), ("none", 1), ("x", "on")):
            with pytest.raises(AgentError):
                await choose(name, value)
        assert chosen == [("mode", "code"), ("x", True)]
        heard = await p.prompt("go")
        assert heard.text == "{'mode': 'ask', 'model': 'a', 'x': True}"
        kind = "current_mode_update" if version == 1 else "config_option_update"
        assert kind in _kinds(heard.updates)


@BOTH
async def test_sessions_are_loaded_listed_and_closed(version: int) -> None:
    async with AgentPlayground(assistant, version=version) as p:
        await p.prompt("first")
        listed = await p.request("session/list", {"cwd": "/project"})
        assert p.session in [one["sessionId"] for one in listed["sessions"]]
        await p.request("session/close", {"sessionId": p.session})
        with pytest.raises(AgentError) as caught:
            await p.prompt("gone")
        assert (caught.value.code, caught.value.data) == (-32002, {"sessionId": p.session})
        mark = len(p.heard)
        again = {"sessionId": p.session, "cwd": "/project", "mcpServers": []}
        if version == 1:
            await p.request("session/load", again)
        else:
            await p.request("session/resume", {**again, "replayFrom": {"type": "start"}})
        told = str([one.raw for one in p.heard[mark:]])
        assert ("replay_complete" in told) == (version == 2)
        assert "'first'" in told
        assert "You said: first" in told
        assert (await p.prompt("second")).text == "You said: second"
        with pytest.raises(AgentError) as caught:
            await p.request("session/resume", {**again, "sessionId": "other"})
        assert caught.value.code == -32002


async def test_a_prompt_that_is_sent_again_is_there_already() -> None:
    """Version 2: also once the session is loaded again."""
    async with AgentPlayground(assistant, version=2) as p:
        await p.prompt("first")
        params = {"sessionId": p.session, "prompt": [{"type": "text", "text": "once"}]}
        answers: list[Any] = []
        for key in ("k", "k", "other"):
            if answers:
                again = {"sessionId": p.session, "cwd": "/project", "mcpServers": []}
                await p.request("session/resume", again)
            answers.append(await p.request("session/prompt", {**params, "idempotencyKey": key}))
        assert answers[0] == answers[1] != answers[2]
        for odd in ("", 1, "x" * 256):
            with pytest.raises(AgentError) as caught:
                await p.request("session/prompt", {**params, "idempotencyKey": odd})
            assert caught.value.code == -32602


async def test_an_id_in_use_and_a_request_that_is_cancelled() -> None:
    agent = Agent("asker")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.ask_client("_vendor/never")

    hold: asyncio.Event = asyncio.Event()

    async def client(request: Any) -> Any:
        await hold.wait()

    async with AgentPlayground(agent, client=client) as p:
        await p.new_session()
        prompted = asyncio.ensure_future(p.prompt("go"))
        while not any(one.get("method") == "_vendor/never" for one in p.heard):
            await asyncio.sleep(0)
        p.feed('{"jsonrpc":"2.0","id":3,"method":"session/list"}')
        assert p.heard[-1].error.message == "the id 3 is already in use"
        p.notify("$/cancel_request", {"requestId": 3})
        assert (await prompted).stop_reason == "cancelled"
        assert p.heard[-1].method == "$/cancel_request"
        hold.set()


async def test_extensions() -> None:
    agent = Agent("more")
    heard = []

    @agent.extension("_vendor/double")
    def double(params: Any) -> Any:
        heard.append(params)
        return {"n": params["n"] * 2}

    with pytest.raises(ValueError, match="begin with `_`"):
        agent.extension("session/new")
    async with AgentPlayground(agent) as p:
        assert await p.request("_vendor/double", {"n": 2}) == {"n": 4}
        p.notify("_vendor/double", {"n": 3})
        with pytest.raises(AgentError):
            await p.request("_vendor/other", {})
        with pytest.raises(AgentError, match="has no function for prompts"):
            await p.prompt("hello")
        assert heard == [{"n": 2}, {"n": 3}]


SERVER = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked["method"], asked.get("params", {})
    result = {
        "initialize": {"protocolVersion": params.get("protocolVersion"),
                       "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "hey", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": str(params.get("arguments"))}]},
    }.get(method)
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


async def test_mcp_servers_over_stdio() -> None:
    """The servers use the package `mcp`; one of the servers is not there."""
    async with AgentPlayground(assistant) as p:
        here = {"name": "here", "command": sys.executable, "args": ["-c", SERVER], "env": []}
        gone = {"name": "gone", "command": "/nowhere/at/all", "args": [], "env": []}
        await p.new_session(cwd="/", mcpServers=[here, gone])
        said = (await p.prompt("tools")).text
        assert said.startswith("here: hey\n`gone`: FileNotFoundError")
        assert (await p.prompt('call here hey {"a": 1}')).text == "{'a': 1}"
        with pytest.raises(AgentError, match="no MCP server `other`"):
            await p.prompt("call other hey {}")


WRONG: tuple[dict[str, Any], ...] = (
    {"takes": ["smell"]},
    {"modes": {}},
    {"options": [Select("a", "A", {"x": "X"}), Toggle("a", "A")]},
    {"options": [Select("a", "A", {"x": "X"}, "y")]},
)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_declared(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"agent|option"):
        Agent("wrong", **wrong)
