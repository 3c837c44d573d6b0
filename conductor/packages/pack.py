"""A component's folder as a package: its files, checked as `conductor add` will check them.

The same files give the same bytes: in order, without times, owners or modes of this machine. Before
anybody gets the bytes they are unpacked again by the one unpacker that every source goes through.
"""

from __future__ import annotations

import fnmatch
import glob
import gzip
import io
import os
import re
import shlex
import stat
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

import wasm_host
from conductor.errors import UsageError, visible_path
from conductor.packages import archive
from conductor.packages.sources.local import files_of
from conductor.secret_shapes import HINTS, NAMED, SHAPES
from conductor.spec import catalog, digests, private_files, untrusted_files
from conductor.spec.manifest.reading import Manifest, load, path_in
from conductor.spec.paths import MANIFEST, SCENARIOS
from conductor.spec.python_guest import scripts

_BESIDE: Final = ("readme*", "license*", "licence*", "copying*", "notice*", "changelog*")
"""Files that go with a component though its manifest does not name them, in any case of letters."""

_SECRET_NAMES: Final = (
    *(".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx"),
    *("id_rsa*", "id_ed25519*", "id_ecdsa*", ".netrc", ".npmrc", ".pypirc", "credentials*"),
)
_PUBLIC: Final = ("*.pub", "*.pub.pem")


class File(msgspec.Struct, frozen=True):
    """A file of a package."""

    content: bytes
    executable: bool = False


class Packed(msgspec.Struct, frozen=True):
    """A component that is ready to be given away."""

    manifest: Manifest
    files: dict[str, File]
    """By path within the package, in order."""
    archive: bytes

    @property
    def sha256(self) -> str:
        """The digest of the archive."""
        return digests.of_bytes(self.archive)

    @property
    def file_name(self) -> str:
        """The file name of its archive."""
        version = f"-{self.manifest.version}" if self.manifest.version else ""
        return f"{self.manifest.name}{version}.tar.gz"

    @property
    def module(self) -> bytes | None:
        """Its module; None: it is Python source, or a program."""
        manifest = self.manifest
        if manifest.file is None or manifest.scripted:
            return None
        return self.files[os.path.normpath(manifest.file)].content

    @property
    def description(self) -> bytes:
        """Its `component.toml`."""
        return self.files[MANIFEST].content


def pack(folder: str, allowed: Collection[str] = ()) -> Packed:
    """The package of the component in a folder.

    Args:
        folder: The component's folder.
        allowed: Its files that look like secrets but are harmless.

    Raises:
        UsageError: There is none, it is not built, or it holds a file that nobody should get.
    """
    manifest = load(path_in(folder))
    try:
        names = sorted({os.path.normpath(name) for name in _names(folder, manifest)})
        files = {name.replace(os.sep, "/"): _read(folder, name) for name in names}
    except OSError as error:
        shown = visible_path(str(error.filename or folder))
        raise UsageError(f"`{shown}` cannot be packed: {error.strerror}", "check it") from None
    harmless = {os.path.normpath(name) for name in allowed}
    for name, file in files.items():
        if name not in harmless:
            _refuse_secrets(name, file.content)
    package = Packed(manifest, files, archive_of(files))
    _try_out(package)
    return package


def write(path: str, content: bytes) -> None:
    """Puts a file in place, whole or not at all. Raises `UsageError`."""
    try:
        private_files.replace(path, content, mode=0o666)
    except OSError as error:
        raise UsageError(
            f"cannot write `{path}`: {error.strerror}", "name another with --output"
        ) from None


# -- its files -------------------------------------------------------------------------------------


def _names(folder: str, manifest: Manifest) -> Iterator[str]:
    """The paths of its files, relative to the folder. Raises `OSError`, `UsageError`."""
    yield MANIFEST
    if manifest.file is None:
        # Of a program all files beside it: no list says which files it loads.
        yield from files_of(folder)
        return
    path = os.path.join(folder, manifest.file)
    if not os.path.exists(path):
        raise UsageError(
            f"`{manifest.name}` has no `{manifest.file}`", "`conductor test --build` makes it"
        )
    if os.path.isdir(path):
        yield from (os.path.join(manifest.file, name) for name in scripts.read(path).files)
    else:
        yield manifest.file
    if manifest.source is not None and os.path.isfile(os.path.join(folder, manifest.source)):
        yield manifest.source
    scenarios = glob.glob(f"{SCENARIOS}/*.txt", root_dir=folder)
    yield from (name for name in scenarios if os.path.isfile(os.path.join(folder, name)))
    for name in os.listdir(folder):
        if _fits(name.lower(), _BESIDE) and os.path.isfile(os.path.join(folder, name)):
            yield name


def _read(folder: str, name: str) -> File:
    """A file of the folder. Raises `OSError`, and `UsageError` for a path that leads out of it."""
    path = os.path.join(folder, name)
    home = os.path.realpath(folder)
    above = os.path.realpath(os.path.dirname(path))
    if not f"{above}{os.sep}".startswith(f"{home.rstrip(os.sep)}{os.sep}"):
        raise UsageError(
            f"`{visible_path(name)}` lies outside of `{folder}`", "put a copy into the folder"
        )
    with untrusted_files.ordinary(path, links=False) as file:
        executable = bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
        content = file.read(archive.BOUNDS.unpacked + 1)
    return File(content, executable)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _refuse_secrets(name: str, content: bytes) -> None:
    """Raises `UsageError` for a file that looks private."""
    base = os.path.basename(name).lower()
    # Names that begin with a dot belong to tools, and to their logins: `.git/config`, `.env`.
    is_hidden = any(part.startswith(".") for part in name.split("/"))
    if is_hidden or (_fits(base, _SECRET_NAMES) and not _fits(base, _PUBLIC)):
        raise UsageError(
            f"`{visible_path(name)}` looks like a secret, and a package is for everybody",
            f"keep it elsewhere; if it is none: `--include {shlex.quote(name)}`",
        )
    at = _first_secret(content)
    if at is not None:
        line = content.count(b"\n", 0, at) + 1
        raise UsageError(
            f"`{visible_path(name)}`, line {line}, looks like a private key or a token, and a "
            "package is for everybody",
            "take it out, and have it replaced where it is in use; if it is an example: "
            f"`--include {shlex.quote(name)}`",
        )


def _first_secret(content: bytes) -> int | None:
    """The index of the first private key or token of a known shape; None: there is none."""
    if not any(hint.encode() in content for hint in HINTS):
        return None
    kinds = [shape.encode() for kind, shape in SHAPES.items() if kind not in NAMED]
    found = [match.start() for shape in kinds if (match := re.search(shape, content))]
    return min(found, default=None)


# -- the archive -----------------------------------------------------------------------------------


def archive_of(files: Mapping[str, File]) -> bytes:
    """The files as a `.tar.gz`: the same files give the same bytes."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, file in files.items():
            head = tarfile.TarInfo(name)  # no owner, and the time 0
            head.size = len(file.content)
            head.mode = 0o755 if file.executable else 0o644
            tar.addfile(head, io.BytesIO(file.content))
    return packed.getvalue()


def _try_out(package: Packed) -> None:
    """Unpacks a package as `conductor add` would. Raises `UsageError` if `add` would refuse it."""
    with tempfile.TemporaryDirectory(prefix="conductor-pack-") as folder:
        archive.unpack(package.archive, folder)
        spec = catalog.resolve(f"{folder}/")
        if spec.wasm is None or spec.script:
            return
        try:
            info = wasm_host.describe(spec.wasm)
        except wasm_host.LoadError as error:
            raise UsageError(f"`{package.manifest.file}`: {error}", error.hint) from None
    if info.problems:
        raise UsageError(
            f"`{package.manifest.file}` would be refused: it {'; it '.join(info.problems)}",
            "`conductor inspect` says more",
        )
