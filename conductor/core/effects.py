"""What the router asks the outside world to do. Values only; performing them is the runtime's."""

from __future__ import annotations

from typing import Any

import msgspec


class Send(msgspec.Struct, frozen=True, gc=False):
    """Write `frame` (one or more whole lines, newline included) to `peer`."""

    peer: str
    frame: bytes
    copy: bool = False
    """Only a copy for an observer: it may be lost when the observer is slow."""


class Serve(msgspec.Struct, frozen=True):
    """Perform a granted service of the conductor for `peer`.

    A request is answered by calling `Router.served` with `token`; `token` is None for a
    notification. `params` is raw JSON or None.
    """

    peer: str
    service: str
    token: int | None
    params: bytes | None


class Reopen(msgspec.Struct, frozen=True):
    """Start `peer` afresh: its previous process ended while its dialect was being found out."""

    peer: str


class Listen(msgspec.Struct, frozen=True):
    """Make an address where the successor connection of `peer` (dialect `scp`) will come in.

    Answered by `Router.listening` with the stdio server entry the proxy shall launch.
    """

    peer: str


class Fail(msgspec.Struct, frozen=True):
    """The chain cannot go on because of `peer`; what waited has been answered already."""

    peer: str
    reason: Closure


class LogLine(msgspec.Struct, frozen=True):
    """A line for the log. `level` is debug, info, warning or error."""

    level: str
    peer: str
    text: str


class OwnedAddresses(msgspec.Struct, frozen=True):
    """The policed `peer` has MCP servers or connections of its own, by their addresses.

    A router that may be replaced by another gives them to that one (`Router`, `owned`).
    """

    peer: str
    addresses: tuple[str, ...]


class Violated(msgspec.Struct, frozen=True):
    """A component broke a rule of its policy, and what it did has been undone.

    `rule` is the guard's name, or `rights`, `identity`, `turns`, `hold`; `pointer` shows where in
    the message. `fatal`: its policy says that it is to be ended for this.
    """

    peer: str
    rule: str
    direction: str
    method: str
    pointer: str
    text: str
    fatal: bool
    again: bool = False
    """Whether one of the same rule, direction and key was reported of it before."""


class Wake(msgspec.Struct, frozen=True):
    """Call `Router.woken` with `token` after so many seconds."""

    token: int
    seconds: float


class Trace(msgspec.Struct, frozen=True):
    """One message crossed from one peer to another (emitted only when tracing is on).

    `kind` is request, notification or response; `payload` the raw params, result or error. Each
    request is reported to be answered, once, by whom it went to. Copies are not reported.
    """

    kind: str
    source: str
    target: str
    """Who sent it and who got it, by name; empty: the conductor itself."""
    id: str | None = None
    """Of a request and its response: as who asked wrote it."""
    method: str | None = None
    payload: bytes | None = None
    is_error: bool = False
    source_side: str = "p"
    """The side of its sender it came in on (`topology.Side`, or `c`) …"""
    target_side: str = "p"
    """… and that of its receiver it went out on."""
    number: int = 0
    """Of the message; it keeps it where it goes past somebody."""
    request: int = 0
    """Of a response, and of a cancellation: the number of the request."""
    passes: int = 0
    """The number of the message that its sender was given and passes on by it; 0: none."""
    past: bool = False
    """Of a response: it went past its sender, who had no say about it."""
    own: bool = False
    """The conductor has made it, in its sender's stead."""
    lost: bool = False
    """Of a response: it went to nobody."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A component changed the conversation (emitted only for an audit).

    `change`: `modified`, `answered` (a request, by itself), `originated` (of its own), `dropped`
    (not passed on) or `reordered` (passed on after something of its session that came later; as it
    came, any other change is told besides). `kind` and `direction` are those of the message that
    was sent, or dropped: request, response or notification, up or down. Whether `before` and
    `after` differ in more than their spelling is for others to find out.
    """

    peer: str
    change: str
    kind: str
    direction: str
    method: str
    """Of a response: that of its request."""
    session: str | None
    number: int
    """Of the hop by which the component was given it, or sent what is its own."""
    before: bytes | None
    """The params it was given, or for a response `{"result":…}` or `{"error":…}`; None: none."""
    after: bytes | None
    """The same, as sent on; None: dropped."""
    source: str | None
    """Who had sent it, and under which id; for a response see the target."""
    source_id: str | None
    target: str | None
    """Who got it, and under which id: of a request the component's own, of a response the one it
    was asked under."""
    target_id: str | None


class Closure(msgspec.Struct, frozen=True):
    """Why a component is gone: a sentence, what to do next, and details for the error's data."""

    text: str
    hint: str = ""
    data: dict[str, Any] = {}


Effect = (
    Send
    | Serve
    | Reopen
    | Listen
    | Fail
    | LogLine
    | OwnedAddresses
    | Violated
    | Wake
    | Trace
    | Changed
)
