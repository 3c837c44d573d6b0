"""Files of configuration as a run meets them: read, ignored or refused."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from conductor.spec.config.reading import MOST
from conductor.spec.paths import components_folder
from tests.cli.configurations import Place, place

TURN: Final = ("exec", "demo", "-p", "hi")


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return place(tmp_path, monkeypatch)


def test_a_trusted_project_decides_how_a_chain_runs(here: Place) -> None:
    here.trusted('[options]\naudit = "audit.jsonl"')
    inner = here.project / "inner"
    inner.mkdir()
    ran = here.run(*TURN, cwd=inner)
    assert (ran.code, ran.out, ran.err) == (0, "hi\n", "")
    assert (here.project / "audit.jsonl").is_file()
    assert not os.listdir(inner)


def test_the_users_file_may_be_a_link(here: Place) -> None:
    kept = here.project / "kept.toml"
    kept.write_text('[options]\naudit = "audit.jsonl"')
    here.user_file.parent.mkdir(parents=True)
    here.user_file.symlink_to(kept)
    assert here.run(*TURN).code == 0
    assert here.user_file.with_name("audit.jsonl").is_file()


def test_an_untrusted_project_is_ignored_and_reported_once(here: Place) -> None:
    here.project_file.write_text('[options]\naudit = "audit.jsonl"\nrubbish')
    ran = here.run(*TURN)
    assert (ran.code, ran.out) == (0, "hi\n")
    assert ran.err == (
        f"warning: conductor: {here.project_file} is ignored: you have not trusted it, or it has "
        f"changed since; read it, then `conductor trust {here.project}`\n"
    )
    assert os.listdir(here.project) == ["conductor.toml"]
    assert here.run(*TURN, "--log", "error").err == ""
    assert here.run(*TURN, "--isolated").err == ""
    assert here.run(*TURN, CONDUCTOR_ISOLATED="1").err == ""


def test_an_untrusted_project_is_reported_once_by_a_test_of_many_parts(here: Place) -> None:
    shutil.copytree(components_folder() / "datetime", here.project / "p")
    trace = "p/test-scenarios/turn.jsons"
    assert here.run("exec", "./p", "demo", "-p", "hi", "--trace", trace).code == 0
    here.project_file.write_text("rubbish")
    ran = here.run("test", "p")
    assert ran.code == 0, ran.err
    assert f"passed  {trace}\n" in ran.out
    assert "datetime: " in ran.out  # what came of its rules
    assert ran.err.count("is ignored: ") == 1


def test_a_project_that_has_changed_is_not_trusted_any_more(here: Place) -> None:
    here.trusted('[options]\naudit = "audit.jsonl"')
    with here.project_file.open("a") as file:
        file.write("# more\n")
    assert "is ignored" in here.run(*TURN).err
    assert not (here.project / "audit.jsonl").exists()


def test_what_is_trusted_in_one_place_is_not_in_another(here: Place) -> None:
    text = '[options]\naudit = "audit.jsonl"'
    here.trusted(text)
    copy = here.project / "copy"
    copy.mkdir()
    (copy / "conductor.toml").write_text(text)
    assert "is ignored" in here.run(*TURN, cwd=copy).err


def test_a_store_that_cannot_be_read_trusts_nothing(here: Place) -> None:
    here.trusted('[options]\naudit = "audit.jsonl"')
    store = Path(os.environ["XDG_STATE_HOME"]) / "conductor" / "trust.json"
    store.write_text("broken")
    ran = here.run(*TURN)
    assert "is ignored: what you trust cannot be read" in ran.err
    assert not (here.project / "audit.jsonl").exists()


def test_a_name_of_a_folder_does_nothing_to_the_terminal(here: Place) -> None:
    folder = here.project / "a\x1b[31m\nwarning: b"
    folder.mkdir()
    (folder / "conductor.toml").write_text("")
    ran = here.run(*TURN, cwd=folder)
    assert ran.code == 0
    assert "\x1b" not in ran.err
    assert all(line.startswith(("warning: conductor: ", "  | ")) for line in ran.err.splitlines())


def fifo(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def unreadable(path: Path) -> None:
    path.touch()
    path.chmod(0)


def loop(path: Path) -> None:
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)


def latin(path: Path) -> None:
    path.write_bytes("# ä".encode("latin-1"))


def dots(path: Path) -> None:
    path.write_text("a" + ".a" * 100_000 + " = 1")


def nested(path: Path) -> None:
    path.write_text("a = " + "[" * 100_000)


UNREADABLE: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "fifo": (fifo, "it is no ordinary file"),
    "folder": (Path.mkdir, "it is a folder"),
    "huge": (huge, f"a configuration is at most {MOST:,} bytes"),
    "loop": (loop, ""),
    "dangling": (dangling, ""),
    "socket": (a_socket, ""),
}
"""The kinds of thing at conductor.toml -> the words of the error."""

WRONG: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "latin": (latin, "is no text in UTF-8"),
    "dots": (dots, "too many dots"),
    "nested": (nested, "nests too deeply"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("whose", ["user", "project"])
def test_what_cannot_be_read_is_an_error(
    kind: str, whose: str, here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, said = UNREADABLE[kind]
    path = here.user_file if whose == "user" else here.project_file
    path.parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(path.parent)  # a socket's path has to be short
    make(path)
    here.run(*TURN).assert_error(2, str(path), said, "--isolated" if kind != "huge" else "")
    assert here.run(*TURN, "--isolated").code == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
@pytest.mark.parametrize("whose", ["user", "project"])
def test_a_file_without_the_right_to_read_it_is_an_error(whose: str, here: Place) -> None:
    path = here.user_file if whose == "user" else here.project_file
    path.parent.mkdir(parents=True, exist_ok=True)
    unreadable(path)
    here.run(*TURN).assert_error(2, f"cannot read {path}: Permission denied")


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_configuration_is_an_error_once_it_is_trusted(kind: str, here: Place) -> None:
    make, said = WRONG[kind]
    here.user_file.parent.mkdir(parents=True)
    make(here.user_file)
    here.run(*TURN).assert_error(2, f"error: {here.user_file}", said)
    make(here.project_file)
    here.user_file.unlink()
    ran = here.run(*TURN)
    assert (ran.code, ran.out) == (0, "hi\n")
    assert "is ignored" in ran.err


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("a = \n", "line 1: Invalid value", "docs/configuration.md"),
        ("\n[option]\nlog = 'x'", "line 2: a configuration has no key `option`", "`options`"),
        ("options = 1", "line 1: `options` should be a table", ""),
        ("[chains.x]\ncomponent = []", "line 2: [chains.x] has no key `component`", "components"),
        ("[chains.x]\ncomponents = 'a'", "line 2: `chains.x.components` should be", ""),
        ("[chains.x]\ncomponents = [\n'a',\n1]", "line ", ""),
        ("[chains.x]", "line 1: `components` is missing", ""),
        ("\n[components.'a b']", "line 2: `a b` cannot be a name", ""),
        ("[[choose]]\nuse = 'a'\nwhen.fil = 'b'", "line 3: [choose.when] has no key", "`file`"),
        *(
            (f"[[choose]]\nuse = 'a'\nwhen.file = '{file}'", "line 3: `file` of `when`", "*.tf")
            for file in ("", "/etc/passwd", "../x", "a/../../x")
        ),
        ("[[choose]]\nuse = 'a'\nwhen.dependency = ''", "line 3: `dependency` of `when`", ""),
        ("components.a.when = {}", "line 1: a component has no key `when`", "in a chain it says"),
        *(
            (
                f"[chains.a]\ncomponents = [\n'x',\n{{component = 'b', when.{when}}}]",
                f"line 4: {error}",
                hint,
            )
            for when, error, hint in (
                ("fil = 'x'", "`when` has no key `fil`", "`file`"),
                ("dependency = 1", "`dependency` should be", ""),
                ("file = '../x'", "`file` of `when`: ", "*.tf"),
                ("dependency = ''", "`dependency` of `when` is the name of a package", ""),
            )
        ),
        ("chains.a.components = [{component = 'b', when = 1}]", "line 1: ", ""),
        (
            "[chains.a]\ncomponents = [\n{component = 'b', profile = ['clock', 'kv']}]",
            "line 3: a component has no key `profile`: rights are words of `only`",
            'hint: write `only = "clock+storage"`',
        ),
        (
            "[components]\na.grant = 'files:x'",
            "line 2: a component has no key `grant`: rights are words of",
            'hint: write `allow = "read:x"`',
        ),
        ("required_version = '1'", "has no key `required_version`", "`required-version`"),
        ("required-version = 'new'", "line 1: `required-version` cannot be `new`", ">=0.3"),
        ("required-version = 1", "line 1: `required-version` should be", ""),
    ],
)
def test_a_mistake_is_shown_with_its_line(text: str, error: str, hint: str, here: Place) -> None:
    here.user(text)
    here.run(*TURN).assert_error(2, f"error: {here.user_file}", error, hint)


def test_a_lock_of_nothing_names_the_chains(here: Place) -> None:
    here.trusted("[chains]\nwork.components = ['datetime', 'demo']\na.components = ['demo']")
    for words in (("lock",), ("lock", "--check")):
        here.run(*words).assert_error(
            2, "nothing to lock", "`conductor lock COMPONENT…`", "@a, @work"
        )
    assert here.run("lock", "@work").code == 0


def test_a_byte_order_mark_is_no_mistake(here: Place) -> None:
    here.user("\ufeff[options]\r\naudit = 'a'\r\n")
    assert here.run(*TURN).code == 0
    assert here.user_file.with_name("a").is_file()


def test_a_file_for_another_version_is_refused_before_what_only_that_one_knows(
    here: Place,
) -> None:
    here.user('new-key = 1\nrequired-version = ">=900"')
    ran = here.run(*TURN)
    version = here.run("--version").out.split()[1]
    ran.assert_error(
        2, f"line 2: it is written for conductor >=900, and this is conductor {version}"
    )
    here.user(f'required-version = "=={version}"')
    assert here.run(*TURN).code == 0


def test_an_editor_gets_the_mistake_as_an_answer(here: Place) -> None:
    here.user("options.lgo = 1")
    from tests.harness.process.command import conductor

    request = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
    ran = conductor("agent", "demo", stdin=request)
    assert ran.code == 2
    assert "line 1: there is no option `lgo`" in ran.out
    assert "did you mean `log`?" in ran.out


def test_guests_run_in_this_process_if_a_file_says_so(here: Place) -> None:
    here.user('options.isolation = "inline"')
    ran = here.run("exec", "passthrough", "demo", "-p", "hi")
    assert (ran.code, ran.out, ran.err) == (0, "hi\n", "")


def test_every_command_reads_names_alike(here: Place) -> None:
    here.trusted(
        '[options]\nisolation = "separate"\n'
        '[components.mine]\ncomponent = "passthrough"\nonly = ["observer"]\n'
        '[chains.work]\ncomponents = ["mine", "demo"]'
    )
    assert "observer" in here.run("inspect", "mine").out
    ran = here.run("lock", "work")
    assert (ran.code, ran.err) == (0, "")
    text = (here.project / "conductor.lock").read_text()
    assert 'name = "mine"' in text
    assert 'isolation = "separate"' in text
    assert here.run("exec", "--locked", "work", "-p", "hi").out == "hi\n"
    assert here.run("lock", "--check", "work").code == 0
    here.run("lock", "--isolated", "work").assert_error(2, "`work` is neither a component nor")
    assert here.run("exec", "--locked", "--isolated", "passthrough", "demo", "-p", "hi").code == 2


# -- refusals --------------------------------------------------------------------------------------

A: Final = '[components.a]\ncomponent = "datetime"\n'
SERVE: Final = "[serve]\n"
OPTIONS: Final = "[options]\n"
CHAIN: Final = ("agent", "--dry-run", "datetime", "demo")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (A + 'only = ["bogus"]', ("exec", "a", "demo", "-p", "hi")),
        (A + "limits = {cpu_ms = 0}", ("exec", "a", "demo", "-p", "hi")),
        (A + "config = {zone = 1}", ("exec", "a", "demo", "-p", "hi")),
        (A + 'config = "/nowhere.json"', ("exec", "a", "demo", "-p", "hi")),
        (A + "quiet = 1", ("agent", "--dry-run", "a", "demo")),
        (A + 'allow = ["peer:x"]', ("agent", "--dry-run", "a", "demo")),
        (OPTIONS + "locked = true", CHAIN),
        (OPTIONS + 'lock-file = "x.lock"', CHAIN),
        (OPTIONS + 'audit = "/nowhere/a.jsonl"', ("exec", "demo", "-p", "hi")),
        (OPTIONS + 'trace = "/nowhere/t.jsons"', ("exec", "demo", "-p", "hi")),
        (OPTIONS + "propagate = true", ("exec", "demo", "-p", "hi")),
        (OPTIONS + 'peer.r = "demo"', CHAIN),
        (OPTIONS + 'peer.demo = "cat"', ("agent", "--dry-run", "datetime,allow=peer:demo", "demo")),
        (
            OPTIONS + 'peer.r = "cat"\nbranch.demo = "passthrough"',
            ("agent", "--dry-run", "datetime,allow=peer:r", "demo"),
        ),
        (OPTIONS + "prometheus = 1", ("serve", "demo")),
        (SERVE + 'oidc-issuer = "x"', ("serve", "demo")),
        (
            '[components.a]\ncomponent = "wss://x.example"\ntoken = "env:NO"',
            ("exec", "a", "-p", "hi"),
        ),
        (
            '[components.a]\ncomponent = "wss://x.example"\nca = "/nowhere"',
            ("exec", "a", "-p", "hi"),
        ),
        (
            '[components]\na = {command = "cat", env = {K = {secret = "env:NO"}}}',
            ("exec", "a", "demo", "-p", "hi"),
        ),
        (
            '[components.a]\ncomponent = "cache"\nconfig.match = "("',
            ("exec", "a", "demo", "-p", "hi"),
        ),
        (OPTIONS + "require-sandbox = true", ("agent", "--dry-run", "cat", "demo")),
        (SERVE + 'chain = ["q"]', ("serve",)),
        (SERVE + 'listen = ["ws://0.0.0.0:0"]', ("serve", "demo")),
        (SERVE + 'tls-cert = "/nowhere"', ("serve", "demo")),
        (SERVE + 'tls-key = "/nowhere"', ("serve", "demo")),
        (SERVE + 'oidc-audience = "x"', ("serve", "demo")),
        (SERVE + 'tokens = "/nowhere"', ("serve", "demo")),
        (SERVE + 'origin = ["x"]', ("serve", "demo")),
    ],
    ids=lambda value: value.splitlines()[-1] if isinstance(value, str) else "",
)
def test_a_refusal_names_the_line_that_set_what_it_refuses(
    text: str, words: tuple[str, ...], here: Place
) -> None:
    here.user(text)
    ran = here.run(*words)
    assert ran.code != 0
    refusal = ran.err.partition("hint:")[0]
    assert f"{here.user_file}, line {text.count(chr(10)) + 1}" in refusal, ran.err


@pytest.mark.parametrize(
    ("option", "warning"),
    [
        ('log-file = "/nowhere/x"', "there is no log file: `/nowhere/x`: "),
        ('metrics = "/nowhere/x"', "metrics are not written to /nowhere/x: "),
        ('cache = "/dev/null/x"', "each run compiles its modules anew, "),
    ],
)
def test_a_warning_names_the_line_that_set_what_it_is_about(
    option: str, warning: str, here: Place
) -> None:
    here.user(OPTIONS + option)
    ran = here.run("exec", "datetime", "demo", "-p", "hi")
    assert ran.code == 0
    (line,) = (line for line in ran.err.splitlines() if warning in line)
    assert line.endswith(f" ({here.user_file}, line 2)")
    typed = here.run("exec", "-c", option.replace(" ", ""), "datetime", "demo", "-p", "hi")
    (line,) = (line for line in typed.err.splitlines() if warning in line)
    assert "(command line" not in line
