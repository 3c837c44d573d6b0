"""Prompts and turns: who sees them, and when a turn has ended.

In ACP v1 the answer to a prompt ends its turn. In v2 a prompt is answered as soon as it is part of
the conversation, and the turn ends when the session's state is `idle`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import read_members
from conductor.core.jsonrpc import INTERNAL_ERROR
from conductor.serve.hub import frames
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.frames import CHUNK
from conductor.serve.hub.history import STATE
from conductor.serve.hub.params import blocks_of, encode, plain, text_of
from conductor.serve.hub.state import Call, Connection, Session, Turn

_SILENT: Final = (
    *("", STATE, "available_commands_update", "current_mode_update", "config_option_update"),
    *("session_info_update", "usage_update"),
)
"""Kinds of update that an agent may send before it echoes a prompt."""


class Turns:
    """The part of a hub that knows of turns."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor

    # -- prompts -------------------------------------------------------------------------------

    def prompt(self, call: Call, session: Session) -> None:
        """A driver prompts: the others see it, and the agent gets it."""
        floor, asker = self._floor, call.connection
        assert asker is not None
        by = {"clientId": asker.client_id, **asker.info}
        self.announce(session, asker, "prompt_received", sentBy=by)
        turn = session.turn or self._begin(session, call.now)
        turn.asker, turn.echoes = call.connection, True
        turn.prompts.append(call)
        if session.chain.version < 2:  # an agent of v2 sends the message itself
            for block in blocks_of(call.params):
                frame = frames.chunk(session.id, block)
                session.history.add(CHUNK, frame)
                for connection in session.attached:
                    if connection is not asker:
                        floor.tell(connection, frame, session.id)
        floor.forward(call, session.chain, plain(call.params))
        if call.connection is None:  # refused: too many are open
            self._drop(session, call)

    def answered(self, call: Call, session: Session, member: bytes, body: Raw) -> None:
        """The agent has answered a prompt."""
        turn, asker = session.turn, call.connection
        self._floor.finish(call, member, body)
        if turn is None or call not in turn.prompts:
            return
        turn.prompts.remove(call)
        failed = member == b"error"
        idle = session.chain.version < 2 or turn.state == "idle" or (failed and not turn.state)
        if idle and not turn.prompts:
            heard = self._hear(session, asker)
            reason = text_of((read_members(body) or {}).get("stopReason")) if heard else None
            self.end(session, asker, stopReason=reason, error=body if failed else None)

    def state(self, session: Session, state: str, reason: str | None, now: float) -> None:
        """The agent reports how a session is (ACP v2)."""
        turn = session.turn
        if turn is None:
            if state == "idle":
                return
            turn = self._begin(session, now)
        turn.state = state
        if state == "idle" and not turn.prompts:
            self.end(session, turn.asker, stopReason=reason)

    def _drop(self, session: Session, call: Call) -> None:
        turn = session.turn
        if turn is not None and call in turn.prompts:
            turn.prompts.remove(call)
            if not turn.prompts:
                self.end(session, turn.asker)

    def cancel(self, session: Session) -> None:
        """Nobody is left who could end an open turn: it is cancelled."""
        if session.turn is not None:
            params = encode({"sessionId": session.id})
            self._floor.notify_chain(session.chain, "session/cancel", params)

    def overdue(self, now: float) -> None:
        """Cancels the turns that take too long, and answers the prompts of those that do not end
        then."""
        limits = self._floor.limits
        if limits.prompt_seconds is None:
            return
        for session in list(self._floor.turning):
            turn = session.turn
            assert turn is not None
            if turn.cancelled is None:
                if now - turn.since >= limits.prompt_seconds:
                    turn.cancelled = now
                    self.cancel(session)
            elif now - turn.cancelled >= limits.cancel_seconds:
                text = f"the turn took longer than {limits.prompt_seconds:g} s, and did not end"
                for call in turn.prompts:
                    self._floor.refuse(call, INTERNAL_ERROR, text, "ask for less, or allow more")
                self.end(session, None, error=Raw(frames.error_body(INTERNAL_ERROR, text)))

    # -- updates -------------------------------------------------------------------------------

    def echo(self, session: Session, kind: str) -> Connection | None:
        """Who alone gets an update, since it repeats a prompt that all others have seen."""
        turn = session.turn
        if turn is None or not turn.echoes or session.chain.version >= 2:
            return None
        if kind == CHUNK:
            return turn.asker
        turn.echoes = kind in _SILENT
        return None

    # -- beginning and end ---------------------------------------------------------------------

    def _begin(self, session: Session, now: float) -> Turn:
        session.turn = turn = Turn(now)
        self._floor.turning[session] = None
        return turn

    def end(self, session: Session, besides: Connection | None, **members: object) -> None:
        """A turn has ended: clients that know of `session/attach` hear of it."""
        session.turn = None
        self._floor.turning.pop(session, None)
        self.announce(session, besides, "turn_complete", **members)

    def announce(
        self, session: Session, besides: Connection | None, kind: str, **members: object
    ) -> None:
        """Sends an update of the hub's own to those who used `session/attach`."""
        to = self._hear(session, besides)
        if to:
            frame = frames.update(session.id, kind, **members)
            for connection in to:
                self._floor.tell(connection, frame, session.id)

    @staticmethod
    def _hear(session: Session, besides: Connection | None) -> list[Connection]:
        return [one for one in session.speaking() if one is not besides]
