"""An agent on the official Python SDK, run as a script. Its prompts are commands.

The last text block of the prompt is one of

- ``count N``: N updates ``"0"`` … ``"N-1"``, sent as fast as the SDK can;
- ``permission``: asks the client's permission, then tells the outcome;
- ``wait``: says ``waiting``, then ends the turn only when it is cancelled;
- ``blocks``: the prompt's blocks, as JSON;
- ``read PATH``: the file's text, asked of the client;
- ``fail``: answers the prompt with an error that has data.

``ts/agent.mjs`` is the same agent on the TypeScript SDK.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import acp
from acp.schema import (
    AllowedOutcome,
    Implementation,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    TextContentBlock,
    ToolCallUpdate,
)

OPTIONS = [
    PermissionOption(option_id="always", name="Always", kind="allow_always"),
    PermissionOption(option_id="once", name="Once", kind="allow_once"),
    PermissionOption(option_id="never", name="No", kind="reject_once"),
]


class CommandAgent:
    """The agent side; the SDK finds the handlers by name."""

    def __init__(self) -> None:
        self._client: acp.Client | None = None
        self._cancelled = asyncio.Event()

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: object) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_info=Implementation(name="python-sdk-agent", version="1"),
        )

    async def new_session(self, **_: object) -> NewSessionResponse:
        return NewSessionResponse(session_id="python-1")

    async def cancel(self, **_: object) -> None:
        self._cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: object) -> PromptResponse:
        texts = [block.text for block in prompt if isinstance(block, TextContentBlock)]
        command, _sep, argument = texts[-1].partition(" ")
        if command == "count":
            for n in range(int(argument)):
                await self._say(session_id, str(n))
        elif command == "permission":
            await self._say(session_id, await self._permission(session_id))
        elif command == "wait":
            await self._say(session_id, "waiting")
            await self._cancelled.wait()
            return PromptResponse(stop_reason="cancelled")
        elif command == "blocks":
            blocks = [block.model_dump(mode="json", exclude_none=True) for block in prompt]
            await self._say(session_id, json.dumps(blocks))
        elif command == "read":
            answer = await self._peer().read_text_file(session_id=session_id, path=argument)
            await self._say(session_id, answer.content)
        else:
            raise acp.RequestError(-32042, "no such command", {"command": command})
        return PromptResponse(stop_reason="end_turn")

    async def _permission(self, session_id: str) -> str:
        answer = await self._peer().request_permission(
            session_id=session_id,
            tool_call=ToolCallUpdate(tool_call_id="call-1", title="Launch"),
            options=OPTIONS,
        )
        if isinstance(answer.outcome, AllowedOutcome):
            return f"selected {answer.outcome.option_id}"
        return "cancelled"

    async def _say(self, session_id: str, text: str) -> None:
        await self._peer().session_update(session_id, acp.update_agent_message_text(text))

    def _peer(self) -> acp.Client:
        if self._client is None:
            raise RuntimeError("the SDK has not connected this agent yet")
        return self._client


if __name__ == "__main__":
    asyncio.run(acp.run_agent(cast("acp.Agent", CommandAgent())))
