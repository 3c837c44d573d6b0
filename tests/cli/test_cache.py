"""`conductor cache`: what is kept, and less of it."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from conductor.fleet import bundle as bundles
from conductor.fleet.bundle_cache import BundleCache
from conductor.packages.pack import File
from conductor.spec.python_guest import scripts
from tests.harness.process.command import conductor, environment

DAY = 24 * 3600


def made(path: Path, size: int, days: float) -> Path:
    """A file that was last used so many days ago."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    at = time.time() - days * DAY
    os.utime(path, (at, at))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is named by XDG_CACHE_HOME")
def test_what_is_kept_and_what_goes(tmp_path: Path) -> None:
    modules, guests = tmp_path / "conductor" / "modules", tmp_path / "conductor" / "guests"
    env = environment(XDG_CACHE_HOME=str(tmp_path))
    empty = conductor("cache", env=env)
    assert (empty.code, empty.err) == (0, "")
    assert "0 compiled modules" in empty.out
    assert not modules.exists(), "nothing is made"

    old = made(modules / "a-x.cwasm", 3_000_000, 40)
    new = made(modules / "b-x.cwasm", 2_000_000, 1)
    built = made(guests / "python-old.wasm", 1_000_000, 40)
    made(guests / "python-old.sha256", 65, 40)
    current = made(guests / f"{scripts.guest_name()}.wasm", 500_000, 40)
    shown = conductor("cache", env=env)
    assert [line.split() for line in shown.out.splitlines()] == [
        ["2", "compiled", "modules", "4.8", "MiB", str(modules)],
        ["2", "Python", "guests", "1.4", "MiB", str(guests)],
    ]
    pruned = conductor("cache", "prune", env=env)
    assert (pruned.code, pruned.out) == (0, "removed 2 files, 3.8 MiB\n")
    assert [one.exists() for one in (old, new, built, current)] == [False, True, False, True]
    assert [path.name for path in guests.iterdir()] == [current.name]
    told = json.loads(conductor("cache", "--json", env=env).out)
    assert told["folders"][0] == {
        "kind": "modules",
        "folder": str(modules),
        "files": 1,
        "bytes": 2_000_000,
    }
    everything = conductor("cache", "prune", "--all", "--json", env=env)
    assert json.loads(everything.out) == {"removed": {"files": 2, "bytes": 2_500_000}}
    assert list(modules.iterdir()) == list(guests.iterdir()) == []


def test_another_folder(tmp_path: Path) -> None:
    made(tmp_path / "a-x.cwasm", 1_000_000, 0)
    shown = conductor("cache", "--cache", str(tmp_path))
    assert shown.out.startswith("1 compiled module ")
    gone = conductor("cache", "prune", "--cache", str(tmp_path))
    assert gone.out == "removed 0 files, 0 bytes\n", "it was used just now"


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is named by XDG_CACHE_HOME")
def test_bundles_that_no_worker_uses(tmp_path: Path) -> None:
    env = environment(XDG_CACHE_HOME=str(tmp_path))
    cache = BundleCache(str(tmp_path / "conductor" / "bundles"))
    data = bundles.made({"conductor.toml": File(b"")})
    read = bundles.read(data)
    place = Path(cache.unpacked(read, data)).parent
    assert "1 bundle of a fleet " in conductor("cache", env=env).out
    assert conductor("cache", "prune", "--all", env=env).out == "removed 0 files, 0 bytes\n"
    cache.release(read.digest)
    assert conductor("cache", "prune", env=env).out == "removed 0 files, 0 bytes\n"
    os.utime(place, (0, 0))
    assert conductor("cache", "prune", env=env).out.startswith("removed 1 file, ")
    assert not place.exists()
