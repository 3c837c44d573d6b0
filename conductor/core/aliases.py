"""Aliases: on one side of a component a session has one id, and on the other side another.

A component's aliases stand at its successor side. They are always a permutation of ids: where S
has become T there, T has become the former id of S. So every message can be turned back, and no
two sessions ever share an id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.json_text import elements, member_at, read_members, text_of, write_members
from conductor.patterns import lazy_pattern

NAMES: Final = ("sessionId", "session_id", "senderSessionId", "recipientSessionId")
"""The members that name a session, wherever they stand."""

MOST: Final = 1024
"""The most sessions that one component may have bound."""


def _spelled(name: str) -> bytes:
    """A pattern for a member name, with each letter as such or as an escape."""
    return b"".join(b"(?:%b|\\\\u00(?i:%02x))" % (letter.encode(), ord(letter)) for letter in name)


# In JSON a quote behind `{`, `,` or white space is never an escaped one, and a string that begins
# there with one of the names and is followed by a colon is a member's name: so no parser is needed.
_NAMED: Final = lazy_pattern(
    rb'("(?<=[{,\s]")(?:%b)"\s*+:\s*+)("[^"\\]*+(?:\\.[^"\\]*+)*+")'
    % b"|".join(map(_spelled, NAMES)),
    re.DOTALL,
)
_encode: Final = json_text.encode
_text: Final = json_text.Decoder(str).decode


class Aliases(msgspec.Struct, frozen=True):
    """The aliases of one component. `down` and `up` have only ids that change."""

    down: Mapping[str, str] = {}
    """The ids below, by those above."""
    up: Mapping[str, str] = {}
    """The ids above, by those below: the inverse."""
    bound: Mapping[str, str] = {}
    """The sessions that the component has bound, each with its alias."""

    def bind(self, session: str, to: str) -> Aliases:
        """From now on `session` is `to` below; with `to` equal to `session`, it is itself again.
        The session that was `to` before gets the id that `session` had."""
        down, up = dict(self.down), dict(self.up)
        former, holder = down.get(session, session), up.get(to, to)
        for above, below in ((session, to), (holder, former)):
            down[above], up[below] = below, above
        bound = {**self.bound, holder: holder, session: to}
        return Aliases(
            {above: below for above, below in down.items() if above != below},
            {below: above for below, above in up.items() if above != below},
            {above: below for above, below in bound.items() if above != below},
        )

    @property
    def set_aside(self) -> frozenset[str]:
        """The ids by which the component knows the sessions that its aliases have replaced."""
        return frozenset(self.down.keys() - self.bound.keys())

    def sets_aside(self, session: str | None) -> bool:
        """Whether an id is one of `set_aside`."""
        return session in self.down and session not in self.bound


class Names:
    """The ids that an agent has for the sessions that have moved to it."""

    __slots__ = ("down", "up")

    def __init__(self) -> None:
        self.down: dict[str, str] = {}
        """Its ids, by those of the chain's agent."""
        self.up: dict[str, str] = {}
        """The inverse."""

    def bind(self, session: str, to: str) -> None:
        """The agent's id of a session is `to`."""
        self.down[session], self.up[to] = to, session

    def forget(self, session: str) -> None:
        """The agent no longer has the session."""
        del self.up[self.down.pop(session)]


_aliases: Final = json_text.Decoder(Aliases)


def of_json(raw: Raw | None) -> Aliases | None:
    """The aliases that `to_json` wrote; None: there are none."""
    aliases = _aliases.find(raw)  # a host of guests may relay anything
    return aliases if aliases is not None and aliases.down else None


def to_json(aliases: Aliases | None) -> bytes:
    """The aliases as JSON; null: none."""
    return b"null" if aliases is None else _encode(aliases)


def named(text: bytes) -> set[str]:
    """All ids of sessions that `renamed` would change if they were bound."""
    return {_text(found[2]) for found in _NAMED.finditer(text)}


def renamed(text: bytes, ids: Mapping[str, str]) -> bytes:
    """Params, a result or an error with other ids of sessions; all else stays byte for byte."""

    def other(found: re.Match[bytes]) -> bytes:
        id_ = ids.get(_text(found[2]))
        return found[0] if id_ is None else found[1] + _encode(id_)

    return _NAMED.sub(other, text)


def listed(result: bytes, left_out: Mapping[str, object] | frozenset[str]) -> bytes:
    """The result of `session/list` without some sessions; as it came where it has none of them."""
    members = read_members(result) or {}
    entries = elements(members.get("sessions"))
    kept = [entry for entry in entries if _id(entry) not in left_out]
    if len(kept) == len(entries):
        return result
    members["sessions"] = Raw(b"[" + b",".join(map(bytes, kept)) + b"]")
    return bytes(write_members(members))


def _id(entry: Raw) -> str:
    """The session an entry of a list is about; empty: none."""
    return text_of(member_at(entry, NAMES[0]))
