"""The engine's knowledge of sessions: their folders, the lists of their agents, their owners."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw

from conductor.core import guards
from conductor.core.aliases import Aliases
from conductor.core.component import Role
from conductor.core.guards.reading import Json, canonical, pairs, value_of
from conductor.core.jsonrpc import Params
from conductor.core.policy.headings import session_of
from conductor.core.policy.key_table import (
    CLOSING,
    COMMANDS_KIND,
    MODE_KINDS,
    PROMPT,
    SESSION_NAMES,
    SETTINGS,
    SETUP,
    update,
)
from conductor.core.session import MOST_PROMPTS, Change, Said, Session, Standing, StandingEvent
from conductor.core.state import Follower, Visit

if TYPE_CHECKING:  # no first message needs it
    from conductor.core.guards.modes import Settings

_MOST: Final = 4096
"""The most sessions of one owner: the user's, those that one component has opened, or those that
nobody has set up."""
_MOST_LISTED: Final = 4096
"""The most ids of modes and options that are known of one session: of its agent, or of a
component."""
_DEEPEST: Final = 8
"""The most levels of sub-agents of sub-agents that a look-up climbs."""
_SUBAGENT_KIND: Final = "subagent_update"
_NEW: Final = SETUP[0]
_PLAIN: Final = frozenset({"cwd", "additionalDirectories", "mcpServers"})
"""The members of a set-up in which nothing is chosen."""
_NOTHING_CHOSEN: Final[tuple[Json, ...]] = (None, [])
"""Values of any other member that choose nothing."""
_FORK: Final = SETUP[3]
MAKES_ONE: Final = (_NEW, _FORK)
"""The requests with a result that names a new session."""

LEARNT_FROM: Final = frozenset(map(update, (COMMANDS_KIND, _SUBAGENT_KIND, *MODE_KINDS)))
"""Keys of updates that describe a session."""
ENTERING: Final = frozenset({*SETUP, PROMPT})
"""The requests by which a client sets a session up, or works in it."""
FOLLOWED: Final = frozenset({*SETUP, *SETTINGS})
"""The requests with results that tell the set-up of a session, and its settings."""


_NOTHING: Final = Session()


class Followed(Follower, msgspec.Struct):
    """A request that sets a session up, or something in it, or ends it."""

    sessions: Sessions
    params: Params = UNSET
    below: str | None = None
    """The agent's id of the session."""
    by: str = ""
    """The component whose request it is; empty: the client's."""
    payer: str = ""
    """The session of the user's for which the component works."""
    opens: bool = False
    """Whether it counts as a session that the component opens."""
    client: bool = False
    """Whether the client has sent it."""


class Sessions:
    """The sessions of one chain by id. Of too many of one owner the oldest is forgotten."""

    def __init__(self) -> None:
        self._known: dict[str, Session] = {}
        self._room = _MOST
        """The number of sessions up to which none has to be forgotten."""
        self._bound: dict[str, Mapping[str, str]] = {}
        """By component: the sessions that go on as others, each with the other."""
        self._asked: dict[Visit, tuple[str, ...]] = {}
        """The client's requests without an answer that set a session up or end one, each with the
        folders of the session."""
        self.setups = 0
        """How many times the client has asked for a session."""
        self._opening: Counter[str] = Counter()
        """How many sessions each component is opening."""
        self.words: frozenset[str] = frozenset()
        """The agent's names of its modes, models and options, as people read them."""
        self._default: Settings | None = None
        """The settings of the last session that the agent has made without any choice."""
        self._prompted = ""
        """The session in which the client has prompted last."""

    def get(self, session: str | None) -> Session:
        """The record of a session, to be read: an empty one, where there is none."""
        return _NOTHING if session is None else self._known.get(session, _NOTHING)

    def at(self, session: str) -> Session:
        """The record of a session, to be changed. Of too many the oldest in which nothing runs is
        forgotten."""
        known = self._known.get(session)
        if known is None:
            known = self._known[session] = Session(session)
            self._forget(known)
        return known

    def _forget(self, latest: Session) -> None:
        """There is one more session: of owners with too many, the oldest sessions are forgotten."""
        if len(self._known) <= self._room:
            return
        owners: defaultdict[str | None, list[Session]] = defaultdict(list)
        for one in self._known.values():
            owners[one.owner].append(one)
        for theirs in owners.values():
            surplus = max(0, len(theirs) - _MOST)
            for oldest in [one for one in theirs if one.at_rest and one is not latest][:surplus]:
                del self._known[oldest.name]
        # Not with each session: to look at all of them takes milliseconds.
        self._room = max(_MOST, len(self._known) + _MOST // 8)

    def __iter__(self) -> Iterator[Session]:
        """All records."""
        return iter(list(self._known.values()))

    def __contains__(self, session: object) -> bool:
        """Whether a session was set up."""
        return isinstance(session, str) and self.get(session).known

    @property
    def of_client(self) -> list[str]:
        """The sessions that the client has open."""
        return [id_ for id_, known in self._known.items() if known.is_clients]

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of all sessions but those that components have opened by themselves."""
        known = [session for session in self._known.values() if not session.opened_by]
        return tuple({folder for session in known for folder in session.folders})

    @property
    def folders_of_user(self) -> tuple[str, ...]:
        """The folders of sessions that the user's client has opened, as the client has written
        them."""
        known = [one for one in self._known.values() if not (one.opened_by or one.client)]
        return tuple({folder for session in known for folder in session.folders})

    @property
    def folders_of_client(self) -> list[tuple[str, ...]]:
        """The folders of each session that the client has open or asks for, as the client has
        written them. A session has them until the client hears that it is closed."""
        known = [one.written for one in self._known.values() if one.is_clients]
        return [folders for folders in (*known, *self._asked.values()) if folders]

    def line(self, session: str | None) -> Iterator[str]:
        """A session, its parent, and so on upwards."""
        for _ in range(_DEEPEST):
            if session is None:
                return
            yield session
            session = self.get(session).parent

    def find(self, session: str | None) -> Session:
        """The record of a session; that of a sub-agent also has facts of its parent."""
        line = [self._now(id_) for id_ in self.line(session)]
        if len(line) < 2:
            return line[0] if line else _NOTHING
        return msgspec.structs.replace(
            line[0],
            folders=next((known.folders for known in line if known.folders), ()),
            commands=next((known.commands for known in line if known.commands), frozenset[str]()),
            modes=next((known.modes for known in line if known.modes), frozenset[str]()),
        )

    def _now(self, id_: str) -> Session:
        """The record of one session; if it goes on as another, with the agent's lists of the
        other."""
        known, now = self.get(id_), id_
        for bound in self._bound.values():
            now = bound.get(now, now)
        said = self.get(now)
        if now == id_ or not said.known:
            return known
        return msgspec.structs.replace(
            known, commands=said.commands, modes=said.modes, options=said.options
        )

    def own(self, component: str) -> dict[str, tuple[str, ...]]:
        """The sessions that a component has opened, or has set up by an answer of its own, with
        their folders."""
        return {
            id_: session.folders
            for id_, session in self._known.items()
            if component in (session.opened_by, session.client)
        }

    def is_client(self, component: str, session: str | None) -> bool:
        """Whether the agent made a session, or an ancestor of it, for a component."""
        return any(self.get(id_).client == component for id_ in self.line(session))

    def is_of_client(self, session: str | None) -> bool:
        """Whether a session is known, and neither it nor an ancestor is one that a component has
        opened for itself."""
        line = [known for id_ in self.line(session) if not (known := self.get(id_)).is_clients]
        return session in self and not any(one.client or one.opened_by for one in line)

    # -- sessions of components ----------------------------------------------------------------

    def client(self, session: str) -> str:
        """The component for which the agent made a session; empty: the user's client, or nobody
        knows the session."""
        return self.get(session).client

    @property
    def latest(self) -> str:
        """The session in which the client has prompted last, of those that it has open."""
        if self.get(self._prompted).is_clients:
            return self._prompted
        theirs = (id_ for id_ in reversed(self._known) if self._known[id_].is_clients)
        return next(theirs, self._prompted)

    def payer(self, session: str) -> str:
        """The session of the user's for which components work in a session: itself, an ancestor, or
        the one for which it was opened. For a session that nobody knows, the latest."""
        for id_ in self.line(session):
            if self.get(id_).is_clients:
                return id_
            if payer := self.get(id_).payer:
                return payer
        return self.latest

    def subsessions(self, component: str) -> list[str]:
        """The sessions that the agent made for a component, and that it has not closed."""
        return [
            id_
            for id_, known in self._known.items()
            if known.client == component and known.standing is not Standing.CLOSED
        ]

    def of_components(self) -> frozenset[str]:
        """All sessions that the agent made for components."""
        return frozenset(id_ for id_, known in self._known.items() if known.client)

    def adopted(self, component: str, aliases: Aliases) -> None:
        """A component has these aliases from now on."""
        self._bound[component] = aliases.bound
        for id_ in aliases.bound.values():
            if id_ in self:
                self._known[id_].changes(Change.SET)
        for id_ in aliases.set_aside:
            self._set_up(id_).client = component

    def opened(self, component: str) -> int:
        """How many sessions of a component's own are open, or asked for."""
        return len(self.subsessions(component)) + self._opening[component]

    def closes(self, session: str | None, pending: Visit) -> None:
        """A request that ends a session goes on: it may be one of a component's own."""
        by = pending.flow.by
        if session is not None and by and self.client(session) == by:
            pending.followers = (*pending.followers, Followed(self, below=session))

    def ended(self, session: str, component: str) -> None:
        """A session of a component's is over, unless it is the user's by now. Later updates of its
        agent there go to the component alone."""
        if self.client(session) == component:
            self._known[session].stands(StandingEvent.CLOSED)

    # -- the client ------------------------------------------------------------------------------

    def client_enters(self, session: str | None, method: str) -> None:
        """The client sets a session up or prompts in it. A session in which it prompts is known
        from then on, also where its set-up was not seen."""
        if session is None:
            return
        known = self.at(session)
        if method not in MAKES_ONE:
            known.stands(StandingEvent.ENTERED)
        known.ended = {}
        self.entered(session, "")
        if method == PROMPT:
            self._set_up(session)

    def is_client_in(self, session: str | None) -> bool:
        """Whether the client is known to work in a session, and has not closed it since: one more
        prompt there changes nothing."""
        known = self.get(session)
        return known.standing is Standing.OPEN and not known.client

    def user_prompts(self, session: str) -> Session:
        """A prompt of the client's goes on: components may send prompts of their own again."""
        self._prompted, known = session, self.at(session)
        known.sent, known.most_prompts = {}, MOST_PROMPTS
        return known

    def client_ends(self, session: str | None, method: str, params: Params, pending: Visit) -> None:
        """The client ends a session."""
        if session in self._known:
            known = self._known[session]
            if known.is_clients:
                self._asked[pending] = known.written
                followed = Followed(self, below=session, client=True)
                pending.followers = (*pending.followers, followed)
            known.stands(StandingEvent.ENDED)
            known.terminals = {}
            known.ended = {**known.ended, method: _said(params)}

    def repeats(self, session: str, method: str, params: Params) -> bool:
        """Whether the client has ended a session by the same request, but for the session's id."""
        return self.get(session).ended.get(method) == _said(params)

    # -- set-ups -------------------------------------------------------------------------------

    def follow(
        self,
        method: str,
        params: Params,
        pending: Visit,
        below: str | None = None,
        *,
        client: bool = False,
        payer: str = "",
    ) -> None:
        """A request of `FOLLOWED` goes on with these params: its result will be read.

        An answer of a policed component's own is read where it goes on (`set_up`).

        Args:
            below: the agent's id of the session of the request.
            client: the client has sent it.
            payer: the session of the user's for which a component opens one; empty: by the params.
        """
        by = pending.flow.by
        payer = payer or (self.payer(session_of(params) or "") if by else "")
        opens = pending.is_own and method in MAKES_ONE
        self._opening[by] += opens
        if client and method in SETUP:
            self.setups += 1
            self._asked[pending] = _folders(value_of(params))
        followed = Followed(self, params, below, by, payer, opens, client)
        pending.followers = (*pending.followers, followed)

    def answered(self, followed: Followed, pending: Visit, member: bytes, body: bytes) -> None:
        """A request that is followed has its answer."""
        method, below, target = pending.method, followed.below, pending.target
        self._opening[followed.by] -= followed.opens
        folders = self._asked.pop(pending, ())
        if method in CLOSING and followed.client:
            if member == b"error" and below in self._known:
                self._known[below].stands(StandingEvent.ENTERED)
        elif method in CLOSING:
            self.ended(below or "", pending.flow.by)
        elif member == b"result" and target is not None:
            role, params = target.peer.role, followed.params
            if method in SETTINGS:
                if role is not Role.PROXY and below:
                    chosen = guards.modes.asked(method, value_of(params))
                    self._listed(below, value_of(body), chosen)
            elif role is not Role.PROXY:
                pending.flow.made = method in MAKES_ONE
                made = self.set_up(method, params, body, "", followed.by, below)
                if made is not None and made.client:
                    made.payer = followed.payer
            elif target.peer.policy_state is None or not target.peer.policy_state.enforced:
                self.set_up(method, params, body, target.peer.name)
        if member == b"result" and followed.client and method in SETUP:
            is_new = method in MAKES_ONE
            names = _names(value_of(body if is_new else followed.params))
            for session in names[:1]:
                known = self.at(session)
                known.written = folders or known.written
                if is_new:
                    # A new session of the client is its own, also if a trusted component opened it.
                    known.stands(StandingEvent.ENTERED)
            for session in names if is_new else ():
                self.entered(session, "")

    def set_up(
        self,
        method: str,
        params: Params,
        body: bytes,
        opened_by: str = "",
        client: str = "",
        below: str | None = None,
    ) -> Session | None:
        """A session's set-up, with these params, was answered with this result: by its agent, or by
        the component `opened_by`. A component's answer changes nothing of a session that is known.

        A new session that the agent makes for a component is that component's, its `client`.
        `below`: the agent's id of a session that is known.
        """
        request, result = value_of(params), value_of(body)
        names = _names(result) or (_names(request) if method != _FORK else [])
        if not names or (opened_by and names[0] in self):
            return None
        session = self._known.pop(names[0], None) or Session(names[0])
        source = self.get(below) if method == _FORK else session
        # An agent may have listed its commands there before it answers.
        is_new = not (session.folders or session.opened_by or session.client)
        was = places(source) if source.folders else None
        session.folders = _folders(request) or session.folders
        session.opened_by, session.servers = opened_by, guards.servers.named(request)
        if client and was is not None and was != places(session):
            session.changes(Change.MOVED)
        if is_new and not session.is_clients and method in MAKES_ONE:
            session.client = client
        commands = _all(result, "availableCommands")
        if commands:
            session.commands = _commands(commands)
        if opened_by:
            session.settings = {**session.settings, **guards.modes.begun_with(request)}
        else:
            now = session if method in MAKES_ONE else self._known.get(below or "", session)
            self._agent_set_up(now, method, request, result, source)
        self._known[session.name] = session  # now it is the latest
        session.stands(StandingEvent.SEEN)
        self._forget(session)
        return session

    def _agent_set_up(
        self, now: Session, method: str, request: Json, result: Json, source: Session
    ) -> None:
        """Reads the settings of a session that the agent has set up; `source`: the session it
        forks."""
        self._take_modes(now, result)
        inherited = source.settings if method == _FORK else {}
        now.settings = {**inherited, **now.settings, **guards.modes.shown(result)}
        if method == _FORK:
            now.changes(max(source.change, Change.SET))
        if method in MAKES_ONE:
            # A choice in a set-up, by whatever member, is no default.
            plain = all(name in _PLAIN or one in _NOTHING_CHOSEN for name, one in pairs(request))
            if method == _NEW and plain:
                self._default = now.settings
            now.default = self._default

    def _set_up(self, name: str) -> Session:
        """The record of a session, which counts as set up from now on."""
        session = self.at(name)
        if not session.known:
            session.stands(StandingEvent.SEEN)
            self._forget(session)
        return session

    def entered(self, session: str | None, by: str) -> None:
        """A request of `by` (a component; empty: the user's client) sets a session up or prompts
        in it: from now on the session is no other component's."""
        known = self.get(session)
        # A component behind an alias knows the user's session by the id of another's own.
        if known.client == by:
            return
        if not by or not any(session in bound.values() for bound in self._bound.values()):
            known.client = ""

    def added(self, component: str, params: Params | bytes, session: str | None = None) -> None:
        """A component has added options of its own to a result or an update that goes on as it is
        here."""
        value = value_of(params)
        name = session if session is not None else next(iter(_names(value)), None)
        known = self.get(name)
        if known.known:
            inside = next(iter(_all(value, "update")), value)
            own = known.added.get(component, frozenset())
            own = _more(own, guards.modes.ids(inside) - known.modes)
            known.added = {**known.added, component: own}

    # -- updates -------------------------------------------------------------------------------

    def learn(self, params: Params) -> None:
        """An update of a key in `LEARNT_FROM` came from the agent."""
        value = value_of(params)
        names, update = _names(value), next(iter(_all(value, "update")), None)
        if not names:
            return
        kinds = _texts(update, "sessionUpdate")
        if COMMANDS_KIND in kinds:
            listed = _all(update, "availableCommands")
            self._set_up(names[0]).commands = _commands(listed)
        elif any(kind in kinds for kind in MODE_KINDS):
            self._listed(names[0], update)
        else:
            child = next(iter(_names(update)), names[0])
            if child != names[0]:
                session = self._set_up(child)
                session.folders, session.parent = _folders(update), names[0]

    def _listed(self, name: str, listing: Json, chosen: Settings | None = None) -> None:
        """The agent has listed its options, or named its mode, and has made the settings
        `chosen`."""
        session = self._set_up(name)
        self._take_modes(session, listing)
        session.settings = {**session.settings, **(chosen or {}), **guards.modes.shown(listing)}
        if not (chosen or {}).keys() <= (session.default or {}).keys():
            session.changes(Change.SET)

    # -- other agents ----------------------------------------------------------------------------

    def said(self, result: bytes) -> Said:
        """The reports of an agent about a session that it has just made."""
        said = Said()
        self.hears(said, result)
        said.default = said.settings
        return said

    def hears(self, said: Said, params: Raw | bytes) -> None:
        """An agent reports more of a session, by a result or an update."""
        value = value_of(params)
        told = next(iter(_all(value, "update")), value)
        self._take_modes(said, told)
        said.settings = {**said.settings, **guards.modes.shown(told)}
        if _all(told, "availableCommands"):
            said.commands = _commands(_all(told, "availableCommands"))

    def goes_on(self, session: str, now: Said) -> Said:
        """A session goes on with the agent of these reports. Returns those of the former agent."""
        known = self.at(session)
        was = Said(*(getattr(known, name) for name in Said.__struct_fields__))
        for name in Said.__struct_fields__:
            setattr(known, name, getattr(now, name))
        return was

    def _take_modes(self, session: Session | Said, listing: Json) -> None:
        """The agent has listed modes, models or options of a session."""
        session.modes = _more(session.modes, guards.modes.ids(listing))
        self.words = _more(self.words, guards.modes.words(listing))
        if _all(listing, "configOptions"):
            session.options = tuple(map(canonical, _listed(listing, "configOptions")))


def places(session: Session) -> tuple[str, set[str]]:
    """The working directory of a session, and its additional directories."""
    return (session.folders or ("",))[0], set(session.folders[1:])


def _said(params: Params) -> str:
    """The params as text, but for the session's id."""
    said = [(name, one) for name, one in pairs(value_of(params)) if name not in SESSION_NAMES]
    return str(sorted((name, canonical(one)) for name, one in said))


def _more(known: frozenset[str], listed: frozenset[str]) -> frozenset[str]:
    """Ids that are known and those that are listed now; of too many, the latter alone."""
    both = known | listed
    return both if len(both) <= _MOST_LISTED else frozenset(islice(listed, _MOST_LISTED))


def guest_of(key: bytes) -> str:
    """The guest whose own prompt or set-up a host sends under this id; empty: the id names none."""
    return key.decode().strip('"').partition(" ")[2]


# Messages of others are read member by member, so that half an emoji, or one odd entry in a list,
# hides nothing of the rest.


def _all(value: Json, name: str) -> list[Json]:
    return [held for key, held in pairs(value) if key == name]


def _texts(value: Json, *names: str) -> list[str]:
    return [text for name in names for text in _all(value, name) if isinstance(text, str)]


def _names(value: Json) -> list[str]:
    return [name for name in _texts(value, *SESSION_NAMES) if name]


def _listed(value: Json, name: str) -> list[Json]:
    return [entry for held in _all(value, name) if isinstance(held, list) for entry in held]


def _folders(value: Json) -> tuple[str, ...]:
    folders = [*_texts(value, "cwd"), *_listed(value, "additionalDirectories")]
    return tuple(folder for folder in folders if isinstance(folder, str) and folder)


def _commands(lists: list[Json]) -> frozenset[str]:
    from conductor.core.guards.commands import spelled  # no first message lists commands

    entries = (entry for held in lists if isinstance(held, list) for entry in held)
    return frozenset(spelled(name) for entry in entries for name in _texts(entry, "name") if name)
