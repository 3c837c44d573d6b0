"""The promises of docs/architecture.md#the-channel to authors of guests."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import wasmtime

import wasm_host
from conductor.core import CHANNEL, Component, Send, jsonrpc
from conductor.core.router import Router
from conductor.services.local import LocalServices
from conductor.spec import catalog, settings
from tests.docs import pages
from tests.places import ROOT

TEXT = pages.section(pages.read(ROOT / "docs" / "architecture.md"), "The channel")

HELLO = [
    {"method": "initialize", "params": {"protocolVersion": 1}},
    {"method": "session/new", "params": {"cwd": str(ROOT), "mcpServers": []}},
    {
        "method": "session/prompt",
        "params": {"sessionId": "demo-1", "prompt": [{"type": "text", "text": "/echo hello"}]},
    },
]


@pytest.fixture(scope="module", name="smallest")
def _smallest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guest of the page, assembled."""
    (block,) = pages.blocks(TEXT, "wat")
    assert len(block.text.splitlines()) <= 25
    path = tmp_path_factory.mktemp("smallest") / "pass.wasm"
    path.write_bytes(wasmtime.wat2wasm(block.text))
    return path


def test_the_smallest_guest_flips_lines(smallest: Path) -> None:
    guest = wasm_host.load(smallest).instantiate("smallest")
    assert guest.start(b"") == b""
    lines = 'p{"a":"é"}\nc{}\ns{"b":1}\n'
    assert guest.deliver(lines.encode()) == 's{"a":"é"}\np{"b":1}\n'.encode()
    for size in (65534, 65535, 65536, 3_000_000):
        text = b'"' + b"x" * size + b'"\n'
        assert guest.deliver(b"p" + text) == b"s" + text
    assert guest.deliver(b"c{}\n") == b""
    guest.close()


@pytest.mark.parametrize("isolation", ["process", "inline"])
def test_the_smallest_guest_carries_a_conversation(smallest: Path, isolation: str) -> None:
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, **request})
        for number, request in enumerate(HELLO)
    ]
    proxy = f"{smallest},only=full"  # so that all there is passes through it
    done = subprocess.run(
        [sys.executable, "-m", "conductor", "agent", "-c", f"isolation={isolation}", proxy, "demo"],
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    heard: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    # The answer to `session/new` goes past the guest, which may still have that to `initialize`.
    assert sorted(message["id"] for message in heard if "id" in message) == [0, 1, 2]
    texts = [
        message["params"]["update"]["content"]["text"]
        for message in heard
        if message.get("method") == "session/update"
    ]
    assert texts == ["hello"]
    assert heard[-1]["result"]["stopReason"] == "end_turn"


def test_the_world_is_the_one_that_is_shipped() -> None:
    (block,) = pages.blocks(TEXT, "wit")
    assert block.text == (ROOT / "wasm_host" / "channel.wit").read_text(encoding="utf-8")


def test_the_clock_answers_as_shown() -> None:
    services = LocalServices(lambda *_: None, "2025-10-08T12:34:56+00:00")
    result, error = services.serve("it", "clock", None)
    assert error is None
    assert result is not None
    shown = jsonrpc.answer(b"1", b"result", result).decode().strip()
    assert f"← c{shown}\n" in TEXT


def test_random_has_the_bounds_shown() -> None:
    services = LocalServices(lambda *_: None)
    for params, digits in ((None, 32), (b'{"bytes":1}', 2), (b'{"bytes":4096}', 8192)):
        result, _ = services.serve("it", "random", params)
        assert result is not None
        assert len(json.loads(result)["hex"]) == digits
    for params in (b'{"bytes":0}', b'{"bytes":4097}', b"[]"):
        result, error = services.serve("it", "random", params)
        assert result is None
        assert error is not None
        assert json.loads(error)["code"] == jsonrpc.INVALID_PARAMS


def test_the_log_takes_the_levels_shown() -> None:
    logged: list[tuple[str, str, str]] = []
    services = LocalServices(lambda *line: logged.append(line))
    for level in ("debug", "info", "warn", "error"):
        params = json.dumps({"level": level, "message": "m" * 5000, "data": 1}).encode()
        assert services.serve("it", "log", params) == (b"null", None)
    assert [level for level, _, _ in logged] == ["debug", "info", "warning", "error"]
    assert {text for _, _, text in logged} == {"m" * 4096 + " 1"}
    _, error = services.serve("it", "log", b'{"level":"loud"}')
    assert error is not None


def answer_of(method: bytes) -> dict[str, Any]:
    """The error for a guest without grants that asks for a service."""
    guest = Component("it", "proxy `it`", CHANNEL, frozenset())
    router = Router([guest, Component("agent")])
    line = b'c{"jsonrpc":"2.0","id":1,"method":"%b"}' % method
    (send,) = [effect for effect in router.receive("it", line) if isinstance(effect, Send)]
    assert send.frame[:1] == b"c"
    answer: dict[str, Any] = json.loads(send.frame[1:])["error"]
    return answer


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("clock", "Method not found: service `clock` is not granted to"),
        ("NAME", "Method not found: the conductor has no service `NAME`"),
    ],
)
def test_refusals_are_worded_as_shown(method: str, text: str) -> None:
    error = answer_of(method.encode())
    assert error["code"] == jsonrpc.METHOD_NOT_FOUND
    assert error["data"] == {"service": method}
    assert error["message"].startswith(text)
    assert text in TEXT


def test_configure_looks_as_shown() -> None:
    params = json.dumps(
        settings.configuration(catalog.resolve("datetime")), separators=(",", ":")
    ).encode()
    line = "c" + jsonrpc.notification("configure", params).decode()
    assert f"    {line}" in TEXT
