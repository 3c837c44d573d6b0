"""A trace of a real chain, with all that a trace can show. Made once for all tests of a process."""

import asyncio
import functools
import tempfile
from pathlib import Path
from typing import Final

import conductor

PROMPTS: Final = (
    "what day is it? my key is ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "/permission Edit login_test.py",
    '/tool add {"a":2,"b":3}',
    "/plan",
    "/toolcall read auth.py",
    "<img src=x onerror=alert(1)> \x1b[31m red",
    "/usage",
)


@functools.cache
def trace() -> Path:
    """The file of the trace."""
    folder = Path(tempfile.mkdtemp(prefix="trace-"))
    asyncio.run(_record(folder / "trace.jsons", folder))
    return folder / "trace.jsons"


async def _record(path: Path, folder: Path) -> None:
    async with conductor.open(
        "datetime",
        "redact",
        "tools-demo",
        "demo",
        cwd=folder,
        permissions="allow-once",
        trace=str(path),
    ) as chain:
        for prompt in PROMPTS:
            await chain.prompt(prompt)
        other = await chain.session()
        await other.prompt("a second session")
