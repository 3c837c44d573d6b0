"""JSON-RPC 2.0 over newline-delimited JSON: one peer, no knowledge of ACP.

One thread reads and dispatches; any thread may send. Every valid request gets exactly one
answer; what cannot be answered by id is refused with ``id`` null.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from demo_json import dumps, loads, raw_at
from demo_outbox import FrameLog, Outbox

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800
NOT_FOUND = -32002

_READ = 1 << 16

RequestId = int | str | None


class RpcError(Exception):
    """An error to answer a request with."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        """``data`` is any JSON value; None leaves the member out."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Request(NamedTuple):
    """A request or notification as received; ``text`` is its whole line."""

    id: RequestId
    method: str
    params: dict[str, Any]
    text: str
    wants_answer: bool


class Answer(NamedTuple):
    """The peer's answer to a request of ours, as the exact JSON text it wrote."""

    ok: bool
    text: str


class Pending:
    """A request of ours; ``answer`` is set, then ``notify`` called, when its answer comes."""

    __slots__ = ("answer", "id", "notify")

    def __init__(self, request_id: int, notify: Callable[[], None]) -> None:
        """Not answered yet."""
        self.id = request_id
        self.notify = notify
        self.answer: Answer | None = None


class Connection:
    """The one connection of the agent: reads frames, matches answers, sends frames."""

    def __init__(self, outbox: Outbox, log: FrameLog | None = None) -> None:
        """Send through ``outbox``; log received messages to ``log``."""
        self.outbox = outbox
        self.null_ids = True
        """Whether a request id may be null (ACP v1 yes, v2 no)."""
        self._log = log
        self._handler: Callable[[Request], None] = lambda request: None
        self._ids = threading.Lock()
        self._next_id = 0
        self._pending: dict[int, Pending] = {}

    def serve(self, fd: int, handler: Callable[[Request], None]) -> None:
        """Read lines from ``fd`` until it ends, passing each request and notification to
        ``handler`` (which raises RpcError to refuse one). A last line without newline counts."""
        self._handler = handler
        parts: list[bytes] = []
        while chunk := os.read(fd, _READ):
            first, newline, rest = chunk.partition(b"\n")
            parts.append(first)
            if not newline:
                continue
            *lines, last = rest.split(b"\n")
            self.line(b"".join(parts))
            for line in lines:
                self.line(line)
            parts = [last]
        self.line(b"".join(parts))

    def line(self, data: bytes) -> None:
        """Handle one line; blank ones are nothing."""
        if not data or data.isspace():
            return
        if self._log:
            self._log.lines("in", data)
        try:
            text = data.decode()
            message = loads(text)
        except ValueError as error:
            self._refuse(PARSE_ERROR, "Parse error", str(error))
            return
        if isinstance(message, dict):
            self._message(message, text)
        elif isinstance(message, list):
            reason = "JSON-RPC batches are not supported; send each message individually"
            self._refuse(INVALID_REQUEST, "Invalid request", reason)
        else:
            self._refuse(INVALID_REQUEST, "Invalid request", "not a JSON object")

    def respond(self, request_id: RequestId, result: str) -> bytes:
        """The frame of a successful answer; ``result`` is JSON text."""
        return f'{{"jsonrpc":"2.0","id":{dumps(request_id)},"result":{result}}}\n'.encode()

    def fail(self, request_id: RequestId, error: RpcError) -> bytes:
        """The frame of an error answer."""
        body: dict[str, object] = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        return f'{{"jsonrpc":"2.0","id":{dumps(request_id)},"error":{dumps(body)}}}\n'.encode()

    def notification(self, method: str, params: str) -> bytes:
        """The frame of a notification; ``params`` is JSON text."""
        return f'{{"jsonrpc":"2.0","method":{dumps(method)},"params":{params}}}\n'.encode()

    def request(self, method: str, params: str, notify: Callable[[], None]) -> Pending:
        """Send a request (``params`` is JSON text); ``notify`` is called from the reader thread
        once it is answered."""
        with self._ids:
            self._next_id += 1
            pending = Pending(self._next_id, notify)
            self._pending[pending.id] = pending
        head = f'{{"jsonrpc":"2.0","id":{pending.id},"method":{dumps(method)},"params":'
        self.outbox.send(f"{head}{params}}}\n".encode())
        return pending

    def forget(self, pending: Pending) -> None:
        """Nobody waits for this answer any more: tell the peer, ignore a late answer."""
        if self._pending.pop(pending.id, None):
            params = f'{{"requestId":{pending.id}}}'
            self.outbox.send(self.notification("$/cancel_request", params))

    def _message(self, message: dict[str, Any], text: str) -> None:
        if "method" not in message and ("result" in message or "error" in message):
            self._answer(message, text)
            return
        wants_answer = "id" in message
        request_id = message.get("id")
        if wants_answer and not self._valid_id(request_id, text):
            self._refuse(INVALID_REQUEST, "Invalid request", self._id_rule())
            return
        method, params = message.get("method"), message.get("params")
        wrong = None
        if message.get("jsonrpc") != "2.0":
            wrong = RpcError(INVALID_REQUEST, "Invalid request", 'jsonrpc must be "2.0"')
        elif not isinstance(method, str):
            wrong = RpcError(INVALID_REQUEST, "Invalid request", "method must be a string")
        elif params is not None and not isinstance(params, dict):
            wrong = RpcError(INVALID_PARAMS, "Invalid params", "params must be an object")
        try:
            if wrong:
                raise wrong
            assert isinstance(method, str)
            self._handler(Request(request_id, method, params or {}, text, wants_answer))
        except RpcError as error:
            if wants_answer:
                self.outbox.send(self.fail(request_id, error))
            elif wrong and wrong.code == INVALID_REQUEST:
                self.outbox.send(self.fail(None, error))

    def _answer(self, message: dict[str, Any], text: str) -> None:
        answer_id = message.get("id")
        if type(answer_id) is not int:
            return
        pending = self._pending.pop(answer_id, None)
        if pending is None:  # of a request given up, or never made: nothing to answer
            return
        ok = "error" not in message
        raw = raw_at(text, "result" if ok else "error")
        pending.answer = Answer(ok, raw or "null")
        pending.notify()

    def _valid_id(self, value: object, text: str) -> bool:
        if value is None:
            return self.null_ids
        if type(value) is int:
            if value == 0:  # "-0" decodes to an integer but is none
                return raw_at(text, "id") == "0"
            return -(1 << 63) <= value < 1 << 63
        return isinstance(value, str)

    def _id_rule(self) -> str:
        kinds = "null, a string" if self.null_ids else "a string"
        return f"a request id must be {kinds} or a signed 64-bit integer"

    def _refuse(self, code: int, message: str, data: str) -> None:
        self.outbox.send(self.fail(None, RpcError(code, message, data)))
