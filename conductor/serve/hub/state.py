"""The state of a hub: clients, chains, live sessions, and the open requests between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core.json_text import read_members, text_of
from conductor.core.jsonrpc import Message, Params
from conductor.core.policy.headings import SessionUpdate
from conductor.core.session import WORK, Work, WorkEvent
from conductor.serve.hub.history import History

_MOST_SUBAGENTS: Final = 4096
"""The most sessions of sub-agents of one chain; the oldest are forgotten."""
_LONGEST: Final = 200
"""The most characters of a client's name and version."""


@dataclass(eq=False, slots=True)
class Hop:
    """One connection: that of a client, or of a chain."""

    name: str
    version: int = 1
    """Of ACP, as it was agreed."""
    ready: bool = False
    """Whether `initialize` is answered. The own chain of a client may have ended since."""
    received: dict[bytes, Asked] = field(default_factory=dict)
    """The requests from this hop without an answer, by id."""
    sent: dict[bytes, Asked] = field(default_factory=dict)
    """The requests to this hop without an answer, by the id that it got."""
    taken_back: dict[bytes, None] = field(default_factory=dict)
    """Ids of requests that no longer need this hop's answer; it answers some all the same."""
    dropped: int = 0
    """Answers that were dropped: nobody had asked."""
    last_id: int = 0


@dataclass(eq=False, slots=True)
class Client(Hop):
    """One client."""

    named: str = ""
    """The chain of the configuration that it asks for."""
    views: bool = False
    """Whether it may only watch."""
    cut: bool = False
    chain: Chain | None = None
    """The client's own chain; the client may be attached to sessions of other chains."""
    ended: tuple[str, str] = ("", "")
    """Why the client no longer has a chain of its own, and the next step."""
    info: dict[str, str] = field(default_factory=dict)
    """The client's name and version, as it introduced itself."""
    client_id: str = ""
    """How other clients are shown it."""
    attached: dict[str, Live] = field(default_factory=dict)
    """The sessions it is attached to."""
    held: list[Asked | Message] = field(default_factory=list)
    """Requests and notifications that wait for the answer to `initialize`, in order."""
    held_bytes: int = 0
    visits: bool = False
    """Whether it only attaches to live sessions, and so has no chain of its own."""

    def introduced(self, info: Raw | None) -> None:
        """The client introduces itself."""
        told = read_members(info) or {}
        texts = {name: text_of(told.get(name))[:_LONGEST] for name in ("name", "version")}
        self.info |= {name: text for name, text in texts.items() if text}

    @property
    def shown(self) -> dict[str, str]:
        """How other clients are shown it."""
        return {"clientId": self.client_id, **self.info}


@dataclass(eq=False, slots=True)
class Chain(Hop):
    """One running chain."""

    named: str = ""
    key: bytes = b""
    """The version and capabilities of `initialize`, in one spelling: clients with an equal key may
    share the chain."""
    closes: bool = False
    """Whether its agent takes `session/close`."""
    result: bytes = b""
    """The chain's answer to `initialize`."""
    clients: dict[Client, None] = field(default_factory=dict)
    """The clients whose own chain it is, the first client first."""
    waiting: list[Asked] = field(default_factory=list)
    """Requests `initialize` that wait for the answer to the first."""
    sessions: dict[str, Live] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    """By the session of a sub-agent, the live session for which that works."""
    early: dict[str, list[tuple[SessionUpdate | None, bytes]]] = field(default_factory=dict)
    """Notifications of sessions that have no name yet, by the name they will have."""
    early_bytes: int = 0
    servers: dict[tuple[str, str], Client] = field(default_factory=dict)
    """The client with an MCP server over ACP, or with a connection to one, by kind and address."""

    def live(self, name: str | None) -> Live | None:
        """The live session of this name, or the live session for which a sub-agent's one works."""
        return self.sessions.get(name or "") or self.sessions.get(self.parents.get(name or "", ""))

    def has_subagent(self, session: Live, name: str) -> None:
        """The agent reports that another of its sessions works for a live session."""
        self.parents[name] = session.id
        if len(self.parents) > _MOST_SUBAGENTS:
            del self.parents[next(iter(self.parents))]


class Asked(msgspec.Struct, eq=False):
    """One request, from the hop that asks to the hops that have it."""

    origin: Hop | None
    """None once it is answered, or nobody waits for its answer."""
    raw_id: bytes
    """As its origin wrote it."""
    key: bytes
    """The same in the spelling for comparing."""
    method: str
    params: Params
    now: float = 0.0
    scope: str | None = None
    """The session that it names: the stream over HTTP that it, or its answer, belongs to."""
    session: Live | None = None
    asks_all: bool = False
    """Whether all drivers get the request, later drivers too."""
    to: dict[Hop, bytes] = {}
    """The hops that have the request, each with its id there."""

    @property
    def client(self) -> Client | None:
        """The client that waits for the answer, if there is one."""
        return self.origin if isinstance(self.origin, Client) else None


@dataclass(eq=False, slots=True)
class Attachment:
    """How a client is attached to a session."""

    drives: bool
    speaks: bool = False
    """Whether it used `session/attach`, and so knows the updates of the hub's own."""


class Turn(msgspec.Struct, eq=False):
    """An open turn of a session."""

    since: float
    asker: Client | None = None
    """The client that sent the last prompt."""
    prompts: list[Asked] = []
    echoes: bool = True
    """Whether the agent has sent nothing yet: a message of the user's is then an echo."""
    cancelled: float | None = None
    work: Work = Work.IDLE
    """The agent's work in the turn, in version 2 of ACP."""

    def does(self, event: WorkEvent) -> None:
        """An event changes the agent's work."""
        self.work = WORK.get((self.work, event), self.work)


@dataclass(eq=False, slots=True)
class Live:
    """One live session."""

    id: str
    chain: Chain
    history: History
    home: Client | None = None
    """The client that gets the questions that are not for all drivers."""
    attached: dict[Client, Attachment] = field(default_factory=dict)
    members: dict[str, Raw] = field(default_factory=dict)
    """The agent's answer when the session was opened, kept up to date: modes, options …"""
    loading: Asked | None = None
    """The request that opens it, or has the agent replay it."""
    provisional: bool = False
    """Whether that request has not opened it yet."""
    waiting: list[Asked] = field(default_factory=list)
    """Requests that wait for the request in `loading`."""
    turn: Turn | None = None
    questions: dict[Asked, None] = field(default_factory=dict)
    """The chain's open questions in the session."""
    cwd: str = ""
    """The folder in which it works: the client that opened it has named it."""
    title: str = ""
    """The session's title, from the agent."""

    @property
    def is_live(self) -> bool:
        """Whether nobody has ended it since."""
        return self.chain.sessions.get(self.id) is self

    def drivers(self) -> list[Client]:
        """The clients that drive the session, the eldest first."""
        return [one for one, how in self.attached.items() if how.drives]

    def speaking(self) -> list[Client]:
        """The clients that get the hub's own updates."""
        return [one for one, how in self.attached.items() if how.speaks]

    def drives(self, client: Client) -> bool:
        """Whether a client is attached as a driver."""
        how = self.attached.get(client)
        return how is not None and how.drives

    def clients(self) -> list[dict[str, str]]:
        """The attached clients, as other clients are shown them."""
        return [{**one.shown, "role": self.role(one)} for one in self.attached]

    def role(self, client: Client) -> str:
        """How a client is attached, in a word."""
        return "driver" if self.drives(client) else "viewer"

    def described(self) -> dict[str, object]:
        """The session as a list of sessions describes it."""
        return {"live": True, **self.now(), "clients": self.clients()}

    def now(self) -> dict[str, object]:
        """The members about the session that the hub adds to the agent's own."""
        return {"turn": self.turn is not None, "version": self.chain.version}
