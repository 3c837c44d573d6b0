"""A proxy that asks the conductor for things, in the dialect `acp`. Standard library only.

    python -m tests.e2e.actors.asking_proxy

It passes everything on. Its configuration's `prefix` is put before each prompt; `/ask METHOD
PARAMS` in a prompt makes it call a method of the conductor's, `/say` makes it a notification, and
the client is told by `_told` what the conductor answers or says unasked.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]


class Proxy:
    """The proxy; requests it passes on keep a note of who waits for the answer."""

    def __init__(self) -> None:
        self.prefix = ""
        self.count = 0
        self.waiting: dict[Any, Any] = {}

    def run(self) -> None:
        """Serves until its input ends."""
        for line in sys.stdin:
            frame = json.loads(line)
            if "method" in frame:
                self.hear(frame["method"], frame.get("params", {}), frame.get("id"))
            else:
                outcome = {key: frame[key] for key in ("result", "error") if key in frame}
                self.waiting.pop(frame["id"])(outcome)

    def hear(self, method: str, params: Json, id_: Any) -> None:
        """Handles a request or a notification."""
        if method == "_conductor/configure":
            self.prefix = params["config"].get("prefix", "")
            self.tell({"configured": params["config"]})
        elif method.startswith("_conductor/"):
            self.tell({"said": method, "params": params})
        elif method == "proxy/initialize":
            self.pass_on("s", "initialize", params, id_)
        elif method == "proxy/successor":
            self.pass_on("p", params["method"], params.get("params", {}), id_)
        else:
            if method == "session/prompt":
                self.prompt(params)
            self.pass_on("s", method, params, id_)

    def prompt(self, params: Json) -> None:
        """Does what the prompt says, and puts the prefix before it."""
        block = params["prompt"][0]
        word, _, rest = block["text"].partition(" ")
        if word in ("/ask", "/say"):
            method, _, asked = rest.partition(" ")
            head = {"jsonrpc": "2.0", "method": method, "params": json.loads(asked or "{}")}
            if word == "/say":
                self.send(head)
            else:
                self.send({**head, "id": self.wait(self.tell)})
        block["text"] = self.prefix + block["text"]

    def pass_on(self, side: str, method: str, params: Json, id_: Any) -> None:
        """Sends a message on to one side."""
        frame: Json = {"jsonrpc": "2.0", "method": method, "params": params}
        if side == "s":
            inner = {"method": method, "params": params}
            frame = {"jsonrpc": "2.0", "method": "proxy/successor", "params": inner}
        if id_ is not None:
            # Under the id it came with; requests of its own have strings.
            frame["id"] = id_
            self.waiting[id_] = lambda outcome: self.send({"jsonrpc": "2.0", "id": id_, **outcome})
        self.send(frame)

    def wait(self, then: Any) -> str:
        """An id of its own; `then` is called with the answer to it."""
        self.count += 1
        self.waiting[f"mine-{self.count}"] = then
        return f"mine-{self.count}"

    def tell(self, what: Json) -> None:
        """Tells the client."""
        self.send({"jsonrpc": "2.0", "method": "_told", "params": what})

    def send(self, frame: Json) -> None:
        """Writes one line."""
        sys.stdout.write(json.dumps(frame) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    Proxy().run()
