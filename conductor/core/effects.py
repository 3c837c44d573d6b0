"""The effects that the router asks of the shell. Values only: the shell performs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from conductor.core.component import Side

if TYPE_CHECKING:
    from conductor.core.additions import Prompt


class Send(msgspec.Struct, frozen=True, gc=False):
    """Write `frame` (one or more whole lines, newline included) to `peer`."""

    peer: str
    frame: bytes
    copy: bool = False
    """A copy for an observer, which may be dropped if the observer is slow."""


class Propagate(msgspec.Struct, frozen=True, gc=False):
    """Write a request to the agent `peer`, with the trace context of the message in its params."""

    peer: str
    id: bytes
    method: str
    params: bytes
    number: int
    """The number of the message."""


class Resolve(msgspec.Struct, frozen=True):
    """Say where folders lead, by `Router.resolved`: a set-up for the agent `peer` waits for it."""

    peer: str
    token: int
    folders: tuple[str, ...]
    theirs: tuple[str, ...]
    """The folders of the user's sessions."""


class Keep(msgspec.Struct, frozen=True):
    """Keep the record of a prompt that the agent `peer` has got, beyond the end of this process."""

    peer: str
    session: str
    prompt: Prompt


class Recall(msgspec.Struct, frozen=True):
    """Say which records are kept, by `Router.recalled`: a request for the agent `peer` waits."""

    peer: str
    token: int
    session: str | None
    """None: the records of all sessions of this agent, as far as titles are made of them."""


class Serve(msgspec.Struct, frozen=True):
    """Perform a granted service of the conductor for `peer`."""

    peer: str
    service: str
    token: int | None
    """For `Router.served`, which takes the answer; None: it is a notification."""
    params: bytes | None
    """Raw JSON, if any."""


class Reopen(msgspec.Struct, frozen=True):
    """Start `peer` afresh: its process ended while the router detected its dialect."""

    peer: str


class Listen(msgspec.Struct, frozen=True):
    """Make an address for the successor connection of `peer` (dialect `scp`), and call
    `Router.listening` with the stdio server entry that the proxy is to launch."""

    peer: str


class Fail(msgspec.Struct, frozen=True):
    """The chain cannot go on because of `peer`. All waiting requests have been answered.

    Where `peer` is a component that was to join the chain (`Router.prepare`), it cannot join.
    """

    peer: str
    reason: Closure


class Silent(msgspec.Struct, frozen=True):
    """Take `peer` for one that has ended: it was to take its role, and has not."""

    peer: str
    method: str
    """The request that `peer` has not answered."""
    seconds: float
    """The time that `peer` had for its answer."""
    said: str = ""
    """The words of its error, where that is its answer."""

    @property
    def text(self) -> str:
        """The failure of `peer` in words, without its name."""
        if self.said:
            return f"refuses to start: {self.said}"
        return f"did not answer `{self.method}` within {self.seconds:g} s"


class LogLine(msgspec.Struct, frozen=True):
    """A line for the log. `level` is debug, info, warning or error."""

    level: str
    peer: str
    text: str


class OwnedAddresses(msgspec.Struct, frozen=True):
    """The policed `peer` has MCP servers or connections of its own, by their addresses.

    The shell keeps them for the router that takes this one's place (`Router`, `owned`).
    """

    peer: str
    addresses: tuple[str, ...]


class Violated(msgspec.Struct, frozen=True):
    """A component broke a rule of its policy; the other components see nothing of its act.

    With `would`, somebody only watches. Either the rule is not enforced, and the act has happened;
    or the component is only watched (the rule is `watch`), and the act has not happened.
    """

    peer: str
    rule: str
    """The guard's name, or `rights`, `identity`, `turns`, `hold`."""
    direction: str
    method: str
    pointer: str
    """A JSON pointer to the place in the message."""
    text: str
    fatal: bool
    """Whether the component's policy ends the component for this."""
    again: bool = False
    """A violation of the same rule, direction and key was reported before."""
    session: str | None = None
    """The session that the message names."""
    would: bool = False

    @property
    def closure(self) -> Closure:
        """Why the component is ended for the violation."""
        return Closure(
            self.text,
            f"it broke the rule `{self.rule}`; `conductor inspect` shows its policy",
            {"component": self.peer, "rule": self.rule},
        )


class Reached(msgspec.Struct, frozen=True):
    """A component reached out of the chain, or was kept from it, in a way that only the router sees
    (for an audit)."""

    peer: str
    what: str
    """A method, or a call of a service."""
    where: str
    bytes: int
    """Bytes of its params."""
    refused: str
    """Why it was refused; empty: it went on."""


class Wake(msgspec.Struct, frozen=True):
    """Call `Router.woken` with `token` after `seconds`."""

    token: int
    seconds: float


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One message crossed from one peer to another, or to or from the conductor itself.

    Each request has one response, of the peer it went to. Copies are not reported. The values are
    those that the router has read: nothing is copied, and nothing is read again.
    """

    kind: str
    """`request`, `notification` or `response`."""
    source: str
    """The sender's name; empty: the conductor itself."""
    source_side: Side
    """The side of its sender where it came in."""
    target: str
    """The receiver's name; empty: the conductor itself."""
    target_side: Side
    """The side of its receiver where it went out."""
    number: int
    """The number of the message, which it keeps where it goes past a component."""
    method: str
    """For a response the method of its request."""
    payload: Raw | bytes | None = None
    """The params, result or error, as they stand in the message."""
    id: bytes | None = None
    """The id of the request, as the asker wrote it."""
    request: int = 0
    """The number of the request that a response or a cancellation is about."""
    passes: int = 0
    """The number of the message that its sender got and passes on by it; 0: none, or nobody looks
    (`RouterOptions.tracing`)."""
    is_error: bool = False
    past: bool = False
    """A response that went past its sender."""
    own: bool = False
    """The conductor made it in its sender's stead."""
    lost: bool = False
    """The message went to nobody."""
    whole: int = 0
    """Bytes of the payload, where only its session was kept."""
    read: float = 0.0
    """The time when it was read, by the machine's monotonic clock, if it has waited since: the
    shell gives this time. 0: it did not wait."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A component changed the conversation (emitted only for an audit).

    `before` and `after` may differ in their spelling only: the shell compares them.
    """

    peer: str
    change: str
    """`modified`, `answered` (a request, by itself), `originated`, `dropped` (not passed on),
    `reordered` (passed on after a later message of its session; any other change has an effect of
    its own) or `rebound` (a session goes on as another of the agent's, by the call `rebind`)."""
    kind: str
    """`request`, `response` or `notification`: the kind of the message that was sent or dropped."""
    direction: str
    """`up` or `down`."""
    method: str
    """For a response the method of its request."""
    session: str | None
    number: int
    """The number of the message that the component got, or originated."""
    before: bytes | None = None
    """The params it got, or for a response `{"result":…}` or `{"error":…}`; None: none."""
    after: bytes | None
    """The params or the response as sent on; None: dropped."""
    source: str | None = None
    """The sender's name and its id; for a response see the target."""
    source_id: str | None = None
    target: str | None = None
    """The receiver's name, and the id: for a request the component's own id, for a response the id
    of the asker's request."""
    target_id: str | None = None


class Adapted(msgspec.Struct, frozen=True):
    """The agent `peer` got words for blocks of a prompt that it does not take."""

    peer: str
    session: str
    text: str
    """A sentence."""
    again: bool
    """Whether `peer` got words for blocks of this type in this session before."""


class Held(msgspec.Struct, frozen=True):
    """A prompt of the client waits for `Router.release`."""

    session: str | None


class Answered(msgspec.Struct, frozen=True):
    """A request of `Router.ask` has its answer."""

    token: int
    """As given to `ask`."""
    member: bytes
    """`result` or `error`."""
    body: bytes
    """The raw JSON of that member; an error too where the client can no longer answer."""


class Closure(msgspec.Struct, frozen=True):
    """Why a component is gone."""

    text: str
    """A sentence."""
    hint: str = ""
    """A hint at the next step."""
    data: dict[str, Any] = {}
    """Details for the data of errors."""


Effect = (
    Send
    | Propagate
    | Resolve
    | Keep
    | Recall
    | Serve
    | Reopen
    | Listen
    | Fail
    | Silent
    | LogLine
    | OwnedAddresses
    | Violated
    | Reached
    | Wake
    | Entry
    | Changed
    | Answered
    | Held
    | Adapted
)

Effects = list[Effect]
"""The effects of one call of the router, in order; the parts of the router append to them."""
