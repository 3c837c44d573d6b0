"""`conductor dev`: a component that is built, tested and talked to while it changes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.author import project
from tests.harness.process.command import Running, conductor
from tests.harness.process.processes import Kin, needs_proc

pytestmark = pytest.mark.usefixtures("python_guest", "_homes")


@pytest.fixture
def _homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def component(folder: Path, lang: str = "python") -> Path:
    """A new component; its folder."""
    made = folder / "mine"
    for path, text in project.files(lang, "mine"):
        file = made / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return made


def change(file: Path, before: str, after: str) -> None:
    """Changes a file as editors do: the new one takes its place at once."""
    text = file.read_text()
    assert before in text
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text.replace(before, after))
    os.replace(beside, file)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A component in Python."""
    return component(tmp_path)


@pytest.fixture
def dev(mine: Path) -> Iterator[Running]:
    """The command on a terminal, when it has shown its first question."""
    with Running("dev", str(mine), terminal=True) as running:
        running.wait_for(running.out, "> ")
        yield running


def test_without_a_terminal_prompts_are_lines(mine: Path) -> None:
    ran = conductor("dev", str(mine), stdin=b"hello\n\nbye\n")
    assert ran.code == 0, ran.err
    passed, answers = ran.out.split("\n", 1)
    assert passed.startswith("passed ")
    assert answers == "Answer briefly.\nhello\nAnswer briefly.\nbye\n"


def test_what_failed_last_is_the_exit_code(mine: Path) -> None:
    change(mine / "proxy.py", "Answer briefly.", "Answer.")
    ran = conductor("dev", str(mine))
    assert ran.code == 1
    assert "FAILED" in ran.out
    ran.assert_error(1, "1 of 1 scenario differs", "conductor test --update")


def test_what_ends_the_test_and_the_chain_alike_is_told_once(mine: Path) -> None:
    change(mine / "proxy.py", "config=Config", 'config=Config, rights={"filter": "x"}')
    ran = conductor("dev", str(mine))
    ran.assert_error(1, "asks for the right `filter`")
    assert ran.err.count("error: ") == 1
    assert conductor("dev", str(mine), stdin=b"hello\n").err.count("error: ") == 2


def test_a_folder_without_a_component(tmp_path: Path) -> None:
    conductor("dev", str(tmp_path)).assert_error(2, "there is no component.toml", "conductor new")
    nowhere = conductor("dev", str(tmp_path / "nowhere"))
    nowhere.assert_error(2, f"there is no folder `{tmp_path}/nowhere`", "conductor new")
    (tmp_path / "a.py").touch()
    file = conductor("dev", str(tmp_path / "a.py"))
    file.assert_error(2, "is a file, and a folder with a component.toml", "--reload")


def test_a_change_is_tested_and_replaces_the_component(mine: Path, dev: Running) -> None:
    assert "passed" in dev.text(dev.out)
    dev.type("hello\n")
    dev.wait_for(dev.out, "Answer briefly.\nhello\n> ")
    change(mine / "proxy.py", "Answer briefly.", "Be kind.")
    dev.wait_for(dev.out, "FAILED")
    dev.wait_for(dev.err, "mine: replaced by its new build")
    dev.type("hello again\n")
    dev.wait_for(dev.out, "Be kind.\nhello again\n> ")
    passed = dev.text(dev.out).count("passed  ")
    change(mine / "test-scenarios" / "prompt.txt", "Answer briefly.", "Be kind.")
    dev.wait_until(
        dev.out, lambda text: text.count("passed  ") > passed, "a transcript that passes"
    )
    dev.interrupt()
    assert dev.end().code == 0


def test_source_that_does_not_load_is_said_and_mended(mine: Path, dev: Running) -> None:
    dev.type("hi\n")
    dev.wait_for(dev.out, "Answer briefly.\nhi\n> ")  # it is loaded by now
    change(mine / "proxy.py", "proxy = ", "proxy == ")
    dev.wait_for(dev.err, "the new build is not used")
    dev.type("hello\n")
    dev.wait_for(dev.out, "Answer briefly.\nhello\n> ")
    change(mine / "proxy.py", "proxy == ", "proxy = ")
    dev.wait_for(dev.err, "mine: replaced by its new build")
    dev.interrupt()
    assert dev.end().code == 0


def test_a_component_that_is_broken_from_the_start(mine: Path) -> None:
    change(mine / "proxy.py", "proxy = ", "proxy == ")
    with Running("dev", str(mine), terminal=True) as running:
        running.wait_for(running.out, "> ")
        running.wait_for(running.err, "name 'proxy' is not defined")
        change(mine / "proxy.py", "proxy == ", "proxy = ")
        running.wait_for(running.out, "passed  ")
        running.type("hello\n")
        running.wait_for(running.out, "Answer briefly.\nhello\n> ")
        running.interrupt()
        assert running.end().code == 0


def test_a_component_with_a_build_is_built(tmp_path: Path) -> None:
    mine = component(tmp_path, "wat")
    with Running("dev", str(mine), terminal=True) as running:
        running.wait_for(running.out, "> ")
        first = running.text(running.out)
        assert first.index("mine.wasm: core, ") < first.index("passed  ")
        source = mine / "mine.wat"
        change(source, "(module", ";; changed\n(module (global i32 (i32.const 7))")
        running.wait_for(running.err, "mine: replaced by its new build")
        running.type("hello\n")
        running.wait_for(running.out, "hello\n> ")
        change(source, "(module", "(modul")
        running.wait_for(running.err, "error: ")
        running.interrupt()
        assert running.end().code == 0


@needs_proc
def test_a_turn_is_cancelled_before_the_command_ends(dev: Running) -> None:
    dev.type("/permission\n")
    dev.wait_for(dev.out, "[y/N] ")
    kin = Kin(dev.process.pid)
    dev.interrupt()
    dev.wait_for(dev.err, "the turn ended with `cancelled`")
    dev.type("hello\n")
    dev.wait_for(dev.out, "hello\n> ")
    dev.interrupt()
    assert dev.end().code == 0
    assert kin.leftovers() == []
    kin.close()


def test_permission_is_asked_for_on_the_terminal(dev: Running) -> None:
    dev.type("/permission Erase it\n")
    dev.wait_for(dev.out, "allow it this once? [y/N] ")
    dev.wait_for(dev.err, "the agent asks for permission: Erase it")
    dev.type("y\n")
    # The next question: an interrupt before it would cancel the turn.
    dev.wait_for(dev.out, "permission: allow-once\n> ")
    dev.interrupt()
    assert dev.end().code == 0


def test_what_the_component_prints_is_shown(mine: Path, dev: Running) -> None:
    change(mine / "proxy.py", "    request.preface", "    print('looking')\n    request.preface")
    dev.wait_for(dev.err, "mine: replaced by its new build")
    dev.type("hello\n")
    dev.wait_for(dev.err, "mine: looking")
    dev.wait_for(dev.out, "hello\n> ")
    dev.interrupt()
    assert dev.end().code == 0


@needs_proc
def test_an_agent_of_ones_own_and_its_end(mine: Path) -> None:
    ran = conductor("dev", str(mine), "--agent", "demo,name=other", stdin=b"/exit 3\nhello\n")
    assert ran.code == 0, ran.err
    assert "agent `other`" in ran.err
    assert "exited with code 3" in ran.err
    assert ran.out.endswith("Answer briefly.\nhello\n")
