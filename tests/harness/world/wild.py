"""A guest that does with what it is given what a tape of numbers says; and the same as a program.

Guests hear and say lines of `channel/1`. `Program` puts such a guest behind a dialect.
"""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tests.harness.router.actors import FORMS, ROLES, dump
from tests.harness.world.ends import CANCEL, PERMISSION, PROMPT, STOP, UPDATE

Json = dict[str, Any]
Said = tuple[str, bytes]
"""The connection it is said on, and the line."""

DOWNWARDS: Final = (
    PROMPT, STOP, "session/set_mode", "session/load", "session/new", "session/list",
    "providers/list", "mcp/message", "_x", CANCEL, "initialize", "session/odd",
)  # fmt: skip
UPWARDS: Final = (
    "agent_message_chunk", "agent_message_chunk", "tool_call", "state_update",
    "available_commands_update", "odd", PERMISSION, "fs/read_text_file", "mcp/connect", "_y",
)  # fmt: skip
"""The methods that a guest sends of its own, to either side."""


class Tape:
    """Numbers a guest decides by; zeros (forward everything) once they are used up."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = deque(numbers)

    def next(self, below: int) -> int:
        """The next decision."""
        return self._numbers.popleft() % below if self._numbers else 0


class Wild:
    """A guest that does what its tape says with each line it is given; honest until it has one."""

    def __init__(self, *, numbers: bool = False) -> None:
        """`numbers`: its own ids are such, though they had best be texts."""
        self._numbers = numbers
        self.tape = Tape(())
        self._last = 0
        self._waiting: dict[tuple[str, object], tuple[str, object]] = {}
        self._later: list[list[bytes]] = []
        self._passed: dict[tuple[str, object], bytes] = {}
        self.asked: Counter[tuple[str, object]] = Counter()
        """The guest's requests, passed on or its own, by side and id."""
        self.answers: Counter[tuple[str, object]] = Counter()
        self.refused = 0
        """The times that the guest was told of a bad message, or of an id in use."""
        self.given: dict[object, str] = {}
        """The requests that the guest was given and has not answered: their side, by id."""

    def hear(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """The messages of the guest after one delivery."""
        for said in self._say(lines):
            if b'"id":' in said and said[1:2] != b"[":
                side, message = chr(said[0]), json.loads(said[1:])
                at = side, message.get("id")
                if "method" not in message:
                    self.given.pop(message["id"], None)
                else:
                    self.asked[at] += 1
            yield said

    def _say(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        later, self._later = self._later, []
        for line in lines:
            side, message = chr(line[0]), json.loads(line[1:])
            if "method" in message and "id" in message:
                assert message["id"] not in self.given, "an id is open twice"
                self.given[message["id"]] = side
            yield from self._act(side, message, line[1:])
        for batch in later:
            yield from batch

    def _act(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        if message.get("method") == "initialize":
            yield from self._forward(side, message, line)
        elif "method" not in message:
            yield from self._answered(side, message, line)
        else:
            yield from _ACTS[self.tape.next(len(_ACTS))](self, side, message, line)

    def _answered(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        if not self.asked[side, message["id"]]:
            assert message["error"]["code"] == -32600
            self.refused += 1
            return
        self.answers[side, message["id"]] += 1
        origin = self._waiting.get((side, message["id"]))
        if origin is None:
            return
        member = "result" if "result" in message else "error"
        start = line.index(b'"%b":' % member.encode()) + len(member) + 3
        body, choice = line[start:-1].strip(), self.tape.next(9)
        bodies = [body]
        if choice == 3:
            bodies = []
        elif choice == 4:
            bodies *= 2
        elif choice == 5:
            bodies, member = [dump({"forged": True})], "result"
        elif choice == 6:
            bodies, member = [dump({"code": 1, "message": "no"})], "error"
        elif choice == 7 and body.endswith(b"}"):
            bodies = [body[:-1] + (b"," if body != b"{}" else b"") + b'"example.com":1}']
        elif choice == 8:
            yield self._passed[side, message["id"]]  # asks once more
            return
        for one in bodies:
            yield b'%b{"jsonrpc":"2.0","id":%b,"%b":%b}' % (
                origin[0].encode(), dump(origin[1]), member.encode(), one,
            )  # fmt: skip

    def ask(
        self, side: str, method: str, params: bytes, id_: object = None
    ) -> tuple[object, bytes]:
        """A request, of its own unless it is given an id."""
        if id_ is None:
            self._last += 1
            id_ = self._last if self._numbers else f"own-{self._last}"
        return id_, b'%b{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (
            side.encode(), dump(id_), method.encode(), params,
        )  # fmt: skip

    def _forward(
        self,
        side: str,
        message: Json,
        line: bytes,
        params: bytes | None = None,
        *,
        same: bool = False,
    ) -> Iterator[bytes]:
        other = "s" if side == "p" else "p"
        if params is None:
            held = "params" in message
            params = line[line.index(b'"params":') + 9 : -1].rstrip() if held else b"{}"
        if "id" not in message:
            name = message["method"].encode()
            yield b'%b{"jsonrpc":"2.0","method":"%b","params":%b}' % (other.encode(), name, params)
            return
        # Once under the id it came with; whatever it says further is its own.
        id_ = message["id"] if same or not self.asked[other, message["id"]] else None
        id_, said = self.ask(other, message["method"], params, id_)
        self._waiting[other, id_] = (side, message["id"])
        self._passed[other, id_] = said
        yield said

    def forward(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """As it is."""
        yield from self._forward(side, message, line)

    def drop(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Nothing."""
        yield from ()

    def change(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """With another member."""
        changes = [b'"x":1', b'"n":-1', b'"sessionId":"T"', b'"_meta":{}', b'"n":1,"n":2']
        change = changes[self.tape.next(len(changes))]
        params = dump(message.get("params", {}))
        params = params[:-1] + b"," * (params != b"{}") + change + b"}"
        yield from self._forward(side, message, line, params)

    def edit(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Changed as a useful component changes it."""
        params = dump(edited(message["method"], message.get("params") or {}))
        yield from self._forward(side, message, line, params)

    def respell(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """The same, spelled otherwise."""
        params = json.dumps(message.get("params", {}), indent=1).replace("\n", " ").encode()
        yield from self._forward(side, message, line, params)

    def double(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Twice, the second time under the same id or another."""
        same = bool(self.tape.next(2))
        yield from self._forward(side, message, line)
        yield from self._forward(side, message, line, same=same)

    def keep(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """At the end of the next delivery."""
        self._later.append(list(self._forward(side, message, line)))
        yield from ()

    def originate(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Something of its own besides."""
        methods = (*DOWNWARDS, *UPWARDS)
        method = methods[self.tape.next(len(methods))]
        session = ("S", "T", None)[self.tape.next(3)]
        to = "ps"[self.tape.next(2)]
        held: Json = {"sessionId": session, "of": "guest"}
        if method == CANCEL:
            held["requestId"] = self.tape.next(9)
        elif method == PROMPT:
            held["prompt"] = [{"type": "text", "text": "own"}]
        elif "/" not in method and method not in ("_x", "_y", "initialize"):
            held["update"] = {"sessionUpdate": method, "content": {"type": "text", "text": "own"}}
            held["update"]["availableCommands"] = [{"name": "review", "description": "it"}]
            method = UPDATE
        params = dump(held)
        if self.tape.next(2):
            yield self.ask(to, method, params)[1]
        else:
            head = b'%b{"jsonrpc":"2.0","method":"%b"' % (to.encode(), method.encode())
            yield head + b',"params":%b}' % params
        yield from self._forward(side, message, line)

    def answer(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Answers a request itself, and perhaps sends it on before or after that."""
        if "id" not in message:
            return
        how = self.tape.next(3)
        if how == 1:
            yield from self._forward(side, message, line)
        body = (b'"result":{"forged":true}', b'"error":{"code":1,"message":"no"}', b'"error":5')
        for _ in range(1 + self.tape.next(2)):
            chosen = body[self.tape.next(len(body))]
            yield b'%b{"jsonrpc":"2.0","id":%b,%b}' % (
                side.encode(), dump(message["id"]), chosen,
            )  # fmt: skip
        if how == 2:
            yield from self._forward(side, message, line)

    def junk(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Lines that are no messages."""
        lines = [b"{", b"x", b"s[]", b'p{"jsonrpc":"2.0"}', b's[{"jsonrpc":"2.0","method":"_x"}]']
        yield lines[self.tape.next(len(lines))]
        yield from self._forward(side, message, line)

    def cancel(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Cancels some request, of its own or not, after having sent this one on."""
        yield from self._forward(side, message, line)
        side = "ps"[self.tape.next(2)]
        ids = [id_ for to, id_ in self.asked if to == side] + [99]
        yield b'%b{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%b}}' % (
            side.encode(), dump(ids[self.tape.next(len(ids))]),
        )  # fmt: skip


_ACTS: Final = (
    Wild.forward, Wild.drop, Wild.change, Wild.edit, Wild.respell, Wild.double, Wild.keep,
    Wild.originate, Wild.answer, Wild.junk, Wild.cancel,
)  # fmt: skip


def edited(method: str, params: Json) -> Json:
    """Params as a useful component changes them."""
    match method:
        case "session/prompt":
            more = {"type": "text", "text": "more"}
            return {**params, "prompt": [*params.get("prompt", ()), more]}
        case "session/load" | "session/new":
            server = {"type": "acp", "name": "mine", "serverId": "mine"}
            return {**params, "mcpServers": [*params.get("mcpServers", ()), server]}
        case "session/update" if type(params.get("update")) is dict:
            content = {"type": "text", "text": "other words"}
            return {**params, "update": {**params["update"], "content": content}}
        case "session/request_permission":
            return {**params, "options": params.get("options", [])[1:]}
    return {**params, "example.com": 1}


class Program:
    """A guest behind a dialect other than the channel's. `keeps`: its ids are the guest's, else its
    library numbers what it sends. `inside`: who takes the lines in the guest's place."""

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        keeps: bool,
        inside: Callable[[Sequence[bytes]], Iterator[bytes]] | None = None,
    ) -> None:
        self.wild = Wild()
        self._inside = inside or self.wild.hear
        self._name, self._kind, self._keeps = name, kind, keeps
        self._form = FORMS.get(kind)
        self._asked: dict[tuple[str, object], tuple[str, object]] = {}
        """The requests of the program, by connection and id: the side, and the guest's id."""
        self._given: dict[object, str] = {}
        self._last = 0
        self._launch: object = None
        self._offered: Json = {}

    def hear(self, peer: str, line: bytes) -> Iterator[Said]:
        """The messages of the program after a line of a connection."""
        message = json.loads(line)
        if self._form is None:
            yield from self._launching(peer, line, message)
            return
        form, method = self._form, message.get("method")
        if method is None:
            side, id_ = self._asked.get((self._name, message["id"]), ("p", message["id"]))
            yield from self._give(side, _with_id(line, id_))
        elif method in (form.up_request, form.up_notification):
            inner = message["params"]["message"] if form.nested else message["params"]
            raw = line.split(b'"params":', 2)
            params = raw[2].removesuffix(b"}" * (3 if form.nested else 2)) if raw[2:] else None
            self._given[message.get("id")] = "s"
            yield from self._give("s", _line(message.get("id"), inner["method"], params))
        elif method == form.role:
            self._given[message["id"]] = "p"
            start = line.index(b'"params":') + 9
            yield from self._give("p", _line(message["id"], "initialize", line[start:-1]))
        elif method in ("initialize", *ROLES):
            refusal = {"code": -32601, "message": "Method not found"}
            yield self._name, dump({"jsonrpc": "2.0", "id": message.get("id"), "error": refusal})
        elif method == CANCEL:
            side = self._given.get(message["params"].get("requestId"), "p")
            yield from self._give(side, line)
        elif method == "_scp/proxy":
            refusal = {"code": -32601, "message": "Method not found"}
            yield self._name, dump({"jsonrpc": "2.0", "id": message["id"], "error": refusal})
        else:
            self._given[message.get("id")] = "p"
            yield from self._give("p", line)

    def _launching(self, peer: str, line: bytes, message: Json) -> Iterator[Said]:
        """`scp`: plain on two connections."""
        method, side = message.get("method"), "p" if peer == self._name else "s"
        if method == "initialize":
            self._offered = message["params"]
            found = {"protocolVersion": 1, "agentCapabilities": _ECHO}
            yield peer, dump({"jsonrpc": "2.0", "id": message["id"], "result": found})
        elif method == "_scp/proxy":
            self._launch = message["id"]
            said = {"jsonrpc": "2.0", "id": "launch", "method": "initialize"}
            yield f"{self._name}/successor", dump({**said, "params": self._offered})
        elif method is None and message["id"] == "launch":
            yield self._name, dump({"jsonrpc": "2.0", "id": self._launch, "result": {}})
        elif method is None:
            _, id_ = self._asked.get((peer, message["id"]), (side, message["id"]))
            yield from self._give(side, _with_id(line, id_))
        else:
            yield from self._give(side, line)

    def _give(self, side: str, line: bytes) -> Iterator[Said]:
        for said in self._inside([side.encode() + line]):
            yield self.say(said)

    def say(self, said: bytes) -> Said:
        """A line of the guest's, as the program says it."""
        side, line = said[:1].decode(), said[1:]
        peer = f"{self._name}/successor" if self._form is None and side == "s" else self._name
        try:
            message = json.loads(line)
        except ValueError:
            return peer, line or b"["
        if type(message) is not dict or side not in "ps":
            return peer, line
        method, id_ = message.get("method"), message.get("id")
        if method is None:
            return peer, self._echoed(message, line)
        if method == CANCEL and "id" not in message:
            wanted = message["params"].get("requestId")
            for (at, wire), origin in self._asked.items():
                if (at, *origin) == (peer, side, wanted):
                    message["params"]["requestId"] = wire
            return peer, dump(message)
        if "id" in message:
            wire = id_
            if not self._keeps:
                self._last += 1
                wire = self._last
            self._asked[peer, wire] = (side, id_)
            id_ = wire
        start = line.find(b'"params":')
        params = line[start + 9 : -1].rstrip() if start >= 0 else None
        if side == "s" and self._form is not None:
            form = self._form
            inner = b'{"method":%b%b}' % (dump(method), _with_params(params))
            method = form.down_request if "id" in message else form.down_notification
            params = b'{"message":%b}' % inner if form.nested else inner
        return peer, _line(id_ if "id" in message else None, method, params)

    def _echoed(self, message: Json, line: bytes) -> bytes:
        found = message.get("result")
        if self._form is None or not self._form.echo or type(found) is not dict:
            return line
        if "protocolVersion" not in found:
            return line
        found["agentCapabilities"] = _ECHO
        return dump(message)


_ECHO: Final = {"_meta": {"symposium": {"version": "1.0", "proxy": True}}}


def _with_params(params: bytes | None) -> bytes:
    return b"" if params is None else b',"params":' + params


def _line(id_: object, method: str, params: bytes | None) -> bytes:
    head = b'{"jsonrpc":"2.0",' if id_ is None else b'{"jsonrpc":"2.0","id":%b,' % dump(id_)
    return head + b'"method":%b%b}' % (dump(method), _with_params(params))


def _with_id(line: bytes, id_: object) -> bytes:
    """An answer under another id."""
    message = json.loads(line)
    if message["id"] == id_:
        return line
    member = b"result" if "result" in message else b"error"
    start = line.index(b'"%b":' % member)
    return b'{"jsonrpc":"2.0","id":%b,%b' % (dump(id_), line[start:])
