"""The editor that `conductor exec --editor` plays: it shows what comes, and does what its user does
by the fixture."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor import tasks
from conductor.core import json_text
from conductor.core.jsonrpc import METHOD_NOT_FOUND
from conductor.core.policy.key_table import STAMP
from conductor.editor import messages, texts
from conductor.editor.ranges import path_of, resolve
from conductor.errors import RequestError, one_line, visible

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from conductor.cli.editor_fixture import Action, Fixture
    from conductor.client.connection import Connection, Handler

_MOST: Final = 2000
"""Characters of a line that are shown."""
_MOST_FILE: Final = 16 << 20
"""Bytes of a file that is opened."""
_FAILED: Final = -32603

Prompt = tuple[str, list[dict[str, Any]]]
"""A session, and the blocks of a prompt in it."""


class PlayedEditor:
    """An editor and its user, by a fixture."""

    def __init__(self, fixture: Fixture, cwd: str, note: Callable[[str], None]) -> None:
        self._fixture = fixture
        self._cwd = cwd
        self._note = note
        self._left = list(fixture.user)
        """What the user has not done yet."""
        self._tasks: TaskGroup
        self._acting = 0
        """How many things the user is doing."""
        self._rests = asyncio.Event()
        self._rests.set()
        self._connection: Connection | None = None
        self.prompts: list[Prompt] = []
        """What the user sends because nobody took a reply."""

    @property
    def section(self) -> dict[str, Any]:
        """What it says in the client's capabilities."""
        return {"version": "1.0", **self._fixture.capabilities.model_dump()}

    def connected(self, connection: Connection) -> None:
        """Takes the connection by which the user's doings go out."""
        self._connection = connection

    @property
    def undone(self) -> list[str]:
        """What the user could not do: what it is done to was not shown."""
        return list(dict.fromkeys(one.words for one in self._left))

    async def settled(self) -> None:
        """Returns once the user has nothing more to do with what is shown."""
        await self._rests.wait()

    @contextlib.asynccontextmanager
    async def present(self) -> AsyncIterator[None]:
        """The user does things meanwhile."""
        async with tasks.group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    def handlers(self) -> Mapping[str, Handler]:
        """What it serves, by method."""
        return {
            messages.SHOW_PANEL: self._panel,
            messages.CLEAR_PANEL: self._cleared,
            messages.SHOW_COMMENT: self._comment,
            messages.CLEAR_COMMENT: self._cleared,
            messages.REPLY: self._reply,
            **dict(zip(messages.OPERATIONS, (self._list, self._describe, self._run), strict=True)),
        }

    def hears(self) -> Mapping[str, Callable[[dict[str, Any]], None]]:
        """What takes notifications, by method."""
        return {messages.LOG: self._logged}

    # -- what comes ----------------------------------------------------------------------------

    def _logged(self, params: dict[str, Any]) -> None:
        data = f" {_json(params['data'])}" if "data" in params else ""
        text = f"{params.get('level')}: {params.get('message')}{data}"
        self._note(f"log of {_owner(params)}: {one_line(text, _MOST)}")

    async def _panel(self, params: dict[str, Any]) -> dict[str, Any]:
        scripts = ", with scripts" if params.get("scripts") else ""
        title = f"panel {_named(params)}{scripts}: {one_line(params.get('label'))}"
        self._block(title, texts.of_html(str(params.get("contents"))))
        self._act("panel", params)
        return {}

    async def _comment(self, params: dict[str, Any]) -> dict[str, Any]:
        asked = msgspec.convert(params, messages.ShowComment)
        replies = ", takes replies" if asked.can_reply else ""
        title = f"comment {_named(params)}{replies}: {self._place(asked)}"
        self._block(title, str(asked.text))
        self._act("comment", params)
        return {}

    async def _reply(self, params: dict[str, Any]) -> dict[str, Any]:
        self._block(f"reply to comment {_named(params)}", str(params.get("text")))
        return {}

    async def _cleared(self, params: dict[str, Any]) -> dict[str, Any]:
        self._note(f"cleared: {_named(params)}")
        return {}

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("category")
        found = [
            {"name": name, "category": one.category, "description": one.description}
            for name, one in self._fixture.operations.items()
            if wanted in (None, one.category)
        ]
        return {"operations": found}

    async def _describe(self, params: dict[str, Any]) -> dict[str, Any]:
        one = self._operation(params)
        found = {"category": one.category, "description": one.description}
        return {"name": params["name"], **found, "inputSchema": one.inputSchema}

    async def _run(self, params: dict[str, Any]) -> Any:
        arguments = params.get("arguments", {})
        self._note(f"operation of {_owner(params)}: {params.get('name')} {_json(arguments)}")
        one = self._operation(params)
        if one.error is not None:
            raise RequestError(_FAILED, one.error)
        return one.result

    def _operation(self, params: dict[str, Any]) -> Any:
        name = params.get("name")
        if name not in self._fixture.operations:
            raise RequestError(METHOD_NOT_FOUND, f"the editor has no operation `{name}`")
        return self._fixture.operations[name]

    def _place(self, asked: messages.ShowComment) -> str:
        """The exact range in the file, from its folder; without the file, what was named."""
        assert isinstance(asked.start, messages.Position)
        shown = texts.place(str(asked.url), asked.start, asked.end, (self._cwd,))
        text = _read(path_of(str(asked.url)) or str(asked.url))
        if text is None:
            return f"{shown} (no such file)"
        begin, column, end, behind = resolve(text, asked.start, asked.end)
        return f"{shown.rpartition(':')[0]}:{begin}:{column}-{end}:{behind}"

    def _block(self, title: str, text: str) -> None:
        self._note("\n".join([title, *visible(text).splitlines()]))

    # -- what the user does --------------------------------------------------------------------

    def _act(self, kind: str, params: dict[str, Any]) -> None:
        """Has the user do what the fixture says, now that this is shown."""
        ready = [one for one in self._left if getattr(one, kind) == params.get("id")]
        if not ready:
            return
        self._left = [one for one in self._left if one not in ready]
        self._acting += 1
        self._rests.clear()
        self._tasks.start_soon(self._do_all, str(params.get("sessionId")), kind, ready)

    async def _do_all(self, session: str, kind: str, actions: list[Action]) -> None:
        try:
            await self._do(session, kind, actions)
        finally:
            self._acting -= 1
            if not self._acting:
                self._rests.set()

    async def _do(self, session: str, kind: str, actions: list[Action]) -> None:
        await asyncio.sleep(0)  # until the answer to what is shown has gone out
        assert self._connection is not None
        for one in actions:
            named = {"sessionId": session, "id": getattr(one, kind)}
            if one.reply is not None:
                method, params = messages.REPLY, {**named, "text": one.reply}
            else:
                method = messages.PANEL_EVENT if kind == "panel" else messages.COMMENT_EVENT
                data = {} if one.data is None else {"data": one.data}
                params = {**named, "name": one.event, **data}
            try:
                answer = await self._connection.request(method, params)
            except RequestError as error:
                self._note(f"the user's {one.words} is refused: {one_line(error.message, _MOST)}")
                continue
            self._done(one, answer)

    def _done(self, one: Action, answer: dict[str, Any]) -> None:
        prompt = answer.get("prompt") if one.reply is not None else None
        if isinstance(prompt, list):
            self.prompts.append((str(answer.get("sessionId")), prompt))
            self._note(f"the user's {one.words} becomes a prompt")
        else:
            shown = f": {_json(answer)}" if answer else ""
            self._note(f"the user's {one.words} is answered{shown}")


def _read(path: str) -> str | None:
    """The text of a file; None: there is no ordinary file of a size that an editor opens."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _MOST_FILE:
            return None
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None


def _owner(params: dict[str, Any]) -> str:
    meta = params.get("_meta")
    return f"`{one_line((meta if isinstance(meta, dict) else {}).get(STAMP, 'nobody'))}`"


def _named(params: dict[str, Any]) -> str:
    return f"`{one_line(params.get('id'))}` of {_owner(params)}"


def _json(value: object) -> str:
    return one_line(json_text.encode(value).decode(), _MOST)
