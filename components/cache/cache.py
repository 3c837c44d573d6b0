"""Answers a prompt that was answered before with the same answer, without the agent.

conductor agent cache,config.seconds=600 claude-agent-acp
"""

import json
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, NamedTuple

from guest_sdk.python import Proxy, Refused, Request, Update

SAID = ("agent_message_chunk", "agent_thought_chunk")
PASSING = ("usage_update", "session_info_update", "available_commands_update", "user_message_chunk",
           "user_message")  # fmt: skip
"""Updates that are no part of an answer. One of any other kind means that something was done."""
DONE = ("session/request_permission", "fs/read_text_file", "fs/write_text_file",
        "terminal/create", "elicitation/create")  # fmt: skip
"""The requests by which an agent acts, or asks how things are now."""
CHOICES = ("session/set_mode", "session/set_model", "session/set_config_option")
LARGEST = 1024 * 1024
"""Characters of an answer that is remembered."""


@dataclass
class Config:
    """The settings; README.md explains each."""

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


class Said(NamedTuple):
    """An update of an answer; `message`: which message it was of, in version 2."""

    kind: str
    content: Any
    message: str | None


class Answer(NamedTuple):
    """The answer to a prompt, and the time of the prompt."""

    at: int
    said: list[Said]


@dataclass
class Turn:
    """The answer of a turn so far. `key`: the key of its prompt; `at`: the time of the prompt."""

    key: str
    at: int
    said: list[Said] = field(default_factory=list)
    size: int = 0


@dataclass
class Known:
    """The state of a session."""

    asked: int = 0
    """Prompts that the agent has not done."""
    begun: int = 0
    """Prompts that are answered and whose turns go on: in version 2 a state ends each."""
    turn: Turn | None = None
    """The turn that runs, if it can be repeated."""
    chosen: dict[str, Any] = field(default_factory=dict)
    """The mode and options that were changed; other values lead to another answer."""


proxy = Proxy(
    "cache",
    description="Answers a prompt that was answered before with the same answer.",
    config=Config,
    session=Known,
)
answers: OrderedDict[str, Answer] = OrderedDict()


def key_of(request: Request) -> str | None:
    """The key that prompts with the same answer share; None: the prompt is not remembered."""
    params = request.params
    if not isinstance(params.get("sessionId"), str) or not isinstance(params.get("prompt"), list):
        return None
    said = request.text
    if request.is_command or not re.search(proxy.config.match, said):
        return None
    session = request.session
    if proxy.config.scope == "folder" and session.cwd is None:
        return None
    where = session.id if proxy.config.scope == "session" else session.cwd
    rest = {name: value for name, value in params.items() if name not in ("sessionId", "_meta")}
    return json.dumps([where, rest, session.state.chosen], sort_keys=True)


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    if not isinstance(request.params.get("sessionId"), str):
        return await following(request)
    key, session = key_of(request), request.state
    if session.asked:  # of two prompts at once nobody can tell which is being answered
        key = session.turn = None
    try:
        now = await proxy.clock.unix_ms() if key is not None else 0
    except Refused:
        key, now = None, 0  # nothing would ever be forgotten
    known = answers.get(key or "")
    if key and known is not None and now - known.at < proxy.config.seconds * 1000:
        answers.move_to_end(key)
        say_again(request, known)
        return {"stopReason": "end_turn"}
    turn = session.turn = Turn(key, now) if key else None
    session.asked += 1
    result: Any = None
    try:
        result = await following(request)
    finally:
        if isinstance(result, dict) and "messageId" in result:
            session.begun += 1
        else:
            reason = result.get("stopReason") if isinstance(result, dict) else None
            over(session, turn, reason)
    return result


def say_again(request: Request, known: Answer) -> None:
    """Shows an answer once more; its messages are others, where they have names."""
    number = next(numbers)
    for kind, content, message in known.said:
        named = {"messageId": f"{proxy.chain_name}-{number}-{message}"} if message else {}
        request.session.update(kind, **named, content=content)


numbers = count(1)
"""The numbers of answers that are shown again."""


def over(session: Known, turn: Turn | None, reason: Any) -> None:
    """Ends a turn: its answer is remembered, if the turn ended well and did nothing else."""
    session.asked -= 1
    said, session.turn = session.turn, None
    if reason != "end_turn" or said is None or said is not turn or not said.said:
        return
    if said.size <= LARGEST:
        answers[said.key] = Answer(said.at, said.said)
        answers.move_to_end(said.key)
        while len(answers) > proxy.config.most:
            answers.popitem(last=False)


@proxy.update()
def updated(update: Update) -> None:
    session, said = update.state, update.update
    if update.kind in ("current_mode_update", "config_option_update"):
        session.chosen[update.kind] = said.get("currentModeId", said.get("configOptions"))
    turn = session.turn
    if update.kind == "state_update":
        if said.get("state") == "idle" and session.begun:
            session.begun -= 1
            over(session, turn, said.get("stopReason"))
        elif said.get("state") == "requires_action":
            session.turn = None
        return
    if turn is None or update.replayed or update.kind in PASSING:
        return
    content = said.get("content")
    if update.kind not in SAID or not isinstance(content, dict):
        session.turn = None
        return
    written = json.dumps(content)
    if "Infinity" in written:  # `1e400` cannot be written again as it was
        session.turn = None
        return
    turn.size += len(written)
    if turn.size <= LARGEST:
        plain = {k: v for k, v in content.items() if k != "_meta"}
        turn.said.append(Said(update.kind, plain, said.get("messageId")))


@proxy.request(*DONE)
def done(request: Request) -> None:
    if isinstance(request.params.get("sessionId"), str):
        request.state.turn = None


@proxy.request(*CHOICES)
def chosen(request: Request) -> None:
    if isinstance(request.params.get("sessionId"), str):
        rest = {name: value for name, value in request.params.items() if name != "sessionId"}
        request.state.chosen[f"{request.method} {rest.get('configId', '')}"] = rest


if __name__ == "__main__":
    proxy.run()
