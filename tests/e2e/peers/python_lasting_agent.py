"""An agent on the official Python SDK whose sessions outlast its process, run as a script.

    python python_lasting_agent.py FOLDER

It keeps sessions in FOLDER, and its process id in `FOLDER/pid`. It says each prompt back; at `hang`
it waits until it is cancelled, at `history` it says what was said in the session.
``ts/lasting_agent.mjs`` is the same agent on the TypeScript SDK.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, cast

import acp
from acp.schema import (
    AgentCapabilities,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
)

HOME = Path(sys.argv[1])


def create() -> str:
    """A session without a text; its id."""
    session = f"lasting-{len(list(HOME.glob('lasting-*'))) + 1}"
    (HOME / session).touch()
    return session


class LastingAgent:
    """The agent side; the SDK finds the handlers by name."""

    def __init__(self) -> None:
        self._client: acp.Client | None = None
        self._cancelled = asyncio.Event()
        self._open: set[str] = set()

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: object) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="python-sdk-agent", version="1"),
        )

    async def new_session(self, **_: object) -> NewSessionResponse:
        session = create()
        self._open.add(session)
        return NewSessionResponse(session_id=session)

    async def load_session(self, session_id: str, **_: object) -> LoadSessionResponse:
        for text in self._said(session_id):
            await self._say(session_id, text)
        self._open.add(session_id)
        return LoadSessionResponse()

    async def cancel(self, **_: object) -> None:
        self._cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: object) -> PromptResponse:
        if session_id not in self._open:
            raise acp.RequestError(-32002, "no such session")
        text = prompt[-1].text
        if text == "history":
            await self._say(session_id, "|".join(self._said(session_id)))
            return PromptResponse(stop_reason="end_turn")
        with (HOME / session_id).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
        await self._say(session_id, text)
        if text == "hang":
            await self._cancelled.wait()
            return PromptResponse(stop_reason="cancelled")
        return PromptResponse(stop_reason="end_turn")

    @staticmethod
    def _said(session_id: str) -> list[str]:
        return (HOME / session_id).read_text(encoding="utf-8").splitlines()

    async def _say(self, session_id: str, text: str) -> None:
        assert self._client is not None
        await self._client.session_update(session_id, acp.update_agent_message_text(text))


if __name__ == "__main__":
    (HOME / "pid").write_text(str(os.getpid()), encoding="utf-8")
    asyncio.run(acp.run_agent(cast("acp.Agent", LastingAgent())))
