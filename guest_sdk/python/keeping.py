"""The values that a proxy has kept for its next instance (`keep`), and their reader."""

from __future__ import annotations

import dataclasses
import math
import typing
from typing import Any

from . import config
from .content import jsonable

Kept = dict[str, Any]
"""One kept member: an object."""


def of_session(id_: str) -> str:
    """The name under which a session is kept."""
    return f"session:{id_}"


def of_value(name: str) -> str:
    """The name under which a value of the author's is kept."""
    return f"value:{name}"


def members(state: Any, names: tuple[str, ...]) -> Kept:
    """Members of a session's state as JSON; all of them where none is named.

    Raises `TypeError` for a state that has none, or not these.
    """
    held = getattr(state, "__dict__", None)
    if dataclasses.is_dataclass(state):
        held = {one.name: getattr(state, one.name) for one in dataclasses.fields(state)}
    if not isinstance(held, dict):
        raise TypeError(f"`keep`: the state is a dataclass; `{type(state).__name__}` is none")
    for name in names:
        if name not in held:
            known = ", ".join(held) or "none"
            raise TypeError(f"`keep`: there is no `{name}` in the state; there is: {known}")
    return {name: plain(one) for name, one in held.items() if not names or name in names}


def plain(value: Any) -> Any:
    """A value as JSON (`content.jsonable`); infinite floats and NaN become null."""
    return _finite(jsonable(value))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def restore(state: Any, kept: Kept) -> None:
    """Sets members of a new state. Members of another build that do not fit are left out."""
    typed = dataclasses.is_dataclass(state)
    hints = typing.get_type_hints(type(state), include_extras=True) if typed else {}
    for name, held in kept.items():
        if typed and name not in hints:
            continue
        try:
            setattr(state, name, config.value(hints[name], held, name) if typed else held)
        except ValueError:
            continue
