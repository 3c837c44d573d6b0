"""A local stand-in for the Anthropic Messages API, enough for a real coding agent.

It answers ``POST /v1/messages`` (streaming as server-sent events, or whole),
``POST /v1/messages/count_tokens`` and ``GET /v1/models``; anything else is a 404 in
the API's own error shape. Every request is recorded, so a test can say what reached
the model. What the model says is a function of the request body: see `Script`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """An answer in words: one ``content_block_delta`` for each chunk, then end of turn."""

    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """An answer that calls a tool of the agent; the next request carries its result."""

    name: str
    arguments: Json
    id: str = "toolu_mock_1"
    """The id of this call; a conversation with several calls needs as many ids."""


@dataclass(frozen=True, slots=True)
class Stall:
    """An answer that starts and then hangs until the agent hangs up or the mock closes."""

    chunks: tuple[str, ...]


Answer = Text | ToolUse | Stall
Script = Callable[[Json], Answer]
"""The answer of the model to one request body. Agents also ask for titles and summaries on
the side; those come without the conversation's tools, so a script can tell them apart."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request as it arrived: ``body`` is ``{}`` when there was no JSON object."""

    verb: str
    path: str
    key: str | None
    body: Json


class MockMessages:
    """The running server: its address, and what it was asked so far (thread-safe)."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.closing = threading.Event()
        self.hung_up = threading.Event()
        """Set once a client closed its connection in the middle of a `Stall`."""
        self._requests: list[Recorded] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """The base URL to hand to the agent (``ANTHROPIC_BASE_URL``)."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> tuple[Recorded, ...]:
        """Every request so far, in order of arrival."""
        with self._lock:
            return tuple(self._requests)

    @property
    def conversations(self) -> tuple[Json, ...]:
        """The bodies of ``/v1/messages`` requests that carry tools: the agent's own loop."""
        return tuple(
            r.body for r in self.requests if r.path == "/v1/messages" and r.body.get("tools")
        )

    def record(self, request: Recorded) -> None:
        """Remember one request."""
        with self._lock:
            self._requests.append(request)

    @contextmanager
    def serving(self) -> Iterator[MockMessages]:
        """Serve from a thread of its own while the block runs."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def user_text(body: Json) -> str:
    """All text the *user* side of a request holds, tool results left out."""
    found: list[str] = []
    for message in body.get("messages", ()):
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [block["text"] for block in blocks if block["type"] == "text"]
    return "\n".join(found)


def tool_results(body: Json) -> list[Json]:
    """The ``tool_result`` blocks of a request, oldest first."""
    return [
        block
        for message in body.get("messages", ())
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def _events(answer: Answer, model: str) -> Iterator[Json]:
    """The stream events of one answer, without the final pair when it stalls."""
    usage = {"input_tokens": 7, "output_tokens": 1}
    yield {"type": "message_start", "message": _message(model, [], None, usage)}
    if isinstance(answer, ToolUse):
        block: Json = {"type": "tool_use", "id": answer.id, "name": answer.name, "input": {}}
        whole = json.dumps(answer.arguments)
        half = len(whole) // 2
        deltas = [
            {"type": "input_json_delta", "partial_json": part}
            for part in (whole[:half], whole[half:])
        ]
    else:
        block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": chunk} for chunk in answer.chunks]
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    if isinstance(answer, Stall):
        return
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": _stop_reason(answer), "stop_sequence": None},
        "usage": {"output_tokens": 5},
    }
    yield {"type": "message_stop"}


def _message(model: str, content: list[Json], stop: str | None, usage: Json) -> Json:
    return {
        "id": "msg_mock",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _stop_reason(answer: Answer) -> str:
    return "tool_use" if isinstance(answer, ToolUse) else "end_turn"


def _whole(answer: Answer, model: str) -> Json:
    """The same answer for a request that did not ask for a stream."""
    if isinstance(answer, ToolUse):
        content: Json = {
            "type": "tool_use",
            "id": answer.id,
            "name": answer.name,
            "input": answer.arguments,
        }
    else:
        content = {"type": "text", "text": "".join(answer.chunks)}
    usage = {"input_tokens": 7, "output_tokens": 5}
    return _message(model, [content], _stop_reason(answer), usage)


def _handler_for(mock: MockMessages) -> type[BaseHTTPRequestHandler]:
    """A request handler class bound to one mock (http.server takes a class, not a value)."""

    class Handler(_Handler):
        owner = mock

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: ClassVar[MockMessages]

    def do_GET(self) -> None:
        path = self._record({})
        if path == "/v1/models":
            self._json(200, {"data": [], "has_more": False, "first_id": None, "last_id": None})
        else:
            self._not_found(path)

    def do_HEAD(self) -> None:
        self._record({})
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        decoded = json.loads(raw) if raw else {}
        body: Json = decoded if isinstance(decoded, dict) else {}
        path = self._record(body)
        if path == "/v1/messages/count_tokens":
            self._json(200, {"input_tokens": len(raw) // 4})
        elif path != "/v1/messages":
            self._not_found(path)
        elif body.get("stream"):
            self._stream(self.owner.script(body), str(body["model"]))
        else:
            self._json(200, _whole(self.owner.script(body), str(body["model"])))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name in the base)
        """Keep the test's stderr clean; `MockMessages.requests` is the log."""

    def _record(self, body: Json) -> str:
        path = urlsplit(self.path).path
        self.owner.record(Recorded(self.command, path, self.headers.get("x-api-key"), body))
        return path

    def _stream(self, answer: Answer, model: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in _events(answer, model):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        if isinstance(answer, Stall):
            self._until_hung_up()
        self.close_connection = True

    def _until_hung_up(self) -> None:
        """Wait for the client's end of stream: nothing else can arrive on this connection."""
        self.connection.settimeout(0.1)
        while not self.owner.closing.is_set():
            try:
                if self.connection.recv(1) == b"":
                    self.owner.hung_up.set()
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                self.owner.hung_up.set()
                return

    def _json(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _not_found(self, path: str) -> None:
        error = {"type": "not_found_error", "message": f"the mock has no {path}"}
        self._json(404, {"type": "error", "error": error})
