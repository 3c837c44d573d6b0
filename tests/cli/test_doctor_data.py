"""`conductor doctor --data` and `--clean`: all data kept is shown, and only such data is
deleted."""

import fcntl
import json
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conductor.fleet import bundle as bundles
from conductor.fleet.bundle_cache import BundleCache
from conductor.services import kept_values
from conductor.services.calls import Grantee
from conductor.services.kv import Store
from tests.fleet.bundles import written
from tests.harness.process.command import Ran, conductor

DAY = 24 * 3600.0


@pytest.fixture(name="home", autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user who has nothing yet."""
    for name in ("STATE", "DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    return tmp_path


def grantee(name: str) -> Grantee:
    """A component that keeps values."""
    return Grantee(name, f"{name}\0x", frozenset({"kv"}), {})


def keep(file: Path, name: str, project: str = "/p", age: int = 0) -> Store:
    """A store in which a component has kept a value."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = Store(str(file), project, age)
    store.set(grantee(name), b'{"key":"k","value":"v"}')
    return store


def found(store: Store, name: str) -> bool:
    """Whether the value of a component is still there."""
    answer = store.get(grantee(name), b'{"key":"k"}')
    assert isinstance(answer, dict)
    return bool(answer["found"])


def put_logs(home: Path, *ages: float) -> Path:
    """The folder of logs, with a file of each age in days."""
    folder = home / "state" / "conductor" / "logs"
    folder.mkdir(mode=0o700, parents=True)
    for at, age in enumerate(ages):
        path = folder / f"{at}.log"
        path.write_bytes(b"\xff\x00" * 10)
        os.utime(path, (time.time() - age * DAY,) * 2)
    return folder


def shown() -> dict[str, dict[str, Any]]:
    """The rows of `conductor doctor --data --json`, by kind."""
    ran = conductor("doctor", "--data", "--json")
    assert ran.code == 0, ran.err
    return {row["kind"]: row for row in json.loads(ran.out)["kinds"]}


def delete(*arguments: str) -> Ran:
    """Runs `conductor doctor --clean` with its yes."""
    return conductor("doctor", "--clean", *arguments, "--yes")


def test_it_shows_and_deletes_logs_but_none_in_use_and_nothing_else(home: Path) -> None:
    logs = put_logs(home, 0, 9, 10)
    victim = home / "victim.log"
    victim.write_text("mine")
    (logs / "link.log").symlink_to(victim)
    (logs / "notes.txt").touch()
    row = shown()["logs"]
    assert (row["number"], row["bytes"], row["place"]) == (3, 60, str(logs))
    assert time.time() - row["oldest"] > 9 * DAY
    conductor("doctor", "--clean", "logs").assert_error(2, "nobody can be asked", "--yes")
    assert len(list(logs.iterdir())) == 5
    with (logs / "2.log").open() as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        ran = delete("logs", "--older", "7d")
    assert (ran.code, ran.out) == (
        0,
        "deleted 1 of log files of chains\n1 stays: chains that run use them\n",
    )
    assert json.loads(delete("logs", "--json").out) == {"kind": "logs", "deleted": 2, "left": 0}
    assert sorted(path.name for path in logs.iterdir()) == ["link.log", "notes.txt"]
    assert victim.read_text() == "mine"
    assert "log files of chains" in conductor("doctor", "--data").out


def test_values_are_shown_and_deleted_by_component(home: Path) -> None:
    file = home / "data" / "conductor" / "kv.sqlite"
    for name, project in (("one", "/a"), ("one", "/b"), ("tw\x1b[2Jo", "/a")):
        keep(file, name, project).close()
    row = shown()["values"]
    assert [(each["component"], each["number"]) for each in row["components"]] == [
        ("one", 2),
        ("tw\x1b[2Jo", 1),
    ]
    assert "\x1b" not in conductor("doctor", "--data").out
    delete("values", "--component", "three").assert_error(2, "no values are kept for `three`")
    delete("trust").assert_error(2, "does not delete", "conductor trust --remove")
    delete("frob").assert_error(2, "nothing that is kept is called `frob`", "modules, guests")
    delete("logs", "--component", "one").assert_error(2, "`--component` is for `values`")
    assert delete("values", "--component", "one").code == 0
    assert [one.component for one in kept_values.spaces(str(file))] == ["tw\x1b[2Jo"]


def test_a_damaged_file_of_values_is_one_error_and_can_be_removed_once_unused(home: Path) -> None:
    file = home / "data" / "conductor" / "kv.sqlite"
    store = keep(file, "one")
    delete("values", "--damaged").assert_error(1, "a chain uses that file")
    store.close()
    file.write_bytes(b"garbage" * 1000)
    assert "not a database" in shown()["values"]["problem"]
    delete("values").assert_error(1, "not a database", "--damaged")
    assert delete("values", "--damaged").code == 0
    assert not file.exists()


def made(path: Path, size: int, days: float) -> Path:
    """A file that was last used so many days ago."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    at = time.time() - days * DAY
    os.utime(path, (at, at))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is named by XDG_CACHE_HOME")
def test_what_conductor_makes_again_is_shown_and_goes(home: Path) -> None:
    modules, guests = (home / "cache" / "conductor" / name for name in ("modules", "guests"))
    assert shown()["modules"]["number"] == 0
    assert not modules.exists(), "nothing is made"
    old, new = (
        made(modules / f"{name}-x.cwasm", 1_000_000, n) for name, n in (("a", 40), ("b", 1))
    )
    built = made(guests / "python-old.wasm", 1_000_000, 40)
    made(guests / "python-old.sha256", 65, 40)
    assert [(shown()[kind]["number"]) for kind in ("modules", "guests")] == [2, 1]
    assert delete("modules", "--older", "30d").out == "deleted 1 of compiled modules\n"
    assert [one.exists() for one in (old, new, built)] == [False, True, True]
    for kind in ("modules", "guests"):
        assert json.loads(delete(kind, "--json").out) == {"kind": kind, "deleted": 1, "left": 0}
    assert list(modules.iterdir()) == list(guests.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is named by XDG_CACHE_HOME")
def test_bundles_that_no_worker_uses(home: Path) -> None:
    cache = BundleCache(str(home / "cache" / "conductor" / "bundles"))
    opened = cache.opened(bundles.parse(written(home / "made", "")), [])
    place = Path(opened.folder).parent
    assert shown()["bundles"]["number"] == 1
    assert delete("bundles").out.startswith("deleted 0 of ")
    cache.release(opened.digest)
    assert delete("bundles", "--older", "30d").out.startswith("deleted 0 of ")
    os.utime(place, (0, 0))
    assert delete("bundles", "--older", "30d").out.startswith("deleted 1 of ")
    assert not place.exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--older", "7d"], "`--older` means nothing without `--clean`"),
        (["--data", "--damaged"], "`--damaged` means nothing without `--clean`"),
        (["--clean", "logs", "--show"], "`--show` means nothing without `--report`"),
        (["--report", "--json"], "a report is a text: `--report` has no `--json`"),
        (["--yes"], "`--yes` means nothing without `--report` or `--clean`"),
        (["--report", "--data"], "are several questions"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_an_option_of_another_question(arguments: list[str], text: str) -> None:
    conductor("doctor", *arguments).assert_error(2, text, "hint: ")


@pytest.mark.parametrize("kind", ["logs", "rings", "values", "modules", "guests", "editors"])
def test_a_link_in_place_of_what_is_ours_leads_nowhere(kind: str, home: Path) -> None:
    place = Path(shown()[kind]["place"])
    elsewhere = home / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    mine = [elsewhere / name for name in ("a.log", "b.jsonl", "c-x.cwasm", "python-x.wasm")]
    for path in mine:
        path.touch(mode=0o600)
    keep(elsewhere / "kv", "one").close()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(elsewhere / "kv" if kind == "values" else elsewhere)
    assert shown()[kind]["problem"]
    delete(kind).assert_error(*((2,) if kind == "editors" else (1, str(place))))
    assert all(path.exists() for path in mine)
    assert len(kept_values.spaces(str(elsewhere / "kv"))) == 1


def test_all_go_where_a_run_removes_only_some(home: Path) -> None:
    logs = put_logs(home)
    for at in range(600):  # a run that starts removes 500 (`retention.prune`)
        (logs / f"{at}.log").touch()
    assert delete("logs").out == "deleted 600 of log files of chains\n"
    assert list(logs.iterdir()) == []


def test_values_go_that_are_unused_for_long(home: Path) -> None:
    file = home / "kv.sqlite"
    for name in ("old", "new"):
        keep(file, name).close()
    with sqlite3.connect(file) as db:
        for name, days in (("old", 12), ("new", 2)):
            used = time.time() - days * DAY
            db.execute("update spaces set used = ? where component = ?", (used, name))
    store = Store(str(file), "/p", 11)
    assert found(store, "new")
    store.close()
    with sqlite3.connect(file) as db:
        used = time.time() - 2 * DAY
        db.execute("update spaces set used = ? where component = 'new'", (used,))
    assert {one.component for one in kept_values.spaces(str(file))} == {"old", "new"}
    store = Store(str(file), "/p", 9)
    assert not found(store, "old")
    store.close()
    assert {one.component for one in kept_values.spaces(str(file))} == {"new"}


def test_a_clock_that_is_wrong_for_a_day_deletes_no_values(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, now = home / "kv.sqlite", time.time()
    keep(file, "one").close()
    for _ in range(3):
        monkeypatch.setattr(time, "time", lambda: now + 3650 * DAY)
        store = Store(str(file), "/p", 180)
        store.set(grantee("two"), b'{"key":"k","value":"v"}')
        store.close()
    monkeypatch.setattr(time, "time", lambda: now)
    store = Store(str(file), "/p", 180)
    assert found(store, "one")
    assert found(store, "two")
    store.close()


def test_of_too_many_values_those_unused_for_longest_go(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_values, "MOST", 300_000)
    file = home / "kv.sqlite"
    for at in range(5):
        store = keep(file, f"c{at}")
        value = json.dumps({"key": "big", "value": "x" * 100_000}).encode()
        store.set(grantee(f"c{at}"), value)
        store.close()
    with sqlite3.connect(file) as db:
        for at in range(5):
            when = time.time() - (9 - at) * DAY if at < 4 else time.time()
            db.execute("update spaces set used = ? where component = ?", (when, f"c{at}"))
    keep(file, "c4").close()
    assert {one.component for one in kept_values.spaces(str(file))} == {"c3", "c4"}
