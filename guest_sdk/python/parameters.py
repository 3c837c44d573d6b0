"""The parameters of an author's function, as an MCP client may give them."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Awaitable, Callable
from typing import Any

from . import config, schemas
from .calls import Call
from .content import jsonable


def declarable(function: Any, decorator: str) -> None:
    """Raises `TypeError` for a value that is no function, as in `@proxy.tool("name")`."""
    if not callable(function):
        raise TypeError(
            f"`@proxy.{decorator}` takes a function, not {function!r}; "
            f'a name is given as in `@proxy.{decorator}(name="…")`'
        )


class Parameters:
    """The parameters of a function, by name; a parameter annotated `Call` gets the call itself.

    `what` names the function in errors. Raises `TypeError` for a parameter that cannot be given
    by name, or has no JSON form, and for a generator.
    """

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        self.function = function
        self.what = what
        self.hints = typing.get_type_hints(function, include_extras=True)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{what}: it has to return what there is, not to yield it")
        self.schemas: dict[str, dict[str, Any]] = {}
        self.required: list[str] = []
        self._call: str | None = None
        for one in inspect.signature(function).parameters.values():
            hint = self.hints.get(one.name, Any)
            if hint is Call:
                self._call = one.name
                continue
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
                raise TypeError(f"{what}: `{one}` cannot be given by name")
            self.schemas[one.name] = self._schema(one, hint)
            if one.default is one.empty:
                self.required.append(one.name)

    def _schema(self, one: inspect.Parameter, hint: Any) -> dict[str, Any]:
        try:
            found = schemas.schema(hint)
        except TypeError as error:
            raise TypeError(f"{self.what}, parameter `{one.name}`: {error}") from None
        default = jsonable(one.default) if one.default is not one.empty else one.empty
        if default is not one.empty and _is_json(default):
            found["default"] = default
        return found

    @property
    def takes_call(self) -> bool:
        """Whether one of them is the call."""
        return self._call is not None

    def values(self, given: dict[str, Any]) -> dict[str, Any]:
        """JSON values as arguments. Raises `ValueError` that names the fault."""
        self._known(given)
        return {
            name: config.value(self.hints.get(name, Any), held, name)
            for name, held in given.items()
        }

    def texts(self, given: dict[str, str]) -> dict[str, Any]:
        """Texts as arguments: as they are where that fits, else as the JSON they hold.

        Raises `ValueError`.
        """
        self._known(given)
        return {name: self._text(name, held) for name, held in given.items()}

    def _text(self, name: str, held: str) -> Any:
        hint = self.hints.get(name, Any)
        try:
            return config.value(hint, held, name)
        except ValueError:
            try:
                value = json.loads(held)
            except ValueError:
                value = held
            return config.value(hint, value, name)

    def _known(self, given: dict[str, Any]) -> None:
        for name in given:
            if name not in self.schemas:
                known = ", ".join(self.schemas) or "none"
                raise ValueError(f"there is no argument `{name}`; arguments are: {known}")
        missing = [name for name in self.required if name not in given]
        if missing:
            raise ValueError(f"`{'`, `'.join(missing)}` must be given")

    async def called(self, arguments: dict[str, Any], call: Call) -> Any:
        """The result of the function for these arguments."""
        if self._call is not None:
            arguments = {**arguments, self._call: call}
        found = self.function(**arguments)
        return await found if isinstance(found, Awaitable) else found


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
