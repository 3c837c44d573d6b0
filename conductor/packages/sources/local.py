"""Sources on this machine: a file, or a folder.

Only the files of the component are copied, not the files that tools leave beside it: names that
begin with a dot, caches, dependencies and archives of the component stay behind, as they do with
`conductor publish`.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator
from typing import Final

import msgspec

from conductor.errors import ConductorError, UsageError, visible_path
from conductor.packages import archive, key_signatures, signatures
from conductor.packages.signatures import ANYBODY, Demand, Offer
from conductor.packages.sources import Fetched
from conductor.spec import digests, untrusted_files
from conductor.spec.manifest import reading

_SKIPPED: Final = ("__pycache__", "node_modules", "venv")


class Local(msgspec.Struct, frozen=True):
    """A file or folder by its absolute path."""

    written: str
    sha256: str = ""
    """The digest that a file must have, if it is known."""
    is_pinned: bool = False

    @property
    def origin(self) -> str:
        """The path."""
        return self.written

    def fetch(self, folder: str, wanted: Demand = ANYBODY) -> Fetched:
        """Copies it. Raises `UsageError`, `OSError`."""
        path = self.written
        signer = None
        try:
            if os.path.isdir(path):
                place = os.path.join(folder, "package")
                os.mkdir(place, 0o700)
                signer = signatures.signer_of(b"", (), wanted, path)
                _copy(path, archive.Tree(place))
            else:
                data = _read(path, self.sha256)
                signer = signatures.signer_of(data, _offers(path), wanted, path)
                place = placed(data, os.path.basename(path), folder)
        except OSError as error:
            # A file that is being written has no name in its errors.
            if error.filename is None or str(error.filename).startswith(folder):
                raise
            shown = visible_path(str(error.filename))
            raise UsageError(
                f"`{shown}` cannot be read: {error.strerror}",
                "check the path; `conductor help sources` has the other ways to write a source",
            ) from None
        return Fetched(place=place, source=path, signer=signer)


def parse(text: str) -> Local:
    """A path, made absolute; its links are followed when it is fetched."""
    return Local(os.path.abspath(os.path.expanduser(text)))


def _offers(path: str) -> list[Offer]:
    """The signatures beside a file. Raises `OSError`."""
    offers = []
    for ending, kind in signatures.BESIDE.items():
        if os.path.lexists(path + ending):
            content = untrusted_files.read(path + ending, key_signatures.MOST)
            offers.append(Offer(kind, content))
    return offers


def _read(path: str, digest: str) -> bytes:
    """The bytes of a file, which must have this digest if a digest is given."""
    data = untrusted_files.read(path, archive.BOUNDS.unpacked)
    now = digests.of_bytes(data)
    if digest not in ("", now):
        raise ConductorError(
            f"`{visible_path(path)}` is not the file that its catalogue names: "
            f"its sha256 is {now}, not {digest}",
            "ask the publisher of the catalogue; nothing was installed",
        )
    return data


def placed(data: bytes, name: str, folder: str) -> str:
    """Writes the file of a package under this name, or unpacks it; where it is then.

    Raises `UsageError`, `OSError`.
    """
    if archive.is_archive(data):
        place = os.path.join(folder, "package")
        os.mkdir(place, 0o700)
        archive.unpack(data, place)
        return place
    if not name.endswith((".wasm", ".py")):
        raise archive.refused(
            f"`{visible_path(name)}` is neither a `.wasm`, nor a `.py`, nor an archive",
            "a package is a `.wasm`, a `.py`, a folder, a `.tar.gz` or a `.zip`",
        )
    archive.Tree(folder).file(name, (data,))
    return os.path.join(folder, name)


def files_of(folder: str) -> Iterator[str]:
    """The files of a component's folder, relative to it, without files that tools leave beside
    them. Raises `OSError`."""
    archives = _archives(folder)

    def wanted(name: str) -> bool:
        return name not in _SKIPPED and not name.startswith(".")

    for path in untrusted_files.below(folder, wanted):
        base = os.path.basename(path)
        is_archive = path == base and any(fnmatch.fnmatchcase(base, each) for each in archives)
        if wanted(base) and not is_archive:
            yield path


def _archives(folder: str) -> tuple[str, ...]:
    """The patterns of the archives that `conductor publish --archive .` makes of the component in
    a folder, and of the signatures beside them."""
    try:
        manifest = reading.path_of(folder)
        name = reading.load(manifest).name if manifest is not None else ""
    except UsageError:  # whoever reads the component says so
        name = ""
    return (f"{name}.tar.gz*", f"{name}-*.tar.gz*") if name else ()


def _copy(root: str, tree: archive.Tree) -> None:
    for path in files_of(root):
        # A link in the folder may lead to any file of the user's: it is refused.
        with untrusted_files.ordinary(os.path.join(root, path), links=False) as file:
            executable = bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
            tree.file(path, archive.pieces(file), executable=executable)
