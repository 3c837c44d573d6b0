"""The lines of peers in a storm: their own, their answers, and their changes of others'
messages."""

import json
from collections.abc import Iterable
from random import Random
from typing import Any, Final

from tests.harness.router.actors import Json
from tests.harness.world import ends
from tests.harness.world.ends import CANCEL, PERMISSION, PROMPT, STOP, UPDATE, Step, asks, params_of
from tests.harness.world.wild import edited

DOWN: Final = (
    *ends.DOWN, PROMPT, "session/resume", "session/fork", "session/set_config_option",
    "authenticate", "session/delete", "_scp/html_panel/event", "logout",
)  # fmt: skip
UP: Final = (
    *ends.UP, "session/update[plan]", "session/update[config_option_update]",
    "session/update[session_info_update]", "session/update[user_message_chunk]",
    "terminal/create", "fs/write_text_file", "elicitation/create", "_scp/html_panel/show",
    "_scp/log", "session/update[usage_update]", "session/update[tool_call_update]",
)  # fmt: skip
PLAIN_DOWN: Final = (
    *[PROMPT] * 9, "session/new", "session/load", "session/set_mode", "session/close", STOP, CANCEL,
)  # fmt: skip
PLAIN_UP: Final = (
    *["session/update[agent_message_chunk]"] * 9, "session/update[agent_thought_chunk]",
    "session/update[tool_call]", "session/update[plan]", "session/update[state_update]", PERMISSION,
)  # fmt: skip
"""The lines of a storm where hardly anything goes wrong."""
OF_COMPONENTS: Final = (PROMPT, PROMPT, "session/new", "session/fork", "session/close", STOP)
"""The requests that components send of their own."""
SESSIONS: Final = ("S", "S", "S", "S", "T", "", None)
ODD_ANSWERS: Final[tuple[Json, ...]] = (
    {"error": {"code": 1, "message": "no"}},
    {"result": {}, "error": {}},
    {},
)
ODD_LINES: Final = (
    b"{", b"x", b"", b"[]", b"[{}]", b"5", b"null", b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":"odd-1","id":"odd-2","method":"_x"}',
    b'{"jsonrpc":"2.0","id":null,"method":"_x"}',
    b'{"jsonrpc":"2.0","id":1e0,"result":{}}',
    b'[{"jsonrpc":"2.0","method":"_x"},{"jsonrpc":"2.0","id":"odd-b","method":"session/list"}]',
    (
        b'[{"jsonrpc":"2.0","id":"odd-c","method":"session/prompt","params":{"sessionId":"S"}},'
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"S"}}]'
    ),
    b'{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"S"}}',
    b'{"jsonrpc":"2.0","id":"odd-d","method":"session/cancel","params":{"sessionId":"S"}}',
    b'{"jsonrpc":"2.0","id":"odd-e","method":"session/update","params":{"sessionId":"S"}}',
    b'{"jsonrpc":"2.0","id":"odd-f","method":"initialize","params":{"protocolVersion":1}}',
    b'{"jsonrpc":"2.0","id":"odd-g","method":"proxy/successor","params":{"method":"_x"}}',
    b'{"jsonrpc":"2.0","id":"odd-h","method":"_conductor/config"}',
    b'{"jsonrpc":"2.0","id":"odd-i","method":"session/prompt","params":[1]}',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":5,"update":7}}',
)  # fmt: skip
"""Lines, each without a side; some are fine, and strange."""


def result_of(method: str, params: object, version: int) -> object:
    """The answer of an end to a request."""
    held = params if isinstance(params, dict) else {}
    match method:
        case "initialize" | "proxy/initialize":
            able = {"loadSession": True, "sessionCapabilities": {"resume": {}, "fork": {}}}
            about = {"info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}}
            logins = [{"id": "key", "name": "Key"}, {"id": "t", "name": "T", "type": "terminal"}]
            about |= {"authMethods": logins}
            return {"protocolVersion": version, "agentCapabilities": able, **about}
        case "session/prompt":
            return {"stopReason": "end_turn"} if version == 1 else {"messageId": "m"}
        case "session/new" | "session/fork":
            modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
            options = [{"id": "model", "name": "Model", "type": "select", "currentValue": "big"}]
            found = {
                "sessionId": f"N{held.get('n', len(held.get('mcpServers', ())))}",
                "modes": modes,
            }
            return {**found, "configOptions": options}
        case "session/list":
            return {"sessions": [{"sessionId": one, "cwd": "/w"} for one in ("S", "T", "N1")]}
        case "session/request_permission":
            return {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        case "mcp/connect":
            return {"connectionId": "theirs"}
        case "terminal/create":
            return {"terminalId": "t1"}
        case "fs/read_text_file":
            return {"content": "text of a file"}
    return {"of": held.get("n", 0)}


def changed_params(rng: Random, method: str, params: object) -> object:
    """The params after a component's change."""
    if not isinstance(params, dict):
        return {"changed": 1}
    match rng.randrange(5):
        case 0:
            return {**params, "changed": 1}
        case 1:
            return {**params, "sessionId": rng.choice(("S", "T", "N1"))}
        case 2:
            return {name: value for name, value in params.items() if name != "_meta"}
    return edited(method, params)


def changed_answer(rng: Random, method: str, answer: Json) -> Json:
    """The answer after a component's change."""
    result = answer.get("result")
    match rng.randrange(4):
        case 0 if isinstance(result, dict):
            return {"result": {**result, "example.com": 1}}
        case 1 if method == PROMPT:
            return {"result": {"stopReason": "refusal"}}
        case 2:
            return {"error": {"code": 1, "message": "no"}}
        case 3 if method == PERMISSION:
            return {"result": {"outcome": {"outcome": "cancelled"}}}
    return {"result": {"changed": 1}}


def said_by(
    rng: Random,
    name: str,
    asked: Iterable[tuple[str, str]],
    side: str,
    opened: list[str],
    *,
    down: bool,
    plain: bool = False,
) -> list[Json]:
    """The messages of a peer's own; a request under the id True gets a new id."""
    most = (PLAIN_DOWN, PLAIN_UP) if plain else (DOWN, UP)
    key = rng.choice(most[not down])
    of_component = name not in ("client", "agent")
    if of_component and down and rng.random() < 0.6:
        key = rng.choice(OF_COMPONENTS)
    method = key.partition("[")[0]
    if method == CANCEL:
        ids = [json.loads(id_) for at, id_ in asked if at == side] or [1]
        return [{"method": CANCEL, "params": {"requestId": rng.choice(ids)}}]
    is_asked = asks(key, either=rng.random() < 0.5)
    if not plain and rng.random() < 0.04:
        is_asked = not is_asked  # a notification of what is a request, or the other way about
    likely = 0.9 if plain else 0.6
    session = rng.choice(opened if opened and rng.random() < likely else SESSIONS)
    number = rng.randrange(99)
    params = params_of(Step(name, key, session, is_asked), number)
    _more(rng, method, params)
    if of_component and rng.random() < 0.8:  # else much is refused for what it may not have
        params.pop("n"), params.pop("_meta", None)
    message: Json = {"method": method, "params": params}
    if is_asked:
        message["id"] = True
    return [message]


def _more(rng: Random, method: str, params: dict[str, Any]) -> None:
    """Makes params as manifold as they are."""
    match method:
        case "session/resume" | "session/fork":
            params |= {"cwd": "/w", "mcpServers": []}
        case "session/set_mode":
            params["modeId"] = rng.choice(("ask", "code"))
        case "session/set_config_option":
            params |= {"configId": "model", "value": "big"}
        case "session/prompt" if rng.random() < 0.3:
            words = rng.choice(("/review it", "a long text " * 20, "@/etc/passwd"))
            params["prompt"] = [{"type": "text", "text": words}]
        case "session/prompt" if rng.random() < 0.1:
            params["prompt"] = [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]
        case "terminal/create":
            params["command"] = "ls"
        case "fs/read_text_file" | "fs/write_text_file":
            params |= {"path": "/w/x", "content": "text"}
        case "_scp/html_panel/event":
            params["_meta"] = {"conductor.component": rng.choice(("g0", "g1", "agent"))}
        case "_scp/html_panel/show":
            params |= {"panelId": "1", "html": "<p>hi</p>"}
        case _ if method == UPDATE and rng.random() < 0.2:
            params.setdefault("update", {})["content"] = {"type": "text", "text": "long " * 40}


def call_of(
    rng: Random, turns: list[str], digests: list[str], opened: list[str]
) -> tuple[str, Json]:
    """A call of a service: its name and its params."""
    sessions = [*opened, "S", "S", "T"]
    session = rng.choice(sessions)
    match rng.randrange(9):
        case 0 | 1 | 2:
            return "turn/begin", {"sessionId": session, "show": rng.random() < 0.5}
        case 3 | 4:
            return "turn/end", {"turn": rng.choice(turns or ["1"])}
        case 5:
            return "rebind", {"sessionId": session, "to": rng.choice(sessions)}
        case 6:
            return "keep", {"a": rng.randrange(9)}
        case 7 if digests:
            return "payload/read", {"digest": rng.choice(digests), "maxBytes": 50}
    return rng.choice(("config", "kv/get", "fetch")), {"key": "k", "url": "https://a.example"}
