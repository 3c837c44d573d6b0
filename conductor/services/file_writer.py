"""`files/write`: puts whole files into the folders that a grant names, and nowhere else.

A folder is granted by its path below the folder of a session: `write:notes`. No name of a path may
be a link, and nothing hidden is written below a granted folder. A file appears at once and whole,
or not at all. Blocking: the executor calls it in a thread.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import Final

import msgspec

from conductor.core import json_text
from conductor.core.policy.scopes import folders
from conductor.services.calls import Grantee, ServiceError, bad_params

FILE_BYTES: Final = 1024 * 1024
QUOTA_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all files in a granted folder."""
QUOTA_FILES: Final = 1000
"""Files and folders in a granted folder."""
PATH_BYTES: Final = 1024
_NAME_BYTES: Final = 200
_DEEPEST: Final = 16
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Write(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The params. `root`: one of the folders of the client's sessions, where there are several.
    `if_sha256`: the digest of the content that it replaces, empty for no file; None: any content
    is replaced."""

    path: str
    root: str | None = None
    text: str | None = None
    base64: str | None = None
    if_sha256: str | None = None


def write(roots: tuple[str, ...], grantee: Grantee, request: Write) -> object:
    """Writes one file, for the user alone. Raises `ServiceError`, or `OSError` of the root."""
    data = _data(request)
    names = _names(request.path)
    granted = _granted(grantee, names)
    root = _root(roots, request.root)
    with contextlib.ExitStack() as opened:
        try:
            place = _opened(opened, os.path.realpath(root), None, create=False)
            for name in names[:granted]:
                place = _opened(opened, name, place)
            used = _used(place, names[granted:], len(data))
            for name in names[granted:-1]:
                place = _opened(opened, name, place)
            if request.if_sha256 is not None:
                _held(place, names[-1], request.if_sha256)
            _replace(place, names[-1], data)
        except OSError as error:
            raise ServiceError("io", f"{request.path}: {error.strerror}") from None
    path = os.path.join(root, *names)
    return {"path": path, "size": len(data), "used": used, "quota": QUOTA_BYTES}


def _data(request: Write) -> bytes:
    if (request.text is None) == (request.base64 is None):
        raise bad_params("a file is text or base64, and not both")
    try:
        if request.text is not None:
            data = json_text.utf8(request.text)
        else:
            data = base64.b64decode(str(request.base64), validate=True)
    except ValueError as error:
        raise bad_params(f"base64: {error}") from None
    if len(data) > FILE_BYTES:
        text = f"{request.path[:80]}: a file has at most {FILE_BYTES:,} bytes, not {len(data):,}"
        raise ServiceError("too-large", text)
    return data


def _names(path: str) -> list[str]:
    """The names in a path that a component has chosen."""
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names):
        raise bad_params("path is relative, below the session's folder, and without `..`")
    if not path.isprintable():  # nor is half of a pair of surrogates
        raise bad_params("path has only characters that can be shown")
    sizes = [len(name.encode()) for name in names]
    if sum(sizes) > PATH_BYTES or max(sizes) > _NAME_BYTES or len(names) > _DEEPEST:
        raise bad_params(
            f"path has at most {_DEEPEST} names of {_NAME_BYTES} bytes, {PATH_BYTES:,} in all"
        )
    return names


def _granted(grantee: Grantee, names: list[str]) -> int:
    """The number of names at the front of the path that are the granted folder."""
    if grantee.grants is None:  # everything is granted: the folder is that of the file
        found = [len(names) - 1] if len(names) > 1 else []
    else:
        parts = [folder.split("/") for folder in folders(grantee.grants)]
        found = [len(p) for p in parts if p == names[: len(p)] and len(p) < len(names)]
    if not found or any(name.startswith(".") for name in names[max(found) :]):
        raise ServiceError(
            "not-granted",
            f"{'/'.join(names)}: is in no folder granted for writing, or is hidden there\n"
            "hint: `,allow=write:FOLDER` lets it",
        )
    return max(found)


def _root(roots: tuple[str, ...], named: str | None) -> str:
    if not roots:
        raise ServiceError("no-root", "no session has been set up yet, so there is no folder")
    if named is None:
        if len(roots) > 1:
            raise bad_params("there are several roots: name one as `root`")
        return roots[0]
    if named not in roots:
        raise ServiceError("outside", f"{named[:PATH_BYTES]}: is no folder of a session")
    return named


def _opened(
    opened: contextlib.ExitStack, name: str, above: int | None, *, create: bool = True
) -> int:
    """A folder, which is made if it is missing; never the target of a link."""
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
        kind = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(kind):
            raise ServiceError("not-a-folder", f"{name}: is a link, or no folder")
    folder = os.open(name, _FOLDER, dir_fd=above)
    opened.callback(os.close, folder)
    return folder


def _used(folder: int, target: list[str], size: int) -> int:
    """The bytes in a granted folder once the file is written. Raises `ServiceError` beyond the
    quota."""
    used, count = size, 1
    for place, found in _files(folder):
        if place == target:
            continue
        used, count = used + found, count + 1
        if used > QUOTA_BYTES or count > QUOTA_FILES:
            break
    if used > QUOTA_BYTES or count > QUOTA_FILES:
        raise ServiceError(
            "quota",
            f"the folder has no room for {size:,} bytes more: it holds at most {QUOTA_BYTES:,} "
            f"bytes and {QUOTA_FILES:,} files\nhint: delete files there that are not needed",
        )
    return used


def _files(folder: int, above: tuple[str, ...] = ()) -> Iterator[tuple[list[str], int]]:
    """All entries below a folder, with their sizes; links are not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            place = (*above, entry.name)
            size = 0
            with contextlib.suppress(FileNotFoundError):
                size = entry.stat(follow_symlinks=False).st_size
            is_folder = entry.is_dir(follow_symlinks=False)
            yield list(place), 0 if is_folder else size
            if not is_folder or len(place) == _DEEPEST:
                continue
            with contextlib.ExitStack() as opened:
                try:
                    inner = _opened(opened, entry.name, folder, create=False)
                except OSError:  # gone meanwhile, or not to be read
                    continue
                yield from _files(inner, place)


def _held(folder: int, name: str, digest: str) -> None:
    """Holds a folder for this write until it is closed. Raises `ServiceError` if a file there has
    other content than this, or another such write is under way."""
    changed = ServiceError("conflict", f"{name}: has other content now\nhint: read it again")
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        handle = os.open(name, _READ, dir_fd=folder)
    except BlockingIOError:
        raise changed from None
    except FileNotFoundError:
        content = None
    else:
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ServiceError("not-a-file", f"{name}: is no ordinary file")
            content = file.read(FILE_BYTES + 1)
    if ("" if content is None else hashlib.sha256(content).hexdigest()) != digest:
        raise changed


def _replace(folder: int, name: str, data: bytes) -> None:
    """Puts a file in its place, in one step."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise ServiceError("not-a-file", f"{name}: is no ordinary file")
    draft = f".conductor-{secrets.token_hex(8)}"
    handle = os.open(draft, _NEW, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
