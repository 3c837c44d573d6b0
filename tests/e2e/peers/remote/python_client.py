"""The official Python SDK as a client over HTTP or WebSocket: plays a scenario against an address
and writes what it saw as one JSON object. Arguments: ADDRESS PLAN."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

import acp
from acp.connection import StreamDirection, StreamEvent
from acp.http import create_http_stream
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    PermissionOption,
    RequestPermissionResponse,
)
from acp.ws.client import create_websocket_stream


class AllowingClient:
    """The client side of one run; the SDK finds the handlers by name."""

    def on_connect(self, _: acp.Agent) -> None:
        """Nothing to do."""

    async def session_update(self, **_: object) -> None:
        """Takes the update off the wire."""

    async def request_permission(
        self, options: list[PermissionOption], **_: object
    ) -> RequestPermissionResponse:
        chosen = AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return RequestPermissionResponse(outcome=chosen)


async def play(address: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Plays the plan; what was seen."""
    texts: list[str] = []

    def observe(event: StreamEvent) -> None:
        incoming = event.direction is StreamDirection.INCOMING
        if incoming and event.message.get("method") == "session/update":
            texts.append(event.message["params"]["update"]["content"]["text"])

    if address.startswith("ws"):
        stream = await create_websocket_stream(address)
    else:
        stream = create_http_stream(address)
    client = cast("acp.Client", AllowingClient())
    agent = acp.connect_to_agent(client, stream, observers=[observe])
    await agent.initialize(protocol_version=1, client_capabilities=ClientCapabilities())
    session = plan["load"]
    if session:
        await agent.load_session(cwd="/", session_id=session, mcp_servers=[])
    else:
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
    replayed = list(texts)
    texts.clear()
    answer = await agent.prompt(session_id=session, prompt=[acp.text_block(plan["prompt"])])
    seen = {"replayed": replayed, "texts": list(texts), "stop": answer.stop_reason}
    await stream.close()
    return seen


def main() -> None:
    """Plays what the command line says."""
    address, plan = sys.argv[1:]
    try:
        seen = asyncio.run(play(address, json.loads(plan)))
    except Exception as error:
        seen = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
