"""Folders of the sessions that components open: where links lead is looked at before they go on.

The guards compare folders by their spelling. A link inside the user's folder may lead out of it,
and only the file system knows. So a set-up of a component's own waits for the effect `Resolve`: it
goes on with the real folders if these lie in the user's, else it is refused. Folders that the user
has named are the user's choice, and stay as they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.component import Role
from conductor.core.effects import Resolve
from conductor.core.guards.paths import inside
from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed, Params
from conductor.core.policy.sessions import first_of, guest_of
from conductor.core.state import Lane, PendingRequest

if TYPE_CHECKING:
    from conductor.core.parts import Parts

_FOLDERS: Final = ("cwd", "additionalDirectories")


class Waiting(NamedTuple):
    """A set-up that waits for its folders."""

    lane: Lane
    method: str
    params: Raw
    pending: PendingRequest
    folders: tuple[str, ...]


class OwnFolders:
    """The set-ups of components that wait."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sessions = parts.exchange.sessions
        self._waiting: dict[int, Waiting] = {}
        self._last = 0

    def keeps(self, lane: Lane, method: str, params: Params, pending: PendingRequest) -> bool:
        """Whether a set-up that goes out by `lane` waits until its folders are known."""
        if lane.peer.role not in (Role.AGENT, Role.OUTER) or not _is_own(pending):
            return False
        theirs = self._sessions.folders_of_user
        folders = tuple(one for one in _folders(params) if one not in theirs)
        if not folders or not isinstance(params, Raw):
            return False
        self._last += 1
        self._waiting[self._last] = Waiting(lane, method, params, pending, folders)
        self._parts.exchange.emit(Resolve(lane.peer.name, self._last, folders, theirs))
        return True

    def resolved(
        self, token: int, folders: tuple[str, ...], theirs: tuple[str, ...]
    ) -> tuple[Waiting, Malformed | None]:
        """What waited, with its real folders, and what is wrong with them. Without any they stay
        as they are: the agent is on another machine."""
        waiting = self._waiting.pop(token)
        real = dict(zip(waiting.folders, folders, strict=False))
        for written, place in real.items():
            if not inside(place, theirs):
                origin = first_of(waiting.pending).origin
                text = f"the folder {written!a:.200} of a session leads out of the user's folders"
                data = {"component": origin.peer.name} if origin is not None else None
                return waiting, Malformed(INVALID_REQUEST, text, data=data)
        if not real:
            return waiting, None
        return waiting._replace(params=_written(waiting.params, real)), None


def _is_own(pending: PendingRequest) -> bool:
    """Whether a request is one of a policed component's own."""
    first = first_of(pending)
    if first.origin is None or first.origin.peer.role is not Role.PROXY:
        return False
    peer = first.origin.peer
    if peer.component.hosts:
        return guest_of(first.key) in peer.component.guests
    return first.originated and peer.policy_state is not None and peer.policy_state.enforced


def _folders(params: Params) -> list[str]:
    """The folders of a set-up; the root, which is nobody's, where they cannot be read: a host that
    has been taken over sends what no guard has seen."""
    members = read_members(params) or {}
    try:
        held = [json_text.decode(members[name]) for name in _FOLDERS if name in members]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ["/"]
    each = [one for value in held for one in (value if isinstance(value, list) else [value])]
    return [one for one in each if isinstance(one, str)]


def _written(params: Raw, real: dict[str, str]) -> Raw:
    """A set-up with its real folders."""
    members = read_members(params) or {}
    for name in _FOLDERS:
        held = json_text.decode(members.get(name, b"null"))
        if isinstance(held, str) and held in real:
            members[name] = Raw(json_text.encode(real[held]))
        elif isinstance(held, list):
            members[name] = Raw(json_text.encode([real.get(one, one) for one in held]))
    return write_members(members)
