"""The store of what the user trusts: kept whole, private, and nothing trusted where it is not."""

import asyncio
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from conductor.errors import UsageError
from conductor.spec import paths, private_files, trust
from conductor.spec.trust import Agreement, Trust, TrustedFolder
from tests.places import DEADLINE

AT_ONCE: Final = """
import os, sys
from conductor.spec import trust
for number in range(20):
    os.makedirs(path := f"{sys.argv[1]}/{number}")
    trust.trust_folder(path)
"""


@pytest.fixture(name="store", autouse=True)
def _store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the store of a user who trusts nothing yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("user") / "state"))
    return Path(paths.trust())


def own(path: Path) -> str:
    """A folder of the user's that is trusted, made if it is not there."""
    path.mkdir(exist_ok=True)
    trust.trust_folder(str(path), own=True)
    return str(path)


def test_without_a_store_nothing_is_trusted_and_nothing_is_made(store: Path) -> None:
    assert trust.load() == Trust()
    assert trust.stamp() == (0, 0, 0)
    assert not trust.trusts_file("/conductor.toml", b"")
    assert not store.parent.exists()


def test_a_folder_is_trusted_with_everything_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "in" / "it").mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    trust.trust_folder(str(tmp_path / "link"), own=True)
    held = trust.load()
    assert list(held.folders) == [str(folder)]
    assert held.folders[str(folder)].own
    (folder / "in" / "it" / "p.wasm").touch()
    for place in ("mine", "mine/in/it", "mine/in/it/p.wasm", "link/in"):
        assert held.folder_of(str(tmp_path / place)) == str(folder)
    for place in ("", "mine2", "mine/../other"):
        assert held.folder_of(str(tmp_path / place)) is None
    (folder / "out").symlink_to(tmp_path)
    assert held.folder_of(str(folder / "out" / "p.wasm")) is None


@pytest.mark.proves("a place where somebody else")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o757])
def test_where_others_may_write_nothing_is_trusted(tmp_path: Path, mode: int) -> None:
    inner = tmp_path / "mine" / "open" / "p"
    inner.mkdir(parents=True)
    own(tmp_path / "mine")
    sticky = mode & stat.S_ISVTX  # on the way, nobody replaces what is in such a folder
    for place in (inner, inner.parent, tmp_path / "mine", tmp_path):
        assert trust.load().folder_of(str(inner)) == str(tmp_path / "mine")
        before = place.stat().st_mode
        place.chmod(mode)
        assert (trust.load().folder_of(str(inner)) is None) == (place == inner or not sticky)
        with pytest.raises(UsageError, match="may be written by others"):
            trust.trust_folder(str(place))
        place.chmod(before)


@pytest.mark.proves("a place where somebody else")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_what_belongs_to_another_user_is_not_trusted(tmp_path: Path) -> None:
    inner = tmp_path / "mine" / "p"
    inner.mkdir(parents=True)
    (inner / "component.toml").touch()
    own(tmp_path / "mine")
    for place in (inner / "component.toml", inner, tmp_path / "mine", tmp_path):
        assert trust.load().folder_of(str(inner / "component.toml")) == str(tmp_path / "mine")
        os.chown(place, 1, -1)
        assert trust.load().folder_of(str(inner / "component.toml")) is None
        os.chown(place, 0, -1)


@pytest.mark.proves("a trusted folder that is gone")
def test_a_folder_that_is_made_anew_is_another_one(tmp_path: Path) -> None:
    mine, file = tmp_path / "mine", tmp_path / "mine" / "conductor.toml"
    own(mine)
    file.write_text("[chains]")
    trust.trust_file(str(file), b"[chains]")
    mine.rename(tmp_path / "away")
    assert trust.load().folder_of(str(mine)) is None
    mine.mkdir()
    file.write_text("[chains]")
    assert trust.load().folder_of(str(mine)) is None
    assert not trust.trusts_file(str(file), b"[chains]")
    assert not trust.trust_folder(str(mine))
    assert trust.trust_folder(str(mine))
    assert trust.load().folder_of(str(mine)) == str(mine)


def test_a_clock_that_is_wrong_writes_nothing_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for moment in (-1.0, 1e15):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        own(tmp_path / str(moment))
    assert len(trust.load().folders) == 2


def test_a_project_file_is_trusted_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "conductor.toml"
    file.write_text("[chains]")
    trust.trust_file(str(file), b"[chains]")
    assert trust.trusts_file(str(file), b"[chains]")
    assert not trust.trusts_file(str(file), b"[chains] ")
    assert not trust.trusts_file(str(tmp_path / "x" / "conductor.toml"), b"[chains]")
    assert not trust.trusts_file(str(tmp_path / "other.toml"), b"[chains]")


def test_the_store_is_private_and_replaced_as_a_whole(store: Path, tmp_path: Path) -> None:
    own(tmp_path / "a")
    before = trust.stamp()
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.parent.stat().st_mode) == 0o700
    with store.open("rb") as reader:
        own(tmp_path / "b")
        assert b'/b"' not in reader.read()
    assert trust.stamp() != before
    same = trust.stamp()
    trust.change(lambda held: held.folders.pop("/nowhere", None))
    assert trust.stamp() == same


@pytest.mark.proves("conductors that ask at once lose")
def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", AT_ONCE, name], cwd=tmp_path) for name in "abcd"
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    assert len(trust.load().folders) == 80


@pytest.mark.proves("a store of another version, a")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"version": 2, "folders": {"/": {"since": 1}}, "more": 1}', "it is of version 2"),
        ('{"version": 1, "folders": {"/": {"since": 1}}, "more": 1}', "it is damaged"),
        ('{"version": 1, "folders": {"/": {"since": 1}', "it is damaged"),
        ('{"folders": {"/": {"since": 1}}}', "it is damaged"),
        ('{"version": 1, "folders": {"/": {"since": -1}}}', "it is damaged"),
        ('{"version": 1, "folders": {"/": {"since": 99999999999999}}}', "it is damaged"),
        ('{"version": 1, "more": ' + "[" * 100_000 + "]" * 100_000 + "}", "it is damaged"),
        ("", "it is damaged"),
        ("\udcff", "it is damaged"),
    ],
)
def test_a_store_that_cannot_be_used_is_nothing_and_is_kept(
    store: Path, tmp_path: Path, content: str, why: str
) -> None:
    store.parent.mkdir(parents=True, mode=0o700)
    store.write_bytes(content.encode("utf-8", "surrogateescape"))
    os.chmod(store, 0o600)
    before = store.read_bytes()
    held, problem = trust.known()
    assert held == Trust()
    assert why in problem
    with pytest.raises(UsageError, match=why):
        own(tmp_path / "a")
    assert store.read_bytes() == before


@pytest.mark.proves("a store of another version, a", "a trusted place can be")
def test_a_store_that_others_may_write_is_nothing(store: Path, tmp_path: Path) -> None:
    own(tmp_path / "a")
    os.chmod(store, 0o620)
    assert "can be written by other users" in trust.known()[1]
    os.chmod(store, 0o600)
    store.parent.chmod(0o770)
    assert "can be written by other users" in trust.known()[1]
    with pytest.raises(UsageError, match="can be written by other users"):
        own(tmp_path / "b")
    os.chmod(store.parent, 0o700)
    assert trust.known() == (trust.load(), "")
    above = store.parent.parent.parent
    above.chmod(0o777)
    assert f"`{above}` may be written by others" in trust.known()[1]
    above.chmod(0o700)
    if os.geteuid() == 0:  # only root can give a folder away
        os.chown(above, 1, -1)
        assert f"`{above}` belongs to user 1" in trust.known()[1]
        os.chown(above, 0, -1)
    above.chmod(0o777)
    store.unlink()
    assert trust.known() == (Trust(), "")  # nothing is there
    with pytest.raises(UsageError, match=f"`{above}` may be written by others"):
        own(tmp_path / "b")
    assert not store.exists()
    above.chmod(0o775)  # of a group that a user may have alone
    own(tmp_path / "b")
    assert trust.known() == (trust.load(), "")
    elsewhere = tmp_path / "elsewhere"
    store.rename(elsewhere)
    store.symlink_to(elsewhere)
    assert "it is a link" in trust.known()[1]


def test_a_folder_that_was_there_before_becomes_private(store: Path, tmp_path: Path) -> None:
    store.parent.mkdir(parents=True)
    store.parent.chmod(0o775)
    own(tmp_path / "a")
    assert stat.S_IMODE(store.parent.stat().st_mode) == 0o700
    assert list(trust.load().folders) == [str(tmp_path / "a")]


def test_a_pipe_in_its_place_holds_nobody_up(store: Path) -> None:
    store.parent.mkdir(parents=True, mode=0o700)
    os.mkfifo(store, 0o600)
    assert "it is no ordinary file" in trust.known()[1]


def test_a_folder_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="cannot be written"):
        own(tmp_path / "a")
    with pytest.raises(UsageError, match="its name is not UTF-8"):
        own(tmp_path / "\udcff")


def test_all_of_it_comes_back(store: Path, tmp_path: Path) -> None:
    agreement = Agreement(since=1, name="p", place="/p.wasm", sha256="00", rights={"storage": "0"})
    trust.change(lambda held: held.agreed.update({"ab": agreement}))
    own(tmp_path / "a")
    held = trust.load()
    assert held.agreed == {"ab": agreement}
    assert isinstance(held.folders[str(tmp_path / "a")], TrustedFolder)
    assert [path.name for path in store.parent.iterdir()] == ["trust.json", "trust.json.lock"]


def test_a_chain_that_runs_does_not_wait_long_for_others(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds the lock file of the store holds up no messages."""
    own(tmp_path / "a")
    monkeypatch.setattr(private_files, "_WAIT", DEADLINE)
    monkeypatch.setattr(private_files, "WAIT_IN_CHAIN", 0.02)

    async def agrees() -> None:
        trust.agree("ab", Agreement(since=1, name="p", place="/p.wasm", sha256="00"))

    with private_files.alone(f"{store}.lock"), pytest.raises(UsageError, match="holds it"):
        asyncio.run(agrees())
    asyncio.run(agrees())
    assert [*trust.load().agreed] == ["ab"]
