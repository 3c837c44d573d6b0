"""Folders of the sessions that components open: their links are resolved before they go on.

The guards compare folders by their spelling. A link inside the user's folder may lead out of it,
and only the file system knows. So a set-up of a component's own waits for the effect `Resolve`: it
goes on with the real folders if these lie in the user's, else it is refused. Folders that the user
has named are the user's choice, and stay as they are written.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.component import Role
from conductor.core.effects import Resolve
from conductor.core.guards.paths import inside
from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed, Params
from conductor.core.parts import Part, Parts
from conductor.core.policy.headings import read_message
from conductor.core.policy.sessions import guest_of
from conductor.core.state import Lane, Next, Visit, Waiting

_FOLDERS: Final = ("cwd", "additionalDirectories")


class OwnFolders(Part):
    """The set-ups of components that wait."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sessions = parts.exchange.sessions
        self._waiting: dict[int, tuple[Visit, Waiting, tuple[str, ...]]] = {}
        """The set-ups by token, with their folders as they are written."""
        self._last = 0

    def keeps(self, lane: Lane, method: str, params: Params, pending: Visit) -> bool:
        """Whether a set-up that goes out by `lane` waits until its folders are known."""
        if lane.peer.role not in (Role.AGENT, Role.OUTER) or not _is_own(pending):
            return False
        theirs = self._sessions.folders_of_user
        folders = tuple(one for one in _folders(params) if one not in theirs)
        if not folders or not isinstance(params, Raw):
            return False
        self._last += 1
        waiting = Waiting(Next.ARRIVES, lane, pending, read_message(method, params))
        self._waiting[self._last] = pending, waiting, folders
        self._exchange.emit(Resolve(lane.peer.name, self._last, folders, theirs))
        return True

    def resolved(self, token: int, folders: tuple[str, ...], theirs: tuple[str, ...]) -> None:
        """A set-up that waited goes on with its real folders, if these are the user's. Without real
        folders it goes on as it is: the agent is on another machine."""
        pending, waiting, written = self._waiting.pop(token)
        real = dict(zip(written, folders, strict=False))
        outside = [one for one, place in real.items() if not inside(place, theirs)]
        if outside and pending.wanted:
            origin = pending.flow.lane
            text = f"the folder {outside[0]!a:.200} of a session leads out of the user's folders"
            data = {"component": origin.peer.name} if origin is not None else None
            self._exchange.refuse(pending, Malformed(INVALID_REQUEST, text, data=data))
            return
        if real:
            params = _written(waiting.message.params, real)
            waiting.message = waiting.message._replace(params=params)
        self._parts.waits.go_on(waiting)


def _is_own(pending: Visit) -> bool:
    """Whether a request is one of a policed component's own."""
    flow = pending.flow
    if flow.lane is None or flow.lane.peer.role is not Role.PROXY:
        return False
    peer = flow.lane.peer
    if peer.component.hosts:
        return guest_of(flow.key) in peer.component.guests
    return flow.own and peer.policy_state is not None and peer.policy_state.enforced


def _folders(params: Params) -> list[str]:
    """The folders of a set-up; if they cannot be read, the root, which is nobody's: a host that has
    been taken over sends set-ups that no guard has seen."""
    members = read_members(params) or {}
    try:
        held = [json_text.decode(members[name]) for name in _FOLDERS if name in members]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ["/"]
    each = [one for value in held for one in (value if isinstance(value, list) else [value])]
    return [one for one in each if isinstance(one, str)]


def _written(params: Params, real: dict[str, str]) -> Raw:
    """A set-up with its real folders."""
    members = read_members(params) or {}
    for name in _FOLDERS:
        held = json_text.decode(members.get(name, b"null"))
        if isinstance(held, str) and held in real:
            members[name] = Raw(json_text.encode(real[held]))
        elif isinstance(held, list):
            members[name] = Raw(json_text.encode([real.get(one, one) for one in held]))
    return write_members(members)
