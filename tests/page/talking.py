"""A chat, served by the real command."""

from __future__ import annotations

import http.client
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tests.harness.process.command import Running
from tests.harness.process.demo import AGENT
from tests.places import DEADLINE

if TYPE_CHECKING:
    from playwright.sync_api import Page

DEMO: Final = f"{sys.executable} {AGENT} --modes --commands"
FANCY: Final = f"{sys.executable} {Path(__file__).with_name('agent.py')}"


class Talking(Running):
    """`conductor chat` while it runs."""

    def __init__(self, *words: str, opens: bool = False, **more: Any) -> None:
        """`opens`: it opens a browser."""
        super().__init__("chat", *(() if opens else ("--no-open",)), *words, **more)
        line = re.compile(r"(http://\S+#secret=(\S+))\n")
        self.wait_until(self.out, lambda text: bool(line.search(text)), "the address of the page")
        ((self.address, self.secret),) = line.findall(self.text(self.out))
        self.port = urlsplit(self.address).port or 0

    @contextmanager
    def _asked(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        sent = {"Authorization": f"Bearer {self.secret}", **headers}
        try:
            connection.request(method, path, body=body, headers=sent)
            yield connection.getresponse()
        finally:
            connection.close()

    def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Status and content of an answer; with a body (bytes as they are) it is a POST."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        with self._asked("GET" if data is None else "POST", path, data, headers) as answer:
            held = answer.read()
            is_json = answer.headers["content-type"] == "application/json"
            return answer.status, json.loads(held) if is_json else held

    def do(self, name: str, **body: object) -> Any:
        """Does something that must go well."""
        status, content = self.ask(f"/api/chat/{name}", body)
        assert status == 200, content
        return content

    def say(self, session: str, text: str) -> None:
        """Begins a turn."""
        self.do("prompt", session=session, parts=[{"text": text}])

    def until(self, seen: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The state of the chat as soon as `seen` accepts it."""
        deadline = time.monotonic() + DEADLINE
        while not seen(chat := self.ask("/api/chat/news")[1]["chat"]):
            assert time.monotonic() < deadline, chat
            time.sleep(0.02)
        held: dict[str, Any] = chat
        return held

    def turn(self, number: int) -> dict[str, Any]:
        """A turn in detail."""
        status, content = self.ask(f"/api/turn/{number}")
        assert status == 200, content
        held: dict[str, Any] = content
        return held

    def visit(self, page: Page) -> None:
        """Opens the page and waits until one can write there."""
        page.goto("about:blank")
        page.goto(self.address)
        page.locator("#session-name:not(:empty)").wait_for()


def idle(chat: dict[str, Any]) -> bool:
    """No turn runs."""
    return not any(session["running"] for session in chat["sessions"])
