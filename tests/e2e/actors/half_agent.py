"""An agent that says half an emoji wherever a text can stand. Standard library only."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

HALF: Final = "half \ud83d"
SESSION: Final = "s\ud83d"
OLD: Final = "old \ud83d"


def main() -> None:
    """Serves standard input until it ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked or "method" not in asked:
            continue
        if asked["method"] == "session/prompt":
            for said in _turn(asked["params"]["prompt"][-1]["text"]):
                _say(method=said[0], params=said[1])
            if "fail" in line:
                _say(id=asked["id"], error={"code": -32050, "message": HALF, "data": {HALF: HALF}})
                continue
        if asked["method"] == "session/load":
            text = {"type": "text", "text": HALF}
            update = {"sessionUpdate": "user_message_chunk", "content": text}
            session = asked["params"]["sessionId"]
            _say(method="session/update", params={"sessionId": session, "update": update})
        results = {
            "initialize": {
                "protocolVersion": 1,
                "agentInfo": {"name": HALF, "version": "1"},
                "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"list": {}}},
            },
            "session/new": {"sessionId": SESSION},
            "session/load": {},
            "session/list": {"sessions": [{"sessionId": OLD, "cwd": "/", "title": HALF}]},
            "session/prompt": {"stopReason": "end_turn", "_meta": {HALF: HALF}},
        }
        _say(id=asked["id"], result=results[asked["method"]])


def _turn(heard: str) -> list[tuple[str, dict[str, Any]]]:
    text = {"type": "text", "text": HALF}
    diff = {"type": "diff", "path": f"/{HALF}", "oldText": HALF, "newText": "\udfff"}
    tool = {"toolCallId": "t\udc00", "title": HALF, "kind": "read", "status": "pending"}
    updates: list[dict[str, Any]] = [
        {"sessionUpdate": "agent_message_chunk", "content": text},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "\ude00"}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": heard}},
        {"sessionUpdate": "agent_thought_chunk", "content": text},
        {"sessionUpdate": "tool_call", **tool, "rawInput": {HALF: HALF}, "content": [diff]},
        {"sessionUpdate": "tool_call_update", "toolCallId": "t\udc00", "status": "completed"},
        {"sessionUpdate": "plan", "entries": [{"content": HALF, "status": "pending"}]},
        {"sessionUpdate": "session_info_update", "title": HALF},
        {"sessionUpdate": HALF},
    ]
    said = [("session/update", {"sessionId": SESSION, "update": update}) for update in updates]
    return [*said, (f"_x/{HALF}", {HALF: [HALF]})]


def _say(**members: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)


if __name__ == "__main__":
    main()
