"""Detached signatures: `FILE.sig`, as `cosign sign-blob --key` or `openssl dgst -sign` write it.

Loaded for a `signer` only: `cryptography` is an extra (`pip install 'conductor-acp[signatures]'`).
"""

from __future__ import annotations

from typing import Final

from conductor import installation
from conductor.errors import UsageError
from conductor.spec import guarded, signing, untrusted_files
from conductor.spec.managed import real_path

ENDING: Final = ".sig"


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
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError(
            f"the signature of `{file}` cannot be checked: `cryptography` is not installed",
            f"`{installation.with_extra('signatures')}`",
        ) from None
    public = _key(key)
    try:
        content = untrusted_files.read(file + ENDING, signing.MOST)
    except OSError as error:
        return f"`{file}{ENDING}`: {error.strerror or error}"
    if not public.signed_digest(signing.read_signature(content), bytes.fromhex(digest)):
        return f"`{file}{ENDING}` is not its signature with `{key}`"
    return ""


def _key(path: str) -> signing.Key:
    """The public key in a file of the administrator's. Raises `UsageError`."""
    try:
        content = untrusted_files.read(real_path(path), signing.MOST)
    except (OSError, guarded.UnguardedError) as error:
        raise UsageError(f"the public key `{path}` cannot be used: {error}", "") from None
    return signing.of_pem(content, path)
