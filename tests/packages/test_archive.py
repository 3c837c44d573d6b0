"""The one unpacker: files that come out of archives, and files that are refused, whoever made
them."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from conductor.errors import UsageError
from conductor.packages import archive
from conductor.packages.archive import Bounds, Tree

SMALL: Final = Bounds(unpacked=100_000, entries=20)


def tar(*entries: tuple[str, bytes] | tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A `.tar.gz` of files, and of entries as they are."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=form) as file:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                file.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                file.addfile(info, io.BytesIO(entry[1]))
    return made.getvalue()


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes], stored: bool = False) -> bytes:
    """A `.zip` of files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as file:
        for name, content in entries:
            file.writestr(name, content)
    return made.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """An entry of a tar archive that is no file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def linked(name: str, kind: int) -> zipfile.ZipInfo:
    """An entry of a zip archive with a kind of Unix."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (kind | 0o777) << 16
    return info


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_what_is_packed_comes_out(tmp_path: Path, form: int) -> None:
    long = "/".join(["folder" * 5] * 3) + "/file.py"
    packed = tar(("a.wasm", b"\0asm"), (f"./{long}", b"x" * 1000), ("empty", b""), form=form)
    archive.unpack(packed, str(tmp_path), SMALL)
    assert files(tmp_path) == {"a.wasm": b"\0asm", long: b"x" * 1000, "empty": b""}


def test_headers_for_all_files_change_no_path(tmp_path: Path) -> None:
    """`git archive` writes one: the commit, as a comment."""
    comment = gzip.decompress(with_member_header(b"16 comment=abcd\n", tarfile.XGLTYPE))
    renamed = gzip.decompress(with_member_header(b"10 path=b\n", tarfile.XHDTYPE))[:1024]
    archive.unpack(gzip.compress(renamed + comment), str(tmp_path), SMALL)
    assert files(tmp_path) == {"b": b""}


def test_a_long_path_in_other_letters(tmp_path: Path) -> None:
    long = "ü" * 70 + "/" + "é" * 70
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        place = tmp_path / str(form)
        place.mkdir()
        archive.unpack(tar((long, b"1"), form=form), str(place), SMALL)
        assert files(place) == {long: b"1"}


def test_a_zip_and_its_modes(tmp_path: Path) -> None:
    packed = zipped((linked("run", stat.S_IFREG), b"#!"), ("a/b.txt", b"text"), ("c/", b""))
    archive.unpack(packed, str(tmp_path), SMALL)
    assert files(tmp_path) == {"run": b"#!", "a/b.txt": b"text"}
    assert os.access(tmp_path / "run", os.X_OK)
    assert not (tmp_path / "a/b.txt").stat().st_mode & stat.S_IXUSR
    assert (tmp_path / "c").is_dir()


@pytest.mark.parametrize("comment", [b"a comment", b"ends with zeros\0\0"])
def test_a_zip_with_a_comment(tmp_path: Path, comment: bytes) -> None:
    made = io.BytesIO(zipped(("a", b"text")))
    with zipfile.ZipFile(made, "a") as file:
        file.comment = comment
    archive.unpack(made.getvalue(), str(tmp_path), SMALL)
    assert files(tmp_path) == {"a": b"text"}


PATHS: Final = {
    "a backslash": "a\\b",
    "a blank at the end": "a /b",
    "a colon": "C:b",
    "a control character": "a\x07b",
    "a dot": "a/./b",
    "a dot at the end": "a./b",
    "a newline": "a\nb",
    "absolute": "/etc/passwd",
    "climbs": "../a",
    "climbs from within": "a/../../b",
    "empty names": "a//b",
    "many folders": "/".join("a" * 40),
    "text that turns": "a\u202eb",
    "too long": "a" * 600,
}


@pytest.mark.parametrize("kind", sorted(PATHS))
def test_a_path_that_leaves_or_deceives(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "in"
    for number, packed in enumerate(
        (
            tar((PATHS[kind], b"x")),
            tar((PATHS[kind], b"x"), form=tarfile.GNU_FORMAT),
            zipped((PATHS[kind], b"x")),
        )
    ):
        here = place / str(number)
        here.mkdir(parents=True)
        with pytest.raises(UsageError, match="the package is refused"):
            archive.unpack(packed, str(here), SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def pax(**headers: str) -> tarfile.TarInfo:
    """A file with more headers."""
    info = tarfile.TarInfo("file")
    info.pax_headers = headers
    return info


def with_member_header(content: bytes, kind: bytes) -> bytes:
    """A tar archive that begins with a header of this kind and content."""
    head = tarfile.TarInfo("header")
    head.type, head.size = kind, len(content)
    padded = content + b"\0" * (-len(content) % 512)
    return gzip.compress(head.tobuf() + padded + tarfile.TarInfo("file").tobuf() + b"\0" * 1024)


def sizeless(size: int) -> bytes:
    """An archive whose entry says that it has so many bytes."""
    head = tarfile.TarInfo("file")
    head.size = size
    return gzip.compress(head.tobuf(tarfile.GNU_FORMAT) + b"\0" * 2048)


ARCHIVES: Final[dict[str, tuple[Callable[[], bytes], str]]] = {
    "a block device": (lambda: tar(special("a", tarfile.BLKTYPE)), "no ordinary file"),
    "a device in a zip": (lambda: zipped((linked("a", stat.S_IFCHR), b"")), "no ordinary file"),
    "a file and a folder": (lambda: tar(("a", b""), ("a/b", b"")), "a file and a folder"),
    "a folder that is a file": (lambda: tar(("a/b", b""), ("a", b"")), "twice"),
    "a hard link": (lambda: tar(("a", b""), special("b", tarfile.LNKTYPE, "a")), "a link"),
    "a header without end": (
        lambda: with_member_header(b"99 path=a\n", tarfile.XHDTYPE),
        "cannot be read",
    ),
    "a huge header": (
        lambda: with_member_header(b"0" * 70_000, tarfile.XHDTYPE),
        "more than 64 KiB",
    ),
    "a header of many records": (
        lambda: with_member_header(b"6 a=b\n" * 65, tarfile.XHDTYPE),
        "more than 64 records",
    ),
    "a huge name": (
        lambda: with_member_header(b"a" * 70_000, tarfile.GNUTYPE_LONGNAME),
        "more than 64 KiB",
    ),
    "a link": (lambda: tar(special("a", tarfile.SYMTYPE, "/etc/passwd")), "a link"),
    "a link in a zip": (lambda: zipped((linked("a", stat.S_IFLNK), b"/etc")), "a link"),
    "a name that is not text": (
        lambda: with_member_header(b"\xff\xfe", tarfile.GNUTYPE_LONGNAME),
        "not UTF-8",
    ),
    "a name with a NUL": (lambda: zipped(("ab", b"")).replace(b"ab", b"a\0"), "no path"),
    "a negative size": (lambda: sizeless(-1), "damaged|middle"),
    "a pipe": (lambda: tar(special("a", tarfile.FIFOTYPE)), "no ordinary file"),
    "a size of gigabytes": (lambda: sizeless(10**12), "middle"),
    "a size of its own": (lambda: tar(pax(size="5")), "sparse|gigabytes"),
    "a sparse file": (lambda: tar(pax(**{"GNU.sparse.map": "0,1"})), "sparse"),
    "cut off": (lambda: tar(("a", os.urandom(5000)))[:-2000], "middle|damaged"),
    "cut off zip": (lambda: zipped(("a", os.urandom(5000)))[:-10], "middle|damaged"),
    "many entries": (lambda: tar(*((f"f{n}", b"") for n in range(30))), "more than 20 files"),
    "many entries in a zip": (
        lambda: zipped(*((f"f{n}", b"") for n in range(30))),
        "more than 20 files",
    ),
    "many folders": (
        lambda: tar(*(special(f"f{n}", tarfile.DIRTYPE) for n in range(30))),
        "more than 20 files",
    ),
    "many headers": (
        lambda: gzip.compress(special("x", tarfile.XGLTYPE).tobuf() * 30),
        "more than 20 files",
    ),
    "neither": (lambda: b"#!/bin/sh\n", "neither a `.tar.gz` nor a `.zip`"),
    "no tar": (lambda: gzip.compress(b"x" * 5000), "no tar archive"),
    "one path for all": (
        lambda: with_member_header(b"10 path=a\n", tarfile.XGLTYPE),
        "one path",
    ),
    "something behind": (lambda: tar(("a", b"")) + b"more", "after its end"),
    "the same twice": (lambda: tar(("a", b""), ("./a", b"")), "twice"),
    "the same twice in a zip": (lambda: zipped(("a", b"1"), ("A", b"2")), "some file systems"),
    "the same, decomposed": (
        lambda: tar(("\u00e9", b""), ("e\u0301", b"")),
        "some file systems",
    ),
    "the same, folded": (lambda: tar(("a/stra\u00dfe", b""), ("a/STRASSE", b"")), "some file"),
    "too large": (lambda: tar(("a", os.urandom(60_000)), ("b", os.urandom(60_000))), "more than"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", sorted(ARCHIVES))
def test_an_archive_that_is_refused(tmp_path: Path, kind: str) -> None:
    packed, why = ARCHIVES[kind]
    place = tmp_path / "in"
    place.mkdir()
    with pytest.raises(UsageError, match=why):
        archive.unpack(packed(), str(place), SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_bombs_are_refused_before_they_unpack(tmp_path: Path) -> None:
    """Hundreds of megabytes of zeros, in a few hundred kilobytes."""
    zeros = bytes(1024 * 1024)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        head = tarfile.TarInfo("zeros")
        head.size = 200 * len(zeros)
        file.write(head.tobuf())
        for _ in range(200):
            file.write(zeros)
    with pytest.raises(UsageError, match="far more than it is"):
        archive.unpack(packed.getvalue(), str(tmp_path))
    bomb = zipped(*((f"f{n}", zeros * 4) for n in range(40)))
    with pytest.raises(UsageError, match="far more than it is"):
        archive.unpack(bomb, str(tmp_path))


def test_a_zip_whose_directory_lies(tmp_path: Path) -> None:
    honest = zipped(("a", b"x" * 100), stored=True)
    shorter = honest.replace((100).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(UsageError):
        archive.unpack(shorter, str(tmp_path), SMALL)
    many = bytearray(honest)
    many[-12:-10] = (60_000).to_bytes(2, "little")
    with pytest.raises(UsageError, match="more than 20 files"):
        archive.unpack(bytes(many), str(tmp_path), SMALL)
    large = bytearray(honest)
    large[-10:-6] = (10**9).to_bytes(4, "little")
    with pytest.raises(UsageError, match="more than 20 files"):
        archive.unpack(bytes(large), str(tmp_path), SMALL)
    encrypted = bytearray(honest)
    encrypted[6] |= 1
    encrypted[honest.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(UsageError, match="encrypted"):
        archive.unpack(bytes(encrypted), str(tmp_path), SMALL)
    locator = honest[:-22] + b"PK\x06\x07" + bytes(16) + honest[-22:]
    with pytest.raises(UsageError, match="4 GiB"):
        archive.unpack(locator, str(tmp_path), SMALL)


def test_a_tree_follows_no_link_that_appears(tmp_path: Path) -> None:
    """Even in a folder that somebody else may write, nothing is written through a link."""
    place = tmp_path / "in"
    place.mkdir()
    (place / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError):  # noqa: PT011 - which one differs
        Tree(str(place)).file("a", (b"x",))
    assert not (tmp_path / "outside").exists()


def test_a_zip_with_something_after_its_end(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive_:
        archive_.writestr("a", b"")
    with pytest.raises(UsageError, match="follows after its end"):
        archive.unpack(made.getvalue() + b"x", str(tmp_path))


def test_a_name_that_no_file_system_takes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too long"):
        archive.Tree(str(tmp_path)).file("b" * 256, (b"",))
