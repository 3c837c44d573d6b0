"""An agent that reports what a prompt tells it to: its text is a JSON list of updates.

`{"ask": METHOD, …}` among these is a request with the other members; its answer is said as a text.
Its conversations have no turns. Version 1 of ACP; standard library only.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def send(message: dict[str, Any]) -> None:
    """Writes one line."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def said(text: str) -> dict[str, Any]:
    """An update that says something."""
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "content": content}


def heard(message: dict[str, Any]) -> None:
    """Takes one message."""
    params = message.get("params", {})
    match message.get("method"):
        case "initialize":
            send({"id": message["id"], "result": {"protocolVersion": 1}})
        case "session/new":
            send({"id": message["id"], "result": {"sessionId": "s"}})
        case "_conversation/summarize":
            send({"id": message["id"], "result": {"conversation": {"turns": []}}})
        case "session/prompt":
            for told in json.loads(params["prompt"][-1]["text"]):
                session = {"sessionId": params["sessionId"]}
                method = told.pop("ask", None)
                if method:
                    send({"id": "asked", "method": method, "params": {**session, **told}})
                update = said(sys.stdin.readline()) if method else told
                send({"method": "session/update", "params": {**session, "update": update}})
            send({"id": message["id"], "result": {"stopReason": "end_turn"}})


if __name__ == "__main__":
    for line in sys.stdin:
        heard(json.loads(line))
