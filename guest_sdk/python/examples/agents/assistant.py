"""An agent with a model: it answers, remembers, and uses the editor and MCP servers.

conductor exec tools-demo "python assistant.py" -p "tools"

The model is a function here. It may be a coroutine that asks a service: handlers are asyncio's.
"""

import json
from dataclasses import dataclass, field

from guest_sdk.python.agent import Agent, McpError, Select, UnknownSession


@dataclass
class Memory:
    """The kept state of a session."""

    said: list = field(default_factory=list)


agent = Agent(
    "assistant",
    modes={"ask": "Ask before acting", "code": "Act"},
    options=[Select("tone", "Tone", {"plain": "Plain", "loud": "Loud"})],
    session=Memory,
)
shelf: dict = {}
"""Sessions that can be loaded, by id; a real agent has them in files."""


def model(prompt, tone):
    """Stands for a language model."""
    answer = f"You said: {prompt}"
    return answer.upper() if tone == "loud" else answer


# -- sessions --------------------------------------------------------------------------------------


@agent.new_session
def opened(session):
    shelf[session.id] = session


@agent.load_session
async def load(session):
    before = shelf.get(session.id)
    if before is None:
        raise UnknownSession(session.id)
    session.state = before.state
    for prompt, answer in session.state.said if session.replays else ():
        await session.show_user(prompt)
        await session.say(answer)
    shelf[session.id] = session


@agent.list_sessions
def sessions(cwd):
    found = [one for one in shelf.values() if cwd in (None, one.cwd)]
    return [{"sessionId": one.id, "cwd": one.cwd} for one in found]


# -- prompts ---------------------------------------------------------------------------------------


@agent.prompt
async def answer(turn):
    word, _, rest = turn.prompt[-1].get("text", "").partition(" ")  # proxies may put more in front
    if word in COMMANDS:
        await COMMANDS[word](turn, rest)
        return
    said = model(turn.text, turn.session.options["tone"])
    turn.state.said.append((turn.text, said))
    await turn.say(said)


async def client(turn, _):
    """The capabilities of the client."""
    await turn.say(json.dumps(turn.client, sort_keys=True))


async def read(turn, path):
    """Reads a file by the editor."""
    async with turn.tool_call(f"Read {path}", kind="read", locations=[{"path": path}]) as call:
        text = await turn.read(path)
        await call.update(content=text)
    await turn.say(text)


async def write(turn, rest):
    """Writes a file, if the user allows it."""
    path, _, text = rest.partition(" ")
    async with turn.tool_call(f"Write {path}", kind="edit") as call:
        if turn.session.mode == "ask" and not await turn.ask(f"Write {path}?", call=call):
            await call.update(status="failed")
            await turn.say("not allowed")
            return
        await turn.write(path, text)
    await turn.say("written")


async def run(turn, command):
    """Runs a command in the editor."""
    async with turn.terminal(*command.split()) as terminal:
        ended = await terminal.wait()
        await turn.say(f"{await terminal.output()}exit code {ended.code}")


async def plan(turn, steps):
    """Shows a plan."""
    await turn.plan(steps.split())
    await turn.say("planned")


async def tools(turn, _):
    """Lists the tools of all MCP servers."""
    for entry in turn.session.mcp_servers:
        try:
            async with turn.session.mcp(entry["name"]) as server:
                names = ", ".join(one["name"] for one in await server.tools())
                await turn.say(f"{server.name}: {names}\n")
        except McpError as error:
            await turn.say(f"{error}\n")


async def call(turn, rest):
    """Calls a tool: `call SERVER TOOL {…}`."""
    name, tool, arguments = rest.split(" ", 2)
    async with turn.session.mcp(name) as server:
        result = await server.call(tool, **json.loads(arguments))
    await turn.say("".join(one.get("text", "") for one in result["content"]))


COMMANDS = {one.__name__: one for one in (client, read, write, run, plan, tools, call)}


if __name__ == "__main__":
    agent.run()
