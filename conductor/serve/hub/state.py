"""Who is there: connections, chains, sessions, and what is open between them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from conductor.core.jsonrpc import Params
from conductor.core.message import Message
from conductor.serve.hub.history import History
from conductor.serve.hub.params import Update


class Phase(enum.Enum):
    """How far a connection, or a chain, is."""

    NEW = enum.auto()
    OPENING = enum.auto()
    """`initialize` has no answer yet."""
    READY = enum.auto()
    """Its own chain may have ended since."""


@dataclass(eq=False, slots=True)
class Connection:
    """One client."""

    name: str
    named: str
    """The chain of the configuration that it asks for."""
    views: bool
    """Whether it may only watch."""
    phase: Phase = Phase.NEW
    version: int = 1
    """Of ACP, as it was agreed."""
    cut: bool = False
    chain: Chain | None = None
    """Its own chain; it may be attached to sessions of others."""
    ended: tuple[str, str] = ("", "")
    """Why its last chain ended, and what to do."""
    info: dict[str, str] = field(default_factory=dict)
    """Its name and version, as it introduced itself."""
    client_id: str = ""
    """How other clients are shown it."""
    open: dict[bytes, Call] = field(default_factory=dict)
    """Its requests without an answer, by id."""
    questions: dict[bytes, Question] = field(default_factory=dict)
    """The questions it has, by the id that it got."""
    taken_back: dict[bytes, None] = field(default_factory=dict)
    """Ids of questions that need its answer no more; it answers some all the same."""
    dropped: int = 0
    """Answers that were dropped: nobody had asked."""
    attached: dict[str, Session] = field(default_factory=dict)
    """The sessions it is attached to."""
    last_id: int = 0
    held: list[Call | Message] = field(default_factory=list)
    """Requests and notifications that wait for the answer to `initialize`, in order."""
    held_bytes: int = 0
    visits: bool = False
    """Whether it only attaches to live sessions, and so has no chain of its own."""


@dataclass(eq=False, slots=True)
class Chain:
    """One running chain."""

    name: str
    named: str
    key: bytes
    """What `initialize` asked for: connections of an equal key may share it."""
    phase: Phase = Phase.OPENING
    version: int = 1
    closes: bool = False
    """Whether its agent takes `session/close`."""
    result: bytes = b""
    """What it has answered to `initialize`."""
    connections: dict[Connection, None] = field(default_factory=dict)
    """Those whose own chain it is, the first one first."""
    waiting: list[Call] = field(default_factory=list)
    """Requests `initialize` that wait for the answer to the first."""
    open: dict[bytes, Call] = field(default_factory=dict)
    """Requests that it has, by the id that it got."""
    questions: dict[bytes, Question] = field(default_factory=dict)
    """Its requests without an answer, by id."""
    sessions: dict[str, Session] = field(default_factory=dict)
    early: dict[str, list[tuple[Update | None, bytes]]] = field(default_factory=dict)
    """Notifications of sessions that have no name yet, by the name they will have."""
    early_bytes: int = 0
    servers: dict[str, Connection] = field(default_factory=dict)
    """Who offers an MCP server over ACP, by its address."""
    links: dict[str, Connection] = field(default_factory=dict)
    """Who has opened an MCP connection over ACP, by its id."""
    last_id: int = 0
    dropped: int = 0
    """Answers that were dropped: nobody had asked."""


class Call(msgspec.Struct, eq=False):
    """A request of a client; `connection` is None once nobody waits for its answer."""

    connection: Connection | None
    id: bytes
    """As the client wrote it."""
    key: bytes
    """In the spelling for comparing."""
    method: str
    params: Params
    now: float
    scope: str | None = None
    """The session whose stream its answer belongs to."""
    session: Session | None = None
    chain: Chain | None = None
    """Where it is; None: it waits in the hub, or is answered."""
    sent_id: bytes = b""


@dataclass(eq=False, slots=True)
class Question:
    """A request of a chain's, and who has it, under which id."""

    chain: Chain
    id: bytes
    key: bytes
    method: str
    params: Params
    session: Session | None
    scope: str | None
    to: dict[Connection, bytes] = field(default_factory=dict)
    asks_all: bool = False
    """Whether all drivers get it, later ones too."""


@dataclass(eq=False, slots=True)
class Attachment:
    """How a connection is attached to a session."""

    drives: bool
    speaks: bool
    """Whether it used `session/attach`, and so knows the updates of the hub's own."""


class Turn(msgspec.Struct, eq=False):
    """An open turn of a session."""

    since: float
    asker: Connection | None = None
    """Who sent the last prompt."""
    prompts: list[Call] = []
    echoes: bool = True
    """Whether the agent has sent nothing yet: a message of the user's is then an echo."""
    cancelled: float | None = None
    state: str = ""
    """The last state in ACP v2; empty: none has come since it began."""


@dataclass(eq=False, slots=True)
class Session:
    """One live session."""

    id: str
    chain: Chain
    history: History
    home: Connection | None
    attached: dict[Connection, Attachment] = field(default_factory=dict)
    members: dict[str, Raw] = field(default_factory=dict)
    """What the agent answered when it was opened, kept up to date: modes, options …"""
    loading: Call | None = None
    """The request that opens it, or has the agent replay it."""
    provisional: bool = False
    """Whether that request has not opened it yet."""
    waiting: list[Call] = field(default_factory=list)
    """Requests that wait for that one."""
    turn: Turn | None = None
    questions: dict[Question, None] = field(default_factory=dict)
    cwd: str = ""
    """The folder in which it works: the client that opened it has named it."""
    title: str = ""
    """Its title, from the agent."""

    def drivers(self) -> list[Connection]:
        """Who drives it, who came first first."""
        return [one for one, how in self.attached.items() if how.drives]

    def speaking(self) -> list[Connection]:
        """Who gets updates of the hub's own."""
        return [one for one, how in self.attached.items() if how.speaks]

    def drives(self, connection: Connection) -> bool:
        """Whether a connection is attached as a driver."""
        how = self.attached.get(connection)
        return how is not None and how.drives
