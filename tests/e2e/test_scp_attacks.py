"""Commands of a host of SCP that may not run: each is refused by name, nothing is started, and the
host may name another chain."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.test_locked import lock
from tests.e2e.test_scp import SCP, begun, hello, launch, says, scp, server
from tests.harness.process.client import Json
from tests.harness.process.command import COMMAND
from tests.harness.process.managed import CONTACT, Machine
from tests.harness.process.rig import DEMO, Chain, Rig

TOUCH: Final = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"


def evil(folder: Path) -> Json:
    """A program that leaves a file."""
    args = ["-c", TOUCH, str(folder / "evil-ran")]
    return {"name": "evil", "command": sys.executable, "args": args, "env": []}


def shell(script: str) -> Json:
    """A shell with a script."""
    return {"name": "shell", "command": "/bin/sh", "args": ["-c", script], "env": []}


def refused(chain: Chain, *servers: Json) -> str:
    """The text by which a chain is refused."""
    error = launch(chain, *servers)["error"]
    assert error["code"] in (-32602, -32603)
    return str(error["message"])


def works(chain: Chain, agent: Json) -> None:
    """The host names a chain that may run: it does."""
    answer = launch(chain, agent)
    assert "result" in answer, f"{answer}{chain.story()}"
    assert says(chain, chain.new_session(), "hi") == "hi"
    assert chain.finish() == 0


NAMES: Final = {
    "a relative path": "./evil",
    "a path below the folder": "bin/evil",
    "a path above the folder": "../evil",
    "a path of home": "~/evil",
    "code of this process": "py:os:system",
    "a program with a prefix": "path:sh",
    "a chain of the configuration": "@work",
    "an object": '{"command":"sh"}',
    "a command with blanks": "sh -c true",
    "an option": "-c",
    "nowhere": "/no/such/program",
    "no program": "no-such-program",
    "a shell without arguments": "/bin/sh",
    "a component before the agent, as the agent": "passthrough",
}


@pytest.mark.proves("a client of SCP that names programs")
def test_what_is_no_component_is_refused_by_name(rig: Rig) -> None:
    """A conductor of its own for each would cost a start: one tries eight at most."""
    (rig.folder / "evil").write_text("#!/bin/sh\ntouch evil-ran\n")
    (rig.folder / "evil").chmod(0o755)
    each = list(NAMES.values())
    for half in (each[:7], each[7:]):
        chain = scp(rig)
        assert "result" in chain.request("initialize", hello())
        for command in half:
            text = refused(chain, {"name": "n", "command": command, "args": [], "env": []})
            assert command in text or "`n`" in text
            assert "hint: " in text
        works(chain, server(rig.demo()))
    assert not (rig.folder / "evil-ran").exists()


@pytest.mark.parametrize("arguments", [[], ["-x"]])
def test_a_relative_path_stays_one_with_arguments(rig: Rig, arguments: list[str]) -> None:
    chain = scp(rig)
    assert "result" in chain.request("initialize", hello())
    text = refused(chain, {"name": "n", "command": "./evil", "args": arguments, "env": []})
    assert "`./evil`, which is neither an absolute path nor a name" in text
    works(chain, server(rig.demo()))


@pytest.mark.proves("a client of SCP that names programs")
def test_the_lock_decides_about_what_a_host_names(rig: Rig) -> None:
    agent = rig.demo()
    held = lock(rig, "passthrough", agent)
    chain = scp(rig, "passthrough", options=held)
    assert "result" in chain.request("initialize", hello())
    for servers in ([evil(rig.folder)], [evil(rig.folder), server(agent)], [shell("exit")]):
        text = refused(chain, *servers)
        assert "conductor.lock does not allow this chain" in text
        assert servers[0]["name"] in text
        assert "hint: " in text
    other = {**server(agent), "env": [{"name": "PYTHONSTARTUP", "value": "/evil"}]}
    assert "env" in refused(chain, other)
    text = refused(chain, {**server(agent), "args": [*server(agent)["args"], "--no-http"]})
    assert "args" in text
    works(chain, server(agent))
    assert not (rig.folder / "evil-ran").exists()


def test_the_conductor_around_it_says_why_it_refuses(rig: Rig) -> None:
    """There it is the shim of that conductor which no lock lists."""
    inner = rig.program(
        *COMMAND, "proxy", *SCP, "--locked", "passthrough", name="in", dialect="scp"
    )
    chain = rig.agent(inner, rig.demo())
    message = chain.request("initialize", {"protocolVersion": 1})["error"]["message"]
    assert "`in`" in message
    assert "has not launched its successor (`_scp/proxy`): " in message
    assert "conductor.lock" in message
    assert message.count("hint: ") == 1
    assert chain.exit_code() == 1
    assert rig.leftovers(chain) == []


def test_a_sandbox_is_required_of_what_a_host_names(rig: Rig) -> None:
    chain = scp(rig, options=("--require-sandbox",))
    assert "result" in chain.request("initialize", hello())
    text = refused(chain, evil(rig.folder), server(rig.demo()))
    assert "`evil`" in text
    assert "is not sandboxed" in text
    assert not (rig.folder / "evil-ran").exists()
    works(chain, server(rig.demo()))


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture(name="managed")
def _managed(machine: Machine) -> Iterator[Chain]:
    """A proxy of SCP on a machine whose policy allows one agent."""
    agent = machine.opt / "agent"
    python = f"#!{sys.executable}\nimport os, sys\n"
    agent.write_text(f"{python}os.execv(sys.executable, [sys.executable, {str(DEMO)!r}])\n")
    agent.chmod(0o755)
    machine.allow(f'components = []\n[[agents]]\nsource = "{agent}"\n')
    with Chain(machine.command("proxy", *SCP), machine.env(), cwd=machine.home) as chain:
        yield chain


@pytest.mark.proves("a client of SCP that names programs")
def test_the_managed_policy_decides_about_what_a_host_names(
    managed: Chain, machine: Machine
) -> None:
    assert "result" in managed.request("initialize", hello())
    agent = {"name": "A", "command": str(machine.opt / "agent"), "args": [], "env": []}
    for rule, servers in {
        "agents": [evil(machine.home)],
        "components": [{**agent, "command": "datetime", "name": "evil"}, agent],
    }.items():
        text = refused(managed, *servers)
        assert "`evil`" in text
        assert f"`{rule}` of the managed policy" in text
        assert f"ask {CONTACT}" in text
    assert not (machine.home / "evil-ran").exists()
    works(managed, agent)


def test_the_managed_policy_looks_at_variables_and_arguments(
    managed: Chain, machine: Machine
) -> None:
    assert "result" in managed.request("initialize", hello())
    agent = {"name": "A", "command": str(machine.opt / "agent"), "args": [], "env": []}
    preload = {"name": "LD_PRELOAD", "value": str(machine.home / "evil.so")}
    for other in ({**agent, "env": [preload]}, {**agent, "args": ["--more"]}):
        assert "`agents` of the managed policy" in refused(managed, other)
    works(managed, agent)


def test_a_folder_that_is_not_trusted_names_no_program(rig: Rig) -> None:
    folder = rig.folder / "stranger"
    folder.mkdir()
    command = ["sh", "-c", f"touch {rig.folder / 'evil-ran'}"]
    (folder / "component.toml").write_text(f'name = "evil"\ncommand = {json.dumps(command)}\n')
    chain = scp(rig)
    assert "result" in chain.request("initialize", hello())
    for servers in ([{"command": str(folder)}], [{"command": str(folder)}, server(rig.demo())]):
        text = refused(chain, *servers)
        assert "its folder is not trusted" in text
        assert "`conductor trust " in text
    assert not (rig.folder / "evil-ran").exists()
    works(chain, server(rig.demo()))


def test_a_proxy_of_scp_that_names_itself_is_no_agent(rig: Rig) -> None:
    """The command is a proxy without a successor: the last proxy refuses, and says why."""
    myself = {"name": "me", "command": COMMAND[0], "args": [*COMMAND[1:], "proxy", *SCP], "env": []}
    chain = scp(rig)
    session = chain.request("initialize", hello())
    assert "result" in session
    assert "result" in launch(chain, *[myself] * 3)
    error = chain.request("session/new", {"cwd": "/", "mcpServers": []})["error"]
    assert "`session/new` before `_scp/proxy`: this proxy has no successor yet" in error["message"]
    assert "comes once" in launch(chain, server(rig.demo()))["error"]["message"]
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_proxies_of_scp_within_each_other_end_with_their_chain(rig: Rig) -> None:
    myself = {"name": "me", "command": COMMAND[0], "args": [*COMMAND[1:], "proxy", *SCP], "env": []}
    chain = scp(rig)
    session = begun(chain, myself, myself, server(rig.demo()))
    assert says(chain, session, "hi") == "hi"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_too_many_and_too_often(rig: Rig) -> None:
    chain = scp(rig)
    assert "result" in chain.request("initialize", hello())
    assert "5000 successors" in refused(chain, *[server(rig.demo())] * 5000)
    for _ in range(8):
        assert "`no-such-program`" in refused(chain, {"command": "no-such-program"})
    text = refused(chain, server(rig.demo()))
    assert "8 chains have been refused" in text
    assert rig.log("A") == []
    assert chain.finish() == 0


def test_what_a_client_names_is_on_record(rig: Rig) -> None:
    """The audit has each chain that was refused, and the one that ran; the trace has messages."""
    audit, trace = rig.folder / "audit", rig.folder / "trace"
    chain = scp(rig, "passthrough", options=("--audit", str(audit), "--trace", str(trace)))
    assert "result" in chain.request("initialize", hello())
    refused(chain, {**shell("exit"), "name": "locked-out"}, {"command": "no-such-program"})
    refused(chain, {**server(rig.demo()), "command": "passthrough", "name": "no-agent", "args": []})
    works(chain, server(rig.demo()))
    records = audit.read_text()
    assert "no-agent" in records
    assert records.count('"A"') >= 1
    assert "session/prompt" in trace.read_text()


def test_a_chain_that_a_client_has_named_is_reloaded(rig: Rig) -> None:
    """At SIGHUP its components stay, the agent that the client has named among them."""
    chain = scp(rig, rig.x("X", "--mark", "x"))
    session = begun(chain, server(rig.demo()))
    assert says(chain, session, "one") == "x\none"
    os.kill(chain.process.pid, signal.SIGHUP)
    chain.settled()
    assert says(chain, session, "two") == "x\ntwo"
    assert rig.methods("A").count("initialize") == 1
    os.kill(chain.process.pid, signal.SIGTERM)
    assert chain.exit_code() == 128 + signal.SIGTERM
    assert rig.leftovers(chain) == []


def test_the_host_goes_before_there_is_a_chain(rig: Rig) -> None:
    for steps in (0, 1):
        chain = scp(rig, "datetime")
        if steps:
            assert "result" in chain.request("initialize", hello())
        assert chain.finish() == 0
        assert rig.leftovers(chain) == []


def test_all_in_one_write(rig: Rig) -> None:
    """The messages after `_scp/proxy` wait for the chain, also where the host sends them at
    once."""
    chain = scp(rig, "passthrough")
    frames: list[Json] = [
        {"id": 1, "method": "initialize", "params": hello()},
        {"id": 2, "method": "_scp/proxy", "params": {"servers": [server(rig.demo())]}},
        {"id": 3, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
        {"id": 4, "method": "_scp/proxy", "params": {"servers": [server(rig.demo())]}},
    ]
    chain.send_bytes(b"".join(json.dumps({"jsonrpc": "2.0", **f}).encode() + b"\n" for f in frames))
    assert chain.finish() == 0
    assert "result" in chain.answer(2)
    assert "sessionId" in chain.answer(3)["result"]
    assert "comes once" in chain.answer(4)["error"]["message"]
    assert rig.leftovers(chain) == []
