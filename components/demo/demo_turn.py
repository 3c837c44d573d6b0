"""A turn: one prompt, from its request to the end of the work it asks for.

What a turn sends is gathered and written when it waits, ends, or has gathered enough: a short
turn is a single write, updates first and the answer last.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from demo_json import dumps
from demo_rpc import INTERNAL_ERROR, Answer, Connection, Pending, Request, RpcError
from demo_session import CHUNK_TAIL, Session

_FLUSH = 1 << 16
"""Gathered characters above which a turn writes."""

_RECORD = 1 << 16
"""Characters of updates a turn keeps for replay by session/load."""

_QUICK = 4096
"""Longest request line whose turn may run in the reader thread."""


class Cancelled(Exception):  # noqa: N818 - not an error
    """The turn was cancelled, or the client is gone, while it waited."""


class Client(NamedTuple):
    """The client, by its words in ``initialize``."""

    initialize_text: str
    """The params, as received; ``null`` before the request came."""
    capabilities: dict[str, Any]


class Owner(Protocol):
    """Who keeps track of turns."""

    def answered(self, turn: "Turn") -> None:
        """The turn's request is about to be answered."""

    def ended(self, turn: "Turn") -> None:
        """The turn sent its last."""


class Directive(NamedTuple):
    """The work of a turn."""

    run: Callable[["Turn", str], None]
    """Called with the turn and the text after the directive's name. May raise Cancelled."""
    usage: str
    meaning: str
    waits: bool = False
    """Whether the directive may take long, or write much: then it gets a thread."""
    inserts: bool = True
    """Whether the prompt is inserted (v2: answered) before the directive runs."""


class Turn:
    """One prompt in one session. ``run`` does it; the rest serves the directives."""

    def __init__(
        self,
        connection: Connection,
        session: Session,
        request: Request,
        client: Client,
        owner: Owner,
    ) -> None:
        """A turn for the prompt in ``request``; ``owner`` is told of its
        progress."""
        self.connection = connection
        self.session = session
        self.protocol = session.protocol
        self.request = request
        self.client = client.capabilities
        self.initialize_text = client.initialize_text
        self.text = request.text
        self.prompt: list[dict[str, Any]] = request.params["prompt"]
        self.mcp_mode = "auto"
        self.cancelled = False
        self.inserted = False
        self.answered = False
        self.failed = False
        self.recorded: list[str] = []
        self.unrecorded = 0
        self.weight = len(self.text)
        session.turn_count += 1
        self.number = session.turn_count
        self._owner = owner
        self._closing = False
        self._signal = threading.Event()
        self._on_stop: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._gathered: list[str] = []
        self._size = 0
        self._room = _RECORD
        self.hold = False
        """True while everything up to the answer has to leave in one write."""
        from demo_echo import choose

        self._directive, self._argument = choose(self.prompt)
        self.quick = not self._directive.waits and len(self.text) <= _QUICK

    # -- life ------------------------------------------------------------------------------

    def run(self) -> None:
        """Do the turn. Never raises: whatever happens, the request is answered."""
        stop = "end_turn"
        try:
            if self.cancelled:
                raise Cancelled
            if self._directive.inserts:
                self.insert()
            self._directive.run(self, self._argument)
        except Cancelled:
            stop = "cancelled"
        except Exception as error:  # a defect here must not leave the client waiting
            self._failed(error)
            stop = "error"
        if not self.failed:
            self.protocol.finish(self, "cancelled" if self.cancelled else stop)
        self.flush()
        self._owner.ended(self)

    def cancel(self) -> None:
        """The client cancelled the turn."""
        self.cancelled = True
        self._stop()

    def close(self) -> None:
        """The client is gone: stop waiting for anything, but finish the turn as far as possible."""
        self._closing = True
        self._stop()

    def on_stop(self, callback: Callable[[], None] | None) -> None:
        """Have ``callback`` called (from another thread) when the turn is to stop waiting; at
        once if it already is. None takes it back, and it is not running after that."""
        with self._lock:
            self._on_stop = callback
            if callback and (self.cancelled or self._closing):
                callback()

    def insert(self) -> None:
        """Enter the prompt into the conversation, once."""
        if not self.inserted:
            self.inserted = True
            self.protocol.insert(self)

    # -- sending ---------------------------------------------------------------------------

    def say(self, text: str, kind: str = "agent_message_chunk") -> None:
        """Send one chunk of text."""
        message_id = self.message_id("thought" if "thought" in kind else "agent")
        head = self.session.chunk_head(kind, message_id)
        frame = head + dumps(text) + CHUNK_TAIL
        self._record(frame)
        self.gather(frame)

    def update(self, update: dict[str, Any]) -> None:
        """Send an update."""
        self.update_text(dumps(update))

    def update_text(self, update: str) -> None:
        """Send an update that is JSON text already."""
        frame = self.session.update_frame(update)
        if '"sessionUpdate":"user_message' not in update[:40]:
            self._record(frame)
        self.gather(frame)

    def state(self, state: dict[str, Any]) -> None:
        """Send a v2 state; states are not part of the history."""
        self.gather(self.session.update_frame(dumps({"sessionUpdate": "state_update", **state})))

    def gather(self, frame: str) -> None:
        """Send this line, or these."""
        self._gathered.append(frame)
        self._size += len(frame)
        if self._size > _FLUSH and not self.hold:
            self.flush()

    def respond(self, result: dict[str, Any]) -> None:
        """Answer the prompt's request."""
        self._free()
        self.gather(self.connection.respond(self.request.id, dumps(result)).decode())

    def fail(self, error: RpcError) -> None:
        """Answer the prompt's request with an error."""
        self.failed = True
        self._free()
        self.gather(self.connection.fail(self.request.id, error).decode())

    def flush(self) -> None:
        """Write the gathered bytes; waits while the client does not read."""
        if self._gathered:
            data = "".join(self._gathered).encode()
            self._gathered.clear()
            self._size = 0
            self.send(data)

    def send(self, data: bytes) -> None:
        """Write bytes as they are, after the gathered bytes."""
        self.connection.outbox.send(data, patient=not self.quick)

    def message_id(self, kind: str) -> str | None:
        """The id of this turn's user, agent or thought message; None in v1."""
        return self.protocol.message_id(kind, self.number)

    # -- waiting ---------------------------------------------------------------------------

    def pause(self, seconds: float | None) -> None:
        """Wait (for ever when None). Raises Cancelled."""
        self.flush()
        self._signal.clear()
        self._check()
        self._signal.wait(seconds)
        self._check()

    def ask(self, method: str, params: dict[str, Any]) -> Answer:
        """Request something of the client, for this session. Raises Cancelled."""
        return self.ask_text(method, dumps({"sessionId": self.session.id, **params}))

    def ask_text(self, method: str, params: str) -> Answer:
        """Request something of the client; ``params`` is JSON text. Raises Cancelled."""
        self.flush()
        self._check()
        self._signal.clear()
        pending: Pending = self.connection.request(method, params, self._signal.set)
        while pending.answer is None:
            if self.cancelled or self._closing:
                self.connection.forget(pending)
                raise Cancelled
            self._signal.wait()
            if pending.answer is None:
                self._signal.clear()
        return pending.answer

    # -- inside ----------------------------------------------------------------------------

    def _free(self) -> None:
        # Before the answer is sent: who has read it may use the id anew.
        self.answered = True
        self._owner.answered(self)

    def _check(self) -> None:
        if self.cancelled or self._closing:
            raise Cancelled

    def _stop(self) -> None:
        self._signal.set()
        with self._lock:
            if self._on_stop:
                self._on_stop()

    def _record(self, frame: str) -> None:
        if len(frame) <= self._room:
            self._room -= len(frame)
            self.weight += len(frame)
            self.recorded.append(frame)
        else:
            self._room = 0
            self.unrecorded += 1

    def _failed(self, error: Exception) -> None:
        import traceback

        sys.stderr.write("demo: defect in a directive\n" + traceback.format_exc())
        sys.stderr.flush()
        text = f"demo: {type(error).__name__}: {error}"
        if self.answered:
            self.say(text)
        else:
            self.fail(RpcError(INTERNAL_ERROR, text))
