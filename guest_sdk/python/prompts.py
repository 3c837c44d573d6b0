"""MCP prompts: texts a person picks by name, made by a function of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .calls import spoken
from .errors import INVALID_PARAMS, ProxyError
from .parameters import Parameters

if TYPE_CHECKING:
    from .calls import Call
    from .tools import When


class Prompt:
    """A prompt; its arguments are the function's parameters. Raises `TypeError`.

    The function returns text or blocks of the user, a pair `("assistant", "…")`, or a list of
    these.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        title: str = "",
        when: When | None = None,
    ) -> None:
        self.name = name or function.__name__
        self.description = description or inspect.getdoc(function) or ""
        self.title = title
        self.when = when
        self.parameters = Parameters(function, f"prompt `{self.name}`")

    def card(self) -> dict[str, Any]:
        """The prompt as `prompts/list` shows it."""
        arguments = [
            {
                "name": name,
                **({"description": held["description"]} if "description" in held else {}),
                "required": name in self.parameters.required,
            }
            for name, held in self.parameters.schemas.items()
        ]
        return {
            "name": self.name,
            **({"title": self.title} if self.title else {}),
            "description": self.description,
            "arguments": arguments,
        }

    async def get(self, given: dict[str, Any], call: Call) -> dict[str, Any]:
        """The result of `prompts/get`. Raises `ProxyError` for arguments that do not fit."""
        try:
            texts = {name: held for name, held in given.items() if isinstance(held, str)}
            if len(texts) < len(given):
                raise ValueError("arguments of prompts are text")
            arguments = self.parameters.texts(texts)
        except ValueError as error:
            raise ProxyError(f"prompt `{self.name}`: {error}", INVALID_PARAMS) from None
        said = await self.parameters.called(arguments, call)
        return {"description": self.description, "messages": spoken(said)}
