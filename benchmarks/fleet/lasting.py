"""An agent of which every process knows every session: this lets a chain go on after a kill."""

import json
import sys
from typing import Any

_ANSWERS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}},
    "session/new": {"sessionId": "lasting"},
    "session/load": {},
    "session/prompt": {"stopReason": "end_turn"},
}


def main() -> None:
    """Answers the methods that it knows until its input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = _ANSWERS.get(message["method"], {})
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
