"""What a component changed in a message, in words: edits."""

from __future__ import annotations

import json
import re
from collections import Counter
from difflib import SequenceMatcher
from typing import Any, Final

from conductor.record import diff
from conductor.record.text_pairs import shared
from conductor.record.turns import tokens
from conductor.record.turns.model import Edit, Op

_MOST: Final = 100
"""Edits of one message that are listed."""
_LONGEST: Final = 4_000
"""Characters of a text in an edit."""
_MOST_WORDS: Final = 600
"""Words of a changed text that are compared one by one; of a longer one what lies between its
first and its last difference is one edit."""
_LARGEST: Final = 1024 * 1024
"""Bytes of a message that are compared member by member."""

_MARK: Final = r"\[redacted(?:: [\w-]+)?\]"
"""What stands in place of a secret: the trace's mark, or that of `redact` with the kind."""
_SECRET: Final = re.compile(_MARK).match
_WORDS: Final = re.compile(rf"{_MARK}|\s+|\w+|[^\w\s]")
_OPS: Final = {"add": Op.ADDED, "remove": Op.REMOVED, "replace": Op.CHANGED}
_LISTS: Final = {
    "prompt": "block", "content": "block", "mcpServers": "MCP server", "entries": "plan entry",
    "options": "option", "availableCommands": "command", "configOptions": "option",
    "locations": "location",
}  # fmt: skip
"""What an entry of a list is, by the list's name."""

_HIDDEN: Final = Edit(op=Op.CHANGED, what="part that the trace hides", pointer="")
"""Instead of a secret, or of all content, a trace has a mark."""


def edits(before: bytes, after: bytes) -> tuple[Edit, ...]:
    """The differences between two JSON texts, in words; none if they hold the same value.

    What is no JSON, or very large, is compared as a whole.
    """
    if before == after:
        return ()
    if len(before) + len(after) > _LARGEST:
        return (_whole(before, after),)
    try:
        old, new = diff.parse(before), diff.parse(after)
        found = diff.diff(old, new)
    except (ValueError, RecursionError):
        return (_whole(before, after),)
    made: list[Edit] = []
    for operation in found:
        made += _edit(operation)
        if len(made) >= _MOST:
            break
    return tuple(made[:_MOST])


def of_changed(before: bytes, after: bytes) -> tuple[Edit, ...]:
    """The differences of two messages that differ for sure, as far as the trace shows them."""
    return edits(before, after) or (_HIDDEN,)


def in_words(made: tuple[Edit, ...]) -> str:
    """A short sentence about edits: `added 1 block, changed 2 words`."""
    counted = Counter((edit.op.value, _counted(edit)) for edit in made)
    return ", ".join(
        f"{op} {number} {what if number == 1 else what + 's'}"
        for (op, what), number in counted.items()
    )


def added_tokens(made: tuple[Edit, ...]) -> int:
    """Tokens that edits add, less those that they take away, estimated."""
    return sum(tokens.estimated(edit.after) - tokens.estimated(edit.before) for edit in made)


def _counted(edit: Edit) -> str:
    what = edit.what
    if _SECRET(edit.before) or _SECRET(edit.after):
        return "secret"
    if what == "text":
        return "passage" if " " in f"{edit.before.strip()}{edit.after.strip()}" else "word"
    return what.rpartition(" ")[2] if what.endswith(" block") else what


def _whole(before: bytes, after: bytes) -> Edit:
    old, new = before.decode(errors="replace"), after.decode(errors="replace")
    edit = _between(old, new, "message", "")
    edit.op = Op.CHANGED
    return edit


def _edit(operation: diff.Operation) -> list[Edit]:
    op, path = _OPS[operation.op], operation.was if operation.op == "remove" else operation.now
    pointer = diff.pointer(path)
    before, after = operation.before, operation.after
    what = _what(path, after if op is not Op.REMOVED else before)
    if op is Op.CHANGED and isinstance(before, str) and isinstance(after, str):
        return _in_text(before, after, what, pointer)
    old = "" if isinstance(before, diff.Nothing) else _shown(before)
    new = "" if isinstance(after, diff.Nothing) else _shown(after)
    cut = len(old) > _LONGEST or len(new) > _LONGEST
    return [
        Edit(
            op=op,
            what=what,
            pointer=pointer,
            before=old[:_LONGEST],
            after=new[:_LONGEST],
            cut=cut,
        )
    ]


def _what(path: diff.Path, value: Any) -> str:
    """What is at a place, in words."""
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
    return value if isinstance(value, str) else diff.encode(value).decode(errors="replace")


def _in_text(before: str, after: str, what: str, pointer: str) -> list[Edit]:
    """The words of a text that differ."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) * len(new) > _MOST_WORDS * _MOST_WORDS:
        return [_between(before, after, what, pointer)]
    made = []
    for op, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if op != "equal":
            was, now = "".join(old[i:j]), "".join(new[k:m])
            kind = Op.ADDED if not was else Op.REMOVED if not now else Op.CHANGED
            made.append(
                Edit(
                    op=kind,
                    what=what,
                    pointer=pointer,
                    before=was[:_LONGEST],
                    after=now[:_LONGEST],
                    cut=len(was) > _LONGEST or len(now) > _LONGEST,
                )
            )
    return made


def _between(before: str, after: str, what: str, pointer: str) -> Edit:
    """One edit from the first difference of two long texts to the last."""
    short = min(len(before), len(after))
    head = shared(before, after, short)
    tail = shared(before[::-1], after[::-1], short - head)
    was, now = before[head : len(before) - tail], after[head : len(after) - tail]
    kind = Op.ADDED if not was else Op.REMOVED if not now else Op.CHANGED
    cut = len(was) > _LONGEST or len(now) > _LONGEST
    return Edit(
        op=kind,
        what=what,
        pointer=pointer,
        before=was[:_LONGEST],
        after=now[:_LONGEST],
        cut=cut,
    )


def of_texts(before: str, after: str) -> tuple[Edit, ...]:
    """The words that differ between two texts."""
    return tuple(_in_text(before, after, "text", "")[:_MOST])


def text_of(params: bytes) -> str:
    """The words of a prompt's params: the text of its blocks."""
    try:
        blocks = json.loads(params).get("prompt", ())
        return "\n".join(_shown(block) for block in blocks if isinstance(block, dict))
    except (ValueError, RecursionError, AttributeError, TypeError):
        return ""
