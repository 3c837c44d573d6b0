"""The store of installed components: a crash at any moment of a change leaves all or nothing.

    installed/receipts/NAME.json     replaced or unlinked as a whole: installing, updating, removing
    installed/sha256-HEX/            content, written before the first receipt that names it
    installed/incoming-…/            a package that one conductor is fetching
    installed/gone-…/                a folder that is being deleted
    installed/lock                   held while receipts or content change

One rule cleans up: a folder that no receipt names and no process holds is deleted (`prune`). A
chain holds the content it runs (`conductor.spec.installed.hold`), so removed or replaced content
stays until the chain ends. The user's trust in such a folder ends with it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from conductor.errors import ConductorError, UsageError, did_you_mean, visible_path
from conductor.spec import installed, paths, private_files, trust, untrusted_files
from conductor.spec.installed import Receipt
from conductor.spec.trust import Trust

_CONTENT: Final = "sha256-"
_INCOMING: Final = "incoming-"
_GONE: Final = "gone-"
_OURS: Final = (_CONTENT, _INCOMING, _GONE)


class Damaged(msgspec.Struct, frozen=True):
    """A receipt that cannot be used."""

    name: str
    why: str


class _Named(msgspec.Struct):
    """The part of a receipt that pruning needs, of whatever version."""

    content: str


# -- reading ---------------------------------------------------------------------------------------


def receipts() -> list[Receipt | Damaged]:
    """All receipts, by name. Raises `UsageError` where the store itself cannot be used."""
    try:
        os.listdir(installed.receipts())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unreadable(error) from None
    known = installed.names()
    if known:
        with contextlib.suppress(FileNotFoundError):
            installed.refuse_what_others_write()
    found = [receipt(name) for name in known]
    return [each for each in found if each is not None]  # None: it has just been removed


def receipt(name: str) -> Receipt | Damaged | None:
    """The receipt of a name."""
    try:
        return installed.read(name)
    except UsageError as error:
        return Damaged(name, error.text)


def unknown(name: str, known: Iterable[str]) -> UsageError:
    """The error for a name under which nothing is installed."""
    return UsageError(
        f"no component is installed as `{visible_path(name)}`",
        did_you_mean(name, known, "`conductor list` shows the installed components"),
    )


def unreadable(error: OSError) -> UsageError:
    """The error for a store that cannot be read."""
    return UsageError(
        f"installed components cannot be read from `{visible_path(paths.installed())}`: "
        f"{error.strerror or error}",
        "make that folder yours, or move it away and add them again",
    )


def unwritable(error: OSError) -> ConductorError:
    """The error for a store that takes nothing."""
    return ConductorError(
        f"nothing can be written to `{visible_path(paths.installed())}`: {error.strerror or error}",
        "make room there and the folder writable, or set XDG_DATA_HOME to another one",
    )


# -- changing --------------------------------------------------------------------------------------


@contextlib.contextmanager
def incoming() -> Iterator[str]:
    """A private folder to fetch a package into; deleted at the end. Raises `ConductorError`."""
    try:
        _make()
        with _alone():  # `prune` must not see the folder before it is held
            folder = os.path.join(paths.installed(), f"{_INCOMING}{secrets.token_hex(8)}")
            os.mkdir(folder, 0o700)
            fd = _hold(folder)
        try:
            yield folder
        finally:
            delete(folder)
            os.close(fd)
    except OSError as error:
        raise unwritable(error) from None


def seal(root: str) -> str:
    """Makes the files of a package unchangeable, and returns the digest of its content.

    A program that writes beside itself, as Python does, would change the digest. Raises `OSError`.
    """
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            os.chmod(path, 0o500 if os.stat(path).st_mode & stat.S_IXUSR else 0o400)
        if folder != root:  # the root still has to move
            os.chmod(folder, 0o500)
    return installed.tree(root)


def install(root: str, new: Receipt, before: Receipt | Damaged | None) -> None:
    """Puts content into the store, and its receipt in place of the former one.

    Args:
        root: A sealed folder of `incoming`, whose digest the receipt has.
        new: The receipt.
        before: The receipt that it replaces, as the user has seen it.

    Raises:
        ConductorError: The store takes nothing, or another conductor has changed this name.
    """
    try:
        with _alone():
            now = receipt(new.name)
            if now != before and not (isinstance(now, Receipt) and now.content == new.content):
                raise ConductorError(
                    f"another conductor has just changed `{new.name}`",
                    "look at it with `conductor list`, then try again",
                )
            _put(root, new)
            path = installed.receipt_path(new.name)
            private_files.replace(path, msgspec.json.format(msgspec.json.encode(new)))
            private_files.settle(installed.receipts())
            prune()
    except OSError as error:
        raise unwritable(error) from None


def remove(name: str) -> None:
    """Removes a component that is installed, or whose receipt is damaged. Raises
    `ConductorError`."""
    try:
        with _alone():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(installed.receipt_path(name))
            private_files.settle(installed.receipts())
            prune()
    except OSError as error:
        raise unwritable(error) from None


def prune() -> None:
    """Deletes folders that no receipt names and nobody uses. The caller changes the store alone."""
    store = paths.installed()
    named = {os.path.basename(installed.content_folder(each)) for each in _contents()}
    gone = []
    for name in os.listdir(store):
        path = os.path.join(store, name)
        if not name.startswith(_OURS) or name in named or os.path.islink(path):
            continue
        with contextlib.suppress(OSError):
            fd = _hold(path, alone=True)
            try:
                if not name.startswith(_GONE):
                    away = os.path.join(store, f"{_GONE}{secrets.token_hex(8)}")
                    os.rename(path, away)
                    gone.append(path)
                    path = away
                delete(path)
            finally:
                os.close(fd)
    if gone:
        forget(gone)


def _contents() -> Iterator[str]:
    """The digests in receipts, also in receipts of other versions."""
    for name in installed.names():
        with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            text = untrusted_files.read(installed.receipt_path(name), installed.MOST, links=False)
            yield msgspec.json.decode(text, type=_Named).content


def _make() -> None:
    """Makes the folders of the store, for this user alone. Raises `OSError`, `UsageError`."""
    store = paths.installed()
    above = os.path.dirname(store)
    private_files.make_folders(above)
    if not os.path.lexists(store):  # an existing store may be a stranger's: it is refused below
        os.chmod(above, stat.S_IMODE(os.stat(above).st_mode) & ~0o022)
    for folder in (store, installed.receipts()):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    installed.refuse_what_others_write()


def _put(root: str, new: Receipt) -> None:
    """Puts content into its place, unless it is there and undamaged."""
    place = new.folder
    if os.path.lexists(place):
        with contextlib.suppress(OSError):
            if not os.path.islink(place) and installed.tree(place) == new.content:
                os.chmod(place, 0o500)
                return
        os.rename(place, os.path.join(paths.installed(), f"{_GONE}{secrets.token_hex(8)}"))
    os.rename(root, place)
    os.chmod(place, 0o500)
    private_files.settle(paths.installed())


def delete(folder: str) -> None:
    """Deletes a folder, also one that `seal` has closed, as far as the system allows."""
    for inner, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _hold(folder: str, *, alone: bool = False) -> int:
    """Holds a folder until the descriptor is closed; on a file system without locks nobody can.

    Raises `OSError`; with `alone` also where it cannot be known that nobody else holds it.
    """
    fd = installed.opened(folder)
    try:
        private_files.hold(fd, alone=alone)
    except OSError:
        if alone:
            os.close(fd)
            raise
    return fd


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Waits until no other conductor changes the store. Raises `OSError`, `ConductorError`."""
    installed.refuse_what_others_write()
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(private_files.alone(os.path.join(paths.installed(), "lock")))
        except BlockingIOError:
            raise ConductorError(
                "another conductor changes the installed components, and does not end",
                "wait for it, or end it; then try again",
            ) from None
        yield


def forget(folders: list[str]) -> None:
    """Ends the user's trust in these folders: they are deleted."""
    real = [os.path.realpath(folder) for folder in folders]

    def is_gone(place: str) -> bool:
        return any(paths.within(place, folder) for folder in real)

    def edit(held: Trust) -> None:
        for path in [path for path in held.folders if is_gone(path)]:
            del held.folders[path]
        for key in [key for key, agreed in held.agreed.items() if is_gone(agreed.place)]:
            del held.agreed[key]

    with contextlib.suppress(UsageError):  # a trust store that cannot be used is trusted by nobody
        held = trust.load()
        if any(map(is_gone, [*held.folders, *(each.place for each in held.agreed.values())])):
            trust.change(edit)
