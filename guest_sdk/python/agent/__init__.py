"""The Python SDK for agents: one file answers prompts, in version 1 and 2 of ACP.

    from guest_sdk.python.agent import Agent

    agent = Agent("parrot")

    @agent.prompt
    async def answer(turn):
        await turn.say(f"You said: {turn.text}")

    if __name__ == "__main__":
        agent.run()

It runs as a program (`conductor exec "python parrot.py" -p hello`), in the conductor's process
(`py:parrot:agent`), and in a test (`AgentPlayground`), unchanged. Handlers are coroutines of
asyncio. `guest_sdk/python/agent/README.md` is the guide.
"""

from asyncio import CancelledError as Cancelled

from ..content import audio, embedded, image, resource_link
from ..errors import Answered, ProxyError
from ..messages import text
from ..playground import played
from .declared import Agent
from .options import Select, Toggle
from .playground import AgentPlayground, Heard
from .servers import McpError, McpServer
from .sessions import Session, UnknownSession
from .terminals import Terminal
from .turns import NotOffered, Permission, ToolCall, Turn

AgentError = ProxyError
"""A JSON-RPC error: raised in a handler, it answers the request."""

__all__ = [
    "Agent",
    "AgentError",
    "AgentPlayground",
    "Answered",
    "Cancelled",
    "Heard",
    "McpError",
    "McpServer",
    "NotOffered",
    "Permission",
    "Select",
    "Session",
    "Terminal",
    "Toggle",
    "ToolCall",
    "Turn",
    "UnknownSession",
    "audio",
    "embedded",
    "image",
    "played",
    "resource_link",
    "text",
]
