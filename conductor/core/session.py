"""One conversation: all that is known of it, in one record. The table of the records is
`conductor.core.policy.sessions`; other modules read and change a part of a record."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from conductor.core.jsonrpc import Params
from conductor.core.policy.headings import Message
from conductor.core.policy.key_table import PROMPT
from conductor.core.state import Flow, Follower, Lane, Peer, Visit, Waiting

if TYPE_CHECKING:  # no start waits for it
    from conductor.core.additions import Titles
    from conductor.core.guards.modes import Refused, Settings, Which

MOST_PROMPTS: Final = 64
"""The most prompts of a component's own between two of the user's in one session."""


class Beginning(Enum):
    """The peers that have prompted in a session so far."""

    NEW = "nobody"
    WORDED = "components alone"
    OVER = "the user, or nobody has seen it begin"


class Standing(Enum):
    """Whether a session was set up, as far as anybody has seen, and whose it is to the client."""

    NAMED = "somebody has only named it"
    ASKED = "the client has asked for it, and nobody has seen it set up"
    LEFT = "the client has ended it, and nobody has seen it set up"
    SET_UP = "it was set up, and not by the client"
    OPEN = "it was set up, and the client has it open"
    ENDED = "it was set up, and the client has ended it"
    CLOSED = "it was set up, and the component whose it is has closed it"


class StandingEvent(Enum):
    """The events that change the standing of a session."""

    ENTERED = "the client sets it up, or prompts there"
    SEEN = "its set-up is answered, or its agent tells its content"
    ENDED = "the client ends it"
    CLOSED = "the component whose it is closes it"


STANDING: Final = {
    (Standing.NAMED, StandingEvent.ENTERED): Standing.ASKED,
    (Standing.NAMED, StandingEvent.SEEN): Standing.SET_UP,
    (Standing.NAMED, StandingEvent.ENDED): Standing.LEFT,
    (Standing.ASKED, StandingEvent.SEEN): Standing.OPEN,
    (Standing.ASKED, StandingEvent.ENDED): Standing.LEFT,
    (Standing.LEFT, StandingEvent.ENTERED): Standing.ASKED,
    (Standing.LEFT, StandingEvent.SEEN): Standing.ENDED,
    (Standing.SET_UP, StandingEvent.ENTERED): Standing.OPEN,
    (Standing.SET_UP, StandingEvent.ENDED): Standing.ENDED,
    (Standing.SET_UP, StandingEvent.CLOSED): Standing.CLOSED,
    (Standing.OPEN, StandingEvent.ENDED): Standing.ENDED,
    (Standing.OPEN, StandingEvent.CLOSED): Standing.CLOSED,
    (Standing.ENDED, StandingEvent.ENTERED): Standing.OPEN,
    (Standing.ENDED, StandingEvent.CLOSED): Standing.CLOSED,
    (Standing.CLOSED, StandingEvent.ENTERED): Standing.OPEN,
    (Standing.CLOSED, StandingEvent.SEEN): Standing.SET_UP,
    (Standing.CLOSED, StandingEvent.ENDED): Standing.ENDED,
}
"""The standing of a session after an event; any other event changes nothing."""


class Work(Enum):
    """The work of the agent in a session, in version 2 of ACP."""

    IDLE = "nothing"
    GIVEN = "it has a prompt that it has not answered"
    RUNS = "a turn runs whose prompt has its answer"
    ASKS = "that waits for the user"
    STOPS = "that was cancelled, since nothing moved in it"


class WorkEvent(Enum):
    """The events that change the work of the agent; where the agent reports one, its value is that
    of the wire."""

    GIVEN = "it gets a prompt"
    BEGUN = "it answers a prompt, and the turn goes on"
    REFUSED = "it answers a prompt with an error, or not at all"
    RUNNING = "running"
    ASKS = "requires_action"
    STOPPED = "nothing has moved in the turn for too long"
    IDLE = "idle"


WORK: Final = {
    (Work.IDLE, WorkEvent.GIVEN): Work.GIVEN,
    (Work.IDLE, WorkEvent.RUNNING): Work.RUNS,
    (Work.GIVEN, WorkEvent.BEGUN): Work.RUNS,
    (Work.GIVEN, WorkEvent.REFUSED): Work.IDLE,
    (Work.GIVEN, WorkEvent.RUNNING): Work.RUNS,
    (Work.GIVEN, WorkEvent.IDLE): Work.IDLE,
    (Work.RUNS, WorkEvent.ASKS): Work.ASKS,
    (Work.RUNS, WorkEvent.STOPPED): Work.STOPS,
    (Work.RUNS, WorkEvent.IDLE): Work.IDLE,
    (Work.ASKS, WorkEvent.BEGUN): Work.RUNS,
    (Work.ASKS, WorkEvent.RUNNING): Work.RUNS,
    (Work.ASKS, WorkEvent.IDLE): Work.IDLE,
    (Work.STOPS, WorkEvent.BEGUN): Work.RUNS,
    (Work.STOPS, WorkEvent.ASKS): Work.ASKS,
    (Work.STOPS, WorkEvent.IDLE): Work.IDLE,
}
"""The work of the agent after an event; any other event changes nothing."""


class Change(IntEnum):
    """How much a session may differ from a new session of its agent. The difference only grows."""

    NONE = 0
    SET = 1
    """A setting may differ from that of a new session: the session is a fork, was the user's for a
    while, or somebody has set something."""
    MOVED = 2
    """The folders may differ too: a component has set its own session up again, or forked a
    session, in other folders. Agents differ in whether the session goes there."""


class TurnState(Enum):
    """The state of a component's turn."""

    WAITING = "waiting"
    """The session is not idle."""
    OPEN = "open"
    """Its owner may prompt, and others wait."""
    ENDING = "ending"
    """The turn is ended; others wait until its last prompt is over."""
    STOPPED = "stopped"
    """The turn is ended, since others have waited for too long. Until it is over, no turn that
    would nest begins."""
    OVER = "over"


class TurnEvent(Enum):
    """The events of a component's turn."""

    BEGUN = "the session is idle, or it nests"
    ENDED = "its owner or the user ends it, or its owner is gone"
    OVERDUE = "others have waited for too long"
    QUIET = "no prompt of it runs"
    LATE = "the agent has not ended it in time"


MOVES: Final = {
    (TurnState.WAITING, TurnEvent.BEGUN): TurnState.OPEN,
    (TurnState.WAITING, TurnEvent.ENDED): TurnState.OVER,
    (TurnState.OPEN, TurnEvent.ENDED): TurnState.ENDING,
    (TurnState.OPEN, TurnEvent.OVERDUE): TurnState.STOPPED,
    (TurnState.ENDING, TurnEvent.OVERDUE): TurnState.STOPPED,
    (TurnState.ENDING, TurnEvent.QUIET): TurnState.OVER,
    (TurnState.ENDING, TurnEvent.LATE): TurnState.OVER,
    (TurnState.STOPPED, TurnEvent.QUIET): TurnState.OVER,
    (TurnState.STOPPED, TurnEvent.LATE): TurnState.OVER,
}
"""The state of a turn after an event; any other event changes nothing."""


class QueuedTurn(Follower, msgspec.Struct, eq=False):
    """A turn that a component has, or wants."""

    owner: tuple[Peer, str]
    """The component, and the guest if that is a host."""
    session: Session
    named: str
    """The owner's id of the session."""
    show: bool
    """Whether the client sees the agent's updates in it."""
    nests: bool
    """Whether its owner holds a prompt of the session."""
    request: Visit
    """The call that is answered when the turn begins, or the prompt that goes on then."""
    send: Waiting | None = None
    """The prompt as it waits; None: the request is a call."""
    id: str = ""
    """Empty until it begins."""
    state: TurnState = TurnState.WAITING
    prompts: int = 0
    """How many of its prompts run."""
    prompted: bool = False
    """Whether a prompt of it has ever run."""
    outside: bool = False
    """Whether its owner has prompted or sent updates in it while it held no prompt of the user's.
    """
    kept: Waiting | None = None
    """Version 2: tells the others, once the turn is over, that the agent is idle."""

    def move(self, event: TurnEvent) -> bool:
        """Takes the step of an event; False: there is none."""
        after = MOVES.get((self.state, event))
        self.state = after or self.state
        return after is not None


class Prompt(Follower, msgspec.Struct, eq=False):
    """A prompt of a session that is not over: of the client, or of a component's turn."""

    session: Session
    turn: QueuedTurn | None
    begun: bool = False
    """In version 2: whether the agent works on it, so that its next idle state ends it."""


class AgentPrompt(Follower, msgspec.Struct):
    """Version 2: the agent gets a prompt."""

    session: Session
    key: str
    """The key of the prompt; empty: it has none."""
    worked: bool
    """Whether the agent had worked there before."""


class Wanted(msgspec.Struct):
    """The params of `rebind`."""

    sessionId: str  # noqa: N815 - a name of the wire
    to: str


class Rebind(Follower, msgspec.Struct):
    """A component binds a session; a host has asked the conductor above it whether it may."""

    peer: Peer
    wanted: Wanted
    pending: Visit | None
    turns: Sequence[Raw] = ()
    """The turns that a guest has until the session is bound."""


class OwnPrompt(msgspec.Struct):
    """A prompt that a component sends in a session of its own, once the session has its
    settings."""

    message: Message
    pending: Visit
    begins: Settings
    """The settings with which the agent begins a session."""


class Settled(Follower, msgspec.Struct):
    """A session that gets its settings."""

    lane: Lane
    session: str
    """Its id where messages go down by the lane."""
    waits: OwnPrompt | Rebind
    """The prompt that goes on then, or the binding of a session that is to go on as this one."""
    refused: Refused = {}
    rounds: int = 3
    """The rounds of settings that are left: one setting may change another."""
    open: dict[Visit, Which] = {}
    """The settings without an answer."""


class Limit(msgspec.Struct, eq=False):
    """The time of a turn, or of all turns of a session, runs: `TurnQueue.time_is_up` after it."""

    of: QueuedTurn | Session


class Said(msgspec.Struct):
    """The reports of an agent about a session that it has. The fields are those of `Session`."""

    settings: Settings = {}
    default: Settings | None = None
    modes: frozenset[str] = frozenset()
    options: tuple[str, ...] = ()
    commands: frozenset[str] = frozenset()


class Session(msgspec.Struct, eq=False):
    """One session."""

    name: str = ""
    """The client's id of it."""
    # How it was set up.
    standing: Standing = Standing.NAMED
    folders: tuple[str, ...] = ()
    """Its working directory and additional directories."""
    written: tuple[str, ...] = ()
    """These folders as the client has written them, where it has set the session up."""
    change: Change = Change.NONE
    commands: frozenset[str] = frozenset()
    """The commands that its agent lists, as a user types them."""
    modes: frozenset[str] = frozenset()
    """The ids of the modes, models and options that its agent lists."""
    options: tuple[str, ...] = ()
    """The agent's options as it has last listed them, each as canonical text."""
    settings: Settings = {}
    """Its settings, as far as the agent has reported them."""
    default: Settings | None = None
    """The settings of a session in which nobody has set anything; None: the agent has not said."""
    servers: tuple[str, ...] = ()
    """The names of the MCP servers of its last set-up."""
    added: dict[str, frozenset[str]] = {}
    """The ids of the options that components have added, by component."""
    parent: str | None = None
    """The parent session, if this is a sub-agent's."""
    opened_by: str = ""
    """The component that answered its set-up; empty: the agent."""
    client: str = ""
    """The component for which the agent made it; empty: the user's client. Once the user's client
    enters it, the session is the user's."""
    ended: dict[str, str] = {}
    """The methods by which the client has ended it, each with its params but for the session's
    id."""
    terminals: dict[str, Peer] = {}
    """The terminals that are open in it, and who has opened each."""
    beginning: Beginning = Beginning.OVER
    titles: Titles | None = None
    """The prompts that its title may be made of; None: none of them has an addition."""
    # Prompts of components' own (`conductor.core.own_prompts`).
    payer: str = ""
    """The user's session for which the component has opened it: its account pays for prompts."""
    most_prompts: int = MOST_PROMPTS
    """How many prompts each component may send until the user prompts again."""
    sent: dict[str, int] = {}
    """How many prompts each component has sent."""
    spent: dict[str, int] = {}
    """How many free prompts each component has spent that are not back yet."""
    # Turns (`conductor.core.turn_queue`).
    open: list[QueuedTurn] = []
    waiting: list[QueuedTurn] = []
    prompts: dict[Prompt, None] = {}
    asked: dict[Flow, Params] = {}
    """The params of each prompt of the client, until the prompt is answered, or an agent has it by
    another request. Only where records of prompts are kept (`conductor.core.replays`)."""
    held: dict[Visit, Waiting] = {}
    """Prompts of the client that wait, and settings behind one."""
    work: Work = Work.IDLE
    inserted: dict[str, str] = {}
    """Version 2: by idempotency key, the message that the agent has made of a prompt."""
    owed: Waiting | None = None
    """Version 2: tells the client that the session is idle, once it is idle."""
    deadline: Limit | None = None
    """The time limit of its turns, which runs since somebody waits; None: nobody waits."""

    def stands(self, event: StandingEvent) -> None:
        """An event may change the standing of the session."""
        self.standing = STANDING.get((self.standing, event), self.standing)

    @property
    def known(self) -> bool:
        """Whether it was set up, as far as anybody has seen."""
        return self.standing not in (Standing.NAMED, Standing.ASKED, Standing.LEFT)

    @property
    def is_clients(self) -> bool:
        """Whether the client has it open."""
        return self.standing in (Standing.OPEN, Standing.ASKED)

    def changes(self, change: Change) -> None:
        """The session may differ so much from a new session."""
        self.change = max(self.change, change)

    @property
    def late(self) -> bool:
        """Whether others have waited for too long for a turn that is not over."""
        return any(turn.state is TurnState.STOPPED for turn in self.open)

    @property
    def at_rest(self) -> bool:
        """Whether no prompt runs or is held in it, nobody has a turn or waits for one, and the
        client knows that it is idle."""
        return not (self.prompts or self.held or self.open or self.waiting or self.owed)

    @property
    def client_waits(self) -> bool:
        """Whether a prompt of the client waits."""
        return any(one.message.method == PROMPT for one in self.held.values())

    @property
    def works(self) -> bool:
        """Version 2: whether the agent works on a prompt. A turn that would nest waits until it
        has."""
        return self.work is not Work.IDLE and not self.at_rest

    def does(self, event: WorkEvent) -> None:
        """An event may change the work of the agent."""
        self.work = WORK.get((self.work, event), self.work)

    @property
    def busy(self) -> bool:
        """Whether a component has a turn there, or in version 2 the agent works there."""
        return bool(self.open) or self.works or any(one.begun for one in self.prompts)

    @property
    def owner(self) -> str | None:
        """The component that owns it; empty: the user. None: nobody has set it up."""
        return self.opened_by or self.client or ("" if self.known or self.is_clients else None)
