"""`files`: reads files of the project, below the folders the client named, by granted globs.
`conductor/services/file_writer.py` writes them.

Only the client names roots, in the setup of a session; never a component. A path
is resolved first; where it leads must lie below the same root and be granted too, so a link cannot
lead out, nor to a file that was not meant. Blocking: the executor calls it in a thread.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import stat
from collections import deque
from collections.abc import Generator, Iterable
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.core.policy.scopes import compile_glob, matches, patterns
from conductor.services.calls import Grantee, ServiceError, bad_params, read
from conductor.services.file_writer import Write, write

READ_BYTES: Final = 8 * 1024 * 1024
_READ: Final = 1024 * 1024
_OFFSET: Final = 2**53
"""The largest offset: a whole number that each language of guests can write."""
_LISTED: Final = 10_000
_ROOTS: Final = 256
_VISITED: Final = 200_000
"""The most entries looked at for one listing."""


class _Read(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    path: str
    offset: int = 0
    max_bytes: int = _READ


class _List(msgspec.Struct, forbid_unknown_fields=True):
    path: str | None = None
    glob: str = "**"
    limit: int = 1000


class Files:
    """Reads and writes for components, as far as their grants go. Methods raise `ServiceError`."""

    def __init__(self) -> None:
        self._roots: tuple[str, ...] = ()
        """Replaced, never changed: threads read it."""

    def below(self, sessions: Iterable[tuple[str, ...]]) -> None:
        """The client's sessions have these folders from now on. A folder that is no absolute path,
        or is beyond the limit, does not count."""
        named = (path for folders in sessions for path in folders)
        usable = (os.path.normpath(one) for one in named if os.path.isabs(one) and "\0" not in one)
        self._roots = tuple(itertools.islice(dict.fromkeys(usable), _ROOTS))

    def roots(self, _grantee: Grantee, _params: bytes | None) -> object:
        """Performs `files/roots`."""
        return {"roots": list(self._roots)}

    def read(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `files/read`."""
        with _as_service_errors():
            return self._read(_globs(grantee), read(params, _Read))

    def list(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `files/list`."""
        with _as_service_errors():
            return self._list(_globs(grantee), read(params, _List))

    def write(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `files/write`."""
        with _as_service_errors():
            return write(self._roots, grantee, read(params, Write))

    # -- reading -------------------------------------------------------------------------------

    def _read(self, globs: tuple[str, ...], request: _Read) -> object:
        if not 0 <= request.offset <= _OFFSET or not 1 <= request.max_bytes <= READ_BYTES:
            raise bad_params(f"offset must be 0 to {_OFFSET}, maxBytes 1 to {READ_BYTES}")
        path, root = self._place(request.path)
        if path == root or not matches(globs, _below(path, root)):
            raise _not_granted(request.path)
        real, real_root = os.path.realpath(path), os.path.realpath(root)
        if not _inside(real, real_root):
            raise ServiceError("outside", f"{request.path}: leads out of {root}")
        if not matches(globs, _below(real, real_root)):
            raise _not_granted(request.path)
        handle = _open_below(real_root, _below(real, real_root))
        try:
            facts = os.fstat(handle)
            if not stat.S_ISREG(facts.st_mode):
                raise ServiceError("not-a-file", f"{request.path}: is no ordinary file")
            data = os.pread(handle, request.max_bytes, request.offset)
        finally:
            os.close(handle)
        return {
            "path": path,
            "size": facts.st_size,
            "mtimeMs": facts.st_mtime_ns // 1_000_000,
            "more": request.offset + len(data) < facts.st_size,
            **content(data),
        }

    def _place(self, named: str) -> tuple[str, str]:
        """The path that was named, made absolute, and the innermost root it lies below."""
        if "\0" in named or json_text.utf8(named).decode() != named:
            raise bad_params("a path has no NUL in it, and no half of a pair of surrogates")
        roots = self._roots
        if not roots:
            raise ServiceError("no-root", "no session has been set up yet, so there is no folder")
        if os.path.isabs(named):
            path = os.path.normpath(named)
        elif len(roots) == 1:
            path = os.path.normpath(os.path.join(roots[0], named))
        else:
            raise bad_params("there are several roots: the path must be absolute")
        homes = [root for root in roots if _inside(path, root)]
        if not homes:
            raise ServiceError("outside", f"{named}: is not below a folder of a session")
        return path, max(homes, key=len)

    # -- listing -------------------------------------------------------------------------------

    def _list(self, globs: tuple[str, ...], request: _List) -> object:
        if not 1 <= request.limit <= _LISTED:
            raise bad_params(f"limit must be 1 to {_LISTED}")
        try:
            wanted = compile_glob(request.glob)
        except ValueError as error:
            raise bad_params(str(error)) from None
        starts = self._roots if request.path is None else (request.path,)
        entries: list[dict[str, Any]] = []
        for start in starts:
            path, root = self._place(start)
            real, real_root = os.path.realpath(path), os.path.realpath(root)
            if not _inside(real, real_root):
                raise ServiceError("outside", f"{start}: leads out of {root}")
            # Where it is by its own name, and where that leads: both must be granted.
            places = {_within(path, root), _within(real, real_root)}
            hidden = _names_hidden(request.glob) and any(map(_names_hidden, globs))
            with contextlib.closing(
                _walk(real_root, _within(real, real_root), hidden)
            ) as entries_below:
                for below, entry in entries_below:
                    if entry is None:
                        return {"entries": entries, "more": True}
                    if wanted.fullmatch(below) and all(matches(globs, p + below) for p in places):
                        described = _described(os.path.join(path, below), entry)
                        if described is not None and len(entries) == request.limit:
                            return {"entries": entries, "more": True}
                        entries += [] if described is None else [described]
        return {"entries": entries, "more": False}


def _globs(grantee: Grantee) -> tuple[str, ...]:
    return ("**",) if grantee.grants is None else patterns(grantee.grants)


@contextlib.contextmanager
def _as_service_errors() -> Generator[None, None, None]:
    try:
        yield
    except FileNotFoundError as error:
        name = _shown(error.filename)
        raise ServiceError("not-found", f"{name}: there is no such file") from None
    except OSError as error:
        raise ServiceError("io", f"{_shown(error.filename)}: {error.strerror}") from None


def content(data: bytes) -> dict[str, str]:
    """Bytes as `text` where they are UTF-8, else as `base64`."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _not_granted(path: str) -> ServiceError:
    hint = "hint: `,allow=read:GLOB` lets it"
    return ServiceError("not-granted", f"{path}: is not among the files granted\n{hint}")


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _below(path: str, root: str) -> str:
    return os.path.relpath(path, root)


def _within(path: str, root: str) -> str:
    """The path from a root to a folder, `docs/`; empty for the root itself."""
    return "" if path == root else _below(path, root) + "/"


def _open_folder(root: str, path: str) -> int:
    """Opens a folder by its names in turn: none of them may have become a link meanwhile."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, flags)
    for name in filter(None, path.split("/")):
        try:
            inner = os.open(name, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _open_below(root: str, path: str) -> int:
    """Opens an ordinary file, or a file that has taken its place meanwhile; none of its names is a
    link.

    Anything else is not even opened: opening a device can have effects.
    """
    above, _, name = path.rpartition("/")
    folder = _open_folder(root, above)
    try:
        kind = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFLNK):
            raise ServiceError("not-a-file", f"{path}: is no ordinary file")
        # Not blocking: a named pipe would else hold the thread until somebody writes to it.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)


def _walk(
    root: str, start: str, hidden: bool
) -> Generator[tuple[str, os.DirEntry[str] | None], None, None]:
    """All entries below a folder of a root, by their paths from there; links are not followed, and
    no folder is followed that has become a link. The nearest come first.

    Folders below it that cannot be read are passed over, `hidden` ones unless they are wanted.
    None at the end: there would be more to look at.
    """
    folders, left = deque([""]), _VISITED
    while folders:
        here = folders.popleft()
        with contextlib.ExitStack() as opened:
            try:
                folder = _open_folder(root, start + here)
                opened.callback(os.close, folder)
                with os.scandir(folder) as scanned:
                    entries = sorted(itertools.islice(scanned, left + 1), key=_name)
            except OSError as error:
                if not here:
                    error.filename = os.path.join(root, start.rstrip("/"))
                    raise
                continue
            for entry in entries:
                left -= 1
                if left < 0:
                    yield "", None
                    return
                shown = hidden or not entry.name.startswith(".")
                if shown and entry.is_dir(follow_symlinks=False):
                    folders.append(f"{here}{entry.name}/")
                yield here + entry.name, entry


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _names_hidden(glob: str) -> bool:
    """Whether a glob names something that is hidden."""
    return any(part.startswith(".") for part in glob.split("/"))


def _shown(path: object) -> str:
    """A path as JSON can hold it: bytes that are no UTF-8 are replaced."""
    return str(path).encode("utf-8", "replace").decode()


def _described(path: str, entry: os.DirEntry[str]) -> dict[str, Any] | None:
    """The description of an entry; None if it is gone, or its name is no UTF-8."""
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    if _shown(path) != path:
        return None
    kinds = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
    return {
        "path": path,
        "kind": kinds.get(stat.S_IFMT(facts.st_mode), "other"),
        "size": facts.st_size,
        "mtimeMs": facts.st_mtime_ns // 1_000_000,
    }
