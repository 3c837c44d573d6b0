"""A proxy program on the Python SDK that puts a mark before each prompt: `--mark MARK`."""

from __future__ import annotations

import sys
from typing import Any

from guest_sdk.python import Proxy, Request

proxy = Proxy("marking", rights={"context": "to mark prompts"}, description="Marks prompts.")
mark = sys.argv[sys.argv.index("--mark") + 1] if "--mark" in sys.argv else ""


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    """Puts the mark before the prompt."""
    blocks = request.params["prompt"]
    request.params["prompt"] = [{"type": "text", "text": mark}, *blocks]
    return await following(request)


@proxy.request("_marking/ask")
async def ask(request: Request, following: Any) -> Any:
    """Asks the client, on behalf of the agent."""
    return await proxy.ask_client("_x/up", **request.params)


if __name__ == "__main__":
    proxy.run()
