"""The roads by which a component reaches an agent or the user, each as a chain that stands ready.

Every chain knows the facts of `attack.CONTEXT`: sessions, folders, modes, commands, MCP servers.
"""

import itertools
import json
import re
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from conductor.core import CHANNEL, Component, Send
from conductor.core.guards import Context
from conductor.core.guards.names import recognised
from conductor.core.policy.rules import Grants
from conductor.core.router import Router, RouterOptions
from tests.core.test_guards.attack import Move
from tests.harness.router.policed import initialize
from tests.harness.router.rules import policy_of

Json = dict[str, Any]

NOTIFIED: Final = ("session/update", "session/cancel", "$/cancel_request", "elicitation/complete")
UPWARDS: Final = (
    "session/update",
    "session/request_permission",
    "fs/",
    "terminal/",
    "elicitation/",
)
MINE: Final = {"type": "acp", "name": "mine", "serverId": "mine"}
THEIRS: Final = {"type": "acp", "name": "peer", "serverId": "theirs"}
SET_UP: Final = {"cwd": "/w", "additionalDirectories": ["/home/me/proj"], "mcpServers": [THEIRS]}
CONNECTIONS: Final = (("mine", "my-connection"), ("theirs", "their-connection"))
MODES: Final = {
    "modes": {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "bypass", "name": "Bypass"}],
    },
    "models": {
        "currentModelId": "big",
        "availableModels": [{"modelId": "model"}, {"modelId": "big"}],
    },
    "configOptions": [{"id": "model"}],
}
COMMANDS: Final = [{"name": name, "description": "."} for name in ("review", "$fix", "compact")]


class Road:
    """A chain of the client, the component `g` and the agent, and the messages that each got."""

    name = "chain"
    without: frozenset[str] = frozenset()
    """The guards of things that are not there."""

    @staticmethod
    def context(context: Context) -> Context:
        """The guards' context of a component on this road: the profile brings turns."""
        grants = msgspec.structs.replace(context.grants, turns=context.grants.turns or "within")
        modes = context.modes - {"\u2713"}  # no agent here lists such an id
        return msgspec.structs.replace(context, grants=grants, prompts=True, modes=modes)

    def __init__(self, grants: Grants, version: int) -> None:
        self.version = version
        self._ids = itertools.count(1)
        self.got: dict[str, list[bytes]] = {}
        policy = policy_of("full", grants=grants)
        component = Component("g", "proxy `g`", CHANNEL, policy=policy, ports=self.ports())
        components = [component, *self.peers(), Component("agent", "agent `agent`")]
        self.router = Router(components, options=RouterOptions(reserved=["tools-demo", "Context"]))
        self.begin(component)

    def ports(self) -> dict[str, bool]:
        """The peer agents of `g`."""
        return {}

    def peers(self) -> list[Component]:
        """Components beside the chain."""
        return []

    def begin(self, component: Component) -> None:
        """Initializes the chain and sets its sessions up."""
        for effect in initialize(self.router, [component], self.version):
            if isinstance(effect, Send):
                self.got.setdefault(effect.peer, []).append(effect.frame)
        for peer in self.peers():
            ready = json.dumps({"protocolVersion": self.version})
            asked = self.taken(peer.name, "initialize")
            self.say(peer.name, "", self.answer(asked, "result", ready))
        for session in ("s", "b", "in-use"):
            self.set_up(session)
        for server, connection in CONNECTIONS:
            self.connect(server, connection)

    def connect(self, server: str, connection: str) -> None:
        """The agent connects to an MCP server; with `mcp=others` through `g`."""
        self.got.clear()
        params = json.dumps({"serverId": server})
        asked = self.ask("agent", "", "mcp/connect", params)
        said = json.dumps({"connectionId": connection})
        at_g = self.taken("g", "mcp/connect") if "g" in self.got else None
        if at_g is not None and server != "mine":
            self.answer_on("g", "p", at_g, "mcp/connect", params)
        if server != "mine":
            there = self.taken("client", "mcp/connect")
            self.say("client", "", self.answer(there, "result", said))
        if at_g is not None:
            self.say("g", "s", self.answer(at_g, "result", said))
        assert self.answered("agent", asked)

    def set_up(self, session: str) -> None:
        """The client opens a session, to which `g` adds a server of its own."""
        asked = self.ask("client", "", "session/new", json.dumps(SET_UP))
        at_g = self.taken("g", "session/new")
        params = json.dumps({**SET_UP, "mcpServers": [THEIRS, *([MINE] if session == "s" else [])]})
        self.answer_on("g", "s", at_g, "session/new", params)
        said = json.dumps({"sessionId": session, **MODES})
        self.say("agent", "", self.answer(self.taken("agent", "session/new"), "result", said))
        self.say("g", "p", self.answer(at_g, "result", said))
        assert self.answered("client", asked), f"{session} is not set up"
        update = {"sessionUpdate": "available_commands_update", "availableCommands": COMMANDS}
        params = json.dumps({"sessionId": session, "update": update})
        self.say("agent", "", self.message("session/update", params))

    # -- frames ----------------------------------------------------------------------------------

    def message(self, method: str, params: str | UnsetType, id_: object = None) -> bytes:
        """A request with an id, else a notification."""
        head = {"jsonrpc": "2.0", "method": method, **({} if id_ is None else {"id": id_})}
        text = json.dumps(head)
        return (text if params is UNSET else f'{text[:-1]},"params":{params}}}').encode(
            "utf-8", "surrogatepass"
        )

    @staticmethod
    def answer(id_: object, member: str, body: str) -> bytes:
        """An answer."""
        return f'{{"jsonrpc":"2.0","id":{json.dumps(id_)},"{member}":{body}}}'.encode()

    def say(self, peer: str, side: str, frame: bytes) -> None:
        """A peer sends a frame, and everybody gets the frames that follow."""
        for effect in self.router.receive(peer, side.encode() + frame):
            if isinstance(effect, Send):
                self.got.setdefault(effect.peer, []).append(effect.frame)
        if peer == "g":
            self.router.delivering("g")
            for effect in self.router.delivered("g"):
                if isinstance(effect, Send):
                    self.got.setdefault(effect.peer, []).append(effect.frame)

    def ask(self, peer: str, side: str, method: str, params: str | UnsetType) -> object:
        """A peer sends a request; its id."""
        id_ = f"{peer}-{next(self._ids)}"
        self.say(peer, side, self.message(method, params, id_))
        return id_

    def answer_on(self, peer: str, side: str, id_: object, method: str, params: str) -> None:
        """`g` passes a request on."""
        self.say(peer, side, self.message(method, params, id_))

    def taken(self, peer: str, method: str) -> object:
        """The id of the last request of a method that a peer got."""
        for frame in reversed(self.got.get(peer, [])):
            held = json.loads(frame[frame.index(b"{") :])
            if held.get("method") == method and "id" in held:
                return held["id"]
        raise LookupError(f"{peer} got no {method}")

    def answered(self, peer: str, id_: object) -> bool:
        """Whether a request of a peer was answered."""
        frames = (json.loads(f[f.index(b"{") :]) for f in self.got.get(peer, []))
        return any(held.get("id") == id_ and "method" not in held for held in frames)

    # -- attacks ---------------------------------------------------------------------------------

    def ends(self, method: str) -> tuple[str, str]:
        """The sender of a message of a method, and its receiver."""
        return ("agent", "client") if method.startswith(UPWARDS) else ("client", "agent")

    def is_idle(self) -> bool:
        """Whether nothing of the last attack is open: the chain stands ready for another."""
        return not any(self.router.pending(peer) for peer in self.router.peers)

    def arrives(self, move: Move) -> bool:
        """Whether the component's act reaches the agent, a peer agent or the user."""
        self.got.clear()
        getattr(self, f"_{move.way}")(move)
        return any(
            self._holds(frame, move)
            for peer, frames in self.got.items()
            if peer != "g"
            for frame in frames
        )

    def _holds(self, frame: bytes, move: Move) -> bool:
        try:
            held = json.loads(frame)
        except ValueError:
            return False
        member = {"answered": "result", "denied": "error"}.get(move.way, "params")
        if member == "params" and recognised(held.get("method", "")) != recognised(move.method):
            return False
        if move.sent is UNSET:
            return member == "params" and "params" not in held
        sent = str(move.sent)
        if f'"{member}":{sent}'.encode("utf-8", "surrogatepass") in frame:
            return True
        # A message in another spelling has not arrived where it is written as before.
        means, was = _loaded(sent), _loaded(str(move.given))
        return member in held and means != was and held[member] == means

    def _forwarded(self, move: Move) -> None:
        origin, _ = self.ends(move.method)
        side, out = ("p", "s") if origin == "client" else ("s", "p")
        if move.method in NOTIFIED:
            self.say(origin, "", self.message(move.method, move.given))
            self.say("g", out, self.message(move.method, move.sent))
            return
        self.ask(origin, "", move.method, move.given)
        frames = [frame for frame in self.got.get("g", []) if frame.startswith(side.encode())]
        params = f'"params":{move.given}'.encode("utf-8", "surrogatepass")
        if frames and params not in frames[-1]:
            return  # the conductor has given something else: the attack is another one
        id_ = json.loads(frames[-1][1:]).get("id") if frames else "own"
        self.got.clear()
        self.say("g", out, self.message(move.method, move.sent, id_))

    def _originated(self, move: Move) -> None:
        for side in ("s", "p"):
            self.say("g", side, self.message(move.method, move.sent, f"own-{next(self._ids)}"))
            self.say("g", side, self.message(move.method, move.sent))

    def _answered(self, move: Move, member: str = "result") -> None:
        origin, end = self.ends(move.method)
        side, out = ("p", "s") if origin == "client" else ("s", "p")
        self.ask(origin, "", move.method, move.given)
        frames = [frame for frame in self.got.get("g", []) if frame.startswith(side.encode())]
        if not frames:
            return
        id_ = json.loads(frames[-1][1:]).get("id")
        if move.came_back is not None:
            self.say("g", out, self.message(move.method, move.given, id_))
            try:
                there = self.taken(end, move.method)
            except LookupError:
                return
            self.got.clear()
            self.say(end, "", self.answer(there, "result", move.came_back))
        self.got.clear()
        self.say("g", side, self.answer(id_, member, str(move.sent)))

    def _denied(self, move: Move) -> None:
        self._answered(move, "error")


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


class OwnSession(Road):
    """A session that the component has opened, in the place of the user's."""

    name = "session of its own"
    without = frozenset({"own-sessions"})
    """The guards without an attack here: the component may end, load and list its own session."""

    def __init__(self, grants: Grants, version: int) -> None:
        super().__init__(msgspec.structs.replace(grants, sessions="own"), version)

    @staticmethod
    def context(context: Context) -> Context:
        """The session is the component's own."""
        grants = msgspec.structs.replace(context.grants, sessions="own", turns="within")
        own = {"s": ("/w",)}
        known = Road.context(context)
        return msgspec.structs.replace(known, grants=grants, own=True, own_sessions=own)

    def begin(self, component: Component) -> None:
        super().begin(component)
        self.open()

    def open(self) -> None:
        """`g` opens a session."""
        params = json.dumps({**SET_UP, "mcpServers": []})
        self.say("g", "s", self.message("session/new", params, "open"))
        said = json.dumps({"sessionId": "own", **MODES})
        self.say("agent", "", self.answer(self.taken("agent", "session/new"), "result", said))
        assert self.answered("g", "open")
        update = {"sessionUpdate": "available_commands_update", "availableCommands": COMMANDS}
        params = json.dumps({"sessionId": "own", "update": update})
        self.say("agent", "", self.message("session/update", params))

    def arrives(self, move: Move) -> bool:
        def renamed(text: Any) -> Any:
            return _session.sub(r'\g<1>"own"', text) if isinstance(text, str) else text

        way = "originated" if move.way == "forwarded" else move.way
        given, sent = renamed(move.given), renamed(move.sent)
        return super().arrives(msgspec.structs.replace(move, way=way, given=given, sent=sent))


class Rebound(OwnSession):
    """The user's session, which goes on as one of the component's own."""

    name = "rebound session"
    without = frozenset[str]()

    @staticmethod
    def context(context: Context) -> Context:
        """The session is the user's, and the component has one of its own."""
        known = OwnSession.context(context)
        return msgspec.structs.replace(known, own=False, own_sessions={"own": ("/w",)})

    def begin(self, component: Component) -> None:
        super().begin(component)
        params = json.dumps({"sessionId": "s", "to": "own"})
        self.say("g", "c", self.message("rebind", params, "bind"))
        assert self.answered("g", "bind"), self.got
        assert b'"error"' not in self.got["g"][-1]

    def arrives(self, move: Move) -> bool:
        return Road.arrives(self, move)

    def say(self, peer: str, side: str, frame: bytes) -> None:
        """The agent calls the session by its own name."""
        if peer == "agent" and self.router.peers["g"].s.aliases is not None:
            frame = _session.sub(r'\g<1>"own"', frame.decode()).encode()
        super().say(peer, side, frame)
        for frames in self.got.values():
            frames[:] = [_own.sub(rb'\g<1>"s"', one) for one in frames]


_session: Final = re.compile(r'("sessionId": ?)"s"')
_own: Final = re.compile(rb'("sessionId": ?)"own"')


class Port(Road):
    """The way to a peer agent, which has a session of the same name."""

    name = "port"
    without = frozenset({"mcp-connections"})

    @staticmethod
    def context(context: Context) -> Context:
        """At a port are the component and its peer agent alone: no server is anybody else's."""
        return msgspec.structs.replace(
            context,
            grants=Grants(sessions="own"),
            prompts=True,
            foreign=frozenset(),
            sessions=frozenset({"s"}),
            own=True,
            own_sessions={"s": ("/w",)},
        )

    def ports(self) -> dict[str, bool]:
        return {"peer": True}

    def peers(self) -> list[Component]:
        return [Component("peer", "agent `peer`", peer_agent=True)]

    def begin(self, component: Component) -> None:
        super().begin(component)
        params = json.dumps({"cwd": "/w", "mcpServers": []})
        asked = self.over("session/new", params, "open")
        said = json.dumps({"sessionId": "s", **MODES})
        self.say("peer", "", self.answer(self.taken("peer", "session/new"), "result", said))
        assert self.answered("g", asked)
        update = {"sessionUpdate": "available_commands_update", "availableCommands": COMMANDS}
        params = json.dumps({"sessionId": "s", "update": update})
        self.say("peer", "", self.message("session/update", params))

    def over(self, method: str, params: str | UnsetType, id_: object = None) -> object:
        """`g` sends its peer agent a message in its envelope."""
        inner = f'{{"peer":"peer","method":{json.dumps(method)}'
        inner += "}" if params is UNSET else f',"params":{params}}}'
        self.say("g", "s", self.message("proxy/successor", inner, id_))
        return id_

    def arrives(self, move: Move) -> bool:
        self.got.clear()
        if move.way in ("forwarded", "originated"):
            held = None
            if move.way == "forwarded" and move.method == "session/prompt":
                self.ask("client", "", move.method, move.given)
                held = self.taken("g", move.method) if "g" in self.got else None
            self.got.clear()
            self.over(move.method, move.sent, f"own-{next(self._ids)}")
            self.over(move.method, move.sent)
            if held is not None:
                self.say("g", "p", self.answer(held, "result", '{"stopReason":"end_turn"}'))
        elif move.came_back is None and move.method.startswith((*UPWARDS, "mcp/", "_mcp/")):
            # An agent asks, and nobody stands behind the component.
            self.ask("peer", "", move.method, move.given)
            frames = self.got.get("g", [])
            self.got.clear()
            if frames:
                member = "error" if move.way == "denied" else "result"
                id_ = json.loads(frames[-1][1:]).get("id")
                self.say("g", "s", self.answer(id_, member, str(move.sent)))
        return any(self._holds(frame, move) for frame in self.got.get("peer", []))


ROADS: Final = (Road, Port)
IN_THE_CHAIN: Final = (OwnSession, Rebound)
"""Roads that differ from the chain in names and rights alone."""
