"""A storm: components end, return, are paused and replaced at any moment, deadlines come late or
twice, frames are refused and peers answer as they like. Then all are honest, and nobody waits.

A storm is numbers: each is the seed of one component or of one step. What a peer does with a line
depends on the line alone, so that a step means the same whatever has happened before it. It uses
nothing of the router but what shells use, and looks into nothing.
"""

import json
import re
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Final, NamedTuple

from conductor.core import (
    Closure,
    Component,
    Effect,
    Fail,
    Keep,
    Listen,
    Propagate,
    Recall,
    Reopen,
    Resolve,
    Send,
    Serve,
    Violated,
    Wake,
)
from conductor.core.component import newcomer
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import FORMS, Json, dump
from tests.harness.world.ends import CANCEL, PROMPT
from tests.harness.world.storm_cast import Drawn, component, hosts
from tests.harness.world.storm_hosts import Host
from tests.harness.world.storm_lines import (
    ODD_ANSWERS,
    changed_answer,
    changed_params,
    result_of,
    said_by,
)
from tests.harness.world.wild import Program

GONE: Final = Closure("gone")
ENDS: Final = ("client", "agent")
PEERS: Final = ("beside", "apart")
"""Peer agents, where there are ports."""
OTHER: Final = {"p": "s", "s": "p"}
_DIGEST: Final = re.compile("conductor-payload:sha256:([0-9a-f]{64})")
_IN_USE: Final = re.compile(r".*request id (.*) is still in use")
_REFUSED: Final = "a message must have a `method`"
Key = tuple[str, str]
"""Side and id of a request."""


class Weather(NamedTuple):
    """The features that a storm may have beside guests that are policed or trusted."""

    version: int = 1
    programs: bool = False
    """Components of every dialect."""
    hosts: bool = False
    """Some guests are in hosts (`conductor.run.segment`)."""
    free: bool = False
    """Components have turns and sessions of their own."""
    plain: bool = False
    """Little goes wrong: components are mostly honest, and have a profile each and no more."""
    detected: bool = False
    """The router may have to find out which dialect a program speaks."""
    ports: bool = False
    """Two peer agents beside the chain."""
    moves: bool = False
    """The peer agents are further agents of the chain: sessions may move to them."""
    revived: bool = False
    """The agent may be started again."""
    limited: bool = False
    """Turns of the agent in which nothing moves are ended."""
    options: RouterOptions = RouterOptions()
    """`audited` is all components or none."""


CALM: Final = Weather()


class Asked:
    """A request that somebody was given and has not answered."""

    def __init__(self, message: Json) -> None:
        self.method, self.params = message["method"], message.get("params", {})
        self.passed: Key | None = None


class Node:
    """The state of one peer: a component, a guest in a host, or an end."""

    def __init__(self, name: str, drawn: Drawn | None = None, host: Host | None = None) -> None:
        self.name = name
        self.drawn = drawn
        self.host = host
        self.inbox: list[bytes] = []
        """Lines as a guest gets them: a side and a message; at an end all are on side `p`."""
        self.given: dict[Key, Asked] = {}
        self.asked: dict[Key, list[Key | None]] = {}
        """The peer's open requests, each with the requests of which it is passed on."""
        self.heard: Counter[int] = Counter()
        self.past: list[tuple[Key, Asked]] = []
        """Requests that the peer has answered, the latest last."""
        self.last = 0
        self.turns: list[str] = []
        self.sessions: list[str] = []
        """The sessions that the peer has opened; of the agent: those in which it was prompted."""
        self.digests: list[str] = []
        """The digests of the texts to which the peer has references."""
        self.says: list[bytes] = []
        """The lines that a guest in a host returns of its next delivery."""
        self.program: Program | None = None
        if drawn is not None and drawn.kind != "channel":
            self.program = Program(name, drawn.kind, keeps=drawn.keeps, inside=self._hears)

    @property
    def is_end(self) -> bool:
        """Whether the peer is the client, the agent or a peer agent."""
        return self.drawn is None

    def _hears(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        self.inbox += lines
        return iter(())


class Storm:
    """A router with all its peers. `cast`: a seed for each component."""

    def __init__(self, cast: Sequence[int], weather: Weather = CALM, salt: int = 0) -> None:
        self.weather = weather
        self.salt = salt
        self.rng = Random(salt)  # noqa: S311 - a seed
        self.honesty = self.rng.choice((0.9, 0.97) if weather.plain else (0, 0.5, 0.9))
        """The share of lines that components handle honestly."""
        self.order = [self._drawn(seed, f"g{at}") for at, seed in enumerate(cast)]
        self.nodes: dict[str, Node] = {name: Node(name) for name in ENDS}
        self.hosts: dict[str, Host] = {}
        self.away: set[str] = set()
        self.launched: set[str] = set()
        """The programs with a connection to their successor."""
        self.fatal: list[str] = []
        """Whom a violation ends."""
        self.wakes: list[int] = []
        self.woken: list[int] = []
        self.calls: list[Effect] = []
        """Services and look-ups that nobody has performed yet."""
        self.records: list[tuple[str, bytes]] = []
        self.holds = 0
        self.asks = 0
        self.over = False
        self._queue: deque[tuple[str, bytes]] = deque()
        self._agent = Component(
            "agent", "agent `agent`", revived=weather.revived, limited=weather.limited
        )
        self._beside = [
            Component(name, peer_agent=True) for name in PEERS if weather.ports or weather.moves
        ]
        self.nodes |= {one.name: Node(one.name) for one in self._beside}
        self.router = self.made(self._components())
        self.perform(self.router.start())
        for host in self.hosts.values():
            self.from_host(host, host.start())
        about = {"protocolVersion": weather.version, "info": {"name": "c", "version": "1"}}
        able = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
        params = {**about, "clientCapabilities": able}
        self.nodes["client"].asked["p", '"i"'] = [None]
        self.say(self.nodes["client"], "p", {"id": "i", "method": "initialize", "params": params})
        self.settle()

    def _drawn(self, seed: int, name: str) -> Drawn:
        kinds = self.weather
        return component(
            Random(seed),  # noqa: S311
            name,
            programs=kinds.programs,
            detected=kinds.detected,
            free=kinds.free,
            plain=kinds.plain,
        )

    def made(self, components: Sequence[Component]) -> Router:
        """The router: another may stand before it."""
        options = self.weather.options
        return Router(components, options=options)

    def _components(self) -> list[Component]:
        """The components as the router has them; guests drawn as hosted are in hosts."""
        ports = dict.fromkeys((one.name for one in self._beside), True)
        groups = hosts(self.order) if self.weather.hosts else [[one] for one in self.order]
        found: list[Component] = []
        for group in groups:
            if len(group) == 1 and not (self.weather.hosts and group[0].hosted):
                (drawn,) = group
                policed = drawn.component.policy is not None
                held = {name: policed for name in ports if drawn.kind == "channel"}
                found.append(drawn.beside({} if self.weather.moves else held, self._uses(drawn)))
                self.nodes.setdefault(drawn.name, Node(drawn.name, drawn))
                continue
            host = Host([one.component for one in group], self.weather.options)
            for one in group:
                self.nodes[one.name] = node = Node(one.name, one, host)
                host.plays(one.name, partial(self.delivered, node))
            self.hosts[host.name] = host
            found.append(host.component)
        return [*found, *self._beside, self._agent]

    def _uses(self, drawn: Drawn) -> dict[str, str]:
        """The agents with which a component may have sessions go on: each is of one component."""
        if not self.weather.moves:
            return {}
        chosen = [one for one in PEERS if zlib.crc32(one.encode(), self.salt) % len(self.order)
                  == self.order.index(drawn)]  # fmt: skip
        return dict.fromkeys(chosen, drawn.name)

    # -- what the router asks for ----------------------------------------------------------------

    def perform(self, effects: Iterable[Effect]) -> None:
        """Performs effects, and routes what is answered at once."""
        self._take(effects)
        while self._queue:
            self._take(self.heard(*self._queue.popleft()))

    def heard(self, name: str, line: bytes) -> list[Effect]:
        """The router is told a line, if the program has that connection."""
        if name.endswith("/successor") and name.removesuffix("/successor") not in self.launched:
            return []
        return self.router.receive(name, line)

    def _take(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, frame):
                    for line in frame.splitlines():
                        self._told(peer, line)
                case Propagate(peer, id_, method, params):
                    line = b'{"jsonrpc":"2.0","id":%b,"method":"%b"' % (id_, method.encode())
                    self._told(peer, line + b',"params":%b}' % (bytes(params) or b"{}"))
                case Wake(token):
                    self.wakes.append(token)
                case Serve(_, _, int()) | Resolve() | Recall():
                    self.calls.append(effect)
                case Keep(_, session, prompt):
                    if prompt.record:
                        self.records.append((session, prompt.record))
                case Listen(peer):
                    self.launched.add(peer)
                    self._take(self.router.listening(peer, b'{"command":"shim"}'))
                case Reopen(peer):
                    self._take(self.router.reopened(peer))
                case Violated(peer, fatal=True):
                    self.fatal.append(peer)
                case Fail(peer):
                    self.over = self.over or not peer.endswith("/new")
                case _:
                    pass

    def _told(self, peer: str, line: bytes) -> None:
        name = peer.removesuffix("/successor").removesuffix("/new")
        if name in self.hosts:
            self.hosts[name].inbox.append(line)
            return
        node = self.nodes.get(name)
        if node is None:
            self.broken(f"{peer} is told something, and not there")
        elif node.is_end:
            if line[:1] != b"#":
                node.inbox.append(b"p" + line)
        elif node.program is not None:
            for one in _singly(line):
                said = node.program.hear(peer.replace("/new", ""), one)
                self._queue += [(self._wire_name(at), text) for at, text in said]
        else:
            node.inbox.append(line)

    def broken(self, what: str) -> None:
        """Something that never happens has happened."""
        raise AssertionError(what)

    def say(self, node: Node, side: str, message: Json) -> None:
        """A peer says a line, if it is there."""
        if self.nodes.get(node.name) is node and node.name not in self.away:
            self.says(node, side.encode() + dump({"jsonrpc": "2.0", **message}))

    def says(self, node: Node, line: bytes) -> None:
        """A peer says a line, with a side before it."""
        name = self._wire_name(node.name)
        if node.is_end:
            self.perform(self.router.receive(name, line[1:]))
        elif node.host is not None:
            node.says.append(line)
        elif node.program is not None:
            if line[:1] == b"c":  # programs call services by their longer names
                line = b"p" + line[1:].replace(b'"method":"', b'"method":"_conductor/', 1)
            peer, said = node.program.say(line)
            self.perform(self.heard(self._wire_name(peer), said))
        else:
            self.perform(self.router.receive(name, line))

    def _wire_name(self, name: str) -> str:
        """The name by which the router calls a peer."""
        return newcomer(name) if name in self._joining else name

    _joining: frozenset[str] = frozenset()
    """Who is about to join the chain."""

    # -- what peers do ---------------------------------------------------------------------------

    def reads(self, node: Node, *, honest: bool = False) -> None:
        """A peer reads all that was written to it, in one round if it is a guest."""
        guest = not node.is_end and node.program is None and node.host is None
        name = self._wire_name(node.name)
        if guest:
            self.router.delivering(name)
        before = self.rng
        for _ in range(len(node.inbox)):
            line = node.inbox.pop(0)
            mark = zlib.crc32(node.name.encode() + line, self.salt)
            node.heard[mark] += 1  # else what is said once more is answered once more, for ever
            self.rng = Random(mark + node.heard[mark])  # noqa: S311
            node.digests += _DIGEST.findall(line.decode(errors="replace"))
            try:
                found = json.loads(line[1:])
            except ValueError:
                self.broken(f"{node.name} is told {line!r}")
                continue
            for one in found if isinstance(found, list) else [found]:
                fair = honest or self.rng.random() < self.honesty
                self._hears(node, chr(line[0]), one, honest=fair)
        self.rng = before
        if guest:
            self.perform(self.router.delivered(name))

    def delivered(self, node: Node, lines: Sequence[bytes]) -> list[bytes]:
        """A guest in a host gets lines; returns the guest's lines."""
        node.inbox += lines
        self.reads(node, honest=self.calm)
        said, node.says = node.says, []
        return said

    calm = False
    """Whether guests in hosts are honest from now on."""

    def _hears(self, node: Node, side: str, message: Json, *, honest: bool) -> None:
        id_, method = json.dumps(message.get("id")), message.get("method")
        key = side, id_
        if method is None:
            if message.get("id") is not None:
                self._answered(node, key, message, honest=honest)
            elif found := _IN_USE.match(str(message)):
                (node.asked.get((side, found[1])) or [None]).pop()
        elif side == "c" or method.startswith("_conductor/"):
            pass
        elif method == CANCEL:
            key = side, json.dumps(message["params"].get("requestId"))
            if key in node.given and (honest or self.rng.random() < 0.5):
                self._stops(node, key)
        elif "id" in message:
            if key in node.given:
                self.broken(f"{node.name} is asked twice under one id")
            node.given[key] = Asked(message)
            agents = ("agent", *PEERS) if self.weather.moves else ("agent",)
            if node.name in agents and method == PROMPT and isinstance(message["params"], dict):
                node.sessions += filter(None, [message["params"].get("sessionId")])
            if honest or method == "initialize" or self.rng.random() < 0.5:
                self.acts(node, key, honest=honest or method == "initialize")
        elif not node.is_end and (honest or self.rng.random() < 0.8):
            params = message.get("params", {})
            if not honest and self.rng.random() < 0.3:
                params = changed_params(self.rng, method, params)
            self.say(node, OTHER[side], {"method": method, "params": params})

    def _answered(self, node: Node, key: Key, message: Json, *, honest: bool) -> None:
        origins = node.asked.get(key)
        if not origins:
            if str(message["id"]).startswith("odd") or _REFUSED in str(message):
                return  # to what was no request
            if node.is_end or node.program is None:
                self.broken(f"{node.name} gets an answer that it has not asked for: {message}")
            return
        origin = origins.pop(0)
        if not origins:
            del node.asked[key]
        found = message.get("result")
        if isinstance(found, dict) and isinstance(found.get("turn"), str):
            node.turns.append(found["turn"])
        if isinstance(found, dict) and isinstance(found.get("sessionId"), str) and origin is None:
            node.sessions.append(found["sessionId"])
        if origin not in node.given or origin is None:
            return
        answer: Json = {name: message[name] for name in ("result", "error") if name in message}
        how = 0 if honest else self.rng.randrange(8)
        if how == 1:
            self.forwards(node, origin)  # asks once more
        elif how == 2:
            node.given[origin].passed = None  # keeps the answer for later
        else:
            method = node.given[origin].method
            self.answers(
                node, origin, changed_answer(self.rng, method, answer) if how == 3 else answer
            )

    def _stops(self, node: Node, key: Key) -> None:
        held = node.given[key]
        if held.passed is None:
            self.answers(node, key, {"error": {"code": -32800, "message": "stopped"}})
        else:
            params = {"requestId": json.loads(held.passed[1])}
            self.say(node, held.passed[0], {"method": CANCEL, "params": params})

    def acts(self, node: Node, key: Key, *, honest: bool) -> None:
        """Does something about a request."""
        how = 0 if honest else self.rng.randrange(12)
        held = node.given[key]
        if node.is_end or held.method in ("proxy/successor", "_proxy/successor"):
            fine = {"result": result_of(held.method, held.params, self.weather.version)}
            if self.weather.moves and node.name in PEERS and held.method == "session/new":
                node.last += 1
                fine = {"result": {"sessionId": f"{node.name}-{node.last}"}}
            self.answers(node, key, ODD_ANSWERS[how - 1] if 0 < how < 4 else fine)
            if how == 4:
                self.say(node, key[0], {"id": json.loads(key[1]), "result": {}})  # twice
        elif held.passed is None or how == 1:
            if how in (1, 2):
                early = {"result": {"early": 1}}
                self.answers(node, key, ODD_ANSWERS[0] if how == 2 else early)
            else:
                self.forwards(node, key, other_id=how == 3, changed=how in (4, 5, 6))
                if how == 6:
                    self.forwards(node, key)  # twice

    def forwards(
        self, node: Node, key: Key, *, other_id: bool = False, changed: bool = False
    ) -> None:
        """Passes a request on."""
        self.passes_on(node, key, node.given[key], other_id=other_id, changed=changed)

    def passes_on(
        self, node: Node, key: Key, held: Asked, *, other_id: bool = False, changed: bool = False
    ) -> None:
        """Passes on a request that it has, or had."""
        side = OTHER[key[0]]
        id_ = json.loads(key[1])
        if other_id:
            node.last += 1
            id_ = f"{node.name}-{node.last}"
        held.passed = side, json.dumps(id_)
        node.asked.setdefault(held.passed, []).append(key)
        params = changed_params(self.rng, held.method, held.params) if changed else held.params
        self.say(node, side, {"id": id_, "method": held.method, "params": params})

    def answers(self, node: Node, key: Key, answer: Json) -> None:
        """Answers a request."""
        if (held := node.given.pop(key, None)) is not None:
            node.past = [*node.past[-4:], (key, held)]
            self.say(node, key[0], {"id": json.loads(key[1]), **answer})

    def begins(self, node: Node) -> None:
        """Somebody says something of its own."""
        side = "p" if node.is_end else self.rng.choice("ps")
        down = node.name == "client" or (not node.is_end and side == "s")
        rng, plain = self.rng, self.weather.plain
        said = said_by(rng, node.name, node.asked, side, node.sessions, down=down, plain=plain)
        for message in said:
            if "id" in message:
                if message["id"] is True:
                    node.last += 1
                    message["id"] = f"own-{node.last}" if self.rng.random() < 0.8 else node.last
                node.asked.setdefault((side, json.dumps(message["id"])), []).append(None)
            self.say(node, side, message)

    # -- hosts -------------------------------------------------------------------------------------

    def host_reads(self, host: Host) -> None:
        """A host reads the lines for it."""
        lines, host.inbox = host.inbox, []
        self.from_host(host, host.feed(lines))

    def from_host(self, host: Host, lines: Iterable[bytes]) -> None:
        """Routes the lines that a host has written."""
        for line in lines:
            if self.hosts.get(host.name) is host:
                self.perform(self.router.receive(host.name, line))

    # -- components come and go --------------------------------------------------------------------

    def guests(self) -> list[Node]:
        """The components of the router that are there."""
        there = (node for node in self.nodes.values() if not node.is_end and node.host is None)
        return [node for node in there if node.name not in self.away]

    def renew(self, name: str) -> None:
        """A peer has forgotten everything."""
        self.nodes[name] = Node(name, self.nodes[name].drawn)

    def comes_back(self, name: str) -> None:
        """A component that was away is up again; it is honest until it has its role."""
        self.away.discard(name)
        self.perform(self.router.returned(name))
        for _ in range(4):
            if name in self.nodes and not self.router.has_role(name):
                self.reads(self.nodes[name], honest=True)

    def rearranges(self) -> None:
        """The chain gets other components at once, whatever is open."""
        rng = self.rng
        order = [one for one in self.order if one.name in self.nodes and rng.random() < 0.7]
        rng.shuffle(order)
        there = {one.name for one in order}
        free = [name for name in ("g0", "g1", "g2") if name not in there and rng.random() < 0.5]
        new = [self._drawn(rng.randrange(10**6), name) for name in free]
        new = [one for one in new if one.kind in (*FORMS, "channel")]
        fresh = [one.name for one in new]
        kept = {n: self.nodes[n] for n in self.nodes if n in there or self.nodes[n].is_end}
        wanted = [*(one.component for one in (*order, *new)), *self._beside, self._agent]
        before = dict(self.nodes)
        self.nodes |= {one.name: Node(one.name, one) for one in new}
        self._joining = frozenset(fresh)
        try:
            effects = self.router.prepare(wanted, fresh)
        except ValueError:
            self.nodes, self._joining = before, frozenset()
            return
        self.perform(effects)
        for _ in range(4):
            for name in fresh:
                self.reads(self.nodes[name], honest=True)
        self._joining = frozenset()
        if not self.router.prepared():
            self.router.dismiss()
            self.nodes = before
            return
        self.nodes = kept | {name: self.nodes[name] for name in fresh}
        self.order = [*order, *new]
        self.perform(self.router.rearrange(GONE))

    # -- and then ----------------------------------------------------------------------------------

    def settle(self, rounds: int = 60) -> None:
        """All read the lines for them, and are honest."""
        for _ in range(rounds):
            boxes = [one.inbox for one in self.nodes.values()]
            if not any((*boxes, *(one.inbox for one in self.hosts.values()))):
                return
            for node in list(self.nodes.values()):
                self.reads(node, honest=True)
            for host in list(self.hosts.values()):
                self.host_reads(host)


def _singly(line: bytes) -> Iterator[bytes]:
    """The messages of a line."""
    if line[:1] != b"[":
        yield line
        return
    for one in json.loads(line):
        yield dump(one)
