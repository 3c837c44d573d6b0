"""An agent with logins by terminal, as `claude-agent-acp` has them. Standard library only.

With `--cli` it is the login: it shows what it was started with, and exits with the code in `CODE`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

METHOD = {"id": "login", "name": "Log in", "type": "terminal", "args": ["--cli", "auth", "login"]}


def _answer(frame: dict[str, Any]) -> dict[str, Any]:
    if frame["method"] != "initialize":
        data = {"authMethods": [METHOD]}
        return {"error": {"code": -32000, "message": "Authentication required", "data": data}}
    held = frame["params"].get("clientCapabilities", {})
    can = held.get("auth", {}).get("terminal") is True
    return {"result": {"protocolVersion": 1, "authMethods": [METHOD] if can else []}}


def main() -> int:
    """The agent, or its login; the exit code."""
    if "--cli" in sys.argv:
        shown = {
            "args": sys.argv[1:],
            "terminal": [os.isatty(fd) for fd in (0, 1, 2)],
            "variables": [os.environ.get(name) for name in ("OF_METHOD", "OF_COMPONENT")],
        }
        print(json.dumps(shown), flush=True)
        return int(os.environ.get("CODE", "0"))
    for line in sys.stdin:
        frame = json.loads(line)
        if "id" in frame:
            answer = {"jsonrpc": "2.0", "id": frame["id"], **_answer(frame)}
            print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
