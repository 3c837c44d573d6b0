"""Programs behind addresses, for the tests that reach them (`tests.e2e.actors.gateway`)."""

import contextlib
import datetime
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.places import checkout_environment


@contextlib.contextmanager
def behind(scheme: str, command: str, folder: Path, *options: str) -> Iterator[str]:
    """The address at which a command is served; ends both afterwards."""
    gateway = [sys.executable, "-m", "tests.e2e.actors.gateway", *options, scheme]
    with subprocess.Popen(
        [*gateway, *shlex.split(command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=folder,
        env=checkout_environment(),
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().decode().strip()
        finally:
            process.terminate()


class Authority:
    """An authority of a test, and a certificate for `localhost` that it has signed.

    Attributes:
        file: Its certificate.
    """

    def __init__(self, folder: Path) -> None:
        """Writes its files into a folder."""
        self.file = folder / "authority.pem"
        self._folder = folder
        self._pair = folder / "pair.pem"
        key = ec.generate_private_key(ec.SECP256R1())
        own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(own)
            .issuer_name(own)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        text = certificate.public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        self.file.write_bytes(text)
        self._pair.write_bytes(private + text)

    @contextlib.contextmanager
    def serving(self, command: str) -> Iterator[int]:
        """The port at which a command is served over WebSockets with TLS."""
        options = ("--certificate", str(self._pair))
        with behind("ws", command, self._folder, *options) as address:
            yield int(address.rpartition(":")[2])
