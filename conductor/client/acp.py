"""The differences between the versions of ACP for a client: capabilities, requests, questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from conductor.record.turns.messages import members

VERSIONS: Final = (1, 2)
"""The versions of ACP that a person's client speaks."""


class Abilities(NamedTuple):
    """The facts in the answer to `initialize` that a person notices."""

    agent: dict[str, Any]
    """The agent's name and version."""
    image: bool
    loads: bool
    lists: bool
    attaches: bool


def abilities(answer: Mapping[str, Any]) -> Abilities:
    """Reads the answer to `initialize`."""
    if answer.get("protocolVersion") == 1:
        can = members(answer.get("agentCapabilities"))
        session = members(can.get("sessionCapabilities"))
        return Abilities(
            members(answer.get("agentInfo")),
            image=members(can.get("promptCapabilities")).get("image") is True,
            loads=can.get("loadSession") is True,
            lists=isinstance(session.get("list"), dict),
            attaches=isinstance(session.get("attach"), dict),
        )
    held = members(answer.get("capabilities")).get("session")
    session = members(held)
    return Abilities(
        members(answer.get("info")),
        image=isinstance(members(session.get("prompt")).get("image"), dict),
        loads=isinstance(held, dict),  # who has sessions resumes and lists them
        lists=isinstance(held, dict),
        attaches=isinstance(session.get("attach"), dict),
    )


def load(version: int, session: str, cwd: str) -> tuple[str, dict[str, Any]]:
    """The request that has the agent repeat a session: its method and its params."""
    params = {"sessionId": session, "cwd": cwd, "mcpServers": []}
    if version == 1:
        return "session/load", params
    return "session/resume", {**params, "replayFrom": {"type": "start"}}


def choice(version: int, session: str, option: str, value: str | bool) -> dict[str, Any]:
    """The params that set a configuration option."""
    params: dict[str, Any] = {"sessionId": session, "configId": option, "value": value}
    if isinstance(value, bool):
        return {**params, "type": "boolean"}
    return params if version == 1 else {**params, "type": "id"}


def options(answer: Mapping[str, Any]) -> list[Any]:
    """The configuration options that an answer or an update holds, each with its `id`."""
    held = answer.get("configOptions")
    return [
        {**one, "id": one["configId"]} if isinstance(one, dict) and "configId" in one else one
        for one in (held if isinstance(held, list) else [])
    ]


def asked_call(params: Mapping[str, Any]) -> dict[str, Any]:
    """The tool call that a question for permission is about."""
    subject = members(params.get("subject"))
    call = members(subject.get("toolCall") if subject else params.get("toolCall"))
    if subject.get("type") == "command":
        given = {name: subject[name] for name in ("command", "cwd") if name in subject}
        call = {"toolCallId": subject.get("toolCallId"), "kind": "execute", "rawInput": given}
    titles = {name: params[name] for name in ("title", "description") if params.get(name)}
    return {**call, **titles}


def stop_reason(end: Mapping[str, Any]) -> str:
    """Why a turn ended. `end`: the answer to its prompt, or an update that ends it. An agent of ACP
    version 2 need not say; then the turn ended as most do."""
    reason = end.get("stopReason")
    return reason if isinstance(reason, str) else "end_turn"


def stop_of(update: Mapping[str, Any]) -> dict[str, Any]:
    """The update that ends a turn. `update`: the answer to its prompt, or the update that says that
    the session is idle."""
    ended = {"sessionUpdate": "turn_complete", "stopReason": update.get("stopReason")}
    said = {name: update[name] for name in ("error", "_meta") if members(update.get(name))}
    return {**ended, **said}
