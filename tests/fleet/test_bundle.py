"""Bundles: the same content is the same bytes, and what is not exactly that is refused by name."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.errors import ConductorError, UsageError
from conductor.fleet import bundle as bundles
from conductor.fleet.bundle import BundleError
from conductor.fleet.bundle_cache import BundleCache
from conductor.packages.pack import File
from conductor.spec import installed
from tests.fleet.keys import pair

FILES = {
    "conductor.toml": File(b"[chains.work]\ncomponents = ['demo']\n"),
    "tools/filter.py": File(b"x = 1\n", executable=True),
    "tools/same.py": File(b"x = 1\n"),
    "empty": File(b""),
}


def refused(call: Callable[[], object], reason: str, text: str) -> None:
    """The call raises an error with this reason, and a hint."""
    with pytest.raises(BundleError) as error:
        call()
    assert error.value.reason == reason, error.value.text
    assert text in error.value.text
    assert error.value.hint


def entries_of(data: bytes) -> dict[str, bytes]:
    """The entries of an archive."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        read = {head.name: tar.extractfile(head) for head in tar}
        return {name: file.read() for name, file in read.items() if file is not None}


def archive(entries: dict[str, bytes]) -> bytes:
    """An archive of these entries, as bundles are written."""
    return b"".join(bundles._entry(*entry) for entry in entries.items()) + bundles._END


@pytest.fixture(autouse=True)
def _release() -> Any:
    yield
    for folder in [*installed.held]:
        os.close(installed.held.pop(folder))


def test_the_same_content_is_the_same_bytes(tmp_path: Path) -> None:
    secret, public = pair(tmp_path)
    data = bundles.made(FILES, secret)
    assert data == bundles.made(dict(reversed(FILES.items())), secret)
    read = bundles.read(data, hashlib.sha256(data).hexdigest())
    assert read.files == {path: FILES[path] for path in sorted(FILES)}
    read.signed_by(bundles.keys_of([public]))


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_any_of_the_keys_counts(tmp_path: Path, kind: str) -> None:
    secret, public = pair(tmp_path, kind=kind)
    _, other = pair(tmp_path, "other")
    read = bundles.read(bundles.made(FILES, secret))
    read.signed_by(bundles.keys_of([other, public]))
    refused(lambda: read.signed_by(bundles.keys_of([other])), "signature", "is not signed by")
    refused(lambda: read.signed_by([]), "signature", "no key is given")


def test_other_tools_read_it(tmp_path: Path) -> None:
    """`tar` lists it, and the signature is of `bundle.json` as cosign makes one."""
    secret, _ = pair(tmp_path)
    with tarfile.open(fileobj=io.BytesIO(bundles.made(FILES, secret))) as tar:
        names = tar.getnames()
        assert names[:2] == ["bundle.json", "bundle.json.sigstore.json"]
        for name in names[2:]:
            content = tar.extractfile(name)
            assert content is not None
            assert hashlib.sha256(content.read()).hexdigest() == name.removeprefix("files/")


def test_a_bundle_that_nobody_signed(tmp_path: Path) -> None:
    _, public = pair(tmp_path)
    read = bundles.read(bundles.made(FILES))
    refused(lambda: read.signed_by(bundles.keys_of([public])), "unsigned", "no signature")


def test_a_signature_of_another_bundle(tmp_path: Path) -> None:
    secret, public = pair(tmp_path)
    entries = entries_of(bundles.made({"conductor.toml": File(b"")}, secret))
    others = entries_of(bundles.made(FILES, secret))
    others["bundle.json.sigstore.json"] = entries["bundle.json.sigstore.json"]
    read = bundles.read(archive(others))
    refused(lambda: read.signed_by(bundles.keys_of([public])), "signature", "another package")


def test_other_bytes_under_a_digest() -> None:
    data = bundles.made(FILES)
    other = bundles.made({"conductor.toml": File(b"")})
    digest = hashlib.sha256(data).hexdigest()
    refused(lambda: bundles.read(other, digest), "digest", "is not what its digest says")


def test_a_bundle_cut_off_anywhere() -> None:
    data = bundles.made(FILES)
    for length in {*range(0, len(data), 97), len(data) - 1}:
        with pytest.raises(BundleError) as error:
            bundles.read(data[:length])
        assert error.value.reason == "truncated"


def test_a_later_format() -> None:
    entries = entries_of(bundles.made(FILES))
    later = entries["bundle.json"].replace(b"conductor.bundle.1", b"conductor.bundle.2")
    refused(lambda: bundles.read(archive({**entries, "bundle.json": later})), "version", "bundle.2")


def manifest(**changed: Any) -> bytes:
    """The manifest of `FILES`, with the first file changed."""
    table = msgspec.json.decode(entries_of(bundles.made(FILES))["bundle.json"])
    if "files" in changed or "format" in changed or "more" in changed:
        return msgspec.json.encode({**table, **changed})
    first, *others = table["files"]
    return msgspec.json.encode({**table, "files": [{**first, **changed}, *others]})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"\xff", "damaged"),
        (b"[]", "damaged"),
        (b'{"format":"oci"}', "damaged"),
        (manifest(files=[]), "damaged"),
        (manifest(more=1), "damaged"),
        (manifest(size=-1), "damaged"),
        (manifest(size=7), "size"),
        (manifest(size=2**62), "damaged"),
        (manifest(sha256="../../etc"), "damaged"),
        (manifest(path="zzz"), "damaged"),
        (manifest(path="empty"), "damaged"),
        (manifest(mode=0o4755), "damaged"),
        (manifest() + b" ", "damaged"),
        (b" " * (1024 * 1024 + 1), "size"),
    ],
)
def test_a_manifest_that_is_none(text: bytes, reason: str) -> None:
    entries = {**entries_of(bundles.made(FILES)), "bundle.json": text}
    refused(lambda: bundles.read(archive(entries)), reason, "")


def test_more_files_than_a_bundle_may_have() -> None:
    part = {"sha256": hashlib.sha256(b"").hexdigest(), "size": 0, "executable": False}
    parts = [{"path": f"{n:05}", **part} for n in range(bundles.MOST_FILES)]
    parts.append({"path": "conductor.toml", **part})
    text = msgspec.json.encode({"format": bundles.FORMAT, "files": parts})
    refused(lambda: bundles.read(archive({"bundle.json": text})), "size", "2,000 files")


def test_a_bundle_that_says_it_is_huge_costs_nothing() -> None:
    """A header may claim any size: nothing is taken before the bytes are there."""
    head = tarfile.TarInfo("bundle.json")
    head.size = 8**11 - 1
    refused(lambda: bundles.read(head.tobuf(tarfile.USTAR_FORMAT)), "size", "larger")


def odd(change: Callable[[tarfile.TarInfo], None]) -> bytes:
    """A bundle whose last file has another header."""
    made = io.BytesIO()
    entries = [*entries_of(bundles.made(FILES)).items()]
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in entries:
            head = tarfile.TarInfo(name)
            head.size = len(content)
            if name == entries[-1][0]:
                change(head)
            tar.addfile(head, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
                                  tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
                                  tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE])  # fmt: skip
def test_links_devices_and_folders(kind: bytes) -> None:
    refused(lambda: bundles.read(odd(lambda head: setattr(head, "type", kind))), "damaged", "")


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "files/x", "bundle.json"])
def test_entries_of_other_names(name: str) -> None:
    refused(lambda: bundles.read(odd(lambda head: setattr(head, "name", name))), "damaged", "")


@pytest.mark.parametrize(("field", "value"), [("mode", 0o4755), ("uid", 1), ("mtime", 1),
                                              ("uname", "root"), ("linkname", "x")])  # fmt: skip
def test_a_header_that_says_more(field: str, value: Any) -> None:
    refused(lambda: bundles.read(odd(lambda head: setattr(head, field, value))), "damaged", "")


def test_something_behind_the_end() -> None:
    data = bundles.made(FILES)
    for more in (b"x", bytes(512), data):
        refused(lambda more=more: bundles.read(data + more), "damaged", "after its end")  # type: ignore[misc]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return pair(tmp_path_factory.mktemp("keys"))


@settings(max_examples=300)
@given(st.data())
def test_a_changed_byte_changes_no_file(key: tuple[str, str], data: st.DataObject) -> None:
    """Only what surrounds the signature itself, such as the hint which key it is of, is free."""
    whole = bytearray(bundles.made(FILES, key[0]))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(BundleError):
        read = bundles.read(bytes(whole))
        read.signed_by(bundles.keys_of([key[1]]))
        assert read.files == FILES


@given(st.binary(max_size=2000))
def test_any_bytes(content: bytes) -> None:
    with pytest.raises(BundleError):
        bundles.read(content)


# -- files on a worker -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/x", "a/../x", "a//b", "c:x", "a\\b", "x\n", ".", "a/" * 40 + "b", "x" * 300],
)
def test_paths_that_leave_the_folder(tmp_path: Path, path: str) -> None:
    data = bundles.made({**FILES, path: File(b"bad")})
    cache = BundleCache(str(tmp_path / "bundles"))
    refused(lambda: cache.unpacked(bundles.read(data), data), "damaged", "cannot be unpacked")
    assert os.listdir(tmp_path) == ["bundles"]
    assert os.listdir(tmp_path / "bundles") == ["lock"]


@pytest.mark.parametrize("paths", [("a", "A"), ("x", "x/y"), ("\u00e9", "e\u0301")])
def test_paths_that_are_one_on_some_system(tmp_path: Path, paths: tuple[str, str]) -> None:
    data = bundles.made({**FILES, **dict.fromkeys(paths, File(b""))})
    cache = BundleCache(str(tmp_path / "bundles"))
    refused(lambda: cache.unpacked(bundles.read(data), data), "damaged", "cannot be unpacked")


def test_unpacked_once_and_read_only(tmp_path: Path) -> None:
    data = bundles.made(FILES)
    read = bundles.read(data)
    cache = BundleCache(str(tmp_path / "bundles"))
    folder = Path(cache.unpacked(read, data))
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        *FILES
    }
    modes = {path.stat().st_mode & 0o222 for path in [folder, *folder.rglob("*")]}
    assert modes == {0}
    inode = folder.stat().st_ino
    assert Path(cache.unpacked(read, data)).stat().st_ino == inode
    assert cache.whole(read.digest) == data
    assert cache.whole("0" * 64) is None


@pytest.mark.parametrize("how", ["changed", "removed", "more", "executable", "link", "whole"])
def test_a_damaged_folder_is_made_anew(tmp_path: Path, how: str) -> None:
    data = bundles.made(FILES)
    read = bundles.read(data)
    cache = BundleCache(str(tmp_path / "bundles"))
    folder = Path(cache.unpacked(read, data))
    for path in (folder.parent, folder, *folder.rglob("*")):
        path.chmod(0o700)
    config = folder / "conductor.toml"
    if how == "changed":
        config.write_bytes(b"bad")
    elif how in ("removed", "link"):
        config.unlink()
    elif how == "more":
        (folder / "more").touch()
    elif how == "whole":
        (folder.parent / "bundle").write_bytes(b"")
    if how == "link":
        config.symlink_to(folder / "empty")
    assert cache.unpacked(read, data) == str(folder)
    assert config.read_bytes() == FILES["conductor.toml"].content
    assert not (folder / "more").exists()
    assert not (folder / "empty").stat().st_mode & 0o100


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    cache = BundleCache(str(tmp_path / "bundles"))
    digests = []
    for text in (b"", b"\n", b"\n\n"):
        data = bundles.made({"conductor.toml": File(text)})
        cache.unpacked(bundles.read(data), data)
        digests.append(hashlib.sha256(data).hexdigest())
    cache.release(digests[1])
    cache.release(digests[2])
    cache.prune([digests[2]])
    assert {*os.listdir(tmp_path / "bundles")} == {"lock", digests[0], digests[2]}


def test_a_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "bundles").mkdir(mode=0o777)
    (tmp_path / "bundles").chmod(0o777)
    with pytest.raises(ConductorError, match="can be written by other users"):
        BundleCache(str(tmp_path / "bundles")).whole("0" * 64)


def test_what_cannot_be_bundled(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs a conductor\.toml"):
        bundles.made({"x": File(b"")})
    many = {f"{n}": File(b"") for n in range(bundles.MOST_FILES)}
    with pytest.raises(UsageError, match="too large"):
        bundles.made({**FILES, **many})
