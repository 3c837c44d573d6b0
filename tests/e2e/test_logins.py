"""A login by terminal: the client appends an agent's arguments to its own command line."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness.process.command import COMMAND, Running, conductor
from tests.harness.process.remote import behind
from tests.harness.process.rig import Rig
from tests.harness.process.serving import served
from tests.places import ROOT

AGENT: Final = (sys.executable, "-m", "tests.e2e.actors.terminal_agent")
METHOD: Final = ["--cli", "auth", "login"]
CAN: Final = {"auth": {"terminal": True}}
CHAINS: Final = """
[components.mine]
command = "{0}"
args = ["-m", "tests.e2e.actors.terminal_agent", "--own"]
env = {{OF_COMPONENT = "yes"}}

[chains.work]
components = ["datetime", "mine"]
"""


def _offered(rig: Rig, *words: str, **env: str) -> list[str]:
    """The arguments of the login that a client is offered by `conductor WORDS`."""
    chain = rig.run(*words, **env)
    answer = chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": CAN})
    (method,) = answer["result"]["authMethods"]
    refused = chain.request("session/new", {"cwd": str(rig.folder), "mcpServers": []})
    assert refused["error"]["data"]["authMethods"] == [method]
    assert chain.finish() == 0
    return list(method["args"])


def _login(words: tuple[str, ...], code: int, **env: str) -> dict[str, Any]:
    """The output of the agent's command that a client starts on a terminal."""
    variables = {"CODE": str(code), "OF_METHOD": "set", **env}
    with Running(*words, screen=(200, 24), env=variables) as running:
        ended = running.end()
    assert ended.code == code, ended
    shown: dict[str, Any] = json.loads(ended.out)
    assert shown["terminal"] == [True, True, True]
    assert shown["variables"][0] == "set"
    return shown


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    """A user with a chain in a file, and an agent that is installed; the variables for both."""
    (tmp_path / "conductor").mkdir()
    file = tmp_path / "conductor" / "conductor.toml"
    file.write_text(CHAINS.format(sys.executable))
    program = tmp_path / "claude-agent-acp"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(AGENT)} "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {"XDG_CONFIG_HOME": str(tmp_path), "PATH": path, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    ("words", "ours", "own"),
    [
        pytest.param((shlex.join(AGENT),), "tests.e2e.actors", [], id="a command"),
        pytest.param(
            ("datetime", "--", *AGENT, "--own"), "tests.e2e.actors", ["--own"], id="behind --"
        ),
        pytest.param(("--log", "info", "work"), "mine", ["--own"], id="a chain by name"),
        pytest.param(("datetime", "claude"), "claude", [], id="an agent by name"),
    ],
)
def test_what_the_client_appends_goes_to_the_agents_command(
    rig: Rig, user: dict[str, str], words: tuple[str, ...], ours: str, own: list[str]
) -> None:
    args = _offered(rig, "agent", *words, **user)
    assert args == [f"--agent-login={ours}", *METHOD]
    shown = _login(("agent", *words, *args, "--", "--agent-login=x", ""), 7, **user)
    assert shown["args"] == [*own, *METHOD, "--", "--agent-login=x", ""]
    assert shown["variables"][1] == ("yes" if ours == "mine" else None)


def test_a_chain_within_a_chain_passes_the_login_on(rig: Rig, user: dict[str, str]) -> None:
    words = ("agent", shlex.join([*COMMAND, "agent", "work"]) + ",name=inner")
    args = _offered(rig, *words, **user)
    assert args == ["--agent-login=inner", "--agent-login=mine", *METHOD]
    assert _login((*words, *args), 0, **user)["args"] == ["--own", *METHOD]


def test_no_chain_starts(rig: Rig) -> None:
    """Neither does a signal's end become an exit code."""
    proxy = rig.program("touch", str(rig.folder / "started"), name="p")
    peer = f"peer.other={shlex.join(AGENT)}"
    asked = f"{rig.program('touch', str(rig.folder / 'asked'), name='q', allow='peer:other')}"
    ended = conductor(
        "agent", "-c", peer, proxy, asked, "--", "sh", "-c", "kill -9 $$",
        "--agent-login=sh", "x",
    )  # fmt: skip
    assert (ended.code, ended.out, ended.err) == (-9, "", "")
    ended = conductor("agent", "-c", peer, asked, "false", "--agent-login=other", *METHOD)
    assert (ended.code, json.loads(ended.out)["args"]) == (0, METHOD)
    assert list(rig.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("agent", "demo", "--agent-login=dem", "--cli"), "no agent `dem`"),
        (("agent", "passthrough", "demo", "--agent-login=passthrough"), "no agent `passthrough`"),
        (("agent", "--agent-login=demo", "--cli"), "needs a COMPONENT"),
        (("agent", "ws://127.0.0.1:9,name=far", "--agent-login=far", "-x"), "it has no login"),
        (("connect", "ws://127.0.0.1:9", "--agent-login=demo"), "log in where the agent runs"),
        (("exec", "demo", "--agent-login=demo"), "option of `conductor agent`"),
    ],
)
def test_a_login_that_cannot_be_says_why(words: tuple[str, ...], says: str) -> None:
    conductor(*words).assert_error(2, says)


@pytest.mark.parametrize("how", ["connect", "agent"])
def test_a_client_elsewhere_is_offered_none(rig: Rig, how: str) -> None:
    """A server offers none, nor does who reaches an agent that is elsewhere."""
    served_by = served(rig, "serve", shlex.join(AGENT), "--listen", "ws://127.0.0.1:0")
    with behind("unix", shlex.join(AGENT), rig.folder) as address:
        for place in (served_by.address, address):
            chain = rig.run(how, place)
            answer = chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": CAN})
            assert answer["result"]["authMethods"] == []
            assert chain.finish() == 0


def test_a_client_without_terminals_is_offered_none(rig: Rig) -> None:
    chain = rig.run("agent", shlex.join(AGENT))
    assert chain.initialize()["authMethods"] == []
    chain.finish()
