"""Chains of guests in this process: alone below the router, or several in a host of their own.

A host is what `conductor.run.segment` is, reduced to its router: lines in, lines and reports out.
What
each guest does is drawn from a tape of numbers; zeros pass everything on.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from conductor.core import CHANNEL, UPSTREAM, Closure, Component, Effect, Entry, Send, Wake
from conductor.core.policy.policy_words import PolicyWords
from conductor.core.router import Router, RouterOptions
from conductor.record.trace.tracer import Tracer
from conductor.run.guest_module import component
from conductor.run.host_record import HostRecord
from conductor.run.log import ChainLog
from conductor.run.planned import Planned
from conductor.run.segment_spec import GuestSpec
from conductor.transports.framing import LINE_LIMIT
from tests.harness.router.actors import dump

Json = dict[str, Any]

GONE: Final = Closure("gone")
_NUMBERS: Final = 10**12
_OTHER: Final = {"p": "s", "s": "p"}


class Step(NamedTuple):
    """Something an end of the chain says."""

    who: str
    line: Json
    settle: bool = True
    """Whether all is read that was written before the next is said."""


class TapeGuest:
    """Does what its tape says with each message it is given."""

    def __init__(self, tape: Sequence[int] = ()) -> None:
        self._tape = list(tape)
        self._own = 0
        self._passed: dict[tuple[str, object], Json] = {}
        self._returned: dict[tuple[str, object], Json] = {}
        self._later: list[bytes] = []

    def _next(self, below: int) -> int:
        return self._tape.pop(0) % below if self._tape else 0

    def hear(self, lines: Iterable[bytes]) -> list[bytes]:
        """Takes one delivery; the result is the host's lines."""
        before, self._later = self._later, []
        said = [one for line in lines for one in self._one(chr(line[0]), json.loads(line[1:]))]
        return said + before

    def _one(self, side: str, message: Json) -> Iterator[bytes]:
        if side == "c":
            return
        if "method" not in message:
            yield from self._answered(side, message)
            return
        if message["method"] == "initialize":
            yield from self._on(side, message)
            return
        match self._next(9):
            case 1:
                message["params"] = {**message.get("params", {}), "changed": True}
                yield from self._on(side, message)
            case 2 if "id" in message:
                yield _line(side, id=message["id"], result={"by": "a guest"})
            case 3:
                yield self._ask(_OTHER[side], message)
                yield from self._on(side, message)
            case 4:
                self._later += self._on(side, message)
            case 5:  # dropped, or kept for good
                pass
            case 6:
                yield from self._on(side, message)
                yield from self._on(side, message)
            case 7:
                yield from self._on(side, message)
                yield _line(side, id=message.get("id", 77), result={"by": "too early"})
            case 8:
                yield from self._on(side, message)
                params = {"requestId": message.get("id", 1)}
                yield _line(_OTHER[side], method="$/cancel_request", params=params)
            case _:
                yield from self._on(side, message)

    def _on(self, side: str, message: Json) -> Iterator[bytes]:
        if "id" in message:
            self._passed[_OTHER[side], message["id"]] = message
        yield _line(_OTHER[side], **message)

    def _ask(self, side: str, message: Json) -> bytes:
        self._own += 1
        id_: object = self._own if self._next(2) else f"own-{self._own}"
        return _line(side, id=id_, method=message["method"], params=message.get("params", {}))

    def _answered(self, side: str, message: Json) -> Iterator[bytes]:
        asked = self._passed.pop((side, message["id"]), None)
        if asked is None:
            return
        back = _OTHER[side]
        match self._next(5):
            case 1:
                yield _line(back, id=message["id"], result={"changed": True})
            case 2:
                yield from self._on(back, asked)  # once more
            case 3:
                pass
            case 4:
                yield _line(back, **message)
                yield _line(back, **message)
            case _:
                yield _line(back, **message)


def _line(side: str, **message: object) -> bytes:
    return side.encode() + dump({"jsonrpc": "2.0", **message})


class AskingAgent:
    """Answers each request, and asks and tells something itself within a prompt."""

    def __init__(self) -> None:
        self._last = 0
        self._prompts: dict[int, Json] = {}

    def hear(self, line: bytes) -> Iterator[Json]:
        """The messages of the program after a line."""
        message = json.loads(line)
        if message.get("method") == "session/prompt":
            session = message.get("params", {}).get("sessionId")
            for kind in ("agent_message_chunk", "tool_call", "agent_message_chunk"):
                update = {"sessionUpdate": kind, "text": "x"}
                params = {"sessionId": session, "update": update}
                yield {"method": "session/update", "params": params}
            self._last += 1
            self._prompts[self._last] = message
            params = {"sessionId": session, "toolCall": {}, "options": []}
            yield {"id": self._last, "method": "session/request_permission", "params": params}
        elif "method" in message and "id" in message:
            yield {"id": message["id"], "result": {"protocolVersion": 1, "sessionId": "S"}}
        elif message.get("id") in self._prompts:
            asked = self._prompts.pop(message["id"])
            yield {"id": asked["id"], "result": {"stopReason": "end_turn"}}


class _Node:
    """A router, the lines that wait for each of its peers, and its wakes."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.outboxes: dict[str, list[bytes]] = {}
        self.wakes: list[int] = []


class HostedChain:
    """Groups of guests between a client and an agent, each in a host; but one alone whose name is
    upper case is in none.

    `told` is all that anybody was told, by name, as it was written.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[tuple[str, str]]],
        tapes: Sequence[Sequence[int]] = (),
        tracer: Tracer | None = None,
        *,
        audited: bool = False,
    ) -> None:
        self.told: defaultdict[str, list[bytes]] = defaultdict(list)
        """`groups`: names and profiles."""
        self._traced: ChainLog | None = None
        self._records: dict[str, HostRecord] = {}
        self._agent = AskingAgent()
        self.names = [name for group in groups for name, _ in group]
        drawn = [*tapes, *[()] * len(self.names)]
        self._guests = {
            name: TapeGuest(tape) for name, tape in zip(self.names, drawn, strict=False)
        }
        self._hosts: dict[str, _Node] = {}
        self._at: dict[str, _Node] = {}
        planned = []
        for at, group in enumerate(groups, 1):
            specs = [
                GuestSpec(name=name, policy=PolicyWords((profile,))) for name, profile in group
            ]
            guests = [component(spec, "core") for spec in specs]
            if len(guests) == 1 and group[0][0].isupper():
                planned.append(_planned(guests[0]))
                continue
            host, first = "+".join(one.name for one in guests), at * _NUMBERS
            audits = [one.name for one in guests] if audited else ()
            traced = first if tracer is not None else 0
            self._hosts[host] = self._host(host, guests, audits, traced)
            self._at |= {one.name: self._hosts[host] for one in guests}
            numbers = range(first, first + _NUMBERS) if tracer is not None else None
            made = Component(host, "", CHANNEL, numbers=numbers)
            planned.append(_planned(made, [one.name for one in guests]))
        planned.append(_planned(Component("agent")))
        self._planned = {one.component.name: one for one in planned}
        components = [one.component for one in planned]
        names = [one.name for one in components] if audited else ()
        self.main = _Node(
            Router(
                components,
                options=RouterOptions(audited=names, tracing=tracer is not None),
            )
        )
        if tracer is not None:
            self._traced = ChainLog([tracer], _log)
            self._traced.chain(planned, {})
        self.play([Step("client", {"id": 0, "method": "initialize", "params": VERSION})])

    def _host(
        self,
        name: str,
        guests: list[Component],
        audited: Sequence[str],
        first: int,
    ) -> _Node:
        """A host; one with a first number is traced."""
        if first:

            def send(lines: bytes) -> None:
                assert self._traced is not None
                self._traced.without_record(name, self._planned[name], lines.splitlines())

            self._records[name] = HostRecord(LINE_LIMIT, send)
        return _Node(
            Router(
                guests,
                "proxy",
                options=RouterOptions(
                    upstream=CHANNEL,
                    audited=audited,
                    tracing=first > 0,
                    first_number=first,
                ),
            )
        )

    def _report(self) -> None:
        for record in self._records.values():
            record.send()

    def close(self) -> None:
        """The trace ends."""
        assert self._traced is not None
        self._report()
        self._traced.end()
        self._traced.close()

    # -- what happens ----------------------------------------------------------------------------

    def play(self, steps: Iterable[Step]) -> None:
        """Plays the messages of the ends."""
        for step in steps:
            self._feed(self.main, step.who, dump({"jsonrpc": "2.0", **step.line}))
            if step.settle:
                self.settle()
        self.settle()

    def end(self) -> None:
        """Time passes, the client answers what it was asked, and one after the other all guests
        are gone."""
        self._wake()
        for name in self.names:
            self.bypass(name)
            self._wake()
        for line in list(self.told["client"]):
            message = json.loads(line)
            if "method" in message and "id" in message:
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
                self._feed(self.main, "client", dump(answer))
        self.settle()
        self._perform(self.main, self.main.router.closed("agent", GONE))
        self.settle()

    def _wake(self) -> None:
        for node in (*self._hosts.values(), self.main):
            tokens, node.wakes = node.wakes, []
            for token in tokens:
                self._perform(node, node.router.woken(token))
            self.settle()

    @property
    def open(self) -> int:
        """How many requests of the client and the agent have no answer."""
        return sum(self.main.router.pending(name) for name in (UPSTREAM, "agent"))

    def bypass(self, name: str) -> None:
        """The chain goes on without a guest."""
        node = self._at.get(name, self.main)
        node.outboxes.pop(name, None)
        self._perform(node, node.router.bypassed(name, GONE))
        self.settle()

    def restart(self, name: str) -> None:
        """A guest is gone and comes back."""
        node = self._at.get(name, self.main)
        if node.router.has_role(name) and node.router.peers[name].closure is None:
            node.outboxes.pop(name, None)
            self._perform(node, node.router.leaving(name, GONE))
            self._guests[name] = TapeGuest()
            self._delivered(node, name, [], [])  # it has started
            self._perform(node, node.router.returned(name))
            self.settle()

    def settle(self) -> None:
        """All peers read the lines for them."""
        for _ in range(5000):
            busy = [node for node in (*self._hosts.values(), self.main) if node.outboxes]
            if not busy:
                return
            self._take(busy[0])
        raise AssertionError("they never come to an end")

    def _take(self, node: _Node) -> None:
        name = next(iter(node.outboxes))
        lines = node.outboxes.pop(name)
        if node is self.main and name in self._hosts:
            for line in lines:
                self._feed(self._hosts[name], UPSTREAM, line)
        elif name in self._guests:
            self.told[name] += lines
            node.router.delivering(name)
            returned = self._guests[name].hear(lines)
            self._delivered(node, name, lines, returned)
            for line in returned:
                self._feed(node, name, line)
            self._perform(node, node.router.delivered(name))
        elif name == UPSTREAM and node is not self.main:
            host = self._name_of(node)
            self._report()
            for line in lines:
                self._feed(self.main, host, line)
        else:
            self.told[name] += lines
            if name == "agent":
                for line in lines:
                    for said in self._agent.hear(line):
                        self._feed(self.main, "agent", dump({"jsonrpc": "2.0", **said}))

    def _delivered(self, node: _Node, name: str, given: list[bytes], returned: list[bytes]) -> None:
        if node is not self.main and self._records:
            record = self._records[self._name_of(node)]
            record.delivered(name, _joined(given), _joined(returned))

    def _name_of(self, node: _Node) -> str:
        return next(host for host, one in self._hosts.items() if one is node)

    def _feed(self, node: _Node, name: str, line: bytes) -> None:
        self._perform(node, node.router.receive(name, line))

    def _perform(self, node: _Node, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, frame):
                    node.outboxes.setdefault(peer, []).extend(frame.splitlines())
                case Wake(token):
                    node.wakes.append(token)
                case Entry():
                    self._trace(node, effect)
                case _:
                    pass

    def _trace(self, node: _Node, trace: Entry) -> None:
        if node is self.main:
            assert self._traced is not None
            self._traced.add(trace)
            self._traced.mode = node.router.mode
            self._traced.drain()
        else:
            self._records[self._name_of(node)].crossed(trace)


VERSION: Final = {"protocolVersion": 1}


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _planned(component: Component, guests: Sequence[str] = ()) -> Planned:
    return Planned(component, transport=None, guests=tuple(guests))  # type: ignore[arg-type]


def _log(level: str, name: str, text: str) -> None:
    raise AssertionError(f"{level}: {name}: {text}")
