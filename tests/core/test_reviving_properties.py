"""Whenever an agent dies that can load: each request is answered once, nothing is said twice."""

import json
from collections import Counter, deque
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from conductor.core import DIALECTS, Closure, Component, Fail, Send
from conductor.core.router import Router
from tests.harness.router.actors import FORMS, Actor, dump, proxy
from tests.harness.router.policed import guest

Json = dict[str, Any]

GONE = Closure("agent `agent` died", "send it again")
POLICED = {
    "carries": ("down:session/prompt:carry", "up:session/update[agent_message_chunk]:carry+drop"),
    "watches": ("down:session/prompt:copy", "up:session/update[agent_message_chunk]:copy"),
}
"""The rules of guests with a policy."""


class Lasting(Actor):
    """An agent whose sessions outlast its process: in each it counts its updates."""

    def __init__(self, version: int) -> None:
        super().__init__("agent")
        self.version = version
        self.said: dict[str, list[str]] = {}
        self.open: set[str] = set()
        self.asked: dict[object, tuple[object, str]] = {}

    def dies(self) -> None:
        """Another process takes its place."""
        self.open.clear()
        self.asked.clear()

    def hear(self, peer: str, line: bytes) -> list[tuple[str, bytes]]:
        return [(peer, dump({"jsonrpc": "2.0", **said})) for said in self._act(json.loads(line))]

    def _say(self, session: str, text: str) -> Json:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        return {"method": "session/update", "params": {"sessionId": session, "update": update}}

    def _act(self, message: Json) -> list[Json]:
        session = message.get("params", {}).get("sessionId", "")
        match message:
            case {"id": id_, "method": "initialize"}:
                able = {"agentCapabilities": {"loadSession": True}, "capabilities": {"session": {}}}
                return [{"id": id_, "result": {"protocolVersion": self.version, **able}}]
            case {"id": id_, "method": "session/new"}:
                session = f"s{len(self.said) + 1}"
                self.said[session] = []
                self.open.add(session)
                return [{"id": id_, "result": {"sessionId": session}}]
            case {"id": id_, "method": "session/load" | "session/resume"}:
                if session not in self.said:
                    return [{"id": id_, "error": {"code": -32002, "message": "no such session"}}]
                self.open.add(session)
                replayed = [self._say(session, text) for text in self.said[session]]
                return [*replayed, {"id": id_, "result": {}}]
            case {"id": id_, "method": "session/prompt"} if session not in self.open:
                return [{"id": id_, "error": {"code": -32002, "message": "no such session"}}]
            case {"id": id_, "method": "session/prompt"}:
                text = f"{session}: {len(self.said[session])}"
                self.said[session].append(text)
                mine = self.fresh()
                self.asked[mine] = id_, session
                asks = {"id": mine, "method": "session/request_permission"}
                return [self._say(session, text), {**asks, "params": {"sessionId": session}}]
            case {"id": id_, "result": _} | {"id": id_, "error": _} if id_ in self.asked:
                prompt, session = self.asked.pop(id_)
                return [{"id": prompt, "result": {"stopReason": "end_turn"}}]
            case {"id": id_, "method": method}:
                return [{"id": id_, "error": {"code": -32601, "message": f"no `{method}`"}}]
        return []


class Play:
    """A play that routes one message after the other, so that the agent may die between any two."""

    def __init__(self, kinds: list[str], version: int) -> None:
        names = [f"p{number}" for number in range(len(kinds))]
        proxies = [
            guest(*POLICED[kind], name=name)
            if kind in POLICED
            else Component(name, dialect=DIALECTS[kind])
            for name, kind in zip(names, kinds, strict=True)
        ]
        self.router = Router([*proxies, Component("agent", "agent `agent`", revived=True)])
        self.agent = Lasting(version)
        spoken = ["channel" if kind in POLICED else kind for kind in kinds]
        actors = [proxy(kind, name) for name, kind in zip(names, spoken, strict=True)]
        self.actors: dict[str, Actor] = {one.name: one for one in (*actors, self.agent)}
        self.queue: deque[tuple[str, bytes]] = deque()
        self.client: list[Json] = []
        self.ids = 0
        self.failed = False
        self._perform(self.router.start())

    def ask(self, method: str, params: Json) -> None:
        """The client asks."""
        self.ids += 1
        message = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}
        self.queue.append(("client", dump(message)))

    def prompt(self, session: str) -> None:
        """The client prompts."""
        text = {"type": "text", "text": "?"}
        self.ask("session/prompt", {"sessionId": session, "prompt": [text]})

    def step(self) -> bool:
        """Routes one message; False: there is none."""
        if not self.queue:
            return False
        peer, line = self.queue.popleft()
        self._perform(self.router.receive(peer, line))
        return True

    def dies(self) -> None:
        """The agent dies: updates that nobody has read are gone with it."""
        if self.router.refuses_return("agent") is not None:
            return
        self.agent.dies()
        self.queue = deque((peer, line) for peer, line in self.queue if peer != "agent")
        self._perform(self.router.leaving("agent", GONE))

    def returns(self) -> None:
        """The agent's next process is there."""
        self._perform(self.router.returned("agent"))

    def _perform(self, effects: list[Any]) -> None:
        for effect in effects:
            self.failed = self.failed or isinstance(effect, Fail)
            if not isinstance(effect, Send):
                continue
            line = effect.frame[:-1]
            if effect.peer == "client":
                self._tell(json.loads(line))
            elif effect.peer in self.actors:
                self.queue += self.actors[effect.peer].hear(effect.peer, line)

    def _tell(self, message: Json) -> None:
        self.client.append(message)
        if "method" in message and "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": "allow"}}
            self.queue.append(("client", dump(answer)))


@given(
    st.lists(st.sampled_from([*FORMS, "channel", *POLICED]), max_size=3),
    st.sampled_from([1, 2]),
    st.lists(st.sampled_from(["new", "s1", "s2", "mode", "list"]), max_size=6),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=4),
)
@example(["acp", "carries"], 1, ["new", "new", "new", "new", "s1"], [(25, 0)])
def test_whenever_the_agent_dies_each_request_is_answered_once(
    kinds: list[str], version: int, asked: list[str], deaths: list[tuple[int, int]]
) -> None:
    play = Play(kinds, version)
    about = {"info": {"name": "c", "version": "1"}, "clientCapabilities": {}}
    play.ask("initialize", {"protocolVersion": version, **about})
    while play.step():
        pass
    for what in ("new", *asked):
        match what:
            case "new":
                play.ask("session/new", {"cwd": "/", "mcpServers": []})
            case "mode":
                play.ask("session/set_mode", {"sessionId": "s1", "modeId": "plan"})
            case "list":
                play.ask("session/list", {})
            case _:
                play.prompt(what)
    for living, away in deaths:  # so many messages before each death, and until it is back
        for _ in range(living):
            play.step()
        play.dies()
        for _ in range(away):
            play.step()
        play.returns()
    while play.step():
        pass
    answers = [message for message in play.client if "method" not in message]
    results = [message.get("result", {}) for message in answers]
    opened = [one["sessionId"] for one in results if "sessionId" in one]
    for session in opened:  # the sessions go on
        play.prompt(session)
    while play.step():
        pass
    assert not play.failed
    answers = [message for message in play.client if "method" not in message]
    assert Counter(message["id"] for message in answers) == Counter(range(1, play.ids + 1))
    assert all("result" in message for message in answers[len(answers) - len(opened) :])
    updates = [m["params"]["update"] for m in play.client if m.get("method") == "session/update"]
    said = Counter(one["content"]["text"] for one in updates if "content" in one)
    assert all(number == 1 for number in said.values()), said
    questions = [m["id"] for m in play.client if m.get("method") == "session/request_permission"]
    assert len(questions) == len(set(questions))
    assert play.router.pending() == 0
    assert play.router.quiet()
