"""Agents that do one odd thing each: `py:tests.cli.agents:NAME` in the tests beside."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from conductor.transports.memory import Channel

Json = dict[str, Any]


class Agent:
    """An agent that has answered `initialize` and `session/new` and got its prompt."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.prompt: Json = {}

    def send(self, **members: object) -> None:
        """Sends one message."""
        self.channel.send(json.dumps({"jsonrpc": "2.0", **members}).encode())

    def answer(self, request: Json, result: Json) -> None:
        """Answers a request."""
        self.send(id=request["id"], result=result)

    def update(self, session: str = "s", **update: object) -> None:
        """Sends one update."""
        self.send(method="session/update", params={"sessionId": session, "update": update})

    def say(self, text: str) -> None:
        """Sends one chunk of text."""
        self.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})

    def end(self, reason: str = "end_turn") -> None:
        """Ends the turn."""
        self.answer(self.prompt, {"stopReason": reason})

    async def messages(self) -> AsyncIterator[Json]:
        """The messages as they come, until the client is gone."""
        while (line := await self.channel.receive()) is not None:
            yield json.loads(line)

    async def until_prompt(self, session: Callable[[Json], Json] | None = None) -> None:
        """Serves until the prompt came. `session` makes the answer to `session/new`."""
        async for message in self.messages():
            match message.get("method"):
                case "initialize":
                    result = {"protocolVersion": 1, "agentCapabilities": {}}
                    self.send(id=message["id"], result=result)
                case "session/new" if session is not None:
                    self.send(id=message["id"], **session(message))
                case "session/new":
                    self.answer(message, {"sessionId": "s"})
                case "session/prompt":
                    self.prompt = message
                    return

    async def wait(self, method: str | None = None) -> Json:
        """The next message of this method; the next response for None; {} when none comes."""
        async for message in self.messages():
            if message.get("method") == method:
                return message
        return {}

    async def ask(self, method: str, params: Json) -> Json:
        """The response to a request of ours."""
        self.send(id=f"ask {method}", method=method, params=params)
        return await self.wait()


def log(text: str) -> None:
    """Says something that a test waits for."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


async def silent(channel: Channel) -> None:
    """Never answers anything."""
    async for _ in Agent(channel).messages():
        log("silent: something came")


async def stops(channel: Channel) -> None:
    """Ends the turn with the reason the prompt names."""
    agent = Agent(channel)
    await agent.until_prompt()
    agent.say("so far")
    agent.end(agent.prompt["params"]["prompt"][0]["text"])
    await agent.wait("never")


async def unauthenticated(channel: Channel) -> None:
    """Gives no session to whoever has not logged in."""
    error = {"code": -32000, "message": "Authentication required"}
    await Agent(channel).until_prompt(lambda _: {"error": error})


async def versioned(channel: Channel) -> None:
    """Speaks a version nobody asked for."""
    agent = Agent(channel)
    async for message in agent.messages():
        agent.answer(message, {"protocolVersion": 9})


async def patient(channel: Channel) -> None:
    """Works until it is cancelled."""
    agent = Agent(channel)
    await agent.until_prompt()
    agent.say("working")
    if await agent.wait("session/cancel"):
        log("patient: cancelled")
    agent.end("cancelled")
    await agent.wait("never")


async def stubborn(channel: Channel) -> None:
    """Works on whatever is said."""
    agent = Agent(channel)
    await agent.until_prompt()
    agent.say("working")
    if await agent.wait("session/cancel"):
        log("stubborn: no")
    await agent.wait("never")


async def asking(channel: Channel) -> None:
    """Asks permission with the options that the prompt gives as JSON, and says the answer."""
    agent = Agent(channel)
    await agent.until_prompt()
    params = {
        "sessionId": "s",
        "toolCall": {
            "toolCallId": "c",
            "title": "Erase\x1b[2J everything",
            "rawInput": {"command": "rm -r"},
        },
        "options": json.loads(agent.prompt["params"]["prompt"][0]["text"]),
    }
    answered = await agent.ask("session/request_permission", params)
    agent.say(json.dumps(answered.get("result")))
    agent.end()
    await agent.wait("never")


async def asking_for_nobody(channel: Channel) -> None:
    """Asks permission without a session, and says the answer."""
    agent = Agent(channel)
    await agent.until_prompt()
    params = {"toolCall": {"toolCallId": "c"}, "options": []}
    for given in (params, {"sessionId": None, **params}):
        answered = await agent.ask("session/request_permission", given)
        agent.say(f"{answered['error']['code']} {answered['error']['message']}\n")
    agent.end()
    await agent.wait("never")


async def asking_on(channel: Channel) -> None:
    """Asks permission, and waits for its answer also when the turn is cancelled meanwhile."""
    agent = Agent(channel)
    await agent.until_prompt()
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c", "title": "Go on"}
    agent.say("asking")
    params = {"sessionId": "s", "toolCall": call, "options": options}
    answered = await agent.ask("session/request_permission", params)
    log(f"asking_on: {json.dumps(answered['result'])}")
    agent.end("cancelled")
    await agent.wait("never")


async def withdrawing(channel: Channel) -> None:
    """Asks permission and takes the question back."""
    agent = Agent(channel)
    await agent.until_prompt()
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c", "title": "Go on"}
    params = {"sessionId": "s", "toolCall": call, "options": options}
    agent.send(id=7, method="session/request_permission", params=params)
    agent.send(method="$/cancel_request", params={"requestId": 7})
    answered = await agent.wait()
    agent.say(str(answered["error"]["code"]))
    agent.end()
    await agent.wait("never")


async def escaping(channel: Channel) -> None:
    """Sends text that a terminal would obey, half an emoji, other sessions' text and odd
    updates."""
    agent = Agent(channel)
    await agent.until_prompt()
    agent.update(
        "other", sessionUpdate="agent_message_chunk", content={"type": "text", "text": "!"}
    )
    agent.update(sessionUpdate="agent_message_chunk", content={"type": "image", "mimeType": "i/p"})
    agent.update(sessionUpdate="tool_call", toolCallId="t", title="\x1b]0;owned\x07Tool")
    agent.update(sessionUpdate="tool_call_update", toolCallId="t", status="completed")
    agent.update(sessionUpdate="tool_call_update", toolCallId="t", status="completed")
    agent.update(sessionUpdate="unheard_of", content=3)
    agent.update(sessionUpdate="agent_message_chunk", content=None)
    agent.say("red \x1b[31m and \ud83d half\n")
    agent.end()
    await agent.wait("never")
