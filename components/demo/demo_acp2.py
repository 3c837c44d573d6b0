"""ACP v2, the public draft: the prompt is answered when inserted, and states end the turn."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from demo_acp import INFO, MODES, OPTIONS, Json, Protocol
from demo_flags import Flags
from demo_json import dumps, raw_at
from demo_rpc import CANCELLED, RpcError

if TYPE_CHECKING:
    from demo_session import Session
    from demo_turn import Turn


class Acp2(Protocol):
    """``protocolVersion`` 2."""

    number: ClassVar[int] = 2
    methods: ClassVar[Mapping[str, str]] = {
        "initialize": "initialize",
        "auth/login": "accept",
        "auth/logout": "accept",
        "auth/status": "auth_status",
        "session/new": "new_session",
        "session/resume": "resume_session",
        "session/list": "list_sessions",
        "session/close": "close_session",
        "session/set_config_option": "set_config_option",
        "session/prompt": "prompt",
        "session/cancel": "cancel_session",
        "$/cancel_request": "cancel_request",
    }

    def initialized(self, flags: Flags) -> Json:
        """See Protocol."""
        mcp: Json = {"stdio": {}}
        mcp |= {"http": {}} if flags.http else {}
        mcp |= {"acp": {}} if flags.acp else {}
        prompt: Json = {"image": {}, "audio": {}, "embeddedContext": {}}
        return {
            "protocolVersion": 2,
            "info": INFO,
            "capabilities": {"session": {"prompt": prompt, "mcp": mcp}},
            "authMethods": [],
        }

    def setup(self, flags: Flags, session: "Session") -> Json:
        """See Protocol; modes are a config option in v2."""
        if not flags.modes:
            return {}
        option = {
            "type": "select",
            "configId": "mode",
            "name": "Mode",
            "category": "mode",
            "currentValue": session.mode,
            "options": [{"value": mode, "name": name} for mode, name in MODES.items()],
        }
        return {"configOptions": [option]}

    def client(self, initialize: Json) -> Json:
        """See Protocol. fs and terminal do not exist in v2, whatever a client says."""
        capabilities = initialize.get("capabilities")
        if not isinstance(capabilities, dict):
            return {}
        return {key: value for key, value in capabilities.items() if key not in ("fs", "terminal")}

    def message_id(self, kind: str, number: int) -> str | None:
        """See Protocol; required in v2."""
        return f"{kind}-{number}"

    def insert(self, turn: "Turn") -> None:
        """See Protocol: running, the message, and only then the answer to the request."""
        turn.state({"state": "running"})
        for update in self.user_updates(turn):
            turn.update_text(update)
        turn.respond({"messageId": turn.message_id("user")})

    def finish(self, turn: "Turn", stop_reason: str) -> None:
        """See Protocol; a prompt cancelled before it was inserted is an error."""
        if turn.inserted:
            turn.state({"state": "idle", "stopReason": stop_reason})
        else:
            turn.fail(RpcError(CANCELLED, "Request cancelled"))

    def blocked(self, turn: "Turn", waiting: bool) -> None:
        """See Protocol."""
        turn.state({"state": "requires_action" if waiting else "running"})

    def user_updates(self, turn: "Turn") -> list[str]:
        """See Protocol: one update with all blocks as they were received."""
        blocks = raw_at(turn.text, "params", "prompt") or "[]"
        message_id = dumps(turn.message_id("user"))
        head = '{"sessionUpdate":"user_message","messageId":'
        return [f'{head}{message_id},"content":{blocks}}}']

    def plan(self, entries: list[Json]) -> Json:
        """See Protocol."""
        plan = {"type": "items", "planId": "plan-1", "entries": entries}
        return {"sessionUpdate": "plan_update", "plan": plan}

    def tool_call(self, call: Json, first: bool) -> Json:
        """See Protocol; v2 has upserts only."""
        return {"sessionUpdate": "tool_call_update", **call}

    def commands(self, commands: list[tuple[str, str, str]]) -> Json:
        """See Protocol."""
        listed = [
            {
                "type": "command",
                "name": name,
                "description": text,
                **({"input": {"type": "text", "hint": hint}} if hint else {}),
            }
            for name, text, hint in commands
        ]
        return {"sessionUpdate": "available_commands_update", "availableCommands": listed}

    def permission(self, title: str, call: Json) -> Json:
        """See Protocol."""
        subject = {"type": "tool_call", "toolCall": {**call, "title": title}}
        return {"title": title, "subject": subject, "options": OPTIONS}
