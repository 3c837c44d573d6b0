"""Packets that only the two ends of one connection can read and write.

A subject of NATS says nothing about who has sent a message. So a gateway and a worker have a key
each for their lifetime, and their ids are made of these keys: the lease of a room names the key of
its worker. Both make the keys of a connection from their own keys, the connection and a number that
the worker has just chosen: nobody else knows them. Each packet has a number, which only rises: a
packet that is made up, changed, repeated or late is dropped.

    NUMBER (8 bytes)  AES-256-GCM of the packet
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from conductor.errors import ConductorError

_KEY: Final = 32
_NUMBER: Final = 8
_ID: Final = 32
"""Hexadecimal digits of an id."""
_NAME: Final = b"conductor.fleet"
_PREFIX: Final = bytes(4)


class Identity:
    """The key of a gateway or a worker, as long as it runs.

    Attributes:
        public: The public key.
        id: Its name on the bus.
    """

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()
        self.id = id_of(self.public)

    def keys(self, theirs: bytes, id_: str, facts: tuple[object, ...]) -> tuple[bytes, bytes]:
        """Two keys that only this end and the owner of a public key can have.

        Args:
            theirs: The public key of the other end.
            id_: The id of the other end, as the lease or its request names it.
            facts: The facts of the connection that both ends know, in the same order.

        Raises:
            ConductorError: `theirs` is not the key of `id_`.
        """
        try:
            if id_of(theirs) != id_:
                raise ValueError
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise ConductorError(
                f"who answers for `{id_}` in the fleet does not have its key",
                "somebody else uses a login of the fleet at NATS: change the passwords",
            ) from None
        about = msgspec.json.encode(facts)
        both = HKDF(SHA256(), 2 * _KEY, None, _NAME + about).derive(shared)
        return both[:_KEY], both[_KEY:]


def id_of(public: bytes) -> str:
    """The id of who has a key."""
    return hashlib.sha256(public).hexdigest()[:_ID]


def fresh() -> str:
    """A number that nobody has chosen before."""
    return secrets.token_hex(16)


class Seal:
    """One end of one connection."""

    def __init__(self, sends: bytes, takes: bytes) -> None:
        """`sends`: the key of this end's packets. `takes`: the key of the other end's packets."""
        self._sends, self._takes = AESGCM(sends), AESGCM(takes)
        self._sent = self._taken = 0

    def closed(self, packet: bytes) -> bytes:
        """A packet as it travels."""
        self._sent += 1
        number = self._sent.to_bytes(_NUMBER, "big")
        return number + self._sends.encrypt(_PREFIX + number, packet, None)

    def opened(self, data: bytes) -> bytes | None:
        """The packet in a message; None: the other end has not just sent it."""
        number = data[:_NUMBER]
        if len(number) < _NUMBER or int.from_bytes(number, "big") <= self._taken:
            return None
        try:
            packet = self._takes.decrypt(_PREFIX + number, data[_NUMBER:], None)
        except InvalidTag:
            return None
        self._taken = int.from_bytes(number, "big")
        return packet
