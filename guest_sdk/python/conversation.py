"""A conversation as data: its turns, and the prompts, answers and acts in each.

    Conversation → Turn → prompts, responses, tool uses, events

`Conversation.read` makes one of its JSON (docs/conversation.md), `conversation.json()` writes it
again. Each part keeps its unknown members in `more`. `meta` has the additions of components, by
name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Final, Self, TypeAlias

DEEPEST: Final = 200
"""How deep a conversation may nest."""

_NAMES: Final = {"meta": "_meta", "stop_reason": "stopReason", "left_out": "leftOut",
                 "session_id": "sessionId", "id": "toolCallId"}  # fmt: skip
_INSIDE: Final = frozenset({"more", "given", "turns", "items"})
"""Fields that are no members, or that are read and written in their own way."""


@dataclass
class Part:
    """Any part of a conversation. `meta`: its `_meta`. `more`: members nobody here knows."""

    kinds: ClassVar[dict[str, type]] = {"_meta": dict}
    """The type that a member must have to be read."""

    meta: dict[str, Any] = field(default_factory=dict, kw_only=True)
    more: dict[str, Any] = field(default_factory=dict, kw_only=True)
    given: frozenset[str] = field(default=frozenset(), kw_only=True, compare=False, repr=False)
    """Members that its JSON had: they are written again, even if they are empty."""

    @classmethod
    def read(cls, held: Any, at: str = "") -> Self:
        """The part of this JSON, which stands at a JSON pointer. Raises `ValueError`."""
        held = _object(held, at)
        known = cls._fields()
        for member, kind in cls.kinds.items():
            if (member in held or member in cls._parts()) and not _is(held.get(member), kind):
                raise ValueError(f"`{at}/{member}` is no {_WORDS[kind]}")
        skipped = {*known.values(), *cls._parts(), "type"}
        return cls(
            **{name: held[member] for name, member in known.items() if member in held},
            more={name: one for name, one in held.items() if name not in skipped},
            given=frozenset(held),
        )

    def json(self) -> dict[str, Any]:
        """Its JSON."""
        found = {**self.more}
        for name, member in self._fields().items():
            value = getattr(self, name)
            if value or member in self.given or (name == "data" and value is not None):
                found[member] = value
        return found

    @classmethod
    @cache
    def _fields(cls) -> dict[str, str]:
        """Its members, by the names of the fields."""
        names = (one.name for one in fields(cls))
        return {name: _NAMES.get(name, name) for name in names if name not in _INSIDE}

    @classmethod
    def _parts(cls) -> tuple[str, ...]:
        """The member that holds other parts, if it has one."""
        return tuple(one.name for one in fields(cls) if one.name in ("turns", "items"))


@dataclass
class Prompt(Part):
    """A prompt to the agent: content blocks."""

    kinds: ClassVar[dict[str, type]] = {**Part.kinds, "content": list}
    content: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The words in it."""
        return "\n".join(words(self.content))


@dataclass
class Response(Part):
    """Words of the agent, or its thoughts where `thought` is true: content blocks."""

    kinds: ClassVar[dict[str, type]] = {**Prompt.kinds, "thought": bool}
    content: list[Any] = field(default_factory=list)
    thought: bool = False

    @property
    def text(self) -> str:
        """The words in it."""
        return "".join(words(self.content))


@dataclass
class ToolUse(Part):
    """A tool that the agent used. `more` has the other members of ACP's tool call."""

    kinds: ClassVar[dict[str, type]] = {
        **Part.kinds, "toolCallId": str, "title": str, "status": str,
    }  # fmt: skip
    id: str = ""
    title: str = ""
    status: str = ""


@dataclass
class Event(Part):
    """Another event of a turn: an `approval`, a `walkthrough`, a `comment`, a `plan` …

    `text`: the event in words, for readers who do not know the kind. `data`: any JSON.
    """

    kinds: ClassVar[dict[str, type]] = {**Part.kinds, "kind": str, "text": str}
    kind: str = ""
    text: str = ""
    data: Any = None


@dataclass
class Unknown(Part):
    """An item of a type that this module does not know: all of it is in `more`."""

    kinds: ClassVar[dict[str, type]] = {}

    @classmethod
    def read(cls, held: Any, at: str = "") -> Self:
        """The item of this JSON. Raises `ValueError`."""
        return cls(more=dict(_object(held, at)))


Item: TypeAlias = Prompt | Response | ToolUse | Event | Unknown
_TYPES: Final[dict[str, type[Prompt | Response | ToolUse | Event]]] = {
    "prompt": Prompt, "response": Response, "toolUse": ToolUse, "event": Event,
}  # fmt: skip
_TYPE_OF: Final = {kind: name for name, kind in _TYPES.items()}


@dataclass
class Turn(Part):
    """Prompts and all that came of them, in order. `stop_reason`: how it ended; empty: it has not.

    It has no prompt where the agent spoke unasked, and several where the user added to the first.
    """

    kinds: ClassVar[dict[str, type]] = {**Part.kinds, "items": list, "stopReason": str}
    items: list[Item] = field(default_factory=list)
    stop_reason: str = ""

    @classmethod
    def read(cls, held: Any, at: str = "") -> Self:
        """The turn of this JSON. Raises `ValueError`."""
        turn = super().read(held, at)
        for number, item in enumerate(held["items"]):
            where = f"{at}/items/{number}"
            kind = _object(item, where).get("type")
            if not isinstance(kind, str):
                raise ValueError(f"`{where}/type` is no text")
            turn.items.append(_TYPES.get(kind, Unknown).read(item, where))
        return turn

    def json(self) -> dict[str, Any]:
        """Its JSON."""
        return {**super().json(), "items": [_typed(one) for one in self.items]}

    @property
    def prompts(self) -> list[Prompt]:
        """The prompts to the agent."""
        return [one for one in self.items if isinstance(one, Prompt)]

    @property
    def responses(self) -> list[Response]:
        """The words and thoughts of the agent."""
        return [one for one in self.items if isinstance(one, Response)]

    @property
    def tool_uses(self) -> list[ToolUse]:
        """The tools it used."""
        return [one for one in self.items if isinstance(one, ToolUse)]

    @property
    def events(self) -> list[Event]:
        """The other events."""
        return [one for one in self.items if isinstance(one, Event)]


@dataclass
class Conversation(Part):
    """A session as data. `left_out`: how many turns before the first one are not in it."""

    kinds: ClassVar[dict[str, type]] = {
        **Part.kinds, "turns": list, "sessionId": str, "cwd": str, "title": str, "leftOut": int,
    }  # fmt: skip
    turns: list[Turn] = field(default_factory=list)
    session_id: str = ""
    cwd: str = ""
    title: str = ""
    left_out: int = 0

    @classmethod
    def read(cls, held: Any, at: str = "") -> Self:
        """The conversation of this JSON. Raises `ValueError`, also for one that nests too deep."""
        if _deeper(held, DEEPEST):
            raise ValueError(f"a conversation nests {DEEPEST} levels at most")
        found = super().read(held, at)
        turns = enumerate(held["turns"])
        found.turns = [Turn.read(one, f"{at}/turns/{number}") for number, one in turns]
        return found

    def json(self) -> dict[str, Any]:
        """Its JSON."""
        return {**super().json(), "turns": [one.json() for one in self.turns]}

    def trim(self, most: int) -> int:
        """Leaves out the oldest turns until its JSON has this many characters; how many.

        Of the last turn, if that alone is longer, long texts are cut, and then the first items go.
        """
        room, kept = most, 0
        for turn in reversed(self.turns):
            room -= _size(turn)
            if room < 0:
                break
            kept += 1
        out = max(0, len(self.turns) - max(kept, 1))
        del self.turns[:out]
        self.left_out += out
        if self.turns and not kept:
            _shorten(self.turns[0], most)
        return out


def words(content: Iterable[Any]) -> Iterator[str]:
    """The texts of content blocks, and the names of the other blocks."""
    for block in content:
        if not isinstance(block, dict):
            continue
        inner = block.get("resource")
        resource = inner if isinstance(inner, dict) else {}
        uri = block.get("uri", resource.get("uri"))
        if isinstance(block.get("text"), str):
            yield block["text"]
        elif isinstance(uri, str):
            yield f"[{block.get('name') or uri}]({uri})"
        elif isinstance(block.get("type"), str):
            yield f"[{block['type']}]"


def _shorten(turn: Turn, most: int) -> None:
    """Cuts long items of a turn, then leaves out its first items, but for its first prompt."""
    for item in turn.items:
        if isinstance(item, (Prompt, Response)):
            item.content = [_cut(block, most // 8) for block in item.content]
        elif isinstance(item, ToolUse):
            item.more = {k: v for k, v in item.more.items() if len(json.dumps(v)) <= most // 8}
    while turn.items and _size(turn) > most:
        first = len(turn.items) > 1 and isinstance(turn.items[0], Prompt)
        del turn.items[1 if first else 0]


def _cut(block: Any, most: int) -> Any:
    """A content block, or text in its place that is no longer than this."""
    size = len(json.dumps(block))
    if size <= most:
        return block
    said = block.get("text") if isinstance(block, dict) else None
    if isinstance(said, str):
        return {"type": "text", "text": f"{said[: most // 6]} […]"}
    return {"type": "text", "text": f"[{size} characters left out]"}


def _size(part: Part) -> int:
    return len(json.dumps(part.json()))


def _typed(item: Item) -> dict[str, Any]:
    kind = _TYPE_OF.get(type(item))  # type: ignore[arg-type]
    return item.json() if kind is None else {"type": kind, **item.json()}


_WORDS: Final = {dict: "object", list: "list", str: "text", bool: "truth value", int: "number"}


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _object(held: Any, at: str) -> dict[str, Any]:
    if not isinstance(held, dict):
        raise ValueError(f"`{at or '/'}` is no object")
    return held


def _deeper(held: Any, most: int) -> bool:
    """Whether a JSON value nests deeper than this; not by recursion, whose end is near."""
    level = [held]
    for _ in range(most):
        level = [
            inner
            for one in level
            if isinstance(one, (dict, list))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
