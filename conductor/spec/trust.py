"""The user's trust: folders, project files, and components that were agreed to.

One private file in the user's state folder. If anything is wrong with the file (another version,
other users may write it, it is broken), nothing is trusted, and nothing overwrites it. The start
path loads this module only where an answer is needed; a digest is computed only where the store has
one.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar

import msgspec

from conductor.errors import UsageError, visible_path
from conductor.spec import digests, guarded, paths
from conductor.spec.private_store import PrivateStore

if TYPE_CHECKING:
    from conductor.spec.model import Spec

VERSION: Final = 1
_LEAST_DIGITS: Final = 8
"""Of a digest, so that it means an agreement."""

_MOST_UNTRUSTED: Final = 100

Result = TypeVar("Result")

_LAST: Final = 2**33

Seconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LAST)]
"""A moment, in seconds since 1970; some centuries, so that every one of them is a date."""


class TrustedFolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder that is trusted with everything in it.

    The path alone names no folder: where the folder has gone, another folder may take its path.
    """

    since: Seconds
    device: int
    inode: int
    own: bool = False
    """`conductor new` made it."""

    def is_at(self, path: str) -> bool:
        """Whether the folder is still the one at this path."""
        status = os.stat(path)
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


class TrustedFile(TrustedFolder, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A project file, as it was when the user trusted it, and its folder: the paths in the file
    begin there."""

    sha256: str


class Agreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The rights beyond the default that the user has given to one version of a component."""

    since: Seconds
    name: str
    place: str
    """The path of its file, or of its folder."""
    sha256: str
    """The digest of the file or folder."""
    rights: dict[str, str] = {}
    """The words, each with its meaning at that time (`words.meaning`)."""


class Untrusted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A name or path given to `conductor trust --remove`: it also ends agreements that only a
    running conductor has."""

    number: int
    """Each has a higher number than all before."""
    what: str
    """A name, or the beginning of a digest."""
    path: str
    """The same as a path, without links, as terminals show it."""

    def means(self, key: str, agreed: Agreement) -> bool:
        """Whether an agreement, kept under `key`, is meant."""
        digits = self.what.lower() if len(self.what) >= _LEAST_DIGITS else "-"
        is_there = paths.within(agreed.place, self.path) or agreed.name == self.what
        return is_there or key.startswith(digits) or agreed.sha256.startswith(digits)


class Trust(msgspec.Struct, forbid_unknown_fields=True):
    """Everything that is trusted, by path or digest."""

    version: int = VERSION
    folders: dict[str, TrustedFolder] = {}
    files: dict[str, TrustedFile] = {}
    agreed: dict[str, Agreement] = {}
    untrusted: tuple[Untrusted, ...] = ()
    """The last few."""

    def folder_of(self, place: str) -> str | None:
        """The trusted folder that a path is, or lies in; None if there is none, or if another
        user could have changed the file at the path."""
        try:
            path = guard(place)
            while path not in self.folders or not self.folders[path].is_at(path):
                above = os.path.dirname(path)
                if above == path:
                    return None
                path = above
        except (OSError, UsageError):
            return None
        return path

    def has_file(self, path: str, content: bytes) -> bool:
        """Whether a project file is trusted with this content."""
        known = self.files.get(os.path.realpath(path))
        if known is None or known.sha256 != digests.of_bytes(content):
            return False
        try:
            return known.is_at(guard(os.path.dirname(os.path.realpath(path))))
        except (OSError, UsageError):
            return False


def guard(path: str) -> str:
    """The path without links; only this user and root can change the file there.

    Raises `UsageError` where another user can change it, `OSError` where nothing is.
    """
    try:
        return guarded.own(os.path.join(os.getcwd(), path))
    except guarded.UnguardedError as error:
        raise UsageError(
            f"`{visible_path(path)}` cannot be trusted: {error}",
            "trust a folder that nobody else can change: run `chmod go-w` on this place, or use "
            "another folder",
        ) from None


def now() -> int:
    """The current time as the store keeps it: a wrong clock writes nothing that cannot be read."""
    return min(max(int(time.time()), 0), _LAST)


# -- reading ---------------------------------------------------------------------------------------


STORE: Final = PrivateStore(
    paths.trust, Trust, VERSION, "what you trust", "trust your folders and components again"
)


def load() -> Trust:
    """The trust store; an empty one where there is no file. Raises `UsageError` for a store that
    cannot be used."""
    return STORE.load()


def known() -> tuple[Trust, str]:
    """The trust store, and why it cannot be used: then nothing is trusted."""
    try:
        return load(), ""
    except UsageError as error:
        return Trust(), f"{error.text}; nothing counts as trusted until then: {error.hint}"


def trusts_file(path: str, content: bytes) -> bool:
    """Whether the user trusts a project file with this content. False where the store cannot be
    used: `known` has the reason."""
    return known()[0].has_file(path, content)


def stamp() -> tuple[int, int, int]:
    """The stamp of the store; it changes whenever the store does."""
    return STORE.stamp()


# -- changing --------------------------------------------------------------------------------------


def change(edit: Callable[[Trust], Result]) -> Result:
    """Changes the store; nothing that another conductor writes at the same time is lost.

    Args:
        edit: Changes the tables that it receives.

    Raises:
        UsageError: The store cannot be used, or not be written.
    """
    return STORE.change(edit)


def trust_folder(folder: str, *, own: bool = False) -> bool:
    """Remembers a folder; whether it was trusted before. Raises `UsageError`, `OSError`.

    Args:
        own: The user has just made it here.
    """
    path = storable(guard(folder))
    status = os.stat(path)
    new = TrustedFolder(now(), status.st_dev, status.st_ino, own)

    def edit(trust: Trust) -> bool:
        before = trust.folders.get(path)
        if before is not None and before.is_at(path):
            return True
        trust.folders[path] = new
        return False

    return change(edit)


def trust_file(file: str, content: bytes) -> bool:
    """Remembers a project file with its content; whether that was trusted before.

    Raises `UsageError`, `OSError`.
    """
    path = storable(os.path.realpath(file))
    status = os.stat(guard(os.path.dirname(path)))
    sha256 = digests.of_bytes(content)
    new = TrustedFile(now(), status.st_dev, status.st_ino, sha256=sha256)

    def edit(trust: Trust) -> bool:
        if trust.has_file(path, content):
            return True
        trust.files[path] = new
        return False

    return change(edit)


def storable(path: str) -> str:
    """The path itself. Raises `UsageError` for a path that is not text: once written down, it could
    be confused with others."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"`{path}` cannot be trusted: its name is not UTF-8", "rename it first"
        ) from None
    return path


def agree(key: str, agreement: Agreement) -> None:
    """Remembers an agreement of the user, beside former agreements about the same version.

    Raises `UsageError`.
    """

    def edit(trust: Trust) -> None:
        before = trust.agreed.get(key)
        given = before.rights if before is not None else {}
        trust.agreed[key] = msgspec.structs.replace(agreement, rights=given | agreement.rights)

    change(edit)


def untrust(held: Trust, what: str, path: str) -> Untrusted:
    """Writes into the store that a name or path is not trusted any more."""
    number = max((each.number for each in held.untrusted), default=0) + 1
    named = Untrusted(number, what, path)
    held.untrusted = (*held.untrusted[1 - _MOST_UNTRUSTED :], named)
    return named


# -- programs --------------------------------------------------------------------------------------


def program_of(spec: Spec) -> str:
    """The folder whose manifest names the program of a component; empty where none does, or the
    managed policy requires it."""
    if spec.command is None or spec.bundled is not None or spec.required:
        return ""
    return os.path.dirname(spec.manifest_path) if spec.manifest_path else ""


def trusts_program(spec: Spec, held: Trust) -> bool:
    """Whether the folder whose manifest names a program is trusted, and with it every file there
    that the command names."""
    try:
        _guard_program(spec)
    except UsageError:
        return False
    return held.folder_of(program_of(spec)) is not None


def _guard_program(spec: Spec) -> None:
    """Raises `UsageError` where another user could change the manifest of a program, or a file in
    its folder that the command names."""
    folder = os.path.realpath(program_of(spec))
    named = (os.path.join(folder, word) for word in spec.command or ())
    for place in (spec.manifest_path, *(place for place in named if paths.within(place, folder))):
        with contextlib.suppress(OSError, ValueError):  # a missing file does not run
            guard(place)


def check_program(spec: Spec) -> None:
    """Raises `UsageError` for a program that only a stranger's manifest names: it would run with
    the user's rights."""
    folder = program_of(spec)
    if not folder:
        return
    _guard_program(spec)
    held, problem = known()
    if held.folder_of(folder) is None:
        raise UsageError(
            f"`{spec.name}` ({spec.source}) is a program that its {paths.MANIFEST} names, and its "
            f"folder is not trusted: {shlex.join(spec.command or ())}"
            + (f"\n{problem}" if problem else ""),
            "it would run with your rights, outside any sandbox; if you want that: "
            f"`conductor trust {shlex.quote(os.path.relpath(folder))}`",
        )
