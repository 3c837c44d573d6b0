"""A client, a guest that does as it likes, and an agent around one router; no event loop.

What the two ends say is in a script; they answer each request at once. What the guest does is drawn
from a tape of numbers. `World` plays them as the guests' host does: all that is queued for a peer
is given to it in one go, and what the guest says to that is routed before the next.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from conductor.core import CHANNEL, Changed, Closure, Component, Effect, Router, Send, Violated
from conductor.core.policy import Direction, Policy, Verb
from tests.core.actors import dump

Json = dict[str, Any]

DOWN: Final = ("session/prompt", "session/set_mode", "session/load", "session/cancel", "_x")
UP: Final = ("session/update", "session/request_permission", "fs/read_text_file", "_y")
NOTIFIED: Final = frozenset({"session/cancel", "session/update"})
"""Methods that are never requests; `_x` and `_y` are either."""


class Step(NamedTuple):
    """Something an end of the chain says of its own accord."""

    who: str
    method: str
    session: str | None
    asks: bool
    pause: bool
    """Whether everybody reads what was written to them before the next step."""


class Item(NamedTuple):
    """What one end said to the other: a request, a notification or an answer."""

    kind: str
    method: str
    session: str | None
    body: bytes


class End:
    """The client, or the agent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[Item] = []
        self.got: list[Item] = []
        self.open: dict[int, Item] = {}
        self.answers: Counter[int] = Counter()
        self.cancels: Counter[int] = Counter()
        self.epilogue = ""
        """The method of a notification that follows each of its answers."""
        self._last = 0

    def say(self, step: Step, number: int) -> bytes:
        """A line for a step."""
        params = dump({"sessionId": step.session, "n": number, "_meta": {"from": self.name}})
        if step.session is None:
            params = dump({"n": number})
        kind = "request" if step.asks else "notification"
        item = Item(kind, step.method, step.session, params)
        self.sent.append(item)
        if not step.asks:
            return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (step.method.encode(), params)
        self._last += 1
        self.open[self._last] = item
        return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (
            self._last,
            step.method.encode(),
            params,
        )

    def hear(self, line: bytes) -> list[bytes]:
        """Takes a line; what it says to it."""
        message = json.loads(line)
        if "method" not in message:
            self._answered(message, line)
            return []
        method = message["method"]
        if method == "$/cancel_request" and "id" not in message:
            self.cancels[message["params"]["requestId"]] += 1
            return []
        params = line[line.index(b'"params":') + 9 : -1] if "params" in message else b""
        session = message["params"].get("sessionId") if "params" in message else None
        kind = "request" if "id" in message else "notification"
        self.got.append(Item(kind, method, session, params))
        if kind == "notification":
            return []
        body = dump({"answer": params.decode(), "by": self.name})
        if b'"of":"guest"' not in params:  # else the answer is for the guest
            self.sent.append(Item("answer", method, session, body))
        said = [b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (message["id"], body)]
        if self.epilogue:
            said.append(self.say(Step(self.name, self.epilogue, session, False, False), -1))
        return said

    def _answered(self, message: Json, line: bytes) -> None:
        self.answers[message["id"]] += 1
        asked = self.open.get(message["id"])
        if asked is not None:
            member = b'"result":' if "result" in message else b'"error":'
            body = line[line.index(member) + len(member) : -1]
            self.got.append(Item("answer", asked.method, asked.session, body))


class Tape:
    """Numbers a guest decides by; zeros (forward everything) once they are used up."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = deque(numbers)

    def next(self, below: int) -> int:
        """The next decision."""
        return self._numbers.popleft() % below if self._numbers else 0


class Wild:
    """A guest that does what its tape says with each line it is given; honest until it has one."""

    def __init__(self) -> None:
        self.tape = Tape(())
        self._last = 0
        self._waiting: dict[tuple[str, object], tuple[str, object]] = {}
        self._later: list[list[bytes]] = []
        self.asked: Counter[tuple[str, object]] = Counter()
        """Its valid requests, passed on or its own, by side and id."""
        self.answers: Counter[tuple[str, object]] = Counter()
        self.shapeless: Counter[tuple[str, object]] = Counter()
        """What it said with an id that is neither request nor answer, and is not refused yet."""

    def hear(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """What it says to one delivery."""
        for said in self._say(lines):
            if b'"id":' in said and b'"method":' in said:
                self.asked[chr(said[0]), json.loads(said[1:])["id"]] += 1
            elif b'"id":' in said and b'"result":' not in said and b'"error":' not in said:
                self.shapeless[chr(said[0]), json.loads(said[1:])["id"]] += 1
            yield said

    def _say(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        later, self._later = self._later, []
        for line in lines:
            side, message = chr(line[0]), json.loads(line[1:])
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
        if message["id"] is None:
            return  # an answer to junk
        if self.shapeless[side, message["id"]] and message.get("error", {}).get("code") == -32600:
            self.shapeless[side, message["id"]] -= 1
            return
        self.answers[side, message["id"]] += 1
        origin = self._waiting.get((side, message["id"]))
        if origin is None:
            return
        member = "result" if "result" in message else "error"
        start = line.index(b'"%b":' % member.encode()) + len(member) + 3
        bodies = [line[start:-1].strip()]
        choice = self.tape.next(6)
        if choice == 3:
            bodies = []
        elif choice == 4:
            bodies *= 2
        elif choice == 5:
            bodies, member = [dump({"forged": True})], "result"
        for body in bodies:
            yield b'%b{"jsonrpc":"2.0","id":%b,"%b":%b}' % (
                origin[0].encode(), dump(origin[1]), member.encode(), body,
            )  # fmt: skip

    def ask(
        self, side: str, method: str, params: bytes, id_: object = None
    ) -> tuple[object, bytes]:
        """A request, of its own unless it is given an id."""
        if id_ is None:
            self._last += 1
            id_ = f"own-{self._last}"
        return id_, b'%b{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (
            side.encode(), dump(id_), method.encode(), params,
        )  # fmt: skip

    def _forward(
        self, side: str, message: Json, line: bytes, change: bytes = b""
    ) -> Iterator[bytes]:
        other = "s" if side == "p" else "p"
        params = line[line.index(b'"params":') + 9 : -1].rstrip() if "params" in message else b"{}"
        if change:
            params = params[:-1] + b"," + change + b"}"
        if "id" not in message:
            name = message["method"].encode()
            yield b'%b{"jsonrpc":"2.0","method":"%b","params":%b}' % (other.encode(), name, params)
            return
        # Once under the id it came with; whatever it says further is its own.
        id_ = None if self.asked[other, message["id"]] else message["id"]
        id_, said = self.ask(other, message["method"], params, id_)
        self._waiting[other, id_] = (side, message["id"])
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
        yield from self._forward(side, message, line, change)

    def respell(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """The same, spelled otherwise."""
        respelled = json.dumps(message, indent=1).replace("\n", " ").encode()
        start = respelled.index(b'"params":') if b'"params":' in respelled else 0
        yield from self._forward(side, message, respelled[: start + 9] + respelled[start + 9 :])

    def double(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Twice."""
        yield from self._forward(side, message, line)
        yield from self._forward(side, message, line)

    def keep(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """At the end of the next delivery."""
        self._later.append(list(self._forward(side, message, line)))
        yield from ()

    def originate(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Something of its own besides."""
        methods = (*DOWN, *UP, "$/cancel_request", "initialize")
        method = methods[self.tape.next(len(methods))]
        session = ("S", "T", None)[self.tape.next(3)]
        to = "ps"[self.tape.next(2)]
        params = dump({"sessionId": session, "requestId": self.tape.next(9), "of": "guest"})
        if self.tape.next(2):
            yield self.ask(to, method, params)[1]
        else:
            head = b'%b{"jsonrpc":"2.0","method":"%b"' % (to.encode(), method.encode())
            yield head + b',"params":%b}' % params
        yield from self._forward(side, message, line)

    def answer(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """Answers a request itself, and perhaps sends it on as well."""
        if "id" not in message:
            return
        if self.tape.next(2):
            yield from self._forward(side, message, line)
        body = (b'"result":{"forged":true}', b'"error":{"code":1,"message":"no"}', b'"x":1')
        for _ in range(1 + self.tape.next(2)):
            chosen = body[self.tape.next(len(body))]
            yield b'%b{"jsonrpc":"2.0","id":%d,%b}' % (side.encode(), message["id"], chosen)

    def junk(self, side: str, message: Json, line: bytes) -> Iterator[bytes]:
        """What is no message."""
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
    Wild.forward,
    Wild.drop,
    Wild.change,
    Wild.respell,
    Wild.double,
    Wild.keep,
    Wild.originate,
    Wild.answer,
    Wild.junk,
    Wild.cancel,
)

INITIALIZE: Final = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'


class World:
    """The chain, with the guest or without it."""

    def __init__(
        self,
        policy: Policy | None,
        tape: Sequence[int] | None,
        *,
        rounds: bool = True,
        audited: bool = False,
    ) -> None:
        """`tape` None: there is no guest. `rounds`: its host says when it has had its say."""
        self._rounds = rounds
        guests = [Component("g", "proxy `g`", CHANNEL, policy=policy)] if tape is not None else []
        components = [*guests, Component("agent", "agent `agent`")]
        self.router = Router(components, audited=["g"] if audited else ())
        self.changes: list[Changed] = []
        self.client, self.agent = End("client"), End("agent")
        self.guest = Wild() if tape is not None else None
        self.violations: list[Violated] = []
        self.unanswered: Counter[tuple[str, object]] = Counter()
        """The guest's requests without an answer while it was there …"""
        self.open = (0, 0)
        """… and how many of the client's and the agent's had none."""
        self._outboxes: dict[str, list[bytes]] = {}
        self.play("client", INITIALIZE)
        self.settle()
        assert self.client.answers.pop(0) == 1
        for end in (self.client, self.agent):
            end.got.clear()
            end.sent.clear()
        if self.guest is not None:
            self.guest.tape = Tape(tape or ())

    def run(self, script: Sequence[Step]) -> None:
        """Plays the script; at its end the guest is gone, and what it held goes on."""
        for number, step in enumerate(script):
            end = self.client if step.who == "client" else self.agent
            self.play(step.who, end.say(step, number))
            if step.pause:
                self.settle()
        self.settle()
        if self.guest is not None:
            self.unanswered = self.guest.asked - self.guest.answers
            self.open = self.router.pending("client"), self.router.pending("agent")
            self.apply(self.router.settled("g"))
            self.apply(self.router.bypassed("g", Closure("gone")))
            self.settle()

    def play(self, name: str, line: bytes) -> None:
        """Routes one line."""
        self.apply(self.router.receive(name, line))

    def apply(self, effects: Sequence[Effect]) -> None:
        """Queues what is sent."""
        for effect in effects:
            if isinstance(effect, Send):
                self._outboxes.setdefault(effect.peer, []).append(effect.frame.rstrip(b"\n"))
            elif isinstance(effect, Violated):
                self.violations.append(effect)
            elif isinstance(effect, Changed):
                self.changes.append(effect)

    def settle(self) -> None:
        """Gives everybody what is queued for them until nothing is."""
        while self._outboxes:
            name = next(iter(self._outboxes))
            lines = self._outboxes.pop(name)
            if name == "g":
                self._deliver(lines)
                continue
            end = self.client if name == "client" else self.agent
            for line in lines:
                for said in end.hear(line):
                    self.play(name, said)

    def _deliver(self, lines: Sequence[bytes]) -> None:
        assert self.guest is not None
        if self._rounds:
            self.router.delivering("g")
        for said in self.guest.hear(lines):
            self.play("g", said)
        if self._rounds:
            self.apply(self.router.delivered("g"))


def untouched(policy: Policy, item: Item, sender: str) -> bool:
    """Whether the guest holds no verb that lets it touch what `sender` said."""
    direction = Direction.DOWN if sender == "client" else Direction.UP
    touches = Verb.MODIFY | Verb.ANSWER
    if item.kind == "notification":
        touches = Verb.MODIFY
    held = policy.verbs(direction, item.method)
    if item.kind == "answer":
        # A request it may not touch has an answer it may not touch; the answer to a request that
        # it may have changed, answered or repeated is another matter.
        asked = policy.verbs(direction.opposite, item.method)
        return not asked & (touches | Verb.ORIGINATE) and Verb.MODIFY not in held
    return not held & touches
