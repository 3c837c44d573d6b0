"""The report of `conductor doctor` on editors."""

import json
import os
import sys
from pathlib import Path

import pytest

from conductor.cli import doctor, doctor_editors
from conductor.cli.doctor_editors import Finding
from conductor.editors.record import Settings
from conductor.editors.script_editor import ScriptEditor
from conductor.editors.table import TARGETS
from conductor.editors.target import Launch

DEMO = Launch(sys.executable, ["-m", "conductor", "agent", "datetime", "demo"])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, with no editor on PATH."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    for name in [each for each in os.environ if each.startswith(("XDG_", "NVIM_", "CONDUCTOR_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(editor: str, launch: Launch, name: str = "Conductor") -> Path:
    """Puts an entry into an editor's file, as `setup` does."""
    target = TARGETS[editor]
    path = Path(target.file())
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else None
    edit = target.put(text, Settings(editor), name, launch)
    assert edit.text is not None
    path.write_text(edit.text)
    if isinstance(target, ScriptEditor):
        load(target)
    return path


def load(target: ScriptEditor, line: str = "") -> None:
    """Writes user's settings with a line that loads our file: that which `setup` names."""
    folder = Path(target.file()).parent
    init = folder / "init.el" if target.name == "emacs" else folder.parent / "init.lua"
    init.write_text(f"{line or target.load}\n")


def test_an_entry_with_a_guard_that_does_nothing() -> None:
    for others, more in ((["passthrough,only=none"], True), ([], False)):
        words = ["-m", "conductor", "agent", "budget", *others, "demo"]
        write("zed", Launch(sys.executable, words))
        found = only()
        assert not found.ok
        assert "`budget`: it does nothing without the setting `tokens` or `cost`" in found.detail
        assert ("and 1 more like this" in found.detail) is more
        assert ("more like this" in found.detail) is more


def only() -> Finding:
    (found,) = doctor_editors.findings()
    return found


@pytest.mark.parametrize(
    ("editor", "line", "loads"),
    [
        ("codecompanion", "require 'conductor_acp'", True),
        ("codecompanion", 'pcall(require, "conductor_acp")', True),
        ("codecompanion", 'require("conductor_acp_avante")', False),
        ("codecompanion", "  -- require 'conductor_acp'", False),
        ("emacs", '(load-file "~/.emacs.d/conductor-acp.el")', True),
        ("emacs", ';; (load "conductor-acp")', False),
    ],
)
def test_by_whatever_line_a_file_of_ours_is_loaded(editor: str, line: str, loads: bool) -> None:
    write(editor, DEMO)
    target = TARGETS[editor]
    assert isinstance(target, ScriptEditor)
    load(target, line)
    assert only().ok == loads


def test_without_editors_there_is_nothing_to_say() -> None:
    assert list(doctor_editors.findings()) == []


@pytest.mark.parametrize("editor", sorted(each for each in TARGETS if each != "toad"))
def test_an_entry_that_starts(editor: str) -> None:
    path = write(editor, DEMO)
    found = only()
    assert (found.editor, found.ok) == (editor, True)
    assert str(path) in found.detail
    assert "starts -m conductor agent datetime demo" in found.detail


def test_secrets_are_not_shown() -> None:
    secret = "sk-ant-api03-" + "x1Y2" * 20
    write("zed", Launch(sys.executable, ["-m", "conductor", "agent", f"demo --key={secret}"]))
    assert only().ok
    assert secret not in only().detail


def test_zed_starts_agents_elsewhere() -> None:
    write("zed", DEMO)
    assert "SSH" in only().detail


def test_an_editor_without_an_entry_of_ours(home: Path) -> None:
    (home / ".jetbrains").mkdir()
    entry = {"Other": {"command": "other"}}
    (home / ".jetbrains/acp.json").write_text(json.dumps({"agent_servers": entry}))
    found = only()
    assert found.ok
    assert "no entry of conductor; `conductor setup jetbrains …` makes one" in found.detail


def test_a_program_alone_is_an_editor(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "bin").mkdir()
    for name in ("emacs", "toad"):
        program = home / "bin" / name
        program.touch(0o755)
    monkeypatch.setenv("PATH", str(home / "bin"))
    found = list(doctor_editors.findings())
    assert [each.editor for each in found] == ["emacs", "toad"]
    assert all(each.ok and str(home / "bin") in each.detail for each in found)


@pytest.mark.parametrize("editor", sorted(["codecompanion", "zed"]))
def test_a_launcher_that_is_gone(editor: str) -> None:
    write(editor, DEMO)
    write(editor, Launch("/gone/conductor", ["agent", "demo"]), "Second")
    found = only()
    assert not found.ok
    assert "`Second` does not start: there is no program `/gone/conductor`" in found.detail
    assert f"`conductor setup {editor} --remove --name Second`" in found.hint


@pytest.mark.parametrize(
    ("arguments", "why"),
    sorted(
        {
            "no chain `gone`": ["agent", "@gone"],
            "does not understand its arguments": ["agent", "--no-such-option", "demo"],
            "does-not-exist": ["agent", "does-not-exist", "demo"],
            "/gone.wasm": ["agent", "/gone.wasm", "demo"],
        }.items(),
        key=str,
    ),
)
def test_a_chain_that_is_gone(arguments: str, why: list[str]) -> None:
    write("zed", Launch(sys.executable, ["-m", "conductor", *why]))
    found = only()
    assert not found.ok
    assert arguments in found.detail
    assert found.hint


def test_a_chain_of_the_configuration(home: Path) -> None:
    (home / ".config/conductor").mkdir(parents=True)
    (home / ".config/conductor/conductor.toml").write_text(
        '[chains.work]\ncomponents = ["datetime", "demo"]\n'
    )
    write("zed", Launch(sys.executable, ["-m", "conductor", "agent", "@work"]))
    assert only().ok


def test_what_stands_in_front_of_an_editor_s_own_agent() -> None:
    target = TARGETS["emacs"]
    front = Launch(sys.executable, ["-m", "conductor", "agent", "datetime"])
    edit = target.wrap(None, Settings("emacs"), "claude-code", front)
    assert edit.text is not None
    path = Path(target.file())
    path.parent.mkdir(parents=True)
    path.write_text(edit.text)
    assert isinstance(target, ScriptEditor)
    load(target)
    found = only()
    assert found.ok
    assert "claude-code" in found.detail


def test_settings_that_cannot_be_read_are_shown_and_the_others_too(home: Path) -> None:
    path = write("zed", DEMO)
    path.write_text("{ oops")
    write("jetbrains", DEMO)
    zed, jetbrains = doctor_editors.findings()
    assert not zed.ok
    assert "settings.json:1:3" in zed.detail
    assert jetbrains.ok


def test_a_chain_that_is_gone_fails_nobody() -> None:
    write("zed", Launch("/gone/conductor", ["agent", "demo"]))
    (check,) = [each for each in doctor.checks() if each.name == "editor zed"]
    assert not check.ok
    assert not check.needed
