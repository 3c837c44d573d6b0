"""A component that asks the editor for what a prompt says, in any form a component can take.

`/ask METHOD PARAMS` in a prompt makes it ask the client, in the prompt's session; `/log PARAMS`
tells the client; `/heard` asks what the client has sent it. The client is told the outcome by
`_told`. `/behind` and a prompt leave that to what lies behind it. At an event `die` it ends, as a
program alone; at `twice` it answers twice.
"""

from __future__ import annotations

import json
import os
from typing import Any

from guest_sdk.python import Proxy, ProxyError, Request
from guest_sdk.python.engine import engine

proxy = Proxy(
    "showing",
    rights={"context": "to take prompts as orders"},
    description="Asks the editor for what a prompt says.",
)
heard: list[Any] = []


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    """Does what the prompt says; all other prompts pass."""
    params = request.params
    word, _, rest = params["prompt"][0]["text"].partition(" ")
    named = {"sessionId": params["sessionId"]}
    if word == "/behind":  # the next of its kind does it
        params["prompt"][0]["text"] = rest
        return await following(request)
    if word == "/ask":
        method, _, asked = rest.partition(" ")
        try:
            answer = {"result": await proxy.ask_client(method, **{**named, **json.loads(asked)})}
        except ProxyError as error:
            answer = {"error": {"code": error.code, "message": error.message}}
    elif word == "/log":
        proxy.tell_client("_scp/log", **{**named, **json.loads(rest)})
        answer = {}
    elif word == "/heard":
        answer = {"heard": heard}
    else:
        return await following(request)
    proxy.tell_client("_told", **answer)
    return {"stopReason": "end_turn"}


@proxy.request("_scp/html_panel/event", "_scp/file_comment/event", "_scp/file_comment/reply",
               unknown=True)  # fmt: skip
async def event(request: Request, following: Any) -> Any:
    """Keeps what the client sends the owner; `refuse` is refused, `pass` not taken."""
    if request.direction == "up":
        return await following(request)
    heard.append([request.method.removeprefix("_scp/"), request.params])
    if request.params.get("name") == "die":
        os._exit(3)
    if request.params.get("name") == "twice":
        first = f'{{"jsonrpc":"2.0","id":{request.id},"result":{{"n":"first"}}}}'
        engine()._out.append("p" + first)  # as no author writes
    if request.params.get("name") == "refuse":
        raise ProxyError("not this one", code=-32001)
    if request.params.get("text") == "pass":
        raise ProxyError("not taken", code=-32601)
    return {"n": len(heard)}


if __name__ == "__main__":
    proxy.run()
