"""Attacks on requests that are only passed on, and on MCP connections."""

from __future__ import annotations

import json
from collections.abc import Iterator

from msgspec import UNSET

from tests.core.test_guards.attack import Attack, Text, answers, makes_up, passes_on
from tests.core.test_guards.samples import SEALED, USES


def sealed() -> Iterator[Attack]:
    """Requests changed, made up, and answered in somebody's place."""
    for method, guard in SEALED.items():
        for spelled in (method, method.upper()):
            changed: dict[str, Text] = {
                "another value": '{"sessionId":"s","path":["/x",{"a":2}]}',
                "a member more": '{"sessionId":"s","path":["/x",{"a":1}],"y":1}',
                "a member less": '{"sessionId":"s"}',
                "a shorter list": '{"sessionId":"s","path":["/x"]}',
                "a member in odd case": '{"sessionId":"s","path":["/x",{"a":1}],"Path":"/y"}',
                "metadata": '{"sessionId":"s","path":["/x",{"a":1}],"_meta":{"a.b/c":1}}',
                "nothing": UNSET,
            }
            for what, after in changed.items():
                before = '{"sessionId":"s","path":["/x",{"a":1}]}'
                yield passes_on(guard, f"{spelled}, {what}", spelled, before, after)
            yield makes_up(guard, spelled, spelled, '{"sessionId":"s"}')
            yield answers(guard, f"{spelled}, of its own", spelled, "{}")
            yield answers(
                guard, f"{spelled}, changed", spelled, '{"content":"b"}', '{"content":"a"}'
            )
            yield answers(guard, f"{spelled}, respelled", spelled, "1.1", "1.10")


def connections() -> Iterator[Attack]:
    """MCP connections of others used, served and stolen."""
    for method, (name, other) in USES.items():
        for address in ("theirs", "nobody's", "their-connection", "", "MINE"):
            held = json.dumps({name: address, other: 1})
            yield makes_up("mcp-connections", f"{method} {address}", method, held)
            yield answers("mcp-connections", f"{method} {address}", method, "{}", None, held)
            yield answers(
                "mcp-connections", f"{method} {address}, changed", method, "{}", "[]", held
            )
            changed = json.dumps({name: address, other: 2})
            yield passes_on("mcp-connections", f"{method} {address}", method, held, changed)
            taken_over = json.dumps({name: "mine", other: 1})
            yield passes_on(
                "mcp-connections", f"{method} {address}, turned", method, held, taken_over
            )
            yield passes_on(
                "mcp-connections", f"{method} {address}, turned away", method, taken_over, held
            )
        unclear: dict[str, Text] = {
            "no address": "{}",
            "nothing": UNSET,
            "no text": f'{{"{name}":["mine"]}}',
            "two spellings": f'{{"{name}":"mine","{name.upper()}":"theirs"}}',
        }
        for what, params in unclear.items():
            yield makes_up("mcp-connections", f"{method}, {what}", method, params)
            yield answers("mcp-connections", f"{method}, {what}", method, "{}", None, params)
    both = '{"serverId":"mine","connectionId":"their-connection"}'
    yield makes_up("mcp-connections", "one own, one not", "mcp/message", both)
    for name in ("connectionId", "connection_id"):
        result = f'{{"{name}":"their-connection"}}'
        yield answers(
            "mcp-connections", f"a stolen {name}", "mcp/connect", result, None, '{"acpId":"mine"}'
        )
    yield answers("mcp-connections", "no JSON asked", "mcp/message", "{}", None, "{")
