"""A storm: components end, return, are paused and replaced at any moment, deadlines come late or
twice, frames are refused and peers answer as they like. Then all are honest, and nobody waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import CHANNEL, Closure, Component, Effect, Router, Send, Serve, Wake
from conductor.core.policy.key_table import Right
from conductor.core.policy.rules import NO_PROFILE, PROFILES, Grants, Policy, Rule
from conductor.core.rearranging import newcomer
from tests.harness.router.actors import Guest, Json, dump
from tests.harness.router.policed import initialize
from tests.harness.world.ends import CANCEL, DOWN, PROMPT, UP, Step, asks, params_of
from tests.harness.world.policies import KEYS

GONE: Final = Closure("gone")
ENDS: Final = ("client", "agent")
OTHER: Final = {"p": "s", "s": "p"}
RIGHTS: Final = (1, 2, 6, 10, 18, 33, 62, 63)
GRANTS: Final = (Grants(), Grants(turns="within"), Grants(turns="unprompted"))
Key = tuple[str, str]
"""Side and id of a request."""


class Held:
    """A request that somebody was given and has not answered."""

    def __init__(self, message: Json) -> None:
        self.method, self.params = message["method"], message.get("params", {})
        self.passed: Key | None = None


class Node:
    """What one peer knows of itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inbox: list[bytes] = []
        self.given: dict[Key, Held] = {}
        self.asked: dict[Key, list[Key | None]] = {}
        """Its open requests, and of which each is passed on."""
        self.last = 0


class Storm:
    """One router, and all around it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.components = [self._component(f"g{at}") for at in range(rng.randrange(4))]
        self.router = Router([*self.components, Component("agent", "agent `agent`")])
        initialize(self.router, self.components)
        names = [*ENDS, *(one.name for one in self.components)]
        self.nodes = {name: Node(name) for name in names}
        self.away: set[str] = set()
        self.joining: dict[str, Guest] = {}
        self.wakes: list[int] = []
        self.woken: list[int] = []
        self.calls: list[int] = []
        self.holds = 0

    def _component(self, name: str) -> Component:
        rng, policy = self.rng, None
        fails = rng.choice(["open", "open", "closed"])
        if rng.random() < 0.3:
            policy = Policy(rng.choice(sorted(PROFILES)), fails=fails)
        elif rng.random() < 0.7:
            some = rng.sample(KEYS, rng.randrange(14))
            rules = tuple(Rule(*at, Right(rng.choice(RIGHTS))) for at in some)
            policy = Policy(NO_PROFILE, rules, rng.choice(GRANTS), fails=fails)
        return Component(name, f"proxy `{name}`", CHANNEL, policy=policy)

    # -- what the router asks for ----------------------------------------------------------------

    def perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, frame):
                    assert peer in self.nodes or peer in self.joining, effect
                    assert peer not in self.away, effect
                    self._told(peer, frame[:-1])
                case Wake(token):
                    self.wakes.append(token)
                case Serve(_, _, int(token)):
                    self.calls.append(token)
                case _:
                    pass

    def _told(self, peer: str, line: bytes) -> None:
        actor = self.joining.get(peer)
        message = json.loads(line[1:]) if actor is not None else {}
        if actor is not None and message.get("method", "initialize") == "initialize":
            for name, said in actor.hear(peer, line):
                self.perform(self.router.receive(name, said))
        else:
            self.nodes[peer.removesuffix("/new")].inbox.append(line)

    def say(self, node: Node, side: str, message: Json) -> None:
        """A peer says a line, if it is there."""
        if self.nodes.get(node.name) is node and node.name not in self.away:
            tag = b"" if node.name in ENDS else side.encode()
            line = tag + dump({"jsonrpc": "2.0", **message})
            self.perform(self.router.receive(node.name, line))

    # -- what peers do ---------------------------------------------------------------------------

    def reads(self, node: Node, *, honest: bool = False) -> None:
        """A peer reads all that was written to it, in one round if it is a guest."""
        guest = node.name not in ENDS
        if guest:
            self.router.delivering(node.name)
        for _ in range(len(node.inbox)):
            line = node.inbox.pop(0)
            side = chr(line[0]) if guest else "p"
            message = json.loads(line[1:] if guest else line)
            for one in message if isinstance(message, list) else [message]:
                self._hears(node, side, one, honest=honest)
        if guest:
            self.perform(self.router.delivered(node.name))

    def _hears(self, node: Node, side: str, message: Json, *, honest: bool) -> None:
        id_, method = json.dumps(message.get("id")), message.get("method")
        key = side, id_
        if side == "c" or (method is None and message["id"] is None):
            return
        if method is None:
            self._answered(node, key, message, honest=honest)
        elif method == CANCEL:
            key = side, json.dumps(message["params"]["requestId"])
            if key in node.given and (honest or self.rng.random() < 0.5):
                self._stops(node, key)
        elif "id" in message:
            assert key not in node.given, "an id is open twice"
            node.given[key] = Held(message)
            if honest or self.rng.random() < 0.5:
                self.acts(node, key, honest=honest)
        elif node.name not in ENDS and (honest or self.rng.random() < 0.8):
            self.say(node, OTHER[side], {"method": method, "params": message.get("params", {})})

    def _answered(self, node: Node, key: Key, message: Json, *, honest: bool) -> None:
        if node.name in ENDS:
            assert node.asked.pop(key, None) is not None, (node.name, message)
            return
        origins = node.asked.get(key)
        assert origins, (node.name, message)
        origin = origins.pop(0)
        if not origins:
            del node.asked[key]
        if origin not in node.given:
            return
        answer: Json = {name: message[name] for name in ("result", "error") if name in message}
        how = 0 if honest else self.rng.randrange(8)
        if how == 1:
            self.forwards(node, origin)  # asks once more
        elif how == 2:
            node.given[origin].passed = None  # keeps the answer for later
        else:
            self.answers(node, origin, {"result": {"changed": 1}} if how == 3 else answer)

    def _stops(self, node: Node, key: Key) -> None:
        held = node.given[key]
        if held.passed is None:
            self.answers(node, key, {"error": {"code": -32800, "message": "stopped"}})
        else:
            params = {"requestId": json.loads(held.passed[1])}
            self.say(node, held.passed[0], {"method": CANCEL, "params": params})

    def acts(self, node: Node, key: Key, *, honest: bool) -> None:
        """Does something about a request."""
        how = 0 if honest else self.rng.randrange(9)
        held = node.given[key]
        odd: list[Json] = [{"error": {"code": 1, "message": "no"}}, {"result": {}, "error": {}}, {}]
        if node.name in ENDS:
            self.answers(node, key, odd[how] if 0 < how < len(odd) else {"result": {}})
            if how == 3:
                self.say(node, key[0], {"id": json.loads(key[1]), "result": {}})  # twice
        elif held.passed is None or how == 1:
            if how in (1, 2):
                self.answers(node, key, odd[0] if how == 2 else {"result": {"early": 1}})
            else:
                self.forwards(node, key, other_id=how == 3, changed=how == 4)

    def forwards(
        self, node: Node, key: Key, *, other_id: bool = False, changed: bool = False
    ) -> None:
        held, side = node.given[key], OTHER[key[0]]
        id_ = json.loads(key[1])
        if other_id:
            node.last += 1
            id_ = f"{node.name}-{node.last}"
        held.passed = side, json.dumps(id_)
        node.asked.setdefault(held.passed, []).append(key)
        params = {**held.params, "changed": 1} if changed else held.params
        self.say(node, side, {"id": id_, "method": held.method, "params": params})

    def answers(self, node: Node, key: Key, answer: Json) -> None:
        del node.given[key]
        self.say(node, key[0], {"id": json.loads(key[1]), **answer})

    # -- what happens ----------------------------------------------------------------------------

    def step(self) -> None:
        """Anything."""
        rng, there = self.rng, [n for n in self.nodes.values() if n.name not in self.away]
        happens = rng.random()
        if happens < 0.3:
            self.begins(self.nodes[rng.choice(("client", "client", "agent"))])
        elif happens < 0.55:
            busy = [node for node in there if node.inbox]
            if busy:
                self.reads(rng.choice(busy))
        elif happens < 0.7:
            node = rng.choice(there)
            if node.given:
                self.acts(node, rng.choice(list(node.given)), honest=False)
        else:
            guests = [node for node in there if node.name not in ENDS]
            rng.choice(EVENTS)(self, rng.choice(guests) if guests else None)

    def begins(self, node: Node) -> None:
        """Somebody says something of its own."""
        rng = self.rng
        side = "p" if node.name in ENDS else rng.choice("ps")
        down = node.name == "client" or (node.name != "agent" and side == "s")
        key = rng.choice(DOWN if down else UP)
        method = key.partition("[")[0]
        if method == CANCEL:
            ids = [json.loads(id_) for at, id_ in node.asked if at == side] or [1]
            self.say(node, side, {"method": CANCEL, "params": {"requestId": rng.choice(ids)}})
            return
        asked = asks(key, either=rng.random() < 0.5)
        message: Json = {"method": method}
        session = rng.choice(["S", "S", "T", None])
        message["params"] = params_of(Step(node.name, key, session, asked), rng.randrange(99))
        if asked:
            node.last += 1
            message["id"] = f"own-{node.last}"
            node.asked[side, json.dumps(message["id"])] = [None]
        self.say(node, side, message)

    def comes_back(self, name: str) -> None:
        """A component that was away is up again."""
        self.away.discard(name)
        self.joining[name] = Guest(name)
        self.perform(self.router.returned(name))
        del self.joining[name]

    def rearranges(self) -> None:
        """The chain gets other components at once, whatever is open."""
        rng = self.rng
        order = [one for one in self.components if one.name in self.nodes and rng.random() < 0.7]
        rng.shuffle(order)
        there = {one.name for one in order}
        new = [name for name in ("g0", "g1", "g2") if name not in there and rng.random() < 0.5]
        order += [self._component(name) for name in new]
        self.joining = {newcomer(name): Guest(newcomer(name)) for name in new}
        agent = self.router.peers["agent"].component
        kept = {name: self.nodes[name] for name in (*ENDS, *there)}
        self.nodes |= {name: Node(name) for name in new}
        self.perform(self.router.prepare([*order, agent], new))
        self.joining.clear()
        self.nodes = kept | {name: Node(name) for name in new}
        self.components = order
        self.perform(self.router.rearrange(GONE))

    # -- and then ----------------------------------------------------------------------------------

    def calms(self) -> None:
        """All are there again and honest, and time passes."""
        while self.holds:
            release(self, None)
        for name in sorted(self.away):
            self.comes_back(name)
        for _ in range(60):
            for node in list(self.nodes.values()):
                self.reads(node, honest=True)
                for key, held in list(node.given.items()):
                    if key in node.given and held.passed not in node.asked:
                        held.passed = None
                        self.acts(node, key, honest=True)
            serve(self, None)
            for _ in range(len(self.wakes)):
                wake(self, None)
        for node in self.nodes.values():
            assert node.asked == {}, (node.name, node.asked)
            assert node.given == {}, (node.name, node.given)
            assert self.router.waiting_on(node.name) == []
            assert self.router.pending(node.name) == 0


# -- events: each of a storm, and of a guest that is there, if one is ---------------------------


def wake(storm: Storm, guest: Node | None) -> None:
    """A deadline comes, and later perhaps once more."""
    if storm.wakes:
        token = storm.wakes.pop(storm.rng.randrange(len(storm.wakes)))
        storm.woken.append(token)
        storm.perform(storm.router.woken(token))


def wake_again(storm: Storm, guest: Node | None) -> None:
    """One that has come comes again."""
    if storm.woken:
        storm.perform(storm.router.woken(storm.rng.choice(storm.woken)))


def leave(storm: Storm, guest: Node | None) -> None:
    """A guest ends, and will be started again."""
    if guest is not None and storm.router.has_role(guest.name):
        storm.nodes[guest.name] = Node(guest.name)
        storm.away.add(guest.name)
        storm.perform(storm.router.leaving(guest.name, GONE))


def come_back(storm: Storm, guest: Node | None) -> None:
    """One that was to be started again is."""
    if storm.away:
        storm.comes_back(storm.rng.choice(sorted(storm.away)))


def bypass(storm: Storm, guest: Node | None) -> None:
    """The chain goes on without a guest."""
    if guest is not None and storm.rng.random() < 0.3:
        del storm.nodes[guest.name]
        storm.perform(storm.router.bypassed(guest.name, GONE))


def pause(storm: Storm, guest: Node | None) -> None:
    """A guest is paused, or resumed."""
    if guest is not None and storm.router.quiet():
        storm.perform(storm.router.pause(guest.name, paused=storm.rng.random() < 0.5))


def hold(storm: Storm, guest: Node | None) -> None:
    """The client's prompts wait."""
    storm.router.hold()
    storm.holds += 1


def release(storm: Storm, guest: Node | None) -> None:
    """They wait no longer."""
    if storm.holds:
        storm.holds -= 1
        storm.perform(storm.router.release())


def refuse(storm: Storm, guest: Node | None) -> None:
    """A request for somebody, or a result, is refused by the transport."""
    for node in storm.nodes.values():
        for line in node.inbox:
            body = line if node.name in ENDS else line[1:]
            if line[:1] != b"c" and (b'"method":' in body or b'"result":' in body):
                node.inbox.remove(line)
                storm.perform(storm.router.undeliverable(node.name, line, "too long"))
                return


def skip(storm: Storm, guest: Node | None) -> None:
    """An answer is too long to be taken."""
    for node in storm.nodes.values():
        for key in list(node.given) if node.name not in storm.away else ():
            del node.given[key]
            tag = b"" if node.name in ENDS else key[0].encode()
            head = tag + b'{"jsonrpc":"2.0","id":%b,"result":{"' % key[1].encode()
            storm.perform(storm.router.skipped(node.name, head, "too long"))
            return


def expire(storm: Storm, guest: Node | None) -> None:
    """Somebody has not answered in time."""
    name = storm.rng.choice([name for name in storm.nodes if name not in storm.away])
    late = storm.router.waiting_on(name)
    if late:
        storm.perform(storm.router.expire(name, storm.rng.choice(late)[0], GONE))


def end_turn(storm: Storm, guest: Node | None) -> None:
    """Nothing moves in a turn of the agent."""
    late = [key for key, method in storm.router.waiting_on("agent") if method == PROMPT]
    if late:
        storm.perform(storm.router.end_turn("agent", storm.rng.choice(late), GONE))


def rearrange(storm: Storm, guest: Node | None) -> None:
    """The chain gets other components, mostly between two messages."""
    if not storm.away and (storm.router.quiet() or storm.rng.random() < 0.1):
        storm.rearranges()


def own(storm: Storm, guest: Node | None) -> None:
    """A guest says something of its own."""
    if guest is not None:
        storm.begins(guest)


def turn(storm: Storm, guest: Node | None) -> None:
    """A guest wants a turn, and never ends it."""
    if guest is not None:
        guest.last += 1
        params = {"sessionId": storm.rng.choice("ST")}
        storm.say(guest, "c", {"id": guest.last, "method": "turn/begin", "params": params})


def stray(storm: Storm, guest: Node | None) -> None:
    """A guest answers what it may never have been asked."""
    if guest is not None:
        side, id_ = storm.rng.choice("ps"), storm.rng.randrange(20)
        if (side, str(id_)) not in guest.given:
            storm.say(guest, side, {"id": id_, "result": {}})


def serve(storm: Storm, guest: Node | None) -> None:
    """What guests have called is performed."""
    while storm.calls:
        storm.perform(storm.router.served(storm.calls.pop(), b"{}"))


EVENTS: Final[tuple[Callable[[Storm, Node | None], Any], ...]] = (
    wake, wake, wake_again, leave, come_back, come_back, bypass, pause, hold, release, release,
    refuse, skip, expire, end_turn, rearrange, own, own, turn, stray, serve,
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(20, 80))
def test_after_a_storm_nobody_waits_and_each_request_had_one_answer(
    rng: Random, steps: int
) -> None:
    storm = Storm(rng)
    for _ in range(steps):
        storm.step()
    storm.calms()
