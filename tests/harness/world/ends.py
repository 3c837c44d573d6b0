"""The two ends of a chain: a script has their messages, and they answer every request."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tests.harness.router.actors import dump

Json = dict[str, Any]

CANCEL: Final = "$/cancel_request"
STOP: Final = "session/cancel"
PROMPT: Final = "session/prompt"
UPDATE: Final = "session/update"
PERMISSION: Final = "session/request_permission"
CLOSING: Final = ("session/close", "session/delete")

DOWN: Final = (
    PROMPT, PROMPT, "session/load", "session/list", "session/set_mode", "session/close", STOP,
    STOP, CANCEL, "providers/list", "session/new", "mcp/message", "_x", "session/odd",
)  # fmt: skip
"""The methods that clients send, some of them more often."""

UP: Final = (
    "session/update[agent_message_chunk]", "session/update[agent_message_chunk]",
    "session/update[agent_thought_chunk]", "session/update[tool_call]",
    "session/update[tool_call_update]", "session/update[state_update]",
    "session/update[available_commands_update]", "session/update[current_mode_update]",
    "session/update[*]", "session/update", PERMISSION, "fs/read_text_file", "mcp/connect", CANCEL,
    "_y",
)  # fmt: skip
"""The methods and kinds of updates that agents send."""

TOLD: Final = frozenset({STOP, CANCEL})
"""Methods that are never requests; `_x` and `_y` are either."""


class Step(NamedTuple):
    """Something an end of the chain says of its own accord."""

    who: str
    key: str
    session: str | None
    asks: bool
    pause: int = 1
    """0: the next step follows at once; 1: everybody reads what was written to them before that;
    more: so many seconds pass besides."""


def asks(key: str, *, either: bool) -> bool:
    """Whether a message of a key is a request; `either` decides where it can be both."""
    if key.startswith("_"):
        return either
    return key not in TOLD and not key.startswith(UPDATE)


class Item(NamedTuple):
    """A message from one end to the other: a request, a notification or an answer."""

    kind: str
    key: str
    session: str | None
    body: bytes


def key_of(method: str, params: Json) -> str:
    """The key of a message."""
    update = params.get("update")
    if method != UPDATE:
        return method
    if not isinstance(update, dict):
        return f"{UPDATE}[*]"
    kind = update.get("sessionUpdate")
    return f"{UPDATE}[{kind}]" if f"{UPDATE}[{kind}]" in UP else f"{UPDATE}[*]"


def params_of(step: Step, number: int) -> Json:
    """Params such as a real message of a key has."""
    kind, session = step.key.partition("[")[2].rstrip("]"), step.session
    text = {"type": "text", "text": f"{number} "}
    held: Json = {"n": number, "_meta": {"from": step.who}}
    if session is not None:
        held["sessionId"] = session
    match step.key.partition("[")[0]:
        case "session/prompt":
            held["prompt"] = [text]
        case "session/load" | "session/new":
            held |= {"cwd": "/w", "mcpServers": []}
        case "session/request_permission":
            options = [{"optionId": one, "name": one, "kind": one} for one in _OPTIONS]
            held |= {"toolCall": {"toolCallId": "t"}, "options": options}
        case "session/update" if kind:
            update: Json = {"sessionUpdate": "odd" if kind == "*" else kind}
            if kind.startswith("tool_call"):
                update |= {"toolCallId": f"t{number % 2}", "title": "it"}
            elif kind == "state_update":
                update["state"] = ("idle", "running")[number % 2]
            elif kind == "available_commands_update":
                update["availableCommands"] = [{"name": "plan", "description": "it"}]
            else:
                update["content"] = text
            held["update"] = update
        case "mcp/connect":
            held["serverId"] = "mine" if session == "T" else "others"
        case "mcp/message":
            held |= {"connectionId": "theirs", "method": "tools/list"}
    return held


_OPTIONS: Final = ("allow_once", "allow_always", "reject_once")


class End:
    """The client, or the agent. It answers at once, or some requests at the next pause only."""

    def __init__(self, name: str, *, slow: bool = False, version: int = 1) -> None:
        self.name = name
        self.version = version
        self.sent: list[Item] = []
        self.got: list[Item] = []
        self.open: dict[int, Item] = {}
        self.told: dict[int, tuple[bytes, bytes]] = {}
        """The answers to its own requests: member and body."""
        self.answers: Counter[int] = Counter()
        self.cancels: Counter[int] = Counter()
        self.asked: dict[int, Item] = {}
        """The requests that the end got, by id."""
        self.answered: dict[int, tuple[bytes, bytes]] = {}
        """The answers of the end to these requests."""
        self.ids: Counter[object] = Counter()
        """The requests under an id that the end has not answered, counted by id."""
        self._slow = slow
        self._later: list[tuple[Json, bytes]] = []
        self._last = 0

    def say(self, step: Step, number: int) -> bytes | None:
        """A line for a step; None if there is nothing to be said."""
        method = step.key.partition("[")[0]
        if method == CANCEL:
            unanswered = [id_ for id_ in self.open if not self.answers[id_]]
            if not unanswered:
                return None
            id_ = unanswered[number % len(unanswered)]
            return dump({"jsonrpc": "2.0", "method": CANCEL, "params": {"requestId": id_}})
        params = params_of(step, number)
        body = dump(params)
        kind = "request" if step.asks else "notification"
        item = Item(kind, key_of(method, params), step.session, body)
        self.sent.append(item)
        name = method.encode()
        if not step.asks:
            return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (name, body)
        self._last += 1
        self.open[self._last] = item
        return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (self._last, name, body)

    def hear(self, line: bytes) -> list[bytes]:
        """Takes a line; returns the end's lines."""
        message = json.loads(line)
        if "method" not in message:
            self._told(message, line)
            return []
        method, params = message["method"], message.get("params") or {}
        if method == CANCEL and "id" not in message:
            self.cancels[params["requestId"]] += 1
            return []
        raw = line[line.index(b'"params":') + 9 : -1] if "params" in message else b""
        kind = "request" if "id" in message else "notification"
        item = Item(kind, key_of(method, params), params.get("sessionId"), raw)
        self.got.append(item)
        if kind == "notification":
            return []
        id_ = message["id"]
        assert id_ not in self.asked or id_ in self.answered, "an id is open twice"
        self.asked[id_] = item
        self.answered.pop(id_, None)
        number = params.get("n", 0)
        if self._slow and type(number) is int and number % 3 == 1:
            self._later.append((message, raw))
            return []
        return self._answer(message, raw)

    def late(self) -> list[bytes]:
        """The answers it has kept back."""
        later, self._later = self._later, []
        return [said for message, raw in later for said in self._answer(message, raw)]

    def _answer(self, message: Json, raw: bytes) -> list[bytes]:
        id_, method = message["id"], message["method"]
        item = self.asked[id_]
        number = (message.get("params") or {}).get("n", 0)
        member = b"result"
        if method == "initialize":
            found: Json = {"protocolVersion": self.version, "agentCapabilities": {}}
            found["info"] = {"name": self.name, "version": "1"}
        elif type(number) is int and number % 7 == 3:
            member, found = b"error", {"code": 7, "message": f"{number} {self.name}"}
        elif method == PERMISSION:
            found = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        elif method == "session/list":
            found = {"sessions": [{"sessionId": "S"}, {"sessionId": "T"}]}
        elif method == "mcp/connect":
            found = {"connectionId": "theirs"}
        elif method == "session/new":
            found = {"sessionId": f"N{number}"}
        else:
            done = {"stopReason": "end_turn"} if self.version == 1 else {"messageId": "m"}
            found = done if method == PROMPT else {}
        if member == b"result" and method != "initialize":
            found |= {"_meta": {"to": raw.decode(), "by": self.name}}
        body = dump(found)
        if b'"of":"guest"' not in raw:  # else the answer is for the guest
            self.sent.append(Item("answer", item.key, item.session, body))
        self.answered[id_] = (member, body)
        return [b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (dump(id_), member, body)]

    def _told(self, message: Json, line: bytes) -> None:
        if message["id"] is None:
            return  # an answer to what was no request
        self.answers[message["id"]] += 1
        asked = self.open.get(message["id"])
        if asked is not None:
            member = b"result" if "result" in message else b"error"
            start = line.index(b'"%b":' % member) + len(member) + 3
            body = line[start:-1]
            self.told[message["id"]] = (member, body)
            self.got.append(Item("answer", asked.key, asked.session, body))


def messages(items: Sequence[Item], kind: str) -> Counter[tuple[str, bytes]]:
    """Key and payload of a message that an end sent or heard."""
    return Counter((one.key, one.body or b"null") for one in items if one.kind == kind)
