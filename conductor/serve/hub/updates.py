"""Updates and other notifications of a chain's: who gets them, and what a hub learns from them."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import Malformed, Params
from conductor.serve.hub import frames
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.history import STATE
from conductor.serve.hub.params import Update, inner, session_of, text_of
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.state import Call, Chain, Connection, Session
from conductor.serve.hub.turns import Turns

NAMELESS: Final = ("session/new", "session/fork")
"""Requests for a session whose id only the answer tells."""
_EARLY_BYTES: Final = 1 << 20
"""Bytes of notifications that a chain may send of sessions that nobody has heard of yet."""

_MOST_TITLE: Final = 200
_CHOICES: Final = {"current_mode_update": ("modes", "currentModeId")}
_LISTS: Final = {
    "config_option_update": "configOptions",
    "available_commands_update": "availableCommands",
}
_SET: Final = {
    "session/set_mode": ("modes", "modeId", "currentModeId"),
    "session/set_model": ("models", "modelId", "currentModelId"),
}
"""Method: the member of a session, the name of the choice in the params, and in that member."""


class Updates:
    """The part of a hub that passes on what a chain notifies of."""

    def __init__(self, floor: Floor, turns: Turns, servers: Servers) -> None:
        self._floor = floor
        self._servers = servers
        self._turns = turns

    # -- from the chain ------------------------------------------------------------------------

    def update(self, chain: Chain, seen: Update, frame: bytes, now: float) -> None:
        """A `session/update`."""
        session = chain.sessions.get(seen.session)
        if session is None:
            return self._early(chain, seen.session, seen, frame)
        to, kind = list(session.attached), seen.kind
        if session.loading is not None:  # a replay, for who asked for it
            asker = session.loading.connection
            to = [] if asker is None else [asker]
        elif (alone := self._turns.echo(session, kind)) is not None:
            if alone in session.attached:
                self._floor.tell(alone, frame, session.id)
            return None
        if kind in _CHOICES or kind in _LISTS:
            self._learn(session, kind, inner(read_members(frame), "params", "update"))
        if kind == "session_info_update":
            self._named(session, inner(read_members(frame), "params", "update"))
        session.history.add(kind, frame)
        for connection in to:
            self._floor.tell(connection, frame, session.id)
        if kind == STATE:
            self._turns.state(session, seen.state, seen.reason, now)
        return None

    def notified(self, chain: Chain, method: str, params: Params, frame: bytes) -> None:
        """Any other notification."""
        if self._servers.concerned(method):
            for connection in self._servers.of(chain, method, params):
                self._floor.tell(connection, frame, None)
            return None
        try:
            scope = session_of(params)
        except Malformed:
            return None
        if scope is not None:
            session = chain.sessions.get(scope)
            if session is None:
                return self._early(chain, scope, None, frame)
            for connection in session.attached:
                self._floor.tell(connection, frame, scope)
            return None
        to = dict.fromkeys(chain.connections)
        if method == "elicitation/complete":  # it names no session
            for session in chain.sessions.values():
                to |= dict.fromkeys(session.drivers())
        for connection in to:
            self._floor.tell(connection, frame, None)
        return None

    # -- before a session is known -------------------------------------------------------------

    def _early(self, chain: Chain, session: str, seen: Update | None, frame: bytes) -> None:
        """Keeps what comes before the answer that names its session; all else goes nowhere."""
        if not session or not any(call.method in NAMELESS for call in chain.open.values()):
            return
        chain.early_bytes += len(frame)
        if chain.early_bytes <= _EARLY_BYTES:
            chain.early.setdefault(session, []).append((seen, frame))

    def late(self, session: Session, now: float) -> None:
        """A session is known: what came before goes behind the answer that named it."""
        for seen, frame in session.chain.early.pop(session.id, ()):
            if seen is not None:
                self.update(session.chain, seen, frame, now)
            else:
                for connection in session.attached:
                    self._floor.tell(connection, frame, session.id)
        self.forget_early(session.chain)

    def forget_early(self, chain: Chain) -> None:
        """A request that would name a session is answered: it may have been the last one."""
        if not any(call.method in NAMELESS for call in chain.open.values()):
            chain.early.clear()
            chain.early_bytes = 0

    # -- what a session has --------------------------------------------------------------------

    def opened(self, session: Session, body: Raw) -> None:
        """The agent has answered what a session has: modes, options …"""
        members = read_members(body) or {}
        session.members = {
            name: raw for name, raw in members.items() if name not in ("sessionId", "_meta")
        }

    def _learn(self, session: Session, kind: str, update: dict[str, Raw]) -> bool:
        """Keeps up to date what a session has. Returns whether something has changed."""
        if kind in _CHOICES:
            member, name = _CHOICES[kind]
            return self._choose(session, member, name, update.get(name))
        name = _LISTS[kind]
        value = update.get(name)
        if value is None or (name not in session.members and session.chain.version < 2):
            return False
        changed = session.members.get(name) != value
        session.members[name] = value
        return changed

    @staticmethod
    def _choose(session: Session, member: str, name: str, value: Raw | None) -> bool:
        held = inner(session.members, member)
        if value is None or not held or held.get(name) == value:
            return False
        session.members[member] = write_members({**held, name: value})
        return True

    @staticmethod
    def _named(session: Session, update: dict[str, Raw]) -> None:
        if "title" in update:
            session.title = (text_of(update["title"]) or "")[:_MOST_TITLE]

    def set(self, call: Call, session: Session, asker: Connection | None, body: Raw) -> None:
        """A driver has chosen a mode, a model or an option: the others hear of it, unless the
        agent has sent an update of it."""
        if call.method == "session/set_config_option":
            value = (read_members(body) or {}).get("configOptions")
            kind, shown = "config_option_update", {"configOptions": value}
        else:
            member, given, name = _SET[call.method]
            value = (read_members(call.params) or {}).get(given)
            if not self._choose(session, member, name, value) or member != "modes":
                return
            kind, shown = "current_mode_update", {name: value}
            self._spread(session, asker, kind, shown)
            return
        if value is not None and self._learn(session, kind, {"configOptions": value}):
            self._spread(session, asker, kind, shown)

    def _spread(
        self,
        session: Session,
        besides: Connection | None,
        kind: str,
        shown: dict[str, Raw | None],
    ) -> None:
        frame = frames.update(session.id, kind, **shown)
        session.history.add(kind, frame)
        for connection in session.attached:
            if connection is not besides:
                self._floor.tell(connection, frame, session.id)
