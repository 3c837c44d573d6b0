"""What is known of the sessions of a chain: their folders, the commands their agent lists, and of
sub-agents' sessions whose they are.

The engine reads it off the messages that pass. A session that an agent names by itself, for a
sub-agent, inherits what its parent has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core.policy.keys import Params
from conductor.core.policy.rights import COMMANDS_KIND, SETUP, update

_MOST: Final = 4096
_MOST_COMMANDS: Final = 1024
_DEEPEST: Final = 8
"""Levels of sub-agents of sub-agents whose parents are looked at."""
_LIST: Final = update(COMMANDS_KIND)
_SUBAGENT: Final = update("subagent_update")
LEARNT_FROM: Final = frozenset({_LIST, _SUBAGENT})
"""Keys of updates that tell something of a session."""

_MARKS: Final = "/$!#:@&~%^*+-.?"


class _Setup(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815 - the wire's names
    cwd: str = ""
    additionalDirectories: list[str] = []  # noqa: N815


class _Command(msgspec.Struct):
    name: str = ""


class _Update(msgspec.Struct):
    sessionUpdate: str = ""  # noqa: N815
    availableCommands: list[_Command] = []  # noqa: N815
    sessionId: str | None = None  # noqa: N815
    cwd: str | None = None
    additionalDirectories: list[str] | None = None  # noqa: N815


class _Told(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815
    update: _Update = msgspec.field(default_factory=_Update)


class Session(msgspec.Struct):
    """One session."""

    folders: tuple[str, ...] = ()
    """Its working directory and additional directories."""
    commands: frozenset[str] = frozenset()
    """What its agent lists as commands, as a user types them."""
    parent: str | None = None
    """The session whose sub-agent's it is."""


_NOTHING: Final = Session()


class Sessions:
    """The sessions of one chain by id; the oldest are forgotten when there are too many."""

    def __init__(self) -> None:
        self._known: dict[str, Session] = {}

    @property
    def ids(self) -> Mapping[str, Session]:
        """Every id in use."""
        return self._known

    def line(self, session: str | None) -> Iterator[str]:
        """A session, and whose sub-agent's it is, and so on."""
        for _ in range(_DEEPEST):
            if session is None:
                return
            yield session
            session = self._known.get(session, _NOTHING).parent

    def find(self, session: str | None) -> Session:
        """What is known of a session; of a sub-agent's, what its parent has."""
        line = [self._known.get(one, _NOTHING) for one in self.line(session)]
        if len(line) == 1:
            return line[0]
        folders = next((one.folders for one in line if one.folders), ())
        commands = next((one.commands for one in line if one.commands), frozenset[str]())
        return Session(folders, commands, line[0].parent if line else None)

    def set_up(self, method: str, params: Params, body: bytes) -> None:
        """A session's set-up, with these params, was answered with this result."""
        try:
            asked = msgspec.json.decode(params, type=_Setup)  # type: ignore[arg-type]
            told = msgspec.json.decode(body, type=_Setup)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            return
        name = told.sessionId or (asked.sessionId if method != "session/fork" else None)
        if name is not None:
            folders = tuple(one for one in (asked.cwd, *asked.additionalDirectories) if one)
            former = self._known.pop(name, _NOTHING)
            self._add(name, Session(folders or former.folders, former.commands))

    def learn(self, params: Params) -> None:
        """An update of a key in `LEARNT_FROM` came from the agent."""
        if not isinstance(params, Raw):
            return
        try:
            told = msgspec.json.decode(params, type=_Told)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if told.sessionId is None:
            return
        if told.update.sessionUpdate == COMMANDS_KIND:
            listed = [one.name for one in told.update.availableCommands[:_MOST_COMMANDS]]
            found = self._known.get(told.sessionId) or Session()
            found.commands = frozenset(
                name if name[:1] in _MARKS else f"/{name}" for name in listed if name
            )
            self._add(told.sessionId, found)
            return
        child = told.update.sessionId
        if child is not None and child != told.sessionId:
            folders = (told.update.cwd, *(told.update.additionalDirectories or ()))
            self._add(child, Session(tuple(filter(None, folders)), parent=told.sessionId))

    def _add(self, name: str, session: Session) -> None:
        self._known[name] = session
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]


SETUPS: Final = frozenset(SETUP)
