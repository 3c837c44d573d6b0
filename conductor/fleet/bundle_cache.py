"""Bundles on a worker: each unpacked once, read-only, in a private folder that its digest names.

    bundles/SHA256/bundle     as it came: compared again each time it is used
    bundles/SHA256/files/     its files: the folder of a configuration
    bundles/incoming-…/       what is being unpacked, by one worker
    bundles/record-…          the newest record of a pool that a key has signed
    bundles/lock              held while one changes any of this

A worker holds what it uses. `prune` deletes the rest; what nobody has used for
30 days goes by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from conductor.errors import ConductorError, UsageError, visible_path
from conductor.fleet import signed_record
from conductor.fleet.bundle import MOST, MOST_FILES, Bundle, BundleError
from conductor.fleet.signed_record import Signed
from conductor.packages import store
from conductor.packages.archive import Bounds, Tree
from conductor.spec import installed, paths, private_files, untrusted_files

if TYPE_CHECKING:
    from conductor.packages.signatures import Demand

_BOUNDS: Final = Bounds(unpacked=MOST, entries=2 * MOST_FILES)
_WHOLE: Final = "bundle"
_FILES: Final = "files"
_INCOMING: Final = "incoming-"
_UNUSED: Final = 30 * 24 * 3600.0
_MOST_WHOLE: Final = 2 * MOST


class Kept(NamedTuple):
    """A bundle that is here."""

    name: str
    """Its digest, or the name of what was not unpacked to the end."""
    size: int
    """Bytes, with its files."""
    used: float
    """When it was last used, in seconds since 1970."""


class BundleCache:
    """The bundles of this user. Every method raises `ConductorError` for a folder that cannot be
    used."""

    def __init__(self, folder: str = "") -> None:
        """`folder`: where they are; empty: in the user's cache."""
        self._folder = folder or paths.bundles()

    def whole(self, digest: str) -> bytes | None:
        """A bundle as it came; None: it is not here."""
        with self._usable():
            try:
                path = os.path.join(self._folder, digest, _WHOLE)
                return untrusted_files.read(path, _MOST_WHOLE, links=False)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def unpacked(self, bundle: Bundle, data: bytes) -> str:
        """The folder with a bundle's files, held as long as this process runs.

        Args:
            bundle: The bundle, whose signature has been compared.
            data: The bundle as it came.

        Raises:
            BundleError: It holds what no folder may hold.
        """
        with self._usable(), self._alone():
            place = os.path.join(self._folder, bundle.digest)
            if not _is_whole(place, bundle, data):
                if os.path.lexists(place):
                    self._delete(place)
                self._unpack(place, bundle, data)
            installed.hold(place)
            os.utime(place)
            self._prune({bundle.digest}, _UNUSED)
            return os.path.join(place, _FILES)

    def kept(self) -> list[Kept]:
        """The bundles that are here; none where the folder is missing."""
        if not os.path.isdir(self._folder):
            return []
        with self._usable():
            return [*self._kept()]

    def prune(self, keep: Collection[str] = (), unused: float = 0.0) -> list[Kept]:
        """Deletes the bundles that nobody holds, but for those with these digests and those used
        within so many seconds; returns what it has deleted."""
        if not os.path.isdir(self._folder):
            return []
        with self._usable(), self._alone():
            return self._prune(keep, unused)

    def record(self, pool: str, keys: Sequence[Demand]) -> Signed:
        """The newest record of a pool that was here, signed by one of these keys; an empty one:
        none was."""
        with self._usable():
            return max((self._record(pool, key) for key in keys), key=_revision, default=Signed())

    def keep_record(self, pool: str, signed: Signed, key: Demand) -> None:
        """Keeps a record that this key has signed, if it is newer than what is here."""
        with self._usable(), self._alone():
            if _revision(self._record(pool, key)) < _revision(signed):
                private_files.replace(self._record_place(pool, key), signed.value)
                private_files.settle(self._folder)

    def _record(self, pool: str, key: Demand) -> Signed:
        try:
            place = self._record_place(pool, key)
            value = untrusted_files.read(place, signed_record.MOST, links=False)
            return signed_record.read(pool, value, [key])
        except (FileNotFoundError, UsageError):
            return Signed()

    def _record_place(self, pool: str, key: Demand) -> str:
        """One file for each key: a key that is trusted no more takes its records with it."""
        name = hashlib.sha256(f"{pool} {key.key}".encode()).hexdigest()
        return os.path.join(self._folder, f"record-{name}")

    def _kept(self) -> Iterator[Kept]:
        for name in sorted(os.listdir(self._folder)):
            place = os.path.join(self._folder, name)
            with contextlib.suppress(OSError):
                status = os.lstat(place)
                if stat.S_ISDIR(status.st_mode):
                    whole = os.path.join(place, _WHOLE)
                    size = os.lstat(whole).st_size if os.path.lexists(whole) else 0
                    yield Kept(name, 2 * size, status.st_mtime)

    def _prune(self, keep: Collection[str], unused: float) -> list[Kept]:
        gone = []
        until = time.time() - unused
        for one in [*self._kept()]:
            place = os.path.join(self._folder, one.name)
            if one.name in keep or place in installed.held or one.used > until:
                continue
            with contextlib.suppress(OSError):
                fd = installed.opened(place)
                try:
                    private_files.hold(fd, alone=True)
                    self._delete(place)
                    gone.append(one)
                finally:
                    os.close(fd)
        return gone

    def release(self, digest: str) -> None:
        """This process uses a bundle no more."""
        fd = installed.held.pop(os.path.join(self._folder, digest), None)
        if fd is not None:
            os.close(fd)

    def _unpack(self, place: str, bundle: Bundle, data: bytes) -> None:
        fresh = os.path.join(self._folder, f"{_INCOMING}{secrets.token_hex(8)}")
        files = os.path.join(fresh, _FILES)
        try:
            os.mkdir(fresh, 0o700)
            os.mkdir(files, 0o700)
            tree = Tree(files, _BOUNDS)
            for path, file in bundle.files.items():
                tree.file(path, (file.content,), executable=file.executable)
            whole = os.path.join(fresh, _WHOLE)
            private_files.replace(whole, data)
            store.seal(fresh)
            os.rename(fresh, place)
            os.chmod(place, 0o500)
            private_files.settle(self._folder)
        except UsageError as error:
            raise BundleError(
                "damaged",
                f"the bundle {bundle.digest[:16]}… cannot be unpacked: {error.text}",
                error.hint,
            ) from None
        finally:
            if os.path.lexists(fresh):
                self._delete(fresh)

    @staticmethod
    def _delete(folder: str) -> None:
        for inner, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                os.chmod(inner, 0o700)
        shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        """Makes the folder, for this user alone."""
        try:
            private_files.make_folders(self._folder)
            status = os.stat(self._folder, follow_symlinks=False)
            why = private_files.not_ours(status)
            if why or not stat.S_ISDIR(status.st_mode):
                raise ConductorError(
                    f"bundles cannot be kept in `{visible_path(self._folder)}`: it "
                    f"{why or 'is a link, or no folder'}",
                    "make it a folder that only you may write, or move it away",
                )
            yield
        except OSError as error:
            raise ConductorError(
                f"bundles cannot be kept in `{visible_path(self._folder)}`: "
                f"{error.strerror or error}",
                "make room there and the folder writable, or set XDG_CACHE_HOME to another one",
            ) from None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with private_files.alone(os.path.join(self._folder, "lock")):
            yield


def _revision(signed: Signed) -> int:
    return signed.record.revision


def _is_whole(place: str, bundle: Bundle, data: bytes) -> bool:
    """Whether a folder holds a bundle, and nothing else, as `BundleCache` puts it there."""
    root = os.path.join(place, _FILES)
    try:
        if untrusted_files.read(os.path.join(place, _WHOLE), _MOST_WHOLE, links=False) != data:
            return False
        found = {}
        for path in untrusted_files.below(root, lambda _: True):
            whole = os.path.join(root, path)
            mode = os.lstat(whole).st_mode
            content = untrusted_files.read(whole, MOST, links=False)
            found[path] = content, bool(mode & stat.S_IXUSR)
    except OSError:
        return False
    return found == {path: (file.content, file.executable) for path, file in bundle.files.items()}
