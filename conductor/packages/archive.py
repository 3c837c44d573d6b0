"""Unpacks strangers' archives: the one place where files of a package are written.

Every source goes through `Tree`, also a git tree and a folder of the user's: `Tree` writes regular
files and folders below one private folder, and nothing else. It refuses links, devices, paths that
leave the folder, two paths that are equal to some file system, and sizes beyond `Bounds`. An
archive is refused as a whole: the caller throws the folder away.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Final

import msgspec

from conductor.errors import UsageError, visible_path

_MIB: Final = 1024 * 1024
_BLOCK: Final = 512
"""Bytes: a tar archive consists of blocks."""

_PIECE: Final = 64 * 1024
_LEAST: Final = _MIB
"""Bytes that may come out of an archive whatever its size: small texts compress well."""

_EXTENSION: Final = 64 * 1024
"""Bytes of a header that extends another, such as a long path."""

_RECORDS: Final = 64
"""Records of such a header: archivers write some 20. Thousands of headers with the shortest records
took seconds."""

_HINT: Final = "a package holds ordinary files and folders only, below one folder"


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a package may be."""

    unpacked: int = 64 * _MIB
    """Bytes of all its files."""
    entries: int = 2000
    """Files and folders."""
    ratio: int = 100
    """Bytes that may come out of one byte of an archive."""
    path: int = 512
    """Bytes of a path."""
    name: int = 255
    """Bytes of the name of a file or folder: most file systems refuse longer names."""
    depth: int = 32
    """Folders within each other."""


BOUNDS: Final = Bounds()


def refused(why: str, hint: str = _HINT) -> UsageError:
    """The error for a package that is not unpacked."""
    return UsageError(f"the package is refused: {why}", hint)


class Tree:
    """A folder that is being filled with a stranger's files. Every method raises `UsageError` for
    an entry that a package may not hold, and `OSError` for a file system that takes nothing."""

    def __init__(self, folder: str, bounds: Bounds = BOUNDS) -> None:
        self._folder = folder
        self._bounds = bounds
        self._left = bounds.unpacked
        self._entries = 0
        self._spelled: dict[str, str] = {}
        """Each path as it was first written, by its form on a file system that ignores case."""
        self._files: set[str] = set()
        """The folded paths of files."""

    def folder(self, path: str) -> None:
        """Makes a folder, with those above it."""
        self._make(self._parts(path))

    def file(self, path: str, content: Iterable[bytes], *, executable: bool = False) -> None:
        """Writes a file from the pieces of its content."""
        *above, name = self._parts(path)
        self._make(above)
        folded = self._new("/".join([*above, name]))
        if folded in self._files or folded is None:
            raise refused(f"it holds {_shown(path)} twice")
        self._files.add(folded)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        whole = os.path.join(self._folder, *above, name)
        mode = 0o700 if executable else 0o600
        with os.fdopen(os.open(whole, flags, mode), "wb") as file:
            for piece in content:
                self._left -= len(piece)
                if self._left < 0:
                    most = self._bounds.unpacked // _MIB
                    raise refused(
                        f"it holds more than {most} MiB", "leave out files that it does not need"
                    )
                file.write(piece)

    def _make(self, parts: list[str]) -> None:
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            folded = _folded(path)
            if folded in self._files:
                raise refused(f"{_shown(path)} is a file and a folder in it")
            if self._new(path) is not None:
                os.mkdir(os.path.join(self._folder, *parts[:depth]), 0o700)

    def _new(self, path: str) -> str | None:
        """The folded form of a path that is new; None if the path is there, spelled the same."""
        folded = _folded(path)
        before = self._spelled.get(folded)
        if before is not None:
            if before != path:
                text = f"it holds {_shown(before)} and {_shown(path)}"
                raise refused(text, "some file systems take them for one file: rename one")
            return None
        self._spelled[folded] = path
        self.counted()
        return folded

    def counted(self) -> None:
        """Counts one more entry."""
        self._entries += 1
        if self._entries > self._bounds.entries:
            raise refused(
                f"it holds more than {self._bounds.entries:,} files and folders",
                "leave out files that it does not need",
            )

    def _parts(self, path: str) -> list[str]:
        """The names of a path within the package."""
        parts = path.removeprefix("./").rstrip("/").split("/")
        odd = (
            not path.isprintable()
            or "\\" in path
            or path.startswith("/")
            or any(
                part in ("", ".", "..") or part.endswith((" ", ".")) or ":" in part
                for part in parts
            )
        )
        if odd:
            raise refused(f"{_shown(path)} is no path within it")
        size = len(path.encode("utf-8", "surrogatepass"))
        longest = max(len(part.encode("utf-8", "surrogatepass")) for part in parts)
        bounds = self._bounds
        if size > bounds.path or longest > bounds.name or len(parts) > bounds.depth:
            raise refused(f"the path {_shown(path)} is too long or too deep")
        return parts


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _shown(path: str) -> str:
    text = visible_path(path)
    return f"`{text if len(text) <= 100 else text[:99] + '…'}`"


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """The content of a file, in pieces."""
    while piece := file.read(_PIECE):
        yield piece


# -- archives --------------------------------------------------------------------------------------

GZIP: Final = b"\x1f\x8b"
ZIP: Final = b"PK\x03\x04"


def is_archive(data: bytes) -> bool:
    """Whether these bytes begin as an archive that `unpack` reads."""
    return data.startswith((GZIP, ZIP))


def unpack(data: bytes, folder: str, bounds: Bounds = BOUNDS) -> None:
    """Unpacks a `.tar.gz` or a `.zip` into an empty folder. Raises `UsageError`, `OSError`."""
    tree = Tree(folder, bounds)
    if data.startswith(GZIP):
        most = min(bounds.unpacked, max(_LEAST, bounds.ratio * len(data)))
        # Beside its content each entry has a header, and is filled up to whole blocks.
        _tar(_decompressed(data, most + bounds.entries * 4 * _BLOCK + _LEAST), tree)
    elif data.startswith(ZIP):
        _zip(data, tree, bounds)
    else:
        raise refused(
            f"it begins with {data[:4]!r}, which is neither a `.tar.gz` nor a `.zip`",
            "a package is a `.wasm`, a `.py`, a folder, a `.tar.gz` or a `.zip`",
        )


def _decompressed(data: bytes, most: int) -> bytes:
    """The content of one gzip stream."""
    inflater = zlib.decompressobj(wbits=31)
    try:
        plain = inflater.decompress(data, most)
    except zlib.error as error:
        raise refused(f"it is damaged: {error}", "fetch it again") from None
    if inflater.unconsumed_tail or (len(plain) == most and not inflater.eof):
        raise refused("it unpacks to far more than it is", "leave out files that it does not need")
    if not inflater.eof:
        raise refused("it ends in the middle", "fetch it again")
    if inflater.unused_data.strip(b"\0"):
        raise refused("something follows after its end", "pack it again")
    return plain


# The standard library's reader of tar archives follows sparse files, headers without bound, and
# sizes that a header gives to the next one. No package needs any of them.


def _tar(data: bytes, tree: Tree) -> None:
    at, path = 0, ""
    while True:
        block = data[at : at + _BLOCK]
        if not block.strip(b"\0"):
            return
        try:
            head = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
            raise refused(f"it is damaged, or no tar archive: {error}", "pack it again") from None
        begin = at + _BLOCK
        end = begin + head.size
        if head.size < 0 or end > len(data):
            raise refused("it ends in the middle", "fetch it again")
        at = end + -head.size % _BLOCK
        if head.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME):
            if head.size > _EXTENSION:
                raise refused("it has a header of more than 64 KiB", "pack it again")
            tree.counted()
            path = _extended(head.type, data[begin:end], path)
            continue
        _take(tree, head, path or head.name, data[begin:end])
        path = ""


def _take(tree: Tree, head: tarfile.TarInfo, path: str, content: bytes) -> None:
    """One entry of a tar archive."""
    if head.type == tarfile.DIRTYPE or (head.type == tarfile.AREGTYPE and path.endswith("/")):
        if path.rstrip("/") not in ("", "."):
            tree.folder(path)
    elif head.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
        tree.file(path, (content,), executable=bool(head.mode & stat.S_IXUSR))
    else:
        kind = "a link" if head.type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else "no ordinary file"
        raise refused(f"{_shown(path)} is {kind}")


def _extended(kind: bytes, content: bytes, path: str) -> str:
    """The path of the next entry, as a header that extends it says."""
    if kind == tarfile.GNUTYPE_LONGNAME:
        return _text(content.rstrip(b"\0"))
    fields = dict(_pax(content))
    if any(name == "size" or name.startswith("GNU.sparse.") for name in fields):
        raise refused("it has a sparse file, or one of many gigabytes", "pack it again")
    if kind == tarfile.XGLTYPE:
        if "path" in fields:
            raise refused("it gives all its files one path", "pack it again")
        return path
    return fields.get("path", path)


def _pax(content: bytes) -> Iterator[tuple[str, str]]:
    """The records `LENGTH NAME=VALUE\\n` of a header."""
    for _ in range(_RECORDS):
        if not content:
            return
        digits, blank, _rest = content[:8].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        record, content = content[:length], content[length:]
        name, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not blank or not equals or len(record) != length or not record.endswith(b"\n"):
            raise refused("it has a header that cannot be read", "pack it again")
        yield _text(name), _text(value)
    if content:
        raise refused(f"it has a header of more than {_RECORDS} records", "pack it again")


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise refused(
            "it has a path that is not UTF-8", "rename the file, and pack it again"
        ) from None


_END: Final = struct.Struct("<4s4H2LH")
"""The last record of a zip archive: its directory's entries, size and place."""

_END_MARK: Final = b"PK\x05\x06"
_LARGE_MARK: Final = b"PK\x06\x07"
_LARGE: Final = 20
"""Bytes of the record that archives of more than 4 GiB have before their last record."""

_ENTRY: Final = 2048
"""Bytes of the directory for each entry."""


def _zip(data: bytes, tree: Tree, bounds: Bounds) -> None:
    _check_directory(data, bounds)
    left = max(_LEAST, bounds.ratio * len(data))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                path = entry.orig_filename
                kind = stat.S_IFMT(entry.external_attr >> 16) if entry.create_system == 3 else 0
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    what = "a link" if kind == stat.S_IFLNK else "no ordinary file"
                    raise refused(f"{_shown(path)} is {what}")
                if path.endswith("/"):
                    tree.folder(path)
                    continue
                left -= entry.file_size
                if left < 0:
                    why = "it unpacks to far more than it is"
                    raise refused(why, "leave out files that it does not need")
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise refused(f"{_shown(path)} is compressed in a rare way", "use deflate")
                executable = entry.create_system == 3 and bool(
                    entry.external_attr >> 16 & stat.S_IXUSR
                )
                with archive.open(entry) as file:
                    tree.file(path, pieces(file), executable=executable)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise refused(f"it is damaged, or encrypted: {error}", "fetch it again") from None
    except (ValueError, struct.error) as error:
        raise refused(f"it is damaged: {error}", "fetch it again") from None


def _check_directory(data: bytes, bounds: Bounds) -> None:
    """Refuses an archive whose directory is too large, before anything reads it as a whole."""
    # As `zipfile` finds it: at the very end, or before a comment.
    at = len(data) - _END.size
    if not (data[at : at + 4] == _END_MARK and data[-2:] == b"\0\0"):
        at = data.rfind(_END_MARK, max(0, len(data) - 65_535 - _END.size))
    if at < 0 or at + _END.size > len(data):
        raise refused("it ends in the middle", "fetch it again")
    entries, size, _, comment = _END.unpack_from(data, at)[4:]
    if at + _END.size + comment != len(data):
        raise refused("something follows after its end", "pack it again")
    if data[max(0, at - _LARGE) :].startswith(_LARGE_MARK):
        raise refused("it is in the form of archives of more than 4 GiB", "pack it again")
    if entries > bounds.entries or size > bounds.entries * _ENTRY:
        raise refused(
            f"it holds more than {bounds.entries:,} files and folders",
            "leave out files that it does not need",
        )
