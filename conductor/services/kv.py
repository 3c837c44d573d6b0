"""`kv`: small values that a component keeps, in one SQLite file of the user's.

Each component has a space of its own in each project (the folder the conductor was started in) and
one across projects. A space goes when its component has not used it for long, and those unused for
longest go where all together grow too large (`conductor.services.kept_values`). Blocking: the
executor calls it in a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from conductor.services import kept_values
from conductor.services.calls import Grantee, ServiceError, bad_params, read

VALUE_BYTES: Final = 256 * 1024
KEY_BYTES: Final = 512
QUOTA_BYTES: Final = 4 * 1024 * 1024
QUOTA_KEYS: Final = 10_000
_LISTED: Final = 1000
_BUSY: Final = 5.0
"""Seconds to wait for another conductor that is writing."""

_TABLE: Final = """
create table if not exists kv (
  space text not null, key text not null, value blob not null, primary key (space, key)
) without rowid
"""

Scope = Literal["project", "user"]


class _Key(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    scope: Scope = "project"


class _Set(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    value: msgspec.Raw
    scope: Scope = "project"


class _List(msgspec.Struct, forbid_unknown_fields=True):
    prefix: str = ""
    after: str = ""
    limit: int = _LISTED
    scope: Scope = "project"


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
        request = read(params, _Key)
        space, key = self._space(grantee, request.scope), _key(request.key)
        with self._opened() as db:
            self._mark(db, space)
            row = db.execute(
                "select value from kv where space = ? and key = ?", (space, key)
            ).fetchone()
        return {"found": False} if row is None else {"found": True, "value": msgspec.Raw(row[0])}

    def delete(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/delete`."""
        request = read(params, _Key)
        with self._opened() as db:
            gone = db.execute(
                "delete from kv where space = ? and key = ?",
                (self._space(grantee, request.scope), _key(request.key)),
            )
        return {"deleted": gone.rowcount > 0}

    def set(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/set`."""
        request = read(params, _Set)
        value = bytes(request.value)
        if len(value) > VALUE_BYTES:
            text = f"the value has {len(value):,} bytes; {VALUE_BYTES:,} are allowed"
            raise ServiceError("too-large", text)
        space, key = self._space(grantee, request.scope), _key(request.key)
        with self._opened() as db, db:
            # Immediate: what is counted here must not change before it is written.
            db.execute("begin immediate")
            count, used = db.execute(
                "select count(*), coalesce(sum(length(cast(key as blob)) + length(value)), 0)"
                " from kv where space = ? and key != ?",
                (space, key),
            ).fetchone()
            used += len(key.encode()) + len(value)
            if used > QUOTA_BYTES or count >= QUOTA_KEYS:
                text = (
                    f"the quota of {QUOTA_BYTES:,} bytes and {QUOTA_KEYS:,} keys is used up; "
                    "delete what is not needed"
                )
                raise ServiceError("quota", text)
            db.execute("insert or replace into kv values (?, ?, ?)", (space, key, value))
            project = self._project if request.scope == "project" else ""
            kept_values.name(db, space, grantee.name, project)
        return {"used": used, "quota": QUOTA_BYTES}

    def list(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/list`."""
        request = read(params, _List)
        if not 1 <= request.limit <= _LISTED:
            raise bad_params(f"limit must be 1 to {_LISTED}")
        prefix, space = request.prefix, self._space(grantee, request.scope)
        with self._opened() as db:
            self._mark(db, space)
            rows = db.execute(
                "select key from kv where space = ? and key > ? and substr(key, 1, ?) = ?"
                " order by key limit ?",
                (space, request.after, len(prefix), prefix, request.limit + 1),
            ).fetchall()
        keys = [row[0] for row in rows]
        return {"keys": keys[: request.limit], "more": len(keys) > request.limit}

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
            os.makedirs(folder, mode=0o700, exist_ok=True)
            # A file that is there must not be opened here: closing it again would take away the
            # locks that SQLite holds on it in this process, and two conductors would ruin it.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            db = sqlite3.connect(
                self._path, timeout=_BUSY, check_same_thread=False, isolation_level=None
            )
            try:
                db.execute("pragma journal_mode = wal")
                db.execute("pragma synchronous = normal")
                db.execute(_TABLE)
                kept_values.prepare(db, self._age)
            except sqlite3.Error:
                db.close()
                raise
            self._connection = db
        return self._connection


def _key(key: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise bad_params("a key is proper Unicode") from None
    if not 1 <= size <= KEY_BYTES:
        raise bad_params(f"a key has 1 to {KEY_BYTES} bytes")
    return key
