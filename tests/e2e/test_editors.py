"""An editor starts what `conductor setup` has written into its settings."""

from pathlib import Path

import pytest

from tests.editors.home import BARE, home
from tests.harness.process.rig import Chain


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_entry_in_the_settings_is_started_and_answers(tmp_path: Path, wrapped: bool) -> None:
    user = home(tmp_path)
    name = "Mine" if wrapped else "Conductor"
    if wrapped:
        settings = '{"agent_servers": {"Mine": {"type": "custom", "command": "demo"}}} // mine\n'
        path = user.settings("zed", settings)
        ran = user.run("setup", "zed", "datetime", "--wrap", "Mine")
    else:
        path = user.settings("zed")
        ran = user.run("setup", "zed", "datetime", "demo")
    assert ran.code == 0, ran.err

    # As a program of a desktop: nothing of the terminal's environment, another folder.
    entry = user.launch("zed", name)
    desktop = {"HOME": str(user.path), "PATH": BARE, "XDG_CACHE_HOME": user.env["XDG_CACHE_HOME"]}
    with Chain(entry.words, {**desktop, **entry.env}, tmp_path) as chain:
        chain.initialize()
        answer = chain.prompt(chain.new_session(), "what day is it?")
        assert chain.finish() == 0

    assert "<current-date date=" in answer
    assert "what day is it?" in answer
    assert path.exists()
