"""Answers a prompt that was answered before with the same answer, without the agent.

conductor agent cache,config.seconds=600 claude-agent-acp
"""

import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from guest_sdk.python import Proxy, Refused, Request, Update

SAID = ("agent_message_chunk", "agent_thought_chunk")
PASSING = ("usage_update", "session_info_update", "available_commands_update", "user_message_chunk")
"""Updates that are no part of an answer. One of any other kind means that something was done."""
LARGEST = 1024 * 1024
"""Characters of an answer that is remembered."""


@dataclass
class Config:
    """The settings; what each means is in README.md."""

    match: str = ""
    scope: Literal["session", "folder"] = "session"
    seconds: float = 3600
    most: int = 100

    def __post_init__(self) -> None:
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"`match` is no regular expression: {error}") from None
        if self.most < 1:
            raise ValueError("`most` must be at least 1")


class Answer(NamedTuple):
    """What was said to a prompt: kinds and contents of updates."""

    at: int
    said: list[tuple[str, Any]]
    result: dict[str, Any]


@dataclass
class Turn:
    """The turn that runs in a session: what was said; None if it cannot be repeated."""

    said: list[tuple[str, Any]] | None = None
    size: int = 0


proxy = Proxy(
    "cache",
    profile="context",
    description="Answers a prompt that was answered before with the same answer.",
    wants={"clock": "to forget answers that are too old"},
    config=Config,
    session=Turn,
)
answers: OrderedDict[str, Answer] = OrderedDict()


def key_of(request: Request) -> str | None:
    """What a prompt must share with another to be answered alike; None: it is not remembered."""
    params = request.params
    if not isinstance(params.get("sessionId"), str) or not isinstance(params.get("prompt"), list):
        return None
    said = request.text
    if said.lstrip().startswith("/") or not re.search(proxy.config.match, said):
        return None
    session = request.session
    if proxy.config.scope == "folder" and session.cwd is None:
        return None
    where = session.id if proxy.config.scope == "session" else session.cwd
    rest = {name: value for name, value in params.items() if name not in ("sessionId", "_meta")}
    return json.dumps([where, rest], sort_keys=True)


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    key = key_of(request)
    if key is None:
        return await following(request)
    try:
        now = await proxy.clock.unix_ms()
    except Refused:
        return await following(request)  # nothing would ever be forgotten
    known = answers.get(key)
    if known is not None and now - known.at < proxy.config.seconds * 1000:
        answers.move_to_end(key)
        for kind, content in known.said:
            request.session.update(kind, content=content)
        return dict(known.result)
    turn = request.session.state = Turn([])
    try:
        result = await following(request)
    finally:
        if request.session.state is turn:
            request.session.state = Turn()
    ended = isinstance(result, dict) and result.get("stopReason") == "end_turn"
    if ended and turn.said and turn.size <= LARGEST:
        answers[key] = Answer(now, turn.said, {"stopReason": "end_turn"})
        answers.move_to_end(key)
        while len(answers) > proxy.config.most:
            answers.popitem(last=False)
    return result


@proxy.update()
def updated(update: Update) -> None:
    turn = update.state
    if turn.said is None or update.replayed or update.kind in PASSING:
        return
    content = update.update.get("content")
    if update.kind not in SAID or not isinstance(content, dict):
        turn.said = None
        return
    written = json.dumps(content)
    if "Infinity" in written:  # `1e400` cannot be written again as it was
        turn.said = None
        return
    turn.size += len(written)
    if turn.size <= LARGEST:
        turn.said.append((update.kind, {k: v for k, v in content.items() if k != "_meta"}))


@proxy.request("session/request_permission")
def asked(request: Request) -> None:
    if "sessionId" in request.params:
        request.state.said = None


if __name__ == "__main__":
    proxy.run()
