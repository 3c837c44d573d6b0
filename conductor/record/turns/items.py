"""The items of a turn that a person reads: the client's messages in both directions, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from conductor.core import json_text
from conductor.core.guards.metas import SUBCONVERSATION
from conductor.core.jsonrpc import REFUSED
from conductor.core.policy.key_table import PROMPT, STAMP
from conductor.errors import counted
from conductor.record.turns import edits
from conductor.record.turns.line import AGENT, CLIENT, CONDUCTOR, QUESTIONS, Line
from conductor.record.turns.messages import Messages, Update, members, text_in
from conductor.record.turns.model import Change, Item, Turn, Verdict

if TYPE_CHECKING:
    from conductor.record.turns.reader import Reader

_MOST_ITEMS: Final = 5_000
_LONGEST: Final = 200_000
"""The most characters of the words of one item."""
_LARGEST: Final = 256 * 1024
"""Bytes of an item's blocks."""
_CHUNKS: Final = {
    "agent_message_chunk": "text", "agent_thought_chunk": "thought", "user_message_chunk": "prompt",
}  # fmt: skip
_EMPTY: Final = msgspec.Raw(b"[]")

_any = json_text.Decoder().decode
_encode = json_text.encode


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    """An object; empty if it is none."""
    try:
        value = _any(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> msgspec.Raw:
    if not isinstance(value, list) or not value:
        return _EMPTY
    text = _encode(value)
    return msgspec.Raw(text) if len(text) <= _LARGEST else _EMPTY


class _Content:
    """The content of a tool call, as it grows by parts: written once, at the end."""

    def __init__(self, whole: Any = None) -> None:
        self._parts: list[Any] = _any(_list(whole))
        self._size = len(_encode(self._parts))
        """Bytes of the parts, written."""

    def add(self, part: Any) -> None:
        """One more part, which goes on with the last text. A part without room is left out."""
        self._size += (size := len(_encode(part)))
        if self._size > _LARGEST:
            self._size -= size
            return
        last = members(members(self._parts[-1]).get("content")) if self._parts else {}
        text = text_in(members(part).get("content"))
        if text is not None and last.get("type") == "text":
            last["text"] = _words(last.get("text")) + text
        else:
            self._parts.append(part)

    def written(self) -> msgspec.Raw:
        """All parts."""
        return _list(self._parts)


def _plainly(block: Any) -> Any:
    """A block without the members that an agent may add where it repeats the block."""
    is_text = isinstance(block, dict) and block.get("type") == "text"
    return block.get("text") if is_text else block


def _words(value: Any) -> str:
    """`value` if it is a text, which strangers chose; else an empty text."""
    return value if isinstance(value, str) else ""


def _exchange(update: dict[str, Any]) -> tuple[str, str]:
    """The title and the id of the exchange that an update is of; empty: it is of none."""
    meta = update.get("_meta")
    tag = meta.get(SUBCONVERSATION) if isinstance(meta, dict) else None
    if not isinstance(tag, dict) or not isinstance(tag.get("id"), str):
        return "", ""
    return _words(tag.get("title")) or "subconversation", tag["id"]


class Items:
    """Collects the items that a person reads, from the client's messages in both directions."""

    def __init__(self, reader: Reader, turn: Turn) -> None:
        self._all: list[Item] = []
        self._reader = reader
        self._by = turn.by
        self._first = turn.events[0]
        self._top = reader.top
        self._tools: dict[str, Item] = {}
        self._contents: dict[str, _Content] = {}
        """By tool call, as for the items."""
        self._asked: dict[int, Item] = {}
        """The items that wait for a response, by the event of the request."""
        self._questions: dict[int, Line] = {}
        """The questions that wait for their answers, by the event."""
        self._plan: Item | None = None
        self._messages = Messages()
        self._prompt: list[Any] = []
        """The blocks of the turn's prompt: an agent may repeat them."""

    def _add(self, number: int, line: Line, kind: str, **more: Any) -> Item:
        item = Item(kind=kind, at=line.ts, events=(number, number), **more)
        if len(self._all) < _MOST_ITEMS:
            self._all.append(item)
        return item

    def taken(self) -> tuple[Item, ...]:
        """The items of all events that it has taken."""
        for id_, content in self._contents.items():
            self._tools[id_].blocks = content.written()
        return tuple(self._all)

    def refused(self, number: int, verdict: Verdict) -> None:
        """Conductor refused something, or would have."""
        text = verdict.text or f"rule {verdict.rule}"
        item = Item(
            kind="would" if verdict.would else "verdict",
            at=verdict.at,
            text=text,
            status=verdict.rule,
            component=verdict.component,
            events=(number, number),
        )
        if len(self._all) < _MOST_ITEMS:
            self._all.append(item)

    def happened(self, number: int, line: Line) -> None:
        """Something has happened to a component."""
        held = line.happened or {}
        text = _words(held.get("text")) or _words(held.get("event"))
        who = _words(held.get("component"))
        self._add(number, line, "notice", text=text[:_LONGEST], component=who)

    def _logged(self, number: int, line: Line) -> None:
        """A component puts a line in the log: a warning stands in the turn, too."""
        held = _object(line.params)
        if held.get("level") in ("warn", "error"):
            text = _words(held.get("message"))[:_LONGEST]
            self._add(number, line, "notice", text=text, component=line.source)

    def event(self, number: int, line: Line, update: Update | None) -> None:
        """Takes an event of the turn."""
        if line.type == "request" and line.method in QUESTIONS:
            self._questions[number] = line
        if line.protocol == "mcp" or (line.own is not None and line.own.carrier):
            self._mcp(number, line)
        elif line.type == "response":
            self._response(number, line)
        elif number == self._first and line.method == PROMPT:
            params = _object(line.params)
            text = edits.text_of(bytes(line.params))[:_LONGEST]
            blocks = _list(params.get("prompt"))
            self._prompt = [_plainly(block) for block in _any(blocks)]
            self._add(number, line, "prompt", text=text, blocks=blocks, component=self._by)
        elif update is not None:
            for shown in self._messages.read(update.held) if line.target == self._top else ():
                self._update(number, line, shown)
        elif line.method in QUESTIONS and line.target == self._top:
            self._question(number, line)
        elif line.method == "session/cancel" and line.source == CLIENT:
            self._add(number, line, "notice", text="cancelled by the client")
        elif line.method == "log" and line.target == CONDUCTOR:
            self._logged(number, line)
        elif self._is_asked(line):
            params = _object(line.params)
            who, text = _of_editor(line.method, params)
            text = text or f"{line.method} {_words(params.get('path'))}".rstrip()
            self._asked[number] = self._add(number, line, "notice", text=text, component=who)

    def _maker(self, number: int, line: Line) -> str:
        """The component that made a message itself; empty: none."""
        made = self._reader.change(number) in (Change.ORIGINATED, Change.ANSWERED)
        return line.source if made else ""

    def _is_asked(self, line: Line) -> bool:
        """Whether the client is asked for something."""
        return (
            line.type == "request"
            and line.target == self._top
            and line.source not in (CLIENT, CONDUCTOR)
        )

    def _update(self, number: int, line: Line, update: dict[str, Any]) -> None:
        kind = _words(update.get("sessionUpdate"))
        who = self._maker(number, line)
        if (shown := _CHUNKS.get(kind)) is not None:
            self._chunk(number, line, shown, update)
        elif kind in ("tool_call", "tool_call_update", "tool_call_content_chunk"):
            self._tool(number, line, kind, update)
        elif kind == "plan":
            plan = self._plan
            if plan is None:
                plan = self._plan = self._add(number, line, "plan", component=who)
            entries = update.get("entries")
            plan.blocks, plan.events = _list(entries), (plan.events[0], number)
            plan.text = _steps(entries)
        elif kind == "current_mode_update":
            text = _words(update.get("currentModeId"))
            self._add(number, line, "mode", text=text, component=who)
        elif kind == "notice":
            said = (update.get("title"), update.get("description"), update.get("message"))
            text = ": ".join(filter(None, map(_words, said)))
            self._add(number, line, "notice", text=text, component=who)

    def _chunk(self, number: int, line: Line, kind: str, update: dict[str, Any]) -> None:
        content = update.get("content")
        text = _words(content.get("text")) if isinstance(content, dict) else ""
        if kind == "prompt" and _plainly(content) in self._prompt:
            return
        last = self._all[-1] if self._all else None
        title, exchange = _exchange(update)
        joins = last is not None and (last.kind, last.exchange) == (kind, exchange)
        if text and last is not None and joins and last.blocks == _EMPTY:
            if len(last.text) < _LONGEST:
                last.text += text
            last.ms = (line.ts - last.at) * 1000
            last.events = (last.events[0], number)
            return
        if text:
            self._add(number, line, kind, text=text, nested=title, exchange=exchange)
        elif content is not None and content != {"type": "text", "text": ""}:
            blocks = content if isinstance(content, list) else [content]
            shown = _list(blocks)
            self._add(number, line, kind, blocks=shown, nested=title, exchange=exchange)

    def _tool(self, number: int, line: Line, kind: str, update: dict[str, Any]) -> None:
        id_ = _words(update.get("toolCallId"))
        item = self._tools.get(id_)
        if item is None:
            item = self._tools[id_] = self._add(number, line, "tool", id=id_)
            item.component = self._maker(number, line)
        item.text = _words(update.get("title")) or item.text
        item.status = _words(update.get("status")) or item.status
        if kind == "tool_call_content_chunk":
            self._contents.setdefault(id_, _Content()).add(update.get("content"))
        elif update.get("content"):
            self._contents[id_] = _Content(update["content"])
        item.ms = (line.ts - item.at) * 1000
        item.events = (item.events[0], number)

    def _question(self, number: int, line: Line) -> Item:
        params = _object(line.params)
        call = params.get("toolCall")
        call = call if isinstance(call, dict) else {}
        known = self._tools.get(_words(call.get("toolCallId")))
        titles = (call.get("title"), params.get("title"), params.get("message"))
        title = next(filter(None, map(_words, titles)), known.text if known else "")
        title = title or "permission"
        item = self._add(number, line, "question", text=title, blocks=_list(params.get("options")))
        item.component = self._maker(number, line)
        self._asked[number] = item
        return item

    def _response(self, number: int, line: Line) -> None:
        asked = self._reader.pair(number)
        item, question = self._asked.pop(asked, None), self._questions.pop(asked, None)
        if item is not None:
            item.ms = (line.ts - item.at) * 1000
            item.events = (item.events[0], number)
            item.status = "error" if line.is_error else "ok"
            if item.kind == "question":
                item.status = _answer(item, line)
        elif self._reader.change(number) is Change.ANSWERED and question is not None:
            self._decided(number, line, asked, question)
        elif line.is_error and line.target == CLIENT and not (line.own and line.own.lost):
            error = _object(line.payload)
            text = _words(error.get("message")) or "error"
            made = self._add(number, line, "error", text=text, status=str(error.get("code", "")))
            made.component = self._maker(number, line)
            if error.get("code") == REFUSED:
                data = error.get("data")  # it names a guest of a host too
                named = _words(data.get("component")) if isinstance(data, dict) else ""
                made.kind, made.component = "refused", named or made.component

    def _decided(self, number: int, line: Line, asked: int, question: Line) -> None:
        """A component answers a question itself, so that nobody else sees it."""
        item = self._question(asked, question)
        del self._asked[asked]
        item.kind = "refusal" if _refuses(item, line) else "answer"
        item.component, item.status = line.source, _answer(item, line)
        item.ms, item.events = (line.ts - item.at) * 1000, (asked, number)

    def _mcp(self, number: int, line: Line) -> None:
        """A message of MCP: a request is an item, its response ends it."""
        if line.type == "response":
            item = self._asked.pop(self._reader.pair(number), None)
            if item is not None:
                item.ms = (line.ts - item.at) * 1000
                item.events = (item.events[0], number)
                failed = line.is_error or _object(line.payload).get("isError") is True
                item.status = "error" if failed else "ok"
        elif line.type == "request" and line.source == AGENT:
            params = _object(line.params)
            name = _words(params.get("name")) or _words(params.get("uri"))
            item = self._add(number, line, "mcp", text=f"{line.method} {name}".rstrip())
            item.component = line.target if line.target != CLIENT else ""
            self._asked[number] = item


def _of_editor(method: str, params: dict[str, Any]) -> tuple[str, str]:
    """The component that shows or asks something in the editor, and its act (docs/editors.md)."""
    meta, start = params.get("_meta"), params.get("start")
    who = _words(meta.get(STAMP)) if isinstance(meta, dict) else ""
    id_ = _words(params.get("id"))
    words = {
        "_scp/html_panel/show": f"shows a panel: {_words(params.get('label')) or id_}",
        "_scp/html_panel/clear": f"takes a panel away: {id_}",
        "_scp/file_comment/show": f"comments in {_file(_words(params.get('url')))}",
        "_scp/file_comment/clear": f"takes a comment away: {id_}",
        "_scp/file_comment/reply": f"replies below its comment: {id_}",
        "_scp/ide_operation/run": f"asks the editor: {_words(params.get('name'))}",
    }
    line = start.get("line") if isinstance(start, dict) else None
    at = f":{line}" if method == "_scp/file_comment/show" and isinstance(line, int) else ""
    text = words.get(method, "")[:_LONGEST]
    return (who, text + at) if text else ("", "")


def _file(url: str) -> str:
    """The end of a file's path, as a person reads it."""
    if not url.startswith("file://"):
        return url
    parts = unquote(url.removeprefix("file://")).rsplit("/", 3)
    return "/".join(["…", *parts[1:]] if parts[0] else parts[1:])


def _steps(entries: Any) -> str:
    """How far a plan is, in words."""
    steps = (
        [step for step in entries if isinstance(step, dict)] if isinstance(entries, list) else []
    )
    done = sum(step.get("status") == "completed" for step in steps)
    now = next((step for step in steps if step.get("status") == "in_progress"), None)
    text = f"{done} of {counted(len(steps), 'step')} done"
    return f"{text}, now: {_words(now.get('content'))}" if now is not None else text


def _answer(item: Item, line: Line) -> str:
    """The answer to a question, in words."""
    if line.is_error:
        return "error"
    payload = _object(line.payload)
    outcome = payload.get("outcome")
    if not isinstance(outcome, dict):
        return _words(payload.get("action")) or "no answer"
    chosen = outcome.get("optionId")
    if not isinstance(chosen, str):
        return _words(outcome.get("outcome")) or "no answer"
    for option in _any(item.blocks):
        if isinstance(option, dict) and option.get("optionId") == chosen:
            return _words(option.get("name")) or _words(option.get("kind")) or chosen
    return chosen


def _refuses(item: Item, line: Line) -> bool:
    """Whether the answer to a question is a no."""
    payload = _object(line.payload)
    outcome = payload.get("outcome")
    if not isinstance(outcome, dict):
        return line.is_error or payload.get("action") in ("decline", "cancel")
    options = [one for one in _any(item.blocks) if isinstance(one, dict)]
    kinds = [one.get("kind") for one in options if one.get("optionId") == outcome.get("optionId")]
    return outcome.get("outcome") == "cancelled" or any(
        isinstance(kind, str) and kind.startswith("reject") for kind in kinds
    )
