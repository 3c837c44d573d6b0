"""`conductor add`, `list`, `update` and `remove`, through the command line."""

import io
import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.cli import app
from conductor.spec import installed as installed_
from conductor.spec.paths import components_folder
from tests.cli.configurations import Place, place
from tests.harness.process.command import Ran, Running
from tests.packages.servers import Server, answer, serving

DATE = "<current-date"


class Here(Place):
    """A project with a stranger's component, and a user without configuration."""

    capsys: pytest.CaptureFixture[str]

    def do(self, *arguments: str) -> Ran:
        """The result of a command line in this process: most of the time goes into starting another
        one."""
        self.capsys.readouterr()
        code = app.main(list(arguments))
        said = self.capsys.readouterr()
        for fd in installed_.held.values():
            os.close(fd)
        installed_.held.clear()
        return Ran(code, said.out, said.err)


@pytest.fixture(name="here")
def _here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Here:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    made = place(tmp_path, monkeypatch)
    stranger(made.project / "weather")
    here = Here(made.home, made.project)
    object.__setattr__(here, "capsys", capsys)
    return here


def stranger(folder: Path, version: str = "1.0", more: str = "", rights: str = "") -> Path:
    """A component that wants the clock."""
    shutil.copytree(components_folder() / "datetime", folder, dirs_exist_ok=True)
    manifest = (components_folder() / "datetime" / "component.toml").read_text()
    text = manifest.replace('name = "datetime"', 'name = "weather"')
    text = text.replace('version = "0.1.0"', f'version = "{version}"') + more
    (folder / "component.toml").write_text(text.replace("[rights]\n", f"[rights]\n{rights}"))
    return folder


def program(folder: Path) -> Path:
    """A component that is a program."""
    folder.mkdir()
    (folder / "component.toml").write_text(
        'name = "helper"\ncommand = ["{python}", "{dir}/main.py"]\n'
    )
    (folder / "main.py").write_text(
        "import side\nfrom conductor.cli import main\n"
        'import sys\nsys.argv = ["conductor", "proxy"]\nsys.exit(main())\n'
    )
    (folder / "side.py").write_text("")
    return folder


def installed(here: Here) -> dict[str, Any]:
    """The components that `conductor list` shows, by name."""
    ran = here.do("list", "--json")
    assert ran.code == 0, ran.err
    return {row["name"]: row for row in json.loads(ran.out)["installed"]}


def exec_(here: Here, *chain: str) -> Ran:
    """Sends one prompt through a chain."""
    return here.run("exec", *chain, "demo", "-p", "hi")


# -- add -------------------------------------------------------------------------------------------


def test_nobody_can_be_asked(here: Here) -> None:
    ran = here.do("add", "./weather")
    ran.assert_error(
        2, "nobody can be asked: nothing was changed", "`conductor add ./weather --yes` installs it"
    )
    assert 'weather 1.0: "Puts the current date' in ran.out
    assert "sandbox   yes" in ran.out
    assert installed(here) == {}


def test_yes_installs_and_agrees_to_nothing(here: Here) -> None:
    ran = here.do("add", "./weather", "--yes")
    assert ran.code == 0, ran.err
    assert "installed: weather 1.0" in ran.out
    row = installed(here)["weather"]
    assert (row["version"], row["kind"]) == ("1.0", "module")
    assert row["source"] == str(here.project / "weather")
    assert "you have not agreed" in row["wants"]
    assert "warning: weather: it does not get what it asks for: `clock`" in ran.err
    assert "`conductor add ./weather --allow-all` allows this version all" in ran.err
    shutil.rmtree(here.project / "weather")
    narrow = exec_(here, "weather")
    assert (narrow.code, DATE in narrow.out) == (0, False)
    granted = exec_(here, "weather,allow=clock")
    assert (granted.code, DATE in granted.out) == (0, True)
    card = here.do("inspect", "weather")
    assert 'weather 1.0: "' in card.out


GUARD = """"change:tool-calls" = "for what tools say"
"show:panel" = "to show it"
"read:editor" = "to show it"
"answer:prompts" = "to refuse"
"""


@pytest.mark.parametrize(
    ("words", "lacks"),
    [
        (
            ["./weather,allow=clock+change:tool-calls", "--yes"],
            "for: `show:panel`, `read:editor` and `answer:prompts`",
        ),
        (
            ["./weather,allow=answer:prompts"],
            "for: `change:tool-calls`, `show:panel`, `read:editor` and `clock`",
        ),
        (
            ["./weather,allow=read:editor+show:panel"],
            "for: `change:tool-calls`, `answer:prompts` and `clock`",
        ),
        (["./weather", "--allow-all"], ""),
        (["./weather", "--yes", "--allow-all"], ""),
    ],
)
def test_a_script_can_do_what_a_person_can(here: Here, words: list[str], lacks: str) -> None:
    stranger(here.project / "weather", rights=GUARD)
    ran = here.do("add", *words)
    assert ran.code == 0, ran.err
    assert lacks in ran.err
    assert ("does not get" in ran.err) == bool(lacks)
    facts = json.loads(here.do("inspect", "weather", "--json").out)
    assert bool(facts["wants"]["lacking"]) == bool(lacks)
    again = here.do("add", "./weather", "--allow-all")
    assert (again.code, "does not get" in again.err) == (0, False)
    facts = json.loads(here.do("inspect", "weather", "--json").out)
    assert facts["wants"]["lacking"] == []


@pytest.mark.parametrize(
    ("words", "text", "hint"),
    [
        (["./weather,allow=full"], "does not ask for `full`", "it asks for change:prompts+clock"),
        (["./weather,allow=clock+storage"], "does not ask for `storage`", "+clock"),
        (["./weather,allow=prompt:within"], "does not ask for `prompt:within`", "+clock"),
        (["./weather,only=clock"], "`only` is not `allow`", "where a chain names"),
        (["./weather,name=sky"], "`name` is not `allow`", "where a chain names"),
        (["./weather,allow=kv"], "`kv` is written `storage` now", "help rights"),
        (["./weather,allow=clok"], "no right `clok`", "did you mean `clock`?"),
    ],
)
def test_what_is_not_asked_for_is_not_granted(
    here: Here, words: list[str], text: str, hint: str
) -> None:
    here.do("add", *words, "--yes").assert_error(2, text, hint)
    assert installed(here) == {}


def test_an_update_grants_to_a_script_too(here: Here) -> None:
    assert here.do("add", "./weather", "--allow-all").code == 0
    stranger(here.project / "weather", "2.0", rights=GUARD)
    ran = here.do("update", "weather", "--yes")
    assert "it does not get what it asks for: `change:tool-calls`" in ran.err
    stranger(here.project / "weather", "3.0", rights=GUARD)
    ran = here.do("update", "weather", "--allow-all")
    assert (ran.code, "does not get" in ran.err) == (0, False)
    doctor = here.do("doctor", "--json")
    (found,) = [row for row in json.loads(doctor.out)["checks"] if row["name"].startswith("compon")]
    assert found["ok"]


def test_doctor_names_what_an_installed_component_lacks(here: Here) -> None:
    assert here.do("add", "./weather", "--yes").code == 0
    checks = json.loads(here.do("doctor", "--json").out)["checks"]
    (found,) = [row for row in checks if row["name"] == "component weather"]
    assert not found["ok"]
    assert "does not get what it asks for: `clock`" in found["detail"]
    assert "`weather,allow=clock` allows that" in found["hint"]


@pytest.mark.parametrize(
    ("typed", "is_installed", "is_agreed"),
    [("\n", False, False), ("\x04", False, False), ("a\n", True, True), ("y\n", True, False)],
)
def test_on_a_terminal_the_user_decides(
    here: Here, typed: str, is_installed: bool, is_agreed: bool
) -> None:
    with Running("add", "./weather", terminal=True) as running:
        running.wait_for(running.err, "[N] no: ")
        assert "- know the time" in running.text(running.err)
        running.type(typed)
        ran = running.end()
    assert ran.code == (0 if is_installed else 1)
    assert ("weather" in installed(here)) == is_installed
    if is_installed:
        assert (DATE in exec_(here, "weather").out) == is_agreed
        trusted = json.loads(here.do("trust", "--list", "--json").out)["trusted"]
        assert len(trusted) == is_agreed


def test_again_and_again(here: Here) -> None:
    first = here.do("add", "./weather", "--yes")
    again = here.do("add", "./weather")
    assert (first.code, again.code) == (0, 0)
    assert "installed already: weather" in again.out
    other = stranger(here.project / "other")
    here.do("add", str(other), "--yes").assert_error(2, "is installed already, from", "--name")
    assert here.do("add", str(other), "--yes", "--name", "other").code == 0
    assert sorted(installed(here)) == ["other", "weather"]


def test_a_program_takes_more_than_yes(here: Here) -> None:
    program(here.project / "helper")
    here.do("add", "./helper", "--yes").assert_error(2, "is a program", "--trust")
    with Running("add", "./helper", terminal=True) as running:
        running.wait_for(running.err, "[y/N] ")
        assert "it runs with all your rights" in running.text(running.err)
        running.type("n\n")
        assert running.end().code == 1
    assert installed(here) == {}
    ran = here.do("add", "./helper", "--trust")
    assert ran.code == 0, ran.err
    assert "warning: this is a program" in ran.err
    assert installed(here)["helper"]["wants"] == "runs with all your rights"
    for _ in range(2):  # what Python would write beside it, would keep the second from starting
        assert (ran := exec_(here, "helper")).code == 0, ran.err
    assert here.do("remove", "helper").code == 0
    assert json.loads(here.do("trust", "--list", "--json").out)["trusted"] == []


def test_what_conductor_would_not_run_is_not_installed(here: Here) -> None:
    (here.project / "bad.wasm").write_bytes(b"\0asm\x01\0\0\0")
    (here.project / "text.wasm").write_bytes(b"text")
    (here.project / "empty").mkdir()
    here.do("add", "./bad.wasm", "--yes").assert_error(2, "`bad`: refused: ")
    here.do("add", "./text.wasm", "--yes").assert_error(2, "is not a WebAssembly module")
    here.do("add", "./empty", "--yes").assert_error(2, "there is no component in it")
    here.do("add", "./nothing", "--yes").assert_error(2, "No such file")
    manifest = here.project / "weather/component.toml"
    text = manifest.read_text()
    before = text.partition('sha256 = "')[2][:64]
    manifest.write_text(text.replace(before, "0" * 64))
    here.do("add", "./weather", "--yes").assert_error(2, "not the file its manifest records")
    manifest.write_text(f"{text}\n[nothing]\n")
    here.do("add", "./weather", "--yes").assert_error(2, "error: component.toml, line ")
    assert installed(here) == {}
    store = Path(here.home).parent / "xdg_data_home/conductor/installed"
    assert sorted(path.name for path in store.iterdir()) == ["lock", "receipts"]


def test_an_author_cannot_write_on_the_terminal(here: Here) -> None:
    manifest = here.project / "weather/component.toml"
    text = manifest.read_text()
    evil = '\\u001b[2J\\u202e", evil'
    for key in ("description", "version"):
        lines = [line for line in text.splitlines() if not line.startswith(f"{key} =")]
        head = lines[:1]
        manifest.write_text("\n".join([*head, f'{key} = "{evil[:-7]}"', *lines[1:]]))
        ran = here.do("add", "./weather", "--yes", "--name", f"evil-{key}")
        shown = ran.out + ran.err + here.do("list").out
        assert ran.code == 0, ran.err
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_a_digest_is_the_users_decision(here: Here) -> None:
    module = (components_folder() / "datetime" / "datetime.wasm").read_bytes()
    with serving({"/w.wasm": module}) as server:
        url = f"{server.url}/w.wasm"
        asked = here.do("add", url, "--yes", "--name", "weather")
        asked.assert_error(2, "has no digest", f"`conductor add '{url}#sha256=")
        pinned = asked.err.rpartition("`conductor add '")[2].partition("'")[0]
        assert here.do("add", pinned, "--yes", "--name", "weather").code == 0
    assert exec_(here, "weather").code == 0  # its server is gone
    said = here.do("update")
    assert (said.code, "weather: pinned to" in said.out) == (0, True)


def test_a_dead_url_and_a_cut_one(here: Here) -> None:
    with Server(lambda c, _: c.sendall(answer(b"x" * 100)[:-50])) as server:
        url = f"{server.url}/w.wasm#sha256={'0' * 64}"
        here.do("add", url, "--yes").assert_error(1, "broke off", "try again")
    with socket.socket() as taken:  # nobody listens on its port
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/w.wasm#sha256={'0' * 64}"
        here.do("add", url, "--yes").assert_error(1, "cannot be reached", "try again")
    assert installed(here) == {}


# -- catalogues ------------------------------------------------------------------------------------


def test_a_catalogue_of_the_configuration(here: Here) -> None:
    (here.project / "catalogue").mkdir()
    (here.project / "weather").rename(here.project / "catalogue" / "weather")
    here.do("add", "weather", "--yes").assert_error(2, "there is no catalogue")
    here.trusted('indexes = ["./catalogue"]\n')
    exec_(here, "weather").assert_error(2, "`weather` is not installed", "`conductor add weather`")
    exec_(here, "qqqqq").assert_error(2, "neither a component")
    available = here.do("list", "--available")
    assert "weather  1.0 Puts the current date" in available.out
    assert here.do("add", "weather", "--yes").code == 0
    assert exec_(here, "weather").code == 0
    assert "(installed)" in here.do("list", "--available").out
    shown = here.do("config", "show")
    assert str(here.project / "catalogue") in shown.out


def test_an_index_of_the_command_line(here: Here) -> None:
    stranger(here.project / "catalogue" / "sky")
    ran = here.do("add", "sky", "--index", "./catalogue", "--yes")
    assert ran.code == 0, ran.err
    stranger(here.project / "catalogue" / "sky", "1.1")
    ran = here.do("update", "sky", "--yes")
    assert (ran.code, installed(here)["sky"]["version"]) == (0, "1.1")
    here.do("add", "./weather", "--index", "./catalogue").assert_error(2, "`--index` finds names")


def test_a_catalogue_without_anything_is_named(here: Here) -> None:
    empty = here.project / "empty"
    told = here.do("list", "--index", str(empty))
    told.assert_error(2, f"`{empty}` cannot be read", "put the catalogue there")
    empty.mkdir()
    ran = here.do("list", "--index", str(empty))
    assert f"the catalogue `{empty}` offers nothing for conductor\n" in ran.out


# -- update ----------------------------------------------------------------------------------------


def test_an_update_shows_what_changes_and_asks_anew(here: Here) -> None:
    with Running("add", "./weather", terminal=True) as running:
        running.wait_for(running.err, "[N] no: ")
        running.type("a\n")
        assert running.end().code == 0
    assert here.do("update", "--check").out == "weather: up to date (1.0)\n"
    stranger(here.project / "weather", "1.1", '\n[config.place]\ndescription = "where"\n')
    manifest = here.project / "weather/component.toml"
    manifest.write_text(manifest.read_text().replace("[rights]", '[rights]\nrandom = "for luck"'))
    before = installed(here)
    check = here.do("update", "--check")
    assert check.code == 1
    assert "weather (1.0): there is another version (1.1)" in check.out
    assert "    rights: + random (manifest)\n" in check.out
    assert "    settings: + place (any)\n" in check.out
    assert "CHANGED since it was installed" in check.out
    here.do("update").assert_error(1, "nobody can be asked", "`conductor update weather --yes`")
    assert installed(here) == before
    assert here.do("update", "--yes").code == 0
    assert DATE not in exec_(here, "weather").out  # what was agreed about 1.0 is not agreed now
    for version, shown in (("0.9", "0.9"), ("2.0-nightly.x", "2.0-nightly.x"), ("", "no version")):
        stranger(here.project / "weather", version)
        here.do("update", "--yes").assert_error(1, f"would become older: 1.1 → {shown}")
        here.do("add", "./weather", "--yes").assert_error(2, "would become older", "remove weather")
    assert installed(here)["weather"]["version"] == "1.1"


def test_what_is_not_shown_to_be_newer_is_not_installed_by_yes(here: Here) -> None:
    stranger(here.project / "weather", "")
    assert here.do("add", "./weather", "--yes").code == 0
    stranger(here.project / "weather", "1.0")
    here.do("update", "--yes").assert_error(1, "would become older: no version → 1.0")
    # The user's own folder may change without another version.
    stranger(here.project / "weather", "", '\n[config.place]\ndescription = "where"\n')
    assert here.do("update", "--yes").code == 0


def test_its_own_archive_beside_it_is_no_change(here: Here) -> None:
    stranger(here.project / "weather", "1.0")
    assert here.do("add", "./weather", "--yes").code == 0
    archive = here.project / "weather" / "weather-1.0.tar.gz"
    made = here.do("publish", "./weather", "--archive", str(archive.parent))
    assert made.code == 0
    assert archive.exists()
    (archive.parent / f"{archive.name}.sig").write_text("of the archive\n")
    done = here.do("update")
    assert (done.code, done.out) == (0, "weather: up to date (1.0)\n")
    assert " of datetime.wasm; " in here.do("inspect", "./weather").out
    assert " of all its files; " in here.do("inspect", "weather").out
    (archive.parent / "data.tar.gz").write_bytes(b"of the component")
    check = here.do("update", "--check")
    assert check.code == 1
    assert "weather (1.0): its files have changed\n" in check.out


def test_one_that_cannot_be_updated_keeps_none_from_it(here: Here) -> None:
    stranger(here.project / "other")
    for name in ("weather", "other"):
        assert here.do("add", f"./{name}", "--yes", "--name", name).code == 0
    shutil.rmtree(here.project / "other")
    stranger(here.project / "weather", "1.1")
    ran = here.do("update", "--yes")
    ran.assert_error(1, "other: ", "No such file")
    assert installed(here)["weather"]["version"] == "1.1"
    assert installed(here)["other"]["version"] == "1.0"
    here.do("update", "othr").assert_error(2, "no component is installed as", "did you mean")


# -- remove ----------------------------------------------------------------------------------------


def test_remove_warns_of_what_names_it(here: Here) -> None:
    here.trusted(
        '[chains.work]\ncomponents = ["weather,allow=clock", "demo"]\n'
        '[chains.other]\ncomponents = ["datetime", "demo"]\n[components.mine]\n'
        'component = "weather"\n'
    )
    assert here.do("add", "./weather", "--yes").code == 0
    ran = here.do("remove", "weather")
    assert ran.code == 0
    assert "`weather` is still named in the chain `work`" in ran.err
    assert "`weather` is still named in the component `mine`" in ran.err
    assert "`other`" not in ran.err
    assert installed(here) == {}
    here.do("remove", "weather").assert_error(2, "no component is installed as `weather`")
    here.do("remove", "../x").assert_error(2, "no component is installed as")


def test_remove_takes_what_is_damaged(here: Here) -> None:
    assert here.do("add", "./weather", "--yes").code == 0
    store = Path(here.home).parent / "xdg_data_home/conductor/installed"
    (store / "receipts/weather.json").write_text("{")
    shown = here.do("list")
    assert (shown.code, "DAMAGED" in shown.out) == (0, True)
    exec_(here, "weather").assert_error(2, "the receipt of", "`conductor remove weather`")
    # Nobody knows any more which version that was, nor who signed it.
    here.do("add", "./weather", "--yes").assert_error(2, "would become older", "remove weather")
    assert here.do("remove", "weather").code == 0
    assert here.do("list").out.startswith(
        "nothing is installed: `conductor add SOURCE` installs a component; "
    )
    assert sorted(path.name for path in store.iterdir()) == ["lock", "receipts"]


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [
        ("claude", "`claude` is an agent that conductor knows", "conductor agents claude"),
        ("datetime", "`datetime` comes with conductor", "conductor inspect datetime"),
    ],
)
def test_what_is_known_without_a_catalogue_needs_no_add(
    here: Here, name: str, said: str, hint: str
) -> None:
    here.do("add", name).assert_error(2, said, hint)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Datetime", "datetime"),
        ("rate_limit", "rate-limit"),
        ("permission_guard", "permission-guard"),
        ("re-dact", "redact"),
        ("b.u.d.g.e.t", "budget"),
        ("t00l-filter", "tool-filter"),
        ("Claude", "claude"),
        ("codex-acp", "codex-acp"),
        ("codex_acp", "codex-acp"),
        ("npx", "npx"),
    ],
)
def test_a_stranger_takes_nobodys_name(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, other: str
) -> None:
    program = tmp_path / "bin" / "npx"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    manifest = here.project / "weather/component.toml"
    manifest.write_text(manifest.read_text().replace('"weather"', f'"{name}"'))
    here.do("add", "./weather", "--yes").assert_error(2, f"`{other}` is ", "--name")
    assert installed(here) == {}
    assert here.do("add", "./weather", "--yes", "--name", "weather").code == 0
    here.do("add", "./weather", "--yes", "--name", "Weather").assert_error(2, "looks like")
    if name == "npx":  # the user's own decision
        assert here.do("add", "./weather", "--yes", "--name", "npx").code == 0


def test_a_version_is_a_word(here: Here) -> None:
    """Otherwise it would look like facts of ours."""
    manifest = here.project / "weather/component.toml"
    manifest.write_text(manifest.read_text().replace('"1.0"', '"1.0; signed by your bank"'))
    assert here.do("add", "./weather", "--yes").code == 0
    assert "your bank" not in here.do("list").out


@pytest.mark.parametrize("kind", ["catalogue", "ftp", "git", "oci", "port", "slash", "token"])
def test_a_login_in_a_url_is_not_repeated(here: Here, kind: str) -> None:
    urls = {
        "catalogue": "https://me:s3cret@example.invalid:99999/list.json",
        "ftp": "ftp://me:s3cret@example.invalid/x",
        "git": f"git+https://me:s3cret@example.invalid/x@{'0' * 40}",
        "oci": "oci://me:s3cret@example.invalid/x:1",
        "port": "https://me:s3cret@example.invalid:99999/x.wasm",
        "slash": "https://me:a/s3cret@example.invalid/x.wasm",
        "token": f"git+https://s3cret@example.invalid/x@{'0' * 40}",
    }
    words = ["list", "--index"] if kind == "catalogue" else ["add"]
    ran = here.do(*words, urls[kind])
    ran.assert_error(2, "a user or a password in it")
    assert "s3cret" not in ran.out + ran.err


def test_what_a_program_runs_is_shown(here: Here) -> None:
    manifest = here.project / "weather/component.toml"
    kept = ("name", "version")
    lines = [line for line in manifest.read_text().splitlines() if line.startswith(kept)]
    manifest.write_text("\n".join([*lines, 'command = ["sh", "-c", "touch /tmp/x\\nhello"]']))
    ran = here.do("add", "./weather", "--yes")
    ran.assert_error(2, " --trust`", "touch /tmp/x hello")


@pytest.mark.parametrize("since", [-(10**15), 10**12, 10**30])
def test_a_receipt_of_no_time_is_damaged(here: Here, since: int) -> None:
    assert here.do("add", "./weather", "--yes").code == 0
    path = Path(installed_.receipt_path("weather"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"since": since}))
    assert "DAMAGED" in here.do("list").out
