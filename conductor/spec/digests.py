"""SHA-256 of files and folders, compared with the digests that a lock pins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from conductor.errors import ComponentError
from conductor.spec import untrusted_files

_MOST: Final = 2 * 1024**3
"""Bytes of a file: programs are smaller, and a digest of so many takes a second or two."""

_CACHES: Final = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
"""Folders that tools write beside a program: a digest that counted them would change by use."""

ACCEPT: Final = "look at the change; accept it with `conductor lock COMPONENT…`"


def of(path: str) -> str:
    """The digest of a file in hex; of a folder, one of all its files. Raises `OSError`."""
    return _folder(path) if os.path.isdir(path) else _file(path)


def of_bytes(content: bytes) -> str:
    """The digest of some bytes in hex."""
    import hashlib  # loads OpenSSL, which an editor would wait for

    return hashlib.sha256(content).hexdigest()


AGREED: Final = "your agreement"
"""Stands for a lock file if the user has agreed to the rights of a component."""


def hint(lock: str) -> str:
    """A hint for a file that is not the pinned one."""
    return "start conductor again: it asks about the new version" if lock == AGREED else ACCEPT


def verify(pins: Mapping[str, str], label: str, lock: str) -> None:
    """Compares files with their digests.

    Args:
        pins: Digests by path.
        label: The component that the files belong to.
        lock: The lock file that holds the digests.

    Raises:
        ComponentError: A file has changed, or cannot be read.
    """
    for path, digest in pins.items():
        try:
            now = of(path)
        except OSError as error:
            raise ComponentError(
                f"{label} is pinned by {lock}, and `{path}` cannot be read: "
                f"{error.strerror or error}",
                "put the file back, or accept that it is gone with `conductor lock`",
            ) from None
        if now != digest:
            raise ComponentError(f"{label}: {changed(path, lock, digest, now)}", ACCEPT)


def changed(path: str, lock: str, before: str, now: str) -> str:
    """A sentence about a file that differs from the locked one."""
    return f"`{path}` differs from the one that {lock} pins: sha256 {short(before)} → {short(now)}"


def short(digest: str) -> str:
    """Enough of a digest for people to compare."""
    return f"{digest[:16]}…" if len(digest) > 16 else digest


def _file(path: str) -> str:
    import hashlib  # only where there is a lock: an editor waits for everything else

    with untrusted_files.ordinary(path) as file:
        if os.fstat(file.fileno()).st_size > _MOST:
            raise untrusted_files.TooLargeError(path, f"it is larger than {_MOST >> 30} GiB")
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder(path: str) -> str:
    import hashlib

    # As `sha256sum` writes it: names count as well as contents.
    lines = []
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name not in _CACHES]
        for name in files:
            whole = os.path.join(folder, name)
            shown = os.path.relpath(whole, path).replace(os.sep, "/")
            lines.append(f"{_file(whole)}  {shown}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
