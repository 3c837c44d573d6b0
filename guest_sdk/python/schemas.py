"""JSON Schemas from type hints: of the arguments of a tool, with the descriptions of its hints."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any, Final

_PLAIN: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    None: {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
    object: {},
}


LISTS: Final[dict[Any, Any]] = {list: list, set: set, frozenset: frozenset, tuple: tuple}
"""The functions that turn a JSON list into the requested type, by type."""


def schema(kind: Any, within: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The schema of a type. Raises `TypeError` for a type without a JSON form.

    `within`: the objects it is a part of. One that holds its own kind is any object in there, since
    a schema written out would have no end; what comes is read as that kind all the same.
    """
    if isinstance(kind, typing.Hashable) and kind in _PLAIN:
        return dict(_PLAIN[kind])
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        notes = [one for one in arguments[1:] if isinstance(one, str)]
        held = schema(arguments[0], within)
        return {**held, **({"description": notes[0]} if notes else {})}
    if origin in (typing.Required, typing.NotRequired):
        return schema(arguments[0], within)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema(one, within) for one in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in LISTS and (origin is not tuple or arguments[-1] is ...):
        return {"type": "array", "items": schema(arguments[0], within)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(arguments[1], within)}
    if kind in within:
        return {"type": "object"}
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        return _members(kind, (*within, kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [one.value for one in kind]}
    raise TypeError(f"{kind!r} has no JSON form; {_HAVE}")


_HAVE: Final = (
    "str, int, float, bool, None, Any, list[…], dict[str, …], Literal, enums, dataclasses and "
    "TypedDict have, and unions of these"
)


def _members(kind: Any, within: tuple[Any, ...]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    if typing.is_typeddict(kind):
        required = needed(kind, hints)
    else:
        required = [
            field.name
            for field in dataclasses.fields(kind)
            if field.default is field.default_factory is dataclasses.MISSING
        ]
    return closed({name: schema(hint, within) for name, hint in hints.items()}, required)


def needed(kind: Any, hints: dict[str, Any]) -> list[str]:
    """The members that a `TypedDict` must have."""
    # By the hints first: of annotations that are texts, the class itself does not know it.
    marks = {name: typing.get_origin(hint) for name, hint in hints.items()}
    return [
        name
        for name, mark in marks.items()
        if mark is typing.Required or (name in kind.__required_keys__ and mark is not _OPTIONAL)
    ]


_OPTIONAL: Final[Any] = typing.NotRequired


def closed(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """The schema of an object that has these members and no others."""
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def structured(kind: Any) -> dict[str, Any] | None:
    """The schema of a tool's result, if its annotation promises an object of certain members.

    A bare `dict` promises nothing, nor does `dict[str, Any]`, which a content block is too, nor a
    type without a JSON form.
    """
    bare = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
    if not (
        dataclasses.is_dataclass(bare)
        or typing.is_typeddict(bare)
        or (typing.get_origin(bare) is dict and typing.get_args(bare)[1] not in (Any, object))
    ):
        return None
    try:
        return schema(kind)
    except TypeError:
        return None
