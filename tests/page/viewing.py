"""The page of a trace, served by the real command; traces with events that no chain of the tests
makes."""

from __future__ import annotations

import http.client
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tests.harness.process.command import Running
from tests.places import DEADLINE

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL: Final = (
    "<img src=x onerror=window.bitten=1><script>window.bitten=1</script></script>\n\n"
    "[a link](javascript:window.bitten=1) `\x1b[31m` \u202eevil\u2066 <!-- ]]>"
)
"""Text that a browser or a terminal must not obey."""


class Viewed(Running):
    """`conductor log view FILE` while it runs."""

    def __init__(
        self, path: Path, *options: str, opens: bool = False, env: dict[str, str] | None = None
    ) -> None:
        """`opens`: it opens a browser."""
        quiet = () if opens else ("--no-open",)
        super().__init__("log", "view", str(path), *quiet, *options, env=env)
        line = re.compile(r"(http://\S+#secret=([^\s&]+)\S*)\n")
        self.wait_until(self.out, lambda text: bool(line.search(text)), "the address of the page")
        ((self.address, self.secret),) = line.findall(self.text(self.out))
        self.port = urlsplit(self.address).port or 0

    def ask(
        self, path: str, posted: object = None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """An answer to a request as a program makes it: status, content, headers. `posted`: the
        body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        sent = {"Authorization": f"Bearer {self.secret}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        try:
            method, body = ("GET", None) if posted is None else ("POST", json.dumps(posted))
            connection.request(method, path, body, headers=sent)
            answer = connection.getresponse()
            read = answer.read()
        finally:
            connection.close()
        held = {name.lower(): value for name, value in answer.getheaders()}
        is_json = held.get("content-type") == "application/json"
        return answer.status, json.loads(read) if is_json else read, held

    def whole(self) -> dict[str, Any]:
        """The head of the trace, once all of the trace was read."""
        deadline = time.monotonic() + DEADLINE
        while (head := self.ask("/api/head")[1])["live"]:
            assert time.monotonic() < deadline, head
            time.sleep(0.02)
        held: dict[str, Any] = head
        return held

    def visit(self, page: Page, chosen: str = "") -> None:
        """Opens the page and waits until a turn can be read."""
        page.goto("about:blank")
        page.goto(self.address + (f"&{chosen}" if chosen else ""))
        page.locator(".card").first.wait_for()
        page.locator(".turn .speech").first.wait_for()


class Lines:
    """Writes a trace line by line."""

    def __init__(self, path: Path, *components: str) -> None:
        self.path = path
        self._n = 0
        head = {"type": "_conductor", "format": 1, "content": "all"}
        agent = {"name": "demo", "role": "agent"}
        self._write({**head, "components": [*components, "demo"], "chain": [agent]})

    def _write(self, *lines: object) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def verdict(self, component: str, rule: str, text: str) -> None:
        """Conductor refuses something."""
        verdict = {"component": component, "rule": rule, "text": text, "method": "session/prompt"}
        self._write({"type": "_conductor", "ts": self._n / 100, "verdict": verdict})

    def turn(self, prompt_text: str, *answered: str, ends: bool = True) -> None:
        """A prompt and its answer, without any proxy."""
        down = {"from": "client", "to": "agent", "session": "s-1"}
        up = {"from": "agent", "to": "client", "session": "s-1"}
        prompt = {"sessionId": "s-1", "prompt": [{"type": "text", "text": prompt_text}]}
        request = self._event("request", {}, **down, method="session/prompt", params=prompt)
        events = [request]
        for text in answered:
            content = {"type": "text", "text": text}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            params = {"sessionId": "s-1", "update": update}
            events.append(
                self._event("notification", {}, **up, method="session/update", params=params)
            )
        if ends:
            asked = request["_conductor"]["n"]
            own = {"of": asked, "method": "session/prompt", "ms": 20.0}
            end = {"is_error": False, "payload": {"stopReason": "end_turn"}}
            events.append(self._event("response", own, **up, **end))
        self._write(*events)

    def fails(self, prompt_text: str, why: str) -> None:
        """A prompt that is answered with an error."""
        down = {"from": "client", "to": "agent", "session": "s-1"}
        up = {"from": "agent", "to": "client", "session": "s-1"}
        prompt = {"sessionId": "s-1", "prompt": [{"type": "text", "text": prompt_text}]}
        request = self._event("request", {}, **down, method="session/prompt", params=prompt)
        own = {"of": request["_conductor"]["n"], "method": "session/prompt", "ms": 20.0}
        error = {"is_error": True, "payload": {"code": -32603, "message": why}}
        self._write(request, self._event("response", own, **up, **error))

    def _event(self, kind: str, own: dict[str, Any], **more: Any) -> dict[str, Any]:
        self._n += 1
        stamp = {"type": kind, "ts": self._n / 100, "protocol": "acp", "id": self._n}
        return {**stamp, **more, "_conductor": {"n": self._n, **own}}
