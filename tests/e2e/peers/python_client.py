"""Drives a conductor with the official Python SDK as the client."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import acp
from acp.connection import StreamDirection, StreamEvent
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TextContentBlock,
)

from tests.e2e.peers.plan import Frame, Json, Plan, Transcript, transcript_of
from tests.places import DEADLINE

if TYPE_CHECKING:
    from acp.client import ClientSideConnection

LINE_LIMIT = 50 * 1024 * 1024
"""Bytes; the SDK's own default for agents, which it does not apply to spawned ones."""


class PlannedClient:
    """The client side of one run; the SDK finds the handlers by name."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._agent: acp.Agent | None = None

    def on_connect(self, conn: acp.Agent) -> None:
        self._agent = conn

    async def session_update(self, session_id: str, update: object, **_: object) -> None:
        if not isinstance(update, AgentMessageChunk) or self._plan.cancel_on is None:
            return
        content = update.content
        if isinstance(content, TextContentBlock) and self._plan.cancel_on in content.text:
            if self._agent is None:
                raise RuntimeError("the SDK has not connected this client yet")
            await self._agent.cancel(session_id=session_id)

    async def request_permission(
        self, options: list[PermissionOption], **_: object
    ) -> RequestPermissionResponse:
        for option in options:
            if option.kind == self._plan.permission:
                chosen = AllowedOutcome(outcome="selected", option_id=option.option_id)
                return RequestPermissionResponse(outcome=chosen)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def read_text_file(self, path: str, **_: object) -> ReadTextFileResponse:
        return ReadTextFileResponse(content=self._plan.files[path])

    async def ext_notification(self, method: str, params: Json) -> None:
        """Agents announce things of their own (``_auth/status_update``); nothing to do."""


def run_python_client(plan: Plan) -> Transcript:
    """Do what ``plan`` says and return what was seen.

    Raises `TimeoutError` after `DEADLINE` seconds, `ConnectionError` when the command goes
    away in the middle. An error that answers a prompt is part of the transcript instead.
    """
    return asyncio.run(_run(plan))


async def _run(plan: Plan) -> Transcript:
    frames: list[Frame] = []

    def observe(event: StreamEvent) -> None:
        incoming = event.direction is StreamDirection.INCOMING
        frames.append(Frame("in" if incoming else "out", event.message))

    async with asyncio.timeout(DEADLINE):
        async with acp.spawn_agent_process(
            cast("acp.Client", PlannedClient(plan)),
            *plan.command,
            env=plan.env,
            cwd=plan.cwd,
            transport_kwargs={"stderr": None, "limit": LINE_LIMIT, "shutdown_timeout": DEADLINE},
            observers=[observe],
        ) as (connection, process):
            initialized = await connection.initialize(
                protocol_version=1,
                client_capabilities=ClientCapabilities(
                    fs=FileSystemCapabilities(read_text_file=True)
                ),
                client_info=Implementation(name="python-sdk-client", version="1"),
            )
            session = await connection.new_session(cwd=str(plan.cwd), mcp_servers=[])
            for prompt in plan.prompts:
                await _prompt(connection, session.session_id, prompt)
        return transcript_of(
            initialized.model_dump(mode="json", by_alias=True),
            session.session_id,
            tuple(frames),
            process.returncode,
        )


async def _prompt(connection: ClientSideConnection, session_id: str, prompt: str) -> None:
    """Send one prompt. Its outcome is read off the wire, where an error is an outcome too."""
    with suppress(acp.RequestError):
        await connection.prompt(session_id=session_id, prompt=[acp.text_block(prompt)])
