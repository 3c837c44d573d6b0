"""What the engine knows of sessions: where they work, what their agent lists, whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from conductor.core.component import Role
from conductor.core.effects import Effect
from conductor.core.guards import modes
from conductor.core.guards.commands import spelled
from conductor.core.guards.every_message import SESSION_NAMES
from conductor.core.guards.reading import Json, Unreadable, canonical, pairs, read
from conductor.core.jsonrpc import Params
from conductor.core.policy.key_table import COMMANDS_KIND, PROMPT, SETUP, update
from conductor.core.state import PendingRequest

_MOST: Final = 4096
"""Sessions of one owner: the user's, or those that one component has opened."""
_MOST_LISTED: Final = 4096
"""Ids of modes and options of one session that its agent has listed, or that one component has."""
_DEEPEST: Final = 8
"""Levels of sub-agents of sub-agents whose parents are looked at."""
_OPTIONS_KIND: Final = "config_option_update"
_SUBAGENT_KIND: Final = "subagent_update"
_SET_OPTION: Final = "session/set_config_option"
_MAKES_ONE: Final = ("session/new", "session/fork")

LEARNT_FROM: Final = frozenset(map(update, (COMMANDS_KIND, _SUBAGENT_KIND, _OPTIONS_KIND)))
"""Keys of updates that tell something of a session."""
ENTERING: Final = frozenset({*SETUP, PROMPT})
"""The requests by which a client sets a session up, or works in it."""
FOLLOWED: Final = frozenset({*SETUP, _SET_OPTION})
"""The requests whose results tell something of a session."""


class Session(msgspec.Struct):
    """One session."""

    folders: tuple[str, ...] = ()
    """Its working directory and additional directories."""
    commands: frozenset[str] = frozenset()
    """What its agent lists as commands, as a user types them."""
    modes: frozenset[str] = frozenset()
    """The ids of the modes, models and options that its agent lists."""
    options: tuple[str, ...] = ()
    """The agent's options as it has last listed them, each as canonical text."""
    added: dict[str, frozenset[str]] = {}
    """The ids of the modes and options that components have added, by component."""
    parent: str | None = None
    """The session whose sub-agent's it is."""
    opened_by: str = ""
    """The component that answered its set-up; empty: the agent."""
    client: str = ""
    """The component for which the agent made it; empty: the user's client. Once the user's client
    enters it, the session is the user's."""


_NOTHING: Final = Session()


class Sessions:
    """The sessions of one chain by id. Of too many of one owner the oldest is forgotten."""

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
        if len(line) < 2:
            return line[0] if line else _NOTHING
        return msgspec.structs.replace(
            line[0],
            folders=next((one.folders for one in line if one.folders), ()),
            commands=next((one.commands for one in line if one.commands), frozenset[str]()),
            modes=next((one.modes for one in line if one.modes), frozenset[str]()),
        )

    def own(self, component: str) -> dict[str, tuple[str, ...]]:
        """The sessions that a component has opened, or whose set-up it has answered by itself, with
        their folders."""
        return {
            id_: one.folders
            for id_, one in self._known.items()
            if component in (one.opened_by, one.client)
        }

    def is_client(self, component: str, session: str | None) -> bool:
        """Whether the agent made a session, or whose sub-agent's it is, for a component."""
        line = (self._known.get(one, _NOTHING) for one in self.line(session))
        return any(one.client == component for one in line)

    # -- set-ups -------------------------------------------------------------------------------

    def follow(self, method: str, params: Params, pending: PendingRequest) -> None:
        """A request of `FOLLOWED` goes on with these params: takes note of what its result says.

        What a policed component answers by itself is `set_up` where it does."""
        asker = _asker(pending)

        def answered(member: bytes, body: bytes, out: list[Effect]) -> None:
            target = pending.target
            if member != b"result" or target is None:
                return
            peer = target.peer
            if method == _SET_OPTION:
                if peer.role is not Role.PROXY:
                    self._options(_names(_json(params)), _json(body))
            elif peer.role is not Role.PROXY:
                self.set_up(method, params, body, client=asker)
            elif peer.policy_state is None or not peer.policy_state.enforced:
                self.set_up(method, params, body, peer.name)

        pending.watchers = (*pending.watchers, answered)

    def set_up(
        self, method: str, params: Params, body: bytes, opened_by: str = "", client: str = ""
    ) -> None:
        """A session's set-up, with these params, was answered with this result: by its agent, or by
        the component `opened_by`, whose answer changes nothing of a session that is known.

        A new session that the agent makes for a component is that component's, its `client`.
        """
        asked, told = _json(params), _json(body)
        named = _names(told) or (_names(asked) if method != "session/fork" else [])
        if not named or (opened_by and named[0] in self._known):
            return
        name = named[0]
        former = self._known.pop(name, _NOTHING)
        folders = _folders(asked) or former.folders
        found = msgspec.structs.replace(former, folders=folders, opened_by=opened_by)
        if former is _NOTHING and method in _MAKES_ONE:
            found.client = client
        commands = _all(told, "availableCommands")
        if commands:
            found.commands = _commands(commands)
        _take_modes(found, told)
        self._add(name, found)

    def entered(self, session: str | None, by: str) -> None:
        """A request of `by` (a component; empty: the user's client) sets a session up or prompts
        in it: from now on that is no other component's."""
        known = self._known.get(session) if session is not None else None
        if known is not None and known.client != by:
            known.client = ""

    def added(self, component: str, params: Params | bytes, session: str | None = None) -> None:
        """A component has added modes or options of its own to a result or an update that goes on
        as it is here."""
        told = _json(params)
        name = session or next(iter(_names(told)), None)
        known = self._known.get(name) if name is not None else None
        if known is not None:
            inside = next(iter(_all(told, "update")), told)
            own = known.added.get(component, frozenset())
            own = _more(own, modes.ids(inside) - known.modes)
            known.added = {**known.added, component: own}

    # -- updates -------------------------------------------------------------------------------

    def learn(self, params: Params) -> None:
        """An update of a key in `LEARNT_FROM` came from the agent."""
        told = _json(params)
        names, said = _names(told), next(iter(_all(told, "update")), None)
        if not names:
            return
        kinds = _texts(said, "sessionUpdate")
        if COMMANDS_KIND in kinds:
            found = self._known.get(names[0]) or Session()
            found.commands = _commands(_all(said, "availableCommands"))
            self._add(names[0], found)
        elif _OPTIONS_KIND in kinds:
            self._options(names, said)
        else:
            child = next(iter(_names(said)), names[0])
            if child != names[0]:
                self._add(child, Session(_folders(said), parent=names[0]))

    def _options(self, names: list[str], said: Json) -> None:
        """The agent has listed its options."""
        if names:
            found = self._known.get(names[0]) or Session()
            _take_modes(found, said)
            self._add(names[0], found)

    def _add(self, name: str, session: Session) -> None:
        self._known[name] = session
        if len(self._known) > _MOST:
            owner = _owner(session)
            theirs = [id_ for id_, one in self._known.items() if _owner(one) == owner]
            if len(theirs) > _MOST:
                del self._known[theirs[0]]


def _owner(session: Session) -> str:
    """The component whose session it is; empty: the user's."""
    return session.opened_by or session.client


def _more(known: frozenset[str], found: frozenset[str]) -> frozenset[str]:
    """Ids that are known and those that are found; where that is too many, the latter alone."""
    both = known | found
    return both if len(both) <= _MOST_LISTED else frozenset(islice(found, _MOST_LISTED))


def _asker(pending: PendingRequest) -> str:
    """The policed component that a request is of, through all that passed it on; else empty."""
    while pending.forwards is not None:
        pending = pending.forwards.pending
    return pending.origin.peer.name if pending.originated and pending.origin is not None else ""


# What others write is read member by member: half an emoji, or one odd entry in a list, hides
# nothing of the rest.


def _json(params: Params | bytes) -> Json:
    try:
        return read(params).value
    except Unreadable:
        return None


def _all(value: Json, name: str) -> list[Json]:
    return [held for key, held in pairs(value) if key == name]


def _texts(value: Json, *names: str) -> list[str]:
    return [one for name in names for one in _all(value, name) if isinstance(one, str)]


def _names(value: Json) -> list[str]:
    return [one for one in _texts(value, *SESSION_NAMES) if one]


def _listed(value: Json, name: str) -> list[Json]:
    return [one for held in _all(value, name) if isinstance(held, list) for one in held]


def _folders(value: Json) -> tuple[str, ...]:
    named = [*_texts(value, "cwd"), *_listed(value, "additionalDirectories")]
    return tuple(one for one in named if isinstance(one, str) and one)


def _take_modes(session: Session, said: Json) -> None:
    """The agent has listed modes, models or options of a session."""
    session.modes = _more(session.modes, modes.ids(said))
    if _all(said, "configOptions"):
        session.options = tuple(map(canonical, _listed(said, "configOptions")))


def _commands(lists: list[Json]) -> frozenset[str]:
    entries = (one for held in lists if isinstance(held, list) for one in held)
    return frozenset(spelled(name) for one in entries for name in _texts(one, "name") if name)
