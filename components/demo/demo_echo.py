"""The work that a prompt asks for: one of the directives, or else an echo."""

from typing import Any

from demo_json import raw_at, raw_items
from demo_turn import Directive, Turn


def choose(prompt: list[dict[str, Any]]) -> tuple[Directive, str]:
    """The directive of a prompt, and its argument. It stands in the last text block that starts
    with a slash: proxies may put blocks of their own before and after the user's."""
    for block in reversed(prompt):
        text = block.get("text") if block.get("type") == "text" else None
        if isinstance(text, str) and text.startswith("/"):
            from demo_directives import find

            return find(text) or (ECHO, "")
    return ECHO, ""


def echo(turn: Turn, argument: str) -> None:
    """Every block of the prompt in order: text in a few chunks, others as their JSON; a newline
    between blocks. The chunks joined are exactly that text."""
    raw: list[str] | None = None
    for index, block in enumerate(turn.prompt):
        text = block.get("text") if block.get("type") == "text" else None
        if isinstance(text, str):
            pieces = _pieces(text)
        else:
            raw = raw or raw_items(raw_at(turn.text, "params", "prompt") or "[]")
            pieces = [raw[index]]
        if index:
            pieces[0] = "\n" + pieces[0]
        for piece in pieces:
            if piece:
                turn.say(piece)


ECHO = Directive(echo, "", "echo the prompt")


def _pieces(text: str) -> list[str]:
    """At most four pieces of about the same length, cut after spaces; joined, the text."""
    pieces: list[str] = []
    step = -(-len(text) // 4)
    start = 0
    while len(text) - start > step and len(pieces) < 3:
        cut = text.find(" ", start + step - 1) + 1
        if not cut:
            break
        pieces.append(text[start:cut])
        start = cut
    return [*pieces, text[start:]]
