"""An agent that reports what a prompt tells it to: its text is a JSON list of updates.

Version 1 of ACP; standard library only.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def send(message: dict[str, Any]) -> None:
    """Writes one line."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def heard(message: dict[str, Any]) -> None:
    """Takes one message."""
    params = message.get("params", {})
    match message.get("method"):
        case "initialize":
            send({"id": message["id"], "result": {"protocolVersion": 1}})
        case "session/new":
            send({"id": message["id"], "result": {"sessionId": "s"}})
        case "session/prompt":
            for update in json.loads(params["prompt"][-1]["text"]):
                told = {"sessionId": params["sessionId"], "update": update}
                send({"method": "session/update", "params": told})
            send({"id": message["id"], "result": {"stopReason": "end_turn"}})


if __name__ == "__main__":
    for line in sys.stdin:
        heard(json.loads(line))
