"""The orders for a client under test, and its report: shared by all drivers.

`Plan` goes to a driver (the Python SDK's `python_client`, or ``ts/client.mjs`` over JSON),
`Transcript` comes back. Both sides are plain values, so one set of tests can be run over
every pair of client and agent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]
Direction = Literal["in", "out"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A run of a client: start ``command``, open a session, send each of ``prompts`` in turn."""

    command: tuple[str, ...]
    prompts: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    permission: str | None = None
    """Kind of the option to select when asked (``allow_once`` …); None answers *cancelled*."""
    cancel_on: str | None = None
    """Send ``session/cancel`` once an agent message holds this text."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The files that ``fs/read_text_file`` serves, by absolute path."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A JSON-RPC message on the client's connection, in the order in which the SDK saw it."""

    direction: Direction
    message: Json


@dataclass(frozen=True, slots=True)
class Turn:
    """An answered prompt: the agent's text chunks, then the end of the turn."""

    texts: tuple[str, ...]
    stop_reason: str | None
    error: Json | None


@dataclass(frozen=True, slots=True)
class Transcript:
    """Everything one client run saw; ``exit_code`` is that of the started command."""

    protocol_version: int
    agent_name: str | None
    session_id: str
    turns: tuple[Turn, ...]
    frames: tuple[Frame, ...]
    exit_code: int | None

    def received(self, method: str) -> tuple[Json, ...]:
        """Params of each request or notification of that method the client got, in order."""
        return tuple(
            frame.message["params"]
            for frame in self.frames
            if frame.direction == "in" and frame.message.get("method") == method
        )


def chunk_text(message: Json) -> str | None:
    """The text of an ``agent_message_chunk`` update, None for every other message."""
    if message.get("method") != "session/update":
        return None
    update = message["params"]["update"]
    if update["sessionUpdate"] != "agent_message_chunk":
        return None
    text = update["content"].get("text")
    return text if isinstance(text, str) else None


def transcript_of(
    initialized: Json, session_id: str, frames: tuple[Frame, ...], exit_code: int | None
) -> Transcript:
    """Build a `Transcript` from the wire: turns are cut at the answers to our prompts.

    A chunk that arrives after the answer to its prompt lands in the next turn, or in none:
    so comparing `Turn.texts` is also the check that no answer overtook its updates.
    """
    prompts = {
        frame.message["id"]
        for frame in frames
        if frame.direction == "out" and frame.message.get("method") == "session/prompt"
    }
    turns: list[Turn] = []
    texts: list[str] = []
    for frame in frames:
        message = frame.message
        if frame.direction == "out":
            continue
        text = chunk_text(message)
        if text is not None:
            texts.append(text)
        elif "method" not in message and message.get("id") in prompts:
            result: Json = message.get("result") or {}
            turns.append(Turn(tuple(texts), result.get("stopReason"), message.get("error")))
            texts = []
    if texts:
        turns.append(Turn(tuple(texts), None, None))
    return Transcript(
        protocol_version=initialized["protocolVersion"],
        agent_name=(initialized.get("agentInfo") or {}).get("name"),
        session_id=session_id,
        turns=tuple(turns),
        frames=frames,
        exit_code=exit_code,
    )
