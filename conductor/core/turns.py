"""Turns of an agent whose turns are limited: those that run, and how the conductor ends one.

In version 1 a turn runs as long as its prompt is open. In version 2 the prompt is answered once it
is part of the conversation, and `state_update` says how it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.effects import Closure, Effect, Send
from conductor.core.policy.key_table import STATE_KIND, STOP, UPDATE

if TYPE_CHECKING:
    from conductor.core.exchange import Exchange
    from conductor.core.peer import Lane, Peer


class _State(msgspec.Struct):
    sessionUpdate: str = ""  # noqa: N815 - the wire's name
    state: str = ""


class _Update(msgspec.Struct):
    update: _State
    sessionId: str = ""  # noqa: N815 - the wire's name


_MOST: Final = 4096
"""Sessions of one agent whose turns are watched."""

_decode = msgspec.json.Decoder(_Update).decode


def accepted(peer: Peer, session: str) -> None:
    """Version 2: an agent has accepted a prompt."""
    if peer.turns is not None and len(peer.turns) < _MOST:
        peer.turns[session] = False


def reported(peer: Peer, params: Raw | UnsetType) -> None:
    """An agent has sent a `session/update`, which may say whether it works."""
    if peer.turns is None or isinstance(params, UnsetType):
        return
    try:
        found = _decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    if found.update.sessionUpdate == STATE_KIND:
        if found.update.state != "running":  # idle, or it waits for the user
            peer.turns.pop(found.sessionId, None)
        elif found.sessionId not in peer.turns:
            accepted(peer, found.sessionId)


def end(
    exchange: Exchange,
    says: Callable[[Lane, str, Raw, list[Effect]], None],
    peer: Peer,
    session: str,
    reason: Closure,
    out: list[Effect],
) -> None:
    """Version 2: cancels a turn, and has everybody hear why, in the agent's place. The second time,
    the agent has not stopped: the session is idle all the same. `says` sends a notification on its
    way from a lane."""
    assert peer.turns is not None
    update = {"sessionUpdate": STATE_KIND, "state": "idle", "stopReason": "cancelled"}
    if peer.turns[session]:
        del peer.turns[session]
    else:
        peer.turns[session] = True
        stop(exchange, peer, session, out)
        update = {"sessionUpdate": "notice", "severity": "error", "title": reason.text}
        update["description"] = reason.hint
    params = msgspec.json.encode({"sessionId": session, "update": update})
    says(peer.p, UPDATE, Raw(params), out)


def stop(exchange: Exchange, peer: Peer, session: str, out: list[Effect]) -> None:
    """Has an agent cancel the turns of a session."""
    params = msgspec.json.encode({"sessionId": session})
    out.append(Send(peer.name, peer.p.writer.notification(STOP, params)))
    if exchange.tracing:
        exchange.traces.notified(None, peer.p, STOP, params, out)
