"""Conversations as Markdown."""

import datetime
import re
from collections.abc import Iterator
from typing import Any

from guest_sdk.python import Conversation

LARGEST = 1_000_000
"""Bytes of a checkpoint; the conductor writes files of 1 MiB at most."""


def name(title: str, now: datetime.datetime) -> str:
    """The name of a file: the time, and a few words."""
    words = "-".join(re.findall(r"[a-z0-9]+", title.lower()))[:40].strip("-")
    return f"{now:%Y-%m-%d-%H%M%S}-{words or 'checkpoint'}"


def markdown(said: Conversation, title: str, folder: str, now: datetime.datetime) -> str:
    """A conversation up to now; where it is too long, without its oldest turns."""
    head = f"# {title or 'Checkpoint'}\n\n{now:%Y-%m-%d %H:%M}, in `{folder}`\n"
    left_out, turns = said.left_out, []
    for number, turn in enumerate(said.turns, left_out + 1):
        turns.append("\n".join([f"\n## Turn {number}\n", *parts(turn.json()["items"])]))
    while len(turns) > 1 and size(turns) > LARGEST:
        del turns[0]
        left_out += 1
    if left_out:
        head += f"\n(What came before turn {left_out + 1} is left out.)\n"
    text = "".join([head, *turns])
    return text.encode()[:LARGEST].decode("utf-8", "ignore")


def size(turns: list[str]) -> int:
    return sum(len(one.encode()) for one in turns)


def parts(items: list[dict[str, Any]]) -> Iterator[str]:
    """The prompts, answers, tools and events of a turn."""
    for item in items:
        match item["type"]:
            case "prompt":
                yield f"**User**\n\n{words(item)}\n"
            case "response" if not item.get("thought"):
                yield f"**Agent**\n\n{words(item)}\n"
            case "toolUse":
                status = f" ({item['status']})" if item.get("status") else ""
                yield f"- tool: {item.get('title') or item['toolCallId']}{status}\n"
            case "event":
                yield f"- {item.get('text') or item['kind']}\n"


def words(item: dict[str, Any]) -> str:
    """The text in a prompt or an answer."""
    blocks = (one for one in item["content"] if isinstance(one, dict))
    return "".join(str(one.get("text", "")) for one in blocks)
