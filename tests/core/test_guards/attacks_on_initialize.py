"""Attacks on the identity of the peer at the other end, and on its capabilities."""

import json
from collections.abc import Iterator

from tests.core.test_guards.attack import Attack, answers, passes_on
from tests.core.test_guards.samples import AGENT, AGENT2, HELLO, HELLO2, METHOD_A, METHOD_B, Object


def offered() -> Iterator[Attack]:
    """The client's side."""
    for method in ("initialize", "proxy/initialize", "_proxy/initialize", "Initialize"):
        for version, hello in (("v1", HELLO), ("v2", HELLO2)):
            for what, name, value in (
                ("another version", "protocolVersion", 0),
                ("a version respelled", "protocolVersion", 1.0),
                ("another client", "clientInfo", {"name": "other"}),
                ("another client, v2", "info", {"name": "other"}),
                ("a member more", "trusted", True),
                ("capabilities in odd case", "ClientCapabilities", {"terminal": True}),
            ):
                after = json.dumps({**hello, name: value})
                yield passes_on(
                    "handshake", f"{method} {version}, {what}", method, json.dumps(hello), after
                )
    for what, capabilities in {
        "a terminal": {"terminal": True},
        "writing": {"fs": {"readTextFile": True, "writeTextFile": True}},
        "fs as a flag": {"fs": True},
        "a marker": {"elicitation": {}},
        "a number": {"fs": {"readTextFile": 1}},
        "odd case": {"Terminal": True},
        "a text": "all",
        "a list": [],
    }.items():
        for name in ("clientCapabilities", "capabilities"):
            after = json.dumps({**HELLO, name: capabilities})
            yield passes_on(
                "capability-claims", f"{name}, {what}", "initialize", json.dumps(HELLO), after
            )
    for what, capabilities in {
        "a URL form": {"elicitation": {"form": {}, "url": {}}},
        "login in a terminal": {"elicitation": {"form": {}}, "auth": {"terminal": {}}},
    }.items():
        after = json.dumps({**HELLO2, "capabilities": capabilities})
        yield passes_on("capability-claims", f"v2, {what}", "initialize", json.dumps(HELLO2), after)

    more: dict[str, Object] = {
        "files": {"clientCapabilities": {"fs": {"readTextFile": True}}},
        "a terminal": {"clientCapabilities": {"terminal": True}},
        "a login": {"clientCapabilities": {"auth": {"terminal": True}}},
        "suggestions": {"clientCapabilities": {"session": {"promptSuggestions": {"image": {}}}}},
        "cursors": {"clientCapabilities": {"session": {"cursors": {}}}},
        "a form by URL": {"clientCapabilities": {"elicitation": {"form": {}, "url": {}}}},
        "capabilities of both": {"clientCapabilities": {}, "capabilities": {"fs": {}}},
    }
    for what, change in more.items():
        after = json.dumps({"protocolVersion": 1, **change})
        yield passes_on(
            "capability-claims", f"lowered, {what}", "initialize", json.dumps(HELLO2), after
        )
    others: dict[str, Object] = {
        "another client": {"protocolVersion": 1, "clientInfo": {"name": "other"}},
        "another info": {"protocolVersion": 1, "info": {"name": "other"}},
        "a member more": {"protocolVersion": 1, "trusted": True},
        "too far": {"protocolVersion": 0},
        "from another": {"protocolVersion": 1},
    }
    for what, lowered in others.items():
        before = {**HELLO2, "protocolVersion": 3} if what == "from another" else HELLO2
        yield passes_on(
            "handshake", f"lowered, {what}", "initialize", json.dumps(before), json.dumps(lowered)
        )
    yield passes_on(
        "meta",
        "lowered",
        "initialize",
        json.dumps({**HELLO2, "capabilities": {"_meta": {"a": 1}}}),
        '{"protocolVersion":1,"clientCapabilities":{}}',
    )

    reading = ("/fs/readTextFile",)
    for named, what, capabilities in (
        (reading, "what holds it as a flag", {"fs": True}),
        (reading, "what holds it as a list", {"fs": ["readTextFile", "writeTextFile"]}),
        (reading, "what holds it as a text", {"fs": "all"}),
        (reading, "more in it", {"fs": {"readTextFile": {"writeTextFile": True}}}),
        (reading, "a list", {"fs": {"readTextFile": ["writeTextFile"]}}),
        (reading, "a number", {"fs": {"readTextFile": 1}}),
        (reading, "a flag beside it", {"fs": {"readTextFile": True, "writeTextFile": True}}),
        (("/fs",), "a list in it", {"fs": {"readTextFile": ["writeTextFile"]}}),
        (("/fs",), "a list instead of it", {"fs": ["writeTextFile"]}),
    ):
        for name in ("clientCapabilities", "capabilities"):
            after = json.dumps({name: capabilities})
            attack = passes_on("capability-claims", f"{name}, {what}", "initialize", "{}", after)
            yield attack.having(capabilities=named)


def promised() -> Iterator[Attack]:
    """The agent's side."""
    for what, name, capabilities in (
        ("loading", "agentCapabilities", {"loadSession": True}),
        ("images", "agentCapabilities", {"promptCapabilities": {"image": True}}),
        ("deleting", "agentCapabilities", {"sessionCapabilities": {"delete": {}}}),
        ("forking", "agentCapabilities", {"sessionCapabilities": {"fork": {}}}),
        ("http servers", "agentCapabilities", {"mcpCapabilities": {"http": True}}),
        ("more than a promise", "agentCapabilities", {"mcpCapabilities": {"acp": {"x": True}}}),
        ("an unknown one", "agentCapabilities", {"teleport": True}),
        ("odd case", "agentCapabilities", {"LoadSession": True}),
        ("no object", "agentCapabilities", True),
        ("a container as a list", "agentCapabilities", {"sessionCapabilities": ["fork"]}),
        ("a container as a flag", "agentCapabilities", {"mcpCapabilities": True}),
        ("a list for what is always there", "agentCapabilities", {"mcpCapabilities": {"acp": [1]}}),
        ("status", "agentCapabilities", {"auth": {"status": {}}}),
        ("sessions, v2", "capabilities", {"session": {"prompt": {}, "fork": {}}}),
        ("servers, v2", "capabilities", {"session": {"mcp": {"stdio": {}}}}),
        ("providers, v2", "capabilities", {"providers": {}}),
        ("options", "agentCapabilities", {"sessionCapabilities": {"options": {}}}),
        ("options, v2", "capabilities", {"session": {"options": {}}}),
        ("skills, v2", "capabilities", {"session": {"prompt": {"skill": {"inline": {}}}}}),
    ):
        base = AGENT if name == "agentCapabilities" else AGENT2
        result = json.dumps({**base, name: capabilities})
        yield answers("capability-claims", what, "initialize", result, json.dumps(base))
    for what, claimed in {"no object": "null", "a list": "[]"}.items():
        yield answers("capability-claims", what, "initialize", claimed, json.dumps(AGENT))
    yield answers("capability-claims", "never passed on", "initialize", json.dumps(AGENT))
    yield answers(
        "capability-claims", "for what was no object", "initialize", json.dumps(AGENT), "1"
    )
    for what, name, value in (
        ("another version", "protocolVersion", 2),
        ("another agent", "agentInfo", {"name": "other"}),
        ("another agent, v2", "info", {"name": "other"}),
        ("a member more", "x", 1),
        ("a login method more", "authMethods", [METHOD_A, METHOD_B, {"id": "c"}]),
        ("a changed login method", "authMethods", [{**METHOD_A, "args": ["-x"]}, METHOD_B]),
        ("another order", "authMethods", [METHOD_B, METHOD_A]),
        ("login methods that are no list", "authMethods", {}),
        ("null", "authMethods", None),
    ):
        yield answers(
            "handshake", what, "initialize", json.dumps({**AGENT, name: value}), json.dumps(AGENT)
        )
