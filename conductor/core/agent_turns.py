"""The reports of an agent about its turns, in version 2 of ACP.

In version 1 a turn runs as long as its prompt is open. In version 2 the prompt is answered once it
is part of the conversation, and `state_update` says how the turn goes on. A component that answers
a prompt itself says in both versions why the turn ended; for the client of version 2 the conductor
makes of this reason the id of a message, and the state that ends a turn.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.policy.key_table import STAMP, STATE_KIND
from conductor.core.session import Session

_MOST_MESSAGES: Final = 256
"""Messages of one session that are remembered, by the keys of their prompts."""


class _State(msgspec.Struct):
    sessionUpdate: str = ""  # noqa: N815 - the wire's name
    state: str = ""


class _SessionUpdate(msgspec.Struct):
    update: _State
    sessionId: str = ""  # noqa: N815 - the wire's name


_update: Final = json_text.Decoder(_SessionUpdate)


def reported_state(params: Raw) -> tuple[str, str | None]:
    """The session and the state that an update reports; None: it is no `state_update`."""
    message = _update.find(params)
    if message is None:
        return "", None
    is_state = message.update.sessionUpdate == STATE_KIND
    return message.sessionId, message.update.state if is_state else None


class _Result(msgspec.Struct):
    stopReason: str | None = None  # noqa: N815 - the wire's name
    messageId: str | None = None  # noqa: N815
    meta: Any = msgspec.field(name="_meta", default=None)


_result: Final = json_text.Decoder(_Result)


def stop_reason(body: bytes) -> str | None:
    """Why a turn ended, by the result of its prompt; None: it does not say, and in version 2 the
    turn has only begun."""
    result = _result.find(body) if b'"stopReason"' in body else None
    return result.stopReason if result is not None and result.messageId is None else None


class _Submission(msgspec.Struct):
    idempotencyKey: str = ""  # noqa: N815 - the wire's name


_submission: Final = json_text.Decoder(_Submission)


def key_of(params: Raw) -> str:
    """The key of a prompt that may be sent again; empty: it has none."""
    found = _submission.find(params) if b'"idempotencyKey"' in bytes(params) else None
    return found.idempotencyKey if found is not None else ""


def repeats(session: Session, key: str, body: bytes) -> bool:
    """Whether the agent answers a prompt with the message that it has become before: then no turn
    begins."""
    result = _result.find(body)
    message = result.messageId if result is not None else None
    if not key or message is None:
        return False
    before = session.inserted.pop(key, None)
    session.inserted[key] = message
    if len(session.inserted) > _MOST_MESSAGES:
        del session.inserted[next(iter(session.inserted))]
    return before == message


def only_begun(version: int | None, member: bytes, body: bytes) -> bool:
    """Whether a prompt that is answered so has a turn that goes on."""
    return version == 2 and member == b"result" and stop_reason(body) is None


def refused_by(body: bytes) -> str:
    """The component that has ended a turn with a refusal; empty: none says so."""
    result = _result.find(body) if f'"{STAMP}"'.encode() in body else None
    meta = result.meta if result is not None else None
    by = meta.get(STAMP) if isinstance(meta, dict) else None
    return by if isinstance(by, str) else ""


def in_version_2(reason: str, by: str, session: str, key: bytes) -> tuple[bytes, Raw]:
    """The result of a prompt whose turn is over, and the params of the update that says so. `by`:
    the component that has refused. `key`: the id of the client's request, which nobody but the
    client has chosen."""
    update: dict[str, Any] = {"sessionUpdate": STATE_KIND, "state": "idle", "stopReason": reason}
    if by:
        update["_meta"] = {STAMP: by}
    params = json_text.encode({"sessionId": session, "update": update})
    message = {"messageId": f"conductor-{key.decode()}"}
    return json_text.encode(message), Raw(params)
