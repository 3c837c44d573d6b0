"""What is remembered of a policed component: tokens for what it was given, and what waits.

A message delivered to a component mints a token; forwarding spends it. Sending without a token is
originating, answering with the token unspent is answering, and each needs its verb.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.effects import Effect
from conductor.core.link import Pending
from conductor.core.policy import SEES, Direction, Policy

Params = Raw | UnsetType
Resume = Callable[[list[Effect]], None]

_MOST_TOKENS = 20_000
"""Notification tokens kept for each method; a component that swallows messages spends none."""

_LOOKED_AT = 64
"""How far out of order a component may forward and still have its token found."""


class _Session(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815 - the wire's name


_session = msgspec.json.Decoder(_Session)


def session_of(params: Params) -> str | None:
    """The session a message belongs to, or None if it names none."""
    if isinstance(params, UnsetType):
        return None
    try:
        return _session.decode(params).sessionId
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def same(one: Params, other: Params) -> bool:
    """Whether two payloads are the same bytes."""
    if isinstance(one, UnsetType) or isinstance(other, UnsetType):
        return one is other
    return len(memoryview(one)) == len(memoryview(other)) and bytes(one) == bytes(other)


class Token:
    """One message given to a component, until it is forwarded or answered."""

    __slots__ = ("direction", "forwarded", "method", "params", "pending", "settled", "upstream")

    def __init__(
        self, direction: Direction, method: str, params: Params, pending: Pending | None
    ) -> None:
        self.direction = direction
        self.method = method
        self.params = params
        self.pending = pending
        """The request, as it waits for the component's answer; None for a notification."""
        self.forwarded: Pending | None = None
        """The component's own request that spent the token."""
        self.upstream: tuple[bytes, bytes] | None = None
        """The answer (member, body) that came back for it."""
        self.settled = False
        """Whether the request has its answer, or goes its way without the component."""


class Gate:
    """One policed component."""

    __slots__ = ("_verbs", "foreign", "held", "policy", "servers", "tokens")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.tokens: dict[tuple[Direction, str], deque[Token]] = {}
        self.held: dict[Direction, list[tuple[str | None, Resume]]] = {
            Direction.DOWN: [],
            Direction.UP: [],
        }
        """What passes the component by, but has to wait for what it was given before."""
        self.servers: frozenset[str] = frozenset()
        """MCP servers it declared."""
        self.foreign: frozenset[str] = frozenset()
        """MCP servers others declared."""
        self._verbs: dict[tuple[Direction, str], int] = {}

    def verbs(self, direction: Direction, method: str) -> int:
        """The verbs held on a method, as a number (flag arithmetic is slow); remembered."""
        key = (direction, method)
        held = self._verbs.get(key)
        if held is None:
            held = self.policy.verbs(direction, method).value
            if len(self._verbs) < 1024:
                self._verbs[key] = held
        return held

    def sees(self, direction: Direction, method: str) -> bool:
        """Whether the message itself goes through the component."""
        return bool(self.verbs(direction, method) & SEES.value)

    def mint(self, token: Token) -> None:
        """Remembers a message that is being given to the component."""
        key = (token.direction, token.method)
        queue = self.tokens.get(key)
        if queue is None:
            queue = self.tokens[key] = deque()
        queue.append(token)
        if token.pending is None and len(queue) > _MOST_TOKENS:
            queue.popleft()

    def spend(
        self, direction: Direction, method: str, params: Params, *, request: bool
    ) -> Token | None:
        """The token that sending this spends: of the same bytes, else of the same session."""
        queue = self.tokens.get((direction, method))
        if not queue:
            return None
        first = queue[0]
        if (first.pending is not None) is request and same(first.params, params):
            queue.popleft()
            return first
        near = itertools.islice(queue, _LOOKED_AT)
        fitting = [t for t in near if (t.pending is not None) is request]
        found = next((t for t in fitting if same(t.params, params)), None)
        if found is None:
            session = session_of(params)
            found = next((t for t in fitting if session_of(t.params) == session), None)
        if found is not None:
            queue.remove(found)
        return found

    def drop(self, token: Token) -> None:
        """Forgets a token that will not be spent."""
        queue = self.tokens.get((token.direction, token.method))
        if queue is not None and token in queue:
            queue.remove(token)

    def busy(self, direction: Direction, session: str | None) -> bool:
        """Whether the component holds a request of this direction that concerns `session`."""
        for (way, _), queue in self.tokens.items():
            if way is direction:
                for token in queue:
                    if token.pending is not None and not token.settled:
                        held = session_of(token.params)
                        if held is None or session is None or held == session:
                            return True
        return False

    def release(self, direction: Direction) -> list[Resume]:
        """What no longer has to wait, in order."""
        waiting = self.held[direction]
        if not waiting:
            return []
        free: list[Resume] = []
        still: list[tuple[str | None, Resume]] = []
        blocked: set[str | None] = set()
        for session, resume in waiting:
            if session in blocked or self.busy(direction, session):
                blocked.add(session)
                still.append((session, resume))
            else:
                free.append(resume)
        self.held[direction] = still
        return free

    def reset(self) -> list[Resume]:
        """Forgets everything, for the component is gone; what it held up may go on."""
        free = [resume for waiting in self.held.values() for _, resume in waiting]
        self.tokens.clear()
        self.held = {Direction.DOWN: [], Direction.UP: []}
        return free

    def forget_notifications(self) -> None:
        """What the component was told and has not forwarded by now, it keeps for itself."""
        for queue in self.tokens.values():
            while queue and queue[0].pending is None:
                queue.popleft()
