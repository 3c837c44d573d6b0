"""From lines to messages: what conductors write is read quickly, all else member by member."""

from __future__ import annotations

import re
from typing import Final

from .jsontext import Member, members, survey
from .messages import Notification, Request, Update

_ID: Final = r'(-?\d+|"[^"\\]*"|null)'
head: Final = re.compile(
    rf'\{{"jsonrpc":"2\.0",(?:"id":{_ID},)?"method":"([^"\\]*)"(?:,"params":|\}})'
).match
"""The beginning of a message as conductors write it: groups are its id, raw, and its method."""

answer_head: Final = re.compile(rf'\{{"jsonrpc":"2\.0","id":{_ID},"(result|error)":').match
"""The beginning of an answer, likewise: groups are its id, raw, and what follows."""


def read(side: str, text: str) -> Request | Notification | dict[str, Member]:
    """What a line says: a request, a notification, or the members of anything else.

    Raises `ValueError` for what is no JSON object.
    """
    held = _usual(text) or _usual_answer(text) or _any(text)
    method = held.get("method")
    if method is None or not isinstance(method.value, str):
        return held
    if "id" in held:
        return Request(side, text, held)
    kind = Update if method.value == "session/update" else Notification
    return kind(side, text, held)


def _usual(text: str) -> dict[str, Member] | None:
    """The members of a message with parameters, if it is written as conductors write it."""
    found = head(text)
    if found is None or text[found.end() - 1] != ":":
        return None
    params = _last(text, found.end(), "params")
    if params is None:
        return None
    held = {
        "method": Member("method", found.start(2) - 1, found.end(2) + 1, found[2]),
        "params": params,
    }
    if found[1] is not None:
        held["id"] = Member("id", found.start(1), found.end(1), None)
    return held


def _usual_answer(text: str) -> dict[str, Member] | None:
    """The same of an answer."""
    found = answer_head(text)
    said = _last(text, found.end(), found[2]) if found is not None else None
    if found is None or said is None:
        return None
    return {"id": Member("id", found.start(1), found.end(1), None), found[2]: said}


def _last(text: str, at: int, name: str) -> Member | None:
    """The value at `at`, if the object that `text` is ends with it."""
    try:
        found = survey(text, at, name)
    except (IndexError, StopIteration):
        raise ValueError("not a JSON object") from None
    return found if text[found.end :] == "}" else None


def _any(text: str) -> dict[str, Member]:
    found, end = members(text)
    if text[end:].strip():
        raise ValueError("something stands behind the object")
    return {one.name: one for one in found}
