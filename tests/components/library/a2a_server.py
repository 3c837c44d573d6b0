"""A small A2A server for the tests, which lies below some of its addresses."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

WELL_KNOWN = "/.well-known/agent-card.json"


class _Handler(BaseHTTPRequestHandler):
    url: ClassVar[str]
    over: ClassVar[threading.Event]
    """Set when the server ends."""

    def do_GET(self) -> None:
        """A card: below `/good` a good one, elsewhere a lie."""
        place = self.path.removesuffix(WELL_KNOWN)
        card: dict[str, Any] = {
            "name": "Echo",
            "version": "1",
            "supportedInterfaces": [
                {
                    "url": f"{self.url}/good/rpc",
                    "protocolBinding": "JSONRPC",
                    "protocolVersion": "1.0",
                }
            ],
            "skills": [{"id": "echo", "name": "Echo", "description": "Says it again", "tags": []}],
        }
        match place:
            case "/redirect":
                self._redirect(f"/good{WELL_KNOWN}")
            case "/away":
                self._redirect(f"{self.url.replace('127.0.0.1', 'localhost')}/good{WELL_KNOWN}")
            case "/elsewhere":
                card["supportedInterfaces"][0]["url"] = "http://192.0.2.1/rpc"
                self._answer(json.dumps(card))
            case "/large":
                self._answer(json.dumps({**card, "x": "x" * 10_000_000}))
            case "/endless":
                self._endless()
            case "/silent":
                self.over.wait()
            case "/deep":
                self._answer("[" * 200_000)
            case _:
                self._answer(json.dumps(card))

    def do_POST(self) -> None:
        """Says the message again, or obeys it."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = asked["params"]["message"]["parts"][0]["text"]
        parts = [{"text": words}]
        result = {"message": {"role": "ROLE_AGENT", "messageId": "m", "parts": parts}}
        match words:
            case "redirect":
                self._redirect(f"{self.url.replace('127.0.0.1', 'localhost')}/good/rpc", 307)
            case "endless":
                self._endless()
            case _:
                self._answer(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))

    def _answer(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        with contextlib.suppress(OSError):  # who asked has had enough
            self.wfile.write(text.encode())

    def _redirect(self, to: str, status: int = 302) -> None:
        self.send_response(status)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"data: {}\n\n" * 1000)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The address of the server while the block runs."""
    over = threading.Event()
    handler = type("Handler", (_Handler,), {"over": over})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_address[1]}"
    handler.url = url  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield url
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
