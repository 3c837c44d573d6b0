"""The values that a program which embeds a chain gets and gives: answers, updates, questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec

Block: TypeAlias = Mapping[str, Any]
"""A content block of ACP, such as `{"type": "text", "text": "hi"}`."""

Prompt: TypeAlias = str | Sequence[str | Block]
"""A text, or texts and content blocks."""

Log: TypeAlias = Callable[[str, str, str], None]
"""Takes a line of the log: its level, the component, the text."""


class Update(msgspec.Struct, frozen=True):
    """One `session/update`: a piece of the answer, a tool call, a plan …

    Attributes:
        session: The id of its session.
        kind: Its kind, such as `agent_message_chunk` or `tool_call`.
        members: All its members, as the chain sent them.
    """

    session: str
    kind: str
    members: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The text of its content; empty if it has none."""
        content = self.members.get("content")
        text = content.get("text") if isinstance(content, dict) else None
        return text if isinstance(text, str) else ""


class Answer(msgspec.Struct, frozen=True):
    """The result of a turn. `print` shows its text.

    Attributes:
        text: The words of the agent: the texts of its message chunks.
        stop_reason: Why the turn ended, such as `end_turn`, `refusal` or `cancelled`.
        updates: All updates of the turn, in order.
    """

    text: str
    stop_reason: str
    updates: tuple[Update, ...]

    def __str__(self) -> str:
        return self.text


class PermissionOption(msgspec.Struct, frozen=True):
    """An answer that the agent offers.

    Attributes:
        id: The id that names the answer.
        name: The text that a person reads.
        kind: `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    """

    id: str
    name: str
    kind: str


class Permission(msgspec.Struct, frozen=True):
    """A question of the agent: may it do this?

    Attributes:
        session: The id of its session.
        title: The action that needs permission, in one line that is safe to show.
        options: The possible answers.
        tool_call: The tool call, as the chain sent it.
    """

    session: str
    title: str
    options: tuple[PermissionOption, ...]
    tool_call: Mapping[str, Any]


OnPermission: TypeAlias = Callable[[Permission], Awaitable[bool | str]]
"""Answers a question: True allows it this once, False rejects it, a text is an option's id."""

Permissions: TypeAlias = Literal["deny", "allow-once"] | OnPermission

OnUpdate: TypeAlias = Callable[[Update], Awaitable[None] | None]


class ChainOptions(TypedDict, total=False):
    """How `conductor.open` runs the chain: fields of `conductor.spec.options.Options`."""

    isolation: str
    cache: str | None
    clock: str | None
    line_limit: int
    stall: float
    grace: float
    reload: bool
    require_hardening: bool
    require_sandbox: bool
    audit: str | None
    trace: str | None
    trace_content: str
    mcp_bridge: str
    changed_tools: str
    pin_mcp: bool
    peer: tuple[str, ...]
    branch: tuple[str, ...]
    locked: bool
    lock_file: str | None
    values: str | None
    metrics: str | None
    prometheus: int | None
    otlp: str | None
    propagate: bool
