"""An agent that counts prompts, and says in the `_meta` of each result which one that was.

A prompt's last text names what it ends with, `max_tokens` or `refusal`; at `hold` it waits to be
cancelled, and answers nothing else. It says what it was prompted with, its number first. Standard
library only; both versions of ACP.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

Json = dict[str, Any]

STOPS: Final = ("max_tokens", "refusal")


def send(message: Json) -> None:
    """Writes one line."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(kind: str, **members: Any) -> None:
    """Says something in the one session there is."""
    update = {"sessionUpdate": kind, **members}
    send({"method": "session/update", "params": {"sessionId": "s", "update": update}})


class Agent:
    """The state of the conversation."""

    def __init__(self) -> None:
        self.version = 1
        self.count = 0
        self.held: tuple[Any, int] | None = None
        """The id and the number of the prompt that waits for its cancellation."""

    def initialize(self, params: Json) -> Json:
        """The result of `initialize`."""
        self.version = params["protocolVersion"]
        if self.version == 1:
            return {"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"acp": True}}}
        capabilities: Json = {"session": {"prompt": {}, "mcp": {"acp": {}}}}
        return {"protocolVersion": 2, "info": {"name": "counting", "version": "1"},
                "capabilities": capabilities, "authMethods": []}  # fmt: skip

    def prompt(self, id_: Any, params: Json) -> None:
        """Plays one turn."""
        self.count += 1
        said = str(params["prompt"][-1].get("text"))
        if self.version == 2:
            meta = {"example.com/n": self.count}
            send({"id": id_, "result": {"messageId": f"user-{self.count}", "_meta": meta}})
            update("state_update", state="running")
        text = {"type": "text", "text": f"{self.count}:{said};"}
        update("agent_message_chunk", content=text, messageId=f"agent-{self.count}")
        if said == "hold":
            self.held = id_, self.count
        else:
            self.end(id_, self.count, said if said in STOPS else "end_turn")

    def end(self, id_: Any, number: int, stop: str) -> None:
        """Ends a turn."""
        meta = {"example.com/n": number}
        if self.version == 2:
            update("state_update", state="idle", stopReason=stop, _meta=meta)
        else:
            send({"id": id_, "result": {"stopReason": stop, "_meta": meta}})

    def heard(self, message: Json) -> None:
        """Takes one message."""
        params = message.get("params", {})
        match message.get("method"):
            case "initialize":
                send({"id": message["id"], "result": self.initialize(params)})
            case "session/new":
                send({"id": message["id"], "result": {"sessionId": "s"}})
            case "session/prompt":
                self.prompt(message["id"], params)
            case "session/cancel" if self.held is not None:
                held, self.held = self.held, None
                self.end(*held, "cancelled")
            case str() if "id" in message:
                error = {"code": -32601, "message": "Method not found"}
                send({"id": message["id"], "error": error})


if __name__ == "__main__":
    agent = Agent()
    for line in sys.stdin:
        agent.heard(json.loads(line))
