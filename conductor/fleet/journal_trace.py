"""Writes entries of the journal as a trace, which `conductor log` reads. The client is one end of
the trace; all that stands behind the gateway is the agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from conductor.core import json_text, jsonrpc
from conductor.core.policy.headings import session_of
from conductor.errors import counted
from conductor.fleet.journal import C2A, MARK
from conductor.fleet.journal_reader import Written
from conductor.record.turns.line import AGENT, CLIENT, FORMAT

_NULL: Final = msgspec.Raw(b"null")
_DISPUTED: Final = (
    "the next message contradicts an earlier message: its worker did not know yet that another "
    "worker had the room, or somebody forged one of the two"
)


class Trace:
    """The lines of one trace."""

    def __init__(self) -> None:
        self._began: float | None = None

    def lines(self, one: Written) -> Iterator[bytes]:
        """The lines of an entry; the header stands before the first lines."""
        if self._began is None:
            self._began = one.at
            header = {"format": FORMAT, "content": "redacted", "components": [], "began": one.at}
            yield _line({"type": "_conductor", **header})
        about = {"type": "_conductor", "ts": self._ts(one)}
        if one.disputed:
            yield _line(about | {"gap": _DISPUTED})
        if one.gap:
            yield _line(about | {"gap": f"{counted(one.gap, 'entry')} missing"})
        if one.way == MARK:
            yield _line(about | {"happened": {"event": "mark", "text": one.frame.decode()}})
        elif one.left_out:
            yield _line(about | {"gap": f"a message of {counted(one.left_out, 'byte')}"})
        else:
            yield _line(self._event(one) or about | {"gap": one.frame.decode(errors="replace")})

    def _ts(self, one: Written) -> float:
        return round(max(one.at - (self._began or 0.0), 0.0), 6)

    def _event(self, one: Written) -> dict[str, Any] | None:
        """The message of an entry; None: it is none."""
        message = jsonrpc.message_of(one.frame)
        if message is None:
            return None
        ends = (CLIENT, AGENT) if one.way == C2A else (AGENT, CLIENT)
        event: dict[str, Any] = {"ts": self._ts(one), "from": ends[0], "to": ends[1]}
        own: dict[str, Any] = {"bytes": len(one.frame), "epoch": one.epoch, "chain": one.chain}
        own |= {"number": one.number}
        if one.disputed:
            own["disputed"] = True
        if isinstance(message.id, msgspec.Raw):
            own["id"] = message.id
            # Chains use the same ids.
            event["id"] = f"{one.chain} {bytes(message.id).decode()}"
        if not isinstance(message.method, str):
            found = jsonrpc.outcome(message)
            if found is None:
                return None
            said = {"is_error": found[0] == b"error", "payload": found[1]}
            return {"type": "response", **event, **said, "_conductor": own}
        kind = "notification" if "id" not in event else "request"
        params = message.params if isinstance(message.params, msgspec.Raw) else _NULL
        if (session := session_of(params)) is not None:
            event["session"] = session
        return {"type": kind, **event, "method": message.method, "params": params,
                "_conductor": own}  # fmt: skip


def _line(held: dict[str, Any]) -> bytes:
    # A frame may have line ends between its members.
    return bytes(json_text.formatted(json_text.encode(held), indent=-1)) + b"\n"
