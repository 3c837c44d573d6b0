"""The records of a project's files: read, brought up to date, and written where nobody else has."""

import hashlib
import json
import posixpath
from collections.abc import Callable
from typing import Any

import lines
from edits import Edit

from guest_sdk.python import Proxy, Refused

TRIES = 20
"""How often a file of records is read again, since another conductor has written it meanwhile."""
LARGEST = 2_000_000
"""Bytes of a file that has a record."""
READS = 5
"""How often a file is read that does not hold the last edit: the next one may just be written."""
SEEN = 32
"""Files whose lines before an edit are remembered."""

before: dict[tuple[str, str], list[str]] = {}
"""The lines of files before the edits that are about to be made, by folder and path."""


async def current(root: str, path: str) -> str | None:
    """The text of a file; None: there is no such file.

    Raises `ValueError` for a file that is no text or too large, `Refused` for a file that may not
    be read.
    """
    try:
        content = await Proxy.files.read_bytes(posixpath.join(root, path), max_bytes=LARGEST + 1)
    except Refused as refused:
        if refused.reason == "not-found":
            return None
        raise
    if len(content) > LARGEST:
        raise ValueError(f"{path} has more than {LARGEST:,} bytes")
    if b"\0" in content:
        raise ValueError(f"{path} is no text")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8") from None


async def seen(root: str, path: str) -> None:
    """Remembers the text of a file that is about to be edited."""
    text = await current(root, path) or ""
    before[root, path] = lines.digests(text)[: lines.MOST_LINES]
    while len(before) > SEEN:
        del before[next(iter(before))]


async def settle(root: str, path: str, about: list[Edit], origin: dict[str, Any]) -> None:
    """Writes down edits of one file that have been made. Raises `Refused`, `ValueError`."""
    was = before.pop((root, path), None)
    runs, theirs = None, dict[str, Any]()
    for one in about:
        if one.source is not None:
            of_source, _ = await book(root, one.source)
            runs = of_source["files"].get(one.source, {}).get("lines")
            theirs = of_source["edits"]
            if one.gone:
                await forget(root, one.source)
    try:
        text = await after(root, path, about[-1])
        for _ in range(READS - 1):
            if text is not None and lines.holds(text, about[-1].new or ""):
                break
            text = await after(root, path, about[-1])
    except ValueError:
        await forget(root, path)
        raise
    if text is None:
        await forget(root, path)
        return
    at = (await Proxy.clock.now()).isoformat()
    edit = origin | {"at": at}
    name = hashlib.sha256(json.dumps(edit, sort_keys=True).encode()).hexdigest()[:12]
    found = Found(text, about, was, name)

    def put(held: lines.Book) -> None:
        known = held["files"].get(path, {}).get("lines", runs)
        now = found.runs(known)
        if now is not None:
            held["files"][path] = {"at": at, "lines": now}
            held["edits"] = {**theirs, **held["edits"], name: edit}

    await change(root, path, put)


async def after(root: str, path: str, last: Edit) -> str | None:
    """The text of a file after its edits; None: it is gone. Raises as `current`."""
    if last.gone and last.source is None:
        return None
    try:
        text = await current(root, path)
    except Refused as refused:  # a hidden file, say; what was written whole is known
        if refused.reason != "not-granted" or last.old is not None or not last.new:
            raise
        text = last.new
    if text is not None and text.count("\n") > lines.MOST_LINES:
        raise ValueError(f"{path} has more than {lines.MOST_LINES:,} lines")
    return text


async def forget(root: str, path: str) -> None:
    """Drops the record of a file that is gone, or has none any more."""

    def drop(held: lines.Book) -> None:
        held["files"].pop(path, None)

    await change(root, path, drop)


class Found:
    """A file after edits, and whose its lines are then."""

    def __init__(self, text: str, about: list[Edit], was: list[str] | None, edit: str) -> None:
        self.text = text
        self.now = lines.digests(text)
        self.about = about
        self.was = was if was != self.now else None  # else it was read behind the edit
        self.edit = edit

    def runs(self, known: list[lines.Run] | None) -> list[lines.Run] | None:
        """The record of the file, out of the one so far; None: it holds nothing of the edits, so
        that one stays, which has more of it."""
        if known is None and self.was is not None:
            known = lines.packed(self.was, [None] * len(self.was))
        owners, fresh = lines.moved(known or [], self.now)
        is_there = any(one.source or lines.holds(self.text, one.new or "") for one in self.about)
        for one in self.about:
            for at in lines.made(self.text, fresh, one.old, one.new or ""):
                is_there = True
                # A line that was nobody's may be of an edit that was made before the file was read.
                if fresh[at] or (owners[at] is None and one.old is not None):
                    owners[at] = self.edit
        return lines.packed(self.now, owners) if is_there else None


# -- files of records ------------------------------------------------------------------------------


async def book(root: str, path: str) -> tuple[lines.Book, bytes | None]:
    """The file of records for a path, and its bytes; None: there is none."""
    content = None
    try:
        content = await Proxy.files.read_bytes(posixpath.join(root, lines.shard(path)))
    except Refused as refused:
        if refused.reason != "not-found":
            raise
    try:
        held = lines.book(None if content is None else content.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{lines.shard(path)}: {error}; move it away") from None
    return held, content


async def change(root: str, path: str, new: Callable[[lines.Book], Any]) -> None:
    """Changes the file of records for a path; again where somebody else has written it meanwhile.

    Raises `Refused`, `ValueError`.
    """
    for left in range(TRIES, 0, -1):
        held, was = await book(root, path)
        new(held)
        text, name = lines.written(held), lines.shard(path)
        if (text.encode() if held["files"] else None) == was:
            return
        digest = "" if was is None else hashlib.sha256(was).hexdigest()
        try:
            await Proxy.files.write(name, text, root=root, if_sha256=digest)
        except Refused as refused:
            if refused.reason != "conflict" or left == 1:
                raise
        else:
            return
