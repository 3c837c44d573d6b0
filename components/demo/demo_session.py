"""A session: its folder, its history, its turns one after another."""

import threading
from typing import TYPE_CHECKING, Any

from demo_acp import Protocol
from demo_json import dumps, raw_at

if TYPE_CHECKING:
    from demo_early import Early
    from demo_turn import Turn

_HISTORY_BYTES = 16 << 20
"""Characters of prompts and recorded updates kept per session; the oldest turns go first."""


class Session:
    """One conversation. Its turns run one at a time, in the order of their prompts; turns of
    different sessions run side by side."""

    def __init__(self, session_id: str, protocol: Protocol) -> None:
        """A session without a working directory yet: see set_up."""
        self.id = session_id
        self.id_text = dumps(session_id)
        self.protocol = protocol
        self.open = True
        self.mode = "ask"
        self.cwd = ""
        self.mcp_servers: Any = []
        self.early: dict[str, Early] = {}
        """Connections opened by ``--fast`` that ``/early`` has not shown."""
        self.params_text = "{}"
        self.turn_count = 0
        self.dropped = 0
        self.history: list[Turn] = []
        self._kept = 0
        self._lock = threading.Lock()
        self._busy = False
        self._waiting: list[Turn] = []
        self._heads: dict[tuple[str, str | None], str] = {}

    def set_up(self, protocol: Protocol, params: dict[str, Any], text: str) -> None:
        """Take the params of session/new, /load or /resume (``text`` is the whole line)."""
        self.protocol = protocol
        self.open = True
        self.cwd = params["cwd"]
        self.mcp_servers = params.get("mcpServers") or []
        self.params_text = raw_at(text, "params") or "{}"
        self._heads.clear()

    def update_frame(self, update: str) -> str:
        """The line of a session/update notification; ``update`` is JSON text."""
        return (
            '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
            f'{self.id_text},"update":{update}}}}}\n'
        )

    def chunk_head(self, kind: str, message_id: str | None) -> str:
        """The line of a text chunk up to its text; ``CHUNK_TAIL`` ends it. The head is all that
        does not change within a message, so a stream is a join of head, text and tail."""
        head = self._heads.get((kind, message_id))
        if head is None:
            member = "" if message_id is None else f'"messageId":{dumps(message_id)},'
            head = (
                '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
                f'{self.id_text},"update":{{"sessionUpdate":"{kind}",{member}'
                '"content":{"type":"text","text":'
            )
            if message_id is None:  # with a message id it would never be asked for again
                self._heads[kind, message_id] = head
        return head

    def submit(self, turn: "Turn") -> None:
        """Run the turn: at once in this thread when it is quick and nothing runs, else in a
        thread, after those before it."""
        with self._lock:
            if self._busy:
                self._waiting.append(turn)
                return
            self._busy = True
        if turn.quick:
            self._run(turn)
            with self._lock:
                self._busy = False
        else:
            threading.Thread(target=self._work, args=(turn,), daemon=True).start()

    def _work(self, turn: "Turn") -> None:
        while True:
            self._run(turn)
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                turn = self._waiting.pop(0)

    def _run(self, turn: "Turn") -> None:
        # Kept before it runs: /history and /context include the turn that asks.
        self.history.append(turn)
        turn.run()
        self._kept += turn.weight
        while self._kept > _HISTORY_BYTES and len(self.history) > 1:
            self._kept -= self.history.pop(0).weight
            self.dropped += 1


CHUNK_TAIL = "}}}}\n"
