"""Installed components, as a chain finds them: a receipt each, and content by its digest.

    installed/receipts/NAME.json     the component that `conductor add` installed under a name
                                     (`Receipt`)
    installed/sha256-HEX/            its content; HEX is the digest of all its files

`conductor.packages.store` writes both. This module reads them and believes nothing: the store must
be the user's alone, and content must have the digest of its receipt. The start path comes here for
each word that is no path, and looks for one file. So nothing heavy is imported.
"""

from __future__ import annotations

import os
import shlex
import stat
from typing import Annotated, Final, TypeAlias

import msgspec

from conductor.errors import UsageError, visible_path
from conductor.spec import guarded, paths, private_files, untrusted_files
from conductor.spec.programs import is_name
from conductor.spec.trust import Seconds

VERSION: Final = 1
MOST: Final = 64 * 1024
"""Bytes of a receipt."""

_LARGEST: Final = 256 * 1024 * 1024
"""Bytes of a file of content: more than any package may hold."""

_ATTEMPTS: Final = 5
_HINT: Final = "make it a folder that only you may write, or move it away and add them again"

Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class Signer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The signer of a package, as checked when the package was fetched."""

    identity: str
    """An address, the URL of a workflow, or `sha256:` and the digest of a public key."""
    issuer: str = ""
    """Who vouches for the identity; empty for a key."""
    key: str = ""
    """The public key, which the next version is compared with (`conductor.spec.signing`)."""

    def __str__(self) -> str:
        return f"{self.identity} ({self.issuer})" if self.issuer else f"the key {self.identity}"


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record that conductor keeps about an installed component."""

    version: int = VERSION
    name: str
    """Its name in chains."""
    asked: str
    """The source as the user wrote it: `conductor update` fetches from it again."""
    catalogue: str = ""
    """The catalogue in which `asked` is a name."""
    source: str
    """The source in the spelling that always means this content."""
    content: Digest
    """The digest of all its files."""
    file: str = ""
    """The file that runs, below the folder of its content; empty: the folder itself."""
    release: str = ""
    """Its version, if its manifest names a version."""
    called: str = ""
    """The name in its manifest, if it has a manifest."""
    signer: Signer | None = None
    since: Seconds
    """When it was installed, in seconds since 1970."""

    @property
    def folder(self) -> str:
        """The folder of its content."""
        return content_folder(self.content)

    @property
    def place(self) -> str:
        """The path of the file or folder that runs."""
        return os.path.join(self.folder, self.file) if self.file else self.folder


def receipts() -> str:
    """The folder of the receipts."""
    return os.path.join(paths.installed(), "receipts")


def receipt_path(name: str) -> str:
    """The path of the receipt of a name, which may be absent."""
    return os.path.join(receipts(), f"{name}.json")


def content_folder(digest: str) -> str:
    """The folder of the content of this digest, which may be absent."""
    return os.path.join(paths.installed(), f"sha256-{digest}")


def names() -> list[str]:
    """The names of all receipts; none where they cannot be listed."""
    try:
        found = os.listdir(receipts())
    except OSError:
        return []
    stems = (name.removesuffix(".json") for name in found if name.endswith(".json"))
    return sorted(name for name in stems if is_name(name))


def find(name: str) -> Receipt | None:
    """The installed component of a name, its content checked and held; None if there is none.

    Raises `UsageError` where the component is damaged: no other component takes its place.
    """
    if not is_name(name):
        return None
    receipt = read(name)
    for _ in range(_ATTEMPTS):
        if receipt is None:
            return None
        try:
            hold(receipt.folder)
        except FileNotFoundError:
            pass  # replaced or removed since the receipt was read, or lost
        except OSError as error:
            raise _damaged(receipt, error.strerror or str(error)) from None
        now = read(name)
        if now == receipt:
            check(receipt)
            return receipt
        receipt = now
    raise UsageError(f"`{name}` changes all the time", "wait for `conductor update` to end")


def read(name: str) -> Receipt | None:
    """The receipt of a name; None if there is none. Raises `UsageError`."""
    path = receipt_path(name)
    try:
        content = untrusted_files.read(path, MOST, links=False)
        refuse_what_others_write()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(name, error.strerror or str(error)) from None
    try:
        receipt = msgspec.json.decode(content, type=Receipt)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(name, str(error)) from None
    if receipt.version != VERSION:
        why = f"it is of version {receipt.version}; this conductor reads {VERSION}"
        raise _unreadable(name, why)
    parts = receipt.file.split("/")
    if receipt.name != name or ".." in parts or os.path.isabs(receipt.file):
        raise _unreadable(name, "it is not the receipt of this name")
    return receipt


def _unreadable(name: str, why: str) -> UsageError:
    return UsageError(
        f"the receipt of the installed component `{name}` cannot be used: {why}",
        f"`conductor remove {name}`, then add it again",
    )


def refuse_what_others_write() -> None:
    """Raises `UsageError` for a store that is a link, or that another user may have written.

    Raises `OSError` where there is none.
    """
    store = paths.installed()
    for place in (receipts(), store, os.path.dirname(store)):
        status = os.stat(place, follow_symlinks=place == os.path.dirname(store))
        why = private_files.not_ours(status)
        if not why and not stat.S_ISDIR(status.st_mode):
            why = "is a link, or no folder"
        if why:
            raise UsageError(
                f"installed components cannot be used: `{visible_path(place)}` {why}",
                _HINT,
            )
    try:
        guarded.refuse_changeable(store)
    except guarded.UnguardedError as error:
        raise UsageError(f"installed components cannot be used: {error}", _HINT) from None


# -- content ---------------------------------------------------------------------------------------


def check(receipt: Receipt) -> None:
    """Raises `UsageError` unless the content is the installed one."""
    try:
        now = tree(receipt.folder)
    except FileNotFoundError:
        raise _damaged(receipt, "its files are gone") from None
    except OSError as error:
        shown = visible_path(str(error.filename or ""))
        raise _damaged(receipt, f"`{shown}`: {error.strerror or error}") from None
    if now != receipt.content:
        raise _damaged(receipt, "its files have been changed")


def _damaged(receipt: Receipt, why: str) -> UsageError:
    again = ["conductor", "add", receipt.asked]
    if receipt.catalogue:
        again += ["--index", receipt.catalogue]
    return UsageError(
        f"the files of the installed component `{receipt.name}` have changed: {why}",
        f"install it again: `{shlex.join([*again, '--name', receipt.name])}`",
    )


def tree(folder: str) -> str:
    """The digest of a folder: of the contents, paths and modes of all its files.

    Raises `OSError`, also for anything that is neither file nor folder.
    """
    import hashlib  # only for an installed component: an editor waits for everything else

    lines = []
    os.lstat(folder)
    for path in untrusted_files.below(folder, lambda _: True):
        with untrusted_files.ordinary(os.path.join(folder, path), links=False) as file:
            status = os.fstat(file.fileno())
            if status.st_size > _LARGEST:
                raise untrusted_files.TooLargeError(path, "it is too large")
            mode = "x" if status.st_mode & stat.S_IXUSR else "-"
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{digest} {mode} {path}\n")
    text = "".join(sorted(lines))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


held: Final[dict[str, int]] = {}
"""The folders of content that this process uses, and the descriptors that say so."""


def hold(folder: str) -> None:
    """Keeps content from being removed while this process runs. Raises `OSError`."""
    if folder in held and os.path.samestat(os.lstat(folder), os.fstat(held[folder])):
        return
    fd = opened(folder)
    try:
        private_files.hold(fd)
    except BlockingIOError:  # it is being removed
        os.close(fd)
        raise FileNotFoundError(folder) from None
    except OSError:
        pass  # a file system without locks: it cannot be known who uses it
    held[folder] = fd


def opened(folder: str) -> int:
    """A descriptor of a folder of content. Raises `OSError`."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
