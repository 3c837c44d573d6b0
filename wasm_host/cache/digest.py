"""SHA-256 of small and of large things.

`hashlib` loads OpenSSL, which takes 2 ms and 2 MB: worth it for a large file, not for the modules
most guests are. The interpreter's own code is as right, and fifteen times as slow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mmap import mmap


LARGE: Final = 128 * 1024
"""Bytes from which on loading OpenSSL costs less than doing without."""


def sha256(data: bytes | bytearray | mmap) -> str:
    """The digest in hex."""
    digest: str = _maker(len(data))(data).hexdigest()
    return digest


def _maker(size: int) -> Any:
    if size < LARGE:
        # Python 3.12 renamed it; builds that have OpenSSL only have neither.
        for name in ("_sha2", "_sha256"):
            try:
                return importlib.import_module(name).sha256
            except ImportError:
                continue
    return importlib.import_module("hashlib").sha256
