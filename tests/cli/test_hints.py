"""No hint recommends words that the user has just typed."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from conductor.spec.paths import components_folder
from tests.harness.process.command import conductor, environment

COMMAND = re.compile(r"`(?:conductor |--?\w)[^`]*`|--[a-z][\w-]*(?: [\w./-]+)?")
"""A command, or an option, that a text recommends."""

INSTEAD = ("leave out", "another", "other than", "above", "instead of", "use --permissions deny")
"""Words of a hint that takes back, or changes, typed words."""

AGENT = (
    "import json\nfor line in iter(input, None):\n    m = json.loads(line)\n"
    "    error = {'code': CODE, 'message': 'no', 'data': {'why': 'not today'}}\n"
    "    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'error': error}), flush=True)\n"
)


def repeated(typed: list[str], text: str) -> list[str]:
    """Commands in hints that the user has typed already: the same words, in any order. Words in
    capitals do not count: they stand for words that the user has to add."""
    found = []
    for hint in re.findall(r"^hint: .*", text, re.MULTILINE):
        if any(words in hint for words in INSTEAD):
            continue
        for recommended in COMMAND.findall(hint):
            words = shlex.split(recommended.strip("`"))
            said = {word for word in words if not re.fullmatch(r"[A-Z…\[\]]+", word)}
            added = len(words) > len(["conductor", *typed])
            if said <= {"conductor", *typed} and not added:
                found.append(recommended)
    return found


def test_the_check_sees_what_is_repeated() -> None:
    debug = "error: no\n\nhint: run it again with --log debug to see"
    assert repeated(["exec", "x", "--log", "debug"], debug) == ["--log debug"]
    assert repeated(["exec", "x"], debug) == []
    lock = "hint: name the components: `conductor lock COMPONENT…`"
    assert repeated(["lock"], lock) == []
    assert repeated(["lock", "demo"], lock) == ["`conductor lock COMPONENT…`"]
    assert repeated(["doctor"], "hint: `conductor doctor` shows it") == ["`conductor doctor`"]


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with things that go wrong."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.copytree(components_folder() / "datetime", tmp_path / "date")
    (tmp_path / "junk.wasm").write_text("junk")
    (tmp_path / "unbuilt").mkdir()
    (tmp_path / "unbuilt" / "component.toml").write_text(
        'name = "unbuilt"\nfile = "u.wasm"\n[build]\ncommand = ["true"]\n'
    )
    for name, code in (("login", "-32000"), ("fails", "-32603")):
        (tmp_path / f"{name}.py").write_text(AGENT.replace("CODE", code))
    (tmp_path / "proxy.py").write_text((tmp_path / "fails.py").read_text())
    return tmp_path


FAILS = ("--", "python", "fails.py")


@pytest.mark.parametrize(
    "typed",
    [
        ("test", "--build", "unbuilt"),
        ("test", "--only", "handshake", "--timeout", "1", "python proxy.py"),
        ("exec", "-p", "hi", "--log", "debug", *FAILS),
        ("exec", "-p", "hi", "--timeout", "0.1", "py:tests.cli.agents:silent"),
        ("exec", "-p", "hi", *FAILS),
        ("exec", "-p", "hi", "--", "python", "login.py"),
        ("exec", "-p", "hi", "datetime"),
        ("help", "nosuch"),
        ("inspect", "junk.wasm"),
        ("inspect", "unbuilt/"),
        ("lock",),
        ("lock", "--check", "demo"),
        ("trust", "nosuch"),
    ],
    ids=" ".join,
)
def test_no_hint_recommends_what_was_typed(typed: tuple[str, ...], here: Path) -> None:
    ran = conductor(*typed, cwd=here, env=environment())
    assert ran.code != 0, ran.out
    assert repeated([*typed], ran.err) == [], ran.err
