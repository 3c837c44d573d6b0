"""The files that `conductor setup` writes, and the cases in which it writes none."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from conductor.editors import apply, record, table
from conductor.editors.apply import Outcome
from conductor.editors.target import Edit, Launch
from conductor.errors import ConductorError, UsageError

LAUNCH = Launch("/opt/conductor", ["agent", "demo"])
ZED = table.find("zed")
TEXT = b'// mine\r\n{\r\n\t"theme": "One Dark",\r\n}\r\n'


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Zed's file of settings, for a user who has none of ours yet."""
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    path = Path(ZED.file())
    path.parent.mkdir(parents=True)
    path.write_bytes(TEXT)
    return path


def passes(edit: Edit) -> None:
    """A test of a launch that succeeds."""


def add(name: str = "Conductor", tested: Callable[[Edit], None] = passes) -> Outcome:
    """Adds an entry."""
    return apply.change(ZED, lambda text, held: ZED.put(text, held, name, LAUNCH), tested)


def remove(name: str = "Conductor") -> Outcome:
    """Removes one."""
    return apply.change(ZED, lambda text, held: ZED.remove(text, held, name), passes)


def names(path: Path) -> set[str]:
    """The entries in the file."""
    return {*ZED.entries(path.read_text())}


def assert_untouched(path: Path) -> None:
    """Nothing was written: neither the file, nor beside it, nor in the record."""
    assert path.read_bytes() == TEXT
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert record.load().files == {}


def test_the_mode_and_every_other_byte_stay(settings: Path) -> None:
    settings.chmod(0o640)

    add()

    assert stat.S_IMODE(settings.stat().st_mode) == 0o640
    assert names(settings) == {"Conductor"}
    assert b"\n" not in settings.read_bytes().replace(b"\r\n", b"")
    remove()
    assert settings.read_bytes() == TEXT
    assert stat.S_IMODE(settings.stat().st_mode) == 0o640
    assert record.load().files == {}


def test_a_file_that_setup_made_is_private_and_goes_again(settings: Path) -> None:
    settings.unlink()

    assert add().created
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert json.loads(settings.read_text()).keys() == {"agent_servers"}
    assert remove().removed
    assert not settings.exists()


def test_what_was_there_is_kept_once(settings: Path) -> None:
    first = add()
    settings.write_bytes(settings.read_bytes() + b"// later\r\n")
    second = add("Second")

    assert first.backup == second.backup
    assert Path(first.backup).read_bytes() == TEXT
    assert stat.S_IMODE(os.stat(first.backup).st_mode) == 0o600
    remove()
    remove("Second")
    settings.write_bytes(b"{}")
    assert Path(add().backup).read_bytes() == b"{}"
    assert Path(first.backup).read_bytes() == TEXT


def test_a_link_stays_and_what_it_leads_to_is_written(settings: Path, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    settings.rename(dotfiles / "zed.json")
    settings.symlink_to(dotfiles / "zed.json")

    add()

    assert settings.is_symlink()
    assert names(dotfiles / "zed.json") == {"Conductor"}
    remove()
    assert (dotfiles / "zed.json").read_bytes() == TEXT


def dangling(path: Path) -> None:
    """A link that leads nowhere."""
    path.unlink()
    path.symlink_to(path.with_name("gone.json"))


def looping(path: Path) -> None:
    """A link that leads to itself."""
    path.unlink()
    path.symlink_to(path)


def folder(path: Path) -> None:
    """A folder in its place."""
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    """A named pipe in its place."""
    path.unlink()
    os.mkfifo(path)


def no_folder(path: Path) -> None:
    """A file where its folder belongs."""
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("")


CANNOT = {
    "a folder": (folder, "it is a folder"),
    "a link that leads nowhere": (dangling, "leads nowhere"),
    "a link to itself": (looping, "Too many levels"),
    "a named pipe": (pipe, "no ordinary file"),
    "no folder": (no_folder, "is no folder"),
    "not UTF-8": (lambda path: path.write_bytes(b'{"a": "\xe4"}'), r"not UTF-8 \(byte 8\)"),
    "others may write it": (lambda path: path.chmod(0o666), "may be written by others"),
    "others may write its folder": (
        lambda path: path.parent.chmod(0o777),
        "zed` may be written by",
    ),
    "others may put it there": (
        lambda path: (path.unlink(), path.parent.chmod(0o1777)),
        "zed` may be written by others",
    ),
    "read-only": (lambda path: path.chmod(0o400), "is read-only"),
    "read-only folder": (lambda path: path.parent.chmod(0o500), "is read-only"),
    "too large": (lambda path: path.write_bytes(b" " * (apply.MOST + 1)), "larger than 1 MiB"),
}


@pytest.mark.parametrize("name", sorted(CANNOT))
def test_what_cannot_be_written_safely_is_left_alone(name: str, settings: Path) -> None:
    spoil, says = CANNOT[name]
    spoil(settings)
    before = {path: path.lstat() for path in settings.parent.parent.rglob("*")}

    with pytest.raises(UsageError, match=says) as caught:
        add()

    assert "nothing was changed" in caught.value.text
    assert caught.value.hint
    after = {path: path.lstat() for path in settings.parent.parent.rglob("*")}
    assert {path: (status.st_ino, status.st_size) for path, status in after.items()} == {
        path: (status.st_ino, status.st_size) for path, status in before.items()
    }
    assert record.load().files == {}
    settings.parent.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_another_user_is_left_alone(settings: Path) -> None:
    link = settings.with_name("link.json")
    link.symlink_to(settings)
    for path in (settings, link, settings.parent):
        os.chown(path, 1, -1, follow_symlinks=False)
        with pytest.raises(UsageError, match="belongs to user 1; nothing was changed"):
            apply.read(str(link))
        os.chown(path, 0, -1, follow_symlinks=False)
    assert apply.read(str(link)).content == TEXT


def test_nothing_is_written_for_what_does_not_start(settings: Path) -> None:
    def fails(edit: Edit) -> None:
        assert edit.launch == LAUNCH
        assert_untouched(settings)
        raise ConductorError("it does not start")

    with pytest.raises(ConductorError, match="it does not start"):
        add(tested=fails)

    assert_untouched(settings)


def test_what_an_editor_writes_meanwhile_stays(settings: Path) -> None:
    tested = []

    def slow(edit: Edit) -> None:
        tested.append(edit.launch)
        settings.write_bytes(TEXT.replace(b"One Dark", b"One Light"))

    add(tested=slow)

    assert tested == [LAUNCH]
    assert b"One Light" in settings.read_bytes()
    assert names(settings) == {"Conductor"}


def test_what_an_editor_writes_at_the_last_moment_stays(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [TEXT.replace(b"One Dark", b"One Light")]
    real = apply._like

    def like(path: str, fresh: str) -> None:
        real(path, fresh)
        if late:
            settings.write_bytes(late.pop())

    monkeypatch.setattr(apply, "_like", like)

    add()

    assert late == []
    assert b"One Light" in settings.read_bytes()
    assert names(settings) == {"Conductor"}
    assert [each.name for each in settings.parent.iterdir()] == [settings.name]


def test_a_file_that_changes_all_the_time_is_given_up(settings: Path) -> None:
    def make(text: str | None, held: record.Settings) -> Edit:
        settings.write_bytes(settings.read_bytes() + b"\n")
        return ZED.put(text, held, "Conductor", LAUNCH)

    with pytest.raises(ConductorError, match="changes all the time"):
        apply.change(ZED, make, passes)

    assert names(settings) == set()


def test_a_write_that_fails_leaves_everything(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap(fresh: str, path: str) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(apply, "swap", swap)

    with pytest.raises(UsageError, match="No space left on device; nothing was changed"):
        add()

    assert_untouched(settings)


def record_of(entry: str) -> str:
    """A record with one entry."""
    return f'{{"files": {{"/x": {{"target": "zed", "entries": {{"E": {entry}}}}}}}}}'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "it is damaged"),
        ('{"version": 99}', "it is of version 99"),
        ('{"files": {"/x": {"target": 1}}}', "it is damaged"),
        (record_of('{"written": "{}", "was": "}, 1: {"}'), "it is damaged"),
        (record_of('{"written": "no"}'), "it is damaged"),
        (record_of('{"written": "[]"}'), "it is damaged"),
    ],
)
def test_a_damaged_record_is_an_error_and_nothing_is_written(
    settings: Path, content: str, says: str
) -> None:
    path = Path(record.path())
    path.parent.mkdir(parents=True)
    path.write_text(content)

    for action in (add, remove):
        with pytest.raises(UsageError, match=says) as caught:
            action()
        assert "move the file away" in caught.value.hint

    assert path.read_text() == content
    assert settings.read_bytes() == TEXT


def test_a_record_that_others_may_write_counts_as_none(settings: Path) -> None:
    add()
    before = settings.read_bytes()
    Path(record.path()).chmod(0o666)

    with pytest.raises(UsageError, match="may be written by others"):
        remove()

    assert settings.read_bytes() == before


def test_a_file_that_is_gone_is_forgotten(settings: Path) -> None:
    add()
    settings.unlink()

    outcome = remove()

    assert "not in Zed's settings any more" in outcome.edit.remarks[0]
    assert not settings.exists()
    assert record.load().files == {}


def test_a_file_that_was_made_anew_is_not_taken_for_the_old_one(settings: Path) -> None:
    add("Old")
    settings.write_bytes(TEXT)

    add()
    remove()

    assert settings.read_bytes() == TEXT


def test_what_a_killed_setup_has_left_goes(settings: Path) -> None:
    settings.with_name(f".{settings.name}.abc.conductor").write_bytes(TEXT[:5])

    add()

    assert [each.name for each in settings.parent.iterdir()] == [settings.name]


def test_a_folder_that_is_a_link_to_nowhere_is_left_alone(settings: Path, tmp_path: Path) -> None:
    settings.unlink()
    settings.parent.rmdir()
    settings.parent.symlink_to(tmp_path / "gone")

    with pytest.raises(UsageError, match="link that leads nowhere"):
        add()

    assert not (tmp_path / "gone").exists()


@pytest.mark.proves("a trusted place can be")
@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_what_others_can_lead_elsewhere_is_left_alone(settings: Path, variable: str) -> None:
    """Somebody else could put a link there to another folder of the user's, such as a checkout."""
    add()
    before = settings.read_bytes()
    above = Path(os.environ[variable])
    above.chmod(0o777)

    for change in (add, remove):
        with pytest.raises(UsageError, match=f"{above}` may be written by others"):
            change("another" if change is add else "Conductor")

    assert settings.read_bytes() == before


def test_folders_with_something_in_them_stay(settings: Path) -> None:
    settings.unlink()
    settings.parent.rmdir()
    add()
    other = settings.with_name("keymap.json")
    other.write_bytes(b"[]")

    assert remove().removed
    assert other.exists()


@pytest.mark.parametrize("way", ["whole", "in place", "made"])
def test_no_edit_of_an_editor_is_lost_between_the_last_look_and_the_write(
    settings: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The editor writes after the file was compared for the last time."""
    late = [TEXT.replace(b"One Dark", b"One Light")]
    real = apply._compare
    if way == "made":
        settings.unlink()

    def compare(snapshot: apply.Snapshot) -> None:
        real(snapshot)
        if late:
            beside = settings.with_name("editor")
            place = settings if way == "in place" else beside
            place.write_bytes(late.pop())
            if way != "in place":
                beside.rename(settings)

    monkeypatch.setattr(apply, "_compare", compare)

    add()

    assert late == []
    assert b"One Light" in settings.read_bytes()
    assert names(settings) == {"Conductor"}
    assert [each.name for each in settings.parent.iterdir()] == [settings.name]
