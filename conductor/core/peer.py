"""What the router knows of one peer, and of each of its two sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.accounts import Allowance
from conductor.core.dialects import PLAIN, Dialect
from conductor.core.keeping import Keeping
from conductor.core.pending import Link
from conductor.core.policy.gate import Gate
from conductor.core.policy.key_table import Direction
from conductor.core.policy.ordering import Copied, Given
from conductor.core.policy.rules import Policy
from conductor.core.topology import Role, Side
from conductor.core.writer import Writer, writers

if TYPE_CHECKING:
    from conductor.core.effects import Closure, Effect
    from conductor.core.roles.detection import Handshake
    from conductor.core.roles.offer import Shape


_MOST_WAITING: Final = 10_000
"""Messages that wait for a peer that cannot be written to yet …"""

_MOST_HELD: Final = 64 * 1024 * 1024
"""… and bytes of notifications among them."""


class Component(msgspec.Struct, frozen=True):
    """What the router is told about one component of the chain.

    `dialect` None means: find out. `services` are the granted services (None: all). `configure`
    is the JSON of the `configure` notification's params, or None to send none.
    """

    name: str
    label: str = ""
    """How errors call it, e.g. `proxy `datetime` (datetime.wasm)`; defaults to the name."""
    dialect: Dialect | None = None
    services: frozenset[str] | None = None
    configure: bytes | None = None
    policy: Policy | None = None
    """What it may do to the conversation; None: anything (trusted)."""
    instance: str = ""
    """Which instance of it this is, if not the first, as far as whoever made the router knows."""
    kept: bytes = b"{}"
    """What former instances kept for it, likewise."""
    known_as: frozenset[str] = frozenset()
    """Other names of its own, which its MCP servers may have."""
    numbers: range | None = None
    """For a host of guests that reports what passes between them: the numbers its messages have. It
    is told the numbers of all others."""
    allowance: Allowance = Allowance()
    """What it may cost."""
    hosts: bool = False
    """Whether it is a host of guests, which have policies of their own there."""
    limited: bool = False
    """Whether its turns are ended when nothing moves in them (`Router.turns`)."""


class Lane:
    """One side of one peer: where what it says there goes, and how it is written to there."""

    __slots__ = (
        "across",
        "direction",
        "given",
        "link",
        "other",
        "peer",
        "policed",
        "rights",
        "side",
        "wraps",
        "writer",
    )

    def __init__(self, peer: Peer, side: Side, link: Link, writer: Writer) -> None:
        self.peer = peer
        self.side = side
        self.link = link
        self.writer = writer
        self.across: Lane | None = None
        """The lane it is joined to: `lane.across.across is lane`."""
        self.other = self
        """Where its peer sends on what comes in here."""
        self.direction = Direction.DOWN
        """Which way messages go that its peer sends here."""
        self.given = Given()
        """Of a peer with a gate: what it was given that would leave here."""
        self.rights: dict[str, int] = {}
        """… and what it holds on what comes in here, by key, as far as that was asked for."""
        self.policed = False
        """Whether this peer or the one across has a gate."""
        self.wraps = False
        """Whether envelopes may come in on it."""


class Peer:
    """One connection's mutable state."""

    __slots__ = (
        "admitted",
        "answer_shape",
        "backlog",
        "c",
        "closure",
        "component",
        "dialect",
        "forwarded",
        "gate",
        "guessing",
        "handshake",
        "heard",
        "held",
        "ids",
        "initialize",
        "kept",
        "label",
        "launched_by",
        "lent",
        "mark",
        "name",
        "numbers",
        "offer_shape",
        "p",
        "ready",
        "recorded",
        "returning",
        "role",
        "run",
        "s",
        "shadow",
        "sideband",
        "sides",
        "turns",
        "unsettled",
    )

    def __init__(
        self,
        component: Component,
        role: Role,
        dialect: Dialect | None,
        *,
        watched: bool = False,
        ids: Iterator[int] | None = None,
    ) -> None:
        """`watched`: it has a gate though it has no policy. `ids`: of the requests it is given,
        where they do not begin with 1."""
        self.name = component.name
        self.label = component.label or f"`{component.name}`"
        self.component = component
        self.role = role
        self.run = 1
        """How often it has been started, this time included."""
        self.kept = Keeping(component.kept)
        """What it wants to be told when it is started again."""
        self.gate: Gate | None = None
        if component.policy is not None or watched:
            self.gate = Gate(component.policy, component.name)
        self.closure: Closure | None = None
        self.admitted = True
        """Whether its messages are let through; upstream's are once it has sent `initialize`."""
        self.guessing = dialect is None
        """Whether its dialect is still to be found out."""
        self.unsettled = dialect is None
        """Whether its first envelope tells more about its dialect than is known."""
        self.ready = dialect is not None and not dialect.launches
        """Whether it can be written to."""
        self.backlog: list[Callable[[list[Effect]], None]] = []
        """What waits until it can be, in order …"""
        self.held = 0
        """… and bytes of notifications among that."""
        self.heard = 0
        """The number of the last message that came from it."""
        self.turns: dict[str, bool] | None = {} if component.limited else None
        """Version 2: the sessions in which it works, and whether it is to stop there
        (`conductor.core.turns`)."""
        self.numbers = component.numbers
        """The numbers that come with its messages; None: those have none, and get none."""
        self.mark = 0
        """The number of the message that comes next from it; 0: none was said."""
        self.lent: dict[int, None] = {}
        """Numbers it was told, the last ones."""
        self.handshake: Handshake | None = None
        """Its initialization, while that is going on."""
        self.shadow: Copied | None = None
        """The `initialize` it got a copy of, where the original passes it by."""
        self.initialize: Raw | UnsetType | None = None
        """The params of the last `initialize` it was given; None before the first."""
        self.returning = False
        """Whether it is being started again and has not taken its role again yet."""
        self.recorded: tuple[bytes, bytes] | None = None
        """How its successor answered the `initialize` it forwarded (member, body)."""
        self.forwarded = False
        """Whether it has forwarded an `initialize` to its successor."""
        self.launched_by: Peer | None = None
        """For the second connection of an `scp` proxy: the proxy itself."""
        self.offer_shape: Shape | None = None
        """What stood where the proxy offer was put, in the `initialize` it got."""
        self.answer_shape: Shape | None = None
        """The same for the answer to the `initialize` it forwarded."""
        plain = Writer()
        self.ids = count(1) if ids is None else ids
        """Of the requests it is given: one count for both sides, so an id is never open on both."""
        self.p = Lane(self, Side.P, Link(self.ids), plain)
        self.s = Lane(self, Side.S, self.p.link, plain)
        self.p.other, self.s.other = self.s, self.p
        self.c = Lane(self, Side.P, self.p.link, plain)
        """For requests to the conductor itself; joined to nothing."""
        self.sides: dict[bytes, Lane] = {}
        self.speak(dialect or PLAIN)

    def hold(self, later: Callable[[list[Effect]], None], size: int) -> bool:
        """Keeps a notification of so many bytes until it can be written; whether there was room."""
        if self.held + size > _MOST_HELD or len(self.backlog) >= _MOST_WAITING:
            return False
        self.held += size
        self.backlog.append(later)
        return True

    def speak(self, dialect: Dialect) -> None:
        """Writes to this peer in `dialect` from now on."""
        self.dialect = dialect
        self.sideband = dialect.sideband
        self.p.wraps = self.role in (Role.PROXY, Role.OUTER) and not dialect.sideband
        self.p.writer, self.s.writer = writers(dialect, to_conductor=self.role is Role.OUTER)
        if dialect.sideband and not self.sides:
            self.s.link, self.c.link = Link(self.ids), Link()
            self.c.writer = Writer(b"c")
            self.sides = {b"p": self.p, b"s": self.s}

    @property
    def ready_some_time(self) -> bool:
        """Whether it can be written to, or will be."""
        return self.ready or (self.closure is None and self.handshake is not None)

    def lane(self, side: Side) -> Lane:
        """The lane of a side."""
        return self.p if side is Side.P else self.s

    def links(self) -> list[Link]:
        """Its id spaces, one or three."""
        return [self.p.link, self.s.link, self.c.link] if self.sideband else [self.p.link]
