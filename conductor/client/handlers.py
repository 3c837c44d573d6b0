"""A client's answers to requests of the chain: for permission, and for files.

Permission options are chosen by kind, never by position. No chosen option holds for longer than
once: a denial must not become an allowance, nor one allowance many.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from conductor.client.acp import asked_call
from conductor.client.connection import CANCELLED, Handler
from conductor.client.values import OnPermission, Permission, PermissionOption
from conductor.core import json_text
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from conductor.errors import RequestError, UsageError, counted, one_line
from conductor.record.turns.messages import members

if TYPE_CHECKING:
    from pathlib import Path

READ: Final = "fs/read_text_file"
WRITE: Final = "fs/write_text_file"

ALLOW: Final = "allow_once"
REJECT: Final = "reject_once"

LARGEST_FILE: Final = 64 * 1024 * 1024
"""Bytes of the largest file that a component may read."""

_MOST_OPTIONS: Final = 100
"""The most options of a question: nobody reads more, and they are compared with each other."""
_MOST_PLACES: Final = 20
"""The most files of a tool call that a question shows: more would hide the rest of it."""

Ask = Callable[[str], Awaitable[str]]
"""Shows a question to the user and returns the line typed; empty at the end of the input."""


def capabilities(handlers: Mapping[str, Handler]) -> dict[str, Any]:
    """The `clientCapabilities` of a client that serves these methods."""
    return {
        "fs": {"readTextFile": READ in handlers, "writeTextFile": WRITE in handlers},
        "terminal": "terminal/create" in handlers,
    }


class Permissions:
    """Answers permission requests; `mode` is `deny`, `ask` or `allow-once`.

    `note` shows each decision to the user.
    """

    def __init__(self, mode: str, note: Callable[[str], None], ask: Ask) -> None:
        self._mode = mode
        self._note = note
        self._ask = ask
        self._asking = asyncio.Lock()

    async def request(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serves `session/request_permission`."""
        chosen = await self.choose(asked_call(params), params.get("options"))
        return CANCELLED if chosen is None else selected(chosen)

    async def choose(self, call: Mapping[str, Any], options: object) -> str | None:
        """The option that answers a question about a tool call; None: there is none."""
        title, details = described(call)
        allow = option_of(options, ALLOW)
        if allow is not None and await self._allowed(title, details):
            self._note(f"permission granted once: {title}")
            return allow
        hint = "; use --permissions ask or allow-once to grant it" if self._mode == "deny" else ""
        self._note(f"permission denied: {title}{hint}")
        return option_of(options, REJECT)

    async def _allowed(self, title: str, details: list[str]) -> bool:
        if self._mode != "ask":
            return self._mode == "allow-once"
        async with self._asking:
            self._note("\n  ".join([f"the agent asks for permission: {title}", *details]))
            return (await self._ask("allow it this once? [y/N] ")).strip().lower() in ("y", "yes")


def offered(options: object) -> list[dict[str, Any]]:
    """The options of a question that have an id; none where there are too many."""
    listed = options if isinstance(options, list) else []
    if len(listed) > _MOST_OPTIONS:
        return []
    return [one for one in listed if isinstance(one, dict) and isinstance(one.get("optionId"), str)]


def clear(options: object) -> list[dict[str, Any]]:
    """The options that an answer can name: an id that options of other kinds have too may be taken
    for any of them."""
    named = offered(options)
    return [
        one
        for one in named
        if not any(
            other["optionId"] == one["optionId"] and other.get("kind") != one.get("kind")
            for other in named
        )
    ]


def option_of(options: object, kind: str) -> str | None:
    """The id of the first option of this kind, or None if the agent offers none."""
    return next((one["optionId"] for one in clear(options) if one.get("kind") == kind), None)


def asking(decide: OnPermission) -> Handler:
    """Serves `session/request_permission` by asking a function of the embedding program.

    Raises `UsageError` where the function names an option that the agent does not offer.
    """

    async def request(params: dict[str, Any]) -> dict[str, Any]:
        permission = _permission(params)
        answer = await decide(permission)
        if isinstance(answer, str):
            if answer not in {option.id for option in permission.options}:
                raise UsageError(
                    f"`permissions` returned `{answer}`, which is no option of the agent's",
                    "return the `id` of an option, or True or False",
                )
            return selected(answer)
        option = option_of(params.get("options"), ALLOW if answer else REJECT)
        return CANCELLED if option is None else selected(option)

    return request


def _permission(params: dict[str, Any]) -> Permission:
    call = asked_call(params)
    options = tuple(
        PermissionOption(one["optionId"], str(one.get("name", "")), str(one.get("kind", "")))
        for one in offered(params.get("options"))
    )
    return Permission(str(params.get("sessionId")), described(call)[0], options, call)


def selected(option: str) -> dict[str, Any]:
    """The answer that chooses an option by its id."""
    return {"outcome": {"outcome": "selected", "optionId": option}}


def described(call: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The tool call's title, and further lines that a person should see before allowing it."""
    title = one_line(call.get("title") or call.get("toolCallId") or "an action")
    shown = [key for key in ("description", "kind", "rawInput") if call.get(key)]
    details = [f"{key}: {one_line(call[key], 500)}" for key in shown]
    locations = call.get("locations")
    if isinstance(locations, list):
        places = [members(place).get("path") for place in locations[:_MOST_PLACES]]
        details += [one_line(path) for path in places if path]
        more = len(locations) - _MOST_PLACES
        details += [f"and {counted(more, 'other file')}"] if more > 0 else []
    return title, details


class Files:
    """Reads and writes text files below `root`; `mode` is `none`, `read` or `write`."""

    def __init__(self, root: str | os.PathLike[str], mode: str) -> None:
        self._root = os.path.realpath(root)
        self._reads = mode in ("read", "write")
        self._writes = mode == "write"

    def handlers(self) -> dict[str, Handler]:
        """The handlers of requests, by method."""
        served: dict[str, Handler] = {READ: self.read} if self._reads else {}
        return {**served, WRITE: self.write} if self._writes else served

    async def read(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serves `fs/read_text_file`. Raises `RequestError`."""
        path = self._inside(params)
        line, limit = (_positive(params, name) for name in ("line", "limit"))
        try:
            if not path.is_file():
                raise RequestError(RESOURCE_NOT_FOUND, f"no such file: {path}")
            if path.stat().st_size > LARGEST_FILE:
                raise RequestError(INVALID_PARAMS, f"{path} is larger than {LARGEST_FILE} bytes")
            # newline="": a proxy that writes the text back must not change its line ends.
            with path.open(encoding="utf-8", newline="") as file:
                text = file.read()
        except UnicodeDecodeError:
            raise RequestError(INVALID_PARAMS, f"{path} is not UTF-8 text") from None
        except OSError as error:
            raise RequestError(INTERNAL_ERROR, f"cannot read {path}: {error.strerror}") from None
        if line is None and limit is None:
            return {"content": text}
        start = (line or 1) - 1
        lines = text.splitlines(keepends=True)[start : None if limit is None else start + limit]
        return {"content": "".join(lines)}

    async def write(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serves `fs/write_text_file`; makes no folders. Raises `RequestError`."""
        path = self._inside(params)
        content = params.get("content")
        if not isinstance(content, str):
            raise RequestError(INVALID_PARAMS, "`content` must be a string")
        try:
            if path.exists() and not path.is_file():
                raise RequestError(INVALID_PARAMS, f"{path} is not a file")
            path.write_bytes(json_text.utf8(content))
        except UnicodeEncodeError:
            raise RequestError(INVALID_PARAMS, "`path` is no name that a file can have") from None
        except OSError as error:
            raise RequestError(INTERNAL_ERROR, f"cannot write {path}: {error.strerror}") from None
        return {}

    def _inside(self, params: dict[str, Any]) -> Path:
        """The path, links resolved. Raises `RequestError` if it is not below the root."""
        from pathlib import Path  # 7 ms; few turns serve files

        text = params.get("path")
        if not isinstance(text, str) or not Path(text).is_absolute() or "\0" in text:
            raise RequestError(INVALID_PARAMS, "`path` must be an absolute path")
        try:
            path = Path(text).resolve()
        except (OSError, RuntimeError) as error:
            raise RequestError(INVALID_PARAMS, f"cannot resolve {text}: {error}") from None
        if not path.is_relative_to(self._root):
            outside = f"{text} is outside the working directory {self._root}"
            raise RequestError(INVALID_PARAMS, outside)
        return path


def _positive(params: dict[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RequestError(INVALID_PARAMS, f"`{name}` must be a whole number of 0 or more")
    return value
