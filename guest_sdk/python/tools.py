"""A function as an MCP tool: its schemas from type hints, its result from the returned value."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from . import config, content, schemas
from .content import ToolError
from .errors import ProxyError, Refused
from .failures import report, sentence
from .parameters import Parameters

if TYPE_CHECKING:
    from .calls import Call
    from .engine import Engine
    from .sessions import Session

_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")
When = Callable[["Session | None"], bool]
"""Whether a session has something; asked each time a list is requested."""


class Tool:
    """A tool. Raises `TypeError` for a name no agent takes, and as `Parameters` does."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        title: str = "",
        annotations: dict[str, Any] | None = None,
        when: When | None = None,
        schema: dict[str, Any] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.name = name or function.__name__
        if not _NAME.fullmatch(self.name):
            raise TypeError(f"tool `{self.name}`: a name has up to 128 letters, digits and `_-./`")
        self.description = description or inspect.getdoc(function) or ""
        self.title = title
        self.annotations = annotations or {}
        self.meta = meta or {}
        self.when = when
        self.parameters = Parameters(function, f"tool `{self.name}`")
        own = schemas.closed(self.parameters.schemas, self.parameters.required)
        self.schema = own if schema is None else schema
        self._whole = schema is not None
        if schema is not None and [*self.parameters.schemas] != ["arguments"]:
            raise TypeError(f"tool `{self.name}`: with a `schema` it takes `arguments: dict` alone")
        self._returns = self.parameters.hints.get("return")
        # A `Result` says what it holds when it is there.
        promised = None if self._returns is content.Result else self._returns
        self.output_schema = schemas.structured(promised)

    def card(self) -> dict[str, Any]:
        """The tool as `tools/list` shows it."""
        return {
            "name": self.name,
            **({"title": self.title} if self.title else {}),
            "description": self.description,
            "inputSchema": self.schema,
            **({"outputSchema": self.output_schema} if self.output_schema else {}),
            **({"annotations": self.annotations} if self.annotations else {}),
            **({"_meta": self.meta} if self.meta else {}),
        }

    async def call(self, engine: Engine, given: dict[str, Any], call: Call) -> dict[str, Any]:
        """Calls it; the result of `tools/call`.

        The model learns of each failure, and may try otherwise: arguments that do not
        fit, refusals of the conductor, and mistakes of the author's, which are logged too.
        """
        try:
            arguments = self.parameters.values({"arguments": given} if self._whole else given)
        except ValueError as error:
            return content.failure(f"`{self.name}`: {error}")
        try:
            found = await self.parameters.called(arguments, call)
            return self._result(found)
        except (ToolError, Refused) as error:
            return content.failure(str(error))
        except ProxyError:  # the answer that the author chose
            raise
        except (Exception, SystemExit) as error:
            report(engine, f"tool `{self.name}` failed", error)
            return content.failure(sentence(error))

    def _result(self, found: Any) -> dict[str, Any]:
        held = content.result(found, structured=self.output_schema is not None)
        if self.output_schema is not None and "isError" not in held:
            try:
                config.value(self._returns, held.get("structuredContent"), "result")
            except ValueError as error:
                raise TypeError(
                    f"tool `{self.name}` returned what it does not declare: {error}"
                ) from None
        return held
