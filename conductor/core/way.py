"""What a policed component has that would leave it by one lane, and what waits for that.

By this a request that the component sends is known for one it was given, and messages that pass it
by keep their place among those that it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Raw, UnsetType

from conductor.core import members
from conductor.core.alike import likeness
from conductor.core.copied import Copied, size_of
from conductor.core.tokens import CANDIDATES, Params, Token, Told, equal, session_of

if TYPE_CHECKING:
    from conductor.core.effects import Effect

_MOST_METHODS: Final = 256
_MOST_GONE: Final = 64
_MOST_GONE_BYTES: Final = 8 * 1024 * 1024
_END: Final = 2048
_SPELLING: Final = 8
"""How much longer the same may be in another spelling (`\\u0041` for `A`)."""


class Held(NamedTuple):
    """A message that must not overtake what a component still has."""

    number: int
    session: str | None
    resume: Callable[[list[Effect]], None]


class Way:
    """What a component was given that would leave it by one lane."""

    __slots__ = ("_gone_bytes", "asked", "copied", "copies", "gone", "held", "owed", "seen")

    def __init__(self) -> None:
        self.asked: dict[int, Token] = {}
        """Requests it has neither passed on nor answered, oldest first."""
        self.gone: deque[Token] = deque()
        """Some that have been answered or have gone on without it, to know them again should it
        still pass them on."""
        self._gone_bytes = 0
        self.owed: dict[int, Token] = {}
        """Requests whose answer it was given, and has not passed on: for its place in the order
        only, or to change it, in which case the place is kept until it has had its say."""
        self.held: list[Held] = []
        """What passes the component by but has to wait for what it was given before."""
        self.copies: dict[str, int] = {}
        """How many copies of notifications it was given, by method."""
        self.seen: dict[str, Told] = {}
        """Those copies themselves, of methods the component may also originate."""
        self.copied = Copied()
        """Copies of requests it has not passed on."""

    def waits(self, session: str | None) -> bool:
        """Whether a message of this session must wait for another."""
        return self.has_waiting(session) or any(
            token.session == session for _, token in self._kept()
        )

    def has_waiting(self, session: str | None) -> bool:
        """Whether a message of this session waits already."""
        return any(held.session == session for held in self.held)

    @property
    def busy(self) -> bool:
        """Whether there is anything a message might have to wait for."""
        return bool(self.asked or self.held or self.owed)

    def _kept(self) -> Iterator[tuple[int, Token]]:
        yield from self.asked.items()
        yield from self.owed.items()

    def take_back(self, token: Token) -> None:
        """A request is not the component's any more: should it still pass it on, it is too late."""
        if self.asked.pop(token.number, None) is None or token.round < 0:
            return  # it has passed it on already, or was never given it
        self.gone.append(token)
        self._gone_bytes += size_of(token.params)
        while len(self.gone) > _MOST_GONE or self._gone_bytes > _MOST_GONE_BYTES:
            self._gone_bytes -= size_of(self.gone.popleft().params)

    def forget(self, token: Token) -> None:
        """The component will not pass on what was taken back."""
        self.gone.remove(token)
        self._gone_bytes -= size_of(token.params)

    def forget_gone(self) -> None:
        """The component is not there any more."""
        self.gone.clear()
        self._gone_bytes = 0

    def shown(self) -> list[tuple[int, Token]]:
        """What it has for its place in the order only, requests and answers, oldest first."""
        asked = [(at, token) for at, token in self.asked.items() if token.relay]
        owed = [(at, token) for at, token in self.owed.items() if token.ordered]
        return sorted([*asked, *owed], key=lambda one: one[0])

    def freed(self) -> Held | None:
        """The next message that need not wait any more."""
        blocked: set[str | None] = set()
        for place, held in enumerate(self.held):
            if held.session not in blocked:
                if not any(
                    at < held.number and token.session == held.session for at, token in self._kept()
                ):
                    return self.held.pop(place)
                blocked.add(held.session)
        return None

    def find(
        self, method: str, params: Params, *, own: bool = False
    ) -> tuple[Token | None, list[Token]]:
        """The token of the same bytes, or else those that a changed request may spend: likeliest
        first, and of equals those it still has. `own`: it may also be the component's own."""
        known = [t for t in self.asked.values() if t.method == method and t.round >= 0]
        for token in known:
            if token.params == params:
                return token, []
        gone = [t for t in self.gone if t.method == method] if self.gone else []
        if gone:  # then it matters which it is, however it is spelled
            kept = [t for t in gone if t.late is not None or t.relay] if own else gone
            for token in (*known, *kept):
                if _same(token.params, params):
                    return None, [token]  # other bytes are for the guards to look at
        session = session_of(params)
        fitting = [t for t in known if t.session == session]
        if gone and not own:
            gone = [t for t in gone if t.session == session]
            fitting += [t for t in gone if t.late is not None and not t.given_up]
            fitting = fitting or gone
        if len(fitting) > 1:
            sent, text = members.read(params) or {}, _ends(params)
            fitting.sort(key=lambda token: _likeness(sent, text, token.params), reverse=True)
        return None, fitting[:CANDIDATES]


def _same(given: Params, sent: Params) -> bool:
    """Whether a message says what was given. It must be about as long, so that nobody has large
    ones read by sending small ones."""
    return size_of(given) < _SPELLING * (size_of(sent) + 1) and equal(given, sent)


def _likeness(sent: dict[str, Raw], text: bytes, params: Params) -> tuple[int, float]:
    """How much params are like others: the members they share, then how they begin and end."""
    given = members.read(params) or {}
    shared = sum(1 for name, value in given.items() if sent.get(name) == value)
    return shared, likeness(text, _ends(params))


def _ends(params: Params) -> bytes:
    """The beginning and the end, which tell one from the other."""
    text = b"" if isinstance(params, UnsetType) else bytes(params)
    return text if len(text) <= 2 * _END else text[:_END] + text[-_END:]


def count(copies: dict[str, int], method: str) -> None:
    """Adds a copy to a table of so many methods at most."""
    if method not in copies and len(copies) >= _MOST_METHODS:
        del copies[next(iter(copies))]
    copies[method] = copies.get(method, 0) + 1
