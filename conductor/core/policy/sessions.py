"""What is known of the sessions of a chain: their folders, the commands their agent lists, and of
sub-agents' sessions whose they are.

The engine reads it off the messages that pass. A session that an agent names by itself, for a
sub-agent, inherits what its parent has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from conductor.core.guards.commands import spelled
from conductor.core.policy.keys import Params
from conductor.core.policy.rights import COMMANDS_KIND, update
from conductor.core.topology import Role

if TYPE_CHECKING:
    from conductor.core.effects import Effect
    from conductor.core.link import Pending

_MOST: Final = 4096
_MOST_LISTED: Final = 1024
_DEEPEST: Final = 8
"""Levels of sub-agents of sub-agents whose parents are looked at."""
_LIST: Final = update(COMMANDS_KIND)
_SUBAGENT: Final = update("subagent_update")
_OPTIONS_KIND: Final = "config_option_update"
LEARNT_FROM: Final = frozenset({_LIST, _SUBAGENT, update(_OPTIONS_KIND)})
"""Keys of updates that tell something of a session."""


class _Setup(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815 - the wire's names
    cwd: str = ""
    additionalDirectories: list[str] = []  # noqa: N815


class _Named(msgspec.Struct):
    """A mode, a model, an option or a command."""

    id: str | None = None
    modelId: str | None = None  # noqa: N815
    configId: str | None = None  # noqa: N815
    name: str = ""


class _Modes(msgspec.Struct):
    availableModes: list[_Named] = []  # noqa: N815
    availableModels: list[_Named] = []  # noqa: N815


class _Result(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815
    modes: _Modes | None = None
    models: _Modes | None = None
    configOptions: list[_Named] | None = None  # noqa: N815
    availableCommands: list[_Named] | None = None  # noqa: N815


class _Update(msgspec.Struct):
    sessionUpdate: str = ""  # noqa: N815
    availableCommands: list[_Named] | None = None  # noqa: N815
    configOptions: list[_Named] | None = None  # noqa: N815
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
    modes: frozenset[str] = frozenset()
    """The ids of the modes, models and options that its agent lists."""
    parent: str | None = None
    """The session whose sub-agent's it is."""
    opened_by: str = ""
    """The component that answered its set-up; empty: the agent."""
    client: str = ""
    """The component that asked for it; empty: the user's client."""


_NOTHING: Final = Session()


class Sessions:
    """The sessions of one chain by id; the oldest are forgotten when there are too many."""

    def __init__(self) -> None:
        self._known: dict[str, Session] = {}

    @property
    def ids(self) -> Mapping[str, Session]:
        """Every id in use."""
        return self._known

    @property
    def folders(self) -> tuple[str, ...]:
        """Those that any session works in but such as components have opened by themselves."""
        known = [one for one in self._known.values() if not one.opened_by]
        return tuple({folder for one in known for folder in one.folders})

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
        modes = next((one.modes for one in line if one.modes), frozenset[str]())
        return Session(folders, commands, modes, line[0].parent if line else None)

    def opened_by(self, component: str) -> frozenset[str]:
        """The sessions whose set-up a component answered by itself."""
        return frozenset(id_ for id_, one in self._known.items() if one.opened_by == component)

    def follow(self, method: str, params: Params, pending: Pending) -> None:
        """A session's set-up goes on with these params: takes note of the session when that is
        answered."""

        asker = pending.origin.peer.name if pending.own and pending.origin is not None else ""

        def answered(member: bytes, body: bytes, out: list[Effect]) -> None:
            target = pending.target
            if member == b"result" and target is not None:
                by_itself = target.peer.name if target.peer.role is Role.PROXY else ""
                self.set_up(method, params, body, by_itself, asker)

        pending.watchers = (*pending.watchers, answered)

    def set_up(
        self, method: str, params: Params, body: bytes, opened_by: str = "", client: str = ""
    ) -> None:
        """A session's set-up, with these params, was answered with this result: by its agent, or by
        the component `opened_by`, whose answer changes nothing of a session that is known. The
        component `client` asked for it, or if that is empty the user's client."""
        try:
            asked = msgspec.json.decode(params, type=_Setup)  # type: ignore[arg-type]
            told = msgspec.json.decode(body, type=_Result)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
            return
        name = told.sessionId or (asked.sessionId if method != "session/fork" else None)
        if name is None or (opened_by and name in self._known):
            return
        folders = tuple(one for one in (asked.cwd, *asked.additionalDirectories) if one)
        former = self._known.pop(name, _NOTHING)
        found = Session(folders or former.folders, former.commands, opened_by=opened_by)
        # A component does not take over a session that is known, the user's client does.
        found.client = former.client if client and former is not _NOTHING else client
        found.modes = former.modes | _ids(told.configOptions)
        for listed in (told.modes, told.models):
            if listed is not None:
                found.modes |= _ids(listed.availableModes) | _ids(listed.availableModels)
        if told.availableCommands is not None:
            found.commands = _commands(told.availableCommands)
        self._add(name, found)

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
        kind = told.update.sessionUpdate
        if kind in (COMMANDS_KIND, _OPTIONS_KIND):
            found = self._known.get(told.sessionId) or Session()
            if kind == COMMANDS_KIND:
                found.commands = _commands(told.update.availableCommands)
            else:
                found.modes |= _ids(told.update.configOptions)
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


def _ids(listed: list[_Named] | None) -> frozenset[str]:
    found = ((one.id, one.modelId, one.configId) for one in (listed or ())[:_MOST_LISTED])
    return frozenset(id_ for ids in found for id_ in ids if id_ is not None)


def _commands(listed: list[_Named] | None) -> frozenset[str]:
    names = (one.name for one in (listed or ())[:_MOST_LISTED])
    return frozenset(map(spelled, filter(None, names)))
