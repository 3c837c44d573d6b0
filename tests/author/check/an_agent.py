"""An agent of ACP version 1 in a few lines: `an_agent.py [FAULT]`; a fault is a rule it breaks.
`2` and a JSON text is one of version 2 whose turns end with such members."""

import json
import sys
import time
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
SECOND = json.loads(FAULT[1:]) if FAULT.startswith("2") else None
SESSIONS: set[str] = set()
TURNS: list[str] = []


def say(**members: object) -> None:
    """Writes a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}) + "\n")
    sys.stdout.flush()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | int:
    """The result of a request, or a code of an error."""
    if method == "initialize":
        version = 2 if SECOND is not None else 99 if FAULT == "version" else 1
        return {"protocolVersion": version, "agentCapabilities": {}}
    if method == "session/new":
        if not isinstance(params.get("cwd"), str) and FAULT != "params":
            return -32602
        session = "one" if FAULT == "one session" else f"s{len(SESSIONS)}"
        SESSIONS.add(session)
        return {"sessionId": session}
    if method == "session/prompt":
        session = str(params.get("sessionId"))
        if session not in SESSIONS and FAULT != "any session":
            return -32602
        TURNS.append(session)
        if (FAULT == "one turn" and len(TURNS) > 1) or (
            FAULT == "counts" and "Count" in str(params)
        ):
            return -32603
        told = "another" if FAULT == "mixes" else session
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "ok"}}
        if FAULT != "silent":
            say(method="session/update", params={"sessionId": told, "update": chunk})
        if SECOND is not None:
            for state in ({"state": "running"}, {"state": "idle", **SECOND}):
                update = {"sessionUpdate": "state_update", **state}
                say(method="session/update", params={"sessionId": session, "update": update})
            return {}
        return {"stopReason": "because" if FAULT == "reason" else "end_turn"}
    if method in ("session/load", "session/set_mode") and FAULT == "takes all":
        return {}
    return {} if FAULT == "knows all" else -32601


def main() -> None:
    """Serves until its input ends."""
    if FAULT == "banner":
        sys.stdout.write("welcome\n")
    for line in sys.stdin.buffer:
        if FAULT == "tight" and line != line.strip() + b"\n":
            sys.exit(1)
        try:
            message = json.loads(line)
        except ValueError:
            if FAULT == "fragile":
                raise
            continue
        if not isinstance(message, dict) or "method" not in message:
            if FAULT == "strays" and isinstance(message, dict):
                sys.exit(1)
            continue
        if "id" not in message:
            if FAULT == "answers tellings":
                say(id=None, result={})
            if FAULT == "cancels" and message["method"] == "session/cancel":
                sys.exit(1)
            continue
        number = str(message["id"]) if FAULT == "spells ids" else message["id"]
        found = answer(message["method"], message.get("params") or {})
        for _ in range(2 if FAULT == "twice" else 1):
            if isinstance(found, int):
                say(id=number, error={"code": found, "message": "no"})
            else:
                say(id=number, result=found)
    while FAULT == "stays":
        time.sleep(1)
    sys.exit(3 if FAULT == "ends badly" else 0)


main()
