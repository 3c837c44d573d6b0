"""Updates and other notifications of a chain: their receivers, and the hub's own use of them."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import member_at, text_of, write_members
from conductor.core.jsonrpc import Malformed, Params
from conductor.core.policy.headings import SessionUpdate
from conductor.core.policy.key_table import (
    COMMANDS_KIND,
    MCP_FAMILIES,
    MODE_KINDS,
    OPTIONS_KIND,
    STATE_KIND,
)
from conductor.core.policy.sessions import MAKES_ONE
from conductor.serve.hub import frames
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import inner, session_of
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.state import Asked, Chain, Live
from conductor.serve.hub.turns import Turns

_EARLY_BYTES: Final = 1 << 20
"""Bytes of notifications that a chain may send of sessions that nobody has heard of yet."""

_MOST_TITLE: Final = 200
_NOT_KEPT: Final = ("sessionId", "_meta")
_MODE: Final = MODE_KINDS[0]
_LISTS: Final = {
    OPTIONS_KIND: "configOptions",
    COMMANDS_KIND: "availableCommands",
}
_SUBAGENT: Final = "subagent_update"
_INFO: Final = "session_info_update"
_LEARNT: Final = frozenset((_MODE, *_LISTS, _INFO, _SUBAGENT))
_SET: Final = {
    "session/set_mode": ("modes", "modeId", "currentModeId"),
    "session/set_model": ("models", "modelId", "currentModelId"),
}
"""Method: the member of a session, the name of the choice in the params, and in that member."""


class Updates:
    """The part of a hub that passes on the notifications of a chain."""

    def __init__(self, floor: Floor, turns: Turns, servers: Servers) -> None:
        self._floor = floor
        self._servers = servers
        self._turns = turns

    # -- from the chain ------------------------------------------------------------------------

    def update(self, chain: Chain, read: SessionUpdate, frame: bytes, now: float) -> None:
        """A `session/update`."""
        name, kind = read.session or "", read.update.sessionUpdate if read.update else ""
        session = chain.live(name)
        if session is None:
            return self._early(chain, name, read, frame)
        is_its_own = name == session.id  # else a sub-agent's, for which that is not set
        to = list(session.attached)
        if session.loading is not None:  # a replay, for who asked for it
            asker = session.loading.client
            to = [] if asker is None else [asker]
        elif is_its_own and (alone := self._turns.echo(session, kind)) is not None:
            if alone in session.attached:
                self._floor.tell(alone, frame, session.id)
            return None
        if kind in _LEARNT and (is_its_own or kind == _SUBAGENT):
            self._learn(session, kind, inner(frame, "params", "update"))
        if is_its_own or kind != STATE_KIND:
            session.history.add(kind, frame)
        self._floor.tell_all(to, frame, session.id)
        if kind == STATE_KIND and is_its_own and chain.version >= 2:
            self._turns.state(session, inner(frame, "params", "update"), now)
        return None

    def notified(self, chain: Chain, method: str, params: Params, frame: bytes) -> None:
        """Any other notification."""
        if method.startswith(MCP_FAMILIES):
            return self._floor.tell_all(self._servers.of(chain, method, params), frame, None)
        try:
            scope = session_of(params)
        except Malformed:
            return None
        if scope is not None:
            session = chain.live(scope)
            if session is None:
                return self._early(chain, scope, None, frame)
            return self._floor.tell_all(session.attached, frame, session.id)
        to = dict.fromkeys(chain.clients)
        if method == "elicitation/complete":  # it names no session
            for session in chain.sessions.values():
                to |= dict.fromkeys(session.drivers())
        return self._floor.tell_all(to, frame, None)

    # -- before a session is known -------------------------------------------------------------

    @staticmethod
    def _early(chain: Chain, name: str, read: SessionUpdate | None, frame: bytes) -> None:
        """Keeps a notification that comes before the answer with its session; drops others."""
        if not name or not any(one.method in MAKES_ONE for one in chain.sent.values()):
            return
        chain.early_bytes += len(frame)
        if chain.early_bytes <= _EARLY_BYTES:
            chain.early.setdefault(name, []).append((read, frame))

    def late(self, session: Live, now: float) -> None:
        """A session is known: its notifications so far go behind the answer that named it."""
        for read, frame in session.chain.early.pop(session.id, ()):
            if read is not None:
                self.update(session.chain, read, frame, now)
            else:
                self._floor.tell_all(session.attached, frame, session.id)
        self.forget_early(session.chain)

    @staticmethod
    def forget_early(chain: Chain) -> None:
        """A request that would name a session is answered: perhaps the last such request."""
        if not any(one.method in MAKES_ONE for one in chain.sent.values()):
            chain.early.clear()
            chain.early_bytes = 0

    # -- the state of a session ---------------------------------------------------------------

    @staticmethod
    def opened(session: Live, body: Raw) -> None:
        """The agent's answer tells the state of a new session: modes, options …"""
        members = inner(body).items()
        session.members = {name: raw for name, raw in members if name not in _NOT_KEPT}

    def _learn(self, session: Live, kind: str, told: dict[str, Raw]) -> bool:
        """Keeps the state of a session up to date. Returns whether something has changed."""
        if kind == _SUBAGENT:
            session.chain.has_subagent(session, text_of(told.get("sessionId")))
            return False
        if kind == _INFO:
            if "title" in told:
                session.title = text_of(told["title"])[:_MOST_TITLE]
            return False
        name = _LISTS.get(kind)
        if name is None:
            return self._choose(session, "modes", "currentModeId", told.get("currentModeId"))
        value = told.get(name)
        if value is None or (name not in session.members and session.chain.version < 2):
            return False
        changed = session.members.get(name) != value
        session.members[name] = value
        return changed

    @staticmethod
    def _choose(session: Live, member: str, name: str, value: Raw | None) -> bool:
        held = inner(session.members.get(member))
        if value is None or not held or held.get(name) == value:
            return False
        session.members[member] = write_members({**held, name: value})
        return True

    def chosen(self, asked: Asked, _: Chain, member: bytes, body: Raw) -> None:
        """A driver has set a mode, a model or an option, or was refused. The other clients hear of
        a mode and of options, unless the agent has sent an update of them."""
        session, asker = asked.session, asked.client
        self._floor.finish(asked, member, body)
        if session is None or member == b"error" or not session.is_live:
            return
        if asked.method in _SET:
            holder, given, name = _SET[asked.method]
            value, kind = member_at(asked.params, given), _MODE
            changed = self._choose(session, holder, name, value) and holder == "modes"
        else:
            name, kind = "configOptions", OPTIONS_KIND
            value = member_at(body, name)
            changed = value is not None and self._learn(session, kind, {name: value})
        if changed:
            frame = frames.update(session.id, kind, **{name: value})
            session.history.add(kind, frame)
            others = [client for client in session.attached if client is not asker]
            self._floor.tell_all(others, frame, session.id)
