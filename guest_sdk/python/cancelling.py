"""What becomes of messages that nobody wants any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .conducted import Conducted
from .errors import CANCELLED
from .jsontext import dumps
from .messages import put, session_of
from .speaker import OTHER

if TYPE_CHECKING:
    from .handling import Handling
    from .proxy import Proxy

TURN_OVER: Final = '{"stopReason":"cancelled"}'
"""The result of a prompt whose turn was cancelled …"""

NOT_WANTED: Final = f'{{"code":{CANCELLED},"message":"Request cancelled"}}'
"""… and the error of any other request that was."""


class Cancelling(Conducted):
    """The part of an engine that cancels, and passes on that others do."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(proxy)
        self._handlings: dict[tuple[str, str], Handling] = {}
        """Requests in the hands of handlers, by side and raw id."""

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
            self._out.append(f'p{{"jsonrpc":"2.0","id":{waiting.id},"result":{TURN_OVER}}}')
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

    def _interrupt(self, handling: Handling) -> None:
        for key in handling.own or ():
            if key in self._awaited:
                self._send_cancel(*key)
        handling.cancel()
