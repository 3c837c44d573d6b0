"""Prompts that a component changed by plain text alone: no rule finds anything in those.

Most components that change a prompt put a text before it or behind it. To ask each rule about each
block costs a hop ten times as much as to see here that none can object. What is not plainly so goes
the way through the rules; this module refuses nothing.
"""

from __future__ import annotations

from typing import Final

from conductor.core.guards.commands import may_begin, plainly_begins_none
from conductor.core.guards.links import holds_mark, many_marks
from conductor.core.guards.reading import Json, Object
from conductor.core.guards.rules import Attempt, Context
from conductor.core.json_text import too_deep
from conductor.patterns import lazy_pattern

_MOST_BLOCKS: Final = 32
"""Each block that is sent may be compared with each that was received."""
_DEEPEST: Final = 64
"""Rules refuse what they cannot walk through; so deep they can."""

_MOST_BYTES: Final = 20_000
"""Fewer than the values that a text may have to be read."""
# Each text begins as no command does, or is empty; no sign in it may begin a mention.
_BLOCK: Final = (
    r'\{"type":"text","text":"'
    r'(?:(?:\\n)*+[A-Za-z0-9<(\[{_](?:[^"\\@\uff20\ufe6b\x00-\x1f]|\\["\\/bfnrt])*+)?"\}'
)
_prompt = lazy_pattern(
    rf'\{{"sessionId":"([^"\\\x00-\x1f]*+)","prompt":\[(?:{_BLOCK}(?:,{_BLOCK})*+)?\]\}}'
)


def alone_plainly(context: Context, received: bytes, sent: bytes) -> bool:
    """As `alone`, without reading the params: true only where both, as most programs write them,
    are the same session's prompt of nothing but texts that begin as no command does."""
    if max(len(received), len(sent)) > _MOST_BYTES or not plainly_begins_none(context.commands):
        return False
    try:
        before, after = _prompt.fullmatch(received.decode()), _prompt.fullmatch(sent.decode())
    except UnicodeDecodeError:
        return False
    return before is not None and after is not None and before[1] == after[1]


def alone(attempt: Attempt, received: bytes, sent: bytes) -> bool:
    """Whether a prompt is passed on with no more than blocks of plain text added or left out.

    `received` and `sent` are the params as they are written. True only where no rule for prompts
    that are passed on breaks: tests compare the two.
    """
    before, after = attempt.old.get("prompt"), attempt.new.get("prompt")
    if not isinstance(before, list) or not isinstance(after, list):
        return False  # also what cannot be read
    if attempt.sent.ambiguous or len(before) > _MOST_BLOCKS or len(after) > _MOST_BLOCKS:
        return False
    commands = attempt.context.commands
    return (
        # First: what is deeper may not even be compared.
        not (too_deep(received, _DEEPEST) or too_deep(sent, _DEEPEST))
        and _stays_beside(attempt.old, attempt.new)
        and all(_is_plain(block) or block in before for block in after)
        and not any(map(_may_mention, after))
        and not (may_begin(before, commands) or may_begin(after, commands))
        and not many_marks(before, after, len(received) + len(sent))
    )


def _stays_beside(old: Object, new: Object) -> bool:
    """Whether all that stands beside the blocks is as it was."""
    return old.keys() == new.keys() and all(
        new[name] == value for name, value in old.items() if name != "prompt"
    )


def _is_plain(block: Json) -> bool:
    """Whether a block is a text, and nothing else is in it."""
    return (
        isinstance(block, dict)
        and len(block) == 2
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    )


def _may_mention(block: Json) -> bool:
    """Whether a mention may begin in the text of a block, or in the texts of all blocks joined."""
    if not isinstance(block, dict) or block.get("type") != "text":
        return False
    text = block.get("text")
    return isinstance(text, str) and holds_mark(text)
