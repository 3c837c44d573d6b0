"""The end of messages that nobody wants any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .conducted import Conducted
from .errors import CANCELLED
from .jsontext import dumps
from .messages import put, session_of
from .speaker import OTHER

if TYPE_CHECKING:
    from .handling import Handling

NOT_WANTED: Final = f'{{"code":{CANCELLED},"message":"Request cancelled"}}'
"""The error of a request that was cancelled."""

_TURN_OVER: Final = '"result":{"stopReason":"cancelled"}'
_NO_TURN: Final = f'"error":{NOT_WANTED}'
"""The answer to a prompt whose turn was cancelled before the agent had the prompt. In version 2 of
ACP a result would say that the agent took the prompt."""


class Cancelling(Conducted):
    """The part of an engine that cancels, and passes on the cancellations of others."""

    def _cancel(self, side: str, said: str, params: dict[str, Any]) -> None:
        id_ = dumps(params.get("requestId"))
        handling = self._handlings.get((side, id_))
        if handling is None:
            if self.lanes.take(side, id_) is not None:
                self._out.append(f'{side}{{"jsonrpc":"2.0","id":{id_},"error":{NOT_WANTED}}}')
            else:
                self._out.append(OTHER[side] + said)
            return
        put(handling.message, "_cancelled", True)
        if handling.sent_as is not None:
            self._send_cancel(*handling.sent_as)
        else:
            self._interrupt(handling)

    def _cancel_turn(self, session: str | None) -> None:
        """Turns that have not reached the agent yet end here."""
        for waiting in self.lanes.requests(("p", session), "session/prompt"):
            self.lanes.take("p", waiting.id)
            self._out.append(self._turn_over("p", waiting.id))
        for handling in list(self._handlings.values()):
            message = handling.message
            if (
                handling.side == "p"
                and message.method == "session/prompt"
                and session_of(message) == session
            ):
                put(message, "_cancelled", True)
                if handling.sent_as is None:
                    handling.turn_over = True
                    self._interrupt(handling)

    def _turn_over(self, side: str, id_: str) -> str:
        """The line that answers a prompt whose turn was cancelled."""
        answer = _NO_TURN if self.version == 2 else _TURN_OVER
        return f'{side}{{"jsonrpc":"2.0","id":{id_},{answer}}}'

    def _interrupt(self, handling: Handling) -> None:
        for key in handling.own or ():
            if key in self._awaited:
                self._send_cancel(*key)
        handling.cancel()
