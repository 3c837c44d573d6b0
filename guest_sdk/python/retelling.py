"""A conversation told again: to a client as updates, to an agent in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .conversation import Conversation, Event, Item, Prompt, Response, ToolUse, Turn
from .recorder import APPROVAL, EVENT, PLAN

TOLD: Final = """<conversation-so-far>
This conversation goes on from an earlier one, which you find below. Take it as what was said here.
Do nothing now, use no tools, and answer with OK only.

"""
"""How the prompt begins that tells an agent a conversation."""
END: Final = "</conversation-so-far>"


def in_words(conversation: Conversation, most: int = 100_000) -> str:
    """Its last turns in words, the newest at the end, in this many characters."""
    found: list[str] = []
    out = conversation.left_out + len(conversation.turns)
    for turn in reversed(conversation.turns):
        said = "\n".join(_told(turn))
        most -= len(said)
        if most < 0 and found:
            break
        found.append(said if most >= 0 else said[-most:])
        out -= 1
    if out:
        found.append(f"(The first {out} turns are left out.)")
    return "\n\n".join(reversed(found))


def _told(turn: Turn) -> Iterator[str]:
    """A turn in words."""
    for item in turn.items:
        match item:
            case Prompt():
                yield f"User: {item.text}"
            case Response(thought=False):
                yield f"You: {item.text}"
            case ToolUse():
                yield f"(You used: {item.title or item.id})"
            case Event():
                yield f"({item.text or item.kind})"


def updates(conversation: Conversation, version: int = 1) -> Iterator[dict[str, Any]]:
    """The updates that show a client a conversation, as `session/load` does; in ACP `version`."""
    for number, turn in enumerate(conversation.turns):
        for place, item in enumerate(turn.items):
            id_ = f"turn-{conversation.left_out + number}-{place}"
            yield from _told_again(item, id_, version)


def _told_again(item: Item, id_: str, version: int) -> Iterator[dict[str, Any]]:
    match item:
        case Prompt():
            yield from _message("user_message", item.content, id_, version)
        case Response():
            kind = "agent_thought" if item.thought else "agent_message"
            yield from _message(kind, item.content, id_, version)
        case ToolUse():
            yield {
                "sessionUpdate": "tool_call" if version == 1 else "tool_call_update",
                **item.json(),
            }
        case Event() if item.kind == PLAN:
            entries = item.data.get("entries") if isinstance(item.data, dict) else None
            plan = {"type": "items", "planId": id_, "entries": entries}
            if isinstance(entries, list):
                yield (
                    {"sessionUpdate": "plan", "entries": entries}
                    if version == 1
                    else {"sessionUpdate": "plan_update", "plan": plan}
                )
        case Event() if item.kind != APPROVAL and item.text:
            yield from (
                {**one, "_meta": {EVENT: {"kind": item.kind, "data": item.data}}}
                for one in _message("agent_message", [_block(item.text)], id_, version, chunks=True)
            )


def _block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _message(
    kind: str, content: list[Any], id_: str, version: int, *, chunks: bool = False
) -> Iterator[dict[str, Any]]:
    named = {"messageId": id_} if version != 1 else {}
    if named and not chunks:
        yield {"sessionUpdate": kind, **named, "content": content}
        return
    for block in content:
        yield {"sessionUpdate": f"{kind}_chunk", **named, "content": block}
