"""Prompts and turns: who sees them, and when a turn has ended.

In ACP v1 the answer to a prompt ends its turn. In v2 a prompt is answered as soon as it is part of
the conversation, and the turn ends when the session's state is `idle`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import encode, member_at, text_of
from conductor.core.jsonrpc import INTERNAL_ERROR
from conductor.core.policy.key_table import STATE_KIND, STOP
from conductor.core.session import Work, WorkEvent
from conductor.serve.hub import frames
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import blocks_of, plain
from conductor.serve.hub.state import Asked, Chain, Client, Live, Turn

_CHUNK: Final = "user_message_chunk"
_STATES: Final = {one.value: one for one in (WorkEvent.RUNNING, WorkEvent.ASKS, WorkEvent.IDLE)}
_SILENT: Final = (
    *("", STATE_KIND, "available_commands_update", "current_mode_update", "config_option_update"),
    *("session_info_update", "usage_update"),
)
"""Kinds of update that an agent may send before it echoes a prompt."""


class Turns:
    """The part of a hub that knows of turns."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor

    # -- prompts -------------------------------------------------------------------------------

    def prompt(self, asked: Asked, asker: Client, session: Live) -> None:
        """A driver prompts: the other clients see the prompt, and the agent gets it."""
        others = [one for one in session.attached if one is not asker]
        if others:
            self.announce(session, asker, "prompt_received", sentBy=asker.shown)
        turn = session.turn or self._begin(session, asked.now)
        turn.asker, turn.echoes = asker, True
        turn.prompts.append(asked)
        if session.chain.version >= 2:  # the agent sends the message itself
            turn.does(WorkEvent.GIVEN)
        for block in blocks_of(asked.params) if session.chain.version < 2 else ():
            frame = frames.chunk(session.id, block)
            session.history.add(_CHUNK, frame)
            self._floor.tell_all(others, frame, session.id)
        self._floor.forward(asked, session.chain, plain(asked.params))
        if asked.origin is None and self._is_over(asked, session, failed=True):
            self.end(session, asker)  # refused: too many are open

    def answered(self, asked: Asked, _: Chain, member: bytes, body: Raw) -> None:
        """The agent has answered a prompt."""
        session, asker, failed = asked.session, asked.client, member == b"error"
        self._floor.finish(asked, member, body)
        if session is not None and self._is_over(asked, session, failed=failed):
            is_heard = not failed and len(session.attached) > 1
            reason = text_of(member_at(body, "stopReason")) if is_heard else ""
            error = body if failed else None
            self.end(session, asker, stopReason=reason or None, error=error)

    @staticmethod
    def _is_over(asked: Asked, session: Live, *, failed: bool) -> bool:
        """Whether a turn is over, now that the agent has answered a prompt."""
        turn = session.turn
        if turn is None or asked not in turn.prompts:
            return False
        turn.prompts.remove(asked)
        if session.chain.version >= 2 and not (failed and turn.prompts):
            turn.does(WorkEvent.REFUSED if failed else WorkEvent.BEGUN)
        return not turn.prompts and turn.work is Work.IDLE

    def state(self, session: Live, told: dict[str, Raw], now: float) -> None:
        """The agent reports how a session is (ACP v2)."""
        event = _STATES.get(text_of(told.get("state")))
        if event is None or (session.turn is None and event is WorkEvent.IDLE):
            return
        turn = session.turn or self._begin(session, now)
        turn.does(event)
        if event is WorkEvent.IDLE and not turn.prompts:
            self.end(session, turn.asker, stopReason=text_of(told.get("stopReason")) or None)

    def cancel(self, session: Live) -> None:
        """Nobody is left who could end an open turn: it is cancelled."""
        if session.turn is not None:
            params = encode({"sessionId": session.id})
            self._floor.send(session.chain, frames.notification(STOP, params))

    def overdue(self, now: float) -> list[Live]:
        """Cancels the turns that take too long. Answers the prompts of turns that do not end even
        then. Returns the sessions of the turns that it cancels now."""
        limits, cancelled = self._floor.limits, list[Live]()
        if limits.prompt_seconds is None:
            return cancelled
        for session in list(self._floor.turning):
            turn = session.turn
            assert turn is not None
            if turn.cancelled is None:
                if now - turn.since >= limits.prompt_seconds:
                    turn.cancelled = now
                    self.cancel(session)
                    cancelled.append(session)
            elif now - turn.cancelled >= limits.cancel_seconds:
                text = f"the turn took longer than {limits.prompt_seconds:g} s, and did not end"
                for asked in turn.prompts:
                    self._floor.refuse(asked, INTERNAL_ERROR, text, "ask for less, or allow more")
                self.end(session, None, error=Raw(frames.error_body(INTERNAL_ERROR, text)))
        return cancelled

    # -- updates -------------------------------------------------------------------------------

    def echo(self, session: Live, kind: str) -> Client | None:
        """The only client that gets an update: it repeats a prompt that all others have seen."""
        turn = session.turn
        if turn is None or not turn.echoes or session.chain.version >= 2:
            return None
        if kind == _CHUNK:
            return turn.asker
        turn.echoes = kind in _SILENT
        return None

    # -- beginning and end ---------------------------------------------------------------------

    def _begin(self, session: Live, now: float) -> Turn:
        session.turn = turn = Turn(now)
        self._floor.turning[session] = None
        return turn

    def end(self, session: Live, besides: Client | None, **members: object) -> None:
        """A turn has ended: clients that know of `session/attach` hear of it."""
        session.turn = None
        self._floor.turning.pop(session, None)
        self.announce(session, besides, "turn_complete", **members)

    def announce(self, session: Live, besides: Client | None, kind: str, **members: object) -> None:
        """Sends an update of the hub's own to the clients that used `session/attach`."""
        to = [one for one in session.speaking() if one is not besides]
        if to:
            self._floor.tell_all(to, frames.update(session.id, kind, **members), session.id)
