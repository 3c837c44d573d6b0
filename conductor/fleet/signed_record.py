"""The record of a pool as a signed value: of the bucket `config`, of a worker's disk, of a status.

    {"statement": {"format": …, "pool": …, "record": …}, "signature": a bundle of sigstore}

The signature is by a key that signs bundles, and covers the pool's name: a record of one pool is
none of another. Who may write a value proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.errors import UsageError
from conductor.fleet import bundle as bundles
from conductor.fleet.bundle import BundleError
from conductor.fleet.rollout import Record
from conductor.packages import signatures

if TYPE_CHECKING:
    from conductor.packages.signatures import Demand

FORMAT: Final = "conductor.record.1"

MOST: Final = 64 * 1024
"""Bytes of a signed record."""

_HINT: Final = (
    "somebody else may have written it; workers keep what they have, and `conductor fleet rollout "
    "BUNDLE --key KEY` writes a new one"
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


def written(pool: str, record: Record, key: str) -> Signed:
    """The record of a pool, signed with the private key in a file. Raises `UsageError`."""
    statement = msgspec.json.encode(_Statement(FORMAT, pool, record))
    signature = signatures.bundle(statement, key)
    value = msgspec.json.encode(_Value(msgspec.Raw(statement), msgspec.Raw(signature)))
    return Signed(record, value)


def read(pool: str, value: bytes, keys: Sequence[Demand]) -> Signed:
    """The record of a pool in a value that one of these keys has signed.

    Without keys the value must have a signature, and nobody compares it: for people who look.

    Raises:
        UsageError: It is none of this pool, or none of these keys has signed it.
    """
    shown = f"the record of the pool `{pool}`"
    if len(value) > MOST:
        raise UsageError(f"{shown} is larger than {MOST:,} bytes", _HINT)
    try:
        read = msgspec.json.decode(value, type=_Value)
        statement, signature = bytes(read.statement), bytes(read.signature)
        if not signature:
            raise UsageError(f"{shown} is not signed", _HINT)
        named = f"the record of the pool {pool}"
        key = bundles.signer(statement, signature, keys, named) if keys else ""
        said = msgspec.json.decode(statement, type=_Statement)
    except BundleError as error:
        raise UsageError(error.text, _HINT) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{shown} cannot be read, or is not signed: {error}", _HINT) from None
    if (said.format, said.pool) != (FORMAT, pool):
        raise UsageError(f"{shown} is signed as something else, or for another pool", _HINT)
    return Signed(said.record, value, key)
