"""The record of a pool: the names of its bundles, signed, in the bucket `config` of NATS and on
workers.

    {"statement": {"format": …, "pool": …, "record": …}, "signature": a bundle of sigstore}

The signature is by a key that signs bundles, and covers the pool's name: a record of one pool is
none of another. Write access to the bucket proves nothing: workers believe signatures, not the
bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.errors import UsageError
from conductor.fleet.bundle import BundleError, signed_by
from conductor.fleet.rollout import Record
from conductor.packages import key_signatures
from conductor.packages.signatures import Offer

if TYPE_CHECKING:
    from conductor.fleet.bucket import Bucket
    from conductor.fleet.bus import Bus, End
    from conductor.packages.signatures import Demand

BUCKET: Final = "config"
MOST: Final = 64 * 1024
"""Bytes of a signed record."""

_FORMAT: Final = "conductor.record.1"
_HINT: Final = (
    "somebody else may have written this record; workers keep their bundles, and `conductor fleet "
    "rollout BUNDLE --key KEY` writes a new record"
)


class _Statement(msgspec.Struct, frozen=True):
    format: str
    pool: str
    record: Record


class _Value(msgspec.Struct, frozen=True):
    statement: msgspec.Raw
    signature: msgspec.Raw = msgspec.Raw(b"")


class Signed(msgspec.Struct, frozen=True):
    """A record, and the value that proves it."""

    record: Record = Record()
    value: bytes = b""
    key: str = ""
    """The public key that has signed it, as in a `Demand`; empty: no key was compared."""
    revision: int = 0
    """In the bucket; 0 where there is none."""
    problem: str = ""
    """Why the value in the bucket does not count; `record` is then an empty record."""


def written(pool: str, record: Record, key: str) -> bytes:
    """The record of a pool, signed with the private key in a file. Raises `UsageError`."""
    statement = msgspec.json.encode(_Statement(_FORMAT, pool, record))
    signature = key_signatures.bundle(statement, key)
    return msgspec.json.encode(_Value(msgspec.Raw(statement), msgspec.Raw(signature)))


def read(pool: str, value: bytes, keys: Sequence[Demand]) -> Signed:
    """The record of a pool in a value that one of these keys has signed.

    Without keys the value must have a signature, and nobody compares it: for people who look.

    Raises:
        UsageError: The value is no record of this pool, or none of these keys has signed it.
    """
    shown = f"the record of the pool `{pool}`"
    if len(value) > MOST:
        raise UsageError(f"{shown} is larger than {MOST:,} bytes", _HINT)
    try:
        read = msgspec.json.decode(value, type=_Value)
        statement, signature = bytes(read.statement), bytes(read.signature)
        if not signature:
            raise UsageError(f"{shown} is not signed", _HINT)
        offer = Offer("bundle", signature)
        _, key = signed_by(statement, [offer], keys, f"the record of the pool {pool}")
        said = msgspec.json.decode(statement, type=_Statement)
    except BundleError as error:
        raise UsageError(error.text, _HINT) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{shown} cannot be read, or is not signed: {error}", _HINT) from None
    if (said.format, said.pool) != (_FORMAT, pool):
        raise UsageError(f"{shown} is signed as something else, or for another pool", _HINT)
    return Signed(said.record, value, key)


class PoolRecords:
    """The records of one tenant in NATS. Every method raises `ConductorError`."""

    def __init__(self, bus: Bus, keys: Sequence[Demand] = ()) -> None:
        """`keys`: one of them has signed a record; empty: the signer does not matter."""
        self._bus, self._keys = bus, keys
        self._opened: Bucket | None = None

    async def get(self, pool: str) -> Signed:
        """The record of a pool."""
        kept = await (await self._bucket()).get(pool)
        if kept is None:
            return Signed()
        try:
            signed = read(pool, kept.value, self._keys)
        except UsageError as error:
            return Signed(revision=kept.revision, problem=error.text)
        return msgspec.structs.replace(signed, revision=kept.revision)

    async def change(self, pool: str, known: Signed, record: Record, key: str) -> Signed:
        """Sets the record of a pool, signed with the private key in a file. Raises `UsageError` if
        somebody has changed it meanwhile."""
        bucket, value = await self._bucket(), written(pool, record, key)
        read(pool, value, ())  # a record that no worker could read is not written
        if known.revision:
            revision = await bucket.update(pool, value, known.revision)
        else:
            revision = await bucket.create(pool, value)
        if not revision:
            raise UsageError(
                f"somebody else has just changed the bundle of the pool `{pool}`",
                "`conductor fleet rollout --status` shows it; then try again",
            )
        return Signed(record, value, revision=revision)

    async def watch(self, pool: str, changed: Callable[[], None]) -> End:
        """Calls `changed` after the record has changed, while NATS is there. The returned function
        ends the calls."""
        return await self._bus.listen(f"$KV.{BUCKET}.{pool}", lambda *_: changed())

    async def _bucket(self) -> Bucket:
        if self._opened is None:
            self._opened = await self._bus.bucket(BUCKET)
        return self._opened
