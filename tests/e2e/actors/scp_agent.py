"""An agent of SCP: it takes servers of type `scp`, and calls them by `_scp/mcp`.

A prompt `/call NAME TEXT` calls the tool `echo` of the server NAME; the outcome is the answer. Any
other prompt is answered by the servers of its session.
"""

from __future__ import annotations

import json
import sys
from typing import Any

_calls: dict[str, tuple[Any, str]] = {}
"""The requests of prompts that wait for a tool, and their sessions, by the ids of the calls."""
_servers: dict[str, list[Any]] = {}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "A"}}


def say(**members: Any) -> None:
    """Sends a line."""
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)


def mcp(name: str, id_: str, method: str, params: dict[str, Any]) -> None:
    """Sends a message of MCP."""
    inner = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    say(id=id_, method="_scp/mcp", params={"name": name, "message": inner})


def ends(id_: Any, session: str, text: str) -> None:
    """Answers a prompt with a text."""
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    say(method="session/update", params={"sessionId": session, "update": update})
    say(id=id_, result={"stopReason": "end_turn"})


def prompt(id_: Any, params: dict[str, Any]) -> None:
    """Does what a prompt says."""
    session, text = params["sessionId"], params["prompt"][-1]["text"]
    if not text.startswith("/call "):
        ends(id_, session, json.dumps(_servers[session]))
        return
    _, name, words = text.split(" ", 2)
    mcp(name, f"hello-{id_}", "initialize", HELLO)
    _calls[f"call-{id_}"] = (id_, session)
    mcp(name, f"call-{id_}", "tools/call", {"name": "echo", "arguments": {"text": words}})


def answered(message: dict[str, Any]) -> None:
    """A server has answered: a tool's answer ends a turn."""
    id_, session = _calls.pop(message["id"], (None, ""))
    if session:
        outcome = message.get("result", {}).get("message", message)
        content = outcome.get("result", {}).get("content", [])
        ends(id_, session, content[0]["text"] if content else json.dumps(outcome))


def serve(message: dict[str, Any]) -> None:
    """Takes one message."""
    id_, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case None:
            answered(message)
        case "initialize":
            section = {"symposium": {"version": "1.0", "proxy": False}}
            say(id=id_, result={"protocolVersion": 1, "agentCapabilities": {"_meta": section}})
        case "session/new":
            session = f"s{len(_servers)}"
            _servers[session] = params["mcpServers"]
            say(id=id_, result={"sessionId": session})
        case "session/prompt":
            prompt(id_, params)


for line in sys.stdin:
    serve(json.loads(line))
