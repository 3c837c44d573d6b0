"""router: each prompt goes to the peer agent that its rules choose, or to the chain's agent."""

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypedDict

from guest_sdk.python import Next, PeerSession, Proxy, Request, Session, Update

SHOWN = {"agent_message_chunk", "agent_thought_chunk"}
"""The updates of a peer agent that the user sees."""


class Rule(TypedDict, total=False):
    """Where a prompt goes (without `to` to the chain's agent) if all else that is set fits."""

    to: str
    prefix: str
    pattern: str
    project: str


@dataclass
class Config:
    """The settings. Without rules every prompt goes to the chain's agent."""

    rules: list[Rule] = field(default_factory=list)


@dataclass
class Opened:
    """The sessions with peer agents that belong to one session of the client, by peer."""

    peers: dict[str, PeerSession] = field(default_factory=dict)


proxy = Proxy(
    "router",
    description="Sends each prompt to the agent that its rules choose",
    config=Config,
    session=Opened,
)


@proxy.on_start
def started() -> None:
    """Warns at once of rules that can never work."""
    for rule in proxy.config.rules:
        peer = rule.get("to", "")
        if peer and peer not in proxy.peers:
            proxy.log.warn(f"a rule sends prompts to `{peer}`, and there is no such peer agent")
        try:
            re.compile(rule.get("pattern", ""))
        except re.error as error:
            proxy.log.warn(f"the pattern `{rule.get('pattern')}` cannot be read: {error}")


def first_text(prompt: Any) -> str:
    """The text that a prompt begins with."""
    blocks = prompt if isinstance(prompt, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return next((text for text in texts if isinstance(text, str)), "")


def fits(rule: Rule, text: str, cwd: str) -> bool:
    """Whether a rule holds for a prompt."""
    pattern = rule.get("pattern")
    return (
        text.startswith(rule.get("prefix", ""))
        and (pattern is None or re.search(pattern, text) is not None)
        and fnmatchcase(cwd, rule.get("project", "*"))
    )


def without(prefix: str, blocks: list[Any]) -> list[Any]:
    """The blocks of a prompt without the prefix of the first text."""
    for at, block in enumerate(blocks if prefix else ()):
        if isinstance(block, dict) and isinstance(text := block.get("text"), str):
            short = {**block, "text": text.removeprefix(prefix).lstrip()}
            return [*blocks[:at], short, *blocks[at + 1 :]]
    return blocks


@proxy.request("session/prompt")
async def prompt(request: Request, following: Next) -> Any:
    """Sends a prompt where the first rule that fits says."""
    blocks = request.params.get("prompt") or []
    text, cwd = first_text(blocks), request.session.cwd or ""
    rule = next((one for one in proxy.config.rules if fits(one, text, cwd)), Rule())
    peer, prefix = rule.get("to", ""), rule.get("prefix", "")
    if not peer:
        return await following(request)
    session = await with_peer(request.session, peer)
    turn = await session.prompt(
        *without(prefix, blocks), on_update=lambda update: show(request.session, update)
    )
    return {"stopReason": turn.stop_reason}


async def with_peer(session: Session, peer: str) -> PeerSession:
    """The session with a peer agent that belongs to this one, opened when it is first needed."""
    opened = session.state.peers
    if peer not in opened:
        one = proxy.peer(peer).subsession(cwd=session.cwd or "/")
        await one.open()
        opened[peer] = one
    found: PeerSession = opened[peer]
    return found


def show(session: Session, update: Update) -> None:
    """Shows the user an update of a peer agent."""
    if update.kind in SHOWN:
        members = {key: held for key, held in update.update.items() if key != "sessionUpdate"}
        session.update(update.kind, **members)


if __name__ == "__main__":
    proxy.run()
