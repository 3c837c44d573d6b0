"""The state of one chain: its peers, their lanes and its open requests. A request is a flow with
its visits.

These records refer to each other (a lane knows its peer, a visit the lane it came from),
so they share one module. Other modules change them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from enum import Enum, IntEnum, auto
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import UNSET, Raw

from conductor.core import aliases
from conductor.core.aliases import Aliases, Names
from conductor.core.component import KEPT_ALIASES, Component, KeptMembers, Role, Side
from conductor.core.dialects import DETECTION, INITIALIZE, LAUNCH, PLAIN, Dialect
from conductor.core.effects import Closure
from conductor.core.jsonrpc import Params
from conductor.core.policy.entries import Excuse, Notification, Request, WaitingInOrder
from conductor.core.policy.headings import NO_MESSAGE, Heading, Message, size_of
from conductor.core.policy.key_table import EVERYTHING, Direction
from conductor.core.policy.ordering import InFlight
from conductor.core.policy.policy_state import PolicyState
from conductor.core.policy.states import MOST_RETRIES
from conductor.core.writer import (
    ReferringWriter,
    RenamingWriter,
    Writer,
    port_writer,
    writers,
)

if TYPE_CHECKING:  # few chains need it
    from conductor.core.agent_sessions import AgentSessions
    from conductor.core.payloads import Payloads

Answer = tuple[bytes, bytes]
"""An answer: `b"result"` or `b"error"`, and that member's JSON text."""

_MOST_WAITING: Final = 10_000
"""The most messages that wait for a peer that cannot be written to yet."""
_MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of the notifications and copies among these messages."""
_MOST_IGNORED: Final = 1024
"""The most requests of one id space that wait for an answer which nobody reads."""
_MOST_KEYS: Final = 1024
"""The most rights that one lane caches, by key: a peer may make up any number of keys."""


_SET_LATER: Final = cast("Any", None)
"""The value of a field that a record gets later, once the record needs the field."""


# -- requests --------------------------------------------------------------------------------------


class AnswerTo(IntEnum):
    """The taker of the answer to a visit (`Answers.complete`).

    Integers, since the hash of other enum members is a call of a Python function.
    """

    ASKER = auto()
    """The peer that sent the request."""
    NOBODY = auto()
    LAST = auto()
    """`initialize` of the last component; with its params, to resend them in another form."""
    ROLE = auto()
    """A role request; with its handshake."""
    LAUNCH = auto()
    """`_scp/proxy`; with its handshake."""
    PAST = auto()
    """Nobody waits for this answer of a component: the request is over, or goes past the
    component."""
    COPY = auto()
    """A copy of a request."""
    PEER_AGENT = auto()
    """`initialize` of a peer agent."""
    CONDUCTOR = auto()
    """The conductor itself, which has sent the request; a follower reads the answer."""


class Batch:
    """The answers of one JSON-RPC array, sent as one array once all are there."""

    __slots__ = ("_answers", "_open")

    def __init__(self, entries: int) -> None:
        self._answers: list[bytes] = []
        self._open = entries

    def add(self, answer: bytes | None) -> bytes | None:
        """Takes one entry's answer (None: it needs none); returns the array after the last one."""
        if answer is not None:
            self._answers.append(answer.rstrip(b"\n"))
        self._open -= 1
        if self._open or not self._answers:
            return None
        return b"[" + b",".join(self._answers) + b"]\n"


class Source(msgspec.Struct, eq=False):
    """The origin of a notification."""

    lane: Lane
    number: int
    passes: int = 0
    """The number of the notification that its sender passes on by it; 0: it is the sender's own."""
    own: bool = False
    """Whether the conductor sends the notification in its sender's stead, or has changed it."""

    def changed(self, changed: bool) -> Source:
        """This source; marked as the conductor's own if the conductor has `changed` the message."""
        return Source(self.lane, self.number, self.passes, own=True) if changed else self


class TracedRequest(msgspec.Struct, eq=False):
    """The facts about one request that entries need until its answer.

    A request is open at one place at a time. An entry tells its answer at this place, once, before
    the request is open at another.
    """

    source: Lane | None
    """The lane where the request came in; None: it is the conductor's own."""
    params: Params = UNSET
    """The params as they came in."""
    passes: int = 0
    """The number of the request that its sender passes on by it; 0: it is the sender's own."""
    lane: Lane | None = None
    """The lane where the request went out and has no answer yet."""
    response: tuple[bytes, Raw | bytes] | None = None
    """The response of the peer of that lane, if it is not (yet) the answer."""
    past: bool = False
    """Whether its answer goes past the peer that received the request."""
    answers: int = 0
    """The number of the answer that its own answer passes on; 0: there is none."""
    service: str = ""
    """The call of a service, if the request is such a call; else empty."""


class Follower:
    """A record that is kept of a request until its answer (`conductor.core.answers` reads it)."""

    __slots__ = ()


class Renamed(Follower, msgspec.Struct):
    """Beyond a lane, sessions have other ids."""

    ids: Mapping[str, str]
    """The ids on the way back, by the ids beyond the lane."""
    lane: Lane | None = None


class Noted(Follower, msgspec.Struct):
    """A request that opens an MCP connection; or one by which an agent's sessions are set up."""

    params: Params
    sessions: AgentSessions | None = None
    """The sessions of that agent."""


class Replayed(Follower):
    """A request of the client's, of which `conductor.core.replays` takes note."""

    __slots__ = ()


class Straight(Follower, msgspec.Struct):
    """A request to a peer past all others: the conductor's own, or of the editor to an owner."""

    peer: Peer


class Step(Follower, msgspec.Struct, eq=False):
    """A request of the conductor's own, for a session that moves to another agent."""

    session: str


class Seen(Follower, msgspec.Struct):
    """A prompt: of a component's own, or past the component."""

    policy_state: PolicyState
    session: str
    own: bool


class Forwarded(Follower, msgspec.Struct):
    """A prompt by which a trusted program has passed on a prompt that it was given."""

    prompt: Visit
    session: str | None


class PassedOn(Follower, msgspec.Struct):
    """A component passes `initialize` on."""

    peer: Peer
    handshake: Handshake


class AtPort(Follower, msgspec.Struct):
    """A peer agent asks its component something."""

    port: Lane
    params: Params = UNSET


class Flow(msgspec.Struct, eq=False):
    """One request, from where it enters the chain to where it ends: the facts of its whole way.

    Components with policies, guests and hosts of guests pass a request on. A request of any other
    program is a flow of its own, since nobody knows which request the program passes on by it.
    """

    lane: Lane | None
    """The lane where it came in first; None: it is the conductor's own."""
    key: bytes
    """Its id there."""
    own: bool = False
    """Whether it is a component's own: of a component with a policy, or a trusted one's prompt."""
    within: Flow | None = None
    """The request within which a component has sent it, and with which it shares its limits."""
    stopped: bool = False
    """Whether the user has cancelled it."""
    made: bool = False
    """Whether the agent has made a session for it; a further session is not for it."""
    retries: dict[PolicyState, int] = {}
    """How often each component has retried it, or a request that was sent within it."""

    @property
    def by(self) -> str:
        """The component whose own request it is. Empty: it is the client's, or a program without a
        policy has sent it, and nobody knows whether that program has passed it on."""
        if self.lane is None or self.lane.peer.role is not Role.PROXY:
            return ""
        peer = self.lane.peer
        return (peer.launched_by or peer).name if self.own or peer.sideband else ""

    @property
    def whole(self) -> Flow:
        """The request within which this request was sent; else this request."""
        return self.within or self

    def may_retry(self, policy_state: PolicyState) -> bool:
        """Counts a retry of a component; False if it had too many, or the user has cancelled."""
        # Counted for the whole: else a few components together could make thousands of one request.
        whole = self.whole
        tried = whole.retries.get(policy_state, 0)
        if whole.stopped or tried >= MOST_RETRIES:
            return False
        whole.retries[policy_state] = tried + 1
        return True


class Visit(Request, eq=False):
    """A flow at one hop, without an answer: who sent it under which id, and where it went under
    which id.

    A component with a policy state carries each request that goes to it: the fields that `carry`
    sets are known from then on, and `state` says where the request stands with the component. A
    request that a component is only shown has no sender (`copy_of`).
    """

    origin: Lane | None
    """The lane where it came in; None for a request of the conductor's own, and once it is answered
    or the asker is gone."""
    raw_id: bytes
    """The id as the asker wrote it."""
    key: bytes
    """This id in the spelling used for comparing."""
    flow: Flow
    """The request as a whole."""
    batch: Batch | None = None
    number: int = 0
    """The number of this message."""
    size: int = 0
    """Bytes of its params, as they count against `open_bytes` of the asker."""
    answer_to: AnswerTo = AnswerTo.ASKER
    target: Lane | None = None
    """The lane where it went out; None while it waits."""
    target_id: bytes = b""
    cancelled: bool = False
    cancelled_by: Source | None = None
    """The source of its cancellation; None: the conductor."""
    followers: tuple[Follower, ...] = ()
    """The followers that read its answer, in order, also where the asker is gone."""
    copies: tuple[Visit, ...] = ()
    """The copies of this request, which are answered and cancelled as the request is."""
    bypassed: tuple[tuple[Lane, Heading, Visit | None], ...] = ()
    """The bypassed components whose pending messages this answer must not overtake, outermost
    first: the lane by which the request came in there, its heading, and the copy that was shown
    there."""
    passes_on: Visit | None = None
    """The carried request that a component with a policy state passes on by this one."""
    forwarded: Visit | None = None
    """The request by which the component that has this request passed it on. A program without a
    policy chooses ids itself: there it is known of prompts alone."""
    session: str | None = None
    """The session of a prompt that an agent has."""
    names: str | None = None
    """The session that it names, by the id of its origin: known of the client's requests, of
    prompts, and where policies are."""
    answer_number: int = 0
    """The number of the message that is its answer; 0: none yet, or one of the conductor's."""
    traced: TracedRequest | None = None
    rewriters: tuple[Follower, ...] = ()
    """The followers that change the answer on its way back, the last of them first."""
    lane: Lane = _SET_LATER
    """The lane where it came into the component that carries it; it is passed on by
    `lane.other`."""
    policy_state: PolicyState = _SET_LATER
    """The policy state of that component: kept here, since up to twelve steps of each request read
    it."""
    rights: int = 0
    upstream: Answer | None = None
    """The answer to the request that the component passed on; of a copy, the original's answer."""
    held: WaitingInOrder | None = None
    """The answer in `upstream`, where it waits to go past the component; of a copy, the message
    that waits for the copy."""
    excused: Excuse | None = None
    retries: int = 0
    passed_on_by: tuple[Visit, ...] = ()
    """Of a copy: the component's requests by which it passed the copy on; they are answered as the
    original is."""
    handshake: Handshake = _SET_LATER
    """The handshake for which a role request, or the request to launch, was sent."""

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for its answer: its asker, the conductor, or, where a component
        that is gone has passed a request on by it, the asker of that request."""
        if self.origin is not None or self.method in (INITIALIZE, LAUNCH):
            return True
        if self.answer_to is AnswerTo.CONDUCTOR:
            return True
        return self.given is not None and self.given.wanted

    @property
    def is_first(self) -> bool:
        """Whether its flow began with it: it passes on no other request, as far as anybody
        knows."""
        return self.flow.lane is self.origin

    @property
    def is_own(self) -> bool:
        """Whether a component has sent it of its own, and not passed it on: see `Flow.own`."""
        return self.flow.own and self.is_first

    @property
    def is_taken(self) -> bool:
        """Of a copy: whether its component has passed it on, or answered it."""
        return bool(self.passed_on_by) or self.answer_to is not AnswerTo.COPY

    @property
    def given(self) -> Visit | None:
        """The request that a policed component passes on by it; None: it is its sender's own, or
        nobody polices the sender."""
        carried = self.passes_on
        return carried if carried is not None and carried.policy_state.enforced else None

    def carry(self, lane: Lane, message: Message, rights: int) -> None:
        """The component at `lane` is to have this request."""
        self.method, self.params, self.heading = message
        self.begins()
        self.order, self.round = 0, -1
        self.lane, self.policy_state, self.rights = lane, lane.peer.policed, rights
        self.forwarded, self.upstream, self.held, self.excused = None, None, None, None
        self.retries = 0

    def stands_for(self, carried: Visit, *, passed: bool) -> None:
        """This visit takes the place of a request that a component has carried and not answered.
        `passed`: the component has passed that request on, so its late answer is compared with the
        answer that came back."""
        self.answer_to, self.heading, self.excused = AnswerTo.PAST, carried.heading, carried.excused
        self.lane, self.target, self.target_id = carried.lane, carried.lane, carried.target_id
        self.forwarded, self.upstream = carried.forwarded, carried.upstream if passed else None
        self.params, self.retries, self.policy_state = UNSET, 0, carried.policy_state
        if self.forwarded is not None and self.forwarded.passes_on is carried:
            self.forwarded.passes_on = self


def own_visit(method: str) -> Visit:
    """A request of the conductor's own."""
    return Visit(None, b"null", b"null", Flow(None, b"null"), method=method)


def unread(method: str) -> Visit:
    """A placeholder for a request: nobody reads its answer."""
    pending = own_visit(method)
    pending.answer_to = AnswerTo.NOBODY
    return pending


def copy_of(message: Message, answer: Answer | None = None) -> Visit:
    """A copy of a request, to show it to a component or to give the component its role. `answer`:
    the answer to the original."""
    copy = unread(message.method)
    copy.answer_to, (_, copy.params, copy.heading) = AnswerTo.COPY, message
    copy.upstream, copy.held, copy.passed_on_by = answer, None, ()
    return copy


class IdSpace(msgspec.Struct, eq=False):
    """The visits of one id space, by raw id.

    A connection has one, or one for each side where its dialect keeps the sides apart (`channel`).
    """

    ids: Iterator[int] = msgspec.field(default_factory=partial(count, 1))
    """The count from which it takes new ids."""
    _ignored: dict[bytes, Visit] = {}
    _prompts: dict[str | None, list[tuple[int, int, Visit]]] = {}
    """Heaps of the prompts among `sent`, by session, with their numbers. Two prompts may have one
    number; some prompts may have been answered."""
    _ties: Iterator[int] = msgspec.field(default_factory=count)
    _given: int = 0
    """The prompts in these heaps, at most."""
    sent: dict[bytes, Visit] = {}
    """The requests written to the peer, and not answered by it."""
    received: dict[bytes, Visit] = {}
    """The requests sent by the peer, and not answered to it."""
    size: int = 0
    """Bytes of the params of these requests."""
    lost: bool = False
    """Whether a request was ever sent that had no answer in time, or whose answer did not
    arrive."""

    def fresh_id(self) -> bytes:
        """An id that is not open here, as raw JSON."""
        while (id_ := b"%d" % next(self.ids)) in self.sent:
            pass
        return id_

    def lose(self, id_: bytes) -> Visit | None:
        """Takes off a request that gets no answer."""
        self.lost = True
        return self.sent.pop(id_, None)

    def only(self, id_: bytes | None) -> bytes | None:
        """The id of the one request that an answer under an id of no request can be meant for.

        None: several are open, or a request was ever lost, or a request had this id before. `id_`:
        None, if the answer has no valid id.
        """
        if len(self.sent) != 1 or self.lost:
            return None
        if id_ is not None and id_.isdigit():
            # A count tells its next number by its name alone; to take it would change later ids,
            # and to keep it beside the count would cost each request.
            fresh = int(repr(self.ids).removeprefix("count(").removesuffix(")"))
            if 0 < int(id_) < fresh:
                return None
        return next(iter(self.sent))

    def give_prompt(self, session: str | None, pending: Visit) -> None:
        """A prompt is sent to a trusted component, in a session as the component calls it."""
        self._given += 1
        if self._given > 2 * len(self.sent) + _MOST_IGNORED:
            # Not each time: so that a prompt costs the same however many are open.
            for other, prompts in list(self._prompts.items()):
                prompts[:] = sorted(one for one in prompts if self._is_open(one[2]))
                if not prompts:
                    del self._prompts[other]
            self._given = sum(map(len, self._prompts.values()))
        prompt = (pending.number, next(self._ties), pending)
        heappush(self._prompts.setdefault(session, []), prompt)

    def _is_open(self, prompt: Visit) -> bool:
        return self.sent.get(prompt.target_id) is prompt

    def held_prompt(self, session: str | None) -> Visit | None:
        """The oldest prompt of a session that the peer, a trusted program, holds: it has not
        answered the prompt, and has not passed it on or has the answer. A prompt that was passed
        on comes back by `give_prompt`."""
        prompts = self._prompts.get(session, [])
        while prompts:
            prompt = prompts[0][2]
            passed = prompt.forwarded is not None and prompt.forwarded.origin is not None
            if self._is_open(prompt) and not passed:
                return prompt
            heappop(prompts)
        return None

    def has_prompt(self, session: str | None, passed: Container[bytes]) -> bool:
        """Whether the peer, a trusted guest, has a prompt of a session that it has not answered nor
        `passed` on, under its id."""
        return any(
            self._is_open(prompt) and prompt.target_id not in passed
            for *_, prompt in self._prompts.get(session, [])
        )

    def ignore(self, id_: bytes, pending: Visit) -> None:
        """Expects an answer that concerns nobody. Beyond `_MOST_IGNORED`, the oldest is expected no
        longer."""
        self.sent[id_] = self._ignored[id_] = pending
        if len(self._ignored) > _MOST_IGNORED:
            oldest = next(iter(self._ignored))
            if self.sent.get(oldest) is self._ignored.pop(oldest):
                self.lose(oldest)


class Next(Enum):
    """The next step of a message that waits (`conductor.core.waits`)."""

    LEAVES = "leaves a component that it goes past"
    ANSWERS = "goes back past a component, to who asked"
    UNCHANGED = "leaves a component that has swallowed it and may not"
    ARRIVES = "reaches the peer of its lane"
    GIVEN = "is given to the component that carries it"
    COPY = "is shown to a component"
    INITIALIZE = "is `initialize` for the peer of its lane"
    AGAIN = "the same once more, if somebody still waits for the answer"
    HELD = "leaves the client, after the conductor has held it"
    SENT = "leaves its sender, who is trusted"
    SENT_OWN = "leaves its sender, who has a policy"


class Waiting(WaitingInOrder, eq=False):
    """A message that waits, and goes on once it may: its place, and its next step."""

    next: Next
    lane: Lane
    of: Visit | Source | Notification | tuple[Source, Notification] | tuple[Visit, Visit] | None
    """The request; of a notification its source, its record where a component carries it, or both;
    of a copy of a request the copy and the original."""
    message: Message = NO_MESSAGE
    answer: Answer | None = None


# -- peers -----------------------------------------------------------------------------------------


class Lane(msgspec.Struct, eq=False):
    """One side of one peer: how to write to it there, and where its messages from there go.

    Routing is a lookup: a message of a peer's lane leaves by `lane.across`.
    """

    peer: Peer
    side: Side
    requests: IdSpace
    writer: Writer
    other: Lane = _SET_LATER
    """The lane by which its peer sends on the messages that come in here."""
    across: Lane | None = None
    """The lane it is joined to: `lane.across.across is lane`."""
    aliases: Aliases | None = None
    """On the successor side of a component: the other ids that sessions have beyond."""
    renames: Mapping[str, str] | None = None
    """The new ids of sessions where messages leave the peer here; None: all ids stay."""
    direction: Direction = Direction.DOWN
    """The direction of the messages that its peer sends here."""
    in_flight: InFlight[Visit] = msgspec.field(default_factory=InFlight)
    """The messages given to a peer with a policy state that would leave here."""
    rights: dict[str, int] = {}
    """The peer's rights on messages that come in here, by key, as far as they are known."""
    policed: bool = False
    """Whether this peer or the peer across has a policy state, or there are aliases between."""
    wraps: bool = False
    """Whether envelopes may come in on it."""
    mates: tuple[Lane, ...] = ()
    """Of the chain's agent: the lanes of the agents with which sessions may go on instead."""
    port: str = ""
    """The peer agent to which the lane leads, or belongs; empty: it is a lane of the chain."""

    def __post_init__(self) -> None:
        self.other = self

    def rights_on(self, heading: Heading) -> int:
        """The rights of a policed peer on messages in the direction of those that come in here: on
        messages that it gets, has, or sends itself."""
        rights = self.rights.get(heading.key)
        if rights is None:
            rights = self.peer.policed.rights(self.other.direction, heading.key)
            if len(self.rights) < _MOST_KEYS:
                self.rights[heading.key] = rights
        if type(heading.detail) is tuple:
            policy_state = self.peer.policed
            if policy_state.enforced and policy_state.owns(heading.detail):
                return EVERYTHING
        return rights

    def rights_now(self, heading: Heading) -> int:
        """The rights of a policed peer on one message that comes in here: asked once for each.

        A paused peer has rights only on messages about its own MCP servers. Nobody knows the MCP
        servers of a trusted peer, so a trusted peer gets all messages about MCP servers, and passes
        on those of others."""
        rights, policy_state = self.rights.get(heading.key), self.peer.policy_state
        assert policy_state is not None
        by_mcp = type(heading.detail) is tuple
        if rights is None or by_mcp:  # else a call is saved, for each hop of each message
            rights = self.rights_on(heading)
        if policy_state.paused and not (by_mcp and rights == EVERYTHING):
            return 0
        return rights

    def muted(self, heading: Heading) -> bool:
        """Whether a message that the peer of this lane sends, and was not given, stops here: the
        peer is paused. A trusted peer may send a message that it was given before, so it is never
        muted."""
        policy_state = self.peer.policed
        quiet = policy_state.paused and policy_state.enforced
        return quiet and not self.rights_now(heading)


class DialectState(Enum):
    """How far a peer's dialect is known."""

    UNKNOWN = "unknown"
    """The handshake is to find out."""
    TENTATIVE = "tentative"
    """Known, but for `sacp` and `pacp`, which the first envelope tells apart."""
    KNOWN = "known"


class Life(Enum):
    """The states of a component between its start and its end."""

    STARTING = "starting"
    """The component cannot be written to: its dialect is not known, or it is to launch its
    successor."""
    READY = "ready"
    RESTARTING = "restarting"
    """Another instance takes the role anew; messages for it wait until then. A component that is to
    join the chain has this state too."""
    GONE = "gone"


MOVES: Final = {
    Life.STARTING: {Life.READY, Life.RESTARTING, Life.GONE},
    Life.READY: {Life.STARTING, Life.RESTARTING, Life.GONE},
    Life.RESTARTING: {Life.READY, Life.STARTING, Life.GONE},
    Life.GONE: set[Life](),
}
"""The moves of a component. Any other move changes nothing: a component that is gone does not come
back."""


class Handshake(msgspec.Struct, eq=False):
    """The initialization of one proxy while it goes on."""

    pending: Visit
    params: Params
    left: list[Dialect]
    """The dialects in which its role request has not been sent yet."""
    tried: list[Dialect] = []
    number: int = 0
    """The number of the message by which it began."""
    reopened: bool = False
    """Whether the peer has been started once more; that happens once."""
    onward: Visit | None = None
    """The `initialize` that a policed peer has forwarded for it."""
    upstream: Answer | None = None
    """The answer to that `initialize`."""
    answer_goes_past: bool = False
    """Whether that answer goes back, without an answer of the peer's own."""
    role_answer: bytes | None = None
    """The peer's result of its role request, while it is to launch its successor (`scp`)."""
    launched: bytes | None = None
    """The peer's result of the launch, until its successor has answered `initialize`."""
    had_time: bool = False
    """Whether the peer has had the time to launch and initialize its successor."""

    @property
    def peer(self) -> Peer:
        """The proxy."""
        assert self.pending.target is not None
        return self.pending.target.peer

    def next_dialect(self) -> Dialect:
        """Takes the dialect of the next role request."""
        self.tried.append(self.left.pop(0))
        return self.tried[-1]

    def prefer(self, dialect: Dialect) -> None:
        """Tries `dialect` next, unless it was tried: the peer's envelopes look like it."""
        if dialect not in self.tried:
            self.left = [dialect, *(other for other in self.left if other is not dialect)]


class Peer(msgspec.Struct, eq=False):
    """One connection, as the router sees it."""

    component: Component
    """The facts that are known of the peer beforehand."""
    role: Role
    ids: Iterator[int] = msgspec.field(default_factory=partial(count, 1))
    """The ids of the requests that it is given: one count for all sides, so no id is open on
    two."""
    watched: bool = False
    """Whether it has a policy state even without a policy, for an audit or a trace."""
    policy_state: PolicyState | None = None
    closure: Closure | None = None
    """Why it is gone."""
    deaf: bool = False
    """Whether it is told nothing: it is gone, or its requests are being settled."""
    admitted: bool = True
    """Whether its messages are let through: those of upstream once it has sent `initialize`, those
    of an agent that is started again once the agent is where it was."""
    starts: int = 1
    """How often it has been started."""
    inside: tuple[Aliases, ...] = ()
    """Of a host: the aliases of its guests, in order. The host's messages have them already."""
    backlog: list[Waiting] = []
    """The messages that wait until it is ready, in order; of the client, until it knows of the
    session."""
    backlog_bytes: int = 0
    """Bytes of the notifications and copies in the backlog."""

    # Initialization.
    handshake: Handshake | None = None
    """Its initialization, while that goes on."""
    initialize: Params | None = None
    """The params of the last `initialize` it was given; None before the first."""
    forwarded: bool = False
    """Whether it has forwarded an `initialize` to its successor."""
    passed: Params | None = None
    """The params of the `initialize` that went on from it."""
    recorded_answer: Answer | None = None
    """The answer of its successor to that `initialize`."""
    answered: Answer | None = None
    """Its answer to the `initialize` that reached it."""
    joined: bool = True
    """Whether it is part of the chain; a component that is to join takes its role before."""
    shadow: Visit | None = None
    """The `initialize` it got a copy of, where the original passes it by."""
    launched_by: Peer | None = None
    """For the second connection of an `scp` proxy: the proxy itself."""
    offer_shape: frozenset[str] | None = None
    """The places of the proxy offer that stood in its `initialize` already
    (`roles.initialize_params`)."""
    answer_shape: frozenset[str] | None = None
    """The same places in the answer to the `initialize` that it forwarded."""

    # An agent, as its answer to `initialize` describes it (`conductor.core.adaptation`).
    untaken: frozenset[str] = frozenset()
    """The types of blocks that it does not take in prompts."""
    adapted: set[tuple[str, str]] = set()
    """The sessions in which it got words for such a block, with the type of the block."""
    payloads: Payloads | None = None
    """The long texts to which it has references; None: it gets texts whole."""
    streams: bool = True
    """Whether nobody looks for its updates. Of an agent: it has sent words in an update, so the
    result of a prompt holds none. Of a component: it has no turn of its own that the client
    sees."""
    agent_sessions: AgentSessions | None = None
    """Of an agent that may be started again: the sessions that it has to get back."""
    names: Names | None = None
    """Of an agent of a chain in which sessions may move between agents: its ids of the sessions
    that have moved to it."""

    # Numbers of messages (`conductor.core.tracing`).
    last_number: int = 0
    """The number of the last message that came from it."""
    next_number: int = 0
    """The number it announced for its next message; 0: none."""
    announced: dict[int, None] = {}
    """The last numbers that were announced to it."""

    # Made of the fields above.
    name: str = ""
    numbers: range | None = None
    """The numbers that come with its messages; None: its messages have none, and get none."""
    label: str = ""
    dialect: Dialect = PLAIN
    dialect_state: DialectState = DialectState.UNKNOWN
    sideband: bool = False
    ready: bool = False
    """Whether it can be written to. Set by `move`; read for each message."""
    life: Life = Life.STARTING
    loading: bool = False
    """Whether it is a host that has not loaded its guests: they have seen nothing yet."""
    kept: KeptMembers = _SET_LATER
    sides: dict[bytes, Lane] = {}
    """Its lanes by side byte, where its dialect has side bytes."""
    p: Lane = _SET_LATER
    s: Lane = _SET_LATER
    c: Lane = _SET_LATER
    """For requests to the conductor itself; joined to nothing."""
    ports: dict[str, Lane] = {}
    """Its lanes to peer agents, by their names: more successor sides beside `s`."""
    id_spaces: list[IdSpace] = []
    """One for all sides, or one for each of the sides `p`, `s` and `c`."""
    returns: bool = False
    """Whether a message that it returns as it came equals, but for the side, the message that it
    was given: it has a policy, side bytes, and whole texts."""

    def __post_init__(self) -> None:
        component = self.component
        self.name, self.numbers = component.name, component.numbers
        self.label = component.label or f"`{component.name}`"
        self.loading, self.kept = component.hosts, KeptMembers(component.kept)
        if component.dialect is not None:
            self.dialect, self.dialect_state = component.dialect, DialectState.KNOWN
            if not component.dialect.launches:
                self.life, self.ready = Life.READY, True
        if self.watched or component.policy is not None or component.judge is not None:
            self.policy_state = PolicyState(
                component.policy, component.name, component.denied, judge=component.judge
            )
        self._make_lanes()
        self.speak(self.dialect)

    def _make_lanes(self) -> None:
        plain, requests = Writer(), IdSpace(self.ids)
        self.p = Lane(self, Side.P, requests, plain)
        self.s = Lane(self, Side.S, requests, plain)
        self.c = Lane(self, Side.P, requests, plain)
        self.p.other, self.s.other = self.s, self.p
        self.s.aliases = aliases.of_json(self.kept.get(KEPT_ALIASES))
        self.id_spaces = [requests]
        for name in self.component.ports:
            self.ports[name] = port = Lane(self, Side.S, requests, plain)
            port.other, port.port = self.p, name

    def speak(self, dialect: Dialect) -> None:
        """Writes to this peer in `dialect` from now on."""
        self.dialect = dialect
        self.sideband = dialect.sideband
        self.p.wraps = self.role in (Role.PROXY, Role.OUTER) and not dialect.sideband
        self.p.writer, self.s.writer = writers(dialect, to_conductor=self.role is Role.OUTER)
        if self.names is not None and self.component.peer_agent:
            self.p.writer = RenamingWriter(self.names.down)
        longest = self.component.allowance.text_bytes
        if longest is not None and self.role is Role.PROXY:
            from conductor.core.payloads import Payloads

            self.refer(Payloads(longest) if self.payloads is None else self.payloads)
        if dialect.sideband and not self.sides:
            self.s.requests, self.c.requests = IdSpace(self.ids), IdSpace()
            self.id_spaces = [self.p.requests, self.s.requests, self.c.requests]
            self.c.writer = Writer(b"c")
            self.sides = {b"p": self.p, b"s": self.s}
            if self.payloads is not None:
                self.payloads.spaces.append(self.s.requests.sent)
        self.s.wraps = dialect.sideband and bool(self.ports)
        for name, port in self.ports.items():
            port.requests = self.s.requests
            port.writer = port_writer(dialect, name, to_conductor=self.role is Role.OUTER)
        enforced = self.policy_state is not None and self.policy_state.enforced
        self.returns = enforced and dialect.sideband and self.payloads is None

    def refer(self, payloads: Payloads) -> None:
        """Writes long texts to this peer as references."""
        if self.payloads is None:
            payloads.spaces.append(self.p.requests.sent)
        self.payloads, self.returns = payloads, False
        for lane in (self.p, self.s):
            lane.writer = ReferringWriter(lane.writer, payloads)

    def wait(self, waiting: Waiting, bounds: tuple[int, int] | None = None) -> bool:
        """Puts a notification or a copy into the backlog; False if there is no room.

        Args:
            bounds: of messages, and of bytes.
        """
        size = size_of(waiting.message.params)
        most, most_bytes = bounds or (_MOST_WAITING, _MOST_WAITING_BYTES)
        if self.backlog_bytes + size > most_bytes or len(self.backlog) >= most:
            return False
        self.backlog_bytes += size
        self.backlog.append(waiting)
        return True

    def take_backlog(self) -> list[Waiting]:
        """Takes out the messages that wait, in order."""
        waiting, self.backlog, self.backlog_bytes = self.backlog, [], 0
        return waiting

    def move(self, life: Life, reason: Closure | None = None) -> None:
        """Puts it into this state, if `MOVES` has the move. `reason`: why it is gone."""
        if life in MOVES[self.life]:
            self.life, self.ready, self.closure = life, life is Life.READY, reason

    @property
    def restarting(self) -> bool:
        """Whether it is being started again and has not taken its role again yet."""
        return self.life is Life.RESTARTING

    @property
    def starting(self) -> bool:
        """Whether it has yet to take its role."""
        return self.initialize is None or self.handshake is not None

    def begin_handshake(self, pending: Visit, params: Params) -> Handshake:
        """Starts an initialization that `pending` waits for."""
        unknown = self.dialect_state is DialectState.UNKNOWN
        left = list(DETECTION) if unknown else [self.dialect]
        self.handshake = Handshake(pending, params, left)
        return self.handshake

    @property
    def ready_some_time(self) -> bool:
        """Whether it can be written to, or will be."""
        return self.ready or (self.closure is None and self.handshake is not None)

    @property
    def left_out(self) -> bool:
        """Whether messages go on without a policed component that is not there: it has not taken
        its role, or the chain bypasses it. But nothing goes past a component that fails closed."""
        before, policy_state = self.p.across, self.policy_state
        assert policy_state is not None
        bypassed = before is not None and before.across is not self.p
        open_ = policy_state.enforced and policy_state.policy.fails != "closed"
        return open_ and (self.closure is None or bypassed)

    @property
    def policed(self) -> PolicyState:
        """Its policy state, for code that only peers with a policy state reach."""
        assert self.policy_state is not None
        return self.policy_state

    def lane(self, side: Side) -> Lane:
        """The lane of a side."""
        return self.p if side is Side.P else self.s
