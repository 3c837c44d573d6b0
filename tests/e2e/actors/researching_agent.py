"""An agent that says what it was prompted with, and does two things besides.

`call SERVER TOOL {…}` calls a tool of an MCP server. A prompt whose last block begins with `hold`
is answered once somebody has written to the pipe that its argument names; other sessions go on
meanwhile.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from guest_sdk.python.agent import Agent

agent = Agent("researching")


@agent.prompt
async def answer(turn: Any) -> None:
    """Plays one turn."""
    word, _, rest = turn.prompt[-1].get("text", "").partition(" ")
    if word == "call":
        name, tool, arguments = rest.split(" ", 2)
        async with turn.session.mcp(name) as server:
            result = await server.call(tool, **json.loads(arguments))
        await turn.say("".join(one.get("text", "") for one in result["content"]))
    elif word == "hold":
        found = await asyncio.to_thread(Path(sys.argv[1]).read_text, "utf-8")
        await turn.say(f"{rest}: {found}")
    else:
        await turn.say(turn.text)


if __name__ == "__main__":
    agent.run()
