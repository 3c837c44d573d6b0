"""A question about an MCP server that offers more than it did when the user agreed to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from conductor.core import json_text
from conductor.errors import counted
from conductor.spec import digests
from conductor.spec.consent.question import Answer, Option, named, quoted

if TYPE_CHECKING:
    from conductor.mcp.bridge.offers import Change, Server

MOST: Final = 32
"""Changes that one question shows: it must stay readable."""
_LONGEST: Final = 200

SAYS: Final = ("description", "instructions")
"""Members of a definition that are words for the model."""
_PARTS: Final = 12
"""Members of one definition that are shown."""
_NONE: Final = object()

_BEFORE: Final = 40
"""Characters before a difference that are shown."""

_OPTIONS: Final[tuple[Option, ...]] = (
    (Answer.SESSION, "Allow until this conductor ends", "allow_once"),
    (Answer.VERSION, "Allow these tools, also later", "allow_once"),
    (Answer.NARROW, "Leave them out", "reject_once"),
)


class ToolsQuestion(msgspec.Struct, frozen=True):
    """A question about one server."""

    server: Server
    changes: tuple[Change, ...]
    options: ClassVar = _OPTIONS
    narrow: ClassVar = "the changed tools are left out"
    """The state without a yes."""

    @property
    def key(self) -> str:
        """The key of the question: another change is another question."""
        shown = [[each.kind, each.name, each.now.sha256] for each in self.changes]
        return digests.of_bytes(
            msgspec.json.encode([self.server.key, self.server.name, sorted(shown)])
        )

    @property
    def component(self) -> str:
        """The component that the log names for the question."""
        return self.server.owner or "mcp"

    @property
    def label(self) -> str:
        """The server, for people."""
        return f"MCP server {quoted(self.server.name)}"

    @property
    def title(self) -> str:
        """The question in a line."""
        return f"Allow the changes of {self.label} to its tools?"

    @property
    def hint(self) -> str:
        """How to agree without a question."""
        return f"`conductor trust --remove {self.server.name}` has its next list taken as it is"

    def lines(self) -> list[str]:
        """The facts that a person needs for an answer."""
        owner = f"component {quoted(self.server.owner)}" if self.server.owner else "your editor"
        return [
            "Conductor asks this itself. This server has new or changed tools:",
            *(f"- {line}" for change in self.changes for line in shown(change)),
            "Until then: these tools are left out, and the server's other tools stay.",
            f"The server comes from: {owner}",
        ]


def shown(change: Change) -> Iterator[str]:
    """A change in lines: the server has chosen only the text between backticks."""
    what = f"{change.kind} {named(change.name)}" if change.name else f"its text `{change.kind}`"
    before, now = change.before, change.now
    if before is None:
        says = _said(now.value)
        yield f"{what} is new" + (f": {quoted(says, _LONGEST)}" if says else "")
    elif not before.text or not now.text:
        yield f"{what} is another now; one of its texts is not kept, so none is shown"
    else:
        lines = [*_differ(what, before.value, now.value)]
        yield from lines[:_PARTS]
        if more := lines[_PARTS:]:
            yield f"{what} differs in {counted(len(more), 'member')} more"
    yield from (f"LOOK at {what}: {mark}" for mark in now.marks)


def _said(value: dict[str, Any]) -> str:
    """The words of a definition for the model."""
    return next((text for part in SAYS if isinstance(text := value.get(part), str)), "")


def _differ(what: str, before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """The differences between two values, by member. Words for the model come first: no number of
    other members may hide them."""
    for part in sorted(before.keys() | now.keys(), key=lambda part: (part not in SAYS, part)):
        old, new = (
            text
            if isinstance(text := value.get(part, ""), str)
            else json_text.encode(text).decode()
            for value in (before, now)
        )
        if before.get(part, _NONE) == now.get(part, _NONE) and old == new:
            continue
        same = _same(old, new)
        old, new = (quoted(_from(text, same), _LONGEST) for text in (old, new))
        if part in SAYS and part in before and part in now:
            yield f"{what} said {old} and now says {new}"
        elif part not in now:
            yield f"{what}: it has no {named(part)} any more"
        else:
            yield f"{what}: its {named(part)} is another now: {new}"


def _same(first: str, second: str) -> int:
    """The number of equal characters at their beginnings."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def _from(text: str, same: int) -> str:
    """A text, from shortly before the place where it differs."""
    if same + _BEFORE < _LONGEST:
        return text
    return f"\u2026{text[same - _BEFORE :]}"
