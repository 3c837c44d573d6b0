"""Large entries of the cache are read through once; what was loaded is known by its digest."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import wasm_host
from wasm_host.cache.digest import sha256
from wasm_host.cache.store import STAMPED_BYTES, Cache

WAT = (Path(__file__).parent / "guests" / "flip.wat").read_text(encoding="utf-8")


@pytest.fixture(name="cache")
def _cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "modules", "identity")


@pytest.fixture(name="unreadable")
def _unreadable(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it, and hashing an entry from then on is an error."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("the entry was read through")

    return lambda: monkeypatch.setattr("mmap.mmap", read)


def fetched(cache: Cache, digest: str = "d") -> bytes | None:
    found, _ = cache.fetch(digest, lambda path: Path(path).read_bytes())
    return None if found is None else bytes(found)


def entry(folder: Path) -> Path:
    (path,) = (folder / "modules").glob("*.cwasm")
    return path


@pytest.mark.parametrize("size", [100, STAMPED_BYTES])
def test_a_changed_entry_is_thrown_away(cache: Cache, tmp_path: Path, size: int) -> None:
    content = b"x" * size
    assert cache.store("d", content) == "stored"
    assert fetched(cache) == fetched(cache) == content
    path = entry(tmp_path)
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"y")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert fetched(cache) is None
    assert list((tmp_path / "modules").iterdir()) == []


def test_only_large_entries_get_a_stamp(cache: Cache, tmp_path: Path) -> None:
    cache.store("small", b"x")
    cache.store("large", b"x" * STAMPED_BYTES)
    assert fetched(cache, "small") is not None
    assert fetched(cache, "large") is not None
    folder = tmp_path / "modules"
    (large,) = (p for p in folder.glob("*.cwasm") if p.stat().st_size >= STAMPED_BYTES)
    assert [p.name for p in folder.glob("*.seen")] == [f".{large.name}.seen"]


def test_an_entry_with_a_stamp_is_not_read_again(
    cache: Cache, tmp_path: Path, unreadable: Callable[[], None]
) -> None:
    cache.store("d", b"x" * STAMPED_BYTES)
    assert fetched(cache) is not None
    unreadable()
    assert fetched(cache) is not None
    os.utime(entry(tmp_path))
    with pytest.raises(AssertionError, match="read through"):
        fetched(cache)


@pytest.mark.parametrize("spoil", ["mode", "link", "second name", "absent"])
def test_a_stamp_that_others_could_have_written_counts_for_nothing(
    cache: Cache, tmp_path: Path, spoil: str, unreadable: Callable[[], None]
) -> None:
    cache.store("d", b"x" * STAMPED_BYTES)
    assert fetched(cache) is not None
    path = entry(tmp_path)
    stamp = path.with_name(f".{path.name}.seen")
    if spoil == "mode":
        stamp.chmod(0o644)
    elif spoil == "link":
        stamp.rename(tmp_path / "elsewhere")
        stamp.symlink_to(tmp_path / "elsewhere")
    elif spoil == "second name":
        (tmp_path / "elsewhere").hardlink_to(stamp)
    else:
        stamp.unlink()
    unreadable()
    with pytest.raises(AssertionError, match="read through"):
        fetched(cache)


def test_a_module_known_by_its_digest_is_not_read(tmp_path: Path) -> None:
    import wasmtime

    source = tmp_path / "flip.wasm"
    source.write_bytes(bytes(wasmtime.wat2wasm(WAT)))
    digest = sha256(source.read_bytes())
    compiled: list[str] = []

    def load(known: str) -> wasm_host.Module:
        return wasm_host.load(
            source,
            cache_dir=tmp_path / "cache",
            digest=known,
            compiling=lambda: compiled.append(known),
        )

    first = load(digest)
    assert (first.cache_report, compiled) == ("stored", [digest])
    source.unlink()
    known = load(digest)
    assert (known.cache_report, known.info, compiled) == ("hit", first.info, [digest])
    assert known.instantiate().deliver(b"p1\n") == b"s1\n"
    with pytest.raises(wasm_host.LoadError, match=r"flip\.wasm"):
        load("0" * 64)


def test_a_wrong_digest_is_not_remembered(tmp_path: Path) -> None:
    import wasmtime

    source = tmp_path / "flip.wasm"
    source.write_bytes(bytes(wasmtime.wat2wasm(WAT)))
    for _ in range(2):
        module = wasm_host.load(source, cache_dir=tmp_path / "cache", digest="0" * 64)
        assert module.digest == sha256(source.read_bytes())
    assert list((tmp_path / "cache").glob("*.json")) == []
