"""The files that `conductor setup` writes beside settings that are a program."""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.editors.record import Settings
from conductor.editors.script_editor import ScriptEditor, key
from conductor.editors.table import TARGETS
from conductor.editors.target import Edit, Launch
from conductor.errors import UsageError
from tests.editors.neovim import Neovim

LAUNCH = Launch("/opt/conductor", ["agent", "datetime", "demo"])
FRONT = Launch("/opt/conductor", ["agent", "datetime"])
SCRIPTED = {name: each for name, each in TARGETS.items() if isinstance(each, ScriptEditor)}

words = st.binary().map(os.fsdecode) | st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(params=sorted(SCRIPTED))
def editor(request: pytest.FixtureRequest) -> ScriptEditor:
    return SCRIPTED[request.param]


def written(edit: Edit) -> str:
    assert edit.text is not None
    return edit.text


def put(editor: ScriptEditor, text: str | None = None, name: str = "Conductor") -> Edit:
    return editor.put(text, Settings(editor.name), name, LAUNCH)


def test_a_file_says_who_wrote_it_and_how_to_remove_it(editor: ScriptEditor) -> None:
    first, second, third = written(put(editor)).split("\n")[:3]
    assert f"Written by `conductor setup {editor.name}`" in first
    assert f"`conductor setup {editor.name} --remove` removes it" in first
    assert second == (
        f'{editor.comment} {{"Conductor": {{"launch": {{"command": "/opt/conductor", '
        '"args": ["agent", "datetime", "demo"], "env": {}}}}'
    )
    assert editor.load in third


def test_emacs_binds_lexically() -> None:
    assert "-*- lexical-binding: t; -*-" in written(put(SCRIPTED["emacs"])).split("\n")[0]


def test_the_same_entry_again_changes_nothing(editor: ScriptEditor) -> None:
    first = put(editor)
    again = editor.put(first.text, first.settings, "Conductor", LAUNCH)
    assert (again.text, again.settings) == (first.text, first.settings)


def test_entries_come_and_go(editor: ScriptEditor) -> None:
    one = written(put(editor))
    two = written(put(editor, one, "Second"))
    wrapped = editor.wrap(two, Settings(editor.name), "claude-code", FRONT)
    assert wrapped.launch is None
    assert editor.entries(wrapped.text) == {
        "Conductor": LAUNCH,
        "Second": LAUNCH,
        "claude-code": Launch(FRONT.command, [*FRONT.args, "--"]),
    }
    back = editor.remove(wrapped.text, wrapped.settings, "claude-code")
    assert back.text == two
    back = editor.remove(back.text, back.settings, "Second")
    assert back.text == one
    gone = editor.remove(back.text, back.settings, "Conductor")
    assert gone.text is None
    assert gone.settings.entries == {}
    assert editor.load in gone.remarks[0]


def test_an_entry_is_brought_up_to_date(editor: ScriptEditor) -> None:
    other = Launch("/opt/conductor", ["agent", "demo"], {"PATH": "/a:/b"})
    edit = editor.put(written(put(editor)), Settings(editor.name), "Conductor", other)
    assert editor.entries(edit.text) == {"Conductor": other}
    assert "datetime" not in written(edit)


@pytest.mark.parametrize("change", ["", "mine\n", "-- x\n", "\ufeff", "\r\n"])
def test_a_file_of_somebody_else_is_not_touched(editor: ScriptEditor, change: str) -> None:
    theirs = change + (written(put(editor)) if change == "\ufeff" else "")
    if change == "\r\n":
        theirs = written(put(editor)).replace("\n", "\r\n")
    with pytest.raises(UsageError, match="was not written by"):
        put(editor, theirs)
    with pytest.raises(UsageError, match="was not written by"):
        editor.remove(theirs, Settings(editor.name), "Conductor")
    with pytest.raises(UsageError, match="was not written by"):
        editor.wrap(theirs, Settings(editor.name), "claude-code", FRONT)


def test_another_editor_s_file_is_not_touched(editor: ScriptEditor) -> None:
    for other in SCRIPTED.values():
        if other is not editor:
            with pytest.raises(UsageError, match="was not written by"):
                put(editor, written(put(other)))


@given(st.data())
def test_a_changed_file_is_not_touched(data: st.DataObject) -> None:
    editor = SCRIPTED[data.draw(st.sampled_from(sorted(SCRIPTED)))]
    text = written(put(editor))
    start = data.draw(st.integers(text.index("\n") + 1, len(text)))
    end = data.draw(st.integers(start, len(text)))
    more = data.draw(st.text(max_size=3))
    changed = text[:start] + more + text[end:]
    if changed != text:
        with pytest.raises(UsageError, match="somebody has changed"):
            put(editor, changed)
        with pytest.raises(UsageError, match="somebody has changed"):
            editor.remove(changed, Settings(editor.name), "Conductor")


@given(words, st.lists(words, min_size=1), words)
def test_any_words_come_back(name: str, command: list[str], value: str) -> None:
    launch = Launch(command[0], command[1:], {"PATH": value})
    for editor in SCRIPTED.values():
        text = written(editor.put(None, Settings(editor.name), name, launch))
        assert text.isascii()
        assert editor.entries(text) == {name: launch}
        assert editor.remove(text, Settings(editor.name), name).text is None


@given(words, words)
def test_a_file_for_neovim_runs(name: str, word: str) -> None:
    launch = Launch("/opt/conductor", ["agent", word], {"PATH": "/a b"})
    for which in ("codecompanion", "avante"):
        editor = SCRIPTED[which]
        text = written(editor.put(None, Settings(editor.name), name, launch))
        text = written(editor.put(text, Settings(editor.name), name + "x", launch))
        wrapped = "claude_code" if which == "codecompanion" else "claude-code"
        text = written(editor.wrap(text, Settings(editor.name), wrapped, FRONT))
        neovim = Neovim()
        neovim.run(text)
        command = [b"/usr/bin/env", b"PATH=/a b", b"/opt/conductor", b"agent", os.fsencode(word)]
        for each in (key(name), key(name + "x")):
            if which == "codecompanion":
                adapter = f'codecompanion.adapters.acp["{each}"]()'
                assert neovim.read(f"{adapter}.commands.default") == command
            else:
                provider = f'avante.acp_providers["{each}"]'
                assert neovim.read(f"{provider}.command") == command[0]
                assert neovim.read(f"{provider}.args") == command[1:]


def test_two_names_with_one_key_are_refused(editor: ScriptEditor) -> None:
    with pytest.raises(UsageError, match="already has an entry `Conductor`"):
        put(editor, written(put(editor)), "conductor!")


def test_a_wrapped_agent_and_an_entry_do_not_share_a_name(editor: ScriptEditor) -> None:
    wrapped = editor.wrap(None, Settings(editor.name), "Conductor", FRONT)
    with pytest.raises(UsageError, match="already wraps `Conductor`"):
        put(editor, wrapped.text)
    with pytest.raises(UsageError, match="already has an entry `Conductor`"):
        editor.wrap(written(put(editor)), Settings(editor.name), "Conductor", FRONT)
    with pytest.raises(UsageError, match="already wraps `Conductor`"):
        editor.wrap(wrapped.text, Settings(editor.name), "conductor ", FRONT)


def test_what_is_not_there_cannot_be_removed(editor: ScriptEditor) -> None:
    with pytest.raises(UsageError, match="there is no /"):
        editor.remove(None, Settings(editor.name), "Conductor")
    with pytest.raises(UsageError, match="has no entry `Conducter`") as refused:
        editor.remove(written(put(editor)), Settings(editor.name), "Conducter")
    assert "`Conductor`" in refused.value.hint


@given(words)
def test_a_key_is_a_plain_word(title: str) -> None:
    assert key(title).replace("_", "").isalnum()
    assert key(title).isascii()


def test_neovim_s_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    home = os.fspath(tmp_path)
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("NVIM_APPNAME", raising=False)
    file = SCRIPTED["codecompanion"].file
    assert file() == f"{home}/.config/nvim/lua/conductor_acp.lua"
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{home}/xdg")
    monkeypatch.setenv("NVIM_APPNAME", "mine/nvim")
    assert file() == f"{home}/xdg/mine/nvim/lua/conductor_acp.lua"
    for bad in ("/etc", "../x"):
        monkeypatch.setenv("NVIM_APPNAME", bad)
        with pytest.raises(UsageError, match="NVIM_APPNAME"):
            file()


def test_emacs_s_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    home = os.fspath(tmp_path)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{home}/xdg")
    file = SCRIPTED["emacs"].file
    assert file() == f"{home}/.emacs.d/conductor-acp.el"
    os.makedirs(f"{home}/xdg/emacs")
    assert file() == f"{home}/xdg/emacs/conductor-acp.el"
    with open(f"{home}/.emacs", "w"):
        pass
    assert file() == f"{home}/.emacs.d/conductor-acp.el"
    os.remove(f"{home}/.emacs")
    os.mkdir(f"{home}/.emacs.d")
    assert file() == f"{home}/.emacs.d/conductor-acp.el"


def test_what_to_write_by_hand(editor: ScriptEditor) -> None:
    first, *code = editor.shown("Conductor", LAUNCH, wraps=False).split("\n")
    assert first == f"{editor.comment} This belongs {editor.where}."
    assert "\n".join(code) in written(put(editor))
    wrapped = editor.wrap(None, Settings(editor.name), "claude-code", FRONT)
    shown = editor.shown("claude-code", FRONT, wraps=True)
    assert shown.partition("\n")[2] in written(wrapped)


def test_avante_s_users_are_warned() -> None:
    (warning,) = put(SCRIPTED["avante"]).remarks
    assert "bypassPermissions" in warning
    assert "ACP_PERMISSION_MODE" not in SCRIPTED["avante"].shown("x", LAUNCH, wraps=False)


@pytest.mark.parametrize("entries", ["", "x", "[]", '{"a": 1}', "[" * 100_000])
def test_a_file_whose_entries_are_damaged(editor: ScriptEditor, entries: str) -> None:
    first, rest = written(put(editor)).split("\n", 1)
    damaged = f"{editor.comment} {entries}\n{rest.split(chr(10), 1)[1]}"
    before, after = (hashlib.sha256(text.encode()).hexdigest() for text in (rest, damaged))
    text = f"{first.replace(before, after)}\n{damaged}"
    assert after in text

    with pytest.raises(UsageError, match="cannot be read"):
        editor.entries(text)


def test_neovim_s_settings_with_a_pipe_and_links_in_a_circle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NVIM_APPNAME", raising=False)
    folder = tmp_path / "nvim" / "lua"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / name).symlink_to(".")
    os.mkfifo(folder / "pipe.lua")
    editor = SCRIPTED["codecompanion"]
    assert editor.todo()
    elsewhere = tmp_path / "mine"
    elsewhere.mkdir()
    (elsewhere / "init.lua").write_text(editor.load)
    (folder / "linked").symlink_to(elsewhere)

    assert editor.todo() == ""
