"""Puts the lines of a ring together as hops: for what a peer got, who sent it.

The router is not asked, since it keeps no record of that. A message that somebody got is one that
somebody before sent with the same method and params; a request that was written anew on its way
(the handshake, or one whose change was undone) is the oldest of its method that nobody has got
yet; all else the conductor itself has sent. Answers belong to their requests by ids.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from conductor.core import UPSTREAM, Trace, Violated
from conductor.core.dialects import CANCEL, INITIALIZE
from conductor.core.json_text import read_members
from conductor.core.policy.headings import heading
from conductor.core.policy.key_table import CARRY, MCP_FAMILIES, ORIGINATE, Direction
from conductor.core.policy.rules import Policy
from conductor.core.rearranging import newcomer
from conductor.core.roles.initialize import successor_name
from conductor.record.ring.passed import ACROSS, Answer, Got, Hop, Sent
from conductor.record.ring.wire import Wire, read
from conductor.record.trace.hops import CONDUCTOR, ChainNames, Departure, shown_name
from conductor.record.trace.records import Conversation
from conductor.run.ring import Chain, Chunk, Kept

_NEWCOMER: Final = newcomer("")
_SUCCESSOR: Final = successor_name("")
_REMEMBERED: Final = 256
"""Messages with equal params that are remembered."""


class Verdict(msgspec.Struct):
    """A rule was broken."""

    violation: Violated
    at: float


class Joiner:
    """Takes the chunks of a ring in order; `hops` are what came of them, in order."""

    def __init__(self, kept: Kept, mode: str, content: str) -> None:
        self.hops: list[Hop | Verdict] = []
        self.start = kept.chunks[0].at if kept.chunks else 0.0
        """By the machine's clock, the zero of times in hops."""
        self._mode = mode
        self._content = content
        self._names = ChainNames()
        self._places: dict[str, int] = {}
        self._known: dict[str, None] = {}
        """The names of all components that there have been."""
        self._hosts: set[str] = set()
        self._policies: Mapping[str, Policy] = {}
        self._uninitialized: frozenset[str] = frozenset()
        self._rights: dict[tuple[str, bool, str], int] = {}
        """Rights of components by name, direction (whether down) and key."""
        self._number = 0
        self._heard = not kept.forgotten
        """Whether the sender of what somebody gets has been seen, if it is no conductor."""
        self._sent: dict[tuple[str, str, str], Sent] = {}
        """Open requests of peers, by peer, side byte and id …"""
        self._given: dict[tuple[str, str, str], Sent] = {}
        """… and open requests to peers."""
        self._got: defaultdict[tuple[str, str], Got] = defaultdict(Got)
        self._equal: dict[tuple[object, ...], dict[int, deque[Sent]]] = {}
        """What nobody has got yet, by what it says and by its sender's place."""
        self._loose: defaultdict[tuple[object, ...], dict[int, Sent]] = defaultdict(dict)
        """The requests among these, by direction and method."""
        self._received: defaultdict[tuple[object, ...], deque[Sent]] = defaultdict(
            lambda: deque(maxlen=_REMEMBERED)
        )
        """What somebody got, by what it says."""
        self._now = 0.0
        self._talks: dict[str, Conversation] = {}
        """Of peers with the conductor's own services."""
        self.chain(kept.chain)

    @property
    def components(self) -> list[str]:
        """The names of all components that there have been."""
        return list(self._known)

    def chain(self, chain: Chain) -> None:
        """The chain has these peers from now on."""
        self._names.begin(chain.peers)
        self._places = {name: place for place, (name, _, _) in enumerate(chain.peers)}
        self._known |= dict.fromkeys(self._places)
        self._hosts = {name for name, guests, _ in chain.peers if guests}
        self._policies = chain.policies
        self._uninitialized = chain.uninitialized
        self._rights.clear()

    def take(self, chunk: Chunk) -> Iterator[None]:
        """Takes a chunk; a step is a message."""
        if isinstance(chunk.event, Violated):
            self.hops.append(Verdict(chunk.event, chunk.at - self.start))
        elif chunk.event is not None:
            self.chain(chunk.event)
        self._heard = self._heard or chunk.sent
        for wire in read(chunk):
            self._take(wire)
            yield

    def end(self) -> None:
        """Every chunk was taken: answers that nobody got are noted."""
        for message in [*self._sent.values()]:
            if message.answer is not None and not message.answered:
                self._respond(message, message.answer.wire, lost=True)
        self.hops.sort(key=lambda hop: hop.at)

    # -- one message ---------------------------------------------------------------------------

    def _take(self, wire: Wire) -> None:
        if wire.peer.endswith(_SUCCESSOR) and wire.side == "p":
            wire.side = "s"  # the connection that a proxy has opened to its successor
        if wire.side == "c":
            self._service(wire)
        elif wire.kind == "response":
            self._answers(wire) if wire.sent else self._answered(wire)
        elif wire.method == CANCEL:
            self._cancels(wire) if wire.sent else self._cancelled(wire)
        elif self._is_copy(wire):
            if not wire.sent:
                self._got[self._component(wire), wire.side].put(wire, Sent(0, wire, "", 0))
        elif wire.sent:
            self._sends(wire)
        elif self._heard:
            self._gets(wire)

    @staticmethod
    def _component(wire: Wire) -> str:
        """Which component a connection belongs to."""
        return wire.peer.removesuffix(_SUCCESSOR).removesuffix(_NEWCOMER)

    def _place(self, wire: Wire) -> int:
        """Where the peer of a line stands; upstream stands at both ends."""
        if wire.peer == UPSTREAM:
            return len(self._places) if wire.side == "s" else -1
        return self._places.get(self._component(wire), 0)

    @staticmethod
    def _is_down(wire: Wire) -> bool:
        """Whether it is on its way to the agent."""
        return wire.sent == ((wire.side == "p") == (wire.peer == UPSTREAM))

    def _name(self, wire: Wire) -> str:
        if wire.peer == UPSTREAM:
            return self._names.end(UPSTREAM, wire.side, self._mode)
        name = self._component(wire)
        # A component that has left the chain has no place in it.
        return self._names.end(name, "p", self._mode) if name in self._known else shown_name(name)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _kind(self, wire: Wire) -> tuple[object, ...]:
        """What two lines of one message have in common, whatever they say."""
        return self._is_down(wire), wire.kind, wire.call

    def _is_copy(self, wire: Wire) -> bool:
        """Whether a component got a copy, or sends one back: the original goes past it."""
        name = self._component(wire)
        if wire.call == INITIALIZE and name in self._uninitialized:
            return True
        policy = self._policies.get(name)
        if policy is None or wire.method.startswith(MCP_FAMILIES):
            return False
        params = UNSET if wire.body is None else Raw(wire.body)
        key = heading(wire.call, params).key
        place = name, self._is_down(wire), key
        rights = self._rights.get(place)
        if rights is None:
            direction = Direction.DOWN if place[1] else Direction.UP
            rights = self._rights[place] = policy.rights(direction, key)
        return not rights & (CARRY | ORIGINATE if wire.sent else CARRY)

    def _sends(self, wire: Wire) -> None:
        """A peer sent a request or notification."""
        message = Sent(self._next(), wire, self._name(wire), self._place(wire))
        got = self._got.get((self._component(wire), ACROSS.get(wire.side, "")))
        if got is not None:
            message.passes = got.take(wire)
            if message.passes is not None:
                message.is_copy = not message.passes.number
                message.passes.on = message
        if wire.kind == "request":
            self._sent[wire.peer, wire.tag, wire.id] = message
        if message.is_copy:
            return
        kind = self._kind(wire)
        places = self._equal.setdefault((*kind, wire.says), {})
        places.setdefault(message.place, deque()).append(message)
        if wire.kind == "request":
            self._loose[kind][message.number] = message

    def _gets(self, wire: Wire) -> None:
        """A peer got a request or notification."""
        place, kind = self._place(wire), self._kind(wire)
        message = (
            self._equal_to(kind, wire.says, place)
            or self._undone(kind, wire.says)
            or self._again(kind, wire, place)
            or self._written_anew(kind, place)
        )
        if message is None:
            message = Sent(self._next(), wire, CONDUCTOR, place)
        self._reaches(message, wire, place)

    def _equal_to(self, kind: tuple[object, ...], says: bytes | None, place: int) -> Sent | None:
        """The message of the nearest sender that says the same, and that nobody has got yet."""
        places = self._equal.get((*kind, says))
        if places is None:
            return None
        near = max if kind[0] else min
        before = [at for at, held in places.items() if held and _is_before(at, place, kind)]
        if not before:
            return None
        return self._taken(places[near(before)][0])

    def _undone(self, kind: tuple[object, ...], says: bytes | None) -> Sent | None:
        """The message in place of which another peer gets what its sender had got: the conductor
        has undone a change."""
        for message in self._received.get((*kind, says), ()):
            changed = message.on
            if changed is not None and changed.target is None and not changed.answered:
                return self._taken(changed)
        return None

    def _written_anew(self, kind: tuple[object, ...], place: int) -> Sent | None:
        """The oldest request of a method that nobody has got yet."""
        loose = self._loose.get(kind, {}).values()
        found = next((one for one in loose if _is_before(one.place, place, kind)), None)
        return self._taken(found) if found is not None else None

    def _taken(self, message: Sent) -> Sent:
        """A message that is no more among those that nobody has got yet."""
        kind = self._kind(message.wire)
        self._equal[*kind, message.wire.says][message.place].remove(message)
        self._loose[kind].pop(message.number, None)
        return message

    def _again(self, kind: tuple[object, ...], wire: Wire, place: int) -> Sent | None:
        """The request that a peer gets once more after it has answered: in another dialect, for
        instance."""
        for message in self._received.get((*kind, wire.says), ()):
            if message.target == place and message.answer is not None and not message.answered:
                self._respond(message, message.answer.wire, lost=True)
                message.answer, message.answered = None, 0
                return message
        return None

    def _reaches(self, message: Sent, wire: Wire, place: int) -> None:
        """A peer got a message: that is a hop."""
        is_new, message.target = message.target is None, place
        if wire.kind == "request":
            self._given[wire.peer, wire.tag, wire.id] = message
        if wire.peer != UPSTREAM:
            self._got[self._component(wire), wire.side].put(wire, message)
        if is_new:
            self._received[*self._kind(wire), wire.says].append(message)
        self._hop(
            message,
            wire,
            self._name(wire),
            message.wire.at,
            own=message.source == CONDUCTOR,
            number=message.number,
            passes=message.passes.number if message.passes is not None else 0,
        )

    def _hop(
        self, message: Sent, wire: Wire, target: str, left: float, source: str = "", **members: Any
    ) -> None:
        """Adds a hop of `message`, or of the answer to it, as `wire` has it."""
        trace = Trace(
            kind=wire.kind,
            source="",
            target="",
            id=message.wire.id or None,
            method=wire.method or message.wire.method,
            payload=wire.body,
            is_error=wire.is_error,
            **members,
        )
        departure = Departure(source or message.source, left - self.start, trace)
        self.hops.append(Hop(trace, departure, target, wire.at - self.start, wire.size))

    # -- answers -------------------------------------------------------------------------------

    def _answers(self, wire: Wire) -> None:
        """A peer answered a request that it had got."""
        message = self._given.pop((wire.peer, wire.tag, wire.id), None)
        if message is not None and message.answer is None:
            message.answer = Answer(wire, self._next())

    def _answered(self, wire: Wire) -> None:
        """A peer got the answer to a request of its own."""
        message = self._sent.pop((wire.peer, wire.tag, wire.id), None)
        if message is None or message.answered:
            return
        if message.wire.side == "c":
            self._service(wire)
            return
        if message.is_copy:
            return
        if message.target is None:  # the conductor itself has answered
            self._taken(message)
            self._hop(message, message.wire, CONDUCTOR, message.wire.at, number=message.number)
        self._respond(message, wire)

    def _respond(self, message: Sent, wire: Wire, *, lost: bool = False) -> None:
        """Adds the hop of an answer, and before it those of answers that went past a component."""
        behind, on = _answer_behind(message), message.on
        if behind is not None and on is not None and not on.answered:
            self._respond(on, behind.wire)
        is_past = message.answer is None and behind is not None and behind.wire.body == wire.body
        answer = behind if is_past else message.answer
        message.answered = answer.number if answer is not None else self._next()
        self._hop(
            message,
            wire,
            "",
            answer.wire.at if answer is not None else wire.at,
            number=message.answered,
            request=message.number,
            passes=on.answered if on is not None and message.answer is not None else 0,
            past=is_past,
            own=answer is None,
            lost=lost,
        )

    def _cancels(self, wire: Wire) -> None:
        """A peer cancelled a request of its own."""
        message = self._sent.get((wire.peer, wire.tag, _cancelled_id(wire)))
        if message is not None:
            message.is_cancelled = True

    def _cancelled(self, wire: Wire) -> None:
        """A peer got a cancellation of a request."""
        message = self._given.get((wire.peer, wire.tag, _cancelled_id(wire)))
        if message is not None:
            self._hop(
                message,
                wire,
                self._name(wire),
                wire.at,
                "" if message.is_cancelled else CONDUCTOR,
                own=not message.is_cancelled,
                number=self._next(),
                request=message.number,
            )

    # -- services ------------------------------------------------------------------------------

    def _service(self, wire: Wire) -> None:
        """What passes between a component and the conductor itself."""
        if wire.peer in self._hosts or wire.cut:
            return  # reports of a host; its guests' own requests are not among them
        talk = self._talks.get(wire.peer)
        if talk is None:

            def event(trace: Trace, source: str, target: str, size: int) -> None:
                at = self._now
                self.hops.append(Hop(trace, Departure(source, at, trace), target, at, size))

            talk = Conversation(wire.peer, 1, lambda record: None, event, self._content)
            self._talks[wire.peer] = talk
        self._now = wire.at - self.start
        if wire.sent and wire.kind == "request":
            self._sent[wire.peer, wire.tag, wire.id] = Sent(0, wire, "", 0)
        talk.line(wire.line.decode("utf-8", "backslashreplace"), sent=wire.sent)


def _answer_behind(message: Sent) -> Answer | None:
    """The answer of those that a request was passed on to."""
    behind = message.on
    return None if behind is None else behind.answer or _answer_behind(behind)


def _cancelled_id(wire: Wire) -> str:
    """The id of the request that a cancellation names."""
    held = read_members(wire.body) if wire.body else None
    return bytes((held or {}).get("requestId", b"")).decode(errors="replace")


def _is_before(place: int, other: int, kind: Sequence[object]) -> bool:
    """Whether what is on this way passes `place` before `other`."""
    return place < other if kind[0] else place > other
