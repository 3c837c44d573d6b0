"""Whether something passes, for tests of acts that the guards leave be."""

import json

from msgspec import UNSET, Raw

from conductor.core.guards import (
    Context,
    answered,
    forwarded,
    originated,
)
from tests.core.test_guards.attack import PLAIN

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")


def passes(method: str, before: object, after: object, context: Context = PLAIN) -> bool:
    """Whether one message may be passed on as another."""
    texts = (Raw(json.dumps(params).encode()) for params in (before, after))
    return forwarded(context, "down", method, *texts) is None


def may_answer(
    method: str,
    result: object,
    upstream: object = None,
    request: object = None,
    context: Context = PLAIN,
) -> bool:
    """Whether a result may be given; `upstream` is the one that was received, if any."""
    given = None if upstream is None else (b"result", json.dumps(upstream).encode())
    asked = UNSET if request is None else Raw(json.dumps(request).encode())
    body = json.dumps(result).encode()
    return answered(context, "up", method, asked, b"result", body, given) is None


def may_send(method: str, params: object, context: Context = PLAIN) -> bool:
    """Whether a message may be a component's own."""
    held = UNSET if params is None else Raw(json.dumps(params).encode())
    return originated(context, "down", method, held) is None
