"""MCP servers of the client that conductor reaches in the agent's place (`pin-mcp`)."""

import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.mcp.bridge.offers import Server
from conductor.spec import paths, tools
from tests.e2e.actors.mcp_component import tool
from tests.e2e.test_consent import PERMISSION, answer, questions
from tests.e2e.test_pins import ADD, EVIL, listed, offer
from tests.harness.process.client import Json
from tests.harness.process.command import conductor
from tests.harness.process.rig import Chain, Rig

WORDS = ("where", "asks", "die", "token")


@pytest.fixture(name="offers")
def _offers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with what the server offers, and a user who has agreed to nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(rig.folder / "state"))
    path = rig.folder / "offers.json"
    offer(path, *map(tool, WORDS), ADD)
    return path


def stdio(offers: Path, **more: Any) -> Json:
    """The server `tools`, as an editor declares it."""
    args = ["-m", "tests.e2e.actors.mcp_server", str(offers)]
    env = [{"name": "WHERE", "value": "here"}]
    return {"name": "tools", "command": sys.executable, "args": args, "env": env, **more}


def started(
    rig: Rig, server: Json, *options: str, agent: tuple[str, ...] = (), more: tuple[Json, ...] = ()
) -> tuple[Chain, str]:
    """A chain of the agent alone, and a session with the server."""
    chain = rig.agent(rig.demo(*agent), options=("-c", "pin-mcp=true", *options))
    chain.initialize()
    return chain, chain.new_session(cwd=str(rig.folder), mcpServers=[server, *more])


@pytest.mark.parametrize("kind", ["stdio", "http", "acp"])
def test_the_agent_has_a_door_of_its_own(rig: Rig, offers: Path, kind: str) -> None:
    chain, session = started(
        rig, stdio(offers), "-c", f"mcp-bridge={kind}", agent=("--acp",) if kind == "acp" else ()
    )
    assert listed(chain, session) == [*WORDS, "add"]
    said = chain.prompt(session, "/call tools where {}")
    assert said == f"{rig.folder} here"
    assert chain.prompt(session, '/call tools token {"a":"\\u00e9"}') == '{"a": "\\u00e9"}'
    assert "exited with code 3" in chain.prompt(session, "/call tools die {}")
    assert chain.finish() == 0
    assert not rig.leftovers(chain)
    (kept,) = tools.STORE.load().kept.values()
    assert (kept.owner, list(kept.servers)) == ("", ["tools"])
    assert len(kept.servers["tools"]["tool"]) == 5


def test_a_change_is_asked_and_locked(rig: Rig, offers: Path) -> None:
    chain, session = started(rig, stdio(offers))
    assert listed(chain, session) == [*WORDS, "add"]
    made = conductor("lock", "-c", "pin-mcp=true", "demo", cwd=rig.folder)
    assert "MCP server `tools` of the client: 5 tools" in made.out
    offer(offers, EVIL)
    assert listed(chain, session) == []
    chain.serves[PERMISSION] = answer("allow-version")
    assert listed(chain, session) == ["add"]
    assert len(questions(chain)) == 1
    assert chain.finish() == 0


def test_keys_of_a_command_or_url_are_not_kept(rig: Rig, offers: Path) -> None:
    key = "abcdef0123456789"
    server = stdio(offers)
    server["args"] += ["--api-key", key]
    chain, session = started(rig, server)
    assert listed(chain, session) == [*WORDS, "add"]
    assert chain.finish() == 0
    shown = conductor("trust", "--list").out
    assert "--api-key [redacted]" in shown
    for url in (f"https://x/mcp?token={key}", f"https://x/'?token={key}"):
        tools.keep(Server("web", place=url), "tool", {})
    for text in (conductor("trust", "--list").out, Path(paths.tools()).read_text()):
        assert "https://x/mcp?token=[redacted]" in text
        assert key not in text
    assert key not in chain.stderr


def test_without_the_setting_the_agent_reaches_it(rig: Rig, offers: Path) -> None:
    chain = rig.agent(rig.demo())
    chain.initialize()
    session = chain.new_session(mcpServers=[stdio(offers)])
    assert listed(chain, session) == [*WORDS, "add"]
    assert chain.finish() == 0
    assert tools.STORE.load().kept == {}


def test_servers_that_cannot_be_started_are_errors(rig: Rig, offers: Path) -> None:
    odd: list[Json] = [
        {"command": "no-such-program"},
        {"command": "no\0program"},
        {"command": "half\ud83d"},
        {"args": ["\0"]},
        {"env": [{"name": "A=B", "value": "s3cret"}]},
        {"env": [{"name": "A", "value": "s3cret\ud83d"}]},
    ]
    first, *more = (stdio(offers, **each, name=f"n{at}") for at, each in enumerate(odd))
    chain, session = started(rig, first, more=tuple(more))
    chain.prompt(session, "/tools")
    assert chain.finish() == 0
    for at in range(len(odd)):
        assert f"MCP server `n{at}` cannot be reached: cannot start" in chain.stderr
    assert "s3cret" not in chain.stderr


def test_another_name_of_a_command_is_no_other_server(rig: Rig, offers: Path) -> None:
    chain, session = started(rig, stdio(offers))
    assert listed(chain, session) == [*WORDS, "add"]
    assert chain.finish() == 0
    offer(offers, *map(tool, WORDS), EVIL)
    old = {"type": "sse", "name": "old", "url": "http://127.0.0.1:9/sse", "headers": []}
    chain, session = started(rig, stdio(offers, name="other"), more=(old,))
    said = chain.prompt(session, "/tools")
    assert "other/where" in said
    assert "other/add" not in said
    assert chain.finish() == 0
    assert "MCP server `old` of the editor is not pinned" in chain.stderr
