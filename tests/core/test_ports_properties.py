"""No act of a peer agent changes the frames that client and agent get, byte for byte."""

import json
from collections import deque
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from conductor.core import CHANNEL, Closure, Component, Fail, Send
from conductor.core.policy.rules import Policy
from conductor.core.router import Router
from tests.harness.router.rules import held

CWD: Final = {"cwd": "/work", "mcpServers": []}
SESSION: Final = "s1"

Step = tuple[str, Any]
"""The actor, and the frame of a peer agent, or the text of the client's prompt."""

IDS = st.sampled_from([1, 2, 3, "c1", None])
METHODS = st.sampled_from(
    [
        "session/update", "session/request_permission", "session/cancel", "session/prompt",
        "session/new", "initialize", "proxy/successor", "$/cancel_request", "_conductor/config",
        "fs/read_text_file", "mcp/message", "x",
    ]
)  # fmt: skip
PARAMS = st.sampled_from(
    [
        {"sessionId": SESSION},
        {"sessionId": SESSION, "update": {"sessionUpdate": "state_update", "state": "idle"}},
        {"sessionId": SESSION, "prompt": []},
        {"requestId": 1},
        {"peer": "review", "method": "session/prompt", "params": {"sessionId": SESSION}},
        {"protocolVersion": 1},
    ]
)
SAYS = st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "method": METHODS, "params": PARAMS})
ASKS = st.tuples(SAYS, IDS).map(lambda pair: {**pair[0], "id": pair[1]})
ANSWERS = st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": IDS, "result": PARAMS})
FRAMES = st.one_of(SAYS, ASKS, ANSWERS).map(lambda value: json.dumps(value).encode())
PEERS = st.sampled_from(["research", "review"])
SCRIPTS = st.lists(
    st.one_of(
        st.tuples(st.just("client"), st.sampled_from(["a", "b"])),
        st.tuples(PEERS, FRAMES),
        st.tuples(PEERS, FRAMES),
        st.tuples(PEERS, st.one_of(st.binary(max_size=9), st.none())),  # None: it ends
    ),
    min_size=4,
    max_size=12,
)


def message(**members: Any) -> bytes:
    """A line."""
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


class Play:
    """A chain whose component passes on all messages, and prompts a peer agent for each prompt."""

    def __init__(self, policy: Policy | None) -> None:
        ports = dict.fromkeys(("research", "review"), policy is not None)
        proxy = Component("p", "proxy `p`", CHANNEL, policy=policy, ports=ports)
        peers = [Component(name, peer_agent=True) for name in ports]
        self.router = Router([proxy, *peers, Component("agent")])
        self.got: dict[str, list[bytes]] = {"client": [], "agent": []}
        self._queue: deque[Send] = deque()
        self._asked = 0
        self.send("client", message(id="i", method="initialize", params={"protocolVersion": 1}))
        self.send("client", message(id="n", method="session/new", params=CWD))

    def run(self, script: list[Step]) -> None:
        """Plays the steps, each until nothing follows any more."""
        for number, (who, what) in enumerate(script):
            if who == "client":
                prompt = {"sessionId": SESSION, "prompt": [{"type": "text", "text": what}]}
                self.send("client", message(id=f"{number}", method="session/prompt", params=prompt))
            elif what is None:
                self._take(self.router.closed(who, Closure(f"`{who}` ended")))
            else:
                self.send(who, what)

    def send(self, peer: str, frame: bytes) -> None:
        """A peer sends a frame."""
        self._take(self.router.receive(peer, frame))

    def _take(self, effects: list[Any]) -> None:
        assert not any(isinstance(effect, Fail) for effect in effects)
        self._queue += [effect for effect in effects if isinstance(effect, Send)]
        while self._queue:
            sent = self._queue.popleft()
            if sent.peer in self.got:
                self.got[sent.peer].append(sent.frame)
            for peer, frame in self._answers(sent.peer, sent.frame):
                found = self.router.receive(peer, frame)
                assert not any(isinstance(effect, Fail) for effect in found)
                self._queue += [effect for effect in found if isinstance(effect, Send)]

    def _answers(self, peer: str, frame: bytes) -> list[tuple[str, bytes]]:
        if peer == "p":
            return [("p", line) for line in self._passes(frame[:1], json.loads(frame[1:]))]
        held = json.loads(frame)
        if peer == "agent" and "method" in held and "id" in held:
            result = {"protocolVersion": 1, "sessionId": SESSION, "stopReason": "end_turn"}
            said = {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": "x"},
            }
            update = message(method="session/update", params={"sessionId": SESSION, "update": said})
            answer = ("agent", message(id=held["id"], result=result))
            return [("agent", update), answer] if "prompt" in held["method"] else [answer]
        if peer in ("research", "review") and held.get("method") == "initialize":
            return [(peer, message(id=held["id"], result={"protocolVersion": 1}))]
        return []

    def _passes(self, side: bytes, held: Any) -> list[bytes]:
        """The component's lines for a line: all messages for its neighbours go on."""
        method, line = held.get("method", ""), json.dumps(held).encode()
        if side == b"c":
            return []
        if method == "proxy/successor":
            answer = message(id=held.get("id"), error={"code": -32601, "message": "no"})
            return [b"s" + answer] if "id" in held else []
        if not method and str(held.get("id", "")).startswith("own"):
            return []
        lines = [(b"s" if side == b"p" else b"p") + line]
        if method == "session/prompt" and side == b"p":
            self._asked += 1
            inner = {"peer": "research", "method": method, "params": {"sessionId": "r"}}
            asked = message(id=f"own{self._asked}", method="proxy/successor", params=inner)
            lines.append(b"s" + asked)
        return lines


POLICIES = st.sampled_from([None, None, held("full")])


@settings(max_examples=100)
@given(POLICIES, SCRIPTS)
@example(held("full"), [("research", None), ("client", "a"), ("review", None), ("client", "b")])
def test_nobody_else_depends_on_what_a_peer_agent_does(
    policy: Policy | None, script: list[Step]
) -> None:
    alone, both = Play(policy), Play(policy)
    # An empty step in the place of a peer agent's keeps the client's ids as they are.
    alone.run([(who, what) if who == "client" else ("review", b"") for who, what in script])
    both.run(script)
    assert both.got == alone.got
    prompts = sum(who == "client" for who, _ in script)
    assert sum(b"stopReason" in frame for frame in both.got["client"]) >= prompts
