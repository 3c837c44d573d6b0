"""SHA-256 of files and of folders, and whether they still are what they were."""

from __future__ import annotations

import os
from collections.abc import Mapping

from conductor.errors import ComponentError
from conductor.spec import untrusted_files

_MOST = 2 * 1024**3
"""Bytes of a file whose digest is taken: programs are smaller, and it takes a second or two."""

CACHES = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
"""Folders that are no part of a program."""


def of(path: str) -> str:
    """The digest of a file in hex; of a folder, one of all its files. Raises `OSError`."""
    return _folder(path) if os.path.isdir(path) else _file(path)


def verify(pins: Mapping[str, str], label: str, lock: str) -> None:
    """Raises `ComponentError` if one of `pins` (path: digest) has changed.

    `label` is the component they belong to, `lock` the file that says what they were.
    """
    for path, digest in pins.items():
        try:
            found = of(path)
        except OSError as error:
            raise ComponentError(
                f"{label} is pinned by {lock}, and `{path}` cannot be read: "
                f"{error.strerror or error}",
                "put the file back, or accept that it is gone with `conductor lock`",
            ) from None
        if found != digest:
            raise ComponentError(f"{label}: {changed(path, lock, digest, found)}", ACCEPT)


ACCEPT = "look at what has changed; accept it with `conductor lock COMPONENT…`"


def changed(path: str, lock: str, before: str, now: str) -> str:
    """One sentence about a file that is not what was locked."""
    return f"`{path}` is not what {lock} pins: sha256 {short(before)} → {short(now)}"


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
    """Names and contents count; what tools keep beside them does not."""
    import hashlib

    lines = []
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name not in CACHES]
        for name in files:
            whole = os.path.join(folder, name)
            shown = os.path.relpath(whole, path).replace(os.sep, "/")
            lines.append(f"{_file(whole)}  {shown}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
