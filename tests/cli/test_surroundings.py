"""The surroundings of a command at its start: any locale, closed streams, odd names and folders."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from conductor.packages.pack import File
from tests.fleet.bundles import written
from tests.harness.process.command import COMMAND, Ran, conductor, environment
from tests.places import DEADLINE

LOCALES: Final = {
    "UTF-8": {"LC_ALL": "C.UTF-8"},
    "C": {"LC_ALL": "C"},
    "POSIX, in ASCII": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
"""Python reads UTF-8 in the first two by itself."""

CHAIN: Final = b'[chains.work]\ncomponents = ["demo"]\n'
PROXY: Final = (
    "from guest_sdk.python import Proxy\nproxy = Proxy('p', rights={'observer': 'why'})\n"
)


def run(*arguments: str | bytes, redirected: str = "", cwd: Path, **variables: str) -> Ran:
    """Runs a command below a shell, which redirects its streams."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {redirected}', "sh", *COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE,
        cwd=cwd,
        env=environment(**variables),
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1"))


@pytest.mark.parametrize("locale", LOCALES)
def test_prompts_names_and_settings_are_utf_8_in_any_locale(locale: str, tmp_path: Path) -> None:
    (tmp_path / "grün…🎉.py").write_text(PROXY, encoding="utf-8")
    ran = conductor(
        "exec", "./grün…🎉.py", "datetime,config.template=schön", "demo", "-p", "… ✓ ü 🎉",
        "--trace", "ü.jsons",
        cwd=tmp_path,
        env=environment(XDG_STATE_HOME=str(tmp_path), **LOCALES[locale]),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert sorted(filter(None, ran.out.splitlines())) == ["schön", "… ✓ ü 🎉"]
    assert "… ✓ ü 🎉" in (tmp_path / "ü.jsons").read_text(encoding="utf-8")


def test_text_for_people_has_the_encoding_of_its_stream(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROXY, encoding="utf-8")
    latin: Final = {"PYTHONIOENCODING": "latin-1", "XDG_STATE_HOME": str(tmp_path)}
    said = run("exec", "./p.py", "demo", "-p", "ü … ✓ 🎉", cwd=tmp_path, **latin)
    assert (said.code, said.out) == (0, "ü ... ok \\u{1f389}\n")
    wrong = run("inspect", "ü🎉", cwd=tmp_path, **latin)
    assert wrong.code == 2
    assert wrong.err.startswith("error: `ü\\u{1f389}` is neither")
    assert run("exec", "--help", cwd=tmp_path, **latin).out.isascii()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_utf_8_whatever_the_stream(encoding: str, tmp_path: Path) -> None:
    folder = tmp_path / "ü🎉"
    ran = run(
        "doctor",
        "--data",
        "--json",
        cwd=tmp_path,
        PYTHONIOENCODING=encoding,
        XDG_CACHE_HOME=str(folder),
    )
    told = json.loads(ran.out.encode("latin-1"))
    assert told["kinds"][0]["place"].startswith(str(folder))


@pytest.mark.parametrize(
    "arguments",
    [
        ["agent", b"\xff", "demo"],
        ["proxy", b"./\xff.wasm"],
        ["exec", "demo", "-p", b"\xff"],
        ["exec", "demo", "-p", "x", "--cwd", b"\xff"],
        ["inspect", b"./\xff.py"],
        ["help", b"\xff"],
        [b"\xff"],
    ],
)
def test_words_that_are_not_utf_8(arguments: list[str | bytes], tmp_path: Path) -> None:
    run(*arguments, cwd=tmp_path).assert_error(2, r"\u{dcff}", "is not UTF-8")


def test_a_folder_that_no_message_can_name(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    run("exec", "demo", "-p", "x", cwd=os.fsdecode(folder)).assert_error(2, "not UTF-8", "run it")  # type: ignore[arg-type]
    assert run("completion", "bash", cwd=os.fsdecode(folder)).code == 0  # type: ignore[arg-type]


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    gone = ["/bin/sh", "-c", 'cd gone; rmdir ../gone; exec "$@"', "sh", *COMMAND]
    for arguments, code, error in (
        (["exec", "demo", "-p", "x"], 2, "the current folder is no longer there"),
        (["completion", "zsh"], 0, ""),
    ):
        (tmp_path / "gone").mkdir(exist_ok=True)
        done = subprocess.run(
            [*gone, *arguments], cwd=tmp_path, capture_output=True, env=environment(), check=False
        )
        assert done.returncode == code
        assert error in done.stderr.decode()
        assert "Traceback" not in done.stderr.decode()


PRINTING: Final = [
    ["--help"],
    ["help", "component"],
    ["completion", "bash"],
    ["list", "--bundled"],
    ["doctor", "--data", "--json"],
    ["inspect", "passthrough"],
    ["log", "show", "audit.jsonl"],
    ["log", "show", "--json", "audit.jsonl"],
    ["exec", "demo", "-p", "hi"],
]


@pytest.mark.parametrize("arguments", PRINTING)
def test_an_output_that_takes_nothing(arguments: list[str], tmp_path: Path) -> None:
    if "audit.jsonl" in arguments:
        assert run("exec", "demo", "--audit", "audit.jsonl", "-p", "x", cwd=tmp_path).code == 0
    for redirected, why in ((">&-", ""), (">/dev/full", "No space left on device")):
        ran = run(*arguments, redirected=redirected, cwd=tmp_path)
        ran.assert_error(1, f"cannot write standard output: {why}", "send the result to a file")
    ran = run(*arguments, redirected="<&- 2>&-", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out
    ran = run(*arguments, redirected="<&- >&- 2>&-", cwd=tmp_path)
    assert ran.code == 1


def test_a_file_does_not_become_a_standard_stream(tmp_path: Path) -> None:
    ran = run("agent", "--trace", "t.jsons", "demo", redirected="<&- >&- 2>&-", cwd=tmp_path)
    assert ran.code == 0
    records = (tmp_path / "t.jsons").read_text(encoding="utf-8").splitlines()
    assert all(json.loads(line) for line in records)


NOWHERE: Final = dict.fromkeys(
    ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), "/dev/null/x"
) | {"HOME": "/dev/null"}


def test_without_a_cache_modules_are_compiled_anew_and_that_is_reported_once(
    tmp_path: Path,
) -> None:
    chain = ["exec", "-c", "isolation=separate", "datetime", "passthrough", "demo", "-p", "hi"]
    ran = run(*chain, cwd=tmp_path, **NOWHERE)
    assert ran.code == 0
    assert ran.out.endswith("hi\n")
    folder = "/dev/null/x/conductor/modules: Not a directory"
    assert ran.err.count("compiles its modules anew") == ran.err.count(folder) == 1
    assert "-c cache=FOLDER" in ran.err
    kept = run(*chain, "-c", f"cache={tmp_path / 'cache'}", cwd=tmp_path, **NOWHERE)
    assert (kept.code, kept.err) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["exec", "demo", "-p", "hi"],
        ["exec", "datetime", "demo", "-p", "hi", "-c", "cache=cache"],
        ["inspect", "datetime"],
        ["doctor", "--data"],
        ["doctor", "--clean", "modules", "--yes"],
        ["new", "mine"],
        ["lock", "datetime", "demo"],
        ["test", "--only", "meta", "passthrough"],
    ],
)
def test_what_needs_no_home_works_without_one(arguments: list[str], tmp_path: Path) -> None:
    ran = run(*arguments, cwd=tmp_path, **NOWHERE)
    assert ran.code == 0, ran.err
    assert "Traceback" not in ran.err


def test_doctor_reports_a_cache_that_cannot_be(tmp_path: Path) -> None:
    ran = run("doctor", cwd=tmp_path, **NOWHERE)
    assert ran.code == 1
    assert "/dev/null/x/conductor/modules: Not a directory" in ran.out
    assert "choose another folder: `-c cache=FOLDER`" in ran.out


def test_a_home_that_no_message_can_name(tmp_path: Path) -> None:
    env = environment() | {"XDG_CACHE_HOME": os.fsdecode(b"/tmp/\xff")}
    conductor("exec", "demo", "-p", "x", cwd=tmp_path, env=env).assert_error(
        2, "XDG_CACHE_HOME is not UTF-8", "set it to a folder"
    )


@pytest.mark.proves("a folder with a `conductor` of")
def test_a_folder_with_a_conductor_of_its_own_runs_nothing(tmp_path: Path) -> None:
    """As a stranger's checkout may have one, and conductor is started in there."""
    program = tmp_path / "conductor" / "__main__.py"
    program.parent.mkdir()
    program.write_text("print('a stranger')\n")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "conductor", "exec", "conductor agent demo", "-p", "hi"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE,
        cwd=tmp_path,
        env=environment(PATH="/bin"),
        check=False,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr


@pytest.mark.usefixtures("python_guest")
def test_whatever_the_umask_is_nobody_else_may_enter_the_folders_it_makes(tmp_path: Path) -> None:
    """The folders above the folder of a file too: who may write there may put another in its
    place."""
    written(tmp_path / "bundle", {"conductor.toml": File(CHAIN)})
    home = tmp_path / "home"
    home.mkdir()
    xdg = {f"XDG_{kind}_HOME": str(home / kind / "in") for kind in ("CONFIG", "DATA", "STATE")}
    cache = {"XDG_CACHE_HOME": str(home / "CACHE" / "in")}
    before = os.umask(0)
    try:
        chain = ("history,allow=storage", "demo", "-p", "hi")
        ran = conductor("exec", *chain, env=environment(**xdg))
        checked = conductor(
            "fleet", "check", str(tmp_path / "bundle"), env=environment(**xdg, **cache)
        )
    finally:
        os.umask(before)
    assert (ran.code, checked.code) == (0, 0), ran.err + checked.err
    made = {str(each.relative_to(home)): each for each in home.rglob("*") if each.is_dir()}
    assert {"DATA/in/conductor", "STATE/in/conductor", "CACHE/in/conductor/bundles"} <= {*made}
    assert [name for name, each in made.items() if each.stat().st_mode & 0o077] == []
