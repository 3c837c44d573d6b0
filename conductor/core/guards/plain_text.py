"""Prompts of nothing but plain texts, before and after a component: no rule finds anything there.

Most components that change a prompt put a text before it or behind it. To ask the rules about such
a change takes longer than all the rest of a hop, so one look at the bytes tells here that no rule
can object.
Every other prompt goes the way through the rules; this module refuses nothing.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from conductor.core.guards import commands, every_message, links, prompts
from conductor.core.guards.commands import plainly_begins_none
from conductor.core.guards.rules import Rule
from conductor.patterns import lazy_pattern

ANSWERED: Final[frozenset[Rule]] = frozenset(
    {
        commands.kept,
        every_message.meta_kept,
        every_message.readable_params,
        every_message.session_kept,
        links.added,
        prompts.metas_kept,
        prompts.options_kept,
    }
)
"""The rules that `alone` answers for: if there is any other rule for prompts, all are asked."""
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


def alone(commands: AbstractSet[str], received: bytes, sent: bytes) -> bool:
    """Whether both params, as most programs write them, are the same session's prompt of nothing
    but texts that begin as no command does; `commands`: those that its agent lists. True only where
    no rule of `ANSWERED` breaks: tests compare the two."""
    if max(len(received), len(sent)) > _MOST_BYTES or not plainly_begins_none(commands):
        return False
    try:
        before, after = _prompt.fullmatch(received.decode()), _prompt.fullmatch(sent.decode())
    except UnicodeDecodeError:
        return False
    return before is not None and after is not None and before[1] == after[1]
