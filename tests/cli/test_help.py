"""The help of `conductor` and of its commands."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from conductor.cli import app, main
from conductor.cli import commands as command_table
from conductor.cli import pages as help_pages
from conductor.cli.commands import HEADINGS
from conductor.cli.topics import TOPICS
from conductor.core.policy import words
from conductor.spec import catalog
from conductor.spec.component_options import NAMES
from conductor.spec.limits import LIMITS
from conductor.spec.option_table import LISTED, SERVE
from tests.docs.tables import MAN_PAGE
from tests.harness.process.command import conductor, environment

COMMAND: Any = app.command()
COMMANDS: dict[str, Any] = COMMAND.commands
SHOWN = [name for name, command in COMMANDS.items() if not command.hidden]
RARE = {name for name in SHOWN if command_table.has([name], command_table.RARE)}


def shown(
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    columns: int = 80,
) -> str:
    """The output of a command line on a terminal of so many columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def pages() -> Iterator[list[str]]:
    """The command lines that show a page of help."""
    yield ["--help"]
    yield ["help"]
    yield from (["help", topic] for topic in TOPICS)
    yield from ([*path, "--help"] for path, _ in commands())


def commands() -> list[tuple[list[str], Any]]:
    """Every command that is shown, with its words."""
    found = []
    for name, command in COMMANDS.items():
        found.append(([name], command))
        found += [([name, n], each) for n, each in getattr(command, "commands", {}).items()]
    return [(path, command) for path, command in found if not command.hidden]


def only_named(page: str) -> list[str]:
    """The commands that the first page names without an explanation."""
    *_, more = [part for part in page.split("\n\n") if part.startswith("More: ")]
    return more.removeprefix("More: ").partition(";")[0].replace(",", " ").split()


def test_each_command_is_below_a_heading_and_the_others_are_hidden() -> None:
    rows = command_table.TABLE.values()
    assert list(dict.fromkeys(row.heading for row in rows if not row.is_hidden)) == [*HEADINGS]
    assert [row.path for row in rows if row.is_hidden] == ["join", "mcp"]
    assert COMMANDS["join"].hidden
    assert COMMANDS["mcp"].hidden


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_every_command_and_shows_examples(arguments: list[str]) -> None:
    ran = conductor(*arguments)
    assert (ran.code, ran.err) == (0, "")
    named = only_named(ran.out)
    for name in SHOWN:
        assert f"  {name} " in ran.out or (name in RARE and name in named)
    assert " join " not in ran.out
    assert 'conductor exec datetime demo -p "what day is it?"' in ran.out


def test_a_topic_lists_every_command_below_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(["help", "commands"], capsys)
    headings = [line.removesuffix(":") for line in page.splitlines() if line.endswith(":")]
    assert headings == list(HEADINGS)
    assert all(f"\n  {name} " in page for name in SHOWN)
    assert set(only_named(shown(["--help"], capsys))) == RARE


def test_a_page_of_a_command_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for path, _ in [([], None), *commands()]:
        lines = shown([*path, "--help"], capsys).splitlines()
        assert len(lines) < 40, path
        assert max(map(len, lines)) <= 80, path


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_pages_of_other_widths(columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in pages():
        verbatim = shown(arguments, capsys, 1000).splitlines()
        for line in shown(arguments, capsys, columns).splitlines():
            # Nothing is cut: neither a word nor an example.
            assert len(line) <= min(columns, 100) or " " not in line.strip() or line in verbatim


@pytest.mark.parametrize("group", ["config", "fleet", "log"])
def test_a_group_alone_shows_its_page(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown([group], capsys) == shown([group, "--help"], capsys)


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    for path, command in commands():
        page = shown([*path, "--help"], capsys)
        if path[0] in LISTED:
            page += shown(["help", "options"], capsys)
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue  # the opposites of switches
            meaning = help_pages.gist(getattr(parameter, "help", None) or "What it is.")
            assert not meaning.startswith("Default"), parameter.opts  # of what?
            for option in (*parameter.opts, *parameter.secondary_opts):
                assert (option if option.startswith("-") else parameter.metavar) in page


def test_pages_name_commands_and_addresses_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lead = shown(["help", "filters"], capsys).partition("Terms")[0]
    assert [command_table.row_of(name.split()) for name in re.findall(r"`([a-z -]+)`", lead)].count(
        None
    ) == 0
    listening = {option.default for option in SERVE if option.key == "listen"}
    every = " ".join(shown(arguments, capsys) for arguments in pages())
    assert set(re.findall(r"ws://127\.0\.0\.1:\d+", every)) == listening


def test_help_on_a_command_is_the_help_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for path, _ in commands():
        assert shown(["help", *path], capsys) == shown([*path, "--help"], capsys)


def test_help_lists_the_topics_and_they_are_made_of_the_tables() -> None:
    contents = conductor("help").out
    assert all(f"  {topic} " in contents for topic in TOPICS)
    component = " ".join(conductor("help", "component").out.split())
    for piece in ("./proxy.wasm", "./my-proxy", '"python my_proxy.py --fast"', '"args":["p.js"]'):
        assert piece in component
    for key in NAMES:
        assert f" {key}=" in component
    assert "](" not in component
    for topic, pieces in (
        ("rights", (*words.TABLE, *words.SETS, *words.FORBIDDING)),
        ("profiles", words.SETS),
        ("limits", LIMITS),
        ("exit-codes", ["130"]),
    ):
        page = conductor("help", topic).out
        assert not [piece for piece in pieces if piece not in page]


def test_a_right_is_said_once_and_alone(capsys: pytest.CaptureFixture[str]) -> None:
    every = " ".join(shown(["help", "rights"], capsys, 200).split())
    assert "It may do nothing. " in every
    assert "read:GLOB It may read files in the folders of your sessions. " in every
    clock = shown(["help", "rights", "clock"], capsys)
    assert clock.startswith("`clock`: the component may know the time.\n")
    assert "\n  attribution  Keeps which agent" in clock
    assert main(["help", "rights", "change"]) == 2
    assert "change:words" in capsys.readouterr().err
    assert main(["help", "rights", "answer"]) == 2
    assert "answer:words" not in capsys.readouterr().err


def test_the_page_of_serve_says_how_a_token_is_valid_for_ever(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "for ever with 0. Default: 0." in " ".join(shown(["serve", "--help"], capsys).split())


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("exce", "conductor help exec"), ("rihgts", "conductor help rights"), ("x", "topics are")],
)
def test_help_on_nothing_there_is(wrong: str, hint: str) -> None:
    conductor("help", wrong).assert_error(2, f"no help on `{wrong}`", hint)


def test_the_man_page_has_every_command_and_no_request_that_nobody_knows() -> None:
    page = conductor("help", "--man").out
    assert page == MAN_PAGE.read_text(encoding="utf-8"), "write it: python -m tests.docs.tables"
    for path, _ in commands():
        assert f".SH CONDUCTOR {' '.join(path).upper()}\n" in page.replace("\\-", "-")
    requests = {line.split()[0] for line in page.splitlines() if line.startswith(".")}
    assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".nf", ".fi"}
    assert page.isascii()
    groff = shutil.which("groff")
    if groff is not None:
        checked = subprocess.run(
            [groff, "-man", "-ww", "-z", "-Tascii"],
            input=page.encode(),
            capture_output=True,
            check=True,
        )
        assert checked.stderr == b""


def test_pages_have_colours_only_where_they_are_shown() -> None:
    def bold(**variables: str) -> bool:
        env = {k: v for k, v in environment().items() if k != "NO_COLOR"} | variables
        return "\x1b" in conductor("exec", "--help", env=env).out

    assert not bold()
    assert bold(FORCE_COLOR="1")
    assert bold(CLICOLOR_FORCE="1", TERM="dumb")
    assert not bold(FORCE_COLOR="0")
    assert not bold(FORCE_COLOR="1", NO_COLOR="1")


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option: str) -> None:
    ran = conductor(option)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("conductor 0.")


def test_components() -> None:
    ran = conductor("list", "--bundled")
    assert (ran.code, ran.err) == (0, "")
    lines = [line for line in ran.out.splitlines() if line[:2] == "  " and line[2:3] != " "]
    assert [line.split()[0] for line in lines] == list(catalog.bundled())
    assert "current date" in next(line for line in lines if line.startswith("  datetime "))
    assert ran.out.count("not sandboxed") == 2, "a remark about the few, no column"


def test_components_as_json() -> None:
    ran = conductor("list", "--bundled", "--json")
    found = {one["name"]: one for one in json.loads(ran.out)["bundled"]}
    assert sorted(found) == list(catalog.bundled())
    assert found["datetime"]["sandboxed"] is True
    assert found["demo"] | {"version": "", "description": ""} == {
        "name": "demo",
        "kind": "agent",
        "version": "",
        "description": "",
        "sandboxed": False,
    }


@pytest.mark.parametrize(
    "command", ["list --bundled", "doctor", "agents", "doctor --data", "setup"]
)
@pytest.mark.parametrize("columns", [60, 80])
def test_a_table_fits_its_columns(command: str, columns: int) -> None:
    lines = conductor(
        *command.split(), env=environment(COLUMNS=str(columns), PATH="")
    ).out.splitlines()
    wide = [line for line in lines if len(line) > columns]
    assert [line for line in wide if len(line.split()) > 1] == [], "a word alone may be too long"
