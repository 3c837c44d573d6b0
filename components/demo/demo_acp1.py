"""ACP v1: the shapes everybody speaks."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from demo_acp import INFO, MODES, OPTIONS, Json, Protocol
from demo_flags import Flags
from demo_json import raw_at, raw_items

if TYPE_CHECKING:
    from demo_session import Session
    from demo_turn import Turn


class Acp1(Protocol):
    """``protocolVersion`` 1."""

    number: ClassVar[int] = 1
    methods: ClassVar[Mapping[str, str]] = {
        "initialize": "initialize",
        "authenticate": "accept",
        "logout": "accept",
        "session/new": "new_session",
        "session/load": "load_session",
        "session/resume": "resume_session",
        "session/list": "list_sessions",
        "session/close": "close_session",
        "session/set_mode": "set_mode",
        "session/prompt": "prompt",
        "session/cancel": "cancel_session",
        "$/cancel_request": "cancel_request",
    }

    def initialized(self, flags: Flags) -> Json:
        """See Protocol."""
        mcp = {"http": flags.http, "acp": True} if flags.acp else {"http": flags.http}
        return {
            "protocolVersion": 1,
            "agentInfo": INFO,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
                "mcpCapabilities": mcp,
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
            },
            "authMethods": [],
        }

    def setup(self, flags: Flags, session: "Session") -> Json:
        """See Protocol."""
        if not flags.modes:
            return {}
        modes = [{"id": mode, "name": name} for mode, name in MODES.items()]
        return {"modes": {"currentModeId": session.mode, "availableModes": modes}}

    def client(self, initialize: Json) -> Json:
        """See Protocol."""
        capabilities = initialize.get("clientCapabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    def message_id(self, kind: str, number: int) -> str | None:
        """See Protocol; optional in v1, and left out."""
        return None

    def insert(self, turn: "Turn") -> None:
        """See Protocol; nothing is said about it in v1."""

    def finish(self, turn: "Turn", stop_reason: str) -> None:
        """See Protocol: the answer to the prompt, after all its updates."""
        turn.respond({"stopReason": stop_reason})

    def blocked(self, turn: "Turn", waiting: bool) -> None:
        """See Protocol; v1 does not tell."""

    def user_updates(self, turn: "Turn") -> list[str]:
        """See Protocol: one chunk a block."""
        blocks = raw_items(raw_at(turn.text, "params", "prompt") or "[]")
        head = '{"sessionUpdate":"user_message_chunk","content":'
        return [f"{head}{block}}}" for block in blocks]

    def plan(self, entries: list[Json]) -> Json:
        """See Protocol."""
        return {"sessionUpdate": "plan", "entries": entries}

    def tool_call(self, call: Json, first: bool) -> Json:
        """See Protocol."""
        return {"sessionUpdate": "tool_call" if first else "tool_call_update", **call}

    def commands(self, commands: list[tuple[str, str, str]]) -> Json:
        """See Protocol."""
        listed = [
            {"name": name, "description": text, **({"input": {"hint": hint}} if hint else {})}
            for name, text, hint in commands
        ]
        return {"sessionUpdate": "available_commands_update", "availableCommands": listed}

    def permission(self, title: str, call: Json) -> Json:
        """See Protocol."""
        return {"toolCall": {**call, "title": title}, "options": OPTIONS}
