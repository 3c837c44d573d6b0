"""A question about an MCP server that offers what it did not offer when the user agreed to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.spec import digests
from conductor.spec.consent.question import Answer, Option, named, quoted

if TYPE_CHECKING:
    from conductor.mcp.bridge.offers import Change, Server

MOST: Final = 32
"""Changes that one question shows: it must stay readable."""
_LONGEST: Final = 200

_BEFORE: Final = 40
"""Characters before a difference that are shown."""

_OPTIONS: Final[tuple[Option, ...]] = (
    (Answer.SESSION, "Allow until this conductor ends", "allow_once"),
    (Answer.VERSION, "Allow these tools, also later", "allow_once"),
    (Answer.NARROW, "Leave them out", "reject_once"),
)


class ToolsQuestion(msgspec.Struct, frozen=True):
    """What is asked about one server."""

    server: Server
    changes: tuple[Change, ...]

    @property
    def key(self) -> str:
        """What the question is over by: another change is another question."""
        shown = [[each.kind, each.name, each.now.sha256] for each in self.changes]
        return digests.of_bytes(msgspec.json.encode([self.server.key, sorted(shown)]))

    @property
    def component(self) -> str:
        """Who the log says it is about."""
        return self.server.owner or "mcp"

    @property
    def label(self) -> str:
        """The server, for people."""
        return f"MCP server {quoted(self.server.name)}"

    @property
    def title(self) -> str:
        """The question in a line."""
        return f"Allow what {self.label} has changed in its tools?"

    @property
    def options(self) -> tuple[Option, ...]:
        """What the user may answer."""
        return _OPTIONS

    @property
    def narrow(self) -> str:
        """What holds without a yes."""
        return "the changed tools are left out"

    @property
    def hint(self) -> str:
        """How to agree without a question."""
        return f"`conductor trust --remove {self.server.name}` has its next list taken as it is"

    def lines(self) -> list[str]:
        """What a person needs to know to answer."""
        owner = f"component {quoted(self.server.owner)}" if self.server.owner else "your editor"
        return [
            "Conductor asks this itself. This server now offers what it did not offer before:",
            *(f"- {line}" for change in self.changes for line in shown(change)),
            "Until then: these tools are left out, and the server's other tools stay.",
            f"The server comes from: {owner}",
        ]


def shown(change: Change) -> Iterator[str]:
    """A change in lines: the server has chosen only what stands between backticks."""
    what = f"{change.kind} {named(change.name)}"
    now, before = change.now, change.before
    says = quoted(now.says, _LONGEST)
    if before is None:
        yield f"{what} is new" + (f": {says}" if now.says else "")
    elif now.says != before.says:
        same = _same(before.says, now.says)
        old, new = (quoted(_from(text, same), _LONGEST) for text in (before.says, now.says))
        yield f"{what} said {old} and now says {new}"
    elif not change.parts:
        yield f"{what} is another now"
    for name, text in change.parts:
        yield f"{what}: its {named(name)} is another now: {quoted(text, _LONGEST)}"
    yield from (f"LOOK at {what}: {mark}" for mark in now.marks)


def _same(first: str, second: str) -> int:
    """How many characters at their beginnings are the same."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def _from(text: str, same: int) -> str:
    """A text, from shortly before the place where it differs."""
    if same + _BEFORE < _LONGEST:
        return text
    return f"\u2026{text[same - _BEFORE :]}"
