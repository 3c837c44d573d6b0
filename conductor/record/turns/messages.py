"""Updates of a session: their content, in one form for all versions of ACP.

Every view of a conversation reads the form of version 1: messages come in chunks, a plan has
entries.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.core.json_text import member_at, read_members
from conductor.core.policy.key_table import UPDATE

_WHOLE: Final = ("user_message", "agent_message", "agent_thought")
"""Kinds of updates that hold a whole message; its parts are of the kind `…_chunk`."""
_MOST: Final = 256
"""The most messages for which `Messages` remembers the text shown; the oldest are forgotten."""


class Update:
    """A `session/update`, as it came: a stranger chose its members."""

    __slots__ = ("held", "kind")

    def __init__(self, held: dict[str, Any]) -> None:
        self.held = held
        self.kind = self.word("sessionUpdate")

    def word(self, name: str) -> str:
        """A member that is a text; empty: it is none, or not there."""
        value = self.held.get(name)
        return value if isinstance(value, str) else ""

    @property
    def chunk(self) -> str | None:
        """The words in a chunk of text; None: it is something else."""
        return text_in(self.held.get("content")) if self.kind.endswith("_chunk") else None

    @property
    def is_idle(self) -> bool:
        """Whether it says that a turn has ended, in ACP v2."""
        return self.kind == "state_update" and self.held.get("state") == "idle"


class _Updated(msgspec.Struct):
    update: dict[str, Any] = {}


_updated: Final = json_text.Decoder(_Updated).decode
_BAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_update(method: str, params: msgspec.Raw) -> Update | None:
    """The update that params of a method are; None: they are none."""
    if method != UPDATE:
        return None
    try:
        return Update(_updated(params).update)
    except _BAD:
        return _in_part(params)


def _in_part(params: msgspec.Raw) -> Update | None:
    """An update without the members that cannot be read: a number may be too large."""
    held: dict[str, Any] = {}
    with contextlib.suppress(*_BAD):
        for name, raw in (read_members(member_at(params, "update")) or {}).items():
            with contextlib.suppress(*_BAD):
                held[name] = json_text.decode(raw)
    return Update(held) if held else None


class Messages:
    """Updates of a session, in the form of version 1. A message that comes whole, or once more, is
    shown as far as it has not been shown."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, object], tuple[int, int]] = OrderedDict()
        """By kind and id of a message: how many characters of it were shown, and their checksum."""

    def read(self, update: dict[str, Any]) -> list[dict[str, Any]]:
        """The updates that say the same."""
        kind = str(update.get("sessionUpdate"))
        if kind in _WHOLE:
            return self._whole(kind, update)
        if kind.removesuffix("_chunk") in _WHOLE:
            self._shown(kind.removesuffix("_chunk"), update, _text(update.get("content")))
        elif kind == "plan_update":
            plan = members(update.get("plan"))
            lines = str(plan.get("content") or "").splitlines()
            entries = plan.get("entries", [{"content": line} for line in lines if line.strip()])
            return [{"sessionUpdate": "plan", "entries": entries}]
        return [update]

    def _whole(self, kind: str, update: dict[str, Any]) -> list[dict[str, Any]]:
        blocks = update.get("content")
        if not isinstance(blocks, list):
            return []
        known, checksum = self._said.get((kind, str(update.get("messageId"))), (0, 0))
        text = "".join(map(_text, blocks))
        if checksum != _checksum(text[:known]):
            known = 0  # it was said in other words
            self._said.pop((kind, str(update.get("messageId"))), None)
        self._shown(kind, update, text[known:])
        shared = {"sessionUpdate": f"{kind}_chunk", "messageId": update.get("messageId")}
        return [{**shared, "content": block} for block in _behind(blocks, known)]

    def _shown(self, kind: str, update: dict[str, Any], text: str) -> None:
        if "messageId" not in update:
            return
        key = kind, str(update["messageId"])
        length, checksum = self._said.pop(key, (0, 0))
        self._said[key] = length + len(text), _checksum(text, checksum)
        if len(self._said) > _MOST:
            self._said.popitem(last=False)


def _behind(blocks: list[Any], known: int) -> Iterator[Any]:
    """The part of some blocks behind so many characters."""
    for block in blocks:
        text = _text(block)
        if len(text) > known:
            is_text = members(block).get("type") == "text"
            yield {**block, "text": text[known:]} if is_text else block
        known = max(known - len(text), 0)


def _text(block: object) -> str:
    """A block in characters, for comparing."""
    held = members(block)
    if held.get("type") == "text" and isinstance(held.get("text"), str):
        return str(held["text"])
    return "" if block is None else str(block)


def _checksum(text: str, begun: int = 0) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), begun)


def text_in(block: object) -> str | None:
    """The words of a content block; None: it has none."""
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else None


def members(value: object) -> dict[str, Any]:
    """An object's members; empty for anything else."""
    return value if isinstance(value, dict) else {}


def decoded(line: bytes) -> Any:
    """The value of a line, also where only Python's reader takes it: NaN, a mark of bytes' order, a
    number of any size. Raises `ValueError`."""
    try:
        return json_text.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return json.loads(line, parse_int=_whole_number)
        except RecursionError:
            raise ValueError("it nests too deeply") from None


def _whole_number(digits: str) -> float:
    """A whole number; one with more digits than Python reads is infinite, as `1e400` is."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)
