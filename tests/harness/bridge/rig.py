"""A bridge between scripted ends: a component of any generation, an agent, MCP clients.

    rig = BridgeRig("sacp")
    rig.set_up()                      # session/new, as far as the agent having answered
    client = rig.client("tools")
    client.call("tools/list")

`rig.wire` is all that went over ACP between the component and the bridge, as one line each.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec

from conductor.mcp.bridge import effects as kinds
from conductor.mcp.bridge.bridge import Bridge
from conductor.mcp.bridge.capabilities import Support
from conductor.mcp.bridge.declarations import HttpDeclaration, StdioDeclaration
from conductor.mcp.bridge.pins import Pins
from tests.e2e.actors.mcp_component import DECLARED, META, MODERN_META, Component, Json

__all__ = ["DECLARED", "META", "MODERN_META", "BridgeRig", "Component", "Json", "McpClient"]


class McpClient:
    """An MCP client of the agent's."""

    def __init__(self, rig: BridgeRig, name: str) -> None:
        self.rig = rig
        self.name = name
        self.frames: list[Json] = []
        self.related: list[bytes | None] = []
        self.finished: list[bytes] = []
        self.dropped = False
        self.serves: Callable[[Json], Json] | None = lambda frame: {
            "result": {"content": {"type": "text", "text": f"sampled {frame['params']}"}}
        }
        self._last = 0

    def send(self, frame: Json) -> None:
        """Sends a line to the bridge."""
        whole = json.dumps({"jsonrpc": "2.0", **frame}).encode()
        self.rig.perform(self.rig.bridge.from_client(self.name, whole))

    def start(self, method: str, params: Json | None = None, id_: object = None) -> object:
        """Sends a request; its id."""
        self._last += 1
        id_ = self._last if id_ is None else id_
        self.send({"id": id_, "method": method, **({} if params is None else {"params": params})})
        return id_

    def answer(self, id_: object) -> Json:
        """The answer to a request, which has to be there, once."""
        answers = [f for f in self.frames if "method" not in f and f.get("id") == id_]
        assert len(answers) == 1, (id_, self.frames)
        return answers[0]

    def call(self, method: str, params: Json | None = None) -> Json:
        """Sends a request; its answer."""
        return self.answer(self.start(method, params))

    def result(self, method: str, params: Json | None = None) -> Json:
        """Sends a request; its result."""
        answer = self.call(method, params)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def tool(self, name: str, text: str, **params: object) -> str:
        """Calls a tool; the text it answers."""
        result = self.result("tools/call", {"name": name, "arguments": {"text": text}, **params})
        return str(result["content"][0]["text"])

    def initialize(self, version: str = "2025-11-25", **able: object) -> Json:
        """Begins a session; the result."""
        info = {"name": "agent", "version": "1"}
        params = {"protocolVersion": version, "capabilities": able, "clientInfo": info}
        result = self.result("initialize", params)
        self.send({"method": "notifications/initialized"})
        return result

    def notifications(self, method: str) -> list[Json]:
        """The params of the notifications it got."""
        return [frame["params"] for frame in self.frames if frame.get("method") == method]

    def take(self, frame: Json, related: bytes | None) -> None:
        """Takes a line of the bridge's."""
        assert frame.pop("jsonrpc") == "2.0"
        self.frames.append(frame)
        self.related.append(related)
        if "method" in frame and "id" in frame and self.serves is not None:
            self.send({"id": frame["id"], **self.serves(frame)})

    def close(self) -> None:
        """Goes away."""
        self.rig.perform(self.rig.bridge.client_closed(self.name))


class BridgeRig:
    """A bridge with everything around it."""

    def __init__(
        self,
        generation: str = "stateless",
        kind: str = "stdio",
        support: Support | None = None,
        pins: Pins | None = None,
        *,
        panels: bool = False,
        reaches: bool = False,
    ) -> None:
        found = msgspec.structs.replace(support or Support(), wanted=kind)
        self.bridge = Bridge(found, nonce="n", panels=panels, pins=pins, reaches=reaches)
        self.links: dict[str, list[Json]] = {}
        """The messages that the servers of open links got."""
        self.reached: list[kinds.OpenLink] = []
        self.differs: list[kinds.Differs] = []
        self.component = Component(generation, self._from_component)
        self.generation = generation
        self.clients: dict[str, McpClient] = {}
        self.agent: list[Json] = []
        """The messages that the agent was sent."""
        self.upstream: list[Json] = []
        """The messages that went up and were not for the component."""
        self.wire: list[str] = []
        self.listeners: dict[str, str] = {}
        self.waits: list[kinds.Wait] = []
        self.notes: list[str] = []
        self.serves: Callable[[str, str], None] = self.listen
        self.sent = 0
        self._names = 0
        self._queue: list[kinds.Effect] = []
        self._busy = False

    # -- the chain -----------------------------------------------------------------------------

    def down(self, frame: Json) -> None:
        """Sends a line to the agent, as the router writes it."""
        self.perform(self.bridge.to_agent(_line(frame)))

    def up(self, frame: Json) -> None:
        """Sends a line of the agent's."""
        self.perform(self.bridge.from_agent(_line(frame)))

    def request(self, method: str, params: Json) -> int:
        """A request of the router to the agent; its id."""
        self.sent += 1
        self.down({"id": self.sent, "method": method, "params": params})
        return self.sent

    def set_up(self, *servers: Json, method: str = "session/new", **params: object) -> Json:
        """Sets up a session, whose id is `S1` and so on; the params the agent got."""
        declared = list(servers) or [DECLARED[self.generation]]
        id_ = self.request(method, {"cwd": "/", "mcpServers": declared, **params})
        sent = self.agent[-1]
        assert (sent["id"], sent["method"]) == (id_, method), sent
        result = {"sessionId": f"S{id_}"} if "sessionId" not in params else {}
        self.up({"id": id_, "result": result})
        got: Json = sent["params"]
        return got

    def client(self, name: str = "tools", listener: str | None = None) -> McpClient:
        """A client that comes in at the (last) server of this name."""
        self._names += 1
        listener = listener or [key for key, server in self.servers() if server == name][-1]
        made = self.clients[f"k{self._names}"] = McpClient(self, f"k{self._names}")
        self.perform(self.bridge.client_opened(made.name, listener))
        return made

    def servers(self) -> list[tuple[str, str]]:
        """Listener and name of each server there is."""
        return [(key, server.name) for key, server in self.bridge.servers.items()]

    def hold(self) -> list[Json]:
        """The frames that the component gets from now on; it answers none of them."""
        frames: list[Json] = []
        self.component.receive = frames.append  # type: ignore[method-assign,assignment]
        return frames

    def answer(self, frame: Json, **outcome: object) -> None:
        """The component answers a held frame."""
        self.component.send({"id": frame["id"], **outcome})

    def answer_raw(self, frame: Json, result: str) -> None:
        """The component answers a held frame with JSON as it stands here."""
        line = f'{{"jsonrpc":"2.0","id":{json.dumps(frame["id"])},"result":{result}}}\n'
        self.perform(self.bridge.to_agent(line.encode()))

    def said(self, link: str, frame: Json) -> None:
        """A server of the client's says something."""
        whole = json.dumps({"jsonrpc": "2.0", **frame}).encode()
        self.perform(self.bridge.link_received(link, whole))

    def listen(self, listener: str, kind: str) -> None:
        if kind == "stdio":
            made: HttpDeclaration | StdioDeclaration = StdioDeclaration(
                "conductor", ("mcp", listener), (("SECRET", f"s-{listener}"),)
            )
        else:
            made = HttpDeclaration(f"http://127.0.0.1:1/{listener}", (("Authorization", "x"),))
        self.perform(self.bridge.listening(listener, made))

    def _from_component(self, frame: Json) -> None:
        whole = {"jsonrpc": "2.0", **frame}
        self.wire.append("C> " + json.dumps(whole))
        self.down(whole)

    def perform(self, effects: list[kinds.Effect]) -> None:
        """Does the requests of the bridge, in order."""
        self._queue += effects
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue:
                self._perform(self._queue.pop(0))
        finally:
            self._busy = False

    def _perform(self, effect: kinds.Effect) -> None:
        match effect:
            case kinds.ToChain(frame):
                held = json.loads(frame)
                if self._is_for_component(held):
                    self._to_component(held)
                else:
                    self.upstream.append(held)
            case kinds.ToAgent(frame):
                assert frame.endswith(b"\n")
                self.agent.append(json.loads(frame))
            case kinds.Listen(listener, kind):
                self.listeners[listener] = kind
                self.serves(listener, kind)
            case kinds.CloseListener(listener):
                del self.listeners[listener]
            case kinds.ToClient(connection, frame, related):
                assert b"\n" not in frame
                self.clients[connection].take(json.loads(frame), related)
            case kinds.NoResponse(connection, id_):
                self.clients[connection].finished.append(id_)
            case kinds.CloseClient(connection):
                self.clients[connection].dropped = True
            case kinds.OpenLink(link):
                self.links[link] = []
                self.reached.append(effect)
            case kinds.ToLink(link, frame):
                assert frame.endswith(b"\n")
                self.links[link].append(json.loads(frame))
            case kinds.CloseLink(link):
                del self.links[link]
            case kinds.Differs():
                self.differs.append(effect)
            case kinds.Wait():
                self.waits.append(effect)
            case kinds.Log(_, text):
                self.notes.append(text)

    def _is_for_component(self, frame: Json) -> bool:
        if "method" not in frame:
            return frame["id"] in self.component.answers
        if frame["method"] == "_scp/html_panel/show":
            return False
        params = frame.get("params", {})
        about = frame.get("id", params.get("requestId", ""))
        if "id" in frame or frame["method"] == "$/cancel_request":
            return str(about).startswith("conductor-mcp-")
        names = {"connectionId", "connection_id", "url", "name"} & set(params)
        return "mcp" in frame["method"] and bool(names)

    def _to_component(self, frame: Json) -> None:
        self.wire.append("B> " + json.dumps(frame))
        self.component.receive(frame)


def _line(frame: Json) -> bytes:
    whole = {"jsonrpc": "2.0", **frame}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"
