"""An agent that numbers all it says, and says which process it is.

    python -m tests.e2e.actors.numbering_agent FOLDER

A prompt is JSON: `n`, its number; `updates`, how many it has; `every`, seconds between two of them;
`size`, characters of padding in each; `until`, a file that has to be there before the turn ends (it
streams so long); `asks`: whether it asks for a permission before the last update. The text of an
update is JSON: `life` (of the process), `n`, `i` from 1; of a session that is loaded, one with
`i` 0. The `_meta` of a result has `life`, `n`, and how many `updates` there were.

Sessions outlast the process, as files of FOLDER. `FOLDER/lives` has a line for each prompt as it
comes, and as it ends. Standard library only, and little of it: a thousand of them start quickly.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import select
import sys
import time
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

HOME: Final = Path(sys.argv[1])
LIFE: Final = f"{os.getpid()}-{time.monotonic_ns():x}"
META: Final = "example.com/turn"


def send(**message: Any) -> None:
    """Writes one line."""
    line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def note(what: str, session: str, n: object) -> None:
    """Puts on record what happens to a prompt; lines of several processes do not mix."""
    record = {"what": what, "life": LIFE, "session": session, "n": n}
    with (HOME / "lives").open("ab", buffering=0) as file:
        file.write(json.dumps(record).encode() + b"\n")


class Turn:
    """A prompt that has no answer yet."""

    def __init__(self, id_: Any, session: str, wants: Json) -> None:
        self.id = id_
        self.session = session
        self.n = wants["n"]
        self.updates: int = wants.get("updates", 1)
        self.until: str = wants.get("until", "")
        self.every: float = wants.get("every", 0.005 if self.until else 0.0)
        self.padding = "." * wants.get("size", 0)
        self.asks: bool = wants.get("asks", False)
        self.said = 0
        self.cancelled = False

    def update(self) -> None:
        """Says the next update."""
        self.said += 1
        say(self.session, self.n, self.said, self.padding)

    @property
    def over(self) -> bool:
        """Whether nothing more is to be said."""
        if self.cancelled:
            return True
        return self.said >= self.updates and (not self.until or os.path.exists(self.until))

    def end(self) -> None:
        """Answers the prompt."""
        note("end", self.session, self.n)
        meta = {META: {"life": LIFE, "n": self.n, "updates": self.said}}
        stop = "cancelled" if self.cancelled else "end_turn"
        send(id=self.id, result={"stopReason": stop, "_meta": meta})


def say(session: str, n: object, i: int, padding: str = "") -> None:
    """Sends one update."""
    text = json.dumps({"life": LIFE, "n": n, "i": i, "": padding}, separators=(",", ":"))
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": session, "update": update})


class Agent:
    """The state of this process."""

    def __init__(self) -> None:
        self.turns: dict[str, Turn] = {}
        self.asked: dict[str, Turn] = {}
        self._due: list[tuple[float, int, Turn]] = []
        self._count = itertools.count()

    def serve(self) -> None:
        """Serves standard input to its end."""
        rest = b""
        while True:
            left = None if not self._due else max(0.0, self._due[0][0] - time.monotonic())
            if select.select([0], [], [], left)[0]:
                data = os.read(0, 1 << 16)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.hear(json.loads(line))
            if self._due and self._due[0][0] <= time.monotonic():
                self.go_on(heapq.heappop(self._due)[2])

    def later(self, turn: Turn) -> None:
        """A turn goes on after its pause."""
        at = time.monotonic() + turn.every
        heapq.heappush(self._due, (at, next(self._count), turn))

    def go_on(self, turn: Turn) -> None:
        """A turn goes on."""
        if turn.over:
            self.turns.pop(turn.session, None)
            turn.end()
        elif turn.asks and turn.said + 1 >= turn.updates:
            turn.asks = False
            key = f"ask-{LIFE}-{turn.session}-{turn.n}"
            self.asked[key] = turn
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            call = {"toolCallId": f"call-{turn.n}", "title": "a question"}
            asks = {"sessionId": turn.session, "toolCall": call, "options": options}
            send(id=key, method="session/request_permission", params=asks)
        else:
            turn.update()
            if turn.over:
                self.turns.pop(turn.session, None)
                turn.end()
            else:
                self.later(turn)

    def hear(self, message: Json) -> None:
        """Takes one message."""
        id_, params = message.get("id"), message.get("params", {})
        match message.get("method"):
            case None:
                if (turn := self.asked.pop(str(id_), None)) is not None:
                    note("answered", turn.session, turn.n)
                    self.go_on(turn)
            case "initialize":
                abilities = {"loadSession": True}
                send(id=id_, result={"protocolVersion": 1, "agentCapabilities": abilities})
            case "session/new":
                session = f"{LIFE}-{next(self._count)}"
                (HOME / session).touch()
                send(id=id_, result={"sessionId": session})
            case "session/load":
                self.load(id_, params["sessionId"])
            case "session/prompt":
                self.prompt(id_, params)
            case "session/cancel":
                if (turn := self.turns.get(params["sessionId"])) is not None:
                    turn.cancelled = True
            case _ if id_ is not None:
                send(id=id_, error={"code": -32601, "message": "Method not found"})

    def load(self, id_: Any, session: str) -> None:
        """A session of an earlier process goes on."""
        if not (HOME / session).exists():
            send(id=id_, error={"code": -32002, "message": "no such session"})
            return
        note("load", session, None)
        say(session, None, 0)
        send(id=id_, result={})

    def prompt(self, id_: Any, params: Json) -> None:
        """A turn begins."""
        wants = json.loads(params["prompt"][-1]["text"])
        turn = Turn(id_, params["sessionId"], wants)
        note("prompt", turn.session, turn.n)
        self.turns[turn.session] = turn
        self.go_on(turn)


if __name__ == "__main__":
    Agent().serve()
