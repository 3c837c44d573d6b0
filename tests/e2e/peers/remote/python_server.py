"""An agent on the official Python SDK, behind the SDK's own server for HTTP and WebSocket.

Writes its address on one line. It says what `scenario.py` expects.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any, cast

import acp
import uvicorn
from acp.http.asgi import create_asgi_app
from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    AllowedOutcome,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    TextContentBlock,
    ToolCallUpdate,
    UserMessageChunk,
)

WORDS: dict[str, Any] = json.loads(sys.argv[1])
CHUNKS = {"agent_message_chunk": AgentMessageChunk, "user_message_chunk": UserMessageChunk}


class SayingAgent:
    """The agent of one connection; the SDK finds the handlers by name."""

    def __init__(self, client: acp.Client) -> None:
        self._client = client

    async def initialize(self, **_: object) -> InitializeResponse:
        can = AgentCapabilities(load_session=True)
        return InitializeResponse(protocol_version=1, agent_capabilities=can)

    async def new_session(self, **_: object) -> NewSessionResponse:
        return NewSessionResponse(session_id=WORDS["fresh"])

    async def load_session(self, session_id: str, **_: object) -> LoadSessionResponse:
        for kind, text in WORDS["replayed"]:
            await self._say(session_id, text, kind)
        return LoadSessionResponse()

    async def prompt(self, session_id: str, **_: object) -> PromptResponse:
        for text in WORDS["before"]:
            await self._say(session_id, text)
        answer = await self._client.request_permission(
            session_id=session_id,
            tool_call=ToolCallUpdate(tool_call_id="call-1", title="Löschen"),
            options=[PermissionOption(option_id=WORDS["option"], name="Ja", kind="allow_once")],
        )
        for text in WORDS["after"]:
            await self._say(session_id, text)
        chosen = answer.outcome
        await self._say(session_id, chosen.option_id if isinstance(chosen, AllowedOutcome) else "")
        return PromptResponse(stop_reason="end_turn")

    async def _say(self, session_id: str, text: str, kind: str = "agent_message_chunk") -> None:
        content = TextContentBlock(type="text", text=text)
        await self._client.session_update(
            session_id,
            CHUNKS[kind](session_update=kind, content=content),
        )


def main() -> None:
    """Serves until it is killed."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_asgi_app(lambda client: cast("acp.Agent", SayingAgent(cast("acp.Client", client))))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/acp", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    server.run(sockets=[listening])


if __name__ == "__main__":
    main()
