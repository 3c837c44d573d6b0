"""A component as the router gets it, and the members that it keeps for its next instance."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.accounts import Allowance
from conductor.core.dialects import Dialect
from conductor.core.json_text import read_members, write_members
from conductor.core.policy.rules import Policy

UPSTREAM: Final = "client"
"""Name of the peer on the conductor's own stdio: the client, or the outer conductor."""

HOLD_INITIALIZE: Final = 60.0
"""Seconds that a component may hold `initialize`."""

LIMITS: Final = "limits."
"""The prefix of the names of limits, where settings stand beside them."""

MOST_KEPT: Final = 256 * 1024
"""Bytes of names and values that are kept for one component; the oldest members go first."""


class Role(Enum):
    """The role of a peer for this conductor."""

    CLIENT = "client"
    PROXY = "proxy"
    AGENT = "agent"
    OUTER = "outer"
    """The conductor that started this conductor in proxy mode."""


class Side(Enum):
    """The side of a peer that a message belongs to; the value is the channel ABI's side byte."""

    P = "p"
    """Towards the predecessor: plain messages."""
    S = "s"
    """Towards the successor: messages in an envelope."""


class Component(msgspec.Struct, frozen=True):
    """One component of the chain, as the caller of `Router` describes it."""

    name: str
    label: str = ""
    """How errors name it, e.g. `proxy `datetime` (datetime.wasm)`; defaults to the name."""
    dialect: Dialect | None = None
    """None: the router detects it."""
    services: frozenset[str] | None = None
    """The granted services; None: all."""
    configure: bytes | None = None
    """JSON of the params of the `configure` notification; None: none is sent."""
    policy: Policy | None = None
    """Its policy in the conversation; None: it may do anything (trusted)."""
    instance: str = ""
    """Which instance of it this is, if not the first."""
    kept: bytes = b"{}"
    """JSON object of the members that former instances kept."""
    known_as: frozenset[str] = frozenset()
    """Other names of its own, which its MCP servers may have."""
    numbers: range | None = None
    """For a host of guests whose messages a trace follows: the numbers of these messages. A router
    that makes the trace sends the host the numbers of all other messages."""
    allowance: Allowance = Allowance()
    """Its limits."""
    hosts: bool = False
    """Whether it is a host of guests, which have policies of their own there."""
    guests: dict[str, str] = {}
    """Of a host: its guests with a policy, and the turns of their own that each may have."""
    patience: float | None = None
    """Seconds that it has to take its role, whenever it is started; None: `HOLD_INITIALIZE`."""
    timed: bool = True
    """Whether its first start has this time here. If the conductor above a host enforces the policy
    of a guest, that conductor has a time for the guest."""
    program: bool = False
    """Whether it counts as ended if it does not take its role at its first start; a guest stays, as
    long as the chain can do without it."""
    initialize_passes: bool = False
    """Whether `initialize` goes past it although it has no policy here: it is a host, and none of
    its guests may take part in the handshake."""
    limited: bool = False
    """Whether its turns are ended when nothing moves in them (`Router.turns`)."""
    revived: bool = False
    """Of an agent: whether it may be started again, and then is to go on where it was."""
    logins: bool = True
    """Of an agent: whether the client can start its command for a login by terminal."""
    peer_agent: bool = False
    """Whether it is an agent beside the chain: a component is its client, or may have sessions go
    on with it."""
    ports: dict[str, bool] = {}
    """The peer agents it reaches, by name, and whether it has a policy there
    (`conductor.core.ports`). A host of guests has the ports of all of them."""
    agents: dict[str, str] = {}
    """The further agents with which it may have sessions go on, each with the component that has
    the right: itself, or a guest (`conductor.core.moving`)."""
    denied: dict[str, str] = {}
    """The words that are denied to the component, each with the name of who denies it: no hint
    offers these words."""
    judge: Policy | None = None
    """Of a trusted component: the rights by which it is judged. An act that they forbid is
    reported, and happens."""
    set_by: dict[str, dict[str, str]] = {}
    """The sources of its settings and limits (`setters`), by the component's name, or by the names
    of its guests."""


def setters(set_by: Mapping[str, str], text: str, *, starting: bool) -> str:
    """The source of the setting that a component refuses: ` (FILE, line N)`, for behind its words.

    Args:
        set_by: The source of each of its settings, by key, of each of its limits, by `limits.NAME`,
            and of all that has no name, by an empty key.
        text: The component's words. It refuses the settings that the words name in quotes, or has
            exceeded the limit that the words name.
        starting: Whether it has yet to take its role: words that name nothing then are about all
            of its settings. Later they are about none: the words of a running component go to
            others, who need not know the user's files.
    """
    settings = [key for key in set_by if not key.startswith(LIMITS)] if starting else []
    limits = [key for key in set_by if key.startswith(LIMITS)]
    named = [key for key in (*settings, *limits) if any(words in text for words in _naming(key))]
    found = (set_by[key] for key in named or settings)
    return "".join(f" ({who})" for who in dict.fromkeys(found))


def _naming(key: str) -> tuple[str, ...]:
    """The forms by which words name a setting or a limit; empty quotes name nothing."""
    if key.startswith(LIMITS):
        limit = key.removeprefix(LIMITS)
        return (f"exceeded {limit}", f"its limit {limit}")
    return (f"`{key}`", f"'{key}'", f'"{key}"') if key else ()


KEPT_ALIASES: Final = "conductor.aliases"
"""The name of the kept member with a component's aliases; this member is the conductor's own."""


class KeptMembers:
    """The members that one component has kept with `keep`, the latest last.

    A restarted component has forgotten everything while sessions go on. `configure` gives the
    members back to it, to a later instance only.
    """

    __slots__ = ("_bytes", "_members")

    def __init__(self, members: Raw | bytes = b"{}") -> None:
        self._members: dict[str, Raw] = {}
        self._bytes = 0
        self.update(members)

    def update(self, params: Raw | bytes | UnsetType | None) -> bool:
        """Sets members, or drops those that are null; False if `params` is no object."""
        members = read_members(params)
        if members is None:
            return False
        for name, value in members.items():
            self._drop(name)
            if bytes(value) != b"null":
                self._members[name] = Raw(bytes(value))  # not a view of a whole message
                self._bytes += len(name) + len(bytes(value))
        if self._bytes > MOST_KEPT:
            # One walk: to look for the first member again and again is quadratic.
            oldest = iter(list(self._members))
            while self._bytes > MOST_KEPT:
                self._drop(next(oldest))
        return True

    def _drop(self, name: str) -> None:
        value = self._members.pop(name, None)
        if value is not None:
            self._bytes -= len(name) + len(bytes(value))

    def get(self, name: str) -> Raw | None:
        """A member; None: it is not kept."""
        return self._members.get(name)

    def __bool__(self) -> bool:
        """Whether any member is kept."""
        return bool(self._members)

    def to_json(self) -> bytes:
        """All members, as a JSON object."""
        return bytes(write_members(self._members))


def newcomer(name: str) -> str:
    """The name under which a component takes its role before it joins the chain."""
    return f"{name}/new"
