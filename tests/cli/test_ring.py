"""The ring through the real command line: when it is written, whether it is true, whom it hurts."""

import json
import re
import signal
import stat
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.record.turns import reader
from tests.harness.process.command import Ran, Running, conductor
from tests.harness.process.managed import Machine
from tests.harness.process.rig import Chain, Rig
from tests.places import ACTORS, DEADLINE
from tests.record.trace import pairs

Event = dict[str, Any]
Agent = Callable[[str], str]

VALUE: Final = "s3cret-of-the-configuration"
AGENT: Final = """
import json, sys
for line in sys.stdin:
    got = json.loads(line)
    results = {
        "initialize": {"protocolVersion": 1, "agentCapabilities": {}},
        "session/new": {"sessionId": "s1"},
    }
    method = got.get("method")
    if method == "session/prompt":
        %s
    if method in results:
        answer = {"jsonrpc": "2.0", "id": got["id"], "result": results[method]}
        print(json.dumps(answer), flush=True)
"""
"""An agent that does something else with a prompt than to answer it."""

SAYS: Final = """
        text = {"type": "text", "text": "half"}
        sent = {"sessionId": "s1", "update": {"sessionUpdate": "agent_message_chunk"}}
        sent["update"]["content"] = text
        sent = {"jsonrpc": "2.0", "method": "session/update", "params": sent}
        print(json.dumps(sent), flush=True)
        sys.exit(7)
"""
FORWARDS: Final = str(ACTORS / "forward.py")


@pytest.fixture(name="agent")
def _agent(tmp_path: Path) -> Callable[[str], str]:
    """Makes that agent a component."""

    def made(what: str) -> str:
        path = tmp_path / "a.py"
        path.write_text(AGENT % what)
        return json.dumps({"command": sys.executable, "args": [str(path)], "name": "A"})

    return made


def program(name: str) -> str:
    """The proxy that forwards everything."""
    return json.dumps({"command": sys.executable, "args": [FORWARDS], "name": name})


@pytest.fixture(name="state")
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of a user who has none yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "conductor"


def rings(state: Path) -> list[Path]:
    """The rings that were written."""
    folder = state / "rings"
    return sorted(folder.iterdir()) if folder.exists() else []


def named(text: str) -> Path:
    """The ring that an error names."""
    found = re.search(r"messages: (\S+)", text)
    assert found, text
    return Path(found[1])


def asked(chain: Chain) -> Path:
    """Sends SIGUSR2; the ring that was written."""
    chain.process.send_signal(signal.SIGUSR2)
    found: list[str] = []

    def written() -> bool:
        found[:] = re.findall(r"ring: the last messages are in (\S+)\n", chain.stderr)
        return bool(found)

    chain.until(written, "the ring")
    return Path(found[-1])


def head(path: Path) -> Event:
    """The first line of a ring."""
    line: Event = json.loads(path.read_bytes().split(b"\n", 1)[0])
    return line


def dying(*chain: str, prompt: str = "hi") -> Ran:
    """Runs a chain whose agent ends in the middle of a turn."""
    ran = conductor("exec", *chain, "-p", prompt)
    assert ran.code == 1
    return ran


def shown(path: Path) -> str:
    """The output of `log show` for a ring."""
    ran = conductor("log", "show", str(path))
    assert ran.code == 0, ran.err
    return ran.out


# -- when a chain fails ----------------------------------------------------------------------------


def test_an_agent_that_dies_in_a_turn_leaves_a_trace_of_it(state: Path, agent: Agent) -> None:
    ran = dying("datetime", "passthrough,only=full", agent(SAYS), prompt="what day is it?")
    path = named(ran.err)
    assert rings(state) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not pairs.wrong(pairs.read(path), whole=False)
    assert "agent `A`" in head(path)["ring"]["why"]
    text = shown(path)
    assert "what day is it?" in text
    assert "datetime+passthrough" in text
    assert "current-date" in text, "what the proxies have put in"
    assert "half" in text
    assert "exited with code 7" in text
    assert conductor("log", "stats", str(path)).code == 0


def test_the_client_is_told_where_it_is(rig: Rig, state: Path, agent: Agent) -> None:
    chain = rig.agent(agent(SAYS))
    answer = chain.answer(chain.start_prompt(chain.begin(), "hi"))
    path = Path(answer["error"]["data"]["messages"])
    assert chain.process.wait(DEADLINE) == 1
    assert rings(state) == [path]
    assert pairs.read(path)[-1]["payload"]["message"] == answer["error"]["message"]


def test_without_a_word_of_a_component_there_is_nothing_to_see(state: Path) -> None:
    ran = conductor("exec", "passthrough", "no-such-agent-at-all", "-p", "hi")
    assert ran.code != 0
    assert "messages:" not in ran.err
    assert not rings(state)


def test_a_component_that_is_started_again_is_a_reason_once_a_minute(
    rig: Rig, state: Path, agent: Agent
) -> None:
    proxy = {"command": sys.executable, "args": [FORWARDS, "/die"], "name": "P"}
    chain = rig.agent(json.dumps({**proxy, "on_failure": "restart"}), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "one") == "one"
    for _ in range(2):
        assert "error" in chain.answer(chain.start_prompt(session, "/die"))
        assert chain.prompt(session, "two") == "two"
    chain.until(lambda: "the last messages are in" in chain.stderr, "the ring")
    assert chain.finish() == 0
    (path,) = rings(state)
    assert "it is started again (1 of" in head(path)["ring"]["why"]
    assert "/die" in path.read_text()


# -- when it is asked for --------------------------------------------------------------------------


def hops(path: Path) -> Counter[tuple[object, ...]]:
    """The events of a trace without their numbers and times."""
    found: Counter[tuple[object, ...]] = Counter()
    for event in pairs.read(path):
        own = event["_conductor"]
        body = json.dumps(event.get("params", event.get("payload")), sort_keys=True)
        method = event.get("method", own.get("method"))
        how = (bool(own.get("passes")), own.get("past", False), own.get("by", ""), own["bytes"])
        found[event["type"], event["from"], event["to"], method, body, *how] += 1
    return found


@pytest.mark.parametrize(
    "components",
    [
        ("datetime", "passthrough,only=full", program("P")),
        (program("P"), program("Q"), "passthrough,only=observer"),
        ("passthrough,only=context", "passthrough,only=observer", "passthrough,only=full"),
    ],
)
def test_it_is_what_a_trace_of_the_same_chain_is(
    rig: Rig, state: Path, components: tuple[str, ...]
) -> None:
    trace = rig.folder / "trace"
    # In one process, so that the ring sees each guest by itself as the trace does.
    options = ("-c", "isolation=inline", "--trace", str(trace), "-c", "clock=2026-03-01T12:00:00")
    chain = rig.agent(*components, rig.demo(), options=options)
    chain.serves["session/request_permission"] = lambda params: {
        "outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}
    }
    session = chain.begin()
    chain.prompt(session, "the the the quick fox")
    chain.prompt(session, "/permission Edit x")
    chain.request("_unknown", {})
    path = asked(chain)
    assert chain.finish() == 0
    assert not pairs.wrong(pairs.read(path), whole=False)
    assert hops(path) == hops(trace)
    assert len(pairs.read(path)) > 20


def test_sigusr2_reaches_exec(rig: Rig, state: Path) -> None:
    with Running("exec", "demo", "-p", "/permission Edit x", "--permissions", "ask",
                 terminal=True) as ran:  # fmt: skip
        ran.wait_for(ran.err, "Edit x")
        ran.interrupt(signal.SIGUSR2)
        ran.wait_for(ran.err, "the last messages are in")
        ran.wait_for(ran.err, ".jsonl")
    (path,) = rings(state)
    assert "session/request_permission" in path.read_text()


def test_ring_none_keeps_and_writes_nothing(rig: Rig, state: Path, agent: Agent) -> None:
    off = ("-c", "ring=none")
    ran = dying(*off, agent(SAYS))
    assert "messages:" not in ran.err
    chain = rig.agent(rig.demo(), options=off)
    chain.begin()
    chain.process.send_signal(signal.SIGUSR2)
    chain.until(lambda: "ring: there is none" in chain.stderr, "the answer")
    assert chain.finish() == 0
    assert not rings(state)


# -- what is not in it -----------------------------------------------------------------------------


def test_secrets_of_the_configuration_are_not_in_it(rig: Rig, state: Path, agent: Agent) -> None:
    datetime = 'datetime,config.template={"secret":"env:TOKEN"}'
    told = json.dumps({**json.loads(program("P")), "config": {"token": {"secret": "env:TOKEN"}}})
    options = ("-c", "isolation=inline", "-c", "trace-content=all")
    chain = rig.agent(datetime, told, rig.demo(), options=options, TOKEN=VALUE)
    assert VALUE in chain.prompt(chain.begin(), "hi"), "the guest puts it into the prompt"
    text = asked(chain).read_text()
    assert chain.finish() == 0
    assert VALUE not in text
    assert '"method":"session/prompt"' in text


def test_what_looks_like_a_secret_is_taken_out_and_none_holds_sizes_alone(
    rig: Rig, state: Path
) -> None:
    server = {"name": "x", "command": "/x", "args": ["--token", VALUE], "env": []}
    for content, holds in (("redacted", False), ("all", True), ("none", False)):
        chain = rig.agent(rig.demo(), options=("-c", f"trace-content={content}"))
        chain.initialize()
        session = chain.new_session(mcpServers=[server])
        chain.prompt(session, "a plan")
        path = asked(chain)
        assert chain.finish() == 0
        assert head(path)["content"] == content
        assert (VALUE in path.read_text()) is holds
        assert ("a plan" in path.read_text()) is (content != "none")


def test_the_policy_of_the_machine_holds_for_it(tmp_path: Path, agent: Agent) -> None:
    machine = Machine(tmp_path)
    folder = machine.home / "XDG_STATE_HOME" / "conductor"
    chain = ("exec", agent(SAYS), "-p", "a plan")
    machine.allow("trace = false")
    assert "messages:" not in machine.conductor(*chain).err
    assert not rings(folder)
    machine.allow('content = "none"')
    path = named(machine.conductor(*chain).err)
    assert head(path)["content"] == "none"
    assert head(path)["ring"]["why"] == ""  # it may be the words of a component
    assert "a plan" not in path.read_text()


# -- whom it does not hurt -------------------------------------------------------------------------

HARM: Final = {
    "garbage": r'sys.stdout.write("{\n[[[\nnull\n\x00\xff\n" + "[" * 5000 + "\n"); sys.exit(7)',
    "no line end": 'sys.stdout.write("x" * 3_000_000); sys.stdout.flush(); sys.exit(7)',
    "lines that are too long": 'print("{" + " " * 3_000_000 + "}"); sys.exit(7)',
    "escapes": r"""print('{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1",'
        '"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":'
        '"\\ud800 \\u001b[2J <script>"}}}}'); sys.exit(7)""",
    "answers to nothing": 'print("\\n".join(json.dumps({"jsonrpc": "1.0", "id": n, "result": {}})'
    " for n in range(5000, 7000))); sys.exit(7)",
    "methods of its own": 'print("\\n".join(json.dumps({"jsonrpc": "2.0", "method": "_" + str(n)})'
    " for n in range(2000))); sys.exit(7)",
}


@pytest.mark.parametrize("harm", HARM)
def test_whatever_an_agent_writes_it_is_written_and_read(
    state: Path, harm: str, agent: Agent
) -> None:
    ran = conductor(
        "exec", "-c", "line-limit=2M", "-c", "ring=2M", agent(HARM[harm]), "-p", "hello there"
    )
    assert ran.code == 1
    assert "Traceback" not in ran.err
    (turn,) = reader.opened(str(named(ran.err))).turns[1:]
    assert turn.prompt == "hello there"
    assert "exited with code 7" in turn.stop


def test_of_a_long_message_the_size_is_there(rig: Rig, state: Path, agent: Agent) -> None:
    chain = rig.agent(program("P"), rig.demo(log=False))
    session = chain.begin()
    assert len(chain.prompt(session, "x" * 200_000)) == 200_000
    path = asked(chain)
    assert chain.finish() == 0
    prompts = [e for e in pairs.read(path) if e.get("method") == "session/prompt"]
    assert [(e["from"], e["to"]) for e in prompts] == [("client", "P"), ("P", "agent")]
    for event in prompts:
        assert event["session"] == session
        assert event["params"]["_meta"]["conductor"]["cut"] > 200_000
        assert event["_conductor"]["bytes"] > 200_000
    assert path.stat().st_size < 50_000
    assert not pairs.wrong(pairs.read(path), whole=False)


def test_a_folder_that_takes_no_file_costs_the_ring_alone(state: Path, agent: Agent) -> None:
    state.mkdir(parents=True)
    (state / "rings").write_text("a file")
    ran = dying(agent(SAYS))
    assert "messages:" not in ran.err
    assert "the ring is not written: File exists" in ran.err
    assert "exited with code 7" in ran.err


def test_a_chain_that_ends_without_failing_writes_none(state: Path, agent: Agent) -> None:
    silent = agent("continue")
    ran = conductor("exec", silent, "--timeout", "0.3", "-p", "hi")
    assert ran.code == 3
    assert not rings(state)
