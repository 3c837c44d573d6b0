"""Keys and their signatures, on `cryptography`, which is an extra: loaded for a signature only."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from conductor.errors import UsageError
from conductor.spec import untrusted_files

MOST: Final = 64 * 1024
"""Bytes of a key, or of a signature."""

_LEAST_RSA: Final = 2048


class Key:
    """A public key: of an elliptic curve, Ed25519, or RSA."""

    def __init__(self, public: Any, shown: str) -> None:
        """Raises `UsageError` for a key of another kind; the error names it `shown`."""
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        fits = isinstance(public, (ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey))
        if not fits and not (
            isinstance(public, rsa.RSAPublicKey) and public.key_size >= _LEAST_RSA
        ):
            raise UsageError(
                f"the public key `{shown}` is of a kind that cannot be used",
                f"an elliptic curve, Ed25519, or RSA of at least {_LEAST_RSA} bits",
            )
        self._public = public

    @property
    def text(self) -> str:
        """The key as one line: its DER in base64."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        encoded: bytes = self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(encoded).decode()

    def signed(self, signature: bytes, content: bytes) -> bool:
        """Whether a signature is this key's of these bytes."""
        from cryptography.hazmat.primitives.asymmetric import ed25519

        if isinstance(self._public, ed25519.Ed25519PublicKey):
            return _holds(partial(self._public.verify, signature, content))
        return self.signed_digest(signature, hashlib.sha256(content).digest())

    def signed_digest(self, signature: bytes, digest: bytes) -> bool:
        """Whether a signature is this key's of the bytes with this SHA-256.

        Raises `UsageError` for Ed25519, which signs the bytes themselves.
        """
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

        sha256 = utils.Prehashed(hashes.SHA256())
        verify = self._public.verify
        if isinstance(self._public, ec.EllipticCurvePublicKey):
            return _holds(partial(verify, signature, digest, ec.ECDSA(sha256)))
        if isinstance(self._public, rsa.RSAPublicKey):
            return _holds(partial(verify, signature, digest, padding.PKCS1v15(), sha256))
        raise UsageError(
            "a public key of Ed25519 cannot be used here",
            f"an elliptic curve, or RSA of at least {_LEAST_RSA} bits",
        )


def of_pem(content: bytes, shown: str) -> Key:
    """The key in a PEM file. Raises `UsageError` that names it `shown`."""
    from cryptography.hazmat.primitives import serialization

    try:
        public = _loaded(serialization.load_pem_public_key, content)
    except ValueError as error:
        raise UsageError(
            f"the public key `{shown}` cannot be used: {error}",
            "in PEM, as `cosign generate-key-pair` or `openssl pkey -pubout` writes it",
        ) from None
    return Key(public, shown)


def of_text(text: str) -> Key:
    """The key that `Key.text` has written. Raises `UsageError`."""
    from cryptography.hazmat.primitives import serialization

    try:
        public = _loaded(serialization.load_der_public_key, _der(text))
    except ValueError as error:
        raise _unusable(error) from None
    return Key(public, "recorded")


def _loaded(load: Callable[[bytes], Any], content: bytes) -> Any:
    """The key that `load` finds in a text. Raises `ValueError`, or the errors of `load`."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load(content)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from None


def _der(text: str) -> bytes:
    """The bytes of a recorded key. Raises `UsageError`."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise _unusable(error) from None


def _unusable(error: ValueError) -> UsageError:
    return UsageError(f"a recorded public key cannot be used: {error}", "add it again")


def private(path: str) -> Any:
    """The private key in a PEM file without a password. Raises `UsageError`."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    hint = "`openssl genpkey -algorithm ed25519 -out key.pem` makes one"
    try:
        content = untrusted_files.read(path, MOST)
        key = _loaded(partial(serialization.load_pem_private_key, password=None), content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", hint) from None
    except (ValueError, TypeError) as error:
        raise UsageError(f"the private key `{path}` cannot be used: {error}", hint) from None
    is_p256 = isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)
    if not is_p256 and not isinstance(key, ed25519.Ed25519PrivateKey):
        raise UsageError(f"`{path}` is no private key of P-256 or Ed25519", hint)
    return key


def sign(key: Any, content: bytes) -> bytes:
    """A private key's signature of these bytes, the same each time where that is possible."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return bytes(key.sign(content))
    try:
        same = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
        return key.sign(content, same)
    except (TypeError, UnsupportedAlgorithm):  # an older cryptography, or OpenSSL below it
        return key.sign(content, ec.ECDSA(hashes.SHA256()))


def fingerprint(text: str) -> str:
    """The key of a line of `Key.text`, short enough to compare: the SHA-256 of its DER. Raises
    `UsageError`."""
    return f"sha256:{hashlib.sha256(_der(text)).hexdigest()}"


def read_signature(content: bytes) -> bytes:
    """A signature in a file: cosign writes base64, openssl the bytes."""
    try:
        return base64.b64decode(content.strip(), validate=True)
    except ValueError:
        return content


def _holds(verify: Callable[[], object]) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        verify()
    except InvalidSignature:
        return False
    return True
