"""Checks of the values that authors put into messages, at the line that does so.

Else only the far end would notice a value of a wrong kind, and it does not know whose line wrote
the value. Received values are never checked, and written ones no deeper than mistakes go.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, Self, SupportsIndex

_JSON: Final = (str, dict, list, int, float, tuple, type(None))
_SHOWN: Final = 60
_KINDS: Final = "text, numbers, true, false, None, lists and dictionaries are"

CHUNKS: Final = frozenset({"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"})
"""Updates whose `content` is one block."""

MESSAGES: Final = frozenset({"agent_message", "agent_thought", "user_message"})
"""Updates of version 2 whose `content` is a list of blocks."""

_ANSWERS: Final[dict[str, tuple[str, type, str]]] = {
    "session/new": ("sessionId", str, '{"sessionId": "…"}'),
    "session/fork": ("sessionId", str, '{"sessionId": "…"}'),
    "session/request_permission": (
        "outcome", dict, '{"outcome": {"outcome": "selected", "optionId": "…"}}'
    ),
    "fs/read_text_file": ("content", str, '{"content": "…"}'),
}  # fmt: skip
"""A member that an answer must have, its type, and how an answer looks."""

_LOOKS: Final = {
    "session/prompt": '{"stopReason": "end_turn"}; what the user is to read is said before, by '
    '`request.session.say("…")`',
}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def member(name: str, value: Any) -> Any:
    """A value that becomes a member of a message, as it is. Raises `TypeError` for no JSON."""
    if isinstance(value, _JSON):
        return value
    advice = "; `await` it" if isinstance(value, Awaitable) else ""
    raise TypeError(f"`{name}`: {_shown(value)} is no JSON value: {_KINDS}{advice}")


def said(value: Any, what: str) -> str:
    """Text, as it is. Raises `TypeError` for anything else."""
    if isinstance(value, str):
        return value
    advice = "`await` it" if isinstance(value, Awaitable) else "`str(…)` makes text of a value"
    raise TypeError(f"{what} takes text, not {_shown(value)}; {advice}")


def block(value: Any) -> dict[str, Any]:
    """A content block; text becomes one. Raises `TypeError` for anything else."""
    if type(value) is dict and type(value.get("type")) is str:
        return value
    if isinstance(value, str):
        return {"type": "text", "text": value}
    held = getattr(value, "raw", value)
    if isinstance(held, dict) and isinstance(held.get("type"), str):
        return held
    raise TypeError(
        f"{_shown(value)} is no content block: text is, or `text(…)`, `image(…)` and the like; "
        "a dictionary has a `type`"
    )


def blocks(value: Any) -> list[dict[str, Any]]:
    """Text, a block or a list of both as blocks; none for None. Raises `TypeError`."""
    if value is None:
        return []
    return [block(one) for one in (value if isinstance(value, (list, tuple)) else [value])]


def server(value: Any) -> dict[str, Any]:
    """An MCP server of a session's setup, as it is. Raises `TypeError` for anything else."""
    held = getattr(value, "raw", value)
    if isinstance(held, dict) and isinstance(held.get("name"), str):
        return held
    raise TypeError(
        f"{_shown(value)} is no MCP server; one is "
        '`{"name": "files", "command": "/usr/bin/files", "args": [], "env": []}`'
    )


def content(kind: str, value: Any) -> Any:
    """The `content` of an update: text becomes a block, where a block is meant."""
    if kind in CHUNKS:
        return block(value)
    if kind in MESSAGES and value is not None:
        return blocks(value)
    return member("content", getattr(value, "raw", value))


# -- lists -----------------------------------------------------------------------------------------

Check = Callable[[Any], dict[str, Any]]

_SETUP: Final = ("mcpServers", server)
LISTS: Final[dict[str, tuple[str, Check]]] = {
    "session/prompt": ("prompt", block),
    "session/new": _SETUP,
    "session/load": _SETUP,
    "session/resume": _SETUP,
    "session/fork": _SETUP,
}
"""The member of a request that is a list, and the check of its elements, by method."""


class Checked(list[dict[str, Any]]):
    """A list of a message, which takes fitting elements only."""

    __slots__ = ("_check",)

    def __init__(self, held: Iterable[Any], check: Check) -> None:
        list.__init__(self, held)  # not `super()`, which takes longer than all else
        self._check = check

    def append(self, value: Any, /) -> None:
        """Adds one."""
        list.append(self, self._check(value))

    def insert(self, index: SupportsIndex, value: Any, /) -> None:
        """Adds one before another."""
        list.insert(self, index, self._check(value))

    def extend(self, values: Iterable[Any], /) -> None:
        """Adds several."""
        super().extend(self._several(values))

    def __iadd__(self, values: Iterable[Any], /) -> Self:  # type: ignore[misc, override]
        self.extend(values)
        return self

    def __setitem__(self, index: Any, value: Any, /) -> None:
        several = isinstance(index, slice)
        super().__setitem__(index, self._several(value) if several else self._check(value))

    def _several(self, values: Any) -> list[dict[str, Any]]:
        if isinstance(values, (str, dict)):
            raise TypeError(f"{_shown(values)} is one, where a list of them is meant")
        return [self._check(one) for one in values]


def opened(method: str, key: str, held: dict[str, Any]) -> Any:
    """A member of a request for its author to edit: such a list becomes a `Checked`."""
    value = held[key]
    found = LISTS.get(method)
    if found is not None and found[0] == key and type(value) is list:
        value = held[key] = Checked(value, found[1])
    return value


def assigned(method: str, key: str, value: Any) -> Any:
    """The value that an author assigns to a member of a request, checked."""
    found = LISTS.get(method)
    if found is None or found[0] != key or type(value) is Checked:
        return member(key, value)
    several = value if isinstance(value, (list, tuple)) else [value]
    return Checked([found[1](one) for one in several], found[1])


# -- answers ---------------------------------------------------------------------------------------


def place(function: Any) -> str:
    """Where a handler stands: "handler `prompt` (my_proxy.py, line 12)"."""
    name = getattr(function, "__name__", repr(function))
    code = getattr(function, "__code__", None)
    if code is None:
        return f"handler `{name}`"
    return f"handler `{name}` ({os.path.basename(code.co_filename)}, line {code.co_firstlineno})"


def answer(method: str, value: Any, function: Any) -> Any:
    """The answer of a handler to a request, unchanged.

    Raises `TypeError` for a value that is no answer by ACP: an answer is an object. Extensions and
    carried messages of MCP answer as they like.
    """
    held = getattr(value, "raw", value)
    if method.startswith(("_", "mcp/")):
        return value
    name, kind, looks = _ANSWERS.get(method, ("", object, _LOOKS.get(method, "a dictionary")))
    if isinstance(held, dict) and (not name or isinstance(held.get(name), kind)):
        return value
    raise TypeError(
        f"{place(function)} answered `{method}` with {_shown(value)}; an answer is {looks}"
    )


# -- values without a JSON form --------------------------------------------------------------------


def unwritable(what: str, value: Any) -> TypeError:
    """The error for a value that cannot be written as JSON, with the place in it."""
    try:
        path, wrong = next(_wrong(value, ""), ("", value))
    except RecursionError:
        path, wrong = "", value
    at = f" at {path}" if path else ""
    return TypeError(f"{what}{at}: {_shown(wrong)} is no JSON value: {_KINDS}")


def _wrong(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Values within one that are no JSON, each with its path."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not isinstance(key, (str, int, float, type(None))):
                yield path, key
            yield from _wrong(one, f"{path}/{key}")
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from _wrong(one, f"{path}/{number}")
    elif not isinstance(value, _JSON) or (isinstance(value, float) and not math.isfinite(value)):
        yield path, value
