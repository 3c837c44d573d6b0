"""`kv`: small values that a component keeps, in one SQLite file of the user's.

Each component has a space of its own in each project (the folder the conductor was started in) and
one across projects. A space goes when its component has not used it for long. Spaces unused for
longest go where all together grow too large (`conductor.services.kept_values`). Blocking: the
executor calls it in a thread.

Each value has a revision, a number that no other value of its key ever has. A component that sets a
value only if it still has the revision `ifRevision` overwrites no change of others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from typing import Annotated, Final, Literal, Protocol

import msgspec

from conductor.services import kept_values
from conductor.services.calls import Grantee, ServiceError, bad_params, read
from conductor.spec import private_files

VALUE_BYTES: Final = 256 * 1024
KEY_BYTES: Final = 512
QUOTA_BYTES: Final = 4 * 1024 * 1024
QUOTA_KEYS: Final = 10_000
_LISTED: Final = 1000
_BUSY: Final = 5.0
"""Seconds to wait for another conductor that is writing."""
_AGAIN: Final = 0.01
"""Seconds between two tries to begin a new file."""

Scope = Literal["project", "user"]


NUMBER: Final = 2**53 - 1
"""The largest revision: the last whole number that every language reads from JSON."""


class OfKey(msgspec.Struct, forbid_unknown_fields=True):
    """The params of `kv/get` and `kv/delete`."""

    key: str
    scope: Scope = "project"


class OfValue(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The params of `kv/set`."""

    key: str
    value: msgspec.Raw
    scope: Scope = "project"
    if_revision: Annotated[int, msgspec.Meta(ge=0, le=NUMBER)] | None = None
    """The revision that the value must have; 0: there must be none; None: any."""


class OfList(msgspec.Struct, forbid_unknown_fields=True):
    """The params of `kv/list`."""

    prefix: str = ""
    after: str = ""
    limit: int = _LISTED
    scope: Scope = "project"


class Values(Protocol):
    """Keeps the values of components. Its methods raise `ServiceError`. They block and are called
    in a thread, or are coroutine functions."""

    def get(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/get`."""

    def set(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/set`."""

    def delete(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/delete`."""

    def list(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/list`."""

    def close(self) -> None:
        """The chain ends."""


class Store:
    """The file, opened when first used. Methods raise `ServiceError`.

    Args:
        path: The file.
        project: The folder (an absolute path) whose values these are.
        age: Days that a space stays which is not used; 0: for ever.
    """

    def __init__(self, path: str, project: str, age: int = 0) -> None:
        self._path = path
        self._project = project
        self._age = age
        self._marked: dict[str, float] = {}
        """When the use of a space was last recorded."""
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/get`."""
        request = read_key(params)
        space = self._space(grantee, request.scope)
        with self._opened() as db:
            self._mark(db, space)
            row = self._row(db, space, request.key)
        return found(*row) if row is not None else found(None, 0)

    def delete(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/delete`."""
        request = read_key(params)
        with self._opened() as db:
            gone = db.execute(
                "delete from kv where space = ? and key = ?",
                (self._space(grantee, request.scope), request.key),
            )
        return {"deleted": gone.rowcount > 0}

    def set(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/set`."""
        request = read_value(params)
        value = bytes(request.value)
        space, key = self._space(grantee, request.scope), request.key
        with self._opened() as db, db:
            # Immediate: values that are read here must not change before the write.
            db.execute("begin immediate")
            row = self._row(db, space, key)
            check_revision(request, 0 if row is None else row[1])
            count, used = db.execute(
                "select count(*), coalesce(sum(length(cast(key as blob)) + length(value)), 0)"
                " from kv where space = ? and key != ?",
                (space, key),
            ).fetchone()
            used += size(key, value)
            check_quota(count, used)
            project = self._project if request.scope == "project" else ""
            revision = kept_values.name(db, space, grantee.name, project)
            db.execute(
                "insert or replace into kv (space, key, value, revision) values (?, ?, ?, ?)",
                (space, key, value, revision),
            )
        return stored(used, revision)

    def list(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/list`."""
        request = read_list(params)
        # As bytes: SQLite ends a text at a NUL.
        prefix, space = request.prefix.encode(), self._space(grantee, request.scope)
        with self._opened() as db:
            self._mark(db, space)
            rows = db.execute(
                "select key from kv where space = ? and key > ?"
                " and substr(cast(key as blob), 1, ?) = ? order by key limit ?",
                (space, request.after, len(prefix), prefix, request.limit + 1),
            ).fetchall()
        return listed([row[0] for row in rows], request.limit)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The open file, for one thread at a time; its errors become a `ServiceError`."""
        with self._lock:
            try:
                yield self._open()
            except sqlite3.Error as error:
                raise self._broken(str(error)) from None
            except OSError as error:
                raise self._broken(error.strerror or str(error)) from None

    def _mark(self, db: sqlite3.Connection, space: str) -> None:
        """Records that a space is in use, unless that was done within the last day. A file that
        cannot be written can still be read."""
        now = time.time()
        if now - self._marked.get(space, 0.0) > kept_values.DAY:
            self._marked[space] = now
            with contextlib.suppress(sqlite3.OperationalError):
                kept_values.mark(db, space)

    def _row(self, db: sqlite3.Connection, space: str, key: str) -> tuple[bytes, int] | None:
        """A value and its revision."""
        asked = "select value, revision from kv where space = ? and key = ?"
        row: tuple[bytes, int] | None = db.execute(asked, (space, key)).fetchone()
        return row

    def _broken(self, why: str) -> ServiceError:
        text = f"the conductor's file of values cannot be used: {why}"
        hint = "see that there is room and that it may be written, or move it away to begin anew"
        # Where the file is, is the user's business and not the component's.
        return ServiceError("storage", text, private=f"{self._path}: {why}\nhint: {hint}")

    def close(self) -> None:
        """Lets go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _space(self, grantee: Grantee, scope: Scope) -> str:
        """The name of a component's space: a digest, so that no two names can run together."""
        parts = [grantee.identity, self._project if scope == "project" else ""]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            folder = os.path.dirname(self._path)
            private_files.make_folders(folder)
            # A file that is there must not be opened here: closing it again would take away the
            # locks that SQLite holds on it in this process, and two conductors would ruin it.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            db = sqlite3.connect(
                self._path, timeout=_BUSY, check_same_thread=False, isolation_level=None
            )
            try:
                _share(db)
                db.execute("pragma synchronous = normal")
                kept_values.prepare(db, self._age)
            except sqlite3.Error:
                db.close()
                raise
            self._connection = db
        return self._connection


def _share(db: sqlite3.Connection) -> None:
    """Has readers and a writer work at once. Raises `sqlite3.Error`.

    SQLite waits for nobody here, where several conductors begin a new file.
    """
    deadline = time.monotonic() + _BUSY
    while True:
        try:
            db.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN)


# -- common to all keepers of values -------------------------------------------------------------


def read_key(params: bytes | None) -> OfKey:
    """The params of `kv/get` and `kv/delete`. Raises `ServiceError`."""
    request = read(params, OfKey)
    _check_key(request.key)
    return request


def read_value(params: bytes | None) -> OfValue:
    """The params of `kv/set`. Raises `ServiceError`."""
    request = read(params, OfValue)
    length = memoryview(request.value).nbytes
    if length > VALUE_BYTES:
        text = f"the value has {length:,} bytes; {VALUE_BYTES:,} are allowed"
        raise ServiceError("too-large", text)
    _check_key(request.key)
    return request


def read_list(params: bytes | None) -> OfList:
    """The params of `kv/list`. Raises `ServiceError`."""
    request = read(params, OfList)
    if not 1 <= request.limit <= _LISTED:
        raise bad_params(f"limit must be 1 to {_LISTED}")
    for text in (request.prefix, request.after):
        _utf8(text)
    return request


def size(key: str, value: bytes) -> int:
    """The bytes that a value counts for."""
    return len(key.encode()) + len(value)


def check_revision(request: OfValue, revision: int) -> None:
    """Raises `ServiceError` where the value (0: there is none) has not the revision asked for."""
    if request.if_revision is None or request.if_revision == revision:
        return
    has = f"the value has revision {revision}" if revision else "there is no value"
    raise ServiceError(
        "conflict",
        f"{has} now; `ifRevision` is {request.if_revision}\n"
        "hint: somebody else has set it: read it again, and set it anew",
        data={"revision": revision},
    )


def check_quota(count: int, used: int) -> None:
    """Raises `ServiceError` where there is no room for another key, beside `count` others, or for
    so many bytes."""
    if used > QUOTA_BYTES or count >= QUOTA_KEYS:
        text = (
            f"the quota of {QUOTA_BYTES:,} bytes and {QUOTA_KEYS:,} keys is used up; delete values "
            "that you do not need"
        )
        raise ServiceError("quota", text)


def found(value: bytes | None, revision: int) -> dict[str, object]:
    """The result of `kv/get`."""
    if value is None:
        return {"found": False, "revision": 0}
    return {"found": True, "value": msgspec.Raw(value), "revision": revision}


def stored(used: int, revision: int) -> dict[str, object]:
    """The result of `kv/set`."""
    return {"used": used, "quota": QUOTA_BYTES, "revision": revision}


def listed(keys: list[str], limit: int) -> dict[str, object]:
    """The result of `kv/list`. `keys`: all keys, or one more than `limit`."""
    return {"keys": keys[:limit], "more": len(keys) > limit}


def _check_key(key: str) -> None:
    if not 1 <= len(_utf8(key)) <= KEY_BYTES:
        raise bad_params(f"a key has 1 to {KEY_BYTES} bytes")


def _utf8(key: str) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError:
        raise bad_params("a key is proper Unicode") from None
