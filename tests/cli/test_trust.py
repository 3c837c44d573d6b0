"""`conductor trust`, and the question on a terminal."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.spec.paths import components_folder
from tests.harness.process.command import Ran, Running, conductor, environment

DATE = "<current-date"


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a stranger's component that wants the clock, and a program."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(components_folder() / "datetime", tmp_path / "date")
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "component.toml").write_text(
        'name = "program"\nkind = "agent"\n'
        'command = ["{python}", "-m", "conductor", "agent", "demo"]\n'
    )
    return tmp_path


def run(*arguments: str) -> Ran:
    """Runs `conductor ARGUMENTS` here."""
    return conductor(*arguments, env=environment())


def trusted() -> list[dict[str, Any]]:
    """The folders and components that are trusted."""
    ran = run("trust", "--list", "--json")
    assert (ran.code, ran.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(ran.out)["trusted"]
    return found


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("typed", "now", "later"),
    [("v\n", True, True), ("run\n", True, False), ("\n", False, False), ("x\n", False, False)],
)
def test_on_a_terminal_the_user_is_asked_before_anything_runs(
    typed: str, now: bool, later: bool
) -> None:
    with Running("exec", "./date/", "demo", "-p", "hi", terminal=True) as running:
        running.wait_for(running.err, "keep it narrow: ")
        asked = running.text(running.err)
        assert "Allow the sandboxed proxy `./date/` more than the default?" in asked
        assert "- know the time" in asked
        assert "to learn the date" not in asked
        running.type(typed)
        ran = running.end()
    assert (ran.code, DATE in ran.out) == (0, now)
    assert (DATE in run("exec", "./date/", "demo", "-p", "hi").out) == later
    assert len(trusted()) == later


@pytest.mark.usefixtures("here")
def test_the_end_of_the_input_is_no() -> None:
    with Running("exec", "./date/", "demo", "-p", "hi", terminal=True) as running:
        running.wait_for(running.err, "keep it narrow: ")
        running.type("\x04")
        ran = running.end()
    assert (ran.code, DATE in ran.out, trusted()) == (0, False, [])


@pytest.mark.usefixtures("here")
def test_nobody_is_asked_where_that_is_said_or_nobody_is_there() -> None:
    with Running("exec", "--ask", "never", "./date/", "demo", "-p", "hi", terminal=True) as running:
        ran = running.end()
    assert "keep it narrow" not in ran.err
    assert "it does not get what it asks for: `clock`" in ran.err
    ran = run("exec", "--permissions", "allow-once", "./date/", "demo", "-p", "hi")
    assert (ran.code, DATE in ran.out, ran.err.count("keep it narrow")) == (0, False, 0)


@pytest.mark.proves("a stranger's program does not")
@pytest.mark.usefixtures("here")
def test_a_program_of_a_stranger_is_refused_until_its_folder_is_trusted() -> None:
    for arguments in (
        ["exec", "./program/", "-p", "hi"],
        ["agent", "./program/"],
        ["proxy", "./program/"],
        ["test", "./program/"],
    ):
        run(*arguments).assert_error(
            2, "is a program that its component.toml names", "`conductor trust program`"
        )
    assert run("inspect", "./program/").code == 0
    assert run("trust", "program").out.startswith("trusted: the folder ")
    assert run("trust", "./program/").out.startswith("already trusted: the folder ")
    assert run("exec", "./program/", "-p", "hi").out == "hi\n"
    assert run("trust", "--remove", "program").out.startswith("no longer trusted: ")
    ran = run("trust", "--remove", "program")
    assert (ran.code, ran.out[:12]) == (0, "not trusted:")
    assert run("exec", "./program/", "-p", "hi").code == 2


@pytest.mark.proves("a trusted folder that is gone")
@pytest.mark.parametrize("what", ["folder made anew", "shared folder above", "program", "manifest"])
def test_a_program_that_another_user_could_have_changed_does_not_run(here: Path, what: str) -> None:
    manifest = here / "program" / "component.toml"
    manifest.write_text('name = "program"\nkind = "agent"\ncommand = ["{dir}/run.sh"]\n')
    program = here / "program" / "run.sh"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -m conductor agent demo\n")
    program.chmod(0o755)
    assert run("trust", "program").code == 0
    assert run("exec", "./program/", "-p", "hi").out == "hi\n"
    if what == "folder made anew":
        (here / "program").rename(here / "away")
        shutil.copytree(here / "away", here / "program")
        run("exec", "./program/", "-p", "hi").assert_error(2, "its folder is not trusted")
        return
    {"shared folder above": here, "program": program, "manifest": manifest}[what].chmod(0o775)
    run("exec", "./program/", "-p", "hi").assert_error(2, "may be written by others", "chmod go-w")


@pytest.mark.parametrize(("home", "warns"), [("program", True), ("", False), ("pro", False)])
def test_a_folder_that_holds_the_home_comes_with_a_warning(
    here: Path, home: str, warns: bool
) -> None:
    ran = conductor("trust", "program", env=environment(HOME=str(here / home)))
    assert ran.out.startswith("trusted: the folder ")
    assert ("holds your home" in ran.err) == warns


def test_one_version_of_a_component_is_trusted(here: Path) -> None:
    out = run("trust", "date/datetime.wasm").out
    assert "trusted: this version of datetime" in out
    assert "it may know the time" in out
    assert DATE in run("exec", "./date/", "demo", "-p", "hi").out
    assert "has all that it asks for" in run("trust", "date/datetime.wasm").out
    (row,) = trusted()
    assert (row["kind"], row["name"], row["rights"]) == (
        "component",
        "datetime",
        ["clock"],
    )
    assert row["path"] == str(here / "date" / "datetime.wasm")
    assert "may have clock" in run("trust", "--list").out
    run("trust", "--remove", row["sha256"][:7]).assert_error(2, "nothing that you trust is called")
    assert "no longer trusted: datetime" in run("trust", "--remove", "datetime").out
    assert trusted() == []
    assert run("trust", "--list").out == "You trust nothing yet: `conductor trust PATH`.\n"
    (here / "redact").touch()  # a file of that name is meant, not the bundled component
    assert "redact" in run("trust", "redact").err
    assert trusted() == []


def test_a_project_file_is_trusted_as_it_is(here: Path) -> None:
    project = here / "project"
    project.mkdir()
    (project / "conductor.toml").write_text("")
    out = run("trust", "project").out
    assert "trusted: the folder" in out
    assert "conductor.toml, as it is now" in out
    (project / "conductor.toml").write_text("# changed")
    assert run("trust", "project/conductor.toml").out.startswith("trusted: the file")
    assert run("trust", "project/conductor.toml").out.startswith("already trusted: the file")
    run("trust", "--remove", "project/conductor.toml").assert_error(
        2, "is still trusted: it lies in"
    )
    assert len(run("trust", "--remove", "project").out.splitlines()) == 1
    assert trusted() == []


def test_what_cannot_be_trusted_is_an_error(here: Path) -> None:
    run("trust", "nowhere").assert_error(2, "no such file or folder")
    (here / "all").mkdir()
    (here / "all").chmod(0o777)
    run("trust", "all").assert_error(2, "may be written by others (mode 0777)", "chmod go-w")
    run("trust", "--remove", "nobody").assert_error(2, "nothing that you trust is called `nobody`")
    store = here / "state" / "conductor" / "trust.json"
    store.write_text("{")
    for arguments in (["trust", "date"], ["trust", "--remove", "date"], ["trust", "--list"]):
        run(*arguments).assert_error(2, "it is damaged", "move the file away")
    assert store.read_text() == "{"


def test_a_new_component_is_the_users_own(here: Path) -> None:
    assert run("new", "mine", "--lang", "wat").code == 0
    (row,) = trusted()
    assert (row["kind"], row["path"]) == ("own folder", str(here / "mine"))
