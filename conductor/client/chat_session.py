"""What a chat holds of a session with the agent, and of a question that waits for the person."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from conductor.core import json_text

_MOST: Final = 1024 * 1024
"""Bytes of one thing that the agent says of a session, or asks: more is not kept."""
_MOST_CALLS: Final = 100
"""Tool calls of a session that are remembered, for questions that name no more than their id."""
_TOO_MUCH: Final = {"error": "the agent sent too much to show here"}
_CALL: Final = ("title", "kind", "content", "locations", "rawInput")
"""What a person should see of a tool call before allowing it."""

_encode: Final = json_text.encode


class Session:
    """A session with the agent, as far as a page shows it."""

    def __init__(self, id_: str, cwd: str) -> None:
        self.id = id_
        self.cwd = cwd
        self.title = ""
        self.modes: dict[str, Any] | None = None
        self.options: list[Any] = []
        """The configuration options of the session."""
        self.commands: list[Any] = []
        self.usage: dict[str, Any] | None = None
        self.running = False
        self.cancelling = False
        self.loading = False
        self.viewed = False
        """Whether the person only watches it."""
        self.waiting: list[list[dict[str, Any]]] = []
        """Prompts that are sent once no turn runs."""
        self.history: tuple[int, int] | None = None
        """The events of the trace between which the agent repeated an older session."""
        self.error = ("", "")
        """Why the last turn failed, and a hint."""
        self._calls: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def state(self) -> dict[str, Any]:
        """All that a page shows of it."""
        names = (
            *("id", "cwd", "title", "modes", "options", "commands", "usage"),
            *("running", "cancelling", "loading", "viewed", "history", "error"),
        )
        return {name: plain(getattr(self, name)) for name in names}

    def began(self, answer: Mapping[str, Any]) -> None:
        """Takes the answer to `session/new` or `session/load`."""
        modes, options = answer.get("modes"), answer.get("configOptions")
        self.modes = modes if isinstance(modes, dict) else None
        self.options = options if isinstance(options, list) else []

    def updated(self, update: dict[str, Any]) -> bool:
        """Takes an update; whether a page should know."""
        kind = update.get("sessionUpdate")
        if kind in ("tool_call", "tool_call_update"):
            self._called(update)
            return False
        if kind == "current_mode_update":
            self.mode(update.get("currentModeId"))
        elif kind == "config_option_update" and isinstance(update.get("configOptions"), list):
            self.options = update["configOptions"]
        elif kind == "available_commands_update":
            commands = update.get("availableCommands")
            self.commands = commands if isinstance(commands, list) else []
        elif kind == "session_info_update":
            title = update.get("title", self.title)
            self.title = title if isinstance(title, str) else ""
        elif kind == "prompt_received":  # of another client (docs/remote.md)
            self.running = True
        elif kind == "turn_complete":
            self.running = self.cancelling = False
        elif kind == "usage_update":
            self.usage = {name: update.get(name) for name in ("used", "size", "cost")}
        else:
            return False
        return True

    def mode(self, mode: object) -> None:
        """The session is in another mode."""
        if self.modes is not None:
            self.modes = {**self.modes, "currentModeId": mode}

    def _called(self, update: dict[str, Any]) -> None:
        id_ = update.get("toolCallId")
        if not isinstance(id_, str):
            return
        known = self._calls.pop(id_, {})
        new = {name: update[name] for name in _CALL if update.get(name) is not None}
        self._calls[id_] = {**known, **new}
        if len(self._calls) > _MOST_CALLS:
            self._calls.popitem(last=False)

    def call(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """A tool call with what earlier updates have of it."""
        known = self._calls.get(str(update.get("toolCallId")), {})
        return {**known, **{name: update[name] for name in _CALL if update.get(name) is not None}}


class Question:
    """A question of the chain for permission, which waits for the person."""

    def __init__(self, number: int, params: Mapping[str, Any], call: Mapping[str, Any]) -> None:
        self.number = number
        self.session = str(params.get("sessionId"))
        offered = params.get("options")
        self.options = [
            one
            for one in (offered if isinstance(offered, list) else [])
            if isinstance(one, dict) and isinstance(one.get("optionId"), str)
        ]
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        """The option that the person chose."""
        self.state = {
            "number": number,
            "session": self.session,
            "call": plain(dict(call)),
            "options": [
                plain({"name": one.get("name"), "kind": one.get("kind")}) for one in self.options
            ],
        }


def members(value: object) -> dict[str, Any]:
    """An object's members; empty for anything else."""
    return value if isinstance(value, dict) else {}


def plain(value: Any) -> Any:
    """A value of strangers that every page can read: bounded, and without lone surrogates."""
    try:
        return value if len(_encode(value)) <= _MOST else _TOO_MUCH
    except (UnicodeEncodeError, RecursionError):
        pass
    try:
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        return json_text.decode(text) if len(text) <= _MOST else _TOO_MUCH
    except (ValueError, RecursionError):
        return _TOO_MUCH
