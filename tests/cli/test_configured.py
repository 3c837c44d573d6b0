"""The place, of several, that sets an option, and the errors of places that set none."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from conductor.cli import configured, fast, report
from conductor.errors import UsageError
from conductor.spec import option_layers
from conductor.spec import option_table as options
from conductor.spec.option_table import Option
from conductor.spec.parsed import Parsed, assemble
from tests.cli.configurations import Place, place
from tests.cli.test_parsers import refused, samples


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    # The function changes standard error for the rest of the process that all tests here share.
    monkeypatch.setattr(report, "log_as_json", lambda: None)
    return place(tmp_path, monkeypatch)


def parsed(*arguments: str) -> Parsed:
    """A command line with all that is configured."""
    line = fast.parse(["agent", *arguments])
    assert line is not None
    return configured.applied(line)


def written(option: Option, text: str) -> str:
    """A value as TOML."""
    if option.kind.read is None:
        return text
    if option.kind.metavar.startswith("NAME="):  # a table in a file
        name, _, command = text.partition("=")
        return f"{{ {name} = {json.dumps(command)} }}"
    return text if text.replace(".", "", 1).isdigit() else f'"{text}"'


def test_without_a_file_and_a_variable_nothing_is_configured(here: Place) -> None:
    assert here.project.is_dir()
    assert parsed("demo").config is None


def test_each_place_is_above_the_one_before(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    here.user('options.stall = 1\noptions.grace = 1\noptions.drain = 1\noptions.isolation="inline"')
    assert parsed("demo").options.stall == 1
    here.trusted(
        "options.stall = 2\noptions.grace = 2\noptions.drain = 2\n"
        '[chains.work]\ncomponents = ["demo"]\noptions = {stall = 3, grace = 3}'
    )
    assert parsed("demo").options.stall == 2
    assert parsed("work").options.stall == 3
    monkeypatch.setenv("CONDUCTOR_STALL", "4")
    assert parsed("work").options.stall == 4
    found = parsed("-c", "stall=5", "work").options
    assert (found.stall, found.grace, found.drain, found.isolation) == (5, 3, 2, "inline")


@pytest.mark.parametrize("row", option_layers.ROWS.values(), ids=lambda row: row.key)
def test_files_and_variables_read_what_the_command_line_reads(
    row: Option, here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = next(one for one in options.ALL if row.configures(one))
    texts = ["true", "false"] if row.kind.read is None else samples(row)
    for text in texts:
        if row.kind.read is None:
            typed: Any = {"true": True, "false": False}[text]
        else:
            read = row.kind.read(text)
            typed = (read,) if row.kind.many else read
        here.user(f"[options]\n{row.key} = {written(row, text)}")
        values = configured.applied(assemble(command, ["demo"])).values
        base = os.path.dirname(here.user_file)
        kinds = (options.FILE, options.FOLDER, options.OPTIONAL_FILE)
        path = row.kind in kinds and (row.kind != options.OPTIONAL_FILE or typed != "none")
        assert values == {row.name: os.path.join(base, typed) if path else typed}
        here.user_file.unlink()
        monkeypatch.setenv(row.variable, text)
        assert configured.applied(assemble(command, ["demo"])).values == {row.name: typed}
        monkeypatch.delenv(row.variable)


@pytest.mark.parametrize("row", option_layers.ROWS.values(), ids=lambda row: row.key)
def test_what_the_command_line_refuses_is_an_error_with_its_place(
    row: Option, here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = row.kind.read is None
    for text in ('"maybe"', "1", "[]") if switch else ("true", "[]", f'"{refused(row)}"'):
        here.user(f"[options]\n\n{row.key} = {text}")
        with pytest.raises(UsageError, match=rf"conductor.toml, line 3: `{row.key}` cannot be"):
            parsed("demo")
    here.user_file.unlink()
    if wrong := "maybe" if switch else refused(row):
        variable = row.variable
        monkeypatch.setenv(variable, wrong)
        with pytest.raises(UsageError, match=rf"{variable}: `{row.key}` cannot be `{wrong}`"):
            parsed("demo")


@pytest.mark.parametrize(
    "row",
    [row for row in option_layers.ROWS.values() if row.kind.read is None],
    ids=lambda row: row.key,
)
def test_a_switch_of_a_file_can_be_switched_off(row: Option, here: Place) -> None:
    here.user(f"[options]\n{row.key} = true")
    assert getattr(parsed("demo").options, row.name) is True
    assert getattr(parsed("-c", f"{row.key}=false", "demo").options, row.name) is False


def test_no_locked_leaves_out_the_lock_file_too(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.user('[options]\nlock-file = "x.lock"')
    assert parsed("demo").options.lock == str(here.user_file.with_name("x.lock"))
    assert parsed("demo").mode == "agent"
    assert parsed("-c", "locked=false", "demo").options.lock is None
    monkeypatch.setenv("CONDUCTOR_LOCKED", "0")
    assert parsed("demo").options.lock is None
    assert parsed("-c", "lock-file=y.lock", "demo").options.lock == "y.lock"


def test_verbose_is_above_the_level_of_a_file(here: Place) -> None:
    here.user('[options]\nlog = "error"')
    assert parsed("demo").log == "error"
    assert parsed("-v", "demo").log == "debug"
    assert parsed("-v", "--log", "info", "demo").log == "info"


def test_a_conductor_within_another_does_not_write_to_its_files(here: Place) -> None:
    here.user('[options]\ntrace = "t"\nmetrics = "m"\naudit = "a"')
    values = configured.applied(assemble("proxy", [])).values
    assert values == {"audit": str(here.user_file.with_name("a"))}


def test_paths_of_a_file_are_relative_to_it_or_to_the_home_folder(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    here.user('[options]\naudit = "~/a"\ntrace = "/b"\nmetrics = "../c"')
    found = parsed("demo").options
    assert (found.audit, found.trace) == ("/home/someone/a", "/b")
    assert os.path.normpath(found.metrics or "") == str(here.home / "c")
    monkeypatch.setenv("CONDUCTOR_AUDIT", "relative")
    assert parsed("demo").options.audit == "relative"


@pytest.mark.parametrize("value", ['""', '"a\\u0000b"'])
def test_a_path_is_a_path(value: str, here: Place) -> None:
    here.user(f"[options]\naudit = {value}")
    with pytest.raises(UsageError, match="line 2: `audit` cannot be"):
        parsed("demo")


@pytest.mark.parametrize(
    ("key", "text", "hint"),
    [
        ("lgo", "there is no option `lgo`", "did you mean `log`?"),
        ("line_limit", "there is no option `line_limit`", "did you mean `line-limit`?"),
        ("cwd", "`cwd` is for the command line only", "options are: "),
        ("isolated", "`isolated` is for the command line only", ""),
    ],
)
def test_an_option_that_no_file_has(key: str, text: str, hint: str, here: Place) -> None:
    here.user(f"[options]\n{key} = 1")
    with pytest.raises(UsageError) as found:
        parsed("demo")
    assert found.value.text == f"{here.user_file}, line 2: {text}"
    assert hint in found.value.hint


def test_options_of_other_commands_are_checked_but_left_out(here: Place) -> None:
    here.user('[options]\nstall = 5\nfs = "read"')
    assert configured.applied(assemble("exec", ["demo"])).values == {"fs": "read"}
    assert configured.applied(assemble("agent", ["demo"])).values == {"stall": 5}


def test_chains_that_contradict_each_other_are_refused(here: Place) -> None:
    here.user(
        '[chains.a]\ncomponents = []\noptions.stall = 1\n[chains.b]\ncomponents = ["demo"]\n'
        "options = {stall = 2}\n[chains.c]\ncomponents = []\noptions.stall = 1"
    )
    with pytest.raises(UsageError, match=r"line 6: `stall` contradicts .*, line 3"):
        parsed("a", "b")
    assert parsed("a", "c", "demo").options.stall == 1


def test_a_variable_that_means_nothing_is_reported(
    here: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here
    monkeypatch.setenv("CONDUCTOR_AUDTI", "x")
    monkeypatch.setenv("CONDUCTOR_LOG", "")
    monkeypatch.setenv("CONDUCTOR_JOIN_TOKEN", "x")
    monkeypatch.setenv("CONDUCTOR_PEERS_ALL", "x")
    assert parsed("demo").log == "warning"
    assert capsys.readouterr().err == (
        "warning: conductor: the variable CONDUCTOR_AUDTI means nothing; "
        "did you mean `CONDUCTOR_AUDIT`?\n"
    )


def test_variables_of_programs_that_conductor_starts_are_no_options(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here
    monkeypatch.setenv("CONDUCTOR_JOIN_TOKEN", "x")
    assert parsed("demo").config is None


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_isolated_reads_neither_files_nor_variables(
    by: str, here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.user("broken")
    here.project_file.mkdir()
    monkeypatch.setenv("CONDUCTOR_STALL", "broken")
    if by == "variable":
        monkeypatch.setenv("CONDUCTOR_ISOLATED", "1")
    found = parsed(*(["--isolated"] if by == "flag" else []), "demo")
    assert (found.config, found.options.stall) == (None, 300)
    monkeypatch.setenv("CONDUCTOR_ISOLATED", "perhaps")
    with pytest.raises(UsageError, match="CONDUCTOR_ISOLATED"):
        parsed("demo")


def test_a_project_is_found_upward_and_named(
    here: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here.trusted("options.stall = 2")
    inner = here.project / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert parsed("demo").options.stall == 2
    monkeypatch.chdir(tmp_path)
    assert parsed("demo").config is None
    named = parsed("--project", str(inner), "demo")
    assert named.options.stall == 2
    assert named.config is not None
    assert named.config.folder == str(inner)
    monkeypatch.setenv("CONDUCTOR_PROJECT", "project")
    assert parsed("demo").options.stall == 2
    with pytest.raises(UsageError, match="no such folder: `nowhere`"):
        parsed("--project", "nowhere", "demo")


def test_the_nearest_project_counts_alone(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    here.trusted("options.stall = 2")
    inner = Place(here.home, here.project / "inner")
    inner.project.mkdir()
    inner.trusted("options.grace = 3")
    monkeypatch.chdir(inner.project)
    found = parsed("demo").options
    assert (found.stall, found.grace) == (300, 3)


def test_the_users_file_is_no_project(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    here.user("options.stall = 2")
    monkeypatch.chdir(here.user_file.parent)
    found = parsed("demo")
    assert found.options.stall == 2
    assert found.config is not None
    assert found.config.files == [str(here.user_file)]


def test_a_relative_or_empty_folder_of_configuration_is_none(
    here: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    at_home = tmp_path / "home" / ".config" / "conductor" / "conductor.toml"
    at_home.parent.mkdir(parents=True)
    at_home.write_text("options.stall = 3")
    planted = here.project / "planted" / "conductor" / "conductor.toml"
    planted.parent.mkdir(parents=True)
    planted.write_text("options.stall = 1")
    for value in ("planted", "", "./planted"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert parsed("demo").options.stall == 3
    monkeypatch.setenv("HOME", ".")
    monkeypatch.setenv("XDG_CONFIG_HOME", "planted")
    assert parsed("demo").config is None


def test_a_folder_that_was_removed_has_no_project(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.user("options.stall = 2")
    gone = here.project / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    line = assemble("agent", ["demo"])  # the command line itself refuses to run there
    found = configured.applied(line)
    assert found.config is not None
    assert (found.options.stall, found.config.folder) == (2, "")
    here.user_file.unlink()
    assert configured.applied(line).config is None
