"""The file of an audit: one JSON object a line, each holding the digest of the line before it.

    {"seq":2,"ts":"…","prev":"<sha256 of line 1>","event":"…",…,"hash":"<sha256 of this>"}

`hash` is over the line without its member `hash`, `prev` over the whole line before; the first line
has 64 zeros there. So a line that was changed, removed, added or moved is noticed. The digests
cannot show that lines are missing at the end, nor that the whole file was written anew. To show
this, keep the last hash elsewhere (docs/security.md, "Evidence").
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

import msgspec

from conductor.core import json_text
from conductor.errors import UsageError, hidden_json_line
from conductor.spec.private_files import HINT, open_private, reason

GENESIS: Final = "0" * 64
"""`prev` of the first line."""

_TAIL: Final = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')
_MOST_LINE: Final = 1024 * 1024
"""The most bytes of one line; the lines of conductor are far shorter."""

_LOCK_SECONDS: Final = 1.0
"""Seconds to wait for another conductor that is appending to the same file."""

_BROKEN_HINT: Final = (
    "keep it as evidence and audit to another file; `conductor log verify` says the same"
)

Log = Callable[[str, str, str], None]
"""Called with level, component and text."""


class BrokenChainError(Exception):
    """A line does not belong where it stands: `line` counts from 1, `why` gives the defect."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line} {why}")
        self.line = line
        self.why = why


class Head(msgspec.Struct, frozen=True):
    """The end of a chain: how many records, the digest of the last line, and the bytes so far."""

    records: int = 0
    digest: str = GENESIS
    size: int = 0


class Record(msgspec.Struct, frozen=True):
    """The members of every line; `event` decides which further members a line has."""

    seq: int
    ts: str
    prev: str
    event: str
    hash: str


_decode: Final = json_text.Decoder(Record).decode


def sealed(head: Head, ts: str, event: str, members: dict[str, Any]) -> tuple[bytes, Head]:
    """The line (newline included) that comes after `head`, and the new end of the chain."""
    body = {"seq": head.records + 1, "ts": ts, "prev": head.digest, "event": event, **members}
    raw = hidden_json_line(json_text.encode(body))
    line = raw[:-1] + b',"hash":"%b"}' % hashlib.sha256(raw).hexdigest().encode()
    digest = hashlib.sha256(line).hexdigest()
    return line + b"\n", Head(head.records + 1, digest, head.size + len(line) + 1)


def verified(file: BinaryIO, head: Head | None = None) -> Iterator[tuple[Record, Head]]:
    """The records that follow `head` (None: all), each with the end of the chain behind it.

    `file` stands where `head` ends. Raises `BrokenChainError` at the first line that is wrong.
    """
    for record, found, _ in verified_lines(file, head):
        yield record, found


def verified_lines(
    file: BinaryIO, head: Head | None = None
) -> Iterator[tuple[Record, Head, bytes]]:
    """The same, each with its line: the bytes that were checked, whatever becomes of the file."""
    head = head or Head()
    while line := file.readline(_MOST_LINE + 1):
        record, head = _checked(line, head)
        yield record, head, line


def _checked(line: bytes, head: Head) -> tuple[Record, Head]:
    number = head.records + 1
    if not line.endswith(b"\n"):
        long = len(line) > _MOST_LINE
        raise BrokenChainError(number, "is too long to be a record" if long else "is incomplete")
    body = line[:-1]
    tail = _TAIL.search(body)
    try:
        record = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BrokenChainError(number, "is no record of an audit") from None
    if tail is None:
        raise BrokenChainError(number, "does not end with its hash")
    raw = body[: tail.start()] + b"}"
    if hashlib.sha256(raw).hexdigest().encode() != tail[1]:
        raise BrokenChainError(number, "was altered: its hash is not that of its content")
    if record.prev != head.digest:
        what = "a line before it is missing or was altered" if number > 1 else "the start is gone"
        raise BrokenChainError(number, f"does not follow the line before: {what}")
    if record.seq != number:
        raise BrokenChainError(number, f"has the number {record.seq}")
    digest = hashlib.sha256(body).hexdigest()
    return record, Head(number, digest, head.size + len(line))


class AuditFile:
    """Appends records, each written at once. Made by `AuditFile.open`.

    Several conductors may append to one file: each holds the lock for one record only, and first
    verifies the records that the others have appended. A failure is logged once and ends the audit,
    not the chain of components.
    """

    def __init__(self, fd: int, path: str, head: Head, log: Log) -> None:
        self._fd = fd
        self._path = path
        self._head = head
        self._log = log
        self.failed = False
        """Whether nothing more can be written."""
        self.on_failure: Callable[[str], None] | None = None
        """Called once with the reason when nothing more can be written."""

    @classmethod
    def open(cls, path: str, log: Log) -> AuditFile:
        """Opens `path` for its owner only and verifies its content.

        Raises `UsageError` where it cannot be written or its content is no unbroken chain.
        """
        fd = -1
        try:
            # An audit is read back before it is continued.
            fd = open_private(path, os.O_RDWR | os.O_APPEND, ordinary=True)
            audit = cls(fd, path, Head(), log)
            # Without the lock first: a long file would hold up others who append to it. A line that
            # is just being written looks broken then.
            with contextlib.suppress(BrokenChainError):
                audit._catch_up()
            with _locked(fd):
                audit._catch_up()
        except BrokenChainError as broken:
            os.close(fd)
            raise UsageError(
                f"cannot continue the audit `{path}`: {broken}", _BROKEN_HINT
            ) from None
        except (OSError, ValueError) as error:
            if fd >= 0:
                os.close(fd)
            raise UsageError(f"cannot write the audit `{path}`: {reason(error)}", HINT) from None
        return audit

    def append(self, event: str, members: dict[str, Any]) -> None:
        """Writes one record; its time is now."""
        if self.failed:
            return
        try:
            with _locked(self._fd):
                self._catch_up()
                ts = datetime.now(UTC).isoformat(timespec="microseconds")
                line, head = sealed(self._head, ts.replace("+00:00", "Z"), event, members)
                self._write(line)
                self._head = head
        except BrokenChainError as broken:
            self._fail(f"somebody else changed it: {broken}")
        except OSError as error:
            self._fail(reason(error))

    def close(self) -> None:
        """Closes the file."""
        if not self.failed:
            self.failed = True
            os.close(self._fd)

    def _catch_up(self) -> None:
        """Verifies the lines in the file beyond our end of the chain."""
        size = os.fstat(self._fd).st_size
        if size < self._head.size:
            raise BrokenChainError(self._head.records, "is not there any more")
        if size == self._head.size:
            return
        with open(os.dup(self._fd), "rb") as file:
            file.seek(self._head.size)
            for _, head in verified(file, self._head):
                self._head = head

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            # If that fails too, its last line shows that it is incomplete.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._head.size)
            raise

    def _fail(self, why: str) -> None:
        self.failed = True
        os.close(self._fd)
        text = f"the audit `{self._path}` is incomplete, nothing more is written to it: {why}"
        self._log("error", "audit", f"{text}\nhint: make room, or audit to another file")
        if self.on_failure is not None:
            self.on_failure(text)


@contextlib.contextmanager
def _locked(fd: int) -> Iterator[None]:
    """Holds the file's lock. Raises `OSError` if another program does not release it."""
    import fcntl

    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError("another program keeps it locked") from None
            time.sleep(0.002)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
