"""A session as a person's client knows it: its settings, whether a turn runs, and open questions.

Pure: messages go in, and updates to show come out. A turn ends by the update `turn_complete`,
whoever has begun it and in whichever version of ACP.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from conductor.client import acp
from conductor.client.handlers import clear, offered
from conductor.client.visit import about
from conductor.core import json_text
from conductor.errors import ConductorError
from conductor.record.turns.messages import Messages, members

_MOST: Final = 1024 * 1024
"""The most bytes of one value that the agent sends about a session, or of one question."""
_MOST_CALLS: Final = 100
"""The most tool calls of a session that are remembered, for questions that name only an id."""
_TOO_MUCH: Final = {"error": "the agent sent too much to show here"}
_CALL: Final = ("title", "kind", "content", "locations", "rawInput", "description")
"""The members of a tool call that a person should see before allowing it."""

Update = dict[str, Any]
"""An update to show, in the form of version 1 of ACP."""


class Session:
    """A session with the agent, as a person sees it."""

    def __init__(self, id_: str, cwd: str, version: int = 1) -> None:
        self.id = id_
        self.cwd = cwd
        self.version = version
        """Of ACP."""
        self.title = ""
        self.modes: dict[str, Any] | None = None
        self.options: list[Any] = []
        """The configuration options of the session."""
        self.commands: list[Any] = []
        self.usage: dict[str, Any] | None = None
        self.cancelling = False
        self.loading = False
        self.viewed = False
        """Whether the person only watches it."""
        self.waiting: list[list[dict[str, Any]]] = []
        """Prompts that are sent once no turn runs."""
        self.history: tuple[int, int] | None = None
        """The events of the trace between which the agent repeated an older session."""
        self.error: ConductorError | None = None
        """Why the last turn failed."""
        self._asked: list[str] = []
        """The texts of our prompts that have no answer."""
        self._echoes: list[str] = []
        """The prompts that the agent has not repeated, in version 2."""
        self._goes_on = False
        """Whether a turn runs beside these prompts: of others, or one with an answered prompt."""
        self._idle: Update | None = None
        """The update that said so while a prompt had no answer."""
        self._messages = Messages()
        self._calls: OrderedDict[str, dict[str, Any]] = OrderedDict()

    @property
    def running(self) -> bool:
        """Whether a turn runs."""
        return bool(self._asked) or self._goes_on

    def state(self) -> dict[str, Any]:
        """All that a page shows of it."""
        names = (
            *("id", "cwd", "title", "modes", "options", "commands", "usage"),
            *("running", "cancelling", "loading", "viewed", "history"),
        )
        error = ("", "") if self.error is None else (self.error.text, self.error.hint)
        return {name: plain(getattr(self, name)) for name in names} | {"error": error}

    # -- acts of the person --------------------------------------------------------------------

    def began(self, answer: Mapping[str, Any]) -> None:
        """Takes the answer to the request that has opened it, or attached to it."""
        modes, commands = answer.get("modes"), answer.get("availableCommands")
        self.modes = modes if isinstance(modes, dict) else None
        self.options = acp.options(answer)
        if isinstance(commands, list):
            self.commands = commands
        said = about(answer)
        if isinstance(said.get("version"), int):
            self.version = said["version"]
        self._goes_on = self._goes_on or said.get("turn") is True

    def prompted(self, blocks: list[dict[str, Any]]) -> None:
        """A prompt of the person's is on its way."""
        self.error = None
        if not self.running:
            self._idle, self._echoes = None, []
        text = _words(blocks)
        self._asked.append(text)
        self._echoes.append(text)

    def answered(self, answer: Mapping[str, Any] | None, error: Update | None) -> list[Update]:
        """Takes the answer to the oldest prompt: a result, or an error."""
        if not self._asked:  # the link was lost meanwhile
            return []
        self._asked.pop(0)
        if error is not None:
            return self._ended({"stopReason": None, "error": error})
        assert answer is not None
        if self.version == 1:
            return self._ended(answer)
        if self._idle is None:
            self._goes_on = True
            return []
        return self._ended(self._idle)

    def unlinked(self) -> None:
        """Nothing more comes: whatever runs, nobody hears of its end."""
        self._asked = []
        self._goes_on = self.cancelling = self.loading = False

    def _ended(self, end: Mapping[str, Any]) -> list[Update]:
        self.cancelling = False
        return [acp.stop_of(end)]

    # -- messages of the chain -----------------------------------------------------------------

    def take(self, update: Update) -> list[Update]:
        """Takes an update. Returns the updates to show."""
        kind = update.get("sessionUpdate")
        if kind == "state_update" and self.version > 1:
            return self._state(update)
        if kind == "prompt_received":  # of another client (docs/remote.md)
            self._goes_on = True
        elif kind == "turn_complete":
            return self._completed(update)
        elif kind == "user_message_chunk" and self._asked and not self._goes_on:
            return []  # the agent repeats the prompt that was typed here
        elif kind == "user_message" and (text := _words(update.get("content"))) in self._echoes:
            self._echoes.remove(text)
            return []
        else:
            self._known(kind, update)
        return self._messages.read(update)

    def _state(self, update: Update) -> list[Update]:
        """How a session is, in version 2."""
        if update.get("state") != "idle":
            self._goes_on, self._idle = True, None
            return []
        ran, self._goes_on = self._goes_on, False
        if self._asked:
            self._idle = update
            return []
        return self._ended(update) if ran else []

    def _completed(self, update: Update) -> list[Update]:
        """A server says that a turn of another client has ended; in version 2 the agent has said so
        before, unless it does not end that turn."""
        if self.version > 1 and (self._asked or not self._goes_on):
            return []
        self._goes_on = self.cancelling = False
        return [update]

    def _known(self, kind: object, update: Update) -> None:
        if kind in ("tool_call", "tool_call_update"):
            self._called(update)
        elif kind == "current_mode_update":
            self.mode(update.get("currentModeId"))
        elif kind == "config_option_update" and isinstance(update.get("configOptions"), list):
            self.options = acp.options(update)
        elif kind == "available_commands_update":
            commands = update.get("availableCommands")
            self.commands = commands if isinstance(commands, list) else []
        elif kind == "session_info_update":
            title = update.get("title", self.title)
            self.title = title if isinstance(title, str) else ""
        elif kind == "usage_update":
            self.usage = {name: update.get(name) for name in ("used", "size", "cost")}

    def mode(self, mode: object) -> None:
        """The session is in another mode."""
        if self.modes is not None:
            self.modes = {**self.modes, "currentModeId": mode}

    def _called(self, update: Update) -> None:
        id_ = update.get("toolCallId")
        if not isinstance(id_, str):
            return
        known = self._calls.pop(id_, {})
        new = {name: update[name] for name in _CALL if update.get(name) is not None}
        self._calls[id_] = {**known, **new}
        if len(self._calls) > _MOST_CALLS:
            self._calls.popitem(last=False)

    def call(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The tool call of a question, with the members from earlier updates."""
        known = self._calls.get(str(asked.get("toolCallId")), {})
        return {**known, **{name: asked[name] for name in _CALL if asked.get(name) is not None}}


class Question:
    """A question of the chain for permission. A client that only watches sees it without
    answering."""

    def __init__(
        self,
        number: int,
        params: Mapping[str, Any],
        session: Session,
        *,
        viewed: bool = False,
        request: object = None,
    ) -> None:
        self.number = number
        self.session = session.id
        self.viewed = viewed
        self.request = request
        """The id of a question that is only viewed, as the other client has it."""
        call = acp.asked_call(params)
        self.call_id = str(call.get("toolCallId"))
        self.call = session.call(call)
        """The tool call that the question is about."""
        self.options = offered(params.get("options"))

    def state(self) -> dict[str, Any]:
        """All that a page shows of it."""
        return {
            "number": self.number,
            "session": self.session,
            "viewed": self.viewed,
            "call": plain(self.call),
            "options": [
                plain({"name": one.get("name"), "kind": one.get("kind")}) for one in self.options
            ],
        }

    def option(self, place: int) -> str | None:
        """The id of the option at a place; None: an answer cannot name it."""
        chosen = self.options[place]
        return str(chosen["optionId"]) if chosen in clear(self.options) else None


def _words(blocks: object) -> str:
    """The texts of content blocks."""
    held = [members(block) for block in blocks] if isinstance(blocks, list) else []
    return "".join(str(block.get("text")) for block in held if block.get("type") == "text")


def plain(value: Any) -> Any:
    """A value of strangers, or in its place a note: it is too large or too deep for a page."""
    try:
        return value if len(json_text.encode(value)) <= _MOST else _TOO_MUCH
    except RecursionError:
        return _TOO_MUCH
