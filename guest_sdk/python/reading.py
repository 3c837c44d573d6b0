"""From lines to messages: what conductors write is read quickly, all else member by member."""

from __future__ import annotations

from typing import Any, Final

from .jsontext import Member, Place, members, scan, survey
from .messages import Notification, Request, Update, made

Head = tuple[str, str, int]
"""Of a line that is written as conductors write it: its raw id (empty: it has none), its method
(empty: it is an answer), and where params, result or error begin (0: nowhere)."""

_PLAIN: Final = '{"jsonrpc":"2.0",'
_WITH_ID: Final = _PLAIN + '"id":'
_AFTER: Final = len(_PLAIN)
_ID_AT: Final = len(_WITH_ID)


class Answer:
    """An answer of a neighbour: `value` is its result, or its error if it `failed`.

    `id`: the raw id of the answered request. `place`: the place of the value in the line `text`;
    None: it has none.
    """

    __slots__ = ("failed", "id", "place", "text", "value")

    def __init__(
        self, id_: str, text: str, value: Any, place: Place | None, *, failed: bool
    ) -> None:
        self.id = id_
        self.text = text
        self.value = value
        self.place = place
        self.failed = failed

    def raw(self) -> str:
        """The text of its value."""
        return self.text[self.place[1] : self.place[2]] if self.place is not None else "null"


def head(text: str) -> Head | None:
    """The beginning of a line, if it is written as conductors write it."""
    raw = ""
    if text.startswith(_WITH_ID):
        end = text.find(",", _ID_AT)
        raw = text[_ID_AT:end]
        if not raw.isdigit() or not raw.isascii():
            end = text.find('"', _ID_AT + 1) + 1
            raw = text[_ID_AT:end]
            if raw[:1] != '"' or "\\" in raw or text[end : end + 1] != ",":
                return None
        at = end + 1
    elif text.startswith(_PLAIN):
        at = _AFTER
    else:
        return None
    if text.startswith('"method":"', at):
        at += 10
        quote = text.find('"', at)
        method = text[at:quote]
        if "\\" in method or not method:
            return None
        if text.startswith(',"params":', quote + 1):
            return raw, method, quote + 11
        return (raw, method, 0) if text[quote + 1 :] == "}" else None
    if raw and text.startswith('"result":', at):
        return raw, "", at + 9
    if raw and text.startswith('"error":', at):
        return raw, "", at + 8
    return None


def read(side: str, text: str, found: Head | None) -> Request | Notification | Answer:
    """The message in a line; `found`: its head. Raises `ValueError` if it is no JSON object."""
    if found is not None:
        one = _message(side, text, found) if found[1] else _answer(text, found)
        if one is not None:
            return one
    return _anything(side, text)


def _message(side: str, text: str, found: Head) -> Request | Notification | None:
    """The message of a line with a method; None: something stands behind its params."""
    raw, method, at = found
    params: Any = {}
    place = None
    if at:
        try:
            params, place = survey(text, at)
        except (IndexError, StopIteration):
            raise ValueError("not a JSON object") from None
        if text[place[2] :] != "}":
            return None
    if raw:
        return made(Request, side, text, method, params, place, raw, _ID_AT)
    return made(_kind(method), side, text, method, params, place, "", 0)


def _answer(text: str, found: Head) -> Answer | None:
    """The answer of a line without a method; None: something stands behind its result or error."""
    raw, _, at = found
    try:
        value, end = scan(text, at)
    except (IndexError, StopIteration):
        raise ValueError("not a JSON object") from None
    if text[end:] != "}":
        return None
    failed = text[at - 3] == "r"  # `"error":` or `"result":`
    return Answer(raw, text, value, (at, at, end, None), failed=failed)


def _anything(side: str, text: str) -> Request | Notification | Answer:
    """The message in any other line."""
    found, end = members(text)
    if text[end:].strip():
        raise ValueError("something stands behind the object")
    held = {one.name: one for one in found}
    method, id_, params = held.get("method"), held.get("id"), held.get("params")
    raw = text[id_.start : id_.end] if id_ is not None else ""
    if method is None or not isinstance(method.value, str):
        return answer_of(raw, text, held)
    value = params.value if params is not None else {}
    place = (params.start, params.start, params.end, None) if params is not None else None
    if id_ is not None:
        return made(Request, side, text, method.value, value, place, raw, id_.start)
    return made(_kind(method.value), side, text, method.value, value, place, "", 0)


def answer_of(raw: str, text: str, held: dict[str, Member]) -> Answer:
    """The answer that these members make."""
    failed = "error" in held
    said = held.get("error") or held.get("result")
    if said is None:
        return Answer(raw, text, None, None, failed=failed)
    place = (said.start, said.start, said.end, None)
    return Answer(raw, text, said.value, place, failed=failed)


def _kind(method: str) -> type[Notification]:
    return Update if method == "session/update" else Notification
