"""A component's changes of a message, in words: edits."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from difflib import SequenceMatcher
from typing import Any, AnyStr, Final

import msgspec

from conductor.core import json_text
from conductor.core.text_pairs import ends
from conductor.errors import counted
from conductor.record import diff, exact_json
from conductor.record.turns import tokens
from conductor.record.turns.model import Edit, Op

_MOST: Final = 100
"""The most edits of one message that are listed."""
_LONGEST: Final = 4_000
"""Characters of a text in an edit."""
_MOST_WORDS: Final = 600
"""The most words of a changed text that are compared singly. In a longer text all between the first
and the last difference is one edit."""
LARGEST: Final = 1024 * 1024
"""Bytes of two messages that are compared member by member."""
_LARGE_ENTRY: Final = 4096
"""Bytes from which on an entry that both lists have is not looked into."""

_MARK: Final = r"\[redacted(?:: [\w-]+)?\]"
"""The mark in place of a secret: the trace's mark, or the mark of `redact` with the kind."""
_SECRET: Final = re.compile(_MARK).match
_WORDS: Final = re.compile(rf"{_MARK}|\s+|\w+|[^\w\s]")
_OPS: Final = {"add": Op.ADDED, "remove": Op.REMOVED, "replace": Op.CHANGED}
_LISTS: Final = {
    "prompt": "block", "content": "block", "mcpServers": "MCP server", "entries": "plan entry",
    "options": "option", "availableCommands": "command", "configOptions": "option",
    "locations": "location",
}  # fmt: skip
"""The word for an entry of a list, by the list's name."""

_HIDDEN: Final = Edit(op=Op.CHANGED, what="part that the trace hides", pointer="")
"""Instead of a secret, or of all content, a trace has a mark."""


def edits(before: bytes, after: bytes) -> tuple[Edit, ...]:
    """The differences between two JSON texts, in words; none if they hold the same value.

    A text that is no JSON, or very large, is compared as a whole.
    """
    if before == after:
        return ()
    if len(before) + len(after) > LARGEST:
        before, after = _without_same(before, after)
        if len(before) + len(after) > LARGEST:
            return (_whole(before, after),)
    try:
        old, new = exact_json.parse(before), exact_json.parse(after)
        found = diff.diff(old, new)
    except (ValueError, RecursionError):
        return (_whole(before, after),)
    made: list[Edit] = []
    for operation in found:
        path = operation.was if operation.op == "remove" else operation.now
        made += of_operation(operation.op, path, operation.before, operation.after)
    return tuple(made[:_MOST])


def of_changed(before: bytes, after: bytes) -> tuple[Edit, ...]:
    """The differences of two messages that differ for sure, as far as the trace shows them."""
    return edits(before, after) or (_HIDDEN,)


def in_words(made: tuple[Edit, ...]) -> str:
    """A short sentence about edits: `added 1 block, changed 2 words`."""
    numbers = Counter((edit.op.value, _counted(edit)) for edit in made)
    return ", ".join(f"{op} {counted(number, what)}" for (op, what), number in numbers.items())


def added_tokens(made: tuple[Edit, ...]) -> int:
    """The tokens that edits add, less the tokens that they take away, estimated."""
    return sum(tokens.estimated(edit.after) - tokens.estimated(edit.before) for edit in made)


def _counted(edit: Edit) -> str:
    what = edit.what
    if _SECRET(edit.before) or _SECRET(edit.after):
        return "secret"
    if what == "text":
        return "passage" if " " in f"{edit.before.strip()}{edit.after.strip()}" else "word"
    return what.rpartition(" ")[2] if what.endswith(" block") else what


_encode: Final = json_text.encode
_members: Final = json_text.Decoder(dict[str, msgspec.Raw]).decode
_entries: Final = json_text.Decoder(list[msgspec.Raw]).decode


def _without_same(before: bytes, after: bytes) -> tuple[bytes, bytes]:
    """Two large objects with marks in place of equal parts: members, and entries of their lists.
    Equal values make no edit, so the value of a mark does not matter."""
    try:
        old, new = _members(before), _members(after)
        for name in old.keys() & new.keys():
            one, other = old[name], new[name]
            if one == other:
                old[name] = new[name] = msgspec.Raw(b"0")
            elif bytes(memoryview(one)[:1]) == bytes(memoryview(other)[:1]) == b"[":
                old[name], new[name] = _without_same_entries(_entries(one), _entries(other))
        return _encode(old), _encode(new)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return before, after


def _without_same_entries(
    old: list[msgspec.Raw], new: list[msgspec.Raw]
) -> tuple[msgspec.Raw, msgspec.Raw]:
    was, now = ([bytes(entry) for entry in entries] for entries in (old, new))
    both = {entry for entry in was if len(entry) > _LARGE_ENTRY}.intersection(now)
    marks = {entry: b"%d" % at for at, entry in enumerate(both)}

    def marked(entries: list[bytes]) -> msgspec.Raw:
        return msgspec.Raw(b"[" + b",".join(marks.get(entry, entry) for entry in entries) + b"]")

    return marked(was), marked(now)


def _edit(what: str, pointer: str, before: str, after: str, op: Op | None = None) -> Edit:
    """An edit, its texts cut. Without `op`, its kind follows from which of the texts there are."""
    return Edit(
        op=op or (Op.ADDED if not before else Op.REMOVED if not after else Op.CHANGED),
        what=what,
        pointer=pointer,
        before=before[:_LONGEST],
        after=after[:_LONGEST],
        cut=max(len(before), len(after)) > _LONGEST,
    )


def _whole(before: bytes, after: bytes) -> Edit:
    """One edit from the first byte that differs to the last."""
    parts = (text[: 4 * _LONGEST + 1] for text in _between(before, after))
    was, now = (part.decode(errors="replace") for part in parts)
    return _edit("message", "", was, now, Op.CHANGED)


def of_operation(named: str, path: diff.Path, before: Any, after: Any) -> list[Edit]:
    """One difference, `add`, `remove` or `replace` (`diff.Operation`), in words."""
    op, pointer = _OPS[named], diff.pointer(path)
    what = _what(path, after if op is not Op.REMOVED else before)
    if op is Op.CHANGED and isinstance(before, str) and isinstance(after, str):
        return _in_text(before, after, what, pointer)
    old = "" if isinstance(before, exact_json.Nothing) else _shown(before)
    new = "" if isinstance(after, exact_json.Nothing) else _shown(after)
    return [_edit(what, pointer, old, new, op)]


def _what(path: diff.Path, value: Any) -> str:
    """The words for the value at a place."""
    if not path:
        return "message"
    last = path[-1]
    if isinstance(last, int) and len(path) > 1:
        kind = _LISTS.get(str(path[-2]))
        if kind == "block" and isinstance(value, dict):
            return f"{value.get('type', 'content')} block"
        if kind is not None:
            return kind
    if last == "text":
        return "text"
    names = [str(step) for step in path if not isinstance(step, int)]
    return f"field {'.'.join(names[-2:])}"


def _shown(value: Any) -> str:
    """A value as a person reads it: of a content block its text."""
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    if isinstance(value, dict) and isinstance(value.get("resource"), dict):
        text = value["resource"].get("text")
        if isinstance(text, str):
            return text
    return value if isinstance(value, str) else exact_json.encode(value).decode(errors="replace")


def _in_text(before: str, after: str, what: str, pointer: str) -> list[Edit]:
    """The words of a text that differ."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) * len(new) > _MOST_WORDS * _MOST_WORDS:
        return [_edit(what, pointer, *_between(before, after))]
    words = SequenceMatcher(None, old, new, autojunk=False)
    return [
        _edit(what, pointer, "".join(old[i:j]), "".join(new[k:m]))
        for op, i, j, k, m in words.get_opcodes()
        if op != "equal"
    ]


def _between(before: AnyStr, after: AnyStr) -> tuple[AnyStr, AnyStr]:
    """The parts of two texts between their first difference and their last."""
    head, tail = ends(before, after)
    return before[head : len(before) - tail], after[head : len(after) - tail]


def of_texts(before: str, after: str) -> tuple[Edit, ...]:
    """The words that differ between two texts."""
    return tuple(_in_text(before, after, "text", "")[:_MOST])


def text_of(params: bytes) -> str:
    """The words of a prompt's params: the text of its blocks. Of very large params the beginning
    of each block."""
    try:
        if len(params) > LARGEST:
            return "\n".join(map(_beginning, _prompt(params).prompt))
        blocks = json.loads(params).get("prompt", ())
        return "\n".join(_shown(block) for block in blocks if isinstance(block, dict))
    except (ValueError, RecursionError, AttributeError, TypeError):
        return ""


class _Prompt(msgspec.Struct):
    prompt: list[msgspec.Raw] = []


class _Resource(msgspec.Struct):
    text: msgspec.Raw = msgspec.Raw()


class _Block(msgspec.Struct):
    text: msgspec.Raw = msgspec.Raw()
    resource: _Resource = msgspec.field(default_factory=_Resource)


_prompt: Final = json_text.Decoder(_Prompt).decode
_block: Final = json_text.Decoder(_Block).decode
_string: Final = json_text.Decoder(str).decode
_BEGINNING: Final = 256 * 1024
"""Bytes of a block of a very large prompt that are read."""
_ESCAPE: Final = 12
"""Bytes of the longest way to write a character in JSON."""


def _beginning(block: msgspec.Raw) -> str:
    """The first words of a block."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        read = _block(block)
        text = memoryview(read.text or read.resource.text)
        if text.nbytes <= _BEGINNING:
            return _string(text) if text.nbytes else ""
        for cut in range(_BEGINNING, _BEGINNING - _ESCAPE, -1):  # it may end within a character
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                return _string(bytes(text[:cut]) + b'"')
    return ""
