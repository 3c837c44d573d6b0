"""Writes the changes of a decoded value into the text from which it was decoded."""

from __future__ import annotations

import marshal
from typing import Any, Final, TypeAlias

from .jsontext import Place, dumps, survey

_NESTED: Final = frozenset({dict, list})

Snapshot: TypeAlias = tuple[Any, bool]
"""A former decoded value: its copy, and whether it holds numbers or booleans. Python finds some of
these equal where JSON does not."""


def snapshot(value: Any) -> Snapshot:
    """The snapshot of a decoded value, before anybody edits it."""
    if type(value) not in _NESTED:
        return value, True
    numbers: list[Any] = []
    return _copied(value, numbers), bool(numbers)


def _copied(value: Any, numbers: list[Any]) -> Any:
    """A copy of an object or array; numbers and booleans are noted."""
    # Texts, which are most of it, are shared: to compare them takes no time then.
    copy = value.copy()
    for at, held in value.items() if type(value) is dict else enumerate(value):
        if type(held) is not str:
            if type(held) in _NESTED:
                copy[at] = _copied(held, numbers)
            elif held is not None:
                numbers.append(held)
    return copy


def changed(before: Snapshot, now: Any) -> bool:
    """Whether a value is another one than it was at its snapshot."""
    return not same(before[0], now, numbers=before[1])


def same(one: Any, other: Any, *, numbers: bool = True) -> bool:
    """Whether two values are one JSON value: `1`, `1.0` and `true` are three.

    `one` has been decoded, and holds no numbers or booleans unless `numbers`; `other` may be
    anything.
    """
    if one is other:
        return True
    if one != other:
        return False
    if not numbers and type(one) in _NESTED:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is not float and type(one) not in _NESTED:
        return True
    # Equal containers may still differ in the types of what they hold, as may 0.0 and -0.0.
    # Compared first: only what equals something decoded is sure not to contain itself.
    try:
        # Later versions depend on which strings are one object.
        return marshal.dumps(one, 2) == marshal.dumps(other, 2)
    except ValueError:
        return False


def merge(text: str, new: Any) -> str:
    """The JSON text of `new`, in the words of `text` wherever that says the same."""
    value, place = survey(text, len(text) - len(text.lstrip(" \t\n\r")))
    before = snapshot(value)
    if not changed(before, new):
        return text[place[1] : place[2]]
    return edited(text, place, before, new)


def edited(text: str, place: Place, before: Snapshot, new: Any) -> str:
    """The JSON text of a value within a text that is known to have been changed.

    `before` is the value's snapshot, taken when it was decoded. Raises `ValueError` for what is not
    JSON.
    """
    return _merge(text, place, before[0], new, before[1])


def _merge(text: str, place: Place, old: Any, new: Any, numbers: bool) -> str:
    kind = type(old)
    if kind is dict:
        if isinstance(new, dict):
            return _merge_objects(text, place, old, new, numbers)
    elif kind is list and isinstance(new, list):
        return _merge_arrays(text, place, old, new, numbers)
    return dumps(new)


def _merge_objects(
    text: str, place: Place, old: dict[str, Any], new: dict[str, Any], numbers: bool
) -> str:
    places: Any = place[3] or survey(text, place[1])[1][3]
    parts = []
    for name, one in places.items():
        if name in new:
            was, now = old[name], new[name]
            named, start, end, _ = one
            if was is now or same(was, now, numbers=numbers):
                parts.append(text[named:end])
            else:
                parts.append(text[named:start] + _merge(text, one, was, now, numbers))
    if len(new) != len(parts):
        parts += [dumps({name: new[name]})[1:-1] for name in new if name not in places]
    return "{" + ",".join(parts) + "}"


def _merge_arrays(text: str, place: Place, old: list[Any], new: list[Any], numbers: bool) -> str:
    """Elements are matched from both ends; of what is left in between, pairs are merged."""
    more = len(new) - len(old)
    if more > 0 and old:  # as nearly always: something was put in front, or behind
        if same(old, new[more:], numbers=numbers):
            return f"[{_listed(new[:more])},{text[place[1] + 1 : place[2]]}"
        if same(old, new[:-more], numbers=numbers):
            return f"{text[place[1] : place[2] - 1]},{_listed(new[-more:])}]"
    most = min(len(old), len(new))
    head = 0
    while head < most and same(old[head], new[head], numbers=numbers):
        head += 1
    if head == len(old) == len(new):  # another kind of list, which says the same
        return text[place[1] : place[2]]
    tail = 0
    while tail < most - head and same(old[-1 - tail], new[-1 - tail], numbers=numbers):
        tail += 1
    middle = new[head : len(new) - tail]
    places: Any = place[3] or survey(text, place[1])[1][3]
    parts = [text[one[1] : one[2]] for one in places[:head]]
    rest = slice(head, len(old) - tail)
    if len(middle) == len(old[rest]):
        for one, was, now in zip(places[rest], old[rest], middle, strict=True):
            if same(was, now, numbers=numbers):
                parts.append(text[one[1] : one[2]])
            else:
                parts.append(_merge(text, one, was, now, numbers))
    else:
        parts += map(dumps, middle)
    parts += [text[one[1] : one[2]] for one in places[len(old) - tail :]]
    return "[" + ",".join(parts) + "]"


def _listed(values: list[Any]) -> str:
    """Values as they stand in an array."""
    return dumps(values[0]) if len(values) == 1 else ",".join(map(dumps, values))
