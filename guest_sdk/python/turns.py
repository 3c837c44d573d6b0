"""Turns that the proxy begins itself, and what of them the client is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from . import checked
from .errors import ProxyError
from .messages import Update
from .records import Record
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


class Parting:
    """Parts what the agent says next from what it said before, where nothing else does.

    Both are shown to the client one after the other. Where chunks say which message they are of,
    that parts them; elsewhere the next one begins a paragraph.
    """

    __slots__ = ("_lead",)

    def __init__(self, tail: str) -> None:
        """`tail`: the last two characters of what was said; empty: nothing is to be parted."""
        self._lead = "\n\n"[len(tail) - len(tail.rstrip("\n")) :] if tail else ""

    @property
    def due(self) -> bool:
        """Whether nothing has come between or behind yet."""
        return bool(self._lead)

    def heard(self, update: Update) -> bool:
        """Takes the update that is shown next; True: it is to be shown."""
        if update.kind not in LASTING:
            if _is_text(update.update):
                content = update.update["content"]
                update.update["content"] = {**content, "text": self._lead + content["text"]}
            self._lead = ""
        return True


class Running:
    """A turn of the proxy's own, from its prompt until the agent says that it is over."""

    __slots__ = ("_begun", "_former", "_hidden", "_tail", "over", "updates")

    def __init__(self, show: Show, former: Parting | None = None) -> None:
        """`former`: what is left of the turn before it."""
        if show not in ("forwarded", "hidden"):
            raise ValueError(f"`show` is 'forwarded' or 'hidden', not {show!r}")
        self._hidden = show == "hidden"
        self._former = former or Parting("")
        self._tail = ""
        """How the text ends that the client was shown last."""
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
        self.updates.append(Record(dict(said)))
        if update.kind == "state_update":
            if said.get("state") == "idle":
                if self._begun:
                    self.over.resolve(str(said.get("stopReason") or "end_turn"))
                return False  # what the client waits for is not over
            self._begun = True
        if self._hidden:
            return update.kind in LASTING
        if update.kind not in LASTING:
            self._tail = (self._tail + update.text)[-2:] if _is_text(said) else ""
        return self._former.heard(update)

    def parting(self) -> Parting:
        """What parts it from what the agent says next."""
        return Parting(self._tail) if self._tail else self._former

    def turn(self) -> Turn:
        """What it came to."""
        said = "".join(map(_said, self.updates))
        return Turn(said, self.over.result(), self.updates)


def begin(engine: Speaker, session: str, blocks: tuple[Any, ...], running: Running) -> None:
    """Sends the prompt of a turn."""
    content = [checked.block(block) for block in blocks]
    answer: Waiter[Any] = engine.request(
        "s", "session/prompt", {"sessionId": session, "prompt": content}
    )
    answer.then(lambda: running.answered(answer))


def _is_text(said: dict[str, Any]) -> bool:
    """Whether an update is text of the agent's that does not say which message it is of."""
    content = said.get("content")
    return (
        said.get("sessionUpdate") == _CHUNK
        and said.get("messageId") is None
        and isinstance(content, dict)
        and isinstance(content.get("text"), str)
    )


def _said(update: Record) -> str:
    """The text of one update, if the agent speaks in it."""
    kind, content = update.raw.get("sessionUpdate"), update.raw.get("content")
    blocks = content if isinstance(content, list) else [content]
    if kind not in (_CHUNK, _MESSAGE):
        return ""
    return "".join(str(one.get("text", "")) for one in blocks if isinstance(one, dict))
