"""The end of the chains that are measured: tells each prompt's last block, then ends the turn.

Standard library only, run by its path.
"""

import json
import sys
from typing import Any


def main() -> None:
    """Serves until its input ends."""
    for line in sys.stdin.buffer:
        message: dict[str, Any] = json.loads(line)
        if "method" not in message or "id" not in message:
            continue
        result: dict[str, Any] = {}
        match message["method"]:
            case "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {}}
            case "session/new":
                result = {"sessionId": "s1"}
            case "session/prompt":
                content = message["params"]["prompt"][-1]
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                params = {"sessionId": "s1", "update": update}
                send({"method": "session/update", "params": params})
                result = {"stopReason": "end_turn"}
        send({"id": message["id"], "result": result})
        sys.stdout.buffer.flush()


def send(message: dict[str, Any]) -> None:
    """Writes one message; they leave when the turn is over."""
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


if __name__ == "__main__":
    main()
