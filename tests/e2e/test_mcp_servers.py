"""MCP servers of components, and the agent's sessions with them, through the real command.

Every generation by every way, and cancellation, are in
`test_mcp_bridge.py`, how the doors end in `test_mcp_doors.py`. The proxy is `actors/mcp_proxy.py`,
or the sandboxed `tools-demo`; A is the bundled `demo`.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.test_mcp_bridge import declared_as, heard, proxy, servers
from tests.harness.process.client import Json
from tests.harness.process.mcp_clients import Door, Http, Shim, given
from tests.harness.process.processes import needs_proc
from tests.harness.process.rig import Chain, Rig
from tests.places import DEADLINE

SAMPLED: Final = "the demo's sample"
"""The answer of A to a server that asks for sampling."""
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
"""The member of `_meta` in which a server of MCP's newest revision names itself."""


def methods(rig: Rig, name: str = "tools") -> list[str]:
    """The methods of MCP that the proxy of this name has heard."""
    return [str(one["method"]) for one in heard(rig, name)]


def until(chain: Chain, done: Callable[[], object], what: str) -> None:
    """Waits until `done()`, while messages go through the chain."""
    deadline = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < deadline, f"waited for {what}{chain.story()}"
        chain.settled()


# -- 32 to 36: generations ---------------------------------------------------------------------


def test_a_declaration_stands_beside_the_clients(rig: Rig) -> None:
    chain = rig.agent(proxy(rig, "sacp"), rig.demo("--acp"))
    chain.initialize()
    filesystem = {"name": "filesystem", "command": "/bin/fs", "args": [], "env": []}
    session = chain.new_session(mcpServers=[filesystem])
    mine, added = servers(rig)
    assert mine == filesystem
    assert added == {"type": "acp", "name": "tools", "serverId": "id-of-tools"}
    assert chain.prompt(session, '/call tools echo {"text":"native"}') == "native"
    assert chain.finish() == 0


def test_connect_message_disconnect_in_order(rig: Rig) -> None:
    """One proxy of each generation that has connections, all in one chain, each heard by its
    owner."""
    generations = {"one": "sdk-2", "two": "rfd", "three": "sdk-0.12", "four": "sacp"}
    components = [proxy(rig, generation, name) for name, generation in generations.items()]
    chain = rig.agent(*components, proxy(rig, "pacp", "five"), rig.demo("--no-http"))
    entries = given(chain, chain.begin())
    assert list(entries) == [*generations, "five"]
    for name, entry in entries.items():
        with closing(Door(entry)) as door:
            door.begin()
            assert door.tool(1, "echo", name) == name
    assert chain.finish() == 0
    for name, generation in generations.items():
        said = [one["method"] for one in heard(rig, name) if "server/discover" not in str(one)]
        prefix = "mcp" if generation in ("sdk-2", "rfd") else "_mcp"
        assert (said[0], said[-1]) == (f"{prefix}/connect", f"{prefix}/disconnect")
        assert (said.count(said[0]), said.count(said[-1])) == (1, 1)
    assert set(methods(rig, "five")) - {"_mcp/connect"} == {
        "_mcp/client_to_server/request",
        "_mcp/client_to_server/notification",
    }


# -- 37 to 39: what the agent is given -----------------------------------------------------------


@pytest.mark.parametrize(("flag", "kind"), [("--no-http", "stdio"), ("--acp", "acp")])
def test_native_or_bridged_the_result_is_the_same(rig: Rig, flag: str, kind: str) -> None:
    chain = rig.agent(rig.x("X"), proxy(rig, "sacp"), rig.demo(flag))
    session = chain.begin()
    (initialized, *_) = [one.frame for one in rig.log("X", "in") if "result" in one.frame]
    assert initialized["result"]["agentCapabilities"]["mcpCapabilities"]["acp"] is True
    assert declared_as(rig) == kind
    assert chain.prompt(session, '/call tools echo {"text":"the same"}') == "the same"
    assert chain.finish() == 0
    assert not any(b'"acp:' in one.raw for one in rig.log("A"))


# -- 40 to 42: sessions and connections ----------------------------------------------------------


@pytest.mark.parametrize(("kind", "repeats"), [("http", 100), ("stdio", 20), ("acp", 100)])
def test_who_connects_early_gets_its_own_session(rig: Rig, kind: str, repeats: int) -> None:
    """A greets the server before it answers `session/new`: the proxy hears the right session."""
    agent = rig.demo("--fast", log=False)
    chain = rig.agent(proxy(rig, "sacp"), agent, options=("-c", f"mcp-bridge={kind}"))
    chain.initialize()
    sessions = [chain.new_session() for _ in range(repeats)]
    for session in sessions:
        name, _, said = chain.prompt(session, "/early").partition(": ")
        told = json.loads(said)
        # An agent without a bridge greets by `server/discover`, which has it in `_meta`.
        about = told["_meta"][SERVER_INFO] if kind == "acp" else told["serverInfo"]
        assert (name, about["title"]) == ("tools", f"for {session}")
    connects = [one["params"] for one in heard(rig) if one["method"] == "_mcp/connect"]
    assert Counter(one["session_id"] for one in connects) == Counter(sessions)
    assert chain.finish() == 0
    assert not rig.leftovers(chain)


def test_a_tool_knows_its_session(rig: Rig) -> None:
    chain = rig.agent(proxy(rig, "sdk-0.12"), "tools-demo", rig.demo())
    sessions = [chain.begin(), chain.new_session()]
    for name in ("tools", "tools-demo"):
        for session in sessions:
            assert chain.prompt(session, f"/call {name} whoami") == session
    assert chain.finish() == 0


def test_connections_are_apart_and_end_alone(rig: Rig) -> None:
    chain = rig.agent(proxy(rig, "sacp", "one"), proxy(rig, "rfd", "two"), rig.demo("--no-http"))
    entries = given(chain, chain.begin())
    doors = {(name, at): Door(entries[name]) for at in (1, 2) for name in ("one", "two")}
    for (name, at), door in doors.items():
        door.begin()
        assert door.tool(1, "echo", f"{name} {at}") == f"{name} {at}"
    ids = {}
    for name, key in (("one", "connection_id"), ("two", "connectionId")):
        for message in heard(rig, name):
            if message["params"].get("method") == "tools/call":
                text = message["params"]["params"]["arguments"]["text"]
                ids[text] = message["params"][key]
    assert len(set(ids.values())) == 4
    doors.pop(("one", 2)).close()
    chain.until_stderr("heard _mcp/disconnect")
    closed = [one["params"] for one in heard(rig, "one") if one["method"] == "_mcp/disconnect"]
    assert [one["connection_id"] for one in closed] == [ids["one 2"]]
    for door in doors.values():
        assert door.tool(2, "echo", "still there") == "still there"
        door.close()
    assert chain.finish() == 0
    assert len([one for one in methods(rig, "two") if one == "mcp/disconnect"]) == 2


# -- 43: the end ---------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [Shim, Door], ids=["killed shim", "dropped connection"])
def test_who_drops_a_connection_is_cancelled_and_told_of(
    rig: Rig, client: type[Shim | Door]
) -> None:
    chain = rig.agent(proxy(rig, "sacp"), rig.demo("--no-http"))
    entry = given(chain, chain.begin())["tools"]
    with closing(client(entry)) as gone:
        gone.begin()
        gone.send(id=1, method="tools/call", params={"name": "slow", "arguments": {"text": "x"}})
        chain.until_stderr("heard _mcp/request")
    chain.until_stderr("heard $/cancel_request")
    chain.until_stderr("heard _mcp/disconnect")
    with closing(Door(entry)) as next_one:
        next_one.begin()
        assert next_one.tool(1, "echo", "goes on") == "goes on"
    assert chain.finish() == 0


@needs_proc
def test_a_killed_component_fails_calls_and_shuts_the_door(rig: Rig) -> None:
    chain = rig.agent(proxy(rig, "sacp"), rig.demo("--no-http"))
    entry = given(chain, chain.begin())["tools"]
    with closing(Shim(entry)) as shim:
        shim.begin()
        shim.send(id=1, method="tools/call", params={"name": "slow", "arguments": {"text": "x"}})
        chain.until_stderr("heard _mcp/request")
        (pid,) = rig.kin(chain).named("tests.e2e.actors.mcp_proxy")
        os.kill(pid, signal.SIGKILL)
        error = shim.answer(1)["error"]["message"]
        assert "tools" in error
        assert "SIGKILL" in error
        assert chain.exit_code() == 1
        assert not Path(entry["args"][-1]).parent.exists()
    assert not rig.leftovers(chain)


@needs_proc
@pytest.mark.parametrize(("kind", "count"), [("http", 100), ("stdio", 40)])
def test_many_sessions_leave_nothing_behind(rig: Rig, kind: str, count: int) -> None:
    agent = rig.demo(log=False)
    # The control socket is opened some time later: one descriptor more.
    chain = rig.agent(
        "tools-demo", agent, options=("-c", f"mcp-bridge={kind}", "-c", "control=off")
    )
    chain.initialize()
    descriptors = Path(f"/proc/{chain.process.pid}/fd")

    def session() -> None:
        id_ = chain.new_session()
        entry = given(chain, id_)["tools-demo"]
        with closing(Door(entry) if kind == "stdio" else Http(entry)) as client:
            client.begin()
            assert "result" in chain.request("session/close", {"sessionId": id_})
        chain.lines.clear()  # the rig looks through all there is for each answer
        chain.frames.clear()

    session()
    before = len(list(descriptors.iterdir()))
    for _ in range(count):
        session()
    until(chain, lambda: len(list(descriptors.iterdir())) <= before, "descriptors to be closed")
    assert chain.finish() == 0
    assert not rig.leftovers(chain)


# -- 44 and 45: more than calls ------------------------------------------------------------------


@pytest.mark.parametrize("generation", ["stateless", "pacp", "sacp", "scp"])
def test_progress_logs_and_sampling_reach_the_client(rig: Rig, generation: str) -> None:
    chain = rig.agent(proxy(rig, generation), rig.demo("--no-http"))
    entry = given(chain, chain.begin())["tools"]
    with closing(Shim(entry) if generation == "stateless" else Door(entry)) as client:
        client.serves = lambda frame: {"result": sampled(f"{frame['params']['maxTokens']} tokens")}
        client.begin(sampling={})
        said = client.tool(1, "report", "it", progressToken="mine")
    assert said == "9 tokens"
    progress, log, sampling = client.told
    assert (progress["method"], log["method"], sampling["method"]) == (
        "notifications/progress", "notifications/message", "sampling/createMessage"
    )  # fmt: skip
    assert progress["params"] == {"progressToken": "mine", "progress": 1, "total": 2}
    assert log["params"] == {"level": "warning", "data": "about it"}
    assert chain.finish() == 0


def sampled(text: str) -> Json:
    """The result of `sampling/createMessage`."""
    content = {"type": "text", "text": text}
    return {"role": "assistant", "model": "none", "content": content}


@pytest.mark.parametrize(
    ("generation", "kind"),
    [("stateless", "acp"), ("sacp", "acp"), ("stateless", "http"), ("sacp", "stdio")],
)
def test_by_the_agent_itself(rig: Rig, generation: str, kind: str) -> None:
    """A answers sampling with its fixed text; it reads resources and gets prompts."""
    chain = rig.agent(proxy(rig, generation), rig.demo(), options=("-c", f"mcp-bridge={kind}"))
    session = chain.begin()
    assert chain.prompt(session, '/call tools report {"text":"it"}') == SAMPLED
    assert chain.prompt(session, "/resource tools note://one") == "what is at note://one"
    assert chain.prompt(session, '/mcpprompt tools greet {"who":"you"}') == "user: greet for you"
    assert chain.finish() == 0


# -- 46 and 71: hop by hop -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stdio", "acp"])
def test_a_proxy_between_sees_and_changes_results(rig: Rig, kind: str) -> None:
    shouting = rig.program(
        *(sys.executable, "-m", "tests.e2e.actors.mcp_proxy", "--shout"),
        name="shouting",
        dialect="acp",
    )
    owners = (proxy(rig, "sacp", "one"), "tools-demo"), (proxy(rig, "sdk-2", "two"),)
    chain = rig.agent(
        *owners[0], shouting, *owners[1], rig.demo(), options=("-c", f"mcp-bridge={kind}")
    )
    session = chain.begin()
    for name, said in (("one", "QUIET"), ("tools-demo", "QUIET"), ("two", "quiet")):
        assert chain.prompt(session, f'/call {name} echo {{"text":"quiet"}}') == said
    assert chain.finish() == 0
