"""Random lives of a hub: clients come, ask, are cut and leave, agents answer, ask and die.

Whatever happens, each request is answered exactly once in both directions, each client sees the
updates of a session in order and none twice, and at the end nothing is left.
"""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.serve.hub import Effect, HubLimits, ToChain, ToClient
from tests.harness.hub.world import Agent, Client, Json, World

NAMES = ("a", "b", "c", "d")
SESSIONS = ("s", "t")
METHODS = (
    *("session/prompt", "session/load", "session/attach", "session/detach", "session/set_mode"),
    *("session/close", "session/delete", "session/resume", "session/fork", "session/status"),
    *("session/options", "session/list", "_other", "authenticate", "session/new", "initialize"),
)
QUESTIONS = ("session/request_permission", "elicitation/create", "fs/read_text_file", "_ask")

step = st.tuples(
    st.sampled_from(
        ("ask", "answer", "update", "question", "reply", "join", "leave", "cut", "end")
    ),
    st.integers(0, 3),
    st.integers(0, 40),
)
steps = st.lists(step, max_size=60)


class Life:
    """A world whose peers do as they are told, and an account of all that was asked."""

    def __init__(self, *, shares: bool, version: int, compact: bool = False) -> None:
        """`compact`: peers write no space, as routers do."""
        self.separators = (",", ":") if compact else None
        """The messages that anybody has got, in order."""
        self.world = World(shares=shares, owned=SESSIONS, limits=HubLimits(history_bytes=3000))
        self.version = version
        self.number = 0
        self.open: dict[tuple[str, Any], str] = {}
        """Requests of clients without an answer."""
        self.asked: dict[tuple[str, Any], str] = {}
        """Requests of agents without an answer."""
        self.to_answer: dict[str, list[Json]] = {}
        self.to_reply: dict[str, list[Json]] = {}
        self.numbers: dict[tuple[str, str], list[int]] = {}
        """The numbers that a client has seen of a session, since it was last replayed."""
        self.watchers: set[str] = set()
        self.names = Counter[str]()

    # -- effects -------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        """Performs effects, and writes down what they say."""
        known = dict(self.world.agents)
        self.world.perform(effects)
        for name, agent in known.items():
            if name not in self.world.agents:  # closed: all that it asked was answered before
                self.heard(agent)
                assert not [key for key in self.asked if key[0] == name]
        for agent in self.world.agents.values():
            self.heard(agent)
        for client in self.world.clients.values():
            for message in client.take():
                self.shown(client, message)

    def heard(self, agent: Agent) -> None:
        """An agent has got messages."""
        for message in agent.take():
            if "method" not in message:
                assert self.asked.pop((agent.name, message["id"]), None), message
            elif "id" in message:
                self.to_answer.setdefault(agent.name, []).append(message)

    def shown(self, client: Client, message: Json) -> None:
        """A client has got a message."""
        if "method" not in message:
            method = self.open.pop((client.name, message["id"]), None)
            assert method, message
        elif "id" in message:
            self.to_reply.setdefault(client.name, []).append(message)
        elif message["method"] == "session/update":
            params = message["params"]
            number = params["update"].get("number")
            if number is not None:
                seen = self.numbers.setdefault((client.name, params["sessionId"]), [])
                assert number not in seen[-1:], "doubled"
                seen.append(number)

    def frame(self, message: Json) -> bytes:
        """A message as peers write it."""
        return json.dumps(message, separators=self.separators).encode()

    # -- steps ---------------------------------------------------------------------------------

    def take(self, kind: str, who: int, what: int) -> None:
        """Performs a step, if it is possible now."""
        getattr(self, kind)(who, what)

    def client(self, who: int) -> Client | None:
        found = [one for one in self.world.clients.values() if one.name[0] == NAMES[who]]
        return found[0] if found else None

    def agent(self, who: int) -> Agent | None:
        agents = list(self.world.agents.values())
        return agents[who % len(agents)] if agents else None

    def join(self, who: int, what: int) -> None:
        if self.client(who) is not None:
            return
        self.names[NAMES[who]] += 1
        name = f"{NAMES[who]}{self.names[NAMES[who]]}"
        watches = what % 5 == 0
        if watches:
            self.watchers.add(name)
        client = self.world.client(name, views=watches)
        visits = {"_meta": {"conductor": {"attaches": True}}} if what % 3 == 0 else {}
        self.send(client, "initialize", {"protocolVersion": self.version, **visits})
        for agent in list(self.world.agents):
            self.answered(agent, 0)

    def send(self, client: Client, method: str, params: Json) -> None:
        client.last += 1
        self.open[client.name, client.last] = method
        message = {"jsonrpc": "2.0", "id": client.last, "method": method, "params": params}
        frame = self.frame(message)
        effects = self.world.hub.from_client(client.name, frame, self.world.now)
        if client.name in self.watchers and method not in ("initialize", "session/list"):
            sent = [json.loads(one.frame) for one in effects if isinstance(one, ToChain)]
            assert not [one for one in sent if one.get("method") not in (None, "session/status")]
        if method == "session/load" and any(
            isinstance(one, ToClient) and b'"number"' in one.frame for one in effects
        ):
            self.numbers.pop((client.name, params["sessionId"]), None)
        self.perform(effects)

    def ask(self, who: int, what: int) -> None:
        client = self.client(who)
        if client is None:
            return
        method = METHODS[what % len(METHODS)]
        params: Json = {"sessionId": SESSIONS[what % 2], "prompt": [{"type": "text", "text": "x"}]}
        if method == "session/attach":
            # A replay may end where the next update begins: only live updates count.
            params |= {"role": ("driver", "viewer")[what % 3 == 0], "historyPolicy": "none"}
        if method in ("session/load", "session/resume"):
            if any(name == client.name and one == method for (name, _), one in self.open.items()):
                return  # who loads twice is shown twice
            self.numbers.pop((client.name, params["sessionId"]), None)
        self.send(client, method, params)

    def answer(self, who: int, what: int) -> None:
        agent = self.agent(who)
        if agent is not None:
            self.answered(agent.name, what)

    def answered(self, name: str, what: int) -> None:
        waiting = self.to_answer.get(name, [])
        agent = self.world.agents.get(name)
        if not waiting or agent is None:
            return
        message = waiting.pop(what % len(waiting))
        result: Json = {}
        if message["method"] == "initialize":
            result = {"protocolVersion": self.version}
        elif message["method"] in ("session/new", "session/fork"):
            result = {"sessionId": SESSIONS[what % 2]}
        elif message["method"] == "session/prompt":
            result = {"stopReason": "end_turn", "messageId": "m"}
        body: Json = {"result": result}
        if what % 7 == 6:
            body = {"error": {"code": -32603, "message": "no"}}
        self.from_agent(agent, {"id": message["id"], **body})

    def from_agent(self, agent: Agent, message: Json) -> None:
        frame = self.frame({"jsonrpc": "2.0", **message})
        self.perform(self.world.hub.from_chain(agent.name, frame, self.world.now))

    def update(self, who: int, what: int) -> None:
        agent = self.agent(who)
        if agent is None:
            return
        self.number += 1
        update: Json = {"sessionUpdate": "agent_message_chunk", "number": self.number}
        if self.version == 2 and what % 3 == 0:
            update = {"sessionUpdate": "state_update", "state": ("idle", "running")[what % 2]}
        session = SESSIONS[what % 2]
        params = {"sessionId": session, "update": update}
        frame = self.frame({"jsonrpc": "2.0", "method": "session/update", "params": params})
        attached = [
            name
            for info in self.world.hub.sessions
            if (info.session, info.chain) == (session, agent.name)
            for name in (*info.drivers, *info.viewers)
        ]
        effects = self.world.hub.from_chain(agent.name, frame, self.world.now)
        told = [one for one in effects if isinstance(one, ToClient)]
        got = [one.connection for one in told if one.frame == frame]
        replays = [one for one in self.open.values() if one in ("session/load", "session/resume")]
        if not replays or len(attached) < 2:
            assert sorted(got) == sorted(attached)
        self.perform(effects)

    def question(self, who: int, what: int) -> None:
        agent = self.agent(who)
        if agent is None:
            return
        agent.last += 1
        params: Json = {"sessionId": SESSIONS[what % 2]} if what % 5 else {}
        method = QUESTIONS[what % len(QUESTIONS)]
        self.asked[agent.name, agent.last] = method
        self.from_agent(agent, {"id": agent.last, "method": method, "params": params})

    def reply(self, who: int, what: int) -> None:
        client = self.client(who)
        waiting = self.to_reply.get(client.name, []) if client else []
        if client is None or not waiting:
            return
        message = waiting.pop(what % len(waiting))
        body: Json = {"result": {"outcome": {"outcome": "cancelled"}}}
        if what % 4 == 3:
            body = {"error": {"code": 1, "message": "no"}}
        frame = self.frame({"jsonrpc": "2.0", "id": message["id"], **body})
        self.perform(self.world.hub.from_client(client.name, frame, self.world.now))

    def cut(self, who: int, what: int) -> None:
        client = self.client(who)
        if client is not None:
            hub = self.world.hub
            hub.cut(client.name, is_cut=bool(what % 2))

    def leave(self, who: int, what: int) -> None:
        client = self.client(who)
        if client is None:
            return
        del self.world.clients[client.name]
        effects = self.world.hub.left(client.name)
        assert not [one for one in effects if getattr(one, "connection", "") == client.name]
        for key in [key for key in self.open if key[0] == client.name]:
            del self.open[key]
        self.perform(effects)

    def end(self, who: int, what: int) -> None:
        agent = self.agent(who)
        if agent is None or what % 3:
            return
        del self.world.agents[agent.name]
        self.world.closed.append(agent.name)
        for key in [key for key in self.asked if key[0] == agent.name]:
            del self.asked[key]
        effects = self.world.hub.chain_ended(agent.name, "it has ended", "start it again")
        assert not [one for one in effects if getattr(one, "chain", "") == agent.name]
        self.perform(effects)

    # -- the end -------------------------------------------------------------------------------

    def finish(self) -> None:
        """All peers do what they still owe; then nothing is open."""
        while any(self.to_answer.get(name) for name in self.world.agents) or any(
            self.to_reply.get(name) for name in self.world.clients
        ):
            for name in list(self.world.agents):
                self.answered(name, 0)
            for name in list(self.world.clients):
                if self.to_reply.get(name):
                    self.reply(NAMES.index(name[0]), 0)
        assert not self.open
        assert not self.asked
        for seen in self.numbers.values():
            assert seen == sorted(seen)
        for who in range(len(NAMES)):
            self.leave(who, 0)
        assert not self.world.agents
        floor = self.world.hub._floor
        assert not any((floor.clients, floor.chains, floor.live, floor.turning, floor.again))
        assert (floor.budget.size, floor.budget.histories) == (0, {})


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("shares", [False, True])
@given(steps=steps, compact=st.booleans())
@settings(max_examples=150, deadline=None)
def test_each_request_is_answered_once(
    shares: bool, version: int, steps: list[tuple[str, int, int]], compact: bool
) -> None:
    life = Life(shares=shares, version=version, compact=compact)
    lived(life, steps)


def lived(life: Life, steps: list[tuple[str, int, int]]) -> None:
    """A whole life."""
    for who in range(3):
        life.join(who, 1)
    for kind, who, what in steps:
        life.take(kind, who, what)
    life.finish()


NEW = 28
often = st.lists(
    st.tuples(
        st.sampled_from((*["ask", "answer"] * 5, "update", "update", "leave", "join", "end")),
        st.integers(0, 2),
        st.sampled_from((*(0, 30, 15, 45) * 3, 2, 17, 18, 1, 3)),
    ),
    max_size=40,
)
"""Mostly prompts, and others that attach, load or detach."""
opening = [("ask", 0, NEW), ("answer", 0, 0), ("ask", 1, NEW), ("answer", 1, 1)]
"""The first client has session `s`, the second one `t`; both in one chain, where it is shared."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("shares", [False, True])
@given(steps=often)
@settings(max_examples=100, deadline=None)
def test_each_prompt_is_answered_once(
    shares: bool, version: int, steps: list[tuple[str, int, int]]
) -> None:
    lived(Life(shares=shares, version=version, compact=True), opening + steps)


@given(
    start=st.integers(0, 10),
    amount=st.integers(0, 30),
    loads=st.lists(st.integers(0, 30), max_size=4),
)
@settings(max_examples=50, deadline=None)
def test_who_loads_sees_all_from_the_beginning(start: int, amount: int, loads: list[int]) -> None:
    world = World()
    home = world.client("home")
    agent = home.begin()
    home.new(agent, "s")
    clients = [home]
    for number in range(amount):
        if number == start:
            home.prompt("s")
        for index, when in enumerate(loads):
            if when == number:
                client = world.client(f"client-{index}")
                client.begin()
                client.ask("session/load", sessionId="s")
                clients.append(client)
        agent.update("s", number=number)
    for client in clients:
        seen = [one["params"]["update"].get("number") for one in client.seen if "params" in one]
        assert [number for number in seen if number is not None] == list(range(amount))


@given(frames=st.lists(st.binary(max_size=40) | st.sampled_from([b"[]", b"{}", b'{"id":1}'])))
@settings(max_examples=100, deadline=None)
def test_no_frame_raises(frames: list[bytes]) -> None:
    world = World()
    client = world.client("one")
    agent = client.begin()
    client.new(agent, "s")
    for frame in frames:
        client.raw(frame)
        agent.raw(frame)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["s", "t"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["sessionId", "update", "sessionUpdate", "prompt", "role", "requestId", "modeId"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=5,
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0"),
        "id": st.integers(0, 3) | json_values,
        "method": st.sampled_from((*METHODS, *QUESTIONS, "session/update", "$/cancel_request"))
        | json_values,
        "params": json_values,
        "result": json_values,
        "error": json_values,
    },
)


@given(messages=st.lists(st.tuples(st.booleans(), messages), max_size=12))
@settings(max_examples=80, deadline=None)
def test_no_message_raises(messages: list[tuple[bool, Json]]) -> None:
    world = World(owned=["t"])
    client = world.client("one")
    client.new(client.begin(), "s")
    for from_client, message in messages:
        frame = json.dumps(message).encode()
        if from_client:
            client.raw(frame)
        else:
            for agent in list(world.agents.values()):
                agent.raw(frame)
    world.left(client)
    assert not world.agents
