"""Detached signatures: `FILE.sig`, as `cosign sign-blob --key` or `openssl dgst -sign` write it.

Loaded for a `signer` only: `cryptography` is an extra (`pip install 'conductor-acp[signatures]'`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import Final

from conductor.errors import UsageError
from conductor.spec import untrusted_files
from conductor.spec.managed import guarded

ENDING: Final = ".sig"

_MOST: Final = 64 * 1024
"""Bytes of a key, or of a signature."""

_LEAST_RSA: Final = 2048


def signed(file: str, digest: str, key: str) -> str:
    """Why a file is not signed with a key; empty if it is.

    Args:
        file: The file; its signature is beside it.
        digest: Its SHA-256. The signature is compared with this and not with the file, which may
            change meanwhile.
        key: The file of the public key, in PEM.

    Raises:
        UsageError: `cryptography` is missing, or the key cannot be used.
    """
    try:
        from cryptography.exceptions import InvalidSignature
    except ImportError:
        raise UsageError(
            f"the signature of `{file}` cannot be checked: `cryptography` is not installed",
            "pip install 'conductor-acp[signatures]'",
        ) from None
    verify = _verifier(key)
    try:
        signature = _read(untrusted_files.read(file + ENDING, _MOST))
    except OSError as error:
        return f"`{file}{ENDING}`: {error.strerror or error}"
    try:
        verify(signature, bytes.fromhex(digest))
    except InvalidSignature:
        return f"`{file}{ENDING}` is not its signature with `{key}`"
    return ""


def _verifier(key: str) -> Callable[[bytes, bytes], None]:
    """Compares a signature with a digest by a public key. Raises `UsageError` for a key that cannot
    be used."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

    try:
        public = serialization.load_pem_public_key(untrusted_files.read(guarded.real(key), _MOST))
    except (OSError, ValueError, guarded.UnguardedError) as error:
        raise UsageError(f"the public key `{key}` cannot be used: {error}", "") from None
    sha256 = utils.Prehashed(hashes.SHA256())
    if isinstance(public, ec.EllipticCurvePublicKey):
        return partial(public.verify, signature_algorithm=ec.ECDSA(sha256))
    if isinstance(public, rsa.RSAPublicKey) and public.key_size >= _LEAST_RSA:
        return partial(public.verify, padding=padding.PKCS1v15(), algorithm=sha256)
    raise UsageError(
        f"the public key `{key}` is of a kind that cannot be used",
        f"an elliptic curve, or RSA of at least {_LEAST_RSA} bits",
    )


def _read(content: bytes) -> bytes:
    """A signature: cosign writes base64, openssl the bytes."""
    try:
        return base64.b64decode(content.strip(), validate=True)
    except binascii.Error:
        return content
