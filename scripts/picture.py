"""Makes the pictures of the page that README and docs/log.md show: `python scripts/picture.py`.

A real chain runs, with an agent that follows a script, and a real Chromium takes the pictures.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

_HERE: Final = Path(__file__).resolve()
ROOT: Final = _HERE.parent.parent
_KEY: Final = "ghp_" + "w4Tq8Zb1Yc6Ud0Xe5Vf3Sg7Rh2Pj9NkLm4Qa"
"""No key of anybody."""
_PROMPTS: Final = (
    f"The login test fails in CI since Friday. The token there is {_KEY}. Can you repair it?",
    "Does anything else use that fixture?",
)
_OLD: Final = (
    "def test_login(client):\n    visitor = sign_in(age=0)\n    assert client.greets(visitor)\n"
)
_NEW: Final = _OLD.replace("age=0", "age=0, now=clock()")


def agent() -> None:
    """The agent: it follows the script."""
    prompts = 0
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            _answer(number, {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []})
        elif method == "session/new":
            _answer(number, {"sessionId": "login"})
        elif method == "session/prompt":
            prompts += 1
            (_first if prompts == 1 else _second)()
            usage = {"inputTokens": 1830, "outputTokens": 312, "totalTokens": 2142}
            _answer(number, {"stopReason": "end_turn", "usage": usage})


def _send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def _answer(number: object, result: object) -> None:
    _send({"id": number, "result": result})


def _update(what: str, **more: Any) -> None:
    params = {"sessionId": "login", "update": {"sessionUpdate": what, **more}}
    _send({"method": "session/update", "params": params})


def _say(text: str) -> None:
    for words in re.findall(r"\S+\s*|\s+", text):
        _update("agent_message_chunk", content={"type": "text", "text": words})
        time.sleep(0.01)


def _first() -> None:
    _say("I look at the test and at what it calls.")
    call = {"toolCallId": "read", "title": "read tests/test_login.py", "kind": "read"}
    _update("tool_call", **call, status="in_progress")
    time.sleep(0.4)
    _update("tool_call_update", toolCallId="read", status="completed")
    diff = {"type": "diff", "path": "tests/test_login.py", "oldText": _OLD, "newText": _NEW}
    call = {"toolCallId": "edit", "title": "edit tests/test_login.py", "kind": "edit"}
    options = [
        {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]
    asked = {"sessionId": "login", "toolCall": call, "options": options}
    _send({"id": "ask", "method": "session/request_permission", "params": asked})
    sys.stdin.readline()
    _update("tool_call", **call, status="completed", content=[diff])
    time.sleep(0.3)
    _say(
        "The test signs in **before** the clock is frozen, so its visit has expired. It passes now."
    )
    _update("usage_update", used=2142, size=200000, cost={"amount": 0.011, "currency": "USD"})


def _second() -> None:
    time.sleep(0.2)
    _say("Two more tests do, `test_logout.py` and `test_session.py`; both freeze the clock first.")


async def _record(trace: Path) -> None:
    import conductor

    async def ask(question: Any) -> Any:
        await asyncio.sleep(1.1)  # a person reads the question
        return "yes"

    me = f"{sys.executable} {_HERE} --agent"
    async with conductor.open(
        "datetime", "redact", me, permissions=ask, trace=str(trace), trace_content="all"
    ) as chain:
        for prompt in _PROMPTS:
            await chain.prompt(prompt)


def _taken(trace: Path, folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    found = subprocess.run([ROOT / "scripts" / "browser"], stdout=subprocess.PIPE, check=True)
    command = [sys.executable, "-m", "conductor", "log", "view", str(trace), "--no-open"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.stdout.decode().strip(), args=["--no-sandbox"]
        )
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address is not None
            page = browser.new_page(
                viewport={"width": 1280, "height": 760}, device_scale_factor=1.2
            )
            page.goto(f"{address[0]}&turn=1")
            page.locator(".prompt-words").wait_for()
            page.locator(".diff").wait_for()
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.screenshot(path=folder / f"page-{scheme}.png")
        finally:
            server.terminate()
            server.wait()
            browser.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--agent"]:
        agent()
    else:
        with tempfile.TemporaryDirectory() as made:
            asyncio.run(_record(Path(made) / "login.jsons"))
            _taken(Path(made) / "login.jsons", ROOT / "docs")
