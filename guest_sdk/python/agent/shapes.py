"""The differences between versions 1 and 2 of ACP, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .options import MODE, Option, Select

if TYPE_CHECKING:
    from .declared import Agent

Json = dict[str, Any]


class V1:
    """`protocolVersion` 1."""

    number: Final[int] = 1
    methods: Final = ("session/load", "session/set_mode")
    """Methods of this version alone."""

    @staticmethod
    def initialized(agent: Agent) -> Json:
        """The result of `initialize`."""
        sessions: Json = {"close": {}}
        if agent.lister is not None:
            sessions["list"] = {}
        if agent.loader is not None:
            sessions["resume"] = {}
        return {
            "protocolVersion": 1,
            "agentInfo": agent.info,
            "agentCapabilities": {
                "loadSession": agent.loader is not None,
                "promptCapabilities": {one: one in agent.takes for one in TAKES},
                "mcpCapabilities": {"http": True, "acp": True},
                "sessionCapabilities": sessions,
            },
            "authMethods": [],
        }

    @staticmethod
    def client(params: Json) -> Any:
        """The client's capabilities."""
        return params.get("clientCapabilities")

    @staticmethod
    def options(options: dict[str, Option], values: Json) -> Json:
        """The members that show the choices: modes, which have a form of their own, and the
        rest."""
        shown: Json = {}
        mode = options.get(MODE)
        if isinstance(mode, Select):
            known = [{"id": one, "name": name} for one, name in mode.values.items()]
            shown["modes"] = {"currentModeId": values[MODE], "availableModes": known}
        rest = _options(options, values, "id", skip=MODE)
        return {**shown, "configOptions": rest} if rest else shown

    @staticmethod
    def option_changed(options: dict[str, Option], values: Json, name: str) -> Json:
        """The update after the agent has changed an option."""
        if name == MODE:
            return {"sessionUpdate": "current_mode_update", "currentModeId": values[MODE]}
        rest = _options(options, values, "id", skip=MODE)
        return {"sessionUpdate": "config_option_update", "configOptions": rest}

    @staticmethod
    def tool_call(call: Json, *, first: bool) -> Json:
        """The update that begins or changes a tool call."""
        return {"sessionUpdate": "tool_call" if first else "tool_call_update", **call}

    @staticmethod
    def plan(entries: list[Json]) -> Json:
        """The update with the whole plan."""
        return {"sessionUpdate": "plan", "entries": entries}

    @staticmethod
    def permission(title: str, call: Json) -> Json:
        """The question among the params of `session/request_permission`."""
        return {"toolCall": {"title": title, **call}}

    @staticmethod
    def user(blocks: list[Json], message_id: str) -> list[Json]:
        """The updates that show the words of the user."""
        kind = "user_message_chunk"
        return [{"sessionUpdate": kind, "content": block} for block in blocks]


class V2:
    """`protocolVersion` 2, the public draft."""

    number: Final[int] = 2
    methods: Final = ()

    @staticmethod
    def initialized(agent: Agent) -> Json:
        """The result of `initialize`."""
        session: Json = {
            "prompt": {one: {} for one in agent.takes},
            "mcp": {"stdio": {}, "http": {}, "acp": {}},
        }
        return {
            "protocolVersion": 2,
            "info": agent.info,
            "capabilities": {"session": session},
            "authMethods": [],
        }

    @staticmethod
    def client(params: Json) -> Any:
        """The client's capabilities."""
        return params.get("capabilities")

    @staticmethod
    def options(options: dict[str, Option], values: Json) -> Json:
        """The member that shows the choices; a mode is an option like all others."""
        shown = _options(options, values, "configId")
        return {"configOptions": shown} if shown else {}

    @staticmethod
    def option_changed(options: dict[str, Option], values: Json, name: str) -> Json:
        """The update after the agent has changed an option."""
        return {"sessionUpdate": "config_option_update", **V2.options(options, values)}

    @staticmethod
    def tool_call(call: Json, *, first: bool) -> Json:
        """The update that begins or changes a tool call."""
        return {"sessionUpdate": "tool_call_update", **call}

    @staticmethod
    def plan(entries: list[Json]) -> Json:
        """The update with the whole plan."""
        plan = {"type": "items", "planId": "plan", "entries": entries}
        return {"sessionUpdate": "plan_update", "plan": plan}

    @staticmethod
    def permission(title: str, call: Json) -> Json:
        """The question among the params of `session/request_permission`."""
        return {"title": title, "subject": {"type": "tool_call", "toolCall": call}}

    @staticmethod
    def user(blocks: list[Json], message_id: str) -> list[Json]:
        """The updates that show the words of the user."""
        return [{"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}]


Shape = type[V1] | type[V2]
TAKES: Final = ("image", "audio", "embeddedContext")
"""The types that a prompt may hold besides text and links, where an agent declares them."""


def _options(options: dict[str, Option], values: Json, key: str, skip: str = "") -> list[Json]:
    return [
        {
            key: one.id,
            "name": one.name,
            **({"category": one.category} if one.category else {}),
            **one.shown(values[one.id]),
        }
        for one in options.values()
        if one.id != skip
    ]
