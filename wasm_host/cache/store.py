"""The cache of compiled modules (docs/architecture.md, "wasm_host").

A compiled module is native code, so only what this host wrote is ever loaded. The directory must
be ours with mode 0700, an entry a regular file of ours with mode 0600 and one link; else the
cache is not used and says so. An entry's name is `<key>-<sha256 of its content>.cwasm`: name and
content appear together by one rename, and content that does not match its name is thrown away
and compiled again. A large entry that matched once is not read through again while the file system
says that it is unchanged (`verified_stamp`). Between the check and the loading of a file lies
a moment in which only our own user could change it, who could as well change this program.
Storing an entry removes those that nobody has used for long (`wasm_host.cache.pruning`).
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_host.cache import verified_stamp
from wasm_host.cache.digest import sha256
from wasm_host.cache.pruning import prune, used

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SUFFIX = ".cwasm"

_LOCK_PAUSE = 0.05
"""Seconds between two looks at whether a lock is free."""


class Cache:
    """Compiled modules for one engine configuration in one directory."""

    __slots__ = ("_identity", "_path", "_problem")

    def __init__(self, path: Path, identity: str) -> None:
        self._path = path
        self._identity = identity
        self._problem = _prepare(path)

    def fetch(self, digest: str, deserialize: Callable[[str], Any]) -> tuple[Any, str]:
        """The compiled module for a source digest, or `None`; and a report.

        The report is `hit`, `miss` or `ignored: …` when the cache must not be used.
        """
        if self._problem:
            return None, f"ignored: {self._problem}"
        prefix = self._key(digest) + "-"
        try:
            names = [path.name for path in self._path.iterdir() if path.name.startswith(prefix)]
        except OSError as error:
            return None, f"ignored: {error.strerror or error}"
        for name in sorted(names):
            path = self._path / name
            expected = name[len(prefix) : -len(SUFFIX)]
            if not name.endswith(SUFFIX) or not _genuine(path, expected):
                _discard(path)
                continue
            try:
                found = deserialize(str(path))
                used(path)
                return found, "hit"
            except Exception as error:
                # wasmtime refuses what another version or processor made: compile it again.
                if type(error).__name__ != "WasmtimeError":
                    raise
                _discard(path)
        return None, "miss"

    def holds(self, digest: str) -> bool:
        """Whether there is an entry for a source digest; whether it is whole is not looked at."""
        return not self._problem and any(self._path.glob(f"{self._key(digest)}-*{SUFFIX}"))

    @contextlib.contextmanager
    def alone(self, digest: str, seconds: float) -> Iterator[None]:
        """While one process compiles a source, others that want to wait here.

        Several hosts of one chain start at the same time, and all of them miss the same module.
        Where the system has no such locks they compile it each for itself.

        Raises:
            TimeoutError: another process still compiles it after `seconds`.
        """
        path = self._path / f".{self._key(digest)}.lock"
        handle = -1 if self._problem else _lock(path, seconds)
        try:
            yield
        finally:
            if handle >= 0:
                # Processes that wait find the entry; those that find neither compile it too.
                with contextlib.suppress(OSError):
                    path.unlink()
                os.close(handle)

    def store(self, digest: str, payload: bytes | bytearray) -> str:
        """Keep a compiled module; a report, `stored` or `ignored: …`, never an error."""
        if self._problem:
            return f"ignored: {self._problem}"
        content = sha256(payload)
        name = f"{self._key(digest)}-{content}{SUFFIX}"
        import tempfile

        try:
            # mkstemp makes the file with mode 0600 and refuses to follow or reuse anything.
            handle, temporary = tempfile.mkstemp(dir=self._path, prefix=".new-")
        except OSError as error:
            return f"ignored: {error.strerror or error}"
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(payload)
            Path(temporary).replace(self._path / name)
        except OSError as error:
            _discard(Path(temporary))
            return f"ignored: {error.strerror or error}"
        prune(self._path)
        return "stored"

    def recall(self, digest: str) -> str | None:
        """What was kept of a source by `remember`, or `None`."""
        if self._problem:
            return None
        return verified_stamp.read(self._path / f"{self._key(digest)}.json")

    def remember(self, digest: str, text: str) -> None:
        """Keep a text about a source; it is lost where it cannot be kept."""
        if not self._problem:
            verified_stamp.write(self._path / f"{self._key(digest)}.json", text)

    def _key(self, digest: str) -> str:
        return sha256(f"{digest}|{self._identity}".encode())[:32]


def _prepare(path: Path) -> str:
    """Make the directory if need be; why it must not be used, or an empty string."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.lstat(path)
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{path} is not a directory"
    if hasattr(os, "getuid"):
        if found.st_uid != os.getuid():
            return f"{path} belongs to another user"
        mode = stat.S_IMODE(found.st_mode)
        if mode != 0o700:
            return f"{path} has mode {mode:04o} instead of 0700"
    return ""


def _lock(path: Path, seconds: float) -> int:
    """A descriptor that holds a lock, or -1 where there is no way to lock.

    Raises:
        TimeoutError: somebody else has it for longer than `seconds`.
    """
    try:
        import fcntl

        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except (ImportError, OSError):
        return -1
    until = time.monotonic() + seconds
    while True:
        try:
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


def _genuine(path: Path, expected: str) -> bool:
    """Whether a file is one this host wrote, and whole."""
    import mmap

    try:
        handle = verified_stamp.opened(path)
    except OSError:
        return False
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
            return False
        if hasattr(os, "getuid") and (
            found.st_uid != os.getuid()
            or stat.S_IMODE(found.st_mode) != 0o600
            or found.st_nlink != 1
        ):
            return False
        if verified_stamp.unchanged(path, found):
            return True
        with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as content:
            if sha256(content) != expected:
                return False
        verified_stamp.note(path, found)
        return True
    finally:
        os.close(handle)


def _discard(path: Path) -> None:
    """Remove an entry; one that cannot be removed is merely ignored again next time."""
    try:
        path.unlink()
        verified_stamp.forget(path)
    except OSError:
        return
