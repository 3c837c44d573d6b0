"""Turns that the proxy begins itself, and the parts of them that the client sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from . import checked
from .errors import Cancelled, ProxyError, Refused
from .messages import Update
from .records import Record
from .tasks import Waiter

if TYPE_CHECKING:
    from .speaker import Speaker

LASTING: Final = frozenset(
    {
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
        "cursor_update",
    }
)
"""Updates about the session rather than a turn: they are never hidden."""

_TOOLS: Final = ("tool_call", "tool_call_update", "tool_call_content_chunk")
_CHUNK: Final = "agent_message_chunk"
_MESSAGE: Final = "agent_message"
_TEXTS: Final = (_CHUNK, _MESSAGE, "agent_thought_chunk", "agent_thought")
"""The updates that a proxy may tag: a policy lets it change no others."""


class Turn:
    """The agent's answer to a prompt of the proxy's own."""

    __slots__ = ("stop_reason", "text", "updates")

    def __init__(self, text: str, stop_reason: str, updates: list[Record]) -> None:
        self.text = text
        """All words of the agent, joined."""
        self.stop_reason = stop_reason
        self.updates = updates
        """Everything it sent, in order: tool calls, thoughts, plans."""


class Parting:
    """Parts the agent's next words from its earlier words, where nothing else does.

    The client sees both in a row. Chunks that name their message part them; elsewhere the next
    words begin a paragraph.
    """

    __slots__ = ("_lead",)

    def __init__(self, tail: str) -> None:
        """`tail`: the last two characters of the earlier words; empty: nothing is to be parted."""
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

    __slots__ = (
        "_begun",
        "_former",
        "_meta",
        "_nests",
        "_show",
        "_tail",
        "asked",
        "over",
        "updates",
    )

    def __init__(
        self,
        show: bool = False,
        *,
        nests: bool = False,
        former: Parting | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """`nests`: it is part of a turn of the user's. `former`: the rest of the turn before.
        `meta`: the members of `_meta` in its shown texts."""
        self._show = show
        self._meta = meta
        self._nests = nests
        self._former = former or Parting("")
        self.asked = False
        """Whether the agent has asked for a permission in it: then its tools are shown."""
        self._tail = ""
        """How the text ends that the client was shown last."""
        self._begun = False
        self.updates: list[Record] = []
        self.over: Waiter[str] = Waiter()
        """Settled with the stop reason, or with the error the agent answered."""

    def answered(self, answer: Waiter[Any], version: Any) -> None:
        """Takes the answer to the prompt. In version 1 the turn is over, whatever the answer is; in
        version 2 the turn goes on behind it."""
        try:
            result = answer.result()
        except ProxyError as error:
            self.over.fail(error)
            return
        self._begun = True
        stop = result.get("stopReason") if isinstance(result, dict) else None
        if stop is not None or version == 1:
            self.over.resolve(str(stop or "end_turn"))

    def heard(self, update: Update) -> bool:
        """Takes an update; whether the client is to be shown it."""
        said = update.update
        self.updates.append(Record(dict(said)))
        if update.kind == "state_update":
            if said.get("state") == "idle":
                if not self._begun:
                    return True  # it is of the turn before
                self.over.resolve(str(said.get("stopReason") or "end_turn"))
            self._begun = True
            if self._nests:
                return False  # what the client waits for is not over
        if not self._show:
            return update.kind in LASTING or (self.asked and update.kind in _TOOLS)
        if update.kind not in LASTING:
            self._tail = (self._tail + update.text)[-2:] if _is_text(said) else ""
        if self._meta is not None and update.kind in _TEXTS:
            said["_meta"] = {**(said.get("_meta") or {}), **self._meta}
        return self._former.heard(update)

    def parting(self) -> Parting:
        """The mark that parts this turn from the agent's next words."""
        return Parting(self._tail) if self._tail else self._former

    def turn(self) -> Turn:
        """The finished turn."""
        said = "".join(map(_said, self.updates))
        return Turn(said, self.over.result(), self.updates)


class OwnTurn:
    """A turn that the proxy has in a session: `async with session.turn() as turn`.

    Meanwhile the conductor lets nobody else prompt in that session. It waits until the session is
    idle, unless the proxy holds a prompt of the user's there, or has a turn there already.
    """

    __slots__ = (
        "_cancelled",
        "_engine",
        "_id",
        "_left",
        "_meta",
        "_nests",
        "_parts",
        "_session",
        "_show",
    )

    def __init__(
        self, engine: Speaker, session: str, show: bool, meta: dict[str, Any] | None = None
    ) -> None:
        if not isinstance(show, bool):
            raise TypeError(f"`show` is True or False, not {show!r}")
        self._engine = engine
        self._session = session
        self._show = show
        self._meta = meta
        self._id: Any = None
        self._nests = self._parts = False
        self._cancelled = self._left = False

    async def __aenter__(self) -> Self:
        held = self._engine.held_prompt(self._session)
        self._nests, self._parts = held is not None, held is not None and held.came is None
        params = {"sessionId": self._session, "show": self._show}
        asked = self._engine.serve("turn/begin", params)
        asked.then(lambda: self._begun(asked))
        try:
            await asked
        except Refused as error:
            if error.granted:
                raise
            # This conductor knows no turns; so it keeps nobody apart.
        except BaseException:
            self._left = True
            raise
        return self

    def _begun(self, asked: Waiter[Any]) -> None:
        try:
            self._id = asked.result()["turn"]
        except (ProxyError, KeyError, TypeError):
            return
        if self._left:
            self._end()  # nobody waits for it any more

    async def __aexit__(self, *exception: object) -> None:
        self._left = True
        if self._id is not None:
            self._end()

    def _end(self) -> None:
        self._engine.notify("c", "turn/end", {"turn": self._id})

    async def prompt(self, *blocks: str | dict[str, Any] | Record) -> Turn:
        """Prompts the agent, with text or content blocks; the agent's answer.

        Raises `Cancelled` where the user has cancelled an earlier prompt of the turn: the turn is
        over, and this prompt is not sent.
        """
        if self._cancelled or self._left:
            raise Cancelled
        turns = self._engine.turns
        while isinstance(before := turns.get(self._session), Running):
            ended: Waiter[None] = Waiter()
            before.over.then(lambda ended=ended: ended.resolve(None))  # type: ignore[misc]
            await ended
        running = Running(self._show, nests=self._nests, former=before, meta=self._meta)
        turns[self._session] = running
        # Not when nobody waits any more: what is hidden stays hidden until the agent is done.
        running.over.then(lambda: self._ended(running))
        begin(self._engine, self._session, blocks, running)
        await running.over
        turn = running.turn()
        self._cancelled = turn.stop_reason == "cancelled"
        return turn

    def _ended(self, running: Running) -> None:
        del self._engine.turns[self._session]
        parting = running.parting()
        if self._parts and parting.due:  # else what comes next is another turn
            self._engine.turns[self._session] = parting


def begin(engine: Speaker, session: str, blocks: tuple[Any, ...], running: Running) -> None:
    """Sends the prompt of a turn."""
    content = [checked.block(block) for block in blocks]
    answer: Waiter[Any] = engine.request(
        "s", "session/prompt", {"sessionId": session, "prompt": content}
    )
    answer.then(lambda: running.answered(answer, engine.version))


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
