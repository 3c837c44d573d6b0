"""The shortcut of prompts: a client that is alone in its session waits for its hub least."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from conductor.core.jsonrpc import canonical_id
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import prompt_at
from conductor.serve.hub.state import Call, Chain, Connection, Phase
from conductor.serve.hub.turns import Turns

_LONGEST_ID: Final = 64
_BEFORE_ID: Final = b'{"jsonrpc":"2.0","id":'
_BEFORE_RESULT: Final = b',"result":'


class Shortcut:
    """The part of a hub that sends prompts on byte for byte, and back their answers.

    A prompt takes the shortcut if its sender alone is attached to the session and drives it, and no
    open request has its id; its answer does if the sender is still alone then.
    """

    def __init__(self, floor: Floor, turns: Turns) -> None:
        self._floor = floor
        self._turns = turns

    def ask(self, sender: Connection, frame: bytes, now: float) -> bool:
        """Sends a prompt on; whether it did."""
        prompted = prompt_at(frame)
        if prompted is None or sender.phase is not Phase.READY:
            return False
        id_ = prompted.params.sessionId
        session = sender.attached.get(id_)
        if session is None or session.loading is not None or len(session.attached) != 1:
            return False
        chain, key, most = session.chain, bytes(prompted.id), self._floor.limits.open_requests
        if key in sender.open or key in chain.open or not session.attached[sender].drives:
            return False
        if len(key) > _LONGEST_ID or key == b"null" or canonical_id(key) != key:
            return False
        if len(sender.open) >= most or len(chain.open) >= most:
            return False
        call = Call(sender, key, key, "session/prompt", UNSET, now, id_, session, chain, key, True)
        sender.open[key] = chain.open[key] = call
        self._turns.asked(call, session, prompted.params.prompt)
        self._floor.send(chain, frame)
        return True

    def answer(self, chain: Chain, frame: bytes) -> bool:
        """Sends back the answer to such a prompt, as a router writes it; whether it did."""
        start = len(_BEFORE_ID)
        end = frame.find(_BEFORE_RESULT, start, start + 2 * _LONGEST_ID)
        call = chain.open.get(frame[start:end]) if end > 0 else None
        if call is None or not call.is_short or not frame.startswith(_BEFORE_ID):
            return False
        asker, session = call.connection, call.session
        assert session is not None
        if asker is None or asker not in session.attached or len(session.attached) != 1:
            return False
        if not self._turns.settled(call, session):
            return False
        del chain.open[call.key], asker.open[call.key]
        call.connection = None
        self._floor.tell(asker, frame, call.scope)
        return True
