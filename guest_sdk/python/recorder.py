"""`Recorder`: makes a conversation of the messages that pass."""

from __future__ import annotations

import json
from typing import Any, Final

from .conversation import Conversation, Event, Item, Prompt, Response, ToolUse, Turn, words

EVENT: Final = "conductor.conversation/event"
"""The member of `_meta` by which a text of the agent's is an event, too: `{"kind", "data"}`."""
SPACE: Final = "conductor.component/"
"""How members of `_meta` begin by which components add to a conversation: they are in no update."""
APPROVAL: Final = "approval"
PLAN: Final = "plan"
LARGEST: Final = 2 * 1024 * 1024
"""Characters that a recorder keeps of a session, unless it is made with another bound."""

_RESPONSES: Final = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "agent_message", "agent_thought"}
)
_PROMPTS: Final = frozenset({"user_message_chunk", "user_message"})
_TOOLS: Final = frozenset({"tool_call", "tool_call_update"})


class Recorder:
    """Keeps a session as a conversation: give it all prompts, updates and answers, in order.

    `most`: characters it keeps, about; beyond them the oldest turns are left out.
    """

    def __init__(self, conversation: Conversation | None = None, *, most: int = LARGEST) -> None:
        self._held = conversation or Conversation()
        self._most = most
        self._size = sum(len(json.dumps(one.json())) for one in self._held.turns)
        self._last: dict[str, Any] | None = None
        """The block of text that goes on; `_pieces` has its later parts."""
        self._pieces: list[str] = []
        self._messages: dict[str, Response] = {}
        """Messages of the turn, by id."""

    @property
    def conversation(self) -> Conversation:
        """The conversation up to now."""
        self._join()
        return self._held

    def prompted(self, content: Any) -> None:
        """Takes a prompt: a turn begins."""
        self._begin(Prompt(list(content) if isinstance(content, list) else []))

    def ended(self, result: Any) -> None:
        """Takes the answer to a prompt. In version 2 the turn goes on behind it."""
        stop = result.get("stopReason") if isinstance(result, dict) else None
        if isinstance(stop, str) and self._held.turns:
            self._held.turns[-1].stop_reason = stop

    def event(self, kind: str, text: str = "", data: Any = None) -> None:
        """Takes another event."""
        self._add(Event(kind, text, data))

    def approved(self, params: dict[str, Any], result: Any) -> None:
        """Takes a permission request, and the client's answer: an event `approval`."""
        outcome = result.get("outcome") if isinstance(result, dict) else None
        outcome = outcome if isinstance(outcome, dict) else {}
        options = params.get("options")
        chosen = next(
            (
                one
                for one in (options if isinstance(options, list) else ())
                if isinstance(one, dict) and one.get("optionId") == outcome.get("optionId")
            ),
            {},
        )
        subject = params.get("subject")
        call = (subject if isinstance(subject, dict) else params).get("toolCall")
        call = call if isinstance(call, dict) else {}
        what = str(params.get("title") or call.get("title") or call.get("toolCallId") or "")
        how = str(chosen.get("name") or outcome.get("outcome") or "no answer")
        data = {"toolCallId": call.get("toolCallId"), "title": what, "outcome": outcome,
                "option": chosen.get("kind")}  # fmt: skip
        self.event(APPROVAL, f"{what}: {how}", data)

    def heard(self, update: dict[str, Any], *, replayed: bool = False) -> None:
        """Takes an update of the agent's. `replayed`: an old one, told again by `session/load`."""
        kind, content = update.get("sessionUpdate"), update.get("content")
        if kind in _RESPONSES:
            self._said(update, content, thought="thought" in str(kind))
        elif kind in _PROMPTS and replayed:
            self._repeated(content)
        elif kind in _TOOLS:
            self._tool(update)
        elif kind == "tool_call_content_chunk" and content is not None:
            one = self._tool({"toolCallId": update.get("toolCallId")})
            if one is not None:
                held = one.more.get("content")
                one.more["content"] = [*(held if isinstance(held, list) else []), content]
        elif kind in ("plan", "plan_update"):
            self._planned(update)
        elif kind == "state_update" and update.get("state") == "idle":
            self.ended({"stopReason": update.get("stopReason") or "end_turn"})

    # -- inside --------------------------------------------------------------------------------

    def _join(self) -> None:
        if self._last is not None and self._pieces:
            self._last["text"] += "".join(self._pieces)
            self._pieces = []

    def _turn(self) -> Turn:
        if not self._held.turns:
            self._held.turns.append(Turn())
        return self._held.turns[-1]

    def _begin(self, prompt: Prompt) -> None:
        self._join()
        self._last, self._messages = None, {}
        self._held.turns.append(Turn([prompt]))
        self._grew(len(json.dumps(prompt.content)))

    def _add(self, item: Item) -> None:
        self._join()
        self._last = None
        self._turn().items.append(item)
        self._grew(len(json.dumps(item.json())))

    def _grew(self, by: int) -> None:
        self._size += by
        if self._size <= self._most:
            return
        self._join()
        self._last = None
        self._held.trim(self._most // 2)  # half of it, so that it is not done at every message
        self._size = sum(len(json.dumps(one.json())) for one in self._held.turns)
        inside = {id(one) for turn in self._held.turns for one in turn.items}
        self._messages = {k: one for k, one in self._messages.items() if id(one) in inside}

    def _repeated(self, content: Any) -> None:
        blocks = content if isinstance(content, list) else [content]
        last = self._held.turns[-1].items if self._held.turns else []
        if last and len(last) == 1 and isinstance(last[0], Prompt):
            last[0].content += blocks
        else:
            self._begin(Prompt(blocks))

    def _said(self, update: dict[str, Any], content: Any, *, thought: bool) -> None:
        event = _event(update)
        if event is not None:
            self._add(Event(event[0], "".join(words([content])), event[1]))
            return
        id_ = update.get("messageId")
        known = self._messages.get(id_) if isinstance(id_, str) else None
        if isinstance(content, list):  # version 2: the whole message, once more
            if known is not None:
                self._join()
                self._last, known.content = None, list(content)
                self._grew(len(json.dumps(content)))
            else:
                self._respond(content, id_, thought)
            return
        if not isinstance(content, dict):
            return
        latest = self._turn().items[-1:] if known is None else [known]
        before = latest[0] if latest else None
        goes_on = (
            isinstance(before, Response)
            and before.thought == thought
            and before.more.get("messageId") == id_
        )
        if not goes_on:
            self._respond([dict(content)], id_, thought)
        elif isinstance(before, Response):
            self._go_on(before, content)

    def _respond(self, content: list[Any], id_: Any, thought: bool) -> None:
        one = Response(content, thought, more={"messageId": id_} if isinstance(id_, str) else {})
        self._add(one)
        if isinstance(id_, str):
            self._messages[id_] = one
        self._last = _text(content[-1]) if content else None

    def _go_on(self, before: Response, content: dict[str, Any]) -> None:
        block, said = before.content[-1] if before.content else None, _text(content)
        if said is not None and block is not None and block is self._last:
            self._pieces.append(said["text"])
            self._grew(len(said["text"]))
            return
        self._join()
        before.content.append(dict(content))
        self._last = _text(before.content[-1])
        self._grew(len(json.dumps(content)))

    def _tool(self, update: dict[str, Any]) -> ToolUse | None:
        id_ = update.get("toolCallId")
        if not isinstance(id_, str):
            return None
        uses = self._turn().tool_uses
        one = next((each for each in reversed(uses) if each.id == id_), None)
        if one is None:
            one = ToolUse(id_)
            self._add(one)
        for name, value in update.items():
            if name in ("title", "status") and isinstance(value, str):
                setattr(one, name, value)
            elif name == "_meta" and isinstance(value, dict):
                named = (name for name in value if not name.startswith(SPACE))
                one.meta.update({name: value[name] for name in named})
            elif name not in ("sessionUpdate", "toolCallId", "title", "status", "_meta"):
                one.more[name] = value
        self._grew(len(json.dumps(update)))
        return one

    def _planned(self, update: dict[str, Any]) -> None:
        plan = update.get("plan")
        entries = (plan if isinstance(plan, dict) else update).get("entries")
        if not isinstance(entries, list):
            return
        before = next((one for one in self._turn().events if one.kind == PLAN), None)
        if before is not None:
            before.data = {"entries": entries}
        else:
            self._add(Event(PLAN, "a plan", {"entries": entries}))


def _text(block: Any) -> dict[str, Any] | None:
    """A block, if it is plain text that can go on."""
    plain = isinstance(block, dict) and block.keys() == {"type", "text"}
    return block if plain and isinstance(block["text"], str) else None


def _event(update: dict[str, Any]) -> tuple[str, Any] | None:
    """The kind and data of the event that a text of the agent's is, too. What a recorder sees
    itself, it does not take from a text."""
    meta = update.get("_meta")
    held = meta.get(EVENT) if isinstance(meta, dict) else None
    kind = held.get("kind") if isinstance(held, dict) else None
    if not isinstance(held, dict) or not isinstance(kind, str) or kind in (APPROVAL, PLAN):
        return None
    return kind, held.get("data")
