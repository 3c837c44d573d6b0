"""The bundled proxy mcp-attach: its transcripts, and through the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.components.transcripts import read_transcript
from tests.places import COMPONENTS

FOLDER = COMPONENTS / "mcp-attach"
TRANSCRIPTS = sorted((FOLDER / "test-scenarios").glob("*.txt"))


def converse(given: bytes, **env: str) -> bytes:
    """The output of the proxy, from start to end, for these lines."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "proxy.py")],
        input=given,
        capture_output=True,
        env={**os.environ, **env},
        check=True,
    )
    assert done.stderr == b""
    return done.stdout


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    deliveries = read_transcript(path)
    said = converse(b"".join(each.given for each in deliveries))
    wanted = b"".join(each.expected for each in deliveries)
    # The proxy's words to a person are written as JSON writes them by default.
    assert [_plain(line) for line in said.splitlines()] == wanted.splitlines()


def _plain(line: bytes) -> bytes:
    if not line.startswith(b"c"):
        return line
    text = json.dumps(json.loads(line[1:]), ensure_ascii=False, separators=(",", ":"))
    return b"c" + text.encode()


def test_variables_and_programs_are_looked_up_where_it_runs() -> None:
    config = {
        "servers": {"s": {"command": "sh", "args": ["${A}", "${B:-b}"], "env": {"T": "${A}!"}}}
    }
    configure = {"jsonrpc": "2.0", "method": "configure", "params": {"config": config}}
    setup = b'p{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"mcpServers":[]}}\n'
    said = converse(b"c" + json.dumps(configure).encode() + b"\n" + setup, A="a")
    (entry,) = json.loads(said[1:])["params"]["mcpServers"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"] == ["a", "b"]
    assert entry["env"] == [{"name": "T", "value": "a!"}]


def test_a_large_prompt_and_odd_bytes_pass_as_they_are() -> None:
    large = b'p{"method":"session/prompt","id":1,"params":{"x":"' + b"y" * 5_000_000 + b'"}}\n'
    odd = b'p{"method":"session/new","id":2,"params":{"x":"\xff","mcpServers":[]}}\n'
    assert converse(large) == b"s" + large[1:]
    assert converse(odd).splitlines()[-1] == b"s" + odd[1:-1]
