"""Turns that the proxy begins itself, and what of them the client is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from .errors import ProxyError
from .messages import Record, Update, text
from .tasks import Waiter

if TYPE_CHECKING:
    from .speaker import Speaker

Show = Literal["forwarded", "hidden"]
"""What the client sees of such a turn: all that the agent says, or nothing."""

LASTING: Final = frozenset(
    {
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    }
)
"""Updates about the session rather than a turn: they are never hidden."""

_CHUNK: Final = "agent_message_chunk"
_MESSAGE: Final = "agent_message"


class Turn:
    """What the agent said to one prompt of the proxy's own."""

    __slots__ = ("stop_reason", "text", "updates")

    def __init__(self, text: str, stop_reason: str, updates: list[Record]) -> None:
        self.text = text
        """All it said, joined."""
        self.stop_reason = stop_reason
        self.updates = updates
        """Everything it sent, in order: tool calls, thoughts, plans."""


class Running:
    """A turn of the proxy's own, from its prompt until the agent says that it is over."""

    __slots__ = ("_begun", "_hidden", "over", "updates")

    def __init__(self, show: Show) -> None:
        if show not in ("forwarded", "hidden"):
            raise ValueError(f"`show` is 'forwarded' or 'hidden', not {show!r}")
        self._hidden = show == "hidden"
        self._begun = False
        self.updates: list[Record] = []
        self.over: Waiter[str] = Waiter()
        """Settled with the stop reason, or with the error the agent answered."""

    def answered(self, answer: Waiter[Any]) -> None:
        """Takes the answer to the prompt. In version 2 the turn goes on behind it."""
        try:
            result = answer.result()
        except ProxyError as error:
            self.over.fail(error)
            return
        self._begun = True
        stop = result.get("stopReason") if isinstance(result, dict) else None
        if stop is not None:
            self.over.resolve(str(stop))

    def heard(self, update: Update) -> bool:
        """Takes an update; whether the client is to be shown it."""
        said = update.update
        self.updates.append(Record(said))
        if update.kind == "state_update":
            if said.get("state") == "idle":
                if self._begun:
                    self.over.resolve(str(said.get("stopReason") or "end_turn"))
                return False  # what the client waits for is not over
            self._begun = True
        return not self._hidden or update.kind in LASTING

    def turn(self) -> Turn:
        """What it came to."""
        said = "".join(map(_said, self.updates))
        return Turn(said, self.over.result(), self.updates)


def begin(engine: Speaker, session: str, blocks: tuple[Any, ...], running: Running) -> None:
    """Sends the prompt of a turn."""
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    answer: Waiter[Any] = engine.request(
        "s", "session/prompt", {"sessionId": session, "prompt": content}
    )
    answer.then(lambda: running.answered(answer))


def _said(update: Record) -> str:
    """The text of one update, if the agent speaks in it."""
    kind, content = update.raw.get("sessionUpdate"), update.raw.get("content")
    blocks = content if isinstance(content, list) else [content]
    if kind not in (_CHUNK, _MESSAGE):
        return ""
    return "".join(str(one.get("text", "")) for one in blocks if isinstance(one, dict))
