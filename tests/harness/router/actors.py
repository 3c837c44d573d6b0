"""Peers for a router under test: pass-through proxies of every dialect, an agent, a client.

They are written from the protocol's documents, not from `conductor.core.dialects`, and know nothing
of the conductor's classes. An actor hears one line and says lines; a `Stage` plays them all.
"""

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from conductor.core import Component, Effect, Listen, Reopen, Send, Serve, Wake
from conductor.core.accounts import Allowance
from conductor.core.dialects import DIALECTS
from conductor.core.router import Router, RouterOptions

Json = dict[str, Any]


def dump(value: object) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class Form(NamedTuple):
    """How one generation of proxies talks."""

    role: str
    down_request: str = ""
    down_notification: str = ""
    up_request: str = ""
    up_notification: str = ""
    nested: bool = False
    echo: bool = False
    unknown_role: str = "refuse"
    """The reaction to a role request of another generation: refuse, forward, exit."""
    wraps_cancel: bool = False


_SAME: Final = ("proxy/successor",) * 4
_OLD: Final = ("_proxy/successor",) * 4
FORMS: Final = {
    "acp": Form("proxy/initialize", *_SAME, unknown_role="forward"),
    "sdk": Form("_proxy/initialize", *_OLD, unknown_role="forward", wraps_cancel=True),
    "sacp": Form(
        "initialize",
        "_proxy/successor/request",
        "_proxy/successor/notification",
        "_proxy/successor/request",
        "_proxy/successor/notification",
        echo=True,
    ),
    "pacp": Form(
        "initialize",
        "_proxy/successor/send/request",
        "_proxy/successor/send/notification",
        "_proxy/successor/receive/request",
        "_proxy/successor/receive/notification",
        nested=True,
        echo=True,
    ),
}
ROLES: Final = ("proxy/initialize", "_proxy/initialize")


class Actor:
    """A peer. `hear` takes a line and gives the lines it says, each with the peer name to use."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._last = 0

    def hear(self, peer: str, line: bytes) -> list[tuple[str, bytes]]:
        """Answers one line."""
        raise NotImplementedError

    def fresh(self) -> object:
        """An id of its own."""
        self._last += 1
        return f"{self.name}-{self._last}"


class PassThrough(Actor):
    """A proxy that forwards everything, in an enveloping dialect."""

    def __init__(self, name: str, form: Form, edit: Callable[[Json], None] | None = None) -> None:
        super().__init__(name)
        self.form = form
        self.edit = edit or (lambda message: None)
        self.waiting: dict[object, tuple[object, bool]] = {}
        self.exited = False

    def hear(self, peer: str, line: bytes) -> list[tuple[str, bytes]]:
        message = json.loads(line)
        return [(self.name, dump(said)) for said in self._act(message)]

    def _act(self, message: Json) -> list[Json]:
        form, method = self.form, message.get("method")
        if method is None:
            return self._answered(message)
        if method == "$/cancel_request":
            return self._cancel(message["params"]["requestId"])
        if method in (form.up_request, form.up_notification):
            inner = message["params"]["message"] if form.nested else message["params"]
            if inner["method"] == "$/cancel_request":
                return self._cancel(inner["params"]["requestId"])
            plain = {k: inner[k] for k in ("method", "params") if k in inner}
            self.edit(plain)
            return [self._with_id(message, plain, role=False)]
        if method in ("initialize", *ROLES) and method != form.role:
            if form.unknown_role == "refuse" or method == "initialize":
                code = -32600 if method == "initialize" else -32601
                return [self._error(message["id"], code, f"no `{method}`")]
            if form.unknown_role == "exit":
                self.exited = True
                return []
            return [self._wrapped(message, method, role=False)]
        if method == "_scp/proxy":
            return [self._error(message["id"], -32601, "Method not found")]
        if method.startswith("_conductor/"):
            return []
        self.edit(message)
        role = method == form.role
        return [self._wrapped(message, "initialize" if role else method, role=role)]

    def _wrapped(self, message: Json, method: str, *, role: bool) -> Json:
        inner = {"method": method}
        if "params" in message:
            inner["params"] = message["params"]
        envelope = self.form.down_request if "id" in message else self.form.down_notification
        params: Json = {"message": inner} if self.form.nested else {**inner, "_meta": {"hop": 1}}
        return self._with_id(message, {"method": envelope, "params": params}, role=role)

    def _with_id(self, heard: Json, said: Json, *, role: bool) -> Json:
        if "id" in heard:
            said = {"id": self.fresh(), **said}
            self.waiting[said["id"]] = (heard["id"], role)
        return {"jsonrpc": "2.0", **said}

    def _answered(self, message: Json) -> list[Json]:
        id_, role = self.waiting.pop(message["id"])
        if role and self.form.echo and "result" in message:
            meta = message["result"].setdefault("agentCapabilities", {}).setdefault("_meta", {})
            meta.setdefault("symposium", {"version": "1.0"})["proxy"] = True
        return [{**message, "id": id_}]

    def _cancel(self, heard: object) -> list[Json]:
        for mine, (theirs, _) in self.waiting.items():
            if theirs == heard:
                cancel = {"method": "$/cancel_request", "params": {"requestId": mine}}
                if self.form.wraps_cancel:
                    cancel = {"method": self.form.down_notification, "params": cancel}
                return [{"jsonrpc": "2.0", **cancel}]
        return []

    @staticmethod
    def _error(id_: object, code: int, text: str) -> Json:
        return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text}}


class Launching(Actor):
    """A proxy of dialect `scp`: plain on two connections, the second after `_scp/proxy`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.waiting: dict[object, tuple[str, object]] = {}
        self.launched = False
        self.params: Json = {}

    def hear(self, peer: str, line: bytes) -> list[tuple[str, bytes]]:
        message = json.loads(line)
        other = self.name if peer != self.name else f"{self.name}/successor"
        method = message.get("method")
        if method == "_scp/proxy":
            assert message["params"]["servers"][0]["command"] == "shim"
            self.launched = True
            mine = self.fresh()
            self.waiting[mine] = (peer, message["id"])
            said = {"jsonrpc": "2.0", "id": mine, "method": "initialize", "params": self.params}
            return [(other, dump(said))]
        if method == "initialize" and not self.launched:
            self.params = message["params"]
            meta = {"symposium": {"version": "1.0", "proxy": True}}
            capabilities = {"loadSession": False, "_meta": meta}
            result = {"protocolVersion": 1, "agentCapabilities": capabilities}
            return [(peer, dump({"jsonrpc": "2.0", "id": message["id"], "result": result}))]
        if method in ROLES or (method is not None and not self.launched):
            error = {"code": -32601, "message": "Method not found"}
            return [(peer, dump({"jsonrpc": "2.0", "id": message["id"], "error": error}))]
        if method is None:
            where, id_ = self.waiting.pop(message["id"])
            return [(where, dump({**message, "id": id_}))]
        if method == "$/cancel_request":
            for mine, (where, theirs) in self.waiting.items():
                if (where, theirs) == (peer, message["params"]["requestId"]):
                    message["params"] = {"requestId": mine}
        elif "id" in message:
            mine = self.fresh()
            self.waiting[mine] = (peer, message["id"])
            message["id"] = mine
        return [(other, dump(message))]


class Guest(Actor):
    """A proxy on `channel/1`: it flips the side byte and drops what is for itself."""

    def hear(self, peer: str, line: bytes) -> list[tuple[str, bytes]]:
        flipped = {b"p": b"s", b"s": b"p"}.get(line[:1])
        return [(peer, flipped + line[1:])] if flipped else []


class Agent(Actor):
    """Answers `initialize` and `session/new`; a prompt streams, asks permission, and ends."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked: dict[object, object] = {}
        self.seen: list[Json] = []

    def hear(self, peer: str, line: bytes) -> list[tuple[str, bytes]]:
        message = json.loads(line)
        self.seen.append(message)
        return [(peer, dump({"jsonrpc": "2.0", **said})) for said in self._act(message)]

    def _act(self, message: Json) -> list[Json]:
        match message:
            case {"id": id_, "method": "initialize", "params": {"protocolVersion": version}}:
                capabilities = {"loadSession": False}
                result = {"protocolVersion": version, "agentCapabilities": capabilities}
                return [{"id": id_, "result": result}]
            case {"id": id_, "method": "session/new"}:
                return [{"id": id_, "result": {"sessionId": "s1"}}]
            case {"id": id_, "method": "session/prompt"}:
                mine = self.fresh()
                self.asked[mine] = id_
                update = {"sessionUpdate": "agent_message_chunk"}
                return [
                    {"method": "session/update", "params": {"sessionId": "s1", "update": update}},
                    {"id": mine, "method": "session/request_permission", "params": {"n": 1}},
                ]
            case {"id": id_, "result": _} if id_ in self.asked:
                return [{"id": self.asked.pop(id_), "result": {"stopReason": "end_turn"}}]
            case {"method": "$/cancel_request", "params": {"requestId": id_}}:
                mine = next(mine for mine, theirs in self.asked.items() if theirs == id_)
                # The agent withdraws its own request first, then ends the turn.
                cancel = {"method": "$/cancel_request", "params": {"requestId": mine}}
                del self.asked[mine]
                return [cancel, {"id": id_, "error": {"code": -32800, "message": "cancelled"}}]
            case {"id": id_, "method": method}:
                return [{"id": id_, "error": {"code": -32601, "message": f"no `{method}`"}}]
        return []


class Stage:
    """Plays a router and its actors until nobody has anything to say.

    `log` holds `name> line` for what a peer said and `name< line` for what it was told.
    """

    def __init__(self, router: Router, actors: Sequence[Actor]) -> None:
        self.router = router
        self.actors = {actor.name: actor for actor in actors}
        self.log: list[str] = []
        self.effects: list[Effect] = []
        self.wakes: list[Wake] = []
        """The wakes that the router asked for; no time passes here by itself."""
        self.client: list[Json] = []
        """The messages that the upstream peer was sent."""
        self.lines: list[bytes] = []
        """The same messages as they were written."""
        self._queue: deque[tuple[str, bytes]] = deque()
        self._perform(router.start())
        self._play()

    def say(self, message: Json | bytes, peer: str = "client") -> list[Json]:
        """Has a peer say something; returns the messages that upstream gets because of it."""
        before = len(self.client)
        self._queue.append((peer, message if isinstance(message, bytes) else dump(message)))
        self._play()
        return self.client[before:]

    def apply(self, effects: list[Effect]) -> list[Json]:
        """Performs effects that came from elsewhere."""
        before = len(self.client)
        self._perform(effects)
        self._play()
        return self.client[before:]

    def _play(self) -> None:
        while self._queue:
            peer, line = self._queue.popleft()
            self.log.append(f"{peer}> {line.decode()}")
            self._perform(self.router.receive(peer, line))

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, frame):
                    assert frame.endswith(b"\n")
                    assert frame.count(b"\n") == 1
                    self._tell(peer, frame[:-1])
                case Listen(peer):
                    self._perform(self.router.listening(peer, b'{"command":"shim"}'))
                case Reopen(peer):
                    self._perform(self.router.reopened(peer))
                case Serve(_, _, token, _):
                    if token is not None:
                        self._perform(self.router.served(token, b'{"served":true}'))
                case Wake():
                    self.wakes.append(effect)
                case _:
                    self.effects.append(effect)

    def _tell(self, peer: str, line: bytes) -> None:
        self.log.append(f"{peer}< {line.decode()}")
        if peer == "client":
            self.lines.append(line)
            self.client.append(json.loads(line.lstrip(b"ps")))
            return
        actor = self.actors[peer.removesuffix("/successor")]
        self._queue.extend(actor.hear(peer, line))


def proxy(kind: str, name: str) -> Actor:
    """A pass-through proxy of a dialect."""
    if kind == "scp":
        return Launching(name)
    if kind == "channel":
        return Guest(name)
    return PassThrough(name, FORMS[kind])


def chain(
    kinds: Sequence[str],
    *,
    told: bool = True,
    tracing: bool = False,
    audited: bool = False,
    allowance: Allowance = Allowance(),  # noqa: B008 - it is frozen
) -> Stage:
    """A chain of pass-through proxies before the agent; `told`: the router knows the dialects.

    A guest's dialect is always known: its carrier says so.
    """
    names = [f"p{number}" for number in range(1, len(kinds) + 1)]
    components = [
        Component(
            name,
            dialect=DIALECTS[kind] if told or kind == "channel" else None,
            allowance=allowance,
        )
        for name, kind in zip(names, kinds, strict=True)
    ]
    audits = names if audited else ()
    router = Router(
        [*components, Component("agent")],
        options=RouterOptions(tracing=tracing, audited=audits),
    )
    actors = [proxy(kind, name) for name, kind in zip(names, kinds, strict=True)]
    return Stage(router, [*actors, Agent("agent")])


INITIALIZE: Final[Json] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {"fs": {}}},
}
NEW: Final[Json] = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/"}}
PROMPT: Final[Json] = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "session/prompt",
    "params": {"text": "hi"},
}
CANCEL: Final[Json] = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}}


def conversation(stage: Stage) -> list[Json]:
    """Plays each kind of message once; the result is what the client was told, with comparable
    ids."""
    told = stage.say(INITIALIZE) + stage.say(NEW)
    asked = stage.say(PROMPT)
    told += asked
    told += stage.say({"jsonrpc": "2.0", "id": asked[-1]["id"], "result": {"outcome": "allow"}})
    asked = stage.say(PROMPT)
    told += asked + stage.say(CANCEL)
    told += stage.say({"jsonrpc": "2.0", "id": asked[-1]["id"], "result": {"outcome": "cancelled"}})
    ids: dict[object, str] = {}
    for message in told:
        if "method" in message and "id" in message:
            message["id"] = ids.setdefault(message["id"], f"a{len(ids) + 1}")
        elif message.get("method") == "$/cancel_request":
            message["params"] = {"requestId": ids[message["params"]["requestId"]]}
    return told
