"""An agent that has what the demo agent has not: configuration options, pictures, files that it
asks to change, an early end. It obeys the first word of a prompt."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

PICTURE = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
        "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()
SVG = base64.b64encode(b'<svg xmlns="http://www.w3.org/2000/svg" onload="window.bitten=1"/>')
model, thinks = "small", False
asked: dict[int, int] = {}
"""The prompt that each request for permission belongs to."""


def send(**members: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}) + "\n")
    sys.stdout.flush()


def update(what: str, **members: Any) -> None:
    params = {"sessionId": "one", "update": {"sessionUpdate": what, **members}}
    send(method="session/update", params=params)


def say(text: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text})


def review(title: str) -> None:
    """An exchange within the turn, between two texts of its own."""
    tag = {"conductor.conversation/subconversation": {"id": "review-1", "title": title}}
    say("I have it reviewed.")
    for kind, text in (("message", "Looks"), ("thought", "Hm."), ("message", "good.")):
        block = {"type": "text", "text": text}
        update(f"agent_{kind}_chunk", content=block, _meta=tag)
    say("So it is done.")


def options() -> list[dict[str, Any]]:
    values = [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}]
    choice = {"type": "select", "currentValue": model, "options": values}
    switch = {"type": "boolean", "currentValue": thinks}
    return [
        {"id": "model", "name": "Model", **choice},
        {"id": "thinks", "name": "Think first", **switch},
    ]


def prompt(id_: int, blocks: list[dict[str, Any]]) -> None:
    # A component may put blocks of its own before the words of the person.
    text = next(block["text"] for block in blocks if not block.get("text", "<").startswith("<"))
    word, _, rest = text.strip().partition(" ")
    if word == "die":
        say("I begin")
        print("agent: out of memory", file=sys.stderr)
        sys.exit(3)
    if word == "edit":
        diff = {"type": "diff", "path": "/w/a.py", "oldText": "a = 1\n", "newText": "a = 2\n"}
        call = {"toolCallId": "edit-1", "title": "Edit a.py", "kind": "edit"}
        update("tool_call", **call, status="pending", content=[diff])
        kinds = ("allow_once", "reject_once")
        offered = [{"optionId": f"<{kind}>", "name": kind, "kind": kind} for kind in kinds]
        params = {"sessionId": "one", "toolCall": {"toolCallId": "edit-1"}, "options": offered}
        asked[1000 + id_] = id_
        send(id=1000 + id_, method="session/request_permission", params=params)
        return
    if word == "pictures":
        update(
            "agent_message_chunk",
            content={"type": "image", "mimeType": "image/png", "data": PICTURE},
        )
        svg = {"type": "image", "mimeType": "image/svg+xml", "data": SVG.decode()}
        update("agent_message_chunk", content=svg)
    elif word == "review":
        review(rest)
    elif word == "fail":
        error = {"code": -32000, "message": "Authentication required"}
        send(id=id_, error=error)
        return
    else:
        kinds_ = [str(block.get("type")) for block in blocks]
        say(f"{' '.join(kinds_)}: {rest or text}")
    send(id=id_, result={"stopReason": "end_turn"})


def answered(id_: int, result: dict[str, Any]) -> None:
    outcome = result.get("outcome", {})
    choice = outcome.get("optionId", outcome.get("outcome"))
    status = "completed" if choice == "<allow_once>" else "failed"
    update("tool_call_update", toolCallId="edit-1", status=status)
    say(f"the answer was {choice}")
    stop = "cancelled" if choice == "cancelled" else "end_turn"
    send(id=asked.pop(id_), result={"stopReason": stop})


def serve(message: dict[str, Any]) -> None:
    global model, thinks  # noqa: PLW0603 - the settings of the one session
    id_, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            can = {"promptCapabilities": {"image": True}}
            info = {"name": "fancy", "title": "Fancy agent", "version": "7"}
            send(id=id_, result={"protocolVersion": 1, "agentCapabilities": can, "agentInfo": info})
        case "session/new":
            send(id=id_, result={"sessionId": "one", "configOptions": options()})
        case "session/set_config_option" if params["configId"] == "model":
            model = params["value"]
            send(id=id_, result={"configOptions": options()})
        case "session/set_config_option":
            thinks = params["value"] and params["type"] == "boolean"
            send(id=id_, result={"configOptions": options()})
        case "session/prompt":
            prompt(message["id"], params["prompt"])
        case None:
            answered(message["id"], message.get("result", {}))
        case method if id_ is not None:
            send(id=id_, error={"code": -32601, "message": f"no {method}"})


if __name__ == "__main__":
    for line in sys.stdin:
        serve(json.loads(line))
