"""`-c KEY=VALUE`: the command line sets the keys of a `conductor.toml`, and is read like one."""

import json
from pathlib import Path
from typing import Any

import pytest

from conductor.cli import app, configured, fast, report
from conductor.spec import option_layers
from conductor.spec.option_table import Option
from tests.cli.test_parsers import refused, samples
from tests.harness.process.command import Ran, conductor, environment

COMMANDS: Any = app.command().commands
KEYS = [row for row in option_layers.ROWS.values() if row.configures("agent")]

PEER = '[options.peer]\nb = "demo"\n'
FILE = """
[options]
log = "error"
[options.peer]
b = "demo"
[components.day]
component = "datetime"
config.template = "{now}"
[chains.work]
components = ["day", "demo"]
options.ring = "none"
"""


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is trusted, and the current folder."""
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "conductor.toml").write_text(FILE)
    monkeypatch.chdir(folder)
    assert conductor("trust", ".").code == 0
    return folder


@pytest.fixture(autouse=True)
def _text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error of this very process stays text, whatever an option says."""
    monkeypatch.setattr(report, "log_as_json", lambda: None)


def applied(*words: str) -> dict[str, Any]:
    """The values of a command line with `-c`."""
    parsed = fast.parse(["agent", *(each for word in words for each in ("-c", word)), "demo"])
    assert parsed is not None
    return configured.applied(parsed).values


def shown(*arguments: str) -> Ran:
    """The configuration with these words."""
    return conductor("config", "show", "--origin", *arguments, env=environment())


def word_of(row: Option, value: str) -> str:
    """How `-c` sets a key."""
    return f"{row.key}.{value}" if row.kind.many else f"{row.key}={value}"


def test_every_key_can_be_set_and_as_a_variable_sets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for row in KEYS:
        if row.kind.many:
            continue
        switches = [("1", "true"), ("0", "false")]
        pairs = switches if row.kind.read is None else [(one, one) for one in samples(row)]
        for text, typed in pairs:
            with monkeypatch.context() as patch:
                patch.setenv(row.variable, text)
                by_variable = configured.applied(fast.parse(["agent", "demo"])).values[row.name]  # type: ignore[arg-type]
            assert applied(word_of(row, typed))[row.name] == by_variable, (row.key, typed)
    assert applied('peer.a=["datetime", "demo"]', "peer.b=codex")["peer"] == (
        'a=["datetime","demo"]', "b=codex",
    )  # fmt: skip


def test_every_key_refuses_what_its_option_refuses(tmp_path: Path) -> None:
    env = environment(XDG_CONFIG_HOME=str(tmp_path))
    rows = [row for row in KEYS if refused(row) and not row.kind.many]
    for row in rows[:: max(1, len(rows) // 4)]:
        ran = conductor("exec", "-c", word_of(row, refused(row)), "demo", "hi", env=env)
        start = f"command line, -c {row.key}: `{row.key}` cannot be"
        assert not row.configures("exec") or start in ran.err, row.key


@pytest.mark.parametrize(
    ("word", "text", "hint"),
    [
        ("frob=1", "command line, -c frob: there is no option `frob`", "options are: "),
        ("frob=1", "there is no option `frob`", "tables are: options, components, chains, serve"),
        ("linger=60", "there is no option `linger`", "did you mean `serve.linger`?"),
        ("serv.linger=60", "-c serv.linger: there is no option `serv`", "`serve.linger`?"),
        ("component.day.limit.a=1", "there is no option `component`", "`components.day.limit.a`?"),
        ("datetime.template=x", "there is no option `datetime`", "`datetime,config.KEY=VALUE`"),
        ("limits.memory=1", "there is no option `limits`", "`datetime,limit.KEY=VALUE`"),
        ("lokced=true", "-c lokced: there is no option `lokced`", "`locked`?"),
        ("locked=yes", "`locked` cannot be `yes`", "true or false"),
        ("audit.x=1", "-c audit.x: `audit` cannot be", "a path is a text"),
        ("trace=", "`trace` cannot be ``", "not empty"),
        ("choose=1", "`-c` cannot set `choose`", "name the chain"),
        ("choose.use=x", "`-c` cannot set `choose`", "name the chain"),
        ("required-version=>=1", "`-c` cannot set `required-version`", "a file"),
        ("trust=/", "`-c` cannot set `trust`", "conductor trust PATH"),
        ("audit", "`-c audit` is not KEY=VALUE", "-c audit=audit.jsonl"),
        ("=x", "is not KEY=VALUE", ""),
        ("a b=x", "is not KEY=VALUE", ""),
        ("a\nb=x", "is not KEY=VALUE", ""),
        ("components.day=1", "-c components.day: `components.day` should be a table", "keys"),
        ("components.day.frob=2", "-c components.day.frob: a component has no key `frob`", ""),
        ("components.a b.x=2", "is not KEY=VALUE", ""),
        ("chains.new.options.ring=none", "-c chains.new.options.ring: `components` is missing", ""),
        ("chains.work.options=1", "-c chains.work.options: `options` should be a table", ""),
        ("serve.frob=1", "there is no option `frob` of `serve`", "linger"),
        ("serve.linger=x", "-c serve.linger: `linger` cannot be `x`", "seconds"),
        ("json=true", "`json` is for the command line only", ""),
        ("project=/", "`project` is for the command line only", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_worded_as_one_of_a_file(here: Path, word: str, text: str, hint: str) -> None:
    del here
    shown("-c", word).assert_error(2, text, hint)


@pytest.mark.parametrize(
    ("word", "command", "text"),
    [
        ("timeout=3", "agent", "`timeout` is an option of `conductor exec`"),
        (
            "drain=3",
            "exec -p hi",
            "`drain` is an option of `conductor agent` and `conductor proxy`",
        ),
        ("fs=read", "lock", "`fs` is an option of `conductor exec` and `conductor chat`"),
        ("serve.linger=3", "agent", "`serve.linger` is an option of `conductor serve`"),
    ],
)
def test_an_option_of_another_command_is_refused(
    here: Path, word: str, command: str, text: str
) -> None:
    del here
    ran = conductor(*command.split(), "-c", word, "datetime", "demo")
    ran.assert_error(2, f"command line, -c {word.partition('=')[0]}: {text}", "leave it out here")


def test_what_excludes_each_other(here: Path) -> None:
    del here
    ran = conductor("exec", "--locked", "-c", "locked=false", "demo", "hi")
    ran.assert_error(2, "`--locked` and `-c locked` set the same", "give one of them")
    shown("-c", "peer=1", "-c", "peer.a=x").assert_error(2, "`-c peer.a` is below `peer`")
    conductor("exec", "--ring", "none", "demo", "hi").assert_error(2, "--ring", "`-c ring=VALUE`")
    conductor("exec", "--no-locked", "demo", "hi").assert_error(2, "`-c locked=false`")
    conductor("exec", "--no-ring", "demo", "hi").assert_error(2, "`-c ring=none`")
    conductor("exec", "--no-control", "demo", "hi").assert_error(2, "`-c control=off`")
    conductor("exec", "--no-cache", "demo", "hi").assert_error(2, "`-c cache=VALUE`")
    conductor("serve", "--linger", "5", "demo").assert_error(2, "`-c serve.linger=VALUE`")


def test_the_origin_is_named_and_the_rest_of_the_file_stays(here: Path) -> None:
    words = (
        "audit=a.jsonl", "peer.a=x y", "components.day.config.template=hi", "log=info",
        "chains.work.options.locked=true", 'chains.other.components=["demo"]', "serve.linger=5",
    )  # fmt: skip
    ran = shown(*(each for word in words for each in ("-c", word)))
    assert ran.code == 0, ran.err
    line = f"{here / 'conductor.toml'}, line"
    for text in (
        f'audit = "{here / "a.jsonl"}"  (command line, -c audit)',
        'log = "info"  (command line, -c log)',
        'peer = {"b":"demo","a":"x y"}  (command line, -c peer.a)',
        f'{{"template":"hi"}}}}  ({line} 6; command line, -c components.day.config.template)',
        f'option ring = "none"  ({line} 11)',
        "option locked = true  (command line, -c chains.work.options.locked)",
        '"demo"  (command line, -c chains.other.components)',
        'linger = "5"  (command line, -c serve.linger)',
    ):
        assert text in ran.out, text
    isolated = shown("--isolated", "-c", "ring=none", "--json").out
    assert list(json.loads(isolated)["options"]) == ["ring"]
    assert json.loads(isolated)["files"] == []


def test_a_chain_runs_with_it_and_paths_are_of_the_current_folder(here: Path) -> None:
    (here / "sub").mkdir()
    (here / "conductor.toml").write_text(FILE.replace(PEER, ""))
    assert conductor("trust", ".").code == 0
    settings = here / "sub" / "s.json"
    settings.write_text('{"template": "[now it is then]"}')
    words = ("components.day.config=s.json", "trace=t.jsons", "log-file=none", "ring=none")
    ran = conductor(
        "exec", *(each for word in words for each in ("-c", word)), "work", "-p", "day?",
        cwd=here / "sub",
    )  # fmt: skip
    assert (ran.code, "[now it is then]" in ran.out) == (0, True), ran.err
    assert (here / "sub" / "t.jsons").exists()


def test_later_words_count_and_a_value_is_toml_or_text(here: Path) -> None:
    del here
    values = applied("trace=2026", 'audit="a b"', "grace=1", "grace=2.5", "log-file=none")
    assert [values[name] for name in ("trace", "audit", "grace", "log_file")] == [
        "2026", "a b", 2.5, "none",
    ]  # fmt: skip


def test_few_options_are_flags() -> None:
    for command, most in (("agent", 14), ("exec", 16)):
        own = [p for p in COMMANDS[command].params if p.opts[0].startswith("--")]
        assert len(own) <= most
        assert not [p for p in own if p.opts[0].startswith("--no-") or p.secondary_opts]
