"""A bundle: configuration, policy, locks and components of a pool in one signed file.

    bundle.json                  the manifest: the format, and path, digest and size of each file
    bundle.json.sigstore.json    its signature, as cosign and `conductor publish --sign` write it
    files/SHA256                 the content of the files, each content once

A bundle is a tar archive of these, in this order, and nothing else. The same content and key give
the same bytes, so the digest of the file names what a pool runs. What this module reads may come
from anybody: `read` takes only the bytes that `made` writes, and nothing reaches a file system
before the digests hold. Whoever reads one then compares its signature (`Bundle.signed_by`).
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from conductor.errors import ConductorError, UsageError, visible_path
from conductor.packages.pack import File
from conductor.spec import digests, paths

if TYPE_CHECKING:
    from conductor.packages.signatures import Demand

FORMAT: Final = "conductor.bundle.1"
POLICY: Final = "policy.toml"
"""The managed policy among the files of a bundle."""

MOST: Final = 128 * 1024 * 1024
"""Bytes of a bundle."""
MOST_FILES: Final = 2000

_MANIFEST: Final = "bundle.json"
_SIGNATURE: Final = "bundle.json.sigstore.json"
_MOST_MANIFEST: Final = 1024 * 1024
_MOST_SIGNATURE: Final = 64 * 1024
_BLOCK: Final = 512
_END: Final = bytes(2 * _BLOCK)
_AGAIN: Final = "`conductor fleet bundle` makes it; copy it again, as a whole"
_FAMILY: Final = FORMAT.rpartition(".")[0]

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class BundleError(ConductorError):
    """A bundle that nobody may use; `reason` is one word for it, which a program may compare."""

    def __init__(self, reason: str, text: str, hint: str = _AGAIN) -> None:
        super().__init__(text, hint)
        self.reason = reason


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a bundle."""

    path: str
    sha256: Digest
    size: Annotated[int, msgspec.Meta(ge=0, le=MOST)]
    executable: bool = False


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is in a bundle."""

    format: str
    files: list[Part]
    """In the order of their paths."""


class _Head(msgspec.Struct):
    format: str = ""


class Bundle(msgspec.Struct, frozen=True):
    """A bundle whose digests hold. Who made it is not known before `signed_by`."""

    digest: str
    manifest: Manifest
    encoded: bytes
    """The manifest as it is signed."""
    signature: bytes
    contents: dict[str, bytes]
    """By digest."""

    @property
    def files(self) -> dict[str, File]:
        """The files by path."""
        return {
            part.path: File(self.contents[part.sha256], part.executable)
            for part in self.manifest.files
        }

    def signed_by(self, keys: Sequence[Demand], shown: str = "the bundle") -> None:
        """Raises `BundleError` unless one of these keys has signed it."""
        signer(self.encoded, self.signature, keys, shown)


# -- writing ---------------------------------------------------------------------------------------


def made(files: Mapping[str, File], key: str = "") -> bytes:
    """The bundle of these files by path, signed with the private key in a file, if one is named.

    Raises:
        UsageError: The key cannot be used, or the files are too many or too large.
    """
    if paths.CONFIG not in files:
        raise UsageError(f"a bundle needs a {paths.CONFIG}", "name the folder that it is in")
    parts, contents = [], {}
    for path, file in sorted(files.items()):
        digest = digests.of_bytes(file.content)
        contents[digest] = file.content
        parts.append(Part(path, digest, len(file.content), file.executable))
    encoded = _encoded(Manifest(FORMAT, parts))
    whole = sum(map(len, contents.values()))
    if len(parts) > MOST_FILES or whole > MOST or len(encoded) > _MOST_MANIFEST:
        raise UsageError(
            f"a bundle of {len(parts):,} files with {whole:,} bytes is too large",
            f"it is at most {MOST_FILES:,} files with {MOST >> 20} MiB; leave components out, and "
            "install them on the workers",
        )
    signature = b""
    if key:
        from conductor.packages import signatures

        signature = signatures.bundle(encoded, key)
    entries = [(_MANIFEST, encoded)]
    entries += [(_SIGNATURE, signature)] if signature else []
    entries += [(_place(digest), contents[digest]) for digest in sorted(contents)]
    return b"".join(_entry(name, content) for name, content in entries) + _END


def _encoded(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest)


def _place(digest: str) -> str:
    return f"files/{digest}"


def _entry(name: str, content: bytes) -> bytes:
    return _header(name, len(content)) + content + bytes(-len(content) % _BLOCK)


def _header(name: str, size: int) -> bytes:
    head = tarfile.TarInfo(name)  # no owner, and the time 0
    head.size = size
    return head.tobuf(tarfile.USTAR_FORMAT)


# -- reading ---------------------------------------------------------------------------------------


def read(data: bytes, digest: str = "", shown: str = "the bundle") -> Bundle:
    """The bundle in these bytes.

    Args:
        data: Anything.
        digest: What their digest must be; empty: it may be any.
        shown: The bundle, for errors.

    Raises:
        BundleError: It is none, is damaged, or is another one.
    """
    now = digests.of_bytes(data)
    if digest and now != digest:
        raise BundleError(
            "digest",
            f"{shown} is not what its digest says: sha256 {digests.short(digest)} → "
            f"{digests.short(now)}",
            "somebody has put other bytes in its place, or it was cut off; publish it again",
        )
    if len(data) > MOST + _MOST_MANIFEST + _MOST_SIGNATURE + MOST_FILES * 2 * _BLOCK:
        raise BundleError("size", f"{shown} is larger than {MOST >> 20} MiB")
    reader = _Reader(data, shown)
    encoded = reader.take(_MANIFEST, _MOST_MANIFEST)
    manifest = _manifest(encoded, shown)
    signature = reader.take(_SIGNATURE, _MOST_SIGNATURE) if reader.names(_SIGNATURE) else b""
    sizes = {part.sha256: part.size for part in manifest.files}
    contents = {}
    for of_one in sorted(sizes):
        content = reader.take(_place(of_one), sizes[of_one])
        if digests.of_bytes(content) != of_one:
            raise BundleError("damaged", f"{shown}: the content of `files/{of_one}` is another")
        contents[of_one] = content
    reader.end()
    for part in manifest.files:
        if len(contents[part.sha256]) != part.size:
            raise BundleError("damaged", f"{shown}: `{_seen(part.path)}` has another size")
    return Bundle(now, manifest, encoded, signature, contents)


def _manifest(encoded: bytes, shown: str) -> Manifest:
    """The manifest in these bytes. Raises `BundleError`."""
    try:
        found = msgspec.json.decode(encoded, type=_Head).format
        if found != FORMAT and found.startswith(f"{_FAMILY}."):
            raise BundleError(
                "version",
                f"{shown} is of the format `{_seen(found)}`; this conductor reads {FORMAT}",
                "use the conductor that made it, or make it with this one",
            )
        manifest = msgspec.json.decode(encoded, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError("damaged", f"{shown}: its manifest cannot be read: {error}") from None
    names = [part.path for part in manifest.files]
    if manifest.format != FORMAT or _encoded(manifest) != encoded or names != sorted({*names}):
        raise BundleError("damaged", f"{shown}: its manifest is not as conductor writes it")
    if len(names) > MOST_FILES or sum(part.size for part in manifest.files) > MOST:
        raise BundleError(
            "size", f"{shown} holds more than {MOST_FILES:,} files or {MOST >> 20} MiB"
        )
    if paths.CONFIG not in names:
        raise BundleError("damaged", f"{shown} has no {paths.CONFIG}")
    return manifest


class _Reader:
    """Takes the entries of an archive in the order in which they must be there."""

    def __init__(self, data: bytes, shown: str) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._shown = shown

    def names(self, name: str) -> bool:
        """Whether the next entry has this name."""
        return bytes(self._data[self._at : self._at + 100]).rstrip(b"\0") == name.encode()

    def take(self, name: str, most: int) -> bytes:
        """The content of the next entry, which has this name. Raises `BundleError`."""
        block = bytes(self._piece(_BLOCK))
        try:
            size = tarfile.TarInfo.frombuf(block, "utf-8", "strict").size
            same = _header(name, size) == block
        except (tarfile.HeaderError, ValueError):
            same = False
        if not same:
            raise BundleError(
                "damaged",
                f"{self._shown} is no bundle: `{name}` is not there as conductor writes it",
            )
        if size > most:
            raise BundleError("size", f"{self._shown}: `{name}` is larger than {most:,} bytes")
        content = bytes(self._piece(size))
        if any(self._piece(-size % _BLOCK)):
            raise BundleError("damaged", f"{self._shown}: something stands between its files")
        return content

    def end(self) -> None:
        """Nothing more is there. Raises `BundleError`."""
        if bytes(self._piece(len(_END))) != _END or self._at != len(self._data):
            raise BundleError("damaged", f"{self._shown}: something follows after its end")

    def _piece(self, size: int) -> memoryview:
        piece = self._data[self._at : self._at + size]
        if len(piece) < size:
            raise BundleError("truncated", f"{self._shown} ends in the middle")
        self._at += size
        return piece


def _seen(text: str) -> str:
    return visible_path(text if len(text) <= 100 else text[:99] + "…")


def signer(content: bytes, signature: bytes, keys: Sequence[Demand], shown: str) -> str:
    """The public key of these that has signed this content. Raises `BundleError`: none has."""
    from conductor.packages import signatures

    offers = [signatures.Offer("bundle", signature)] if signature else []
    why = "no key is given that it must be signed with"
    for key in keys:
        try:
            signatures.signer_of(content, offers, key, shown)
        except UsageError as error:
            why = error.text
        else:
            return key.key
    raise BundleError(
        "signature" if signature else "unsigned",
        why,
        "`conductor fleet bundle --key KEY` signs it; `--bundle-key` names the public key",
    )


def keys_of(files: Iterable[str]) -> list[Demand]:
    """The public keys in these files: one of them must have signed a bundle. Raises
    `UsageError`."""
    from conductor.packages import signatures

    return [signatures.demand(key=file) for file in files]


def key_of(file: str) -> Demand:
    """The public key of the private one in a file. Raises `UsageError`."""
    from conductor.packages import signatures
    from conductor.spec import signing

    return signatures.Demand(key=signing.Key(signing.private(file).public_key(), file).text)
