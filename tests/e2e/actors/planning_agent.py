"""An agent that finds a way in an editor as it is asked to: `by plan`, or `by tool`.

`call SERVER TOOL {…}` calls a tool of an MCP server. It writes what each of its sessions was
prompted with, and which were closed, to the file that its argument names.
"""

import json
import sys
from pathlib import Path
from typing import Any

from guest_sdk.python.agent import Agent

agent = Agent("planning")
prompted: dict[str, list[str]] = {}
closed: list[str] = []
PLAN = '```plan\n[{"operation": "find-definitions", "arguments": {"symbol": "f"}}]\n```'


def note() -> None:
    """Writes what is known of the sessions."""
    Path(sys.argv[1]).write_text(json.dumps([prompted, closed]), "utf-8")


@agent.prompt
async def answer(turn: Any) -> None:
    """Plays one turn."""
    prompted.setdefault(turn.session.id, []).append(turn.text)
    note()
    if turn.text.startswith("call "):
        _, name, tool, arguments = turn.text.split(" ", 3)
        await turn.say(await called(turn, name, tool, json.loads(arguments)))
    elif "by tool" in turn.text:
        found = await called(turn, "editor-primitives", "find-definitions", {"symbol": "f"})
        await turn.say(f"It is {found}.")
    elif "by plan" in turn.text:
        await turn.say(f"So:\n{PLAN}\n")
    else:
        found = turn.text.split("1. find-definitions: ")[1].split("\n")[0]
        await turn.say(f"It is {found}.")


async def called(turn: Any, name: str, tool: str, arguments: Any) -> str:
    """The text of a tool's result."""
    async with turn.session.mcp(name) as server:
        result = await server.call(tool, **arguments)
    return "".join(str(one.get("text", "")) for one in result["content"])


@agent.close_session
async def over(session: Any) -> None:
    """Notes the end of the session."""
    closed.append(session.id)
    note()


if __name__ == "__main__":
    agent.run()
