"""Signatures by keys: how bundles with them are made, and checked."""

from __future__ import annotations

import base64
import binascii
import importlib.util
import json
from typing import Final

from conductor import installation
from conductor.errors import UsageError
from conductor.spec import digests, signing, untrusted_files
from conductor.spec.installed import Signer
from conductor.spec.signing import Key

MOST: Final = 1024 * 1024
"""Bytes of a signature, with everything that belongs to it."""

_PAYLOAD: Final = "application/vnd.in-toto+json"
_PREDICATES: Final = (
    "https://sigstore.dev/cosign/sign/v1",
    "https://slsa.dev/provenance/v1",
)
"""The statements about a package that count as its signature: that somebody signs it, or that
somebody built it. Others, such as the result of a scan, praise nothing."""

_SIMPLE: Final = "cosign container image signature"
BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
"""The media type of a bundle; of referrers with one (cosign from 2.6 on, and others) the artifact
type."""


class NoProofError(Exception):
    """Why a signature proves nothing."""


def key_of(path: str) -> str:
    """The public key in a file, as receipts keep it. Raises `UsageError`."""
    try:
        content = untrusted_files.read(path, MOST)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "a public key in PEM") from None
    need_cryptography()
    return signing.of_pem(content, path).text


def need_cryptography() -> None:
    if importlib.util.find_spec("cryptography") is None:
        raise UsageError(
            "signatures by keys need `cryptography`, which is not installed",
            f"`{installation.with_extra('signatures')}`",
        )


def keyed(key: str) -> Signer:
    return Signer(identity=signing.fingerprint(key), key=key)


def check_signature(key: Key, signature: bytes, content: bytes) -> None:
    """Raises `NoProofError` unless this is the key's signature of these bytes."""
    if not key.signed(signature, content):
        raise NoProofError("a signature is not of this package with this key")


def check_named(payload: bytes, manifest: bytes) -> None:
    """Raises `NoProofError` unless a payload of cosign names this manifest."""
    try:
        critical = json.loads(payload)["critical"]
        digest, kind = critical["image"]["docker-manifest-digest"], critical["type"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NoProofError("the signed text is no payload of cosign") from None
    if kind != _SIMPLE or digest != f"sha256:{digests.of_bytes(manifest)}":
        raise NoProofError("the signature is of another package")


def is_keyed(bundle: bytes) -> bool:
    """Whether a bundle is by a key: then there is no certificate in it."""
    try:
        return "publicKey" in json.loads(bundle)["verificationMaterial"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def by_key(content: bytes, bundle: bytes, key: Key) -> None:
    """Raises `NoProofError` unless a bundle holds the key's signature of these bytes. The entries
    of a log count for identities only: a key is believed by itself."""
    try:
        read = json.loads(bundle)
        envelope = read.get("dsseEnvelope")
        if envelope is None:
            signature = base64.b64decode(read["messageSignature"]["signature"], validate=True)
            return check_signature(key, signature, content)
        (signed,) = envelope["signatures"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        kind = str(envelope["payloadType"])
        signature = base64.b64decode(signed["sig"], validate=True)
        encoded = _encoded(kind, payload)
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        raise NoProofError("a bundle cannot be read") from None
    check_signature(key, signature, encoded)
    return check_stated(kind, payload, content)


def check_stated(kind: str, payload: bytes, content: bytes) -> None:
    """Raises `NoProofError` unless a statement is a signature of these bytes."""
    try:
        statement = json.loads(payload)
        named = [one["digest"].get("sha256") for one in statement["subject"]]
        predicate = statement["predicateType"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NoProofError("the signed text is no statement about a package") from None
    if kind != _PAYLOAD or predicate not in _PREDICATES:
        raise NoProofError("the signed text is about something else")
    if digests.of_bytes(content) not in named:
        raise NoProofError("the signature is of another package")


def bundle(content: bytes, key: str) -> bytes:
    """A bundle with the signature of a manifest by a private key, in the form of cosign.

    Args:
        content: The manifest.
        key: The file of the private key, in PEM and without a password.

    Raises:
        UsageError: The key cannot be used.
    """
    need_cryptography()
    private = signing.private(key)
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "", "digest": {"sha256": digests.of_bytes(content)}}],
        "predicateType": _PREDICATES[0],
        "predicate": {},
    }
    payload = json.dumps(statement, separators=(",", ":")).encode()
    signature = signing.sign(private, _encoded(_PAYLOAD, payload))
    public = signing.Key(private.public_key(), key).text
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": _PAYLOAD,
        "signatures": [{"sig": base64.b64encode(signature).decode()}],
    }
    hint = signing.fingerprint(public).removeprefix("sha256:")
    made = {
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
        "dsseEnvelope": envelope,
    }
    return json.dumps(made, separators=(",", ":")).encode()


def _encoded(kind: str, payload: bytes) -> bytes:
    """The bytes that an envelope signs: kind and payload (DSSE's pre-authentication encoding)."""
    return f"DSSEv1 {len(kind.encode())} {kind} {len(payload)} ".encode() + payload
