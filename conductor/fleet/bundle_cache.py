"""Bundles on a worker: each unpacked once, read-only, in a private folder that its digest names.

    bundles/HEX/bundle        the bundle as it came, with its signature: compared again at each use
    bundles/HEX/files/        its files: the folder of a configuration
    bundles/incoming-…/       files that one worker is unpacking
    bundles/record-…          the newest record of a pool that a key has signed
    bundles/lock              held while a worker changes any of this

A worker holds the bundles that it uses. `prune` deletes the rest; a bundle that nobody has used for
30 days goes by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from conductor.errors import ConductorError, UsageError, visible_path
from conductor.fleet import bundle as bundles
from conductor.fleet import pool_record
from conductor.fleet.bundle import MOST, MOST_FILES, Bundle, BundleError
from conductor.fleet.pool_record import Signed
from conductor.packages import archive, store
from conductor.packages.archive import Bounds
from conductor.spec import installed, paths, private_files, untrusted_files

if TYPE_CHECKING:
    from conductor.fleet.bundle import Where
    from conductor.packages.signatures import Demand

_BOUNDS: Final = Bounds(unpacked=MOST, entries=2 * MOST_FILES)
_WHOLE: Final = "bundle"
_FILES: Final = "files"
_INCOMING: Final = "incoming-"
_UNUSED: Final = 30 * 24 * 3600.0
_MOST_WHOLE: Final = 2 * MOST
_PACKED: Final = msgspec.msgpack.Decoder(Bundle)


class Kept(NamedTuple):
    """A bundle that is here."""

    name: str
    """The bundle's digest, or the name of a folder that was not unpacked to the end."""
    size: int
    """Bytes, with its files."""
    used: float
    """When it was last used, in seconds since 1970."""


class Opened(NamedTuple):
    """A bundle that can be used."""

    name: str
    """The bundle's place, by its digest."""
    digest: str
    folder: str
    """Holds its files."""


class BundleCache:
    """The bundles of this user. Every method raises `ConductorError` for a folder that cannot be
    used."""

    def __init__(self, folder: str = "") -> None:
        """`folder`: where they are; empty: in the user's cache."""
        self._folder = folder or paths.bundles()

    def opened(self, where: Where, keys: Sequence[Demand]) -> Opened:
        """A bundle that one of these keys has signed, unpacked: fetched if the cache lacks it.

        Raises:
            BundleError: As `bundle.pulled`, or it holds a file that no folder may hold.
        """
        bundle = self._here(where.digest, keys) or bundles.pulled(where, keys)
        name = str(where.pinned(bundle.digest))
        return Opened(name, bundle.digest, self.unpacked(bundle))

    def _here(self, digest: str, keys: Sequence[Demand]) -> Bundle | None:
        """A bundle of the cache that still fits its digest and a key; None: there is none."""
        with self._usable():
            try:
                path = os.path.join(self._folder, _hex(digest), _WHOLE)
                bundle = _PACKED.decode(untrusted_files.read(path, _MOST_WHOLE, links=False))
            except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                return None
        return bundle if bundle.holds(digest, keys) else None

    def unpacked(self, bundle: Bundle) -> str:
        """The folder with the files of a bundle whose signature has been compared. The folder is
        held as long as this process runs. Raises `BundleError`: the bundle holds a file that no
        folder may hold."""
        with self._usable(), self._alone():
            place = os.path.join(self._folder, _hex(bundle.digest))
            fresh = os.path.join(self._folder, f"{_INCOMING}{secrets.token_hex(8)}")
            try:
                self._unpack(fresh, bundle)
                if _is_same(os.path.join(place, _FILES), os.path.join(fresh, _FILES)):
                    os.chmod(place, 0o700)  # another key may prove it now
                    os.replace(os.path.join(fresh, _WHOLE), os.path.join(place, _WHOLE))
                else:
                    if os.path.lexists(place):
                        store.delete(place)
                    os.rename(fresh, place)
                os.chmod(place, 0o500)
                private_files.settle(self._folder)
            finally:
                if os.path.lexists(fresh):
                    store.delete(fresh)
            installed.hold(place)
            os.utime(place)
            self._prune({_hex(bundle.digest)}, _UNUSED)
            return os.path.join(place, _FILES)

    def kept(self) -> list[Kept]:
        """The bundles that are here; none where the folder is missing."""
        if not os.path.isdir(self._folder):
            return []
        with self._usable():
            return [*self._kept()]

    def prune(self, keep: Collection[str] = (), unused: float = 0.0) -> list[Kept]:
        """Deletes the bundles that nobody holds, except those with these digests and those used
        within so many seconds. Returns the deleted bundles."""
        if not os.path.isdir(self._folder):
            return []
        with self._usable(), self._alone():
            return self._prune({*map(_hex, keep)}, unused)

    def record(self, pool: str, keys: Sequence[Demand]) -> Signed:
        """The newest record of a pool that was here, signed by one of these keys; an empty record
        if there was none."""
        with self._usable():
            return max((self._record(pool, key) for key in keys), key=_revision, default=Signed())

    def keep_record(self, pool: str, signed: Signed, key: Demand) -> None:
        """Keeps a record that this key has signed, if it is newer than the kept record."""
        with self._usable(), self._alone():
            if _revision(self._record(pool, key)) < _revision(signed):
                private_files.replace(self._record_place(pool, key), signed.value)
                private_files.settle(self._folder)

    def _record(self, pool: str, key: Demand) -> Signed:
        try:
            place = self._record_place(pool, key)
            value = untrusted_files.read(place, pool_record.MOST, links=False)
            return pool_record.read(pool, value, [key])
        except (FileNotFoundError, UsageError):
            return Signed()

    def _record_place(self, pool: str, key: Demand) -> str:
        """The file of a key's record: a key that is no longer trusted takes its records with it."""
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
                    store.delete(place)
                    gone.append(one)
                finally:
                    os.close(fd)
        return gone

    def release(self, digest: str) -> None:
        """This process no longer uses a bundle."""
        fd = installed.held.pop(os.path.join(self._folder, _hex(digest)), None)
        if fd is not None:
            os.close(fd)

    @staticmethod
    def _unpack(folder: str, bundle: Bundle) -> None:
        os.mkdir(folder, 0o700)
        files = os.path.join(folder, _FILES)
        os.mkdir(files, 0o700)
        try:
            archive.unpack(bundle.layer, files, _BOUNDS)
        except UsageError as error:
            raise BundleError(
                "damaged",
                f"the bundle {bundle.digest} cannot be unpacked: {error.text}",
                error.hint,
            ) from None
        private_files.replace(os.path.join(folder, _WHOLE), msgspec.msgpack.encode(bundle))
        store.seal(folder)

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


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _is_same(place: str, fresh: str) -> bool:
    """Whether two folders hold the same files, and nothing else."""
    try:
        return installed.tree(place) == installed.tree(fresh)
    except OSError:
        return False
