"""A proxy's settings as a typed model: a dataclass or `TypedDict`, read from a JSON object.

Fields may be `str`, `int`, `float`, `bool`, `None`, `list[…]`, `set[…]`, `dict[str, …]`,
`Literal[…]`, enums, other dataclasses, and unions of these. An unknown key is an error that lists
the known ones.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any

from .schemas import LISTS, needed


def read(kind: type | None, held: Any) -> Any:
    """The settings. Without a model (`kind` None) they are the JSON object itself.

    Raises `ValueError` that names the key.
    """
    if kind is None:
        return held
    return _typed(kind, held, "") if typing.is_typeddict(kind) else _object(kind, held, "")


def _object(kind: Any, held: Any, path: str) -> Any:
    if not isinstance(held, dict):
        raise ValueError(f"`{path.rstrip('.') or 'config'}` must be an object")
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for key in held:
        if key not in fields:
            known = ", ".join(fields) or "none"
            if path:  # of a tool's argument, too
                raise ValueError(
                    f"there is no `{path}{key}`; in `{path[:-1]}` there can be: {known}"
                )
            raise ValueError(f"there is no setting `{key}`; settings are: {known}")
    given = {}
    for name, field in fields.items():
        if name in held:
            given[name] = value(hints[name], held[name], f"{path}{name}")
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise ValueError(f"`{path}{name}` is missing")
    try:
        return kind(**given)
    except ValueError as error:
        raise ValueError(f"`{path.rstrip('.')}`: {error}" if path else str(error)) from None


def value(kind: Any, held: Any, path: str) -> Any:
    """`held` as a value of type `kind`. Raises `ValueError`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return value(arguments[0], held, path)
    if kind is Any or kind is object:
        return held
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, held, path)
    if origin is typing.Literal:
        if held not in arguments:
            raise ValueError(f"`{path}` must be one of {', '.join(map(repr, arguments))}")
        return held
    if kind is list or origin in LISTS:
        if not isinstance(held, list):
            raise ValueError(f"`{path}` must be a list")
        inner = arguments[0] if arguments else Any
        return LISTS[origin or kind](value(inner, o, f"{path}[{n}]") for n, o in enumerate(held))
    if kind is dict or origin is dict:
        if not isinstance(held, dict):
            raise ValueError(f"`{path}` must be an object")
        inner = arguments[1] if arguments else Any
        return {key: value(inner, one, f"{path}.{key}") for key, one in held.items()}
    if dataclasses.is_dataclass(kind):
        return _object(kind, held, f"{path}.")
    if typing.is_typeddict(kind):
        return _typed(kind, held, path)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(held)
        except ValueError:
            known = ", ".join(repr(one.value) for one in kind)
            raise ValueError(f"`{path}` must be one of {known}") from None
    return _scalar(kind, held, path)


def _typed(kind: Any, held: Any, path: str) -> dict[str, Any]:
    if not isinstance(held, dict):
        raise ValueError(f"`{path or 'config'}` must be an object")
    hints = typing.get_type_hints(kind, include_extras=True)
    missing = [name for name in needed(kind, hints) if name not in held]
    unknown = [name for name in held if name not in hints]
    if missing or unknown:
        word, names = ("needs", missing) if missing else ("has no", unknown)
        raise ValueError(f"`{path or 'config'}` {word} {', '.join(sorted(names))}")
    within = f"{path}." if path else ""
    return {name: value(hints[name], one, f"{within}{name}") for name, one in held.items()}


_NAMES: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def _scalar(kind: Any, held: Any, path: str) -> Any:
    if kind is None or kind is type(None):
        if held is None:
            return None
        raise ValueError(f"`{path}` must be null")
    if kind is float and isinstance(held, int) and not isinstance(held, bool):
        try:
            return float(held)
        except OverflowError:
            raise ValueError(f"`{path}` is too large for a number") from None
    if kind not in _NAMES:
        raise ValueError(f"`{path}`: no JSON value is a {kind!r}")
    if type(held) is not kind:
        raise ValueError(f"`{path}` must be {_NAMES[kind]}")
    return held


def _union(kinds: tuple[Any, ...], held: Any, path: str) -> Any:
    problems = []
    for kind in kinds:
        try:
            return value(kind, held, path)
        except ValueError as error:
            problems.append(str(error))
    begin = f"`{path}` must be "
    first, *others = dict.fromkeys(problems)
    raise ValueError(" or ".join([first, *(one.removeprefix(begin) for one in others)]))
