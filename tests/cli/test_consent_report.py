"""The report of components where nobody is asked; it comes once."""

import shutil
from pathlib import Path

import pytest

from conductor.cli import consent
from conductor.errors import UsageError
from conductor.spec import paths
from conductor.spec.catalog import resolve
from conductor.spec.manifest import section
from tests.places import PASSTHROUGH

HEAD = 'name = "theirs"\nversion = "1.0"\nfile = "p.wasm"\n'
DEFAULT = (
    "  it names no rights, so it gets `context`: it may read and change your prompts, read "
    "the set-up of sessions (folders, MCP servers and their keys), and give the agent tools; add "
    "`,only=full` to allow all within the guards"
)


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module in it, of a user to whom nothing was told yet."""
    shutil.copyfile(PASSTHROUGH, tmp_path / "p.wasm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


class Told:
    """The words about components, line by line."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *components: str) -> list[str]:
        consent.announce([resolve(one) for one in components])
        return self._capsys.readouterr().err.splitlines()


@pytest.fixture(name="told")
def _told(capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(capsys)


@pytest.mark.usefixtures("here")
def test_a_module_that_says_nothing_is_told_of_once(told: Told) -> None:
    assert told("./p.wasm,only=full") == []
    assert told("datetime", "./p.wasm", "demo") == [
        "conductor: first use of `p` (./p.wasm)",
        DEFAULT,
    ]
    assert told("./p.wasm") == []
    assert told("./p.wasm,name=q,allow=clock") == []


def test_what_asks_for_something_is_not_told_of_here(here: Path, told: Told) -> None:
    """Every start says what the component lacks (`tests/cli/test_lacking.py`)."""
    section.embed(str(here / "p.wasm"), f"{HEAD}[rights]\nfilter = 'x'".encode())
    assert told("./p.wasm") == []
    source = here / "x.py"
    source.write_text("proxy = Proxy('x', rights={'observer': 'why'})")
    assert told("./x.py,allow=storage") == []
    source.write_text("proxy = Proxy('x')")
    assert told("./x.py") == ["conductor: first use of `x` (./x.py)", DEFAULT]


def test_rights_that_cannot_be_read_off_a_source_are_not_called_absent(
    here: Path, told: Told
) -> None:
    source = here / "x.py"
    source.write_text("proxy = Proxy('x')")
    assert told("./x.py")[1] == DEFAULT
    source.write_text("kind = chosen()\nproxy = Proxy('x', rights=kind)")
    assert told("./x.py")[1].startswith(
        "  conductor cannot read rights off its source, as it could off "
        '`Proxy(…, rights={"clock": "…"})`, so it gets `context`: '
    )
    assert told("./x.py,only=observer") == []


@pytest.mark.usefixtures("told")
def test_a_word_that_is_no_right_is_an_error(here: Path) -> None:
    source = here / "x.py"
    for wrong, text, hint in (
        ("Observer", "no right `Observer`", "`observer`"),
        ("kv", "`kv` is written `storage` now", "help rights"),
    ):
        source.write_text(f"proxy = Proxy('x', rights={{'{wrong}': 'why'}})")
        with pytest.raises(UsageError) as refused:
            resolve("./x.py")
        assert refused.value.text == f"`x.py` asks for a right: {text}"
        assert hint in refused.value.hint


def test_what_cannot_be_remembered_is_told_again(here: Path, told: Told) -> None:
    (here / "state").write_text("no folder")
    assert told("./p.wasm") == told("./p.wasm") != []


@pytest.mark.parametrize(
    ("platform", "base"),
    [
        ("linux", "state"),
        ("darwin", "home/Library/Application Support"),
    ],
)
def test_where_it_is_remembered(
    here: Path, monkeypatch: pytest.MonkeyPatch, platform: str, base: str
) -> None:
    monkeypatch.setenv("HOME", str(here / "home"))
    monkeypatch.setattr("sys.platform", platform)
    assert paths.first_use() == str(here / base / "conductor" / "first-use")
