"""Whether a prompt may be a command of the agent: then nothing may stand in front of it."""

from __future__ import annotations

import re
from typing import Any, Final

_MARKED: Final = re.compile(
    "[\x00-\x20/$!#:@&~%^*+.?\\\\\x7f-\xbf\u0340-\u037f\u0600-\u063f\u1000-\u3fff"
    "\ud800-\udfff\uf000-\uffff\U000c0000-\U0010ffff-]"
)
"""Characters by which some agent may read a command, or which it does not see before a command;
and more characters, to be quick."""
SKILL: Final = "skill"
"""The type of a block by which a user calls a skill."""


def begins_plainly(prompt: list[Any]) -> bool:
    """Whether a prompt begins with a text that no agent takes for a command, or has none.

    What comes with it before its first text counts too: some agents read that first. A skill is a
    command in a block of its own.
    """
    for block in prompt:
        if isinstance(block, dict):
            if block.get("type") == SKILL:
                return False
            resource, said = block.get("resource"), block.get("text")
            inner = resource.get("text") if isinstance(resource, dict) else None
            if any(isinstance(one, str) and _MARKED.match(one) for one in (said, inner)):
                return False
            if said and isinstance(said, str) and block.get("type") == "text":
                return True
    return True


def on_a_line(block: dict[str, Any]) -> dict[str, Any]:
    """A block that begins with a line break, if it is text."""
    said = block.get("text")
    return {**block, "text": "\n" + said} if isinstance(said, str) else block
