"""Logins by terminal: a client starts the agent's command with arguments that the agent offers.

To the client the agent's command is this conductor. So an argument of the conductor's own goes in
front of the agent's: the arguments behind it are for the command of the agent that it names
(`conductor.cli.agent_login`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from conductor.core import json_text
from conductor.core.effects import LogLine
from conductor.core.json_text import elements, member_at, read_members, text_of, write_members
from conductor.core.parts import Part, Parts

if TYPE_CHECKING:
    from conductor.core.state import Peer

FLAG: Final = "--agent-login="
"""The prefix of the argument in front of the agent's arguments; the agent's name follows."""

_METHODS: Final = "authMethods"
_META: Final = "_meta"
_OLD_FORM: Final = "terminal-auth"
"""The member of `_meta` for logins by terminal from before ACP had them: a client that has it is
offered a whole command, which it runs as it is."""
_NOTHING: Final = (None, Raw(b"false"), Raw(b"null"))

_ELSEWHERE: Final = "works only where the agent runs: log in there"
_NO_TERMINAL: Final = "needs a client that can start it in a terminal, and this one cannot"
_NOT_ITS_OWN: Final = "is none that the agent offers"


class Logins(Part):
    """The logins of the agent, as the client gets them."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._topology = parts.exchange.topology

    def shown(self, member: bytes, body: Raw | bytes) -> Raw | bytes:
        """A result of `initialize`, or an error, as the client gets it."""
        if member == b"result":
            return self._usable_in(body)
        if _METHODS.encode() not in bytes(body) and b"\\u" not in bytes(body):
            return body
        error = read_members(body) or {}
        data = error.get("data", Raw(b"null"))
        usable = self._usable_in(data, logs=False)
        return body if usable is data else write_members({**error, "data": Raw(usable)})

    def _usable_in(self, holder: Raw | bytes, *, logs: bool = True) -> Raw | bytes:
        """An object with the logins that the client can use; the same one if nothing changes."""
        members = read_members(holder) or {}
        usable = {
            name: self._usable_of(listed, logs)
            for name, listed in members.items()
            if name.lower() == _METHODS.lower()
        }
        if all(members[name] is listed for name, listed in usable.items()):
            return holder
        return write_members({**members, **usable})

    def _usable_of(self, listed: Raw, logs: bool) -> Raw:
        agent = self._topology.agent
        methods, kept = elements(listed), list[Raw]()
        for method in methods:
            usable = self._usable(method, agent)
            if isinstance(usable, Raw):
                kept.append(usable)
            elif logs:
                name = text_of(member_at(method, "name"))
                self._exchange.emit(LogLine("warning", agent.name, f"the login `{name}` {usable}"))
        # An agent elsewhere is a stranger: its list must read the same to every client.
        same = kept == methods and agent.component.logins
        return listed if same else Raw(json_text.encode(kept))

    def _usable(self, method: Raw, agent: Peer) -> Raw | str:
        """A login as the client can use it, or why it cannot."""
        members = read_members(method) or {}
        if not agent.component.logins:
            return _ELSEWHERE if _starts_something(members) else write_members(members)
        if text_of(members.get("type")) != "terminal":
            return method
        if not _has_terminal(read_members(self._topology.upstream.passed) or {}):
            return _NO_TERMINAL
        if _id(members) not in _offered(agent):
            return _NOT_ITS_OWN
        ours = Raw(json_text.encode(FLAG + agent.name))
        args = [ours, *elements(members.get("args"))]
        return write_members({**members, "args": Raw(json_text.encode(args))})


def _starts_something(members: dict[str, Raw]) -> bool:
    """Whether a client may find a command in a login: some clients take names in any case."""
    names = {name.lower(): value for name, value in members.items()}
    old = _OLD_FORM in (read_members(names.get(_META)) or {})
    return old or "args" in names or text_of(names.get("type")).lower() == "terminal"


def _has_terminal(params: dict[str, Raw]) -> bool:
    """Whether the client that sent these params of `initialize` has logins by terminal."""
    return any(
        member_at(params.get(name), *path) not in _NOTHING
        for name in ("clientCapabilities", "capabilities")
        for path in (("auth", "terminal"), (_META, _OLD_FORM))
    )


def _offered(agent: Peer) -> Sequence[str]:
    """The ids of the logins by terminal that an agent has offered."""
    _, result = agent.answered or (b"", b"")
    listed = elements(member_at(result, _METHODS))
    each = [read_members(method) or {} for method in listed]
    return [_id(members) for members in each if text_of(members.get("type")) == "terminal"]


def _id(members: dict[str, Raw]) -> str:
    """The id of a login: `id` in ACP v1, `methodId` in v2."""
    return text_of(members.get("id", members.get("methodId")))
