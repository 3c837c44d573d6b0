"""A sigstore of one's own: its certificate authority, its logs, and the bundles it gives.

What a signature of the public one consists of (the Fulcio certificate with its timestamp of a log,
the entry of Rekor with its proof of inclusion and its signed checkpoint), made without a network.
"""

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

ME: Final = "me@example.com"
ISSUER: Final = "https://accounts.example.com"
NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""When everything is signed: certificates live for ten minutes."""

SIGN: Final = "https://sigstore.dev/cosign/sign/v1"
_ISSUER_RAW: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_TIMESTAMPS: Final = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ORIGIN: Final = "rekor.test - 1"


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def der(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def key_id(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(der(key)).digest()


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def sign(key: ec.EllipticCurvePrivateKey, content: bytes) -> bytes:
    return key.sign(content, ec.ECDSA(hashes.SHA256()))


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@dataclass
class Sigstore:
    """A root of trust."""

    authority: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    certificates: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    """The key of the log of certificates."""
    entries: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    """The key of the log of signatures."""

    def __post_init__(self) -> None:
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "sigstore.test"),
                x509.NameAttribute(NameOID.COMMON_NAME, "sigstore-test"),
            ]
        )
        public = self.authority.public_key()
        self.root = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(public)
            .serial_number(1)
            .not_valid_before(NOW - timedelta(days=30))
            .not_valid_after(NOW + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage(certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.authority, hashes.SHA256())
        )

    # -- what the user trusts ----------------------------------------------------------------------

    def trusted_root(self) -> bytes:
        """The `trusted_root.json` of the root."""
        start = {"start": "2026-01-01T00:00:00Z"}

        def log(key: ec.EllipticCurvePrivateKey, url: str) -> dict[str, Any]:
            public = {
                "rawBytes": b64(der(key)),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": start,
            }
            return {
                "baseUrl": url,
                "hashAlgorithm": "SHA2_256",
                "publicKey": public,
                "logId": {"keyId": b64(key_id(key))},
            }

        root = self.root.public_bytes(Encoding.DER)
        authority = {
            "subject": {"organization": "sigstore.test", "commonName": "sigstore-test"},
            "uri": "https://fulcio.test",
            "certChain": {"certificates": [{"rawBytes": b64(root)}]},
            "validFor": start,
        }
        return json.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [log(self.entries, "https://rekor.test")],
                "certificateAuthorities": [authority],
                "ctlogs": [log(self.certificates, "https://ctfe.test")],
                "timestampAuthorities": [],
            }
        ).encode()

    # -- signatures --------------------------------------------------------------------------------

    def certificate(
        self,
        key: ec.EllipticCurvePrivateKey,
        names: tuple[str, ...] = (ME,),
        issuer: str = ISSUER,
        *,
        at: datetime = NOW,
    ) -> x509.Certificate:
        """The certificate of the authority for an identity, for ten minutes."""
        sans = [
            x509.RFC822Name(name) if "@" in name else x509.UniformResourceIdentifier(name)
            for name in names
        ]
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.root.subject)
            .public_key(key.public_key())
            .serial_number(2)
            .not_valid_before(at - timedelta(minutes=1))
            .not_valid_after(at + timedelta(minutes=9))
            .add_extension(usage(), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False
            )
            .add_extension(x509.SubjectAlternativeName(sans), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key()),
                critical=False,
            )
            .add_extension(x509.UnrecognizedExtension(_ISSUER_RAW, issuer.encode()), critical=False)
        )
        before = builder.sign(self.authority, hashes.SHA256())
        timestamps = x509.UnrecognizedExtension(
            _TIMESTAMPS, self._timestamps(before.tbs_certificate_bytes, at)
        )
        return builder.add_extension(timestamps, critical=False).sign(
            self.authority, hashes.SHA256()
        )

    def _timestamps(self, before: bytes, at: datetime) -> bytes:
        """The timestamp that the log of certificates gave for one (RFC 6962)."""
        time = int(at.timestamp() * 1000)
        entry = key_id(self.authority) + struct.pack("!I", len(before))[1:] + before
        signed = struct.pack("!BBQH", 0, 0, time, 1) + entry + struct.pack("!H", 0)
        signature = sign(self.certificates, signed)
        one = struct.pack("!B32sQH", 0, key_id(self.certificates), time, 0)
        one += struct.pack("!BBH", 4, 3, len(signature)) + signature
        listed = struct.pack("!HH", len(one) + 2, len(one)) + one
        assert len(listed) < 256
        head = bytes([4, len(listed)]) if len(listed) < 128 else bytes([4, 0x81, len(listed)])
        return head + listed

    def entry(self, kind: str, spec: dict[str, Any], at: datetime) -> dict[str, Any]:
        """An entry of the log, which is its only one."""
        body = canonical({"apiVersion": "0.0.1", "kind": kind, "spec": spec})
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"{_ORIGIN}\n1\n{b64(root)}\n"
        signature = key_id(self.entries)[:4] + sign(self.entries, note.encode())
        time = int(at.timestamp())
        promised = {
            "body": b64(body),
            "integratedTime": time,
            "logID": key_id(self.entries).hex(),
            "logIndex": 0,
        }
        return {
            "logIndex": "0",
            "logId": {"keyId": b64(key_id(self.entries))},
            "kindVersion": {"kind": kind, "version": "0.0.1"},
            "integratedTime": str(time),
            "inclusionPromise": {
                "signedEntryTimestamp": b64(sign(self.entries, canonical(promised)))
            },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": b64(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 rekor.test {b64(signature)}\n"},
            },
            "canonicalizedBody": b64(body),
        }

    def bundle(self, content: bytes, *, at: datetime = NOW, **who: Any) -> dict[str, Any]:
        """The signature of a file, as `cosign sign-blob` and `sigstore sign` write it."""
        key = new_key()
        certificate = self.certificate(key, **who)
        signature = sign(key, content)
        digest = hashlib.sha256(content).digest()
        spec = {
            "data": {"hash": {"algorithm": "sha256", "value": digest.hex()}},
            "signature": {"content": b64(signature), "publicKey": {"content": pem(certificate)}},
        }
        return {
            **self._material(certificate, self.entry("hashedrekord", spec, at)),
            "messageSignature": {
                "messageDigest": {"algorithm": "SHA2_256", "digest": b64(digest)},
                "signature": b64(signature),
            },
        }

    def statement(
        self,
        content: bytes,
        *,
        at: datetime = NOW,
        predicate: str = SIGN,
        kind: str = "application/vnd.in-toto+json",
        **who: Any,
    ) -> dict[str, Any]:
        """The signature of an artifact in a registry, as `cosign sign` writes it."""
        key = new_key()
        certificate = self.certificate(key, **who)
        payload = canonical(
            {
                "_type": "https://in-toto.io/Statement/v1",
                "subject": [
                    {"name": "", "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
                ],
                "predicateType": predicate,
                "predicate": {},
            }
        )
        signature = sign(key, f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
        envelope = {
            "payload": b64(payload),
            "payloadType": kind,
            "signatures": [{"sig": b64(signature)}],
        }
        spec = {
            "envelopeHash": hashed(canonical(envelope)),
            "payloadHash": hashed(payload),
            "signatures": [{"signature": b64(signature), "verifier": pem(certificate)}],
        }
        return {
            **self._material(certificate, self.entry("dsse", spec, at)),
            "dsseEnvelope": envelope,
        }

    def _material(self, certificate: x509.Certificate, entry: dict[str, Any]) -> dict[str, Any]:
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": b64(certificate.public_bytes(Encoding.DER))},
                "tlogEntries": [entry],
            },
        }


def pem(certificate: x509.Certificate) -> str:
    return b64(certificate.public_bytes(Encoding.PEM))


def hashed(content: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}


def usage(*, certificates: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
