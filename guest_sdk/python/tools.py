"""MCP tools of a proxy, declared to each session and called by the agent over the ACP channel.

Two generations of MCP over ACP are served: connections (`mcp/connect`, `mcp/message` with a
`connectionId`, `mcp/disconnect`) and the stateless one (`mcp/message` with `serverId` and
`requestId`).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from . import config, schemas
from .errors import INVALID_PARAMS, ProxyError
from .failures import report, sentence
from .messages import plain

if TYPE_CHECKING:
    from .engine import Engine
    from .sessions import Session

BLOCKS: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})


class Call:
    """One call of a tool, for a parameter annotated with this class."""

    __slots__ = ("_notify", "_session", "_token")

    def __init__(
        self,
        session: Session | None,
        token: Any,
        notify: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._session = session
        self._token = token
        self._notify = notify

    @property
    def session(self) -> Session:
        """The session whose agent calls. Raises `RuntimeError` before its setup is answered."""
        if self._session is None:
            raise RuntimeError("the agent calls before it has said which session it opened")
        return self._session

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tells the caller how far it is, if it wants to know."""
        if self._token is None:
            return
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        self._notify("notifications/progress", params)


class Tool:
    """A function as an MCP tool. Raises `TypeError` for a parameter that has no JSON form."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        title: str = "",
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        self.description = description or inspect.getdoc(function) or ""
        self.title = title
        self._hints = typing.get_type_hints(function, include_extras=True)
        self._takes: dict[str, Any] = {}
        self._call: str | None = None
        required = []
        for one in inspect.signature(function).parameters.values():
            hint = self._hints.get(one.name, Any)
            if hint is Call:
                self._call = one.name
                continue
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
                raise TypeError(f"tool `{self.name}`: `{one}` cannot be given by name")
            self._takes[one.name] = self._schema_of(one, hint)
            if one.default is one.empty:
                required.append(one.name)
        self.schema = schemas.closed(self._takes, required)

    def _schema_of(self, one: inspect.Parameter, hint: Any) -> dict[str, Any]:
        try:
            found = schemas.schema(hint)
        except TypeError as error:
            raise TypeError(f"tool `{self.name}`, parameter `{one.name}`: {error}") from None
        if one.default is not one.empty and _is_json(one.default):
            found["default"] = one.default
        return found

    def card(self) -> dict[str, Any]:
        """The tool as `tools/list` shows it."""
        return {
            "name": self.name,
            **({"title": self.title} if self.title else {}),
            "description": self.description,
            "inputSchema": self.schema,
        }

    async def call(self, given: dict[str, Any], call: Call) -> dict[str, Any]:
        """Calls it; the result of `tools/call`. Raises `ProxyError` for wrong arguments."""
        arguments: dict[str, Any] = {}
        for name, held in given.items():
            if name not in self._takes:
                known = ", ".join(self._takes) or "none"
                problem = f"`{self.name}` has no argument `{name}`; arguments are: {known}"
                raise ProxyError(problem, INVALID_PARAMS)
            try:
                arguments[name] = config.value(self._hints.get(name, Any), held, name)
            except ValueError as error:
                raise ProxyError(f"`{self.name}`: {error}", INVALID_PARAMS) from None
        missing = [name for name in self.schema.get("required", ()) if name not in arguments]
        if missing:
            raise ProxyError(f"`{self.name}` needs `{'`, `'.join(missing)}`", INVALID_PARAMS)
        if self._call is not None:
            arguments[self._call] = call
        found = self.function(**arguments)
        return _content(await found if isinstance(found, Awaitable) else found)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _content(found: Any) -> dict[str, Any]:
    """A tool's return value as the result of `tools/call`."""
    found = plain(found)
    if found is None:
        return {"content": []}
    if isinstance(found, str):
        return {"content": [{"type": "text", "text": found}]}
    if isinstance(found, dict) and found.get("type") in BLOCKS:
        return {"content": [found]}
    if (
        isinstance(found, list)
        and found
        and all(isinstance(one, dict) and one.get("type") in BLOCKS for one in found)
    ):
        return {"content": found}
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        found = dataclasses.asdict(found)
    said = json.dumps(found, ensure_ascii=False)
    structured = {"structuredContent": found} if isinstance(found, dict) else {}
    return {"content": [{"type": "text", "text": said}], **structured}


def failed(engine: Engine, tool: Tool, error: BaseException) -> dict[str, Any]:
    """The result of a call whose function raised: the model is told, and the log."""
    report(engine, f"tool `{tool.name}` failed", error)
    said = sentence(error)
    return {"content": [{"type": "text", "text": said}], "isError": True}


__all__ = ["Call", "Tool", "failed"]
