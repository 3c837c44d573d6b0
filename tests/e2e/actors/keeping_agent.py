"""An agent that keeps the prompts of its sessions in a file, as it gets them, and says them again.

    python -m tests.e2e.actors.keeping_agent FILE [JOIN]

A load says each block of a prompt by itself, or all of them joined by a text. The title of a
session is the beginning of its first prompt. Standard library only; version 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

FILE: Final = Path(sys.argv[1])
JOIN: Final = sys.argv[2] if len(sys.argv) > 2 else None
LONGEST: Final = 14
"""Characters of a title."""


def send(**message: Any) -> None:
    """Writes one line."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(session: str, kind: str, **members: Any) -> None:
    """Says something in a session."""
    told = {"sessionUpdate": kind, **members}
    send(method="session/update", params={"sessionId": session, "update": told})


def say(session: str, kind: str, text: str) -> None:
    """Says words."""
    update(session, kind, content={"type": "text", "text": text})


def title(prompts: list[list[str]]) -> str:
    """The title of a session."""
    return " ".join(prompts[0])[:LONGEST] + "…"


def main() -> None:
    """Serves standard input."""
    sessions: dict[str, list[list[str]]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for line in sys.stdin:
        message: Json = json.loads(line)
        id_, params = message.get("id"), message.get("params", {})
        session = params.get("sessionId", f"s{len(sessions)}")
        match message.get("method"):
            case "initialize":
                able = {"loadSession": True, "sessionCapabilities": {"list": {}}}
                send(id=id_, result={"protocolVersion": 1, "agentCapabilities": able})
            case "session/new":
                sessions[session] = []
                send(id=id_, result={"sessionId": session})
            case "session/prompt":
                sessions[session].append([one["text"] for one in params["prompt"]])
                FILE.write_text(json.dumps(sessions))
                say(session, "agent_message_chunk", "ok")
                update(session, "session_info_update", title=title(sessions[session]))
                send(id=id_, result={"stopReason": "end_turn"})
            case "session/load":
                for texts in sessions[session]:
                    for text in texts if JOIN is None else [JOIN.join(texts)]:
                        say(session, "user_message_chunk", text)
                    say(session, "agent_message_chunk", "ok")
                send(id=id_, result={})
            case "session/list":
                listed = [
                    {"sessionId": one, "cwd": "/", "title": title(prompts)}
                    for one, prompts in sessions.items()
                ]
                send(id=id_, result={"sessions": listed})
            case _ if id_ is not None:
                send(id=id_, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
