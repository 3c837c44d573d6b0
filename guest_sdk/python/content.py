"""Content blocks of prompts, updates, tools and MCP prompts; results of tools."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from . import checked
from .messages import text
from .records import plain

BLOCKS: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})


def image(data: bytes, mime_type: str = "image/png", **more: Any) -> dict[str, Any]:
    """A picture as a content block; `more` are further members, e.g. `annotations`."""
    return {"type": "image", "data": _base64(data), "mimeType": mime_type, **more}


def audio(data: bytes, mime_type: str = "audio/wav", **more: Any) -> dict[str, Any]:
    """A recording as a content block."""
    return {"type": "audio", "data": _base64(data), "mimeType": mime_type, **more}


def resource_link(uri: str, name: str, **more: Any) -> dict[str, Any]:
    """A content block that names a resource, to be read by whoever wants it."""
    return {"type": "resource_link", "uri": uri, "name": name, **more}


def embedded(uri: str, held: str | bytes, mime_type: str = "", **more: Any) -> dict[str, Any]:
    """A content block with a resource in it: its text, or bytes."""
    return {"type": "resource", "resource": contents(uri, held, mime_type), **more}


def contents(uri: str, held: str | bytes, mime_type: str = "") -> dict[str, Any]:
    """A resource as `resources/read` answers it."""
    if isinstance(held, str):
        return {"uri": uri, "mimeType": mime_type or "text/plain", "text": held}
    kind = mime_type or "application/octet-stream"
    return {"uri": uri, "mimeType": kind, "blob": _base64(held)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


class ToolError(Exception):
    """Raised in a tool: the model gets this very text as the call's failure.

    Unlike other exceptions it is not logged: the model asked for an impossible thing, and may try
    another.
    """


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool that returns more than a value.

    `content`: text, blocks, or a list of both. `structured`: the value for programs. `is_error`:
    the call failed, and the model should know so. `meta`: `_meta` of the result.
    """

    content: Any = field(default_factory=list)
    structured: Any = None
    is_error: bool = False
    meta: dict[str, Any] = field(default_factory=dict)


def jsonable(value: Any) -> Any:
    """A value as JSON has it: dataclasses as objects, enums by value, sets and tuples as lists."""
    value = plain(value)
    if isinstance(value, enum.Enum):
        return jsonable(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: jsonable(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: jsonable(one) for key, one in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((jsonable(one) for one in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [jsonable(one) for one in value]
    return value


def block(value: Any) -> dict[str, Any] | None:
    """A value as a content block, if the value is a content block."""
    value = plain(value)
    return value if isinstance(value, dict) and value.get("type") in BLOCKS else None


def blocks(value: Any) -> list[dict[str, Any]]:
    """Text, a block, or a list of both as blocks. Raises `TypeError` for anything else."""
    if value is None:
        return []
    found = []
    for one in value if isinstance(value, (list, tuple)) else [value]:
        held = text(one) if isinstance(one, str) else block(one)
        if held is None:
            raise TypeError(f"{one!r} is no content: text or a block (`text(…)`, `image(…)`) is")
        found.append(held)
    return found


def result(found: Any, *, structured: bool) -> dict[str, Any]:
    """The value that a tool returned, as the result of `tools/call`.

    `structured`: the tool's declaration promises a structure, so no part of it counts as a block.
    """
    if isinstance(found, Result):
        held: dict[str, Any] = {"content": blocks(found.content)}
        if found.structured is not None:
            held["structuredContent"] = jsonable(found.structured)
        if found.is_error:
            held["isError"] = True
        return {**held, "_meta": found.meta} if found.meta else held
    found = plain(found)
    if not structured and (found is None or isinstance(found, str) or _is_content(found)):
        return {"content": blocks(found)}
    value = jsonable(found)
    try:
        said = json.dumps(value, ensure_ascii=False, allow_nan=not isinstance(value, dict))
    except (TypeError, ValueError, RecursionError):
        raise checked.unwritable("what was returned", value) from None
    more = {"structuredContent": value} if isinstance(value, dict) else {}
    return {"content": [text(said)], **more}


def _is_content(found: Any) -> bool:
    """Whether a value is a block, or a list of blocks (and perhaps texts between them)."""
    if not isinstance(found, (list, tuple)):
        return block(found) is not None
    kinds = [block(one) is not None for one in found]
    return any(kinds) and all(
        is_block or isinstance(one, str) for is_block, one in zip(kinds, found, strict=True)
    )


def failure(said: str) -> dict[str, Any]:
    """The result of a call that failed."""
    return {"content": [text(said)], "isError": True}


_AT = re.compile(r"(\[?)@+(?=([^\s@]*@?))")
_HARMLESS = re.compile(r"(?!file:)[\w-]+(?:[./:][\w-]+)*/?", re.ASCII | re.IGNORECASE)


def unlinked(said: str) -> str:
    """A text in which no `@` leads an agent to a file elsewhere: a blank sets off such an `@`.

    For texts of files that go into prompts. Agents read the file of `@/some/path`, so the added
    path must lie in the session's folders, or the prompt does not pass.
    """

    def put(at: re.Match[str]) -> str:
        name = at[2].rstrip("\"'`>)]},;:!?*").removesuffix(".")
        if not name or (_HARMLESS.fullmatch(name) and not at[1]):
            return at[0]
        return f"{at[1]} @ " if at[1] else "@ "

    return _AT.sub(put, said)
