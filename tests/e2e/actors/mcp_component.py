"""A component with one MCP server, of any generation of MCP over ACP; standard library only."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, Final

Json = dict[str, Any]

META: Final = "io.modelcontextprotocol/"
MODERN_META: Final[Json] = {
    META + "protocolVersion": "2026-07-28",
    META + "clientCapabilities": {"sampling": {}, "elicitation": {}},
    META + "clientInfo": {"name": "modern", "version": "1"},
}
UNKNOWN: Final[Json] = {"code": -32601, "message": "Method not found"}

DECLARED: Final[dict[str, Json]] = {
    "stateless": {"type": "acp", "name": "tools", "serverId": "ID"},
    "sdk-2": {"type": "acp", "name": "tools", "serverId": "ID"},
    "rfd": {"type": "acp", "name": "tools", "id": "ID"},
    "sdk-0.12": {"type": "http", "name": "tools", "url": "acp:ID", "headers": []},
    "sacp": {"name": "tools", "url": "acp:ID"},
    "pacp": {"transport": "http", "name": "tools", "url": "acp:ID", "headers": {}},
    "scp": {"type": "scp", "name": "tools"},
}
"""How a component of each generation declares its server."""

CAPABILITIES: Final[Json] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
}


TOOLS: Final = ("echo", "progress", "raw", "asks", "whoami", "report", "slow", "sample")
"""The tools of the server."""


def tool(name: str, **more: Any) -> Json:
    """A tool's definition."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


class Component:
    """A component with one server, of one generation; what it cannot know it refuses."""

    def __init__(
        self,
        generation: str,
        send: Callable[[Json], None],
        id_: str = "ID",
        name: str = "tools",
    ) -> None:
        self.generation = generation
        self.id = id_
        self.name = name
        self.send = send
        self._ids = itertools.count(1)
        self.connections = 0
        self._prefix = "" if id_ == "ID" else f"{id_}-"
        self.heard: list[Json] = []
        """Every message of MCP it was given, with `connection` or `requestId` beside."""
        self.open: dict[str, Json] = {}
        """Calls of `slow` that wait for `finish`, by the text they were called with."""
        self.answers: dict[int, Callable[[Json], None]] = {}
        self.cancelled: list[object] = []
        self.disconnected: list[Json] = []
        self.connects: list[Json] = []
        self.capabilities = CAPABILITIES
        self.sampling: Json = {"maxTokens": 9}
        """The params of `sampling/createMessage`."""
        self.tools: list[Json] = [{"name": "echo", "inputSchema": {"type": "object"}}]
        self.resources: dict[str, Json] = {}
        """The contents at addresses, beside `uri`; at all other addresses there is a text."""
        self.tells_session = False
        """Whether its title names the session of the connection."""
        self.lists: Callable[[Json], Json] = lambda params: {"tools": self.tools}
        """The answer to the params of `tools/list`."""
        self._opened_with: dict[object, Json] = {}
        self.dead = False

    def receive(self, frame: Json) -> None:
        """Takes one line of the chain."""
        if self.dead:
            if "id" in frame:
                error = {"code": -32603, "message": "proxy `tools` exited with code 7"}
                self.send({"id": frame["id"], "error": error})
            return
        if "method" not in frame:
            self.answers.pop(frame["id"])(frame)
        elif frame["method"] == "$/cancel_request":
            self.cancelled.append(frame["params"]["requestId"])
        else:
            getattr(self, "_" + self.generation.replace("-", "_").replace(".", "_"))(frame)

    # -- generations ---------------------------------------------------------------------------

    def _stateless(self, frame: Json) -> None:
        params = frame["params"]
        if frame["method"] != "mcp/message" or "requestId" not in params or "id" not in frame:
            self._refuse(frame)
            return
        assert params["serverId"] == self.id
        about = {"requestId": params["requestId"]}
        self.serve(about, params, lambda one: self.send({"id": frame["id"], "result": one}))

    def _session(self, frame: Json, connect: str, key: str, answer: str, off: str) -> None:
        params = frame["params"]
        if frame["method"] == connect and key in params:
            self.connects.append(params)
            self.connections += 1
            connection = f"{self._prefix}c{self.connections}"
            self._opened_with[connection] = params
            self.send({"id": frame["id"], "result": {answer: connection}})
        elif frame["method"] == off:
            self.disconnected.append(params)
            if "id" in frame:
                self.send({"id": frame["id"], "result": {}})
        else:
            self._refuse(frame)

    def _flat(self, frame: Json, names: tuple[str, str], connection: str) -> bool:
        params = frame["params"]
        if frame["method"] != names["id" not in frame] or connection not in params:
            return False
        about = {"connection": params[connection]}
        self.serve(about, params, lambda one: self.send({"id": frame["id"], **one}))
        return True

    def _sdk_2(self, frame: Json) -> None:
        if not self._flat(frame, ("mcp/message", "mcp/message"), "connectionId"):
            self._session(frame, "mcp/connect", "serverId", "connectionId", "mcp/disconnect")

    def _rfd(self, frame: Json) -> None:
        if not self._flat(frame, ("mcp/message", "mcp/message"), "connectionId"):
            self._session(frame, "mcp/connect", "acpId", "connectionId", "mcp/disconnect")

    def _sdk_0_12(self, frame: Json) -> None:
        if not self._flat(frame, ("_mcp/message", "_mcp/message"), "connectionId"):
            self._session(frame, "_mcp/connect", "acp_id", "connection_id", "_mcp/disconnect")

    def _sacp(self, frame: Json) -> None:
        if not self._flat(frame, ("_mcp/request", "_mcp/notification"), "connection_id"):
            self._session(frame, "_mcp/connect", "acp_url", "connection_id", "_mcp/disconnect")

    def _nested(self, frame: Json, names: tuple[str, str], key: str, value: str) -> None:
        params = frame["params"]
        if frame["method"] != names["id" not in frame]:
            self._refuse(frame)
            return
        assert params[key] == value
        inner = params["message"]
        assert ("id" in inner) == ("id" in frame)

        def answer(one: Json) -> None:
            whole = {"jsonrpc": "2.0", "id": inner["id"], **one}
            self.send({"id": frame["id"], "result": {"message": whole}})

        self.serve({}, inner, answer)

    def _pacp(self, frame: Json) -> None:
        start = "_mcp/client_to_server/"
        self._nested(frame, (start + "request", start + "notification"), "url", f"acp:{self.id}")

    def _scp(self, frame: Json) -> None:
        self._nested(frame, ("_scp/mcp", "_scp/mcp"), "name", self.name)

    def _refuse(self, frame: Json) -> None:
        if "id" in frame:
            self.send({"id": frame["id"], "error": UNKNOWN})

    # -- to the client ---------------------------------------------------------------------------

    def tell(self, about: Json, method: str, params: Json) -> None:
        """Sends a notification to the client."""
        match self.generation:
            case "stateless":
                whole = {"serverId": self.id, **about, "method": method, "params": params}
                self.send({"method": "mcp/message", "params": whole})
            case "pacp" | "scp":
                inner = {"jsonrpc": "2.0", "method": method, "params": params}
                self._wrapped({"message": inner})
            case _:
                self._addressed(about, {"method": method, "params": params}, asks=False)

    def ask(self, about: Json, method: str, params: Json, then: Callable[[Json], None]) -> int:
        """Asks the client something; the id of ACP."""
        number = next(self._ids)
        if self.generation in ("pacp", "scp"):
            self.answers[number] = lambda frame: then(frame["result"]["message"])
            inner = {"jsonrpc": "2.0", "id": f"in-{number}", "method": method, "params": params}
            self._wrapped({"message": inner}, number)
        else:
            self.answers[number] = then
            self._addressed(about, {"method": method, "params": params}, asks=True, id_=number)
        return number

    def _wrapped(self, held: Json, id_: int | None = None) -> None:
        kind = "notification" if id_ is None else "request"
        if self.generation == "pacp":
            method, held = f"_mcp/server_to_client/{kind}", {"url": f"acp:{self.id}", **held}
        else:
            method, held = "_scp/mcp", {"name": self.name, **held}
        head = {} if id_ is None else {"id": id_}
        self.send({**head, "method": method, "params": held})

    def _addressed(self, about: Json, held: Json, *, asks: bool, id_: int = 0) -> None:
        name = "connection_id" if self.generation == "sacp" else "connectionId"
        methods = {
            "sdk-0.12": ("_mcp/message", "_mcp/message"),
            "sacp": ("_mcp/notification", "_mcp/request"),
        }
        method = methods.get(self.generation, ("mcp/message", "mcp/message"))[asks]
        head = {"id": id_} if asks else {}
        self.send({**head, "method": method, "params": {name: about.get("connection"), **held}})

    # -- MCP -----------------------------------------------------------------------------------

    def serve(self, about: Json, message: Json, answer: Callable[[Json], None]) -> None:
        self.heard.append({**about, **message})
        method, params = message["method"], message.get("params") or {}
        modern = self.generation == "stateless"
        if modern:
            assert params["_meta"][META + "protocolVersion"] == "2026-07-28"
            assert META + "clientCapabilities" in params["_meta"]
        match method:
            case "server/discover" if modern:
                answer({"result": _modern({
                    "supportedVersions": ["2026-07-28"], "capabilities": self.capabilities,
                    "instructions": "use them", "_meta": {META + "serverInfo": INFO},
                })})  # fmt: skip
            case "initialize" if not modern:
                answer({"result": {"protocolVersion": params["protocolVersion"],
                                   "capabilities": self.capabilities,
                                   "serverInfo": {**INFO, **self._title(about)},
                                   "instructions": "use them"}})  # fmt: skip
            case "tools/list":
                result: Json = self.lists(params)
                answer({"result": _modern(result) if modern else result})
            case "tools/call":
                self._tool(about, params, answer, modern=modern)
            case "resources/read":
                text = {"text": f"what is at {params['uri']}"}
                held = self.resources.get(params["uri"], text)
                result = {"contents": [{"uri": params["uri"], **held}]}
                answer({"result": _modern(result) if modern else result})
            case "prompts/get":
                said = f"{params['name']} for {params['arguments']['who']}"
                result = {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
                answer({"result": _modern(result) if modern else result})
            case "subscriptions/listen" if modern:
                key = about["requestId"]
                acknowledged = {"_meta": {META + "subscriptionId": key}, **params}
                acknowledged["_meta"] = {META + "subscriptionId": key}
                self.tell(about, "notifications/subscriptions/acknowledged", acknowledged)
                self.open[f"listen {key}"] = {"about": about, "answer": answer}
            case "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" if not modern:
                answer({"result": {}})
            case _ if method.startswith("notifications/"):
                pass
            case _:
                answer({"error": {"code": -32601, "message": f"no {method}", "data": {"x": 1}}})

    def _title(self, about: Json) -> Json:
        session = self._opened_with.get(about.get("connection"), {}).get("session_id")
        return {"title": f"for {session}"} if self.tells_session else {}

    def _tool(
        self, about: Json, params: Json, answer: Callable[[Json], None], *, modern: bool
    ) -> None:
        text = params["arguments"].get("text", "")

        def done(said: str) -> None:
            result: Json = {"content": [{"type": "text", "text": said}]}
            answer({"result": _modern(result) if modern else result})

        match params["name"]:
            case "echo":
                done(text)
            case "progress":
                token = params["_meta"]["progressToken"]
                for step in (1, 2):
                    told = {"progressToken": token, "progress": step}
                    self.tell(about, "notifications/progress", told)
                done(text)
            case "raw":
                answer({"result": json.loads(text)})
            case "asks":
                asked = json.loads(text)
                self.ask(about, asked["method"], asked["params"],
                         lambda frame: done(json.dumps(frame.get("error"))))  # fmt: skip
            case "whoami":
                done(str(self._opened_with[about["connection"]].get("session_id")))
            case "report" if "inputResponses" not in params:
                token = params.get("_meta", {}).get("progressToken")
                if token is not None:
                    told = {"progressToken": token, "progress": 1, "total": 2}
                    self.tell(about, "notifications/progress", told)
                told = {"level": "warning", "data": f"about {text}"}
                self.tell(about, "notifications/message", told)
                self._tool(about, {**params, "name": "sample"}, answer, modern=modern)
            case "report":
                self._tool(about, {**params, "name": "sample"}, answer, modern=modern)
            case "slow":
                self.open[text] = {"about": about, "answer": answer, "done": done}
            case "sample" if modern:
                given = params.get("inputResponses")
                if given is not None:
                    assert params["requestState"] == "state"
                    done(given["q"]["content"]["text"])
                    return
                wanted = {"q": {"method": "sampling/createMessage", "params": self.sampling}}
                answer({"result": {"resultType": "input_required", "inputRequests": wanted,
                                   "requestState": "state"}})  # fmt: skip
            case "sample":
                self.ask(about, "sampling/createMessage", self.sampling,
                         lambda frame: done(_sampled(frame)))  # fmt: skip
            case _:
                answer({"error": {"code": -32602, "message": "no such tool"}})


INFO: Final[Json] = {"name": "scripted", "version": "3"}


def _sampled(frame: Json) -> str:
    if "error" in frame:
        return f"refused: {frame['error']['message']}"
    return str(frame["result"]["content"]["text"])


def _modern(result: Json) -> Json:
    return {"resultType": "complete", "ttlMs": 5, "cacheScope": "public", **result}
