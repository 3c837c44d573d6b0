"""The agent dies behind the editor, and is started again: `on_failure=restart` of agents that can
load their sessions. Issue 19, "Agent restarted behind the editor".
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.process.rig import Chain, Rig

Json = dict[str, Any]

V2: Json = {
    "protocolVersion": 2,
    "info": {"name": "c", "version": "1"},
    "capabilities": {},
}
SANDBOXED = ("passthrough", "datetime", "prompt-prefix,config.text=P:", "passthrough,name=last")


def agent(rig: Rig, *flags: str, **options: str) -> str:
    """The agent whose sessions outlast it, started again."""
    return rig.lasting(*flags, **{"on_failure": "restart", **options})


def pid(rig: Rig) -> int:
    """The process of the agent that runs now."""
    return int((rig.folder / "pid").read_text())


def kill(rig: Rig) -> None:
    """Kills the agent."""
    os.kill(pid(rig), signal.SIGKILL)


def begin(chain: Chain, version: int = 1, **params: object) -> str:
    """Initializes in a version of ACP, and opens a session."""
    if version == 1:
        chain.initialize()
    else:
        assert "result" in chain.request("initialize", V2)
    return chain.new_session(**params)


def ask(chain: Chain, version: int, session: str, text: str) -> list[str]:
    """Prompts and waits until the turn is over; the texts that came."""
    before = len(updates(chain, session, "agent_message_chunk"))
    idle = len(states(chain, session, "idle"))
    assert "result" in chain.answer(chain.start_prompt(session, text)), chain.story()
    if version == 2:
        until(chain, lambda: len(states(chain, session, "idle")) > idle)
    return [u["content"]["text"] for u in updates(chain, session, "agent_message_chunk")][before:]


def updates(chain: Chain, session: str, kind: str) -> list[Json]:
    """The updates of a kind that came for a session."""
    found = [
        f["params"] for f in chain.seen("session/update") if f["params"]["sessionId"] == session
    ]
    return [one["update"] for one in found if one["update"]["sessionUpdate"] == kind]


def states(chain: Chain, session: str, state: str) -> list[Json]:
    """The reports that a session is in this state."""
    return [u for u in updates(chain, session, "state_update") if u["state"] == state]


def until(chain: Chain, condition: Callable[[], object]) -> None:
    """Waits until this is so."""
    chain.until(condition, "what is to come")


def texts(chain: Chain, session: str) -> list[str]:
    """All texts that the client got."""
    return [u["content"]["text"] for u in updates(chain, session, "agent_message_chunk")]


def heard(rig: Rig, method: str) -> list[Json]:
    """The params of each such message that the agent got."""
    return [one.frame["params"] for one in rig.log("A", "in") if one.frame.get("method") == method]


@pytest.mark.parametrize(("version", "how"), [(1, "load"), (1, "resume"), (2, "resume")])
def test_an_agent_dies_in_a_turn_and_the_sessions_go_on(rig: Rig, version: int, how: str) -> None:
    flags = ("--resume",) if how == "resume" else ()
    chain = rig.agent(rig.x("X"), agent(rig, *flags))
    session = begin(chain, version, cwd="/", additionalDirectories=["/usr"])
    other = chain.new_session()
    assert ask(chain, version, session, "one") == ["one"]
    turn = chain.start_prompt(session, "hang")
    until(chain, lambda: "hanging" in texts(chain, session))
    kill(rig)
    if version == 1:
        error = chain.answer(turn)["error"]
        assert "A" in error["message"]
        assert "send the request again" in error["message"]
        assert error["data"]["component"] == "A"
    else:
        until(chain, lambda: states(chain, session, "idle")[1:])
        (notice,) = updates(chain, session, "notice")
        assert notice["severity"] == "error"
        assert "send the request again" in notice["description"]
        assert states(chain, session, "idle")[1]["stopReason"] == "cancelled"
    assert ask(chain, version, session, "history") == ["one|hanging"]
    assert json.loads(ask(chain, version, session, "setup")[0]) == {
        "cwd": "/",
        "additionalDirectories": ["/usr"],
    }
    assert ask(chain, version, other, "two") == ["two"]
    assert len(chain.answers(turn)) == 1
    assert texts(chain, session)[:3] == ["one", "hanging", "one|hanging"]  # nothing came twice
    assert [p["sessionId"] for p in heard(rig, f"session/{how}")] == [session, other]
    assert rig.methods("X").count("initialize") + rig.methods("X").count("proxy/initialize") == 1
    assert f"session/{how}" not in rig.methods("X")
    assert chain.stderr.count("started again (1 of 3)") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("version", [1, 2])
def test_four_sandboxed_proxies_and_two_deaths_between_turns(rig: Rig, version: int) -> None:
    chain = rig.agent(*SANDBOXED, agent(rig))
    session = begin(chain, version)
    for number in (1, 2):
        (said,) = ask(chain, version, session, f"turn {number}")
        assert f"turn {number}" in said
        seen = len(chain.frames)
        kill(rig)
        chain.until_stderr(f"started again ({number} of 3)")
        assert len(chain.frames) == seen  # the editor hears nothing of it
    assert "turn 2" in ask(chain, version, session, "history")[0]
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_deaths_in_a_loop_end_the_chain(rig: Rig) -> None:
    chain = rig.agent(agent(rig))
    session = begin(chain)
    for number in (1, 2, 3):
        assert "send the request again" in failure(chain, session)
        chain.until_stderr(f"({number} of 3)")
    assert "exit" in failure(chain, session)
    assert chain.exit_code() == 1
    assert rig.leftovers(chain) == []


def failure(chain: Chain, session: str) -> str:
    """Has the agent end in a turn; what the client is told."""
    return str(chain.answer(chain.start_prompt(session, "fail"))["error"]["message"])


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_that_cannot_load_fails_the_chain(rig: Rig, version: int) -> None:
    chain = rig.agent(agent(rig, "--no-load"))
    session = begin(chain, version)
    kill(rig)
    assert chain.exit_code() == 1
    assert "it is not started again" in chain.stderr
    assert "it cannot take its sessions up again" in chain.stderr
    assert "loadSession" in chain.stderr
    assert session


@pytest.mark.parametrize(("version", "kind"), [(1, "stdio"), (1, "http"), (2, "stdio")])
def test_mcp_servers_of_components_work_again(rig: Rig, version: int, kind: str) -> None:
    proxy = (sys.executable, "-m", "tests.e2e.actors.mcp_proxy", "--generation", "rfd")
    tools = rig.program(*proxy, "--name", "tools", name="tools", dialect="acp")
    chain = rig.agent(tools, agent(rig), options=("-c", f"mcp-bridge={kind}"))
    session = begin(chain, version)
    what = "tools" if kind == "stdio" else "one"
    before = ask(chain, version, session, what)
    assert ("echo" in before[0]) is (kind == "stdio")
    kill(rig)
    chain.until_stderr("started again (1 of 3)")
    assert ask(chain, version, session, what) == before
    (first,) = heard(rig, "session/new")
    (again,) = heard(rig, "session/load" if version == 1 else "session/resume")
    assert first["mcpServers"][0]["name"] == again["mcpServers"][0]["name"]
    assert first["mcpServers"] != again["mcpServers"]  # another door
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_the_trace_follows(rig: Rig) -> None:
    trace = rig.folder / "trace.jsons"
    chain = rig.agent(rig.x("X"), agent(rig), options=("--trace", str(trace)))
    session = begin(chain)
    kill(rig)
    chain.until_stderr("started again (1 of 3)")
    assert chain.prompt(session, "one") == "one"
    assert chain.finish() == 0
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    (restart,) = [one for one in events if "started again (1 of 3)" in json.dumps(one)]
    loads = [one for one in events if "session/load" in json.dumps(one)]
    assert events.index(restart) < events.index(loads[0])
    assert "conductor" in json.dumps(loads[0])
