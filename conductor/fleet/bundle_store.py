"""What NATS keeps of a rollout: a record for each pool, and bundles by digest.

    bucket `config`     pool → what it runs (`conductor.fleet.signed_record`)
    objects `bundles`   digest → the bundle, in chunks of 1 MiB

Whoever may write there can put an old record or an old bundle back, and nothing else: workers
believe digests and signatures, not the store.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import io
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from nats import errors
from nats.js import errors as js_errors
from nats.js.api import ObjectMeta, ObjectMetaOptions, ObjectStoreConfig

from conductor.errors import ConductorError, UsageError
from conductor.fleet import signed_record
from conductor.fleet.bundle import MOST, BundleError
from conductor.fleet.bus import Away, Bus
from conductor.fleet.rollout import Record

if TYPE_CHECKING:
    from conductor.fleet.bus import Bucket
    from conductor.packages.signatures import Demand

RECORDS: Final = "config"
OBJECTS: Final = "bundles"

_STREAM: Final = f"OBJ_{OBJECTS}"
_BUNDLE: Final = f"$O.{OBJECTS}.M."
_CHUNKS: Final = f"$O.{OBJECTS}.C."
_CHUNK: Final = 1024 * 1024
_PATIENCE: Final = 120.0
"""Seconds that a bundle may take to come or go."""
_MOST: Final = 2 * MOST
_OLD: Final = datetime.timedelta(days=1)
"""What no pool names stays so long: another rollout may have put it there just now."""
_DEAD: Final = 2 * datetime.timedelta(seconds=_PATIENCE)
"""Nobody writes any more to chunks that are older, and belong to no bundle."""
_FAILURES: Final = (errors.Error, js_errors.Error, OSError, TimeoutError)


class Known(msgspec.Struct, frozen=True):
    """The record of a pool, and its revision in the bucket: 0 where there is none yet."""

    record: Record
    revision: int
    problem: str = ""
    """Why the record there counts for nothing; then `record` is an empty one."""
    value: bytes = b""
    """The record as it is signed."""
    key: str = ""
    """The public key that has signed it."""


class NotNow(ConductorError):  # noqa: N818 - nobody is to blame
    """NATS keeps nothing now; the same may succeed later."""

    def __init__(self, error: object) -> None:
        why = str(error) or type(error).__name__
        super().__init__(
            f"NATS does not give or take bundles now: {why}",
            "JetStream must be on, with room on its disk, and a leader for the stream",
        )


class BundleStore:
    """The records and the bundles of one tenant. Every method raises `NotNow`."""

    def __init__(self, bus: Bus, keys: Sequence[Demand] = ()) -> None:
        """`keys`: one of them has signed a record; none: nobody compares who has."""
        self._bus, self._keys = bus, keys
        self._bucket: Bucket | None = None
        self._opened: Any = None

    async def record(self, pool: str) -> Known:
        """What a pool runs."""
        kept = await (await self._records()).get(pool)
        if kept is None:
            return Known(Record(), 0)
        try:
            signed = signed_record.read(pool, kept.value, self._keys)
        except UsageError as error:
            return Known(Record(), kept.revision, error.text)
        return Known(signed.record, kept.revision, "", signed.value, signed.key)

    async def change(self, pool: str, known: Known, record: Record, key: str) -> Known:
        """Sets the record of a pool, signed with the private key in a file. Raises `UsageError` if
        somebody has changed it meanwhile."""
        bucket, value = await self._records(), signed_record.written(pool, record, key).value
        if known.revision:
            revision = await bucket.update(pool, value, known.revision)
        else:
            revision = await bucket.create(pool, value)
        if not revision:
            raise UsageError(
                f"somebody else has just changed what the pool `{pool}` runs",
                "`conductor fleet rollout --status` shows it; then try again",
            )
        return Known(record, revision, "", value)

    async def watch(self, pool: str, changed: Callable[[], None]) -> Callable[[], Awaitable[None]]:
        """Calls `changed` after the record has changed, while NATS is there; what it returns ends
        that."""
        return await self._bus.listen(f"$KV.{RECORDS}.{pool}", lambda *_: changed())

    async def put(self, digest: str, data: bytes) -> None:
        """Stores a bundle, unless it is there."""
        try:
            store = await self._objects()
            async with asyncio.timeout(_PATIENCE):
                try:
                    there = await store.get_info(digest)
                    if there.digest == _named(digest) and there.size == len(data):
                        return
                except (js_errors.ObjectNotFoundError, js_errors.BadObjectMetaError):
                    pass
                options = ObjectMetaOptions(max_chunk_size=_CHUNK)
                await store.put(digest, io.BytesIO(data), ObjectMeta(name=digest, options=options))
        except _FAILURES as error:
            raise NotNow(error) from None

    async def get(self, digest: str) -> bytes:
        """The bytes under a digest, whatever they are. Raises `BundleError` where there are none,
        or far too many."""
        try:
            store = await self._objects()
            async with asyncio.timeout(_PATIENCE):
                info = await store.get_info(digest)
                if info.is_link() or not 0 < (info.size or 0) <= _MOST:
                    raise BundleError(
                        "size", f"the object `{digest}` of NATS cannot be a bundle: its size is odd"
                    )
                return await self._chunks(str(info.nuid), info.chunks or 0)
        except (js_errors.ObjectNotFoundError, js_errors.BadObjectMetaError):
            raise BundleError(
                "missing",
                f"NATS has no bundle {digest[:16]}…",
                "somebody has deleted it; roll it out again from its file",
            ) from None
        except _FAILURES as error:
            raise NotNow(error) from None

    async def _chunks(self, nuid: str, count: int) -> bytes:
        """The chunks of an object, one after the other: a consumer would say where they go."""
        found, following = bytearray(), 1
        for _ in range(count):
            piece = await self._bus.jetstream.get_msg(_STREAM, following, _CHUNKS + nuid, next=True)
            found += piece.data or b""
            following = (piece.seq or 0) + 1
            if len(found) > _MOST:
                raise OSError("more comes than was announced")
        return bytes(found)

    async def prune(self, keep: Collection[str] = ()) -> None:
        """Deletes old bundles that no pool names any more, but for those with these digests; and
        the chunks that belong to no bundle: of one that is deleted, or of a rollout that was
        killed."""
        try:
            bucket = await self._records()
            anybody = BundleStore(self._bus)  # another pool may have a key of its own
            named = {*keep}
            for pool in await bucket.keys(">"):
                record = (await anybody.record(pool)).record
                named |= {record.active, record.previous, record.candidate}
            store, jetstream = await self._objects(), self._bus.jetstream
            now, used = datetime.datetime.now(datetime.UTC), set[str]()
            for word in await self._bus.words(_STREAM, f"{_BUNDLE}*"):
                try:
                    info = await store.get_info(base64.urlsafe_b64decode(word).decode())
                except (ValueError, js_errors.ObjectNotFoundError, js_errors.BadObjectMetaError):
                    continue
                if info.name in named or now - _made(info) <= _OLD:
                    used.add(str(info.nuid))
                else:
                    await jetstream.purge_stream(_STREAM, subject=_BUNDLE + word)
            for word in await self._bus.words(_STREAM, f"{_CHUNKS}*"):
                if word not in used:
                    last = await jetstream.get_msg(_STREAM, subject=_CHUNKS + word)
                    if last.time is not None and now - last.time > _DEAD:
                        await jetstream.purge_stream(_STREAM, subject=_CHUNKS + word)
        except js_errors.NotFoundError:
            pass  # there are none
        except _FAILURES as error:
            raise NotNow(error) from None

    async def make(self) -> None:
        """Makes what is not there."""
        await self._records()
        try:
            await self._objects()
        except _FAILURES as error:
            raise NotNow(error) from None

    async def _records(self) -> Bucket:
        if self._bucket is None:
            self._bucket = await self._bus.bucket(RECORDS)
        return self._bucket

    async def _objects(self) -> Any:
        if not self._bus.is_linked:
            raise Away
        if self._opened is None:
            self._opened = await self._bus.kept(OBJECTS, self._found)
        return self._opened

    async def _found(self) -> Any:
        jetstream = self._bus.jetstream
        try:
            return await jetstream.object_store(OBJECTS)
        except js_errors.NotFoundError:
            self._bus.may_make(OBJECTS)
            config = ObjectStoreConfig(bucket=OBJECTS, replicas=self._bus.replicas)
            return await jetstream.create_object_store(OBJECTS, config)


def _named(digest: str) -> str:
    """A digest as the object store writes it."""
    return f"SHA-256={base64.urlsafe_b64encode(bytes.fromhex(digest)).decode()}"


def _made(info: Any) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(str(info.mtime))
    except ValueError:
        return datetime.datetime.now(datetime.UTC)
