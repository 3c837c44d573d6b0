"""Turns of an agent whose turns are limited: those that run, and how the conductor ends one.

In version 1 a turn runs as long as its prompt is open. In version 2 the prompt is answered once it
is part of the conversation, and `state_update` says how it goes on.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.effects import Closure, Effect
from conductor.core.jsonrpc import notification
from conductor.core.peer import Peer
from conductor.core.policy.rights import STATE_KIND, STOP, UPDATE


class _State(msgspec.Struct):
    sessionUpdate: str = ""  # noqa: N815 - the wire's name
    state: str = ""


class _Update(msgspec.Struct):
    update: _State
    sessionId: str = ""  # noqa: N815 - the wire's name


_MOST: Final = 4096
"""Sessions of one agent whose turns are watched."""

_decode = msgspec.json.Decoder(_Update).decode


def accepted(
    peer: Peer, session: str | None, member: bytes, body: bytes, out: list[Effect]
) -> None:
    """Version 2: an agent has answered a prompt."""
    if member == b"result" and session is not None and peer.turns is not None:
        peer.turns.add(session)


def reported(peer: Peer, params: Raw | UnsetType) -> None:
    """An agent has sent a `session/update`, which may say whether it works."""
    if peer.turns is None or isinstance(params, UnsetType):
        return
    try:
        found = _decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    if found.update.sessionUpdate == STATE_KIND:
        if found.update.state == "running" and len(peer.turns) < _MOST:
            peer.turns.add(found.sessionId)
        else:  # idle, or it waits for the user
            peer.turns.discard(found.sessionId)


def end(peer: Peer, session: str, reason: Closure) -> tuple[bytes, list[bytes]]:
    """Version 2: the frame that cancels a turn, and those that say in the agent's place why it
    ended."""
    assert peer.turns is not None
    peer.turns.discard(session)
    stop = peer.p.writer.notification(STOP, msgspec.json.encode({"sessionId": session}))
    title, hint = reason.text, reason.hint
    notice = {"sessionUpdate": "notice", "severity": "error", "title": title, "description": hint}
    idle = {"sessionUpdate": STATE_KIND, "state": "idle", "stopReason": "cancelled"}
    updates = [{"sessionId": session, "update": one} for one in (notice, idle)]
    return stop, [notification(UPDATE, msgspec.json.encode(one)) for one in updates]
