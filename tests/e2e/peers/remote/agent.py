"""An agent over stdio, on no SDK: what stands behind conductor's server and the Rust SDK's.

It says what `scenario.py` expects; its words come as JSON on the command line.
"""

from __future__ import annotations

import json
import sys
from typing import Any

WORDS: dict[str, Any] = json.loads(sys.argv[1])


def send(**message: object) -> None:
    """Sends one message, in one write."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def say(session: str, text: str, kind: str = "agent_message_chunk") -> None:
    """Sends one update with a text."""
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": session, "update": update})


def ask(session: str) -> str:
    """Asks for a permission; the option that was chosen."""
    options = [{"optionId": WORDS["option"], "name": "Ja", "kind": "allow_once"}]
    call = {"toolCallId": "call-1", "title": "Löschen"}
    params = {"sessionId": session, "toolCall": call, "options": options}
    send(id="ask-1", method="session/request_permission", params=params)
    answer = json.loads(sys.stdin.readline())
    return str(answer["result"]["outcome"].get("optionId", "nothing"))


def answer_to(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Does what a request asks for; its result."""
    if method == "initialize":
        return {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    if method == "session/new":
        return {"sessionId": WORDS["fresh"]}
    if method == "session/load":
        for kind, text in WORDS["replayed"]:
            say(params["sessionId"], text, kind)
        return {}
    for text in WORDS["before"]:
        say(params["sessionId"], text)
    chosen = ask(params["sessionId"])
    for text in [*WORDS["after"], chosen]:
        say(params["sessionId"], text)
    return {"stopReason": "end_turn"}


def main() -> None:
    """Serves until its input ends."""
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            send(id=message["id"], result=answer_to(message["method"], message["params"]))


if __name__ == "__main__":
    main()
