"""Components in a row that do as they like, die, and come back: each request has its one answer,
and nothing is stuck."""

import json
from collections import deque
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import CHANNEL, Closure, Component, Effect, Send, Wake
from conductor.core.policy.rules import Policy
from conductor.core.router import Router, RouterOptions
from tests.harness.router.policed import (
    CARRY_TEXT,
    PERMISSION,
    initialize,
    mode,
    notification,
    permission,
    policy,
    prompt,
    request,
    result,
    state,
    stop,
    tool_call,
    update,
)
from tests.harness.router.rules import PROFILES, held

Json = dict[str, Any]

GONE: Final = Closure("gone")
POLICIES: Final = [
    None,
    *(held(profile) for profile in PROFILES),
    policy(profile="full", fails="closed", hold=5.0),
    policy(profile="full", grants="turns=unprompted options texts permission=narrow methods=_*"),
    policy(CARRY_TEXT, "down:session/prompt:carry+answer+amend", grants="turns=within"),
    policy(CARRY_TEXT),
]


class Step(NamedTuple):
    """The next step: the actor, the act, and the session."""

    who: str
    what: int
    session: str


class DrawnChain:
    """A client, guests, an agent, each with an inbox; who acts is drawn."""

    def __init__(
        self, policies: list[Policy | None], *, rounds: bool, tracing: bool = False
    ) -> None:
        self.names = [f"g{number}" for number in range(len(policies))]
        guests = [
            Component(name, f"proxy `{name}`", CHANNEL, policy=held)
            for name, held in zip(self.names, policies, strict=True)
        ]
        self.rounds = rounds
        self.router = Router([*guests, Component("agent")], options=RouterOptions(tracing=tracing))
        initialize(self.router, guests)
        self.inbox: dict[str, deque[tuple[bytes, Json]]] = {
            name: deque() for name in ("client", "agent", *self.names)
        }
        self.asked: dict[str, set[object]] = {name: set() for name in self.inbox}
        """Ids of requests that have no answer yet."""
        self.wakes: list[Wake] = []
        self.gone: set[str] = set()
        self.last = 0

    def apply(self, effects: list[Effect]) -> None:
        """Delivers the frames that are sent."""
        for effect in effects:
            if isinstance(effect, Wake):
                self.wakes.append(effect)
            if not isinstance(effect, Send):
                continue
            name, frame = effect.peer, effect.frame
            tag = frame[:1] if name in self.names else b""
            message = json.loads(frame[len(tag) :])
            if "method" not in message and name not in self.names:
                assert message["id"] in self.asked[name], f"{name} has not asked: {message}"
                self.asked[name].remove(message["id"])
            self.inbox[name].append((tag, message))

    def say(self, name: str, message: Json, tag: bytes = b"") -> None:
        """Somebody says something."""
        self.apply(self.router.receive(name, tag + json.dumps(message).encode()))

    def act(self, step: Step) -> None:
        """Does one step."""
        if step.who in ("client", "agent"):
            self.end(step)
            return
        name = self.names[int(step.who) % len(self.names)]
        if step.what == 20:
            if self.router.has_role(name) and name not in self.gone:
                self.inbox[name].clear()
                self.apply(self.router.leaving(name, GONE))
                self.apply(self.router.returned(name))
        elif step.what == 21:
            self.gone.add(name)
            self.inbox[name].clear()
            self.apply(self.router.bypassed(name, GONE))
        elif step.what == 22:
            self.wake()
        elif name not in self.gone:
            self.guest(name, step)

    def wake(self) -> None:
        """Time passes."""
        due, self.wakes = self.wakes, []
        for one in due:
            self.apply(self.router.woken(one.token))

    def end(self, step: Step) -> None:
        """The client or the agent says something of its own, or answers."""
        who, session = step.who, step.session
        inbox = self.inbox[who]
        if step.what >= 8:
            while inbox:
                _, message = inbox.popleft()
                if "method" in message and "id" in message:
                    self.say(who, result(message["id"], {"stopReason": "end_turn"}))
                    return
            return
        self.last += 1
        id_ = self.last
        if who == "client":
            choices: list[Json] = [
                request(id_, "session/prompt", prompt("hi", session)),
                request(id_, "session/set_mode", mode(session)),
                request(id_, "session/list", {}),
                stop(session),
                notification("$/cancel_request", {"requestId": max(id_ - 1, 0)}),
                request(id_, "_x", {"sessionId": session}),
                request(id_, "session/close", {"sessionId": session}),
                notification("_n", {"sessionId": session}),
            ]
        else:
            choices = [
                update("text", session),
                update("text", session),
                tool_call("t", session),
                request(id_, PERMISSION, permission(session)),
                state("idle", session),
                request(id_, "fs/read_text_file", {"sessionId": session, "path": "/x"}),
                notification("_n", {"sessionId": session}),
                update(f"{id_}", session),
            ]
        message = choices[step.what]
        if "id" in message:
            self.asked[who].add(id_)
        self.say(who, message)

    def guest(self, name: str, step: Step) -> None:
        """A guest takes the first message of its inbox, and passes it on, changes, answers or keeps
        it; or says something of its own."""
        inbox, what = self.inbox[name], step.what
        if self.rounds:
            self.router.delivering(name)
        for _ in range(3 if what < 12 else 0):
            if not inbox:
                break
            tag, message = inbox.popleft()
            other = {b"p": b"s", b"s": b"p"}.get(tag)
            if other is None:
                continue
            if what < 7 or message.get("method") == "initialize":
                self.say(name, message, other)
            elif what == 7 and "method" in message:
                self.say(name, {**message, "params": prompt("changed", step.session)}, other)
            elif what == 8 and "method" in message and "id" in message:
                self.say(name, result(message["id"], {"stopReason": "refusal"}), tag)
            elif what == 9:
                self.say(name, message, tag)
        if what == 12:
            self.last += 1
            self.say(name, request(f"o{self.last}", "session/prompt", prompt("mine")), b"s")
        elif what == 13:
            self.say(name, update("mine", step.session), b"p")
        elif what == 14:
            self.say(name, stop(step.session), b"s")
        elif what == 15:
            self.last += 1
            self.say(name, request(f"o{self.last}", "session/list", {}), b"s")
        if self.rounds:
            self.apply(self.router.delivered(name))

    def play_out(self) -> None:
        """Everybody passes on and answers the messages that are left; guests that keep messages for
        ever are gone in the end."""
        for _ in range(40):
            for name in self.names:
                if name not in self.gone:
                    self.guest(name, Step("0", 0, "S"))
            for who in ("client", "agent"):
                while self.inbox[who]:
                    self.end(Step(who, 9, "S"))
            self.wake()
        for name in self.names:
            self.act(Step(name[1:], 21, "S"))
        for _ in range(5):
            for who in ("client", "agent"):
                while self.inbox[who]:
                    self.end(Step(who, 9, "S"))
            self.wake()


STEPS: Final = st.lists(
    st.builds(
        Step,
        st.sampled_from(["client", "client", "agent", "agent", "0", "0", "1", "1", "2"]),
        st.integers(0, 22),
        st.sampled_from("SST"),
    ),
    max_size=40,
)


@pytest.mark.proves("every request gets its answer")
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(POLICIES), min_size=1, max_size=3),
    STEPS,
    st.booleans(),
    st.booleans(),
)
def test_each_request_has_one_answer_and_nothing_is_stuck(
    policies: list[Policy | None], steps: list[Step], rounds: bool, tracing: bool
) -> None:
    chain = DrawnChain(policies, rounds=rounds, tracing=tracing)
    for step in steps:
        chain.act(step)
    chain.play_out()
    assert chain.asked["client"] == set()
    assert chain.asked["agent"] == set()
    for peer in chain.router.peers.values():
        assert chain.router.waiting_on(peer.name) == []
        for lane in (peer.p, peer.s):
            assert not lane.in_flight.waiting
            assert not lane.in_flight.queue
