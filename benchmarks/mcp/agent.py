"""The agent of the chains that are measured. Standard library only, run by its path.

A prompt ``servers`` is answered with the MCP servers of the session. ``calls COUNT OPEN`` makes the
agent call ``echo`` so often, with so many calls open at a time, by ``mcp/message`` over ACP; it
answers the nanoseconds of each call, and of all. A flag sets what it advertises: ``--acp``,
``--http``, or ``--stdio``, which is nothing.
"""

import json
import sys
import time
from typing import Any

Json = dict[str, Any]
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def send(message: Json) -> None:
    """Writes one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read() -> Json:
    """The next message; ends the program when there is none."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: Json = json.loads(line)
    return message


def calls(server: str, count: int, most_open: int) -> Json:
    """Calls the tool ``count`` times."""
    started: dict[str, int] = {}
    took: list[int] = []
    asked = 0
    begun = time.monotonic_ns()
    while len(took) < count:
        while asked < count and len(started) < most_open:
            number = f"c{asked}"
            params = {"name": "echo", "arguments": {"text": "x" * 100}, "_meta": _META}
            asked += 1
            started[number] = time.monotonic_ns()
            carried: Json = {"serverId": server, "requestId": number}
            carried |= {"method": "tools/call", "params": params}
            send({"id": number, "method": "mcp/message", "params": carried})
        answer = read()
        took.append(time.monotonic_ns() - started.pop(answer["id"]))
        if "content" not in answer["result"]["result"]:
            sys.exit(f"no result: {answer}")
    return {"each": took, "all": time.monotonic_ns() - begun}


def main() -> None:
    """Serves until its input ends."""
    servers: list[Json] = []
    while True:
        message = read()
        if "method" not in message or "id" not in message:
            continue
        result: Json = {}
        match message["method"]:
            case "initialize":
                kinds = {kind: f"--{kind}" in sys.argv for kind in ("acp", "http")}
                held = {"mcpCapabilities": kinds}
                result = {"protocolVersion": 1, "agentCapabilities": held}
            case "session/new":
                servers = message["params"]["mcpServers"]
                result = {"sessionId": "s1"}
            case "session/prompt":
                word, *numbers = message["params"]["prompt"][0]["text"].split()
                told: Any = servers
                if word == "calls":
                    told = calls(servers[0]["serverId"], *map(int, numbers))
                result = {"stopReason": "end_turn", "_meta": {"told": told}}
        send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
