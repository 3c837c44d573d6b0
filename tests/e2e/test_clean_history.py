"""The additions of components are not shown as the user's words, also after a restart."""

import stat
import sys
from pathlib import Path
from typing import Final

from tests.e2e.test_datetime import DATE, K
from tests.harness.process.rig import Chain, Rig

WORDS: Final = "hello there, what day is it?"
THERE: Final = {"cwd": "/", "mcpServers": []}


def chain(rig: Rig, *components: str, join: str = "", **env: str) -> Chain:
    """A chain in a process of its own; its agent joins the blocks of prompts by a text."""
    program = ("-m", "tests.e2e.actors.keeping_agent", str(rig.folder / "sessions"))
    agent = rig.program(sys.executable, *program, *([join] if join else []), name="A")
    started = rig.agent(*components, agent, options=("-c", f"clock={K}"), **env)
    started.initialize()
    return started


def load(started: Chain, session: str) -> list[str]:
    """The texts that come when a session is loaded; the user's have `>` in front."""
    before = len(started.seen("session/update"))
    started.request("session/load", {"sessionId": session, **THERE})
    updates = [one["params"]["update"] for one in started.seen("session/update")[before:]]
    marks = {"user_message_chunk": "> "}
    return [marks.get(one["sessionUpdate"], "") + one["content"]["text"] for one in updates]


def titles(started: Chain) -> list[str]:
    """The titles of all sessions."""
    listed = started.request("session/list", {})["result"]["sessions"]
    told = [one["params"]["update"] for one in started.seen("session/update")]
    return [*(one["title"] for one in [*listed, *told] if "title" in one)]


def test_a_session_goes_on_in_other_processes(rig: Rig, tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = chain(rig, "datetime", XDG_STATE_HOME=str(state))
    session = first.new_session()
    first.prompt(session, WORDS)
    first.prompt(session, f"{DATE} is what I got")
    assert titles(first) == [WORDS] * 3
    assert first.finish() == 0
    for components, join in ((["datetime"], ""), ([], "\n\n"), (["datetime"], " ")):
        again = chain(rig, *components, join=join, XDG_STATE_HOME=str(state))
        said = [f"> {WORDS}", "ok", f"> {DATE} is what I got", "ok"]
        assert load(again, session)[:4] == said
        assert titles(again)[:1] == [WORDS]
        again.prompt(session, "more")
        assert again.finish() == 0
        assert first.stderr == again.stderr == ""
    kept = state / "conductor" / "prompts.jsons"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert len(kept.read_bytes().splitlines()) == 4, "what the agent alone gets is not kept"


def test_without_the_file_all_is_shown_and_said(rig: Rig, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("no folder")
    first = chain(rig, "datetime", XDG_STATE_HOME=str(state))
    session = first.new_session()
    first.prompt(session, WORDS)
    first.prompt(session, WORDS)
    assert load(first, session)[:2] == [f"> {DATE}", f"> {WORDS}"]
    assert first.finish() == 0
    assert first.stderr.count("prompts.jsons") == 1
    assert "show the text that components added to prompts" in first.stderr
