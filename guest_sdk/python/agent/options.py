"""The choices that a user has for a session: modes, and configuration options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import INVALID_PARAMS, ProxyError


@dataclass(frozen=True)
class Select:
    """An option with one value out of several.

    Args:
        id: the key of the option in `session.options`.
        name: the text that the user reads.
        values: the choices: the name of each value, by value.
        value: the value that counts at first; None: the first value.
        category: its subject, for clients that show some options apart: `model`, `thought_level`.
    """

    id: str
    name: str
    values: dict[str, str]
    value: str | None = None
    category: str | None = None

    @property
    def first(self) -> str:
        """The value at first."""
        return self.value if self.value is not None else next(iter(self.values))

    def takes(self, value: Any) -> bool:
        """Whether a value can be chosen."""
        return isinstance(value, str) and value in self.values

    def shown(self, value: Any) -> dict[str, Any]:
        """The option as the client reads it, without its name."""
        options = [{"value": one, "name": name} for one, name in self.values.items()]
        return {"type": "select", "currentValue": value, "options": options}


@dataclass(frozen=True)
class Toggle:
    """An option that is on or off. `value`: the value that counts at first."""

    id: str
    name: str
    value: bool = False
    category: str | None = None

    @property
    def first(self) -> bool:
        """The value at first."""
        return self.value

    def takes(self, value: Any) -> bool:
        """Whether a value can be chosen."""
        return isinstance(value, bool)

    def shown(self, value: Any) -> dict[str, Any]:
        """The option as the client reads it, without its name."""
        return {"type": "boolean", "currentValue": value}


Option = Select | Toggle
MODE = "mode"
"""The option that is the mode, where an agent has modes."""


def declared(modes: dict[str, str] | None, options: list[Option]) -> dict[str, Option]:
    """All options by id. Raises `ValueError` for an option without a valid choice."""
    mode = [Select(MODE, "Mode", modes, category=MODE)] if modes is not None else []
    found: dict[str, Option] = {}
    for one in [*mode, *options]:
        if one.id in found:
            raise ValueError(f"two options are called `{one.id}`")
        if isinstance(one, Select) and (not one.values or not one.takes(one.first)):
            raise ValueError(f"option `{one.id}`: `{one.value}` is none of its values")
        found[one.id] = one
    return found


def chosen(options: dict[str, Option], name: Any, value: Any) -> str:
    """The option that is called so. Raises `ProxyError` for none, and for a value that it lacks."""
    option = options.get(name) if isinstance(name, str) else None
    if option is None:
        known = ", ".join(options) or "there is none"
        raise ProxyError(f"no option {name!r} (hint: {known})", INVALID_PARAMS)
    if not option.takes(value):
        known = ", ".join(option.values) if isinstance(option, Select) else "true, false"
        raise ProxyError(f"`{name}` cannot be {value!r} (hint: {known})", INVALID_PARAMS)
    return option.id
