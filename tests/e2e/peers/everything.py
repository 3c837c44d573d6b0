"""A proxy that provides what the MCP conformance suite asks of a server. Standard library only.

    python everything.py            as a component, with `dialect=channel`

It adds the server `everything` to each session, in the form of the Rust SDK 2.x (`mcp/connect`,
`mcp/message`, `mcp/disconnect`), and passes everything else on. What a tool does is a generator:
it yields requests to the client, and is sent their answers.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Generator
from typing import Any

Json = dict[str, Any]
Work = Generator[tuple[str, Json], Json, Json]

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5E"
    "rkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
SERVER_ID = "everything:1"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def text(said: str) -> Json:
    return {"type": "text", "text": said}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, said: str, kind: str = "text/plain") -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


CONTENTS: dict[str, list[Json]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded(
            "test://mixed-content-resource", '{"test":"data","value":123}', "application/json"
        ),
    ],
    "json_schema_2020_12_tool": [text("{}")],
}
"""Tools that answer the same whenever they are called."""

_numbers = itertools.count(1)

ASKED = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}
_TITLED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
_PLAIN = ["option1", "option2", "option3"]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _PLAIN},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _PLAIN}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}


class Refusal(Exception):  # noqa: N818 - it is an answer
    """An error of JSON-RPC."""

    def __init__(self, code: int, message: str, **data: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": data}


class Connection:
    """The conversation of one MCP client; `send` writes a message to it."""

    def __init__(self, send: Callable[[Json], None]) -> None:
        self.send = send
        self._waiting: dict[Any, tuple[Any, Work]] = {}

    def hear(self, message: Json) -> None:
        """Takes a request, a notification or an answer."""
        if "method" not in message:
            number, work = self._waiting.pop(message["id"])
            self._go_on(number, work, message)
        elif "id" in message:
            number, params = message["id"], message.get("params") or {}
            found = METHODS.get(message["method"])
            if found is None:
                error = {"code": -32601, "message": "Method not found"}
                self.send({"id": number, "error": error})
            elif message["method"] == "tools/call":
                self._go_on(number, self._call(params), None)
            else:
                try:
                    self.send({"id": number, "result": found(params)})
                except Refusal as refusal:
                    self.send({"id": number, "error": refusal.error})

    def _go_on(self, number: Any, work: Work, answer: Json | None) -> None:
        """Runs a tool until it asks again, or is done."""
        try:
            if answer and "error" in answer:
                self.send({"id": number, "error": answer["error"]})
                return
            method, params = work.send(answer["result"]) if answer else next(work)
        except StopIteration as done:
            self.send({"id": number, "result": done.value})
            return
        asked = f"everything-{next(_numbers)}"
        self._waiting[asked] = number, work
        self.send({"id": asked, "method": method, "params": params})

    def _call(self, params: Json) -> Work:
        name, arguments = params["name"], params.get("arguments") or {}
        match name:
            case "test_tool_with_logging":
                for said in ("started", "processing data", "completed"):
                    logged = {"level": "info", "logger": "everything", "data": f"Tool {said}"}
                    self.send({"method": "notifications/message", "params": logged})
            case "test_tool_with_progress":
                token = params.get("_meta", {}).get("progressToken")
                for done in (0, 50, 100) if token is not None else ():
                    made = {"progressToken": token, "progress": done, "total": 100}
                    self.send({"method": "notifications/progress", "params": made})
            case "test_error_handling":
                said = "This tool intentionally returns an error for testing"
                return {"isError": True, "content": [text(said)]}
            case "test_sampling" | "test_missing_capability":
                asked = {"role": "user", "content": text(arguments.get("prompt", "hello"))}
                answer = yield "sampling/createMessage", {"messages": [asked], "maxTokens": 100}
                return {"content": [text(f"LLM response: {answer['content']['text']}")]}
            case "test_elicitation":
                asking = {"message": arguments["message"], "requestedSchema": ASKED}
                answer = yield "elicitation/create", asking
                return {"content": [text(f"User response: {json.dumps(answer)}")]}
            case "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums":
                schema = DEFAULTS if "1034" in name else ENUMS
                answer = yield (
                    "elicitation/create",
                    {"message": "Please review", "requestedSchema": schema},
                )
                content = json.dumps(answer.get("content", {}))
                said = f"Elicitation completed: action={answer['action']}, content={content}"
                return {"content": [text(said)]}
        return {"content": CONTENTS.get(name, [text(f"{name} is done")])}


def _tools(_: Json) -> Json:
    def schema(*names: str) -> Json:
        properties = {name: {"type": "string"} for name in names}
        return {"type": "object", "properties": properties, "required": list(names)}

    arguments = {"test_sampling": ("prompt",), "test_elicitation": ("message",)}
    others = (
        "test_tool_with_logging",
        "test_tool_with_progress",
        "test_error_handling",
        "test_missing_capability",
        *arguments,
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
    )
    schemas = {name: schema(*arguments.get(name, ())) for name in (*CONTENTS, *others)}
    address = {
        "type": "object",
        "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
    }
    schemas["json_schema_2020_12_tool"] = {
        "$schema": DIALECT,
        "type": "object",
        "$defs": {"address": address},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    }
    return {
        "tools": [
            {"name": name, "description": f"The tool {name}", "inputSchema": held}
            for name, held in schemas.items()
        ]
    }


def _resources(_: Json) -> Json:
    listed = [("static-text", "text/plain"), ("static-binary", "image/png")]
    return {
        "resources": [
            {"uri": f"test://{name}", "name": name, "description": name, "mimeType": kind}
            for name, kind in listed
        ]
    }


def _templates(_: Json) -> Json:
    template = {"uriTemplate": "test://template/{id}/data", "name": "template"}
    return {"resourceTemplates": [template]}


def _read(params: Json) -> Json:
    uri = params["uri"]
    found = re.fullmatch(r"test://template/(\w+)/data", uri)
    if found:
        data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        held = {"mimeType": "application/json", "text": json.dumps(data)}
    elif uri == "test://static-binary":
        held = {"mimeType": "image/png", "blob": PNG}
    elif uri == "test://static-text":
        said = "This is the content of the static text resource."
        held = {"mimeType": "text/plain", "text": said}
    else:
        raise Refusal(-32602, "Resource not found", uri=uri)
    return {"contents": [{"uri": uri, **held}]}


def _prompts(_: Json) -> Json:
    arguments = {
        "test_prompt_with_arguments": ("arg1", "arg2"),
        "test_prompt_with_embedded_resource": ("resourceUri",),
    }
    names = ("test_simple_prompt", "test_prompt_with_image", *arguments)
    return {
        "prompts": [
            {
                "name": name,
                "description": f"The prompt {name}",
                "arguments": [
                    {"name": each, "description": each, "required": True}
                    for each in arguments.get(name, ())
                ],
            }
            for name in names
        ]
    }


def _prompt(params: Json) -> Json:
    given = params.get("arguments") or {}
    contents: list[Json]
    match params["name"]:
        case "test_prompt_with_arguments":
            said = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            contents = [text(said)]
        case "test_prompt_with_embedded_resource":
            held = "Embedded resource content for testing."
            contents = [embedded(given["resourceUri"], held), text("Please process it.")]
        case "test_prompt_with_image":
            contents = [IMAGE, text("Please analyze the image above.")]
        case _:
            contents = [text("This is a simple prompt for testing.")]
    return {"messages": [{"role": "user", "content": each} for each in contents]}


def _initialize(params: Json) -> Json:
    capabilities = {
        "tools": {},
        "logging": {},
        "completions": {},
        "prompts": {},
        "resources": {"subscribe": True},
    }
    info = {"name": "everything", "version": "1.0.0"}
    version = params["protocolVersion"]
    return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}


def _nothing(_: Json) -> Json:
    return {}


METHODS: dict[str, Callable[[Json], Json]] = {
    "initialize": _initialize,
    "ping": _nothing,
    "logging/setLevel": _nothing,
    "completion/complete": lambda _: {"completion": {"values": ["paris"], "total": 1}},
    "tools/list": _tools,
    "tools/call": _nothing,
    "resources/list": _resources,
    "resources/templates/list": _templates,
    "resources/read": _read,
    "resources/subscribe": _nothing,
    "resources/unsubscribe": _nothing,
    "prompts/list": _prompts,
    "prompts/get": _prompt,
}


class Proxy:
    """The component: lines of `channel/1`."""

    def __init__(self) -> None:
        self.connections: dict[str, Connection] = {}
        self.asked: dict[str, tuple[Connection, Any]] = {}

    def line(self, side: str, body: str) -> None:
        message = json.loads(body)
        method = message.get("method", "")
        if side == "c":
            return
        if side == "s" and method.startswith("mcp/"):
            self.mcp(message)
        elif side == "s" and message.get("id") in self.asked:
            connection, number = self.asked.pop(message["id"])
            connection.hear({**message, "id": number})
        elif side == "p" and method in ("session/new", "session/load"):
            entry = {"type": "acp", "name": "everything", "serverId": SERVER_ID}
            message["params"]["mcpServers"].append(entry)
            self.write("s", message)
        else:
            self.write("s" if side == "p" else "p", message)

    def mcp(self, message: Json) -> None:
        """Something about MCP from the agent's side."""
        params, number = message["params"], message.get("id")
        if message["method"] == "mcp/connect":
            name = f"everything-{len(self.connections) + 1}"
            self.connections[name] = Connection(lambda said: self.carry(name, said))
            self.answer(number, {"connectionId": name})
        elif message["method"] == "mcp/disconnect":
            self.connections.pop(params["connectionId"], None)
            self.answer(number, {})
        elif "connectionId" not in params:
            error = {"code": -32602, "message": "only connections are served here"}
            self.write("s", {"jsonrpc": "2.0", "id": number, "error": error})
        else:
            inner = {"method": params["method"], "params": params.get("params")}
            given = {"id": number} if number is not None else {}
            self.connections[params["connectionId"]].hear({**given, **inner})

    def carry(self, name: str, message: Json) -> None:
        """A message of a server to its client."""
        if "method" not in message:
            self.write("s", {"jsonrpc": "2.0", **message})
            return
        carried = {"connectionId": name, "method": message["method"], "params": message["params"]}
        frame = {"jsonrpc": "2.0", "method": "mcp/message", "params": carried}
        if "id" in message:
            self.asked[message["id"]] = self.connections[name], message["id"]
            frame["id"] = message["id"]
        self.write("s", frame)

    def answer(self, number: Any, result: Json) -> None:
        self.write("s", {"jsonrpc": "2.0", "id": number, "result": result})

    @staticmethod
    def write(side: str, message: Json) -> None:
        sys.stdout.write(side + json.dumps(message) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Serves until standard input ends."""
    proxy = Proxy()
    for line in sys.stdin:
        proxy.line(line[0], line[1:])


if __name__ == "__main__":
    main()
