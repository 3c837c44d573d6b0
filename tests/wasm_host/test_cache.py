"""The compile cache: it saves work, and never loads what this host did not write."""

import hashlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import wasm_host
from tests.places import ROOT
from tests.wasm_host.support import CARRIERS, GUESTS, Carrier, wasm
from wasm_host import Limits

CORE = CARRIERS[0]


def load(carrier: Carrier, cache: Path, limits: Limits | None = None) -> wasm_host.Module:
    """The pass-through guest, through a cache; it must work whatever the cache does."""

    module = wasm_host.load(wasm(GUESTS / carrier.file), cache_dir=cache, limits=limits)
    guest = module.instantiate("it")
    guest.start(b"")
    assert guest.deliver(carrier.line(b"1")) == carrier.answer(carrier.line(b"1"))
    guest.close()
    return module


def entries(cache: Path) -> list[Path]:
    """Compiled modules in the cache."""
    return sorted(cache.iterdir())


@pytest.mark.parametrize("carrier", CARRIERS, ids=lambda carrier: carrier.name)
def test_the_second_load_is_a_hit(carrier: Carrier, tmp_path: Path) -> None:
    cache = tmp_path / "deep" / "cache"
    assert load(carrier, cache).cache_report == "stored"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    (entry,) = entries(cache)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert load(carrier, cache).cache_report == "hit"
    assert entries(cache) == [entry]


def test_modules_and_configurations_do_not_meet(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert load(CORE, cache).cache_report == "stored"
    assert load(CARRIERS[2], cache).cache_report == "stored"
    assert load(CORE, cache, Limits(fuel=10**9)).cache_report == "stored"
    assert load(CORE, cache, Limits(memory_bytes=10**7)).cache_report == "hit"
    assert len(entries(cache)) == 3


@pytest.mark.proves("poisoned folders of compiled")
@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "garbage"])
def test_a_damaged_entry_is_compiled_again(damage: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    load(CORE, cache)
    (entry,) = entries(cache)
    content = bytearray(entry.read_bytes())
    if damage == "truncate":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[len(content) // 2] ^= 1
    elif damage == "empty":
        content.clear()
    else:
        content = bytearray(b"not compiled code")
    entry.write_bytes(content)
    assert load(CORE, cache).cache_report == "stored"
    assert load(CORE, cache).cache_report == "hit"
    assert len(entries(cache)) == 1


def test_an_entry_wasmtime_refuses_is_compiled_again(tmp_path: Path) -> None:
    """Whole and ours, but not what this wasmtime makes: as after an upgrade without a new key."""
    cache = tmp_path / "cache"
    load(CORE, cache)
    (entry,) = entries(cache)
    content = b"\x7fELF of another version"
    key = entry.name.partition("-")[0]
    entry.unlink()
    forged = cache / f"{key}-{hashlib.sha256(content).hexdigest()}.cwasm"
    forged.write_bytes(content)
    forged.chmod(0o600)
    assert load(CORE, cache).cache_report == "stored"
    assert not forged.exists()
    assert load(CORE, cache).cache_report == "hit"


@pytest.mark.proves("conductor uses compiled modules")
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_directory_open_to_others_is_ignored(mode: int, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(mode)
    report = load(CORE, cache).cache_report
    assert report == f"ignored: {cache} has mode {mode:04o} instead of 0700"
    assert entries(cache) == []


def test_a_directory_of_somebody_else_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    load(CORE, cache)
    uid = os.getuid()
    monkeypatch.setattr("wasm_host.cache.store.os.getuid", lambda: uid + 1)
    assert load(CORE, cache).cache_report == f"ignored: {cache} belongs to another user"


def test_a_link_instead_of_the_directory_is_ignored(tmp_path: Path) -> None:
    real = tmp_path / "real"
    load(CORE, real)
    link = tmp_path / "link"
    link.symlink_to(real)
    assert load(CORE, link).cache_report == f"ignored: {link} is not a directory"


def test_a_file_instead_of_the_directory_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert load(CORE, path).cache_report.startswith("ignored: ")


@pytest.mark.proves("conductor uses compiled modules", "poisoned folders of compiled")
@pytest.mark.parametrize("trick", ["mode", "symlink", "hardlink"])
def test_an_entry_that_may_not_be_ours_alone_is_not_loaded(trick: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    load(CORE, cache)
    (entry,) = entries(cache)
    outside = tmp_path / "outside"
    if trick == "mode":
        entry.chmod(0o644)
    elif trick == "symlink":
        entry.rename(outside)
        entry.symlink_to(outside)
    else:
        outside.hardlink_to(entry)
    assert load(CORE, cache).cache_report == "stored"
    (entry,) = entries(cache)
    assert not entry.is_symlink()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert entry.stat().st_nlink == 1


def test_who_finds_another_at_it_waits_instead_of_compiling_too(tmp_path: Path) -> None:
    cache, begun, go = tmp_path / "cache", threading.Event(), threading.Event()
    compiled: list[str] = []
    reports: dict[str, str] = {}

    def host(name: str) -> None:
        def compiling() -> None:
            compiled.append(name)
            begun.set()
            go.wait(60)

        found = wasm_host.load(wasm(GUESTS / CORE.file), cache_dir=cache, compiling=compiling)
        reports[name] = found.cache_report

    first = threading.Thread(target=host, args=("first",))
    first.start()
    assert begun.wait(60)
    others = [threading.Thread(target=host, args=(name,)) for name in ("second", "third")]
    for one in others:
        one.start()
    go.set()
    for one in (first, *others):
        one.join(60)
    assert compiled == ["first"]
    assert reports == {"first": "stored", "second": "hit", "third": "hit"}


def test_writers_at_the_same_time(tmp_path: Path) -> None:
    """Processes that start together all work and leave one whole entry."""
    cache = tmp_path / "cache"
    guest = tmp_path / "flip.wasm"

    guest.write_bytes(wasm(GUESTS / "flip.wat"))
    script = (
        "import sys, pathlib, wasm_host\n"
        "for _ in range(5):\n"
        "    module = wasm_host.load(sys.argv[1], cache_dir=pathlib.Path(sys.argv[2]))\n"
        "    assert module.cache_report in ('hit', 'stored'), module.cache_report\n"
        "    guest = module.instantiate('it')\n"
        "    assert guest.start(b'p1\\n') == b's1\\n'\n"
    )
    command = [sys.executable, "-c", script, str(guest), str(cache)]
    workers = [subprocess.Popen(command, cwd=ROOT) for _ in range(4)]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0, 0]
    (entry,) = entries(cache)
    assert entry.suffix == ".cwasm"
    assert load(CORE, cache).cache_report == "hit"
