"""A proxy in a real chain: `conductor agent PROXY AGENT`, seen from the client."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.languages.rows import Row
from benchmarks.languages.ways import text
from benchmarks.mcp.ways import Lines

_AGENT: Final = Path(__file__).parent / "agent.py"


def component(row: Row, folder: Path) -> str:
    """The proxy as it stands on the command line."""
    if row.sandboxed:
        return f"{folder},only=full"
    return shlex.join([sys.executable, str(folder / "proxy.py")])


def trips(
    conductor: Sequence[str], proxy: str | None, state: Path, count: int, size: int
) -> list[float]:
    """Seconds of each of `count` turns of `size` bytes, one after the other, in a fresh chain.

    Without a proxy the chain is client, conductor and agent. Raises
    `benchmarks.mcp.ways.WayError` for a chain that does not work.
    """
    agent = shlex.join([sys.executable, str(_AGENT)])
    command = [*conductor, "agent", *([] if proxy is None else [proxy]), agent]
    params = {
        "sessionId": "s1",
        "prompt": [{"type": "text", "text": text(size).decode().replace('\\"', '"')}],
    }
    took: list[float] = []
    with Lines(command, {"XDG_STATE_HOME": str(state)}) as lines:
        lines.ask(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        lines.ask(1, "session/new", {"cwd": "/", "mcpServers": []})
        warm = max(count // 10, 5)
        for number in range(warm + count):
            begun = time.perf_counter()
            lines.ask(number + 2, "session/prompt", params)
            took.append(time.perf_counter() - begun)
    return took[warm:]
