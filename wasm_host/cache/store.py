"""The cache of compiled modules: which entries may be loaded, and which stay (architecture.md).

A compiled module is native code, so the host loads only what it wrote itself:

* the folder must belong to this user with mode 0700, an entry must be a regular file of this user
  with mode 0600 and one link; otherwise the host ignores the cache and reports why;
* an entry is named `<key>-<sha256 of its content>.cwasm`. One rename makes name and content appear
  together; an entry whose content does not match its name is removed and compiled again;
* a large entry that matched once has a *stamp*, the file `.<name>.seen`: the facts that the file
  system reported of it then. While they are unchanged the host does not hash the entry again.

Between the check and the loading of an entry lies a moment in which only this user could change
the entry, who could as well change this program. The same holds for stamps.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wasm_host.cache.digest import sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path  # a host does without: to load it takes a tenth of its start


SUFFIX: Final = ".cwasm"

STAMPED_BYTES: Final = 4 * 1024 * 1024
"""Entries from this size on get a stamp; smaller ones are hashed in a few milliseconds."""

KEPT_BYTES: Final = 512 * 1024 * 1024
"""Bytes of compiled modules that pruning leaves, whatever their last use."""
UNUSED_SECONDS: Final = 30 * 24 * 3600
"""The time for which pruning keeps an entry that nobody uses."""
RECENT_SECONDS: Final = 2 * 3600
"""An entry used within this time is never removed for lack of room."""
_MARK_SECONDS: Final = RECENT_SECONDS // 2
"""The time between two records of a use. At most half of `RECENT_SECONDS`: an entry in steady use
must never look unused."""

_TEXT_BYTES: Final = 1024 * 1024
_LOCK_PAUSE: Final = 0.05
"""Seconds between two attempts to take a lock."""
_LEFTOVER_SECONDS: Final = 24 * 3600


class Entry(msgspec.Struct, frozen=True):
    """A compiled module: its file, its size in bytes, and when it was last used (Unix time)."""

    path: Path
    size: int
    used_at: float


class Cache:
    """Compiled modules for one engine configuration in one folder."""

    __slots__ = ("_identity", "_path", "_problem")

    def __init__(self, path: str | os.PathLike[str], identity: str) -> None:
        self._path = os.fspath(path)
        self._identity = identity
        self._problem = _prepare(self._path)

    def fetch(self, digest: str, deserialize: Callable[[str], Any]) -> tuple[Any, str]:
        """The compiled module for a source digest, or `None`; and a report.

        The report is `hit`, `miss` or `ignored: …` when the cache must not be used.
        """
        if self._problem:
            return None, f"ignored: {self._problem}"
        prefix = self._key(digest) + "-"
        try:
            names = sorted(name for name in os.listdir(self._path) if name.startswith(prefix))
        except OSError as error:
            return None, f"ignored: {error.strerror or error}"
        for name in names:
            path = os.path.join(self._path, name)
            if not name.endswith(SUFFIX) or not _genuine(path, name[len(prefix) : -len(SUFFIX)]):
                _remove(path)
                continue
            try:
                module = deserialize(path)
                mark_used(path)
                return module, "hit"
            except Exception as error:
                # wasmtime refuses code of another version or processor: compile it again. The
                # class has one name in two modules, of which a cache need not import either.
                if type(error).__name__ != "WasmtimeError":
                    raise
                _remove(path)
        return None, "miss"

    def holds(self, digest: str) -> bool:
        """Whether there is an entry for a source digest; its content is not checked."""
        return not self._problem and bool(self._entries(digest))

    @contextlib.contextmanager
    def lock(self, digest: str, seconds: float) -> Iterator[None]:
        """Hold the lock of a source, so that one process at a time compiles it.

        Several hosts of one chain start at the same time, and all of them miss the same module.
        Where the system has no such locks each of them compiles it.

        Raises:
            TimeoutError: another process still holds the lock after `seconds`.
        """
        path = os.path.join(self._path, f".{self._key(digest)}.lock")
        handle = -1 if self._problem else _lock(path, seconds)
        try:
            yield
        finally:
            if handle >= 0:
                # Processes that wait hold the removed file: they get its lock, then find the
                # entry. Those that come now make a new file, and at worst compile it too.
                with contextlib.suppress(OSError):
                    os.unlink(path)
                os.close(handle)

    def store(self, digest: str, payload: bytes | bytearray) -> str:
        """Keep a compiled module, and prune; a report, `stored` or `ignored: …`."""
        if self._problem:
            return f"ignored: {self._problem}"
        try:
            name = f"{self._key(digest)}-{sha256(payload)}{SUFFIX}"
            _write(os.path.join(self._path, name), payload)
        except OSError as error:
            return f"ignored: {error.strerror or error}"
        from pathlib import Path

        prune(Path(self._path))
        return "stored"

    def drop(self, digest: str) -> None:
        """Remove the entries of a source. Processes that have an entry open keep it."""
        if not self._problem:
            for path in self._entries(digest):
                _remove(path)

    def recall(self, digest: str) -> str | None:
        """The text that `remember` kept about a source, or `None`."""
        return None if self._problem else _read_text(self._text(digest))

    def remember(self, digest: str, text: str) -> None:
        """Keep a text about a source, where that is possible."""
        if not self._problem:
            with contextlib.suppress(OSError):
                _write(self._text(digest), text.encode())

    def _text(self, digest: str) -> str:
        return os.path.join(self._path, f"{self._key(digest)}.json")

    def _entries(self, digest: str) -> list[str]:
        """The paths of the entries of a source."""
        prefix = self._key(digest) + "-"
        with contextlib.suppress(OSError):
            return [
                os.path.join(self._path, name)
                for name in os.listdir(self._path)
                if name.startswith(prefix) and name.endswith(SUFFIX)
            ]
        return []

    def _key(self, digest: str) -> str:
        return sha256(f"{digest}|{self._identity}".encode())[:32]


def entries(folder: Path) -> list[Entry]:
    """All entries, the most recently used first; none where there is no folder."""
    kept = []
    with contextlib.suppress(OSError):
        for path in folder.glob(f"*{SUFFIX}"):
            status, stamp = _status(path), _status(_stamp(path))
            if status is not None:
                used_at = max(status.st_mtime, stamp.st_mtime if stamp is not None else 0)
                kept.append(Entry(path, status.st_size, used_at))
    return sorted(kept, key=lambda entry: (-entry.used_at, entry.path.name))


def prune(
    folder: Path,
    *,
    most: int = KEPT_BYTES,
    unused: float = UNUSED_SECONDS,
    recent: float = RECENT_SECONDS,
    now: float | None = None,
) -> list[Entry]:
    """Remove entries not used for `unused` seconds, and the oldest beyond `most` bytes.

    Entries used within `recent` seconds stay. Any number of processes may use the cache meanwhile:
    a removed file stays whole for processes that have it open, others compile it again.

    Returns:
        The entries it removed.
    """
    now = time.time() if now is None else now
    removed, kept = [], 0
    for entry in entries(folder):
        age = now - entry.used_at
        if age > recent and (age > unused or kept + entry.size > most):
            if _remove(entry.path):
                removed.append(entry)
        else:
            kept += entry.size
    # Processes that were killed while they wrote or compiled left these behind.
    for path in (*folder.glob(".new-*"), *folder.glob(".*.lock")):
        status = _status(path)
        if status is not None and now - status.st_mtime > _LEFTOVER_SECONDS:
            with contextlib.suppress(OSError):
                path.unlink()
    return removed


def mark_used(path: str | os.PathLike[str], now: float | None = None) -> None:
    """Record that an entry is in use, unless that was recorded within the last hour."""
    now = time.time() if now is None else now
    # The entry's own time is part of its stamp, so the stamp file takes the mark.
    marked = _stamp(path) if _status(_stamp(path)) is not None else path
    status = _status(marked)
    if status is not None and now - status.st_mtime > _MARK_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(marked, (now, now))


def _prepare(path: str) -> str:
    """Make the folder if need be; why it must not be used, or an empty string."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a directory"
    if status.st_uid != os.getuid():
        return f"{path} belongs to another user"
    mode = stat.S_IMODE(status.st_mode)
    return "" if mode == 0o700 else f"{path} has mode {mode:04o} instead of 0700"


def _lock(path: str, seconds: float) -> int:
    """A descriptor that holds a lock, or -1 where the system has no locks.

    TimeoutError: another process holds the lock for longer than `seconds`.
    """
    import fcntl

    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return -1
    until = time.monotonic() + seconds
    while True:
        try:
            # Polled: a blocking flock cannot be given a time limit.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(_LOCK_PAUSE)
                continue
            os.close(handle)
            raise TimeoutError from None
        except OSError:
            os.close(handle)
            return -1
        return handle


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[int, os.stat_result] | None]:
    """A file of the cache and its status; `None` unless it belongs to this user alone."""
    # No link leads out of the folder; a pipe that nobody writes to must not block the start.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(path, flags)
    except OSError:
        yield None
        return
    try:
        # Of the open file, not of its path: another file may have that path by now.
        status = os.fstat(handle)
        ours = (
            stat.S_ISREG(status.st_mode)
            and status.st_uid == os.getuid()
            and stat.S_IMODE(status.st_mode) == 0o600
            and status.st_nlink == 1
        )
        yield (handle, status) if ours else None
    finally:
        os.close(handle)


def _genuine(path: str, expected: str) -> bool:
    """Whether this host wrote an entry, and its content has the expected digest."""
    import mmap

    with _opened(path) as file:
        if file is None or file[1].st_size == 0:
            return False
        handle, status = file
        fields = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        seen = " ".join(map(str, (*fields, status.st_ctime_ns)))
        large = status.st_size >= STAMPED_BYTES
        if large and _read_text(_stamp(path)) == seen:
            return True
        with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as content:
            if sha256(content) != expected:
                return False
        if large:
            with contextlib.suppress(OSError):
                _write(_stamp(path), seen.encode())
        return True


def _read_text(path: str) -> str | None:
    """A text that `_write` wrote; `None` without one, or if anybody else could have written it."""
    with _opened(path) as file:
        if file is None or file[1].st_size > _TEXT_BYTES:
            return None
        return os.read(file[0], _TEXT_BYTES).decode("utf-8", "replace")


def _write(path: str, content: bytes | bytearray) -> None:
    """Write a file in one step, with mode 0600. Raises OSError."""
    import tempfile  # 10 ms to import, and most runs write nothing

    # mkstemp makes the file with mode 0600 and refuses to follow or reuse anything.
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _remove(path: str | os.PathLike[str]) -> bool:
    """Remove an entry and the files beside it; the cache ignores files that cannot be removed."""
    try:
        os.unlink(path)
    except OSError:
        return False
    folder, name = os.path.split(path)
    for beside in (_stamp(path), os.path.join(folder, f"{name.partition('-')[0]}.json")):
        with contextlib.suppress(OSError):
            os.unlink(beside)
    return True


def _stamp(path: str | os.PathLike[str]) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.seen")


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
