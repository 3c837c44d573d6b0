"""The sessions of an agent that may be started again: how each was set up, and its settings.

The records are kept as the agent knows the sessions: under the agent's ids, with the MCP servers of
components, and with the sessions that components have opened.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import json_text
from conductor.core.guards import modes
from conductor.core.guards.modes import Settings, Which, choice
from conductor.core.guards.reading import Json, value_of
from conductor.core.json_text import has_object, member_at, read_members, text_of, write_members
from conductor.core.jsonrpc import Params, or_empty
from conductor.core.policy.key_table import CLOSING, MODE_KINDS, SETTINGS, SETUP
from conductor.core.roles.initialize_params import version_of

_MOST: Final = 4096
"""The most sessions; the session that was set up first is forgotten first."""
_MOST_CHOICES: Final = 256
"""The most settings of one session."""

_NEW, _LOAD, _RESUME, _FORK = SETUP
LOGINS: Final = ("authenticate", "auth/login")
_LOGOUTS: Final = ("logout", "auth/logout")
_SESSION: Final = "sessionId"
_META: Final = "_meta"
_ONCE: Final = ("replayFrom", "cursorId")
"""Members of a set-up that are about that request alone."""
_HISTORY: Final = "conductor.conversation/history"
_MODES: Final = tuple(kind.encode() for kind in MODE_KINDS)

_USER: Final = b'"user_message_chunk"'
_PASSING: Final = (b'"state_update"', b'"replay_complete"', b'"prompt_suggestions_update"')
"""Kinds that are no part of a conversation that is shown again."""
_MOST_MISSED: Final = 16 * 1024 * 1024
"""The most bytes of missed updates that the client gets."""

UNABLE: Final = "it cannot take its sessions up again"
NOT_BEGUN: Final = "it has not answered `initialize` yet"


class Step(NamedTuple):
    """A request by which an agent gets where it was."""

    method: str
    params: Raw


class AgentHas(Enum):
    """Whether an agent has a session."""

    NOT_YET = "the agent is to load the session"
    OPEN = "the agent has the session open"
    REFUSED = "the agent did not take the session up again after a restart"


class Shown:
    """The updates of a session that an agent has shown: their count, and a hash of them."""

    __slots__ = ("count", "print")

    def __init__(self) -> None:
        self.count = self.print = 0

    def takes(self, text: bytes) -> None:
        """The agent shows an update."""
        if _USER not in text and not any(kind in text for kind in _PASSING):
            self.count += 1
            self.print = hash((self.print, text))


class AgentSession(msgspec.Struct, eq=False):
    """A session, as the agent knows it."""

    state: AgentHas = AgentHas.NOT_YET
    setup: dict[str, Raw] = {}
    """The params by which it was set up last, without the id: another agent may go on with it."""
    choices: dict[Which, Json] = {}
    """The settings made in it since, the last at the end: ids of modes, values of options."""
    shown: Shown | None = None
    """The updates that the agent has shown since its beginning; None: the agent has one client."""
    refusal: str = ""
    """The agent's words when it did not take the session up again."""


class Again:
    """A conversation that an agent shows again. If it begins with the updates that the client has
    seen, the client has missed the rest.

    Attributes:
        missed: The updates of the rest, from behind the user's words that the client has sent
            itself.
    """

    def __init__(self, shown: Shown) -> None:
        self.missed: list[Raw] = []
        self._seen, self._shown = shown, Shown()
        self._room = _MOST_MISSED

    def takes(self, params: Raw) -> None:
        """The agent shows an update again."""
        text = bytes(params)
        if any(kind in text for kind in _PASSING) or (_USER in text and not self.missed):
            return
        if self._shown.count < self._seen.count:
            self._shown.takes(text)
        elif self._shown.print == self._seen.print and len(text) <= self._room:
            self._room -= len(text)
            self.missed.append(Raw(text))


class AgentSessions:
    """The sessions of one agent, by id, and how it was initialized."""

    def __init__(self) -> None:
        self.initialize: Params = UNSET
        """The params of the last `initialize`."""
        self.version: int | None = None
        """The version in the agent's answer to it; None: it has not answered yet."""
        self.login: Step | None = None
        """The client's last request to log in that went well."""
        self.opens_by = ""
        """The method by which it takes a session up again; empty: it cannot."""
        self.is_exact = False
        """Whether it shows a conversation again as it was: it has several clients."""
        self.again: Again | None = None
        """The conversation that it shows again, of the session that it takes up now."""
        self._known: dict[str, AgentSession] = {}
        """The sessions by id; those that were set up last are at the end."""
        self.returning: deque[str] = deque()
        """The sessions that it is to take up again after a restart, the first of them now."""

    @property
    def open(self) -> list[str]:
        """The sessions that it has open."""
        return [name for name, known in self._known.items() if known.state is AgentHas.OPEN]

    @property
    def unable(self) -> str | None:
        """Why the agent could not go on where it was, were it started again; None: it could."""
        if self.version is None:
            return NOT_BEGUN
        return None if self.opens_by else UNABLE

    def initialized(self, params: Params, result: bytes) -> None:
        """The agent has answered `initialize`."""
        self.initialize, self.opens_by = params, opens_by(result)
        self.version = version_of(read_members(result) or {})
        self.is_exact = _is_exact(result)

    # -- messages to the agent, and from it ------------------------------------------------------

    def why_lost(self, method: str, params: Raw | bytes | UnsetType) -> str | None:
        """Why the agent does not get a request: its words when it did not take the session up
        again. None: it gets the request, as it gets each that sets the session up or closes it."""
        if method in SETUP or method in CLOSING:
            return None
        known = self._known.get(text_of(member_at(params, _SESSION)))
        return known.refusal if known is not None and known.state is AgentHas.REFUSED else None

    def asked(self, method: str, params: Raw | bytes | UnsetType) -> bool:
        """The agent gets a request; returns whether its answer counts."""
        if method in _LOGOUTS:
            self.login = None
        if method in CLOSING:
            self.forgets(text_of(member_at(params, _SESSION)))
        elif method == _LOAD and self.is_exact:
            self._record(text_of(member_at(params, _SESSION))).shown = Shown()
        return method in SETUP or method in SETTINGS or method in LOGINS

    def done(self, method: str, params: Raw | bytes | UnsetType, result: bytes) -> None:
        """The agent has done a request whose answer counts (`asked`)."""
        if method in LOGINS:
            self.login = Step(method, Raw(bytes(or_empty(params))))
        elif method in SETUP:
            self._set_up(method, read_members(params) or {}, result)
        else:
            self._choose(params, modes.asked(method, value_of(params)))

    def _set_up(self, method: str, params: dict[str, Raw], body: bytes) -> None:
        named = (read_members(body) or {}) if method in (_NEW, _FORK) else params
        session = text_of(named.get(_SESSION))
        if not session:
            return
        # Not views of a whole message.
        setup = {name: Raw(bytes(value)) for name, value in params.items() if name != _SESSION}
        for name in _ONCE:
            setup.pop(name, None)
        meta = read_members(setup.get(_META))
        if meta is not None and meta.pop(_HISTORY, None) is not None:
            setup[_META] = write_members(meta)
        known = self._record(session)
        known.state, known.setup, known.choices = AgentHas.OPEN, setup, {}
        if method == _NEW and self.is_exact:
            known.shown = Shown()

    def _record(self, session: str) -> AgentSession:
        """The record of a session, which is the latest from now on."""
        known = self._known.pop(session, None) or AgentSession()
        self._known[session] = known
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return known

    def forgets(self, session: str) -> None:
        """A session need not go on."""
        self._known.pop(session, None)

    def setup(self, session: str) -> AgentSession | None:
        """A session as it was set up last, also if it is lost; None: nobody has seen its set-up."""
        known = self._known.get(session)
        return None if known is None or known.state is AgentHas.NOT_YET else known

    def _choose(self, params: Raw | bytes | UnsetType, chosen: Settings) -> None:
        """Keeps settings that were made in the session that `params` name."""
        session = self._known.get(text_of((read_members(params) or {}).get(_SESSION)))
        if session is None or session.state is not AgentHas.OPEN:
            return
        for which, value in chosen.items():
            session.choices.pop(which, None)
            session.choices[which] = value
            if len(session.choices) > _MOST_CHOICES:
                del session.choices[next(iter(session.choices))]

    def showed(self, session: str, params: Raw) -> None:
        """The client has got an update of a session."""
        known = self._known.get(session)
        if known is not None and known.shown is not None:
            known.shown.takes(bytes(params))

    def updated(self, params: Raw) -> None:
        """The agent has sent an update: it may have changed a setting by itself."""
        text = bytes(params)
        if not any(kind in text for kind in _MODES):
            return
        update = read_members(member_at(params, "update")) or {}
        if text_of(update.get("sessionUpdate")) in MODE_KINDS:
            self._choose(params, modes.shown(value_of(write_members(update))))

    # -- after a restart -------------------------------------------------------------------------

    def opening(self, session: str) -> Step:
        """The request that takes a session up again."""
        known = self._known[session]
        self.again = Again(known.shown) if known.shown is not None else None
        setup = {_SESSION: _json(session), **known.setup}
        if self.opens_by == _RESUME and self.is_exact:
            setup["replayFrom"] = Raw(b'{"type":"start"}')
        return Step(self.opens_by, write_members(setup))

    def shows_again(self, session: str | None, params: Params) -> bool:
        """Whether an update belongs to the conversation so far. If the agent takes up its session
        now, it may be an update that the client has missed."""
        if session not in self.returning:
            return False
        if self.again is not None and session == self.returning[0] and isinstance(params, Raw):
            self.again.takes(params)
        return True

    def missed(self, session: str) -> list[Raw]:
        """The updates that the client has missed in the session that the agent has taken up."""
        again, self.again = self.again, None
        found = again.missed if again is not None else []
        for params in found:
            self.showed(session, params)
        return found

    def settings(self, session: str, result: bytes) -> list[Step]:
        """The requests for the settings that differ, by the agent's answer when it took the session
        up."""
        shown = modes.shown(value_of(result))
        return [
            Step(which[0], choice(session, which, value, self.version))
            for which, value in self._known[session].choices.items()
            if which not in shown or shown[which] != value
        ]

    def refused(self, session: str, why: str) -> None:
        """The agent did not take a session up again."""
        known = self._record(session)
        known.state, known.refusal = AgentHas.REFUSED, why


def opens_by(result: bytes) -> str:
    """The method by which an agent takes a session up again, by its answer to `initialize`; empty:
    it cannot. An agent that can do so without showing the conversation again need not show it,
    unless the client may have missed a part."""
    if version_of(read_members(result) or {}) == 2:
        return _RESUME if has_object(result, "capabilities", "session") else ""
    loads = member_at(result, "agentCapabilities", "loadSession") == Raw(b"true")
    resumes = has_object(result, "agentCapabilities", "sessionCapabilities", "resume")
    if resumes and not (loads and _is_exact(result)):
        return _RESUME
    return _LOAD if loads else ""


def _is_exact(result: bytes) -> bool:
    """Whether an agent has several clients, by its answer to `initialize`."""
    places = (("agentCapabilities", "sessionCapabilities"), ("capabilities", "session"))
    return any(has_object(result, *place, "attach") for place in places)


def _json(value: Any) -> Raw:
    return Raw(json_text.encode(value))
