"""Your rules at fixed points: block or rewrite prompts, deny tool calls, act after a turn.

conductor agent hooks,config=rules.toml claude-agent-acp
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from guest_sdk.python import REFUSED, Proxy, ProxyError, Request, Session, Update, text

MOST = 256 * 1024
"""Characters of an answer that rules look at; the last ones."""
REMEMBERED = 512
"""Tool calls of one session that are kept in mind."""
FINISHED = ("completed", "failed", "cancelled")

ACTIONS = {
    "prompt": ("block", "replace", "before", "after"),
    "tool": ("deny",),
    "turn": ("say", "prompt", "log"),
}
"""The actions that are allowed at each point."""


@dataclass
class Rule:
    """One rule; README.md explains each member."""

    on: Literal["prompt", "tool", "turn"]
    match: str = ""
    input: str = ""
    stop: list[str] = field(default_factory=lambda: ["end_turn"])
    block: str | None = None
    replace: str | None = None
    before: str | None = None
    after: str | None = None
    deny: str | None = None
    say: str | None = None
    prompt: str | None = None
    log: str | None = None

    def __post_init__(self) -> None:
        given = [
            name for names in ACTIONS.values() for name in names if getattr(self, name) is not None
        ]
        wrong = [name for name in given if name not in ACTIONS[self.on]]
        if wrong or not given:
            known = ", ".join(f"`{name}`" for name in ACTIONS[self.on])
            told = f"cannot have `{wrong[0]}`" if wrong else "does nothing"
            raise ValueError(f"a rule on `{self.on}` {told}; it can have {known}")
        if self.input and self.on != "tool":
            raise ValueError("`input` is of rules on `tool`")
        for name in ("match", "input"):
            try:
                expression = re.compile(getattr(self, name))
                if name == "match" and self.replace is not None:
                    if not self.match:
                        raise ValueError("`replace` needs a `match`")
                    expression.sub(self.replace, "")
            except (re.error, IndexError) as error:
                raise ValueError(f"`{name}` or what replaces it is wrong: {error}") from None


@dataclass
class Config:
    """The settings."""

    rules: list[Rule] = field(default_factory=list)


@dataclass
class Turn:
    """The state of a session."""

    said: str = ""
    following: bool = False
    """Whether a turn runs that a rule has asked for."""
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Tool calls that are not over, as far as the agent has told of them, by id."""


proxy = Proxy(
    "hooks",
    description="Rules that block or rewrite prompts, deny tool calls, and act after a turn.",
    config=Config,
    session=Turn,
)


def rules(on: str) -> list[Rule]:
    """The rules of one point."""
    return [rule for rule in proxy.config.rules if rule.on == on]


# -- prompts ---------------------------------------------------------------------------------------


@proxy.request("session/prompt")
async def prompted(request: Request, following: Any) -> Any:
    if request.direction != "down" or not isinstance(request.params.get("prompt"), list):
        return await following(request)
    for rule in rules("prompt"):
        if not re.search(rule.match, request.text):
            continue
        if rule.block is not None:
            return request.refuse(rule.block or "a rule blocks this prompt")
        rewrite(rule, request)
    if not isinstance(request.params.get("sessionId"), str):
        return await following(request)
    request.state.said = ""
    result = await following(request)
    if isinstance(result, dict) and "stopReason" in result:  # ACP v2 ends turns otherwise
        return await after(request.session, result)
    return result


def rewrite(rule: Rule, request: Request) -> None:
    """Changes the blocks of a prompt as a rule says."""
    if rule.replace is not None:
        for block in request.params["prompt"]:
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                block["text"] = re.sub(rule.match, rule.replace, block["text"])
    if rule.before is not None:
        request.preface(rule.before)
    if rule.after is not None:
        request.append(rule.after)


# -- tools -----------------------------------------------------------------------------------------


def denying(names: list[str], given: Any) -> Rule | None:
    """The first rule that denies a tool of these names, called with this input."""
    told = json.dumps(given, ensure_ascii=False)
    for rule in rules("tool"):
        if any(re.search(rule.match, name) for name in names) and re.search(rule.input, told):
            return rule
    return None


@proxy.request("session/request_permission")
def permission(request: Request) -> Any:
    call = asked_about(request) if request.direction == "up" else None
    if call is None:
        return None
    found = [*names(call), *names({"title": request.params.get("title")})] or [""]
    rule = denying(found, call.get("rawInput"))
    if rule is None:
        return None
    proxy.log.warn(f"denied: {found[0]}: {rule.deny}")
    return request.refuse()


def asked_about(request: Request) -> dict[str, Any] | None:
    """The tool call of a permission request, with the members that the agent told before."""
    subject = request.params.get("subject")
    subject = subject if isinstance(subject, dict) else {}
    call = request.params.get("toolCall", subject.get("toolCall"))
    if isinstance(subject.get("command"), str):  # ACP v2 asks for commands in words of their own
        input_ = {name: subject[name] for name in ("command", "cwd") if name in subject}
        call = {"toolCallId": subject.get("toolCallId"), "kind": "execute", "rawInput": input_}
    if not isinstance(call, dict):
        return None
    known = request.state.calls if isinstance(request.params.get("sessionId"), str) else {}
    id_ = call.get("toolCallId")
    return merged(known.get(id_, {}) if isinstance(id_, str) else {}, call)


def merged(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """A tool call as it is after an update, as far as rules look at it."""
    kept = ("title", "name", "toolName", "kind", "rawInput", "_meta")
    return {**before, **{key: after[key] for key in kept if after.get(key) is not None}}


def remember(calls: dict[str, dict[str, Any]], update: dict[str, Any]) -> None:
    """Keeps the tool call: a later permission request may give the id alone."""
    id_ = update.get("toolCallId")
    if not isinstance(id_, str):
        return
    before = calls.pop(id_, {})
    if update.get("status") not in FINISHED:
        calls[id_] = merged(before, update)
    while len(calls) > REMEMBERED:
        del calls[next(iter(calls))]


def names(call: dict[str, Any]) -> Iterator[str]:
    """The names of a tool, as far as its call has them."""
    metas = call.get("_meta")
    inner = list(metas.values()) if isinstance(metas, dict) else []
    for held in (call, *inner):
        for key in ("title", "name", "toolName", "kind"):
            if isinstance(held, dict) and isinstance(held.get(key), str):
                yield held[key]


@proxy.request("mcp/message")
def called(request: Request) -> Any:
    params, inner = request.params, request.params.get("params")
    if request.direction != "up" or params.get("method") != "tools/call":
        return None
    held = inner if isinstance(inner, dict) else {}
    rule = denying([str(held.get("name", ""))], held.get("arguments"))
    if rule is None:
        return None
    proxy.log.warn(f"denied: {held.get('name')}: {rule.deny}")
    error = ProxyError(f"denied: {rule.deny or 'by a rule'}", REFUSED)
    if "serverId" in params:
        return {"error": error.body()}
    raise error


# -- after a turn ----------------------------------------------------------------------------------


@proxy.update()
def told(update: Update) -> None:
    state = update.state
    if update.replayed:
        return
    if update.kind == "agent_message_chunk":
        state.said = (state.said + update.text)[-MOST:]
    elif update.kind in ("tool_call", "tool_call_update"):
        remember(state.calls, update.update)
    elif update.kind == "state_update" and update.update.get("state") == "idle":
        # A turn of ACP v2 is over.
        following, state.following = state.following, False
        stop = update.update.get("stopReason", "end_turn")
        prompts = act(update.session, stop, only_told=following)
        state.said = ""
        if prompts:
            state.following = True
            proxy.start(follow(update.session, prompts))


async def after(session: Session, result: Any) -> Any:
    """Acts after a turn of ACP v1, which ends when the turns of rules have; with its own result."""
    prompts = act(session, result["stopReason"], only_told=False)
    if prompts:
        async with session.turn() as turn:
            for blocks in prompts:
                session.state.said = ""
                if (await turn.prompt(*blocks)).stop_reason != "end_turn":
                    break
    return result


async def follow(session: Session, prompts: list[Any]) -> None:
    """Sends the prompts of rules, when the turn before is over."""
    blocks = [block for prompt in prompts for block in prompt]
    await session.prompt(*blocks)


def act(session: Session, stop: Any, *, only_told: bool) -> list[Any]:
    """Says the texts of rules after a turn; returns their prompts, none if `only_told`."""
    prompts = []
    for rule in rules("turn"):
        if stop not in rule.stop or not re.search(rule.match, session.state.said):
            continue
        if rule.log is not None:
            proxy.log(rule.log)
        if rule.say is not None:
            session.say(rule.say)
        if rule.prompt is not None and not only_told:
            prompts.append([text(rule.prompt)])
    return prompts


if __name__ == "__main__":
    proxy.run()
