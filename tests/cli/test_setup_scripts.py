"""`conductor setup` for editors whose settings are a program, and for Toad."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.cli.test_setup import fine, home
from tests.editors.home import Home
from tests.editors.neovim import Neovim
from tests.places import DEADLINE

__all__ = ["home"]

FILES: Final = {
    "codecompanion": ".config/nvim/lua/conductor_acp.lua",
    "emacs": ".emacs.d/conductor-acp.el",
}


INITS: Final = {
    "codecompanion": ".config/nvim/lua/plugins/chat.lua",
    "emacs": ".emacs.d/init.el",
}


@pytest.mark.parametrize("editor", ["codecompanion", "emacs"])
def test_a_file_of_ours_goes_in_and_out(home: Home, editor: str) -> None:
    said = fine(home.run("setup", editor, "demo"))
    path = home.path / FILES[editor]
    text = path.read_text()
    assert str(home.conductor) in text
    assert "\n  tested     Demo agent " in said
    todo, empty = said.split("\n")[:2]
    line = todo.rpartition(": ")[2]
    assert todo.startswith("to do: add this line ")
    assert empty == ""
    front = fine(home.run("setup", editor, "datetime", "--wrap", "claude-code"))
    assert "agent datetime -- …\n" in front
    assert "tested     no: the command of `claude-code` is in " in front
    assert path.read_text() != text
    doctor = " ".join(home.run("doctor").out.split())
    assert "but nothing loads that file" in doctor
    assert line in doctor
    init = home.path / INITS[editor]
    init.parent.mkdir(parents=True, exist_ok=True)
    init.write_text(f"first\n{line}\n")
    doctor = " ".join(fine(home.run("doctor")).split())
    assert "starts agent demo" in doctor
    assert "nothing loads" not in doctor
    assert "to do" not in fine(home.run("setup", editor, "demo"))

    fine(home.run("setup", editor, "--remove", "--name", "claude-code"))
    assert path.read_text() == text
    assert "take out the line that loads it" in fine(home.run("setup", editor, "--remove"))
    assert not path.exists()


def test_neovim_runs_what_is_printed(home: Home) -> None:
    neovim = Neovim()
    neovim.run(fine(home.run("setup", "codecompanion", "datetime", "demo", "--print")))
    command = [str(home.conductor).encode(), b"agent", b"datetime", b"demo"]
    assert neovim.read("codecompanion.adapters.acp.conductor().commands.default") == command
    wrapped = fine(
        home.run("setup", "codecompanion", "datetime", "--wrap", "claude_code", "--print")
    )
    neovim.run(wrapped)
    default = neovim.read("codecompanion.adapters.acp.claude_code().commands.default")
    assert default == [*command[:-1], b"--", b"claude-agent-acp"]
    assert not (home.path / FILES["codecompanion"]).exists()


def test_a_file_of_somebody_else_stays(home: Home) -> None:
    path = home.path / FILES["emacs"]
    path.parent.mkdir()
    path.write_text('(message "mine")\n')
    ran = home.run("setup", "emacs", "demo")
    assert ran.code == 2
    assert "was not written by `conductor setup emacs`; nothing was changed" in ran.err
    assert path.read_text() == '(message "mine")\n'


def test_toad_gets_a_command_line(home: Home, tmp_path: Path) -> None:
    component = '{"component":"datetime","config":{"template":"it\'s $HOME `x` {date}"}}'
    said = fine(home.run("setup", "toad", component, "demo", "--name", "My chain"))
    line = said.splitlines()[0]
    *_, command, title, name = shlex.split(line)
    assert line.startswith("toad acp ")
    assert (title, name) == ("--title", "My chain")
    assert "tested     Demo agent" in said
    ask = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    done = subprocess.run(
        ["/bin/sh", "-c", command],  # as Toad does
        env=home.env,
        cwd=tmp_path,
        input=f"{json.dumps(ask)}\n".encode(),
        capture_output=True,
        check=True,
        timeout=DEADLINE,
    )
    assert b'"agentInfo"' in done.stdout
    for words in (["--remove"], ["datetime", "--wrap", "Claude"]):
        assert home.run("setup", "toad", *words).code == 2


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", "\u202e"])
def test_a_name_that_nobody_could_type_is_refused(home: Home, name: str) -> None:
    ran = home.run("setup", "emacs", "demo", "--name", name)
    assert ran.code == 2
    assert "is no name for an entry" in ran.err
    assert not (home.path / ".emacs.d").exists()


def test_an_empty_home_is_none(home: Home) -> None:
    ran = home.run("setup", "emacs", "demo", HOME="", XDG_STATE_HOME=str(home.path / "state"))
    assert ran.code == 2
    assert "there is no home folder" in ran.err


def test_the_list_goes_on_where_one_editor_has_no_place(home: Home) -> None:
    ran = home.run("setup", NVIM_APPNAME="/etc")
    assert ran.code == 0
    assert ran.out.count("NVIM_APPNAME is `/etc`") == 2
    assert "settings.json" in ran.out
    assert "toad           (a command line)" in ran.out
