"""A hub with clients and agents that a test plays."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from conductor.serve.hub import (
    CloseChain,
    Disowned,
    Effect,
    Hub,
    HubLimits,
    LogLine,
    OpenChain,
    Owned,
    ToChain,
    ToClient,
)

Json = dict[str, Any]


class Peer:
    """A client or an agent: its messages, and its way to answer."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.seen: list[Json] = []
        self.scopes: list[str | None] = []
        self.last = 0

    def send(self, **message: Any) -> None:
        """Sends a message."""
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def raw(self, frame: bytes) -> None:
        """Sends a frame."""
        raise NotImplementedError

    def ask(self, method: str, **params: Any) -> int:
        """Sends a request; returns its id."""
        self.last += 1
        self.send(id=self.last, method=method, params=params)
        return self.last

    def notify(self, method: str, **params: Any) -> None:
        """Sends a notification."""
        self.send(method=method, params=params)

    def answer(self, asked: Json, result: Any) -> None:
        """Answers a request it has got."""
        self.send(id=asked["id"], result=result)

    def take(self) -> list[Json]:
        """The messages that came since the last call."""
        taken, self.seen, self.scopes = self.seen, [], []
        return taken

    def one(self) -> Json:
        """The one message it has got since the last time."""
        (message,) = self.take()
        return message

    def kinds(self) -> list[str]:
        """The messages since the last call: methods, kinds of updates, `result` or `error`."""
        return [kind_of(message) for message in self.take()]


class Client(Peer):
    """A client of the hub."""

    def raw(self, frame: bytes) -> None:
        self.world.perform(self.world.hub.from_client(self.name, frame, self.world.now))

    def result(self, id_: int) -> Any:
        """The answer to a request: its result, or its error."""
        (found,) = (one for one in self.seen if one.get("id") == id_ and "method" not in one)
        return found.get("result", found.get("error"))

    def begin(self, version: int = 1, **capabilities: Any) -> Agent:
        """Initializes; its agent answers, if it is a new one."""
        name = "capabilities" if version == 2 else "clientCapabilities"
        known = set(self.world.agents)
        self.ask("initialize", protocolVersion=version, **{name: capabilities})
        opened = [agent for name, agent in self.world.agents.items() if name not in known]
        for agent in opened:
            result: Json = {"agentCapabilities": {"sessionCapabilities": {"close": {}}}}
            if version == 2:
                result = {"capabilities": {"session": {}}}
            agent.answer(agent.take()[-1], {"protocolVersion": version, **result})
        self.take()
        return (opened or list(self.world.agents.values()))[-1]

    def new(self, agent: Agent, session: str, **members: Any) -> str:
        """Opens a session."""
        self.ask("session/new", cwd="/", mcpServers=[])
        agent.answer(agent.take()[-1], {"sessionId": session, **members})
        self.take()
        return session

    def attach(self, session: str, **params: Any) -> list[Json]:
        """Attaches to a session; returns the messages since the last call of `take`."""
        self.ask("session/attach", sessionId=session, **params)
        return self.take()

    def prompt(self, session: str, text: str = "hello") -> int:
        """Prompts."""
        block = {"type": "text", "text": text}
        return self.ask("session/prompt", sessionId=session, prompt=[block])


class Agent(Peer):
    """An agent, with its chain."""

    def raw(self, frame: bytes) -> None:
        self.world.perform(self.world.hub.from_chain(self.name, frame, self.world.now))

    def update(self, session: str, kind: str = "agent_message_chunk", **members: Any) -> None:
        """Sends an update."""
        self.notify("session/update", sessionId=session, update={"sessionUpdate": kind, **members})

    def permission(self, session: str, call: str = "t1") -> int:
        """Asks for a permission."""
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        return self.ask(
            "session/request_permission",
            sessionId=session,
            toolCall={"toolCallId": call},
            options=options,
        )


class World:
    """A hub of one principal and all around it."""

    def __init__(
        self,
        *,
        shares: bool = False,
        owned: Iterable[str] = (),
        limits: HubLimits | None = None,
    ) -> None:
        self.owned = set(owned)
        self.now = 0.0
        self.agents: dict[str, Agent] = {}
        self.closed: list[str] = []
        self.log: list[str] = []
        """Lines since the last look of a test."""
        self.clients: dict[str, Client] = {}
        self.hub = Hub(shares=shares, owns=self.owned.__contains__, limits=limits)

    def client(self, name: str, **how: Any) -> Client:
        """A client connects."""
        self.hub.joined(name, **how)
        self.clients[name] = client = Client(self, name)
        return client

    def left(self, client: Client) -> None:
        """A client leaves for good."""
        del self.clients[client.name]
        self.perform(self.hub.left(client.name))

    def ended(self, agent: Agent, text: str = "the chain has ended", hint: str = "again") -> None:
        """A chain ends."""
        del self.agents[agent.name]
        self.closed.append(agent.name)
        self.perform(self.hub.chain_ended(agent.name, text, hint))

    def later(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        self.perform(self.hub.overdue(self.now))

    def perform(self, effects: list[Effect]) -> None:
        """Performs effects, as a shell does."""
        for effect in effects:
            match effect:
                case ToClient(connection, frame, session):
                    assert b"\n" not in frame
                    self.clients[connection].seen.append(json.loads(frame))
                    self.clients[connection].scopes.append(session)
                case ToChain(chain, frame):
                    assert b"\n" not in frame
                    self.agents[chain].seen.append(json.loads(frame))
                case OpenChain(chain, _):
                    assert chain not in self.agents
                    self.agents[chain] = Agent(self, chain)
                case CloseChain(chain):
                    del self.agents[chain]
                    self.closed.append(chain)
                case LogLine(who, text):
                    self.log.append(f"{who}: {text}")
                case Owned(session):
                    self.owned.add(session)
                case Disowned(session):
                    self.owned.discard(session)


def kind_of(message: Json) -> str:
    """The kind of a message, in a word."""
    if message.get("method") == "session/update":
        return str(message["params"]["update"]["sessionUpdate"])
    return str(message.get("method") or ("error" if "error" in message else "result"))


def updates(messages: Iterable[Json]) -> list[Any]:
    """The updates among messages."""
    return [
        message["params"]["update"]
        for message in messages
        if message.get("method") == "session/update"
    ]
