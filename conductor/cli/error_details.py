"""Errors of agents for people: each thing once, and a message instead of the JSON it came in.

Agents put the answer of a model's server into an error as it is: into its text, its `data`, and
often both, `401 {"type":"error","error":{"message":"invalid x-api-key"}}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

_MOST: Final = 4000
"""The most characters of the shown `data`."""
_MOST_LINES: Final = 30
"""The most lines of the shown `data`."""
_KEYS: Final = ("error", "message", "detail", "details", "error_description", "reason")
"""Where the message of an object is, in this order."""
_OBJECT: Final = re.compile(r"[\[{]")
_DEEPEST: Final = 8

_decode = json.JSONDecoder().raw_decode


def shown(text: str, details: object = None) -> str:
    """The text of an error, and below it the further facts of its `data`."""
    text = plain(text)
    lines: list[str] = []
    for line in "\n".join(_lines(details))[:_MOST].splitlines():
        if line.strip() not in text and line not in lines:
            lines.append(line)
    cut = ["…"] if len(lines) > _MOST_LINES else []
    return "\n".join([text, *lines[:_MOST_LINES], *cut])


def plain(text: str) -> str:
    """The text with the message of an object in place of the object, wherever it has one."""
    return _replaced(text)[0]


def repeats(line: str, error: str) -> bool:
    """Whether all that a line tells stands in an error."""
    messages = _replaced(line)[1]
    return line.strip() in error or any(said in error for said in messages)


def _replaced(text: str) -> tuple[str, list[str]]:
    """The text with messages in place of objects, and these messages."""
    at, messages = 0, []
    while (begin := _OBJECT.search(text, at)) is not None:
        at = begin.start()
        try:
            value, end = _decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        said = message(value)
        if said:
            text = f"{text[:at]}{said}{text[end:]}"
            messages.append(said)
            end = at + len(said)
        at = end
    return text, messages


def message(value: object, depth: int = 0) -> str:
    """The message that an object holds; empty: none."""
    if depth > _DEEPEST:
        return ""
    match value:
        case str():
            return plain(value) if depth else ""
        case [only]:
            return message(only, depth + 1)
        case dict():
            found = (message(value[key], depth + 1) for key in _KEYS if key in value)
            return next(filter(None, found), "")
        case _:
            return ""


def _lines(details: object) -> Iterator[str]:
    if details in (None, "", {}, []):
        return
    if isinstance(details, str):
        yield plain(details)
        return
    if not isinstance(details, dict):
        yield _written(details)
        return
    # Conductor's own errors name the component in their text.
    rest = {key: value for key, value in details.items() if key != "component"}
    if len(rest) == 1:
        yield from _lines(next(iter(rest.values())))
        return
    for key, value in rest.items():
        said = plain(value) if isinstance(value, str) else message(value) or _written(value)
        yield said if key in _KEYS else f"{key}: {said}"


def _written(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""
