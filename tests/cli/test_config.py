"""`conductor config` as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.configurations import Place, place

USER = """[options]
log = "info"
audit = "a.jsonl"

[components.own]
command = "python"
args = ["p.py", "--token", "hush-1"]
env = { A_KEY = { secret = "env:A_KEY" }, B = "hush-2" }
config.password = "hush-3"
config.api_key = { secret = "file:~/key" }

[chains.work]
components = [
  "datetime,config.token=hush-4",
  { component = "own", name = "x", when.dependency = "y" },
  '{"component": "demo", "config": {"secret": "hush-5"}}',
  "python q.py --api-key=hush-6",
  "demo",
]
options.grace = 1

[[choose]]
use = "work"
when = { file = "*.rs" }
"""


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return place(tmp_path, monkeypatch)


def shown(here: Place, *arguments: str, **variables: str) -> dict[str, Any]:
    """The output of `conductor config show --json`."""
    ran = here.run("config", "show", "--json", *arguments, cwd=None, **variables)
    assert ran.code == 0, ran
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_nothing_is_configured(here: Place) -> None:
    ran = here.run("config", "show")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"files:\n  user: {here.user_file} (absent)\n  project: {here.project_file} (absent)\n"
    )
    assert here.run("config", "show", "--isolated").out == "files: none are read\n"
    ran = here.run("config", "check")
    assert (ran.code, ran.out, ran.err) == (0, "ok: there is no file\n", "")


def test_each_value_is_shown_with_its_place(here: Place) -> None:
    here.user(USER)
    here.trusted('[options]\nlog = "error"\n[components.own]\ncomponent = "demo"')
    out = here.run("config", "show", "--origin", CONDUCTOR_STALL="5").out
    for line in (
        f"  user: {here.user_file}\n",
        f"  project: {here.project_file}\n",
        f'  log = "error"  ({here.project_file}, line 2)\n',
        f'  audit = "{here.user_file.parent}/a.jsonl"  ({here.user_file}, line 3)\n',
        '  stall = "5"  (CONDUCTOR_STALL)\n',
        f'  own = {{"component":"demo"}}  ({here.project_file}, line 3)\n',
        f"  work:  ({here.user_file}, line 12)\n",
        f'    "demo"  ({here.user_file}, line 18)\n',
        f'"name":"x"}} when {{"dependency":"y"}}  ({here.user_file}, line 15)\n',
        f"    option grace = 1  ({here.user_file}, line 20)\n",
        f'  work when {{"file":"*.rs"}}  ({here.user_file}, line 22)\n',
    ):
        assert line in out
    assert "line" not in here.run("config", "show").out


def test_programs_get_the_same(here: Place) -> None:
    here.user(USER)
    here.project_file.write_text("[options]\nlog = 'error'")
    found = shown(here, CONDUCTOR_LOG="debug")
    assert found["folder"] == str(here.project)
    assert found["files"] == [
        {"kind": "user", "path": str(here.user_file), "state": "read"},
        {"kind": "project", "path": str(here.project_file), "state": "untrusted"},
    ]
    assert found["options"]["log"] == {"value": "debug", "origin": "CONDUCTOR_LOG"}
    assert found["chains"]["work"]["components"][4] == {
        "value": "demo",
        "here": str(here.user_file.parent),
        "origin": f"{here.user_file}, line 18",
    }
    assert found["chains"]["work"]["components"][1]["when"] == {"dependency": "y"}
    assert found["choices"][0]["when"] == {"file": "*.rs"}
    assert shown(here, "--isolated", CONDUCTOR_LOG="debug")["options"] == {}


def test_secrets_are_never_shown_and_references_are(here: Place) -> None:
    here.user(USER)
    for arguments in (["--origin"], ["--json"]):
        ran = here.run("config", "show", *arguments, A_KEY="hush-7")
        assert "hush" not in ran.out + ran.err
        assert "env:A_KEY" in ran.out
        assert "file:~/key" in ran.out
    assert "hush" not in here.run("config", "check").out


def test_a_secret_where_a_reference_belongs_is_not_shown(here: Place) -> None:
    here.user(
        "[components.a]\ncomponent = 'demo'\nconfig.password = {secret = 'hush'}\n"
        "[components.b]\ncommand = 'sh'\nenv.X = {secret = 'hush'}"
    )
    for command in ("show", "check"):
        ran = here.run("config", command)
        assert "hush" not in ran.out + ran.err
    ran.assert_error(1, "line 3: `config.password` of `demo`: a secret is `env:NAME`")


def test_a_broken_configuration_is_not_shown(here: Place) -> None:
    here.user("[chains.a]\ncomponents = []\noptions.lgo = 1")
    here.run("config", "show").assert_error(2, "line 3: there is no option `lgo`", "`log`")


def test_every_mistake_of_every_file_is_reported(here: Place) -> None:
    here.user(
        "[options]\nlgo = 1\nreload = 1\n[option]\n[components.a]\ncommand = 'no-such-program'\n"
        "[components.b]\ncomponent = 'demo'\nalow = 'clock'\n[chains.c]\ncomponents = [\n"
        "'@nothing',\n'./no.wasm',\n'demo']\noptions.stall = 'x'\n[chains.d]\n"
    )
    here.project_file.write_text("[[choose]]\nuse = 'wark'\n[chains.work]\ncomponents = ['@work']")
    ran = here.run("config", "check", CONDUCTOR_GRACE="soon")
    assert ran.code == 1
    user, project = here.user_file, here.project_file
    for text, hint in (
        (f"{user}, line 2: there is no option `lgo`", "did you mean `log`?"),
        (f"{user}, line 3: `reload` cannot be `1`", "a switch is true or false"),
        (f"{user}, line 4: a configuration has no key `option`", "did you mean `options`?"),
        (f"{user}, line 6: `no-such-program` is neither", "install the program"),
        (f"{user}, line 9: a component has no key `alow`", "did you mean `allow`?"),
        (f"{user}, line 12: there is no chain `nothing`", "chains are: "),
        (f"{user}, line 13: no such module: `{user.parent}/no.wasm`", "check the path"),
        (f"{user}, line 15: `stall` cannot be `x`", "a time is a number of seconds"),
        (f"{user}, line 16: `components` is missing", "add `components"),
        (f"{project}, line 1: there is no chain `wark`", "did you mean `work`?"),
        (f"{project}, line 3: the chain `work` names itself: work → work", "take one"),
        ("CONDUCTOR_GRACE: `grace` cannot be `soon`", "a time is a number of seconds"),
    ):
        assert f"error: {text}" in ran.err
        assert hint in ran.err.partition(f"error: {text}")[2].partition("error: ")[0]
    assert ran.err.count("error: ") == 12


def test_the_options_of_a_server_are_checked_too(here: Place) -> None:
    here.user('[serve]\nlingr = 1\nlinger = "x"\nchain = ["no"]\ntls-key = "key.pem"\n')
    ran = here.run("config", "check")
    assert ran.code == 1
    for line, text in (
        (2, "there is no option `lingr` of `serve`"),
        (3, "`linger` cannot be `x`"),
        (4, "there is no chain `no`"),
    ):
        assert f"error: {here.user_file}, line {line}: {text}" in ran.err
    told = f"`--tls-key` means nothing without `--tls-cert` ({here.user_file}, line 5)"
    assert f"note: {told}" in ran.out  # a command line may name the certificate


def test_an_untrusted_file_is_checked_and_runs_nothing(here: Place) -> None:
    program = here.project / "run.sh"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    here.project_file.write_text('[chains.a]\ncomponents = ["./run.sh", "demo"]')
    ran = here.run("config", "check")
    assert (ran.code, ran.err) == (0, "")
    assert f"note: {here.project_file} is ignored: you have not trusted it" in ran.out
    assert f"ok: {here.project_file}\n" in ran.out
    assert not (here.project / "ran").exists()


def test_what_hides_what_is_shown(here: Place) -> None:
    here.user("components.echo.component = 'passthrough'\ncomponents.x.component = 'demo'")
    here.trusted("components.x.component = 'context'\n[chains.datetime]\ncomponents = ['demo']")
    ran = here.run("config", "check")
    assert (ran.code, ran.err) == (0, "")
    user, project = here.user_file, here.project_file
    assert f"the component `x` ({project}, line 1) hides that of {user}, line 2\n" in ran.out
    assert "`path:echo` means the program\n" in ran.out
    assert f"chain `datetime` of the configuration ({project}, line 2) hides the bundled" in ran.out


def test_a_check_says_which_chains_would_not_start(here: Place) -> None:
    here.user(
        "[chains.fine]\ncomponents = ['datetime', 'demo']\n"
        "[chains.part]\ncomponents = ['datetime']\n"
        "[chains.bare]\ncomponents = ['./p.sh', 'demo']\noptions.require-sandbox = true\n"
        "[chains.other]\ncomponents = [{component = 'demo', when.file = '*.rs'}]\n"
    )
    program = here.user_file.parent / "p.sh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    ran = here.run("config", "check", CONDUCTOR_LOCKED="1")
    assert (ran.code, ran.err) == (0, "")
    for name in ("fine", "part", "bare"):
        assert f"note: `@{name}` would not start here: no lock file `conductor.lock`" in ran.out
    assert "`@other`" not in ran.out
    ran = here.run("config", "check")
    assert ran.out.count("would not start") == 1
    assert (
        "note: `@bare` would not start here: proxy `p` ("
        f"{program}) is not sandboxed, and `require-sandbox` is set ({here.user_file}, line 7)\n"
    ) in ran.out


def test_one_file_of_any_name(here: Place) -> None:
    here.user("broken")
    path = here.project / "other.toml"
    path.write_text("[chains.a]\ncomponents = ['./a.wasm', 'demo']")
    ran = here.run("config", "check", "other.toml")
    ran.assert_error(1, f"{path}, line 2: no such module: `{here.project}/a.wasm`")
    path.write_text("chains.a.components = ['demo']")
    assert here.run("config", "check", "other.toml").out == f"ok: {path}\n"
    here.run("config", "check", "nowhere.toml").assert_error(1, "No such file")
    here.run("config", "check", ".").assert_error(1, "it is a folder")


def test_a_file_that_cannot_be_read_does_not_hide_the_mistakes_of_the_other(here: Place) -> None:
    here.user_file.parent.mkdir(parents=True)
    here.user_file.symlink_to("nowhere")
    here.project_file.write_text("rubbish")
    ran = here.run("config", "check")
    assert ran.code == 1
    assert f"error: cannot read {here.user_file}: " in ran.err
    assert f"error: {here.project_file}, line 1: " in ran.err
