"""The fast parser and typer read the same options, and build the same chain."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from conductor.cli import app, fast, options, run
from conductor.errors import UsageError
from conductor.spec import catalog, option_table, syntax
from conductor.spec.config.model import Written
from conductor.spec.option_table import ALL, Option
from conductor.spec.options import Options
from conductor.spec.parsed import Parsed

COMMANDS: Any = app.command().commands

SAMPLES = {
    "DAYS": ["0", "90"],
    "SIZE": ["65536", "512k", "64M", "1GiB"],
    "SIZE|none": ["none", "64M"],
    "SECONDS": ["0", "1.5", "3"],
    "PORT": ["0", "9464", "65535"],
    "TIME": ["2026-03-01", "2026-03-01T12:00:00+01:00"],
    "FILE": ["/some/where", "relative"],
    "FOLDER": ["/some/where", "relative"],
    "NAME": ["acp", "channel"],
    "AGENT": ["claude", ""],
    "URL|env|none": ["env", "none", "http://127.0.0.1:4318"],
    "NAME=COMMAND": ["research=codex-acp", 'a=["datetime", "demo"]'],
    "KEY=VALUE": ["ring=none", "components.a.config.b=[1, 2]"],
    "NAME=PROXIES": ["a=datetime", "a='python x.py' datetime"],
}
"""Values for the placeholders of help."""

REFUSED = {
    "DAYS": "some",
    "SIZE": "-1",
    "SIZE|none": "-1",
    "SECONDS": "nan",
    "PORT": "65536",
    "TIME": "soon",
    "NAME": "latin",
    "URL|env|none": "collector",
    "NAME=COMMAND": "codex-acp",
    "NAME=PROXIES": "datetime",
}
CHAINS = ("agent", "proxy")


def samples(option: Option) -> list[str]:
    """Values that an option takes."""
    return SAMPLES.get(option.kind.metavar) or option.kind.metavar.split("|")


def refused(option: Option) -> str:
    """A value that an option refuses; empty: it takes any."""
    return "no-choice" if option.kind.choices else REFUSED.get(option.kind.metavar, "")


def flags(command: str) -> list[str]:
    """The switches of a command."""
    return [flag for r in options.of(command) if r.kind.read is None for flag in r.flags.split()]


def valued(command: str) -> list[Option]:
    """The options of a command that take a value."""
    return [row for row in options.of(command) if row.kind.read is not None]


def by_typer(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> Parsed | None:
    """The command line as typer reads it, or None where typer explains."""
    parsed: list[Parsed] = []

    def chain(one: Parsed) -> int:
        parsed.append(one)
        return 0

    monkeypatch.setattr(run, "chain", chain)
    code = app.main(arguments)
    assert code == (0 if parsed else 2)
    return parsed[0] if parsed else None


def test_every_row_is_a_field_of_the_options_or_of_the_command_line() -> None:
    own = {"c", "prompt", "cwd", "permissions", "fs", "timeout", "json"}
    own |= {"listen", "agent_login", "dry_run"}
    rows = [row for row in options.TABLE if {*row.commands} & {*ALL}]
    names = {row.name for row in rows} - {"dialect", "log", "project", "isolated"} - own
    assert names <= set(Options.__struct_fields__)
    flags = [flag for row in rows for flag in row.flags.split()]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize("command", CHAINS)
def test_both_read_every_option_alike(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [[flag] for flag in flags(command)]
    for row in valued(command):
        for flag in row.flags.split():
            for value in samples(row):
                lines += [[flag, value], [flag, value, "-v"], [f"{flag}={value}"]]
    lines += [[], ["datetime", "--"], ["-c", "grace=1", "-c", "grace=2"], ["-v", "--log", "error"]]
    lines += [[text for row in valued(command) for text in (row.flags, samples(row)[0])]]
    for line in lines:
        arguments = [command, *line, "datetime", "python x.py --flag", "demo"]
        fast_parsed = fast.parse(arguments)
        assert fast_parsed is not None, arguments
        assert fast_parsed == by_typer(arguments, monkeypatch), arguments


@pytest.mark.parametrize("command", CHAINS)
def test_both_refuse_the_same_values(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for row in valued(command):
        if value := refused(row):
            arguments = [command, row.flags, value, "demo"]
            assert fast.parse(arguments) is None
            assert by_typer(arguments, monkeypatch) is None
            assert f"invalid value `{value}` for `{row.flags}`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["proxy", "--"],
        ["agent", "demo", "--"],
        ["agent", "--log", "--", "demo"],
        ["agent", "--log"],
        ["agent", "--verbose=1", "demo"],
        ["agent", "--dialect", "acp", "demo"],
        ["agent", "--no-reload", "demo"],
        ["agent", "-cring=none", "demo"],
        ["agent", "--frob", "demo"],
        ["agent", "-h"],
    ],
)
def test_the_fast_parser_leaves_the_rest_to_typer(arguments: list[str]) -> None:
    assert fast.parse(arguments) is None


def test_options_may_follow_components(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = ["agent", "datetime", "demo", "-c", "isolation=inline", "-v"]
    before = ["agent", "-c", "isolation=inline", "-v", "datetime", "demo"]
    assert fast.parse(behind) == by_typer(behind, monkeypatch) == fast.parse(before) is not None


WITHOUT_TYPER: Final = """
import sys
from conductor import cli
assert cli.main(["exec", "demo", "what day is it?", "-c", "ring=none"]) == 0
print(*{"typer", "pydantic", "rich"} & set(sys.modules))
"""


def test_a_prompt_is_sent_without_typer() -> None:
    """A person waits for it, and typer takes longer to import than all else that it needs."""
    command = [sys.executable, "-c", WITHOUT_TYPER]
    ran = subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert (ran.returncode, ran.stdout) == (0, "what day is it?\n\n"), ran.stderr


@pytest.mark.parametrize("command", CHAINS)
def test_both_take_what_follows_two_dashes_as_one_command(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for before in ([], ["datetime"], ["-v", "datetime", "redact"]):
        arguments = [command, *before, "--", "sh", "-c", "a b,name=x", "--", "--log"]
        parsed = fast.parse(arguments)
        assert parsed is not None
        assert parsed.components[-1] == Written(["sh", "-c", "a b,name=x", "--", "--log"])
        assert parsed.components[:-1] == [word for word in before if word != "-v"]
        assert parsed == by_typer(arguments, monkeypatch)


@pytest.mark.parametrize("command", CHAINS)
def test_a_command_line_may_name_no_component(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fast.parse([command, "-v"]) == by_typer([command, "-v"], monkeypatch) is not None


@pytest.mark.parametrize(
    ("text", "bytes_"), [("1", 1), ("2k", 2048), ("3KiB", 3072), ("4mb", 4 << 20), ("1G", 1 << 30)]
)
def test_sizes(text: str, bytes_: int) -> None:
    assert option_table.size(text) == bytes_


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5M", "M", "1T", "\u0661", "1e3", " 1"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="a size is"):
        option_table.size(text)


@pytest.mark.parametrize(
    ("text", "base", "given"),
    [
        ("p.wasm", "p.wasm", []),
        ("p.wasm,allow=clock,name=a", "p.wasm", [("allow", "clock"), ("name", "a")]),
        ("a,b.wasm,config.x=", "a,b.wasm", [("config.x", "")]),
        ('p,config.x="a,b"', "p", [("config.x", '"a,b"')]),
        ('p,config.x="a,name=b",name=c', "p", [("config.x", '"a,name=b"'), ("name", "c")]),
        ('p,config.x="a\\",b"', "p", [("config.x", '"a\\",b"')]),
        ('p,config.x=["a","b"],cpu=1s', "p", [("config.x", '["a","b"]'), ("cpu", "1s")]),
        ('p,config.x={"a":1,"b":[2,3]}', "p", [("config.x", '{"a":1,"b":[2,3]}')]),
        ('p,allow="read:*.{a,b}"', "p", [("allow", '"read:*.{a,b}"')]),
        # A text that is no JSON ends at the comma; a word that is no option is the component's.
        ('p,config.x="a', "p", [("config.x", '"a')]),
        ('p,config.x="a"b,name=c', "p", [("config.x", '"a"b'), ("name", "c")]),
        ('p,config.x="a,b', 'p,config.x="a,b', []),
        ("p,config.x=a,b,name=c", "p,config.x=a,b", [("name", "c")]),
        ("python x.py --y=1,2", "python x.py --y=1,2", []),
        ("p,config.x=" + "[" * 100_000, "p", [("config.x", "[" * 100_000)]),
    ],
)
def test_where_options_begin_and_end(text: str, base: str, given: list[tuple[str, str]]) -> None:
    assert syntax.split(text) == (base, given)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("a", "a"),
        ('"a,b"', "a,b"),
        ('"5"', "5"),
        ("5", 5),
        ('["a","b"]', ["a", "b"]),
        ('{"a":1,"b":2}', {"a": 1, "b": 2}),
        ('"a', '"a'),
    ],
)
def test_values_with_commas_are_written_as_json(written: str, value: object) -> None:
    spec = catalog.resolve(f"passthrough,config.key={written},name=other")
    assert (spec.config, spec.name) == ({"key": value}, "other")


def test_other_options_may_be_quoted_too() -> None:
    spec = catalog.resolve('passthrough,allow="read:*.{a,b}",name="x"')
    assert (spec.grants, spec.name) == (frozenset({"read:*.{a,b}"}), "x")
    spec = catalog.resolve('passthrough,only=["context","clock"]')
    assert spec.policy.rights == ("context", "clock")


def test_text_in_a_json_object_stays_text() -> None:
    held = '{"component":"passthrough","config":{"a":"5","b":5,"c":"\\"x","d":"p,q"}}'
    assert catalog.resolve(held).config == {"a": "5", "b": 5, "c": '"x', "d": "p,q"}


@pytest.mark.parametrize("base", ["passthrough", "./nowhere.py", "nothing"])
def test_a_comma_without_quotes_is_explained(base: str) -> None:
    with pytest.raises(UsageError) as refused:
        catalog.resolve(f"{base},config.key=a,b")
    assert """as in '…,config.key="a,b"'""" in refused.value.hint
    assert "`config.key=a,b` is not read as an option" in refused.value.hint


def test_every_component_has_a_name_of_its_own() -> None:
    chain = ["demo,name=x", "demo,name=client", "demo,name=x-2", "demo,name=x"]
    assert [one.name for one in catalog.resolve_all(chain)] == ["x", "client-2", "x-2", "x-3"]
    assert catalog.resolve("demo,name=client").name == "client-2"


def test_a_name_that_comes_from_a_file_is_made_of_what_names_are_made_of(tmp_path: Path) -> None:
    for name in ("esc\x1b[31mred.py", "two\nlines.py"):
        (tmp_path / name).write_text("proxy = Proxy('x', rights={'observer': 'why'})")
        spec = catalog.resolve(msgspec.json.encode({"component": str(tmp_path / name)}).decode())
        assert re.fullmatch(r"[\w-]+", spec.name)
