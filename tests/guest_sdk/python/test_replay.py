"""`conductor log replay` of a proxy that uses every service, sandboxed and as a program."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.command import conductor
from tests.record.trace.test_trace import DEMO, services, talk

pytestmark = pytest.mark.timeout(600)  # the first test may have the guest built

BUSY: Final = """
from guest_sdk.python import Proxy, text

proxy = Proxy("busy")

@proxy.request("session/prompt")
async def prompt(request, next):
    turns = await proxy.kv.get("turns", 0) + 1
    await proxy.kv.set("turns", turns)
    page = await proxy.fetch(proxy.config["url"])
    note = await proxy.files.read("note.md")
    await proxy.files.write("out/page.md", page.text)
    lot = await proxy.random.bytes(8)
    now = await proxy.clock.now()
    await proxy.timer.sleep(0.02)
    proxy.log("asked")
    proxy.metric.count("prompts")
    request.prompt.insert(0, text(f"{turns} {page.text} {note} {lot.hex()} {now:%Y-%m-%d %H:%M}"))
    return await next(request)

if __name__ == "__main__":
    proxy.run()
"""
METHODS: Final = {
    "kv/get", "kv/set", "fetch", "files/read", "files/write", "random", "clock", "timer/start",
    "log", "metric",
}  # fmt: skip


@contextmanager
def page(text: str) -> Iterator[str]:
    """A web server with one page; its address."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answers."""
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def said(folder: Path) -> bytes:
    """A client's lines: two prompts in a session of a folder."""
    calls = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": str(folder), "mcpServers": []}),
        *(
            ("session/prompt", {"sessionId": "demo-1", "prompt": [{"type": "text", "text": text}]})
            for text in ("one", "two")
        ),
    ]
    return b"".join(
        json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}).encode() + b"\n"
        for n, (method, params) in enumerate(calls, 1)
    )


@pytest.mark.proves("a replay performs nothing, and")
@pytest.mark.parametrize("isolation", ["process", "inline"])
def test_nothing_is_done_again(
    tmp_path: Path, python_guest: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    """The server is gone, the file is gone, time has passed, and nothing is granted."""
    del python_guest  # compiled before a chain has to wait for that
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "data"))
    path, trace, note = tmp_path / "busy.py", tmp_path / "t", tmp_path / "note.md"
    path.write_text(BUSY)
    note.write_text("read me")
    program = f"{sys.executable} {path}"
    with page("a page") as url:
        rights = f"storage+timer+clock+random+read:*.md+web:{url}+write:out"
        setting = f"config.url={url}/"
        command = [
            sys.executable, "-m", "conductor", "agent", "-c", f"isolation={isolation}",
            "-c", "clock=2026-03-01T12:00:00", "--trace", str(trace),
            f"{path},allow={rights},{setting}", f"{program},{setting},name=program", DEMO,
        ]  # fmt: skip
        assert talk(command, said(tmp_path)) == 0
    note.unlink()
    (tmp_path / "out/page.md").unlink()
    for name in ("busy", "program"):
        asked = {one["method"] for one in services(trace) if one["from"] == name}
        assert asked == METHODS
    assert "2 a page read me" in trace.read_text()
    ran = conductor(
        "log", "replay", str(trace), "--timeout", "50", str(path), f"{program},name=program"
    )
    assert ran.code == 0, ran.out + ran.err
    assert [line[:16] for line in ran.out.splitlines() if line.startswith("same")] == [
        "same    turn 1  ", "same    turn 2  ",
    ] * 2  # fmt: skip
    assert list((tmp_path / "out").iterdir()) == []

    changed = tmp_path / "changed.py"
    changed.write_text(BUSY.replace("note} ", "note}! "))
    for component, name in ((str(changed), "busy"), (f"{sys.executable} {changed}", "program")):
        ran = conductor(
            "log", "replay", str(trace), "--timeout", "50", component, "--as", name, "--json"
        )
        assert ran.code == 1
        (difference,) = json.loads(ran.out)["turns"][1]["agent"]
        assert difference["what"] == "session/prompt"
        assert [(edit["op"], edit["after"]) for edit in difference["edits"]] == [("added", "!")]
