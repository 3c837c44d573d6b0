"""Programs on the Python SDK, which take part in SCP themselves."""

import json
import os
import sys
from typing import Final

import pytest

from tests.e2e.test_scp import BOTH, SCP, begun, hello, launch, says, scp, server
from tests.harness.process.client import Json
from tests.harness.process.command import COMMAND
from tests.harness.process.rig import Chain, Rig
from tests.places import ROOT

PROGRAM: Final = ("-m", "tests.e2e.actors.marking_program", "--mark")


def marking(mark: str) -> Json:
    """The program as a client names it."""
    return {"name": mark, "command": sys.executable, "args": [*PROGRAM, mark], "env": []}


def alone(rig: Rig, mark: str) -> Chain:
    """The program, started by a client and no conductor."""
    return rig.start([sys.executable, *PROGRAM, mark])


@BOTH
def test_nothing_before_the_chain_and_the_chain_once(rig: Rig, version: int) -> None:
    chain = alone(rig, "1")
    answer = chain.request("initialize", hello(version))["result"]
    member = "agentCapabilities" if version == 1 else "capabilities"
    assert answer[member]["_meta"]["symposium"] == {"version": "1.0", "proxy": True}
    for method in ("session/new", "session/prompt", "_vendor/ask", "initialize"):
        error = chain.request(method, hello(version))["error"]
        assert (error["code"], "before `_scp/proxy`" in error["message"]) == (-32600, True)
    chain.notify("session/cancel", {"sessionId": "s"})
    agent = server(rig.demo())
    answer = launch(chain, agent)["result"]
    assert (answer["protocolVersion"], member in answer) == (version, True)
    session = chain.new_session()
    assert says(chain, session, "hello") == "1\nhello"
    assert "comes once" in launch(chain, agent)["error"]["message"]
    assert says(chain, session, "still here") == "1\nstill here"
    assert chain.finish() == 0
    assert rig.methods("A").count("initialize") == 1
    assert "_scp/proxy" not in rig.methods("A")
    assert rig.leftovers(chain) == []


@BOTH
def test_a_client_without_scp_is_refused(rig: Rig, version: int) -> None:
    chain = alone(rig, "1")
    info = {"name": "c", "version": "1"}
    error = chain.request("initialize", {"protocolVersion": version, "info": info})["error"]
    assert error["code"] == -32600
    assert chain.request("initialize", hello())["result"]["protocolVersion"] == 1
    assert chain.finish() == 0


@BOTH
def test_through_a_conductor_it_works(rig: Rig, version: int) -> None:
    component = rig.program(sys.executable, *PROGRAM, "1", name="one", dialect="scp")
    chain = rig.agent(component, rig.x("Y", "--mark", "y"), rig.demo())
    chain.serves["_x/up"] = lambda params: {"got": params}
    more = {"info": {"name": "c", "version": "1"}, "capabilities": {}}
    answer = chain.initialize(protocolVersion=version, **(more if version == 2 else {}))
    assert "symposium" not in json.dumps(answer)
    session = chain.new_session()
    assert says(chain, session, "end") == "y\n1\nend"
    chain.answer(chain.start_prompt(session, '/ext _marking/ask {"a":1}'))
    chain.until(lambda: '{"got":{"a":1}}' in json.dumps(chain.texts(session)).replace("\\", ""),
                "what the client has answered")  # fmt: skip
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_the_rest_goes_to_the_successor(rig: Rig) -> None:
    """A program, a conductor and X, each of which starts the next one."""
    conductor = {"name": "c", "command": sys.executable, "env": [],
                 "args": [*COMMAND[1:], "proxy", *SCP, rig.x("P", "--mark", "p")]}  # fmt: skip
    chain = alone(rig, "1")
    session = begun(chain, marking("2"), conductor, server(rig.demo()))
    assert says(chain, session, "end") == "p\n2\n1\nend"
    hang = chain.start_prompt(session, "/hang")
    rig.until_heard("A", b'"/hang"')
    chain.notify("session/cancel", {"sessionId": session})
    assert chain.answer(hang)["result"]["stopReason"] == "cancelled"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("kind", ["stdio", "scp"])
def test_tools_of_a_program_reach_any_agent_behind_a_conductor(rig: Rig, kind: str) -> None:
    """`ToAgent`: a conductor without components gives them to the agent as it takes them."""
    library = str(ROOT / "guest_sdk" / "python" / "examples" / "library.py")
    args = [*COMMAND[1:], "proxy", *SCP]
    conductor = {"name": "c", "command": COMMAND[0], "args": args, "env": []}
    agent = rig.demo("--no-http") if kind == "stdio" else rig.actor("scp_agent", name="A")
    chain = rig.start([sys.executable, library])
    session = begun(chain, conductor, server(agent))
    entries = json.loads(chain.prompt(session, "/servers"))
    assert [(one.get("type", "stdio"), one["name"]) for one in entries] == [
        (kind, "library"),
        (kind, "desk"),
    ]
    if kind == "stdio":
        kept = chain.prompt(session, '/call library keep {"name":"x","said":"a fox"}')
        assert "a fox" in kept
    assert chain.finish() == 0


def test_a_conductor_before_programs(rig: Rig) -> None:
    """The conductor speaks their own dialect with them, and they need not start anything."""
    chain = scp(rig)
    session = begun(chain, marking("1"), marking("2"), server(rig.demo()))
    assert says(chain, session, "end") == "2\n1\nend"
    assert chain.finish() == 0


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ([marking("2")], "the last successor is a proxy of SCP, and no agent"),
        (["A", marking("2")], "the successor is no proxy of SCP, and others follow it"),
        ([{"command": "./evil"}], "`./evil`, which is neither an absolute path nor a name"),
        ([{"command": "no-such-program"}], "there is no program `no-such-program`"),
        ([{"command": "/bin/sh", "args": 5}], "names servers with `command`"),
        ([{"command": "/bin/sh", "env": [5]}], "names servers with `command`"),
        ([{"type": "http", "url": "http://x"}], "names servers with `command`"),
        ([{"command": "a\0"}], "names servers with `command`"),
        ([], "names no successors"),
        ("x", "names no successors"),
    ],
)
def test_what_is_no_chain_is_refused(rig: Rig, servers: list[Json | str], why: str) -> None:
    chain = alone(rig, "1")
    assert "result" in chain.request("initialize", hello())
    named = [server(rig.demo()) if one == "A" else one for one in servers]
    asked = {"servers": named if isinstance(servers, list) else servers}
    assert why in chain.request("_scp/proxy", asked)["error"]["message"]
    assert "error" in chain.request("session/new", {"cwd": "/", "mcpServers": []})
    assert "result" in launch(chain, server(rig.demo()))
    assert says(chain, chain.new_session(), "hi") == "1\nhi"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_a_successor_that_ends_ends_the_program(rig: Rig) -> None:
    chain = alone(rig, "1")
    session = begun(chain, server(rig.demo()))
    chain.start_prompt(session, "/exit 3")
    assert chain.exit_code() == 1
    assert "its successor has ended" in chain.stderr
    assert "Traceback" not in chain.stderr


def test_large_messages_both_ways_at_once(rig: Rig) -> None:
    """Neither end waits for the other while both write more than a pipe holds."""
    chain = alone(rig, "1")
    session = begun(chain, marking("2"), server(rig.demo(log=False)))
    large = "x" * 2_000_000
    prompts = [chain.start_prompt(session, large) for _ in range(3)]
    for each in prompts:
        chain.answer(each)
    assert "".join(chain.texts(session)).count("x") == 3 * len(large)
    assert chain.finish() == 0


def test_the_variables_of_a_server_are_added(rig: Rig) -> None:
    script = (
        "import os; os.write(2, os.environ['_HERE'].encode() + b'/' + os.environ['PATH'].encode())"
    )
    chain = alone(rig, "1")
    assert "result" in chain.request("initialize", hello())
    env = [{"name": "_HERE", "value": "there"}]
    chain.start("_scp/proxy", {"servers": [
        {"command": sys.executable, "args": ["-c", script], "env": env}]})  # fmt: skip
    chain.until_stderr(f"there/{os.environ['PATH'][:4]}")
    assert chain.exit_code() == 1
