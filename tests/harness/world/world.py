"""A client, components that do as they like, and an agent around one router; no event loop.

`World` plays them as the shells do: all that is queued for a peer is given to it in one go, what it
says to that is routed before the next, and time passes where a script says so.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from conductor.core import (
    DIALECTS,
    Changed,
    Closure,
    Component,
    Effect,
    Entry,
    Listen,
    Send,
    Violated,
    Wake,
)
from conductor.core.policy.entries import Notification, WaitingInOrder
from conductor.core.policy.key_table import AFTER_PROMPTS, DROP
from conductor.core.policy.rules import Policy
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import dump
from tests.harness.world.ends import STOP, End, Step
from tests.harness.world.wild import Program, Tape, Wild

GONE: Final = Closure("gone")
ENDLESS: Final = 10_000
"""Deliveries after which nobody believes any more that they come to an end."""


class Cast(NamedTuple):
    """A component of a chain: its behaviour and its policy."""

    policy: Policy | None
    """None: the component is trusted."""
    tape: Sequence[int] = ()
    kind: str = "channel"
    """The dialect of the component; guests speak `channel`."""
    keeps: bool = True
    """Whether a program keeps the ids of messages that it passes on; else its library chooses
    them."""


class Mishap(NamedTuple):
    """A component ends before a step."""

    step: int
    which: int
    returns: bool
    tape: tuple[int, ...]
    """The decisions of the component after its return."""


class World:
    """The chain: a client, components, an agent. `rounds`: hosts of guests say when these have had
    their say; else all there is are deadlines."""

    def __init__(
        self,
        *casts: Cast,
        rounds: bool = True,
        audited: bool = False,
        tracing: bool = False,
        slow: bool = False,
        version: int = 1,
    ) -> None:
        self._rounds = rounds
        self.casts = {f"g{number}": cast for number, cast in enumerate(casts)}
        components = [
            Component(name, f"proxy `{name}`", DIALECTS[cast.kind], policy=cast.policy)
            for name, cast in self.casts.items()
        ]
        agent = Component("agent", "agent `agent`")
        watched = [*self.casts] if audited else ()
        self.router = Router(
            [*components, agent],
            options=RouterOptions(tracing=tracing, audited=watched),
        )
        self.players = {name: _player(name, cast) for name, cast in self.casts.items()}
        self.changes: list[Changed] = []
        self.violations: list[Violated] = []
        self.traced: list[Entry] = []
        self.client = End("client", slow=slow, version=version)
        self.agent = End("agent", slow=slow, version=version)
        self.ends = {"client": self.client, "agent": self.agent}
        self.unanswered: Counter[str] = Counter()
        """The components' requests that had no answer while the components were there."""
        self.open = (0, 0)
        """The numbers of the client's and of the agent's requests that had no answer."""
        self.lines: list[tuple[str, bytes]] = []
        """Everything that anybody was sent."""
        self._outboxes: dict[str, list[bytes]] = {}
        self._wakes: list[tuple[float, int]] = []
        self._now = 0.0
        self.play("client", _initialize(version))
        self.settle()
        assert self.client.answers.pop(0) == 1
        # The client knows the sessions of the script, so their updates are not early.
        for session in ("S", "T"):
            self.router.sessions.client_enters(session, "session/load")
        for end in self.ends.values():
            end.got.clear()
            end.sent.clear()
        for name, cast in self.casts.items():
            self.wild(name).tape = Tape(cast.tape)

    def wild(self, name: str) -> Wild:
        """A component's own self."""
        player = self.players[name]
        return player.wild if isinstance(player, Program) else player

    # -- the play ------------------------------------------------------------------------------

    def run(self, script: Sequence[Step], mishaps: Sequence[Mishap] = ()) -> None:
        """Plays the script; at its end all components are gone, and the messages that they held go
        on."""
        self.play_out(script, mishaps)
        self.leave()

    def play_out(self, script: Sequence[Step], mishaps: Sequence[Mishap] = ()) -> None:
        """Plays the script, what befalls components in it, and waits until nothing moves."""
        for number, step in enumerate(script):
            for mishap in mishaps:
                if mishap.step == number:
                    self._befall(mishap)
                    self.settle()
            line = self.ends[step.who].say(step, number)
            if line is not None:
                self.play(step.who, line)
            if step.pause:
                self.settle()
                self.answer_late()
            if step.pause > 1:
                self.passes(step.pause)
        self.settle()
        for _ in range(3):
            self.answer_late()
            self.passes(1000)
        for name in self.casts:
            wild, peer = self.wild(name), self.router.peers[name]
            if peer.closure is None and peer.starts == 1:
                self.unanswered[name] = (wild.asked - wild.answers).total() - wild.refused
        self.open = self.router.pending("client"), self.router.pending("agent")

    def leave(self) -> None:
        """All components are gone."""
        for name in self.casts:
            self.apply(self.router.settled(name))
        for name in self.casts:
            self._leave_out(name)
            self.settle()
            self.answer_late()
        self.passes(1000)

    def play(self, name: str, line: bytes) -> None:
        """Routes one line."""
        effects = self.router.receive(name, line)
        if name == "client":
            self._reaches_at_once(line, effects)
        self.apply(effects)

    def _reaches_at_once(self, line: bytes, effects: Sequence[Effect]) -> None:
        """Asserts that a cancellation of the user's has gone to the agent, unless a trusted
        component has it."""
        enforced = all(cast.policy is not None for cast in self.casts.values())
        if enforced and b'"method":"%b"' % STOP.encode() in line:
            assert [one for one in effects if isinstance(one, Send) and one.peer == "agent"]

    def apply(self, effects: Sequence[Effect]) -> None:
        """Queues the lines that are sent."""
        for effect in effects:
            match effect:
                case Send(peer, frame):
                    assert frame.endswith(b"\n")
                    self._outboxes.setdefault(peer, []).append(frame[:-1])
                    self.lines.append((peer, frame))
                case Wake(token, seconds):
                    self._wakes.append((self._now + seconds, token))
                case Listen(peer):
                    self.apply(self.router.listening(peer, b'{"command":"shim"}'))
                case Violated():
                    self.violations.append(effect)
                case Changed():
                    self.changes.append(effect)
                case Entry():
                    self.traced.append(effect)
                case _:
                    pass

    def passes(self, seconds: float) -> None:
        """Time passes: what is to happen by then happens, one after the other."""
        until = self._now + seconds
        while due := [one for one in self._wakes if one[0] <= until]:
            first = min(due)
            self._wakes.remove(first)
            self._now = first[0]
            self.apply(self.router.woken(first[1]))
            self.settle()
        self._now = until

    def answer_late(self) -> None:
        """The ends answer the requests that they have let wait."""
        for name, end in self.ends.items():
            for said in end.late():
                self.play(name, said)
        self.settle()

    def settle(self) -> None:
        """Gives all peers their queued lines until no line is queued."""
        for _ in range(ENDLESS):
            if not self._outboxes:
                return
            peer = next(iter(self._outboxes))
            lines = self._outboxes.pop(peer)
            name = peer.partition("/")[0]
            if name in self.ends:
                for line in lines:
                    for said in self.ends[name].hear(line):
                        self.play(name, said)
            else:
                self.deliver(name, peer, lines)
        raise AssertionError("they never come to an end")

    def deliver(self, name: str, peer: str, lines: Sequence[bytes]) -> None:
        """A component reads its lines; the lines that it writes go to the router."""
        player = self.players[name]
        if isinstance(player, Program):
            for line in lines:
                for connection, said in player.hear(peer, line):
                    self.play(connection, said)
            return
        if self._rounds:
            self.router.delivering(name)
        for said in player.hear(lines):
            self.play(name, said)
        if self._rounds:
            self.apply(self.router.delivered(name))

    # -- what becomes of components --------------------------------------------------------------

    def _befall(self, mishap: Mishap) -> None:
        names = list(self.casts)
        if not names:
            return
        name = names[mishap.which % len(names)]
        if f"{name}/successor" in self.router.peers:
            return  # the chain ends with such a program
        if not mishap.returns:
            self._leave_out(name)
        elif self.router.has_role(name) and self.router.peers[name].closure is None:
            self._outboxes.pop(name, None)
            self.apply(self.router.leaving(name, GONE))
            assert name not in self._outboxes
            self.players[name] = _player(name, self.casts[name])
            self.apply(self.router.returned(name))
            self.settle()
            self.wild(name).tape = Tape(mishap.tape)

    def _leave_out(self, name: str) -> None:
        peers = [peer for peer in (name, f"{name}/successor") if peer in self.router.peers]
        for peer in peers:
            self._outboxes.pop(peer, None)
        if len(peers) > 1:  # the chain ends with it
            for peer in peers:
                self.apply(self.router.closed(peer, GONE))
        self.apply(self.router.bypassed(name, GONE))
        assert not any(peer in self._outboxes for peer in peers)


def _player(name: str, cast: Cast) -> Wild | Program:
    return Wild() if cast.kind == "channel" else Program(name, cast.kind, keeps=cast.keeps)


def _initialize(version: int) -> bytes:
    params = {"protocolVersion": version, "info": {"name": "c", "version": "1"}}
    return dump({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})


# -- what holds for every play -------------------------------------------------------------------


def check_answers(world: World) -> None:
    """Each request has exactly one answer: those of both ends, and the components' own."""
    for end in world.ends.values():
        assert end.answers == dict.fromkeys(end.open, 1)
    for name in world.casts:
        wild = world.wild(name)
        assert wild.answers <= wild.asked
    if world.open == (0, 0) and len(world.casts) == 1:  # else some wait for what others hold up
        assert all(count <= 0 for count in world.unanswered.values())


def check_nothing_is_held(world: World) -> None:
    """Once all have had their rounds, or their time, nothing waits for them but what waits behind a
    prompt that is still carried."""
    for peer in world.router.peers.values():
        for lane in (peer.p, peer.s):
            kept = {
                one.heading.session
                for one in lane.in_flight.queue
                if isinstance(one, WaitingInOrder) and one.heading.key in AFTER_PROMPTS
            }
            for one in lane.in_flight.queue:
                if isinstance(one, Notification):
                    assert lane.other.rights_on(one.heading) & DROP
            waiting = [one for one in lane.in_flight.queue if isinstance(one, WaitingInOrder)]
            assert Counter(one.heading.session for one in waiting) == lane.in_flight.waiting
            for one in waiting:
                assert one.heading.session in kept
            for session in kept:
                assert lane.in_flight.holds_prompt(session)


def check_all_is_over(world: World) -> None:
    """Nothing is open anywhere."""
    for peer in world.router.peers.values():
        assert world.router.pending(peer.name) == 0
        assert world.router.waiting_on(peer.name) == []
        for lane in (peer.p, peer.s):
            assert not lane.in_flight.waiting
            assert not lane.in_flight.queue


def check_kinds_of_answers(world: World) -> None:
    """A result of the other end's is no error afterwards, nor an error a result, unless somebody
    trusted says so, or who asks again runs into somebody who fails."""
    held = [cast.policy for cast in world.casts.values()]
    if None in held:
        return
    if len(held) > 1 and any(one is not None and one.fails == "closed" for one in held):
        return
    for end, other in ((world.client, world.agent), (world.agent, world.client)):
        answered = {}
        for id_, (member, _) in other.answered.items():
            item = other.asked[id_]
            if b'"of":"guest"' not in item.body:
                answered[item.key, json.loads(item.body).get("n")] = member
        for id_, (member, _) in end.told.items():
            item = end.open[id_]
            theirs = answered.get((item.key, json.loads(item.body)["n"]))
            assert theirs is None or theirs == member, item
