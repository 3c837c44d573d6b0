"""Attacks on conversations as data: on additions of others, and on the words in it."""

import json
from collections.abc import Iterator

from msgspec import Raw

from conductor.core.guards import Context, Violation, answered
from conductor.core.guards.names import CONVERSATIONS
from tests.core.test_guards.attack import Attack, answers, passes_on

TURN = {"items": [{"type": "prompt", "content": []}], "_meta": {"conductor.component/a": 1}}
HELD = {"conversation": {"turns": [TURN], "_meta": {"conductor.component/a": {"x": 1}}}}
GRANT = {"methods": CONVERSATIONS}


def conversations() -> Iterator[Attack]:
    """Turns and metadata of others; an answer in the place of all others."""
    guard = "conversations"
    changed = {
        "a turn that vanishes": {"turns": []},
        "one more turn": {"turns": [TURN, TURN]},
        "a name of others": {"turns": [TURN], "_meta": {"conductor.component/a": 2}},
        "a name of others that vanishes": {"turns": [TURN]},
        "a name of others, made up": {
            "turns": [TURN], "_meta": {"conductor.component/a": {"x": 1}, "example.com/b": 1},
        },
        "an own name beside `_meta`": {**HELD["conversation"], "conductor.component/me": 1},
    }  # fmt: skip
    for method in CONVERSATIONS:
        for what, conversation in changed.items():
            result = json.dumps({"conversation": conversation})
            yield answers(guard, f"{method}: {what}", method, result, json.dumps(HELD)).having(
                **GRANT
            )
        own = answers(guard, f"{method}: not passed on", method, json.dumps(HELD))
        yield own.having(**GRANT)
        changes = passes_on(guard, f"{method}: params", method, '{"sessionId":"s"}', "{}")
        yield changes.having(**GRANT)
        yield _instead(method, -32603, HELD).having(**GRANT)
        for what, code in (("of its own", None), ("another", b"-32603")):
            yield _refused(method, what, code).having(**GRANT)
    yield _instead(CONVERSATIONS[1], -32601, {"conversation": {"turns": []}}).having(**GRANT)
    yield _instead(CONVERSATIONS[0], -32601, HELD).having(**GRANT)


def _refused(method: str, what: str, code: bytes | None) -> Attack:
    """An error that makes room for a conversation of another component's."""
    error = b'{"code":-32601,"message":"no"}'
    upstream = None if code is None else (b"error", error.replace(b"-32601", code))

    def route(context: Context) -> Violation | None:
        return answered(context, "up", method, Raw(b"{}"), b"error", error, upstream)

    return Attack("conversations", f"denied: {method}: {what}", route)


def _instead(method: str, code: int, result: object) -> Attack:
    """A conversation in the place of an error."""
    error = (b"error", json.dumps({"code": code, "message": "no"}).encode())
    asked, body = Raw(json.dumps(HELD).encode()), json.dumps(result).encode()

    def route(context: Context) -> Violation | None:
        return answered(context, "up", method, asked, b"result", body, error)

    return Attack("conversations", f"answered: {method} in place of {code}", route)
