"""The edits of files by an agent's own account: diffs of tool calls in both versions of ACP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

MOST: Final = 256
"""The most edits of one tool call that are looked at."""
PLACES: Final = 8
"""The most files, read or about to be edited, that are looked at."""
CHARS: Final = 2_000_000
"""The most characters in the texts of these files."""


class Edit(NamedTuple):
    """One change of a file by a tool call."""

    path: str
    old: str | None = None
    """The text that the edit replaces; None: unknown."""
    new: str | None = None
    """The text that the edit puts there; None: nothing."""
    source: str | None = None
    """The path that the file had before."""
    gone: bool = False
    """Whether the edit deletes the file, or the file `source`."""

    @property
    def chars(self) -> int:
        """The characters of its texts."""
        return len(self.old or "") + len(self.new or "") + len(self.path)


def edits(content: Any) -> list[Edit]:
    """The edits in the content of a tool call."""
    found: list[Edit] = []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") == "diff":
            found += _second(block) if "changes" in block else _first(block)
        if len(found) >= MOST:
            break
    return bounded(found)


def places(call: dict[str, Any]) -> list[Edit]:
    """The files that a tool call reads or is about to edit, as far as it names them."""
    held = call.get("locations")
    if call.get("kind") not in ("read", "edit") or not isinstance(held, list):
        return []
    named = [one.get("path") for one in held[:PLACES] if isinstance(one, dict)]
    return [Edit(path) for path in named if isinstance(path, str)]


def bounded(found: list[Edit]) -> list[Edit]:
    """The first of these edits, as many as are looked at."""
    chars, kept = 0, []
    for one in found[:MOST]:
        chars += one.chars
        if chars > CHARS:
            break
        kept.append(one)
    return kept


def _first(diff: dict[str, Any]) -> Iterator[Edit]:
    """Version 1: a text for a text, which may be parts of the file."""
    path, old, new = diff.get("path"), diff.get("oldText"), diff.get("newText")
    if isinstance(path, str) and isinstance(new, str):
        yield Edit(path, old if isinstance(old, str) else None, new)


def _second(diff: dict[str, Any]) -> Iterator[Edit]:
    """Version 2: the change of each file, and the texts as a patch of git's."""
    changes, patch = diff.get("changes"), diff.get("patch")
    patched: dict[str, list[tuple[str, str]]] = {}
    if isinstance(patch, dict) and patch.get("format") == "git_patch":
        patched = hunks(str(patch.get("text", "")))
    for change in changes if isinstance(changes, list) else []:
        path = change.get("path") if isinstance(change, dict) else None
        if not isinstance(path, str):
            continue
        operation, source = change.get("operation"), change.get("oldPath")
        if operation == "delete":
            yield Edit(path, gone=True)
            continue
        if operation in ("move", "copy") and isinstance(source, str):
            yield Edit(path, source=source, gone=operation == "move")
        # The patch has paths from some folder on, the change has all of it.
        for name, found in patched.items():
            if path == name or path.endswith(f"/{name}"):
                yield from (Edit(path, old, new) for old, new in found)


_NAME: Final = re.compile(r'\+\+\+ (?:"b/(?P<quoted>.*)"|b/(?P<plain>[^\t]*))')
_HUNK: Final = re.compile(r"@@ -\d+(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@")


def hunks(patch: str) -> dict[str, list[tuple[str, str]]]:
    """The old and the new text of each hunk of git's patch, by file; other lines are left out."""
    found: dict[str, list[tuple[str, str]]] = {}
    name, old, new = "", list[str](), list[str]()
    left = [0, 0]
    for line in patch.split("\n"):
        if max(left) > 0:
            sign = line[:1] or " "
            if sign in " -":
                old.append(line[1:])
            if sign in " +":
                new.append(line[1:])
            left = [left[0] - (sign in " -"), left[1] - (sign in " +")]
            if max(left) <= 0:
                found.setdefault(name, []).append(("\n".join(old), "\n".join(new)))
        elif match := _NAME.match(line):
            name = match["plain"] if match["quoted"] is None else _unquoted(match["quoted"])
        elif match := _HUNK.match(line):
            left = [int(match[side] or 1) for side in ("old", "new")]
            old, new = [], []
    return {name: parts[:MOST] for name, parts in found.items() if name}


def _unquoted(name: str) -> str:
    r"""A path as git quotes it: `\303\244` are bytes."""
    named = {"n": "\n", "t": "\t"}

    def byte(match: re.Match[str]) -> str:
        said = match[1]
        return chr(int(said, 8)) if said.isdigit() else named.get(said, said)

    text = re.sub(r"\\([0-3][0-7]{2}|.)", byte, name)
    return text.encode("latin-1", "replace").decode("utf-8", "replace")
