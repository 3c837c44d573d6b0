"""An MCP server as a program, on its standard input and output. Standard library only.

    python -m tests.e2e.actors.mcp_server OFFERS

OFFERS has the result of `tools/list`, as it is whenever that is asked for. The tool `where` says
its folder and the variable WHERE, `asks` what its client answers to `roots/list`, `slow` answers
once it is cancelled, `die` ends the server, `flood` sends more than one client should.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def said(text: str) -> Json:
    return {"result": {"content": [{"type": "text", "text": text}]}}


def call(id_: object, name: str, params: Json) -> None:
    match name:
        case "where":
            send({"id": id_, **said(f"{os.getcwd()} {os.environ.get('WHERE')}")})
        case "asks":
            send({"id": 7, "method": "roots/list"})
            answered = json.loads(sys.stdin.readline())
            send({"id": id_, **said(json.dumps(answered.get("result", answered.get("error"))))})
        case "die":
            os._exit(3)
        case "token":
            send({"method": "notifications/message", "params": {"level": "info", "data": "x"}})
            send({"id": 99, "result": {}})  # an answer to nothing
            sys.stdout.write("no JSON\n")
            send({"id": id_, **said(json.dumps(params.get("arguments")))})
        case _:
            send({"id": id_, **said(f"{name} is done")})


def main() -> None:
    offers = Path(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        method, id_, params = message.get("method"), message.get("id"), message.get("params") or {}
        if id_ is None or method is None:
            continue
        match method:
            case "initialize":
                about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
                version = params["protocolVersion"]
                send({"id": id_, "result": {"protocolVersion": version, **about}})
            case "tools/list":
                send({"id": id_, "result": json.loads(offers.read_text())})
            case "tools/call":
                call(id_, params["name"], params)
            case _:
                send({"id": id_, "error": {"code": -32601, "message": f"no {method}"}})


if __name__ == "__main__":
    main()
