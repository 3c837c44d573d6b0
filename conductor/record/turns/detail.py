"""A turn in detail: what a person reads of it, and what each component made of each message."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from conductor.core import json_text
from conductor.core.jsonrpc import REFUSED
from conductor.core.policy.key_table import STAMP
from conductor.errors import counted
from conductor.record.turns import edits
from conductor.record.turns.line import (
    AGENT,
    CLIENT,
    CONDUCTOR,
    ENDS,
    PROMPT,
    QUESTIONS,
    UPDATE,
    Line,
    chunk_of,
    read_line,
    update_of,
)
from conductor.record.turns.messages import Messages
from conductor.record.turns.model import Change, Item, Turn, TurnDetail, Verdict, Visit
from conductor.record.turns.open_turn import Time

if TYPE_CHECKING:
    from conductor.record.turns.reader import Reader

_MOST_VISITS: Final = 2_000
_MOST_ITEMS: Final = 5_000
_LONGEST: Final = 200_000
"""Characters of the words of one item."""
_MOST_WORDS: Final = 2_000_000
"""Characters of the words of one kind that a component got in a turn; more are not compared word
by word."""
_LARGEST: Final = 256 * 1024
"""Bytes of an item's blocks."""
_CHUNKS: Final = {
    "agent_message_chunk": "text", "agent_thought_chunk": "thought", "user_message_chunk": "prompt",
}  # fmt: skip
_EMPTY: Final = msgspec.Raw(b"[]")
SUBCONVERSATION: Final = "conductor.conversation/subconversation"
"""The member of an update's `_meta` that says which exchange it is of (docs/conversation.md)."""
_DONE: Final = {Change.CHANGED, Change.ANSWERED, Change.ORIGINATED, Change.DROPPED}

_any = json_text.Decoder().decode
_encode = json_text.encode


def detail(reader: Reader, turn: Turn) -> TurnDetail:
    """All that is shown of a turn."""
    items, visits = _Items(reader, turn), _Visits(reader)
    verdicts: list[Verdict] = []
    for number, line in reader.of_turn(turn):
        if line.verdict is not None:
            verdict = _verdict(number, line)
            verdicts.append(verdict)
            items.refused(number, verdict)
        elif line.happened is not None:
            items.happened(number, line)
        elif line.is_event:
            items.event(number, line)
            visits.event(number, line)
    return TurnDetail(
        turn=turn,
        items=tuple(items.all),
        visits=tuple(visits.in_order(reader.components)),
        verdicts=tuple(verdicts),
    )


def repeated(reader: Reader, session: str, first: int, behind: int) -> tuple[Item, ...]:
    """What the agent repeated of an older session, between two numbers of events."""
    turn = Turn(number=0, events=(first, behind))
    items = _Items(reader, turn)
    for number, line in reader.of_turn(turn):
        if line.method == UPDATE and line.names_session == session:
            items.event(number, line)
    return tuple(items.all)


def _verdict(number: int, line: Line) -> Verdict:
    held = {k: v for k, v in (line.verdict or {}).items() if isinstance(v, str)}
    names = ("component", "rule", "direction", "method", "pointer", "text")
    known = {name: held.get(name, "") for name in names}
    return Verdict(**known, at=line.ts, event=number)


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


def _plainly(block: Any) -> Any:
    """A block without what an agent may add where it repeats it."""
    is_text = isinstance(block, dict) and block.get("type") == "text"
    return block.get("text") if is_text else block


def _words(value: Any) -> str:
    """A text that strangers chose, if it is one."""
    return value if isinstance(value, str) else ""


def _exchange(update: dict[str, Any]) -> tuple[str, str]:
    """The title and the id of the exchange that an update is of; empty: it is of none."""
    meta = update.get("_meta")
    tag = meta.get(SUBCONVERSATION) if isinstance(meta, dict) else None
    if not isinstance(tag, dict) or not isinstance(tag.get("id"), str):
        return "", ""
    return _words(tag.get("title")) or "subconversation", tag["id"]


class _Items:
    """Collects what a person reads: what the client sent and got."""

    def __init__(self, reader: Reader, turn: Turn) -> None:
        self.all: list[Item] = []
        self._reader = reader
        self._by = turn.by
        self._first = turn.events[0]
        self._top = reader.top
        self._tools: dict[str, Item] = {}
        self._asked: dict[int, Item] = {}
        """What waits for the response to an event."""
        self._plan: Item | None = None
        self._messages = Messages()
        self._prompt: list[Any] = []
        """The blocks of the turn's prompt: an agent may repeat them."""

    def _add(self, number: int, line: Line, kind: str, **more: Any) -> Item:
        item = Item(kind=kind, at=line.ts, events=(number, number), **more)
        if len(self.all) < _MOST_ITEMS:
            self.all.append(item)
        return item

    def refused(self, number: int, verdict: Verdict) -> None:
        """Conductor refused something."""
        text = verdict.text or f"rule {verdict.rule}"
        item = Item(
            kind="verdict",
            at=verdict.at,
            text=text,
            status=verdict.rule,
            component=verdict.component,
            events=(number, number),
        )
        if len(self.all) < _MOST_ITEMS:
            self.all.append(item)

    def happened(self, number: int, line: Line) -> None:
        """Something has happened to a component."""
        held = line.happened or {}
        text = _words(held.get("text")) or _words(held.get("event"))
        who = _words(held.get("component"))
        self._add(number, line, "notice", text=text[:_LONGEST], component=who)

    def _logged(self, number: int, line: Line) -> None:
        """A component puts a line in the log: what it warns of stands in the turn, too."""
        held = _object(line.params)
        if held.get("level") in ("warn", "error"):
            text = _words(held.get("message"))[:_LONGEST]
            self._add(number, line, "notice", text=text, component=line.source)

    def event(self, number: int, line: Line) -> None:
        """Takes an event of the turn."""
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
        elif line.method == UPDATE and line.target == self._top:
            update = _object(line.params).get("update")
            for shown in self._messages.read(update) if isinstance(update, dict) else ():
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
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(number, line, update)
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
        last = self.all[-1] if self.all else None
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

    def _tool(self, number: int, line: Line, update: dict[str, Any]) -> None:
        id_ = _words(update.get("toolCallId"))
        item = self._tools.get(id_)
        if item is None:
            item = self._tools[id_] = self._add(number, line, "tool", id=id_)
            item.component = self._maker(number, line)
        item.text = _words(update.get("title")) or item.text
        item.status = _words(update.get("status")) or item.status
        if update.get("content"):
            item.blocks = _list(update["content"])
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
        item = self._asked.pop(self._reader.pair(number), None)
        if item is not None:
            item.ms = (line.ts - item.at) * 1000
            item.events = (item.events[0], number)
            item.status = "error" if line.is_error else "ok"
            if item.kind == "question":
                item.status = _answer(item, line)
        elif self._reader.change(number) is Change.ANSWERED and self._decided(number, line):
            return
        elif line.is_error and line.target == CLIENT and not (line.own and line.own.lost):
            error = _object(line.payload)
            text = _words(error.get("message")) or "error"
            made = self._add(number, line, "error", text=text, status=str(error.get("code", "")))
            made.component = self._maker(number, line)
            if error.get("code") == REFUSED:
                data = error.get("data")  # it names a guest of a host too
                named = _words(data.get("component")) if isinstance(data, dict) else ""
                made.kind, made.component = "refused", named or made.component

    def _decided(self, number: int, line: Line) -> bool:
        """A component answers a question itself, so that nobody else sees it. False: it is none."""
        asked = self._reader.pair(number)
        question = read_line(self._reader.line(asked))
        if question is None or question.method not in QUESTIONS:
            return False
        item = self._question(asked, question)
        del self._asked[asked]
        item.kind = "refusal" if _refuses(item, line) else "answer"
        item.component, item.status = line.source, _answer(item, line)
        item.ms, item.events = (line.ts - item.at) * 1000, (asked, number)
        return True

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
    """Who shows something in the editor or asks it, and what, in words (docs/editor.md)."""
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
    """What was answered to a question, in words."""
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


class _Words:
    """The words of one kind that a component got and passed on in a turn."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._texts: tuple[list[str], list[str]] = ([], [])
        """What it got, and what it passed on, up to `_MOST_WORDS` …"""
        self._sizes = [0, 0]
        self._sums = [0, 0]
        """… and checksums of all of it."""
        self._came: dict[int, float] = {}
        """When it got each chunk that it has not passed on, by event."""
        self._time = Time()

    def take(self, number: int, line: Line, text: str, *, sent: bool, before: int | None) -> None:
        """Takes a chunk; one that is `sent` passes on the one of event `before`."""
        visit = self._visit
        self._sums[sent] = zlib.crc32(text.encode("utf-8", "surrogatepass"), self._sums[sent])
        self._sizes[sent] += len(text)
        if self._sizes[sent] <= _MOST_WORDS:
            self._texts[sent].append(text)
        if sent:
            visit.sent = number
            if before in self._came:
                self._time.add(self._came.pop(before), line.left)
        else:
            visit.got = number if visit.got is None else visit.got
            visit.times += 1
            self._came[number] = line.ts

    def end(self) -> None:
        """Compares what it got with what it passed on."""
        visit = self._visit
        visit.times = max(visit.times, 1)
        visit.ms = round(self._time.ms, 3)
        if visit.got is None:
            visit.change = Change.ORIGINATED
        elif visit.sent is None:
            visit.change = Change.DROPPED
        elif self._sums[0] != self._sums[1]:
            visit.change = Change.CHANGED
            if max(self._sizes) <= _MOST_WORDS:
                visit.edits = edits.of_texts("".join(self._texts[0]), "".join(self._texts[1]))


class _Visits:
    """Collects what each component made of each message."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._all: list[Visit] = []
        self._got: dict[int, Visit] = {}
        """What a component got, by the event."""
        self._numbered: dict[tuple[str, int], Visit] = {}
        """What a component got, by its name and the number of the message."""
        self._words: dict[tuple[str, str], _Words] = {}
        """Words of the agent, by component and kind."""

    def event(self, number: int, line: Line) -> None:
        """Takes an event of the turn."""
        change = self._reader.change(number)
        if self._chunk(number, line):
            return
        if change is not None and CONDUCTOR not in (line.source, line.target):
            self._left(number, line, change)
        if line.target not in ENDS and line.source != CONDUCTOR and not self._ends_there(line):
            self._arrived(number, line)

    def _ends_there(self, line: Line) -> bool:
        """Whether the trace does not show what the receiver passes on: the reference leaves out
        what its first proxy sends to the client."""
        return line.target == self._reader.top and line.source != CLIENT and line.type != "response"

    def _chunk(self, number: int, line: Line) -> bool:
        """Takes a chunk of words: those of a turn are one visit, since a component may cut them
        anew. False: it is none."""
        update = update_of(line)
        text = chunk_of(update)
        if text is None or update is None:
            return False
        for end, sent in ((line.target, False), (line.source, True)):
            if end in ENDS or (not sent and self._ends_there(line)):
                continue
            words = self._words.get((end, update.kind))
            if words is None:
                visit = self._visit(end, line)
                visit.change, visit.times = Change.SAME, 0
                words = self._words[end, update.kind] = _Words(visit)
            before = self._reader.before(number) if sent else None
            words.take(number, line, text, sent=sent, before=before)
        return True

    def _visit(self, component: str, line: Line) -> Visit:
        """A new visit of a message."""
        own_method = line.own.method if line.own is not None else ""
        visit = Visit(
            component=component,
            method=line.method or own_method,
            kind=line.type,
            direction=self._reader.direction(line),
            at=line.ts,
            change=Change.OPEN,
        )
        if len(self._all) < _MOST_VISITS * 10:
            self._all.append(visit)
        return visit

    def _arrived(self, number: int, line: Line) -> None:
        visit = self._visit(line.target, line)
        visit.got = number
        if not visit.method:
            asked = read_line(self._reader.line(self._reader.pair(number)))
            visit.method = asked.method if asked is not None else ""
        self._got[number] = visit
        if line.own is not None and line.own.n:
            self._numbered[line.target, line.own.n] = visit

    def _left(self, number: int, line: Line, change: Change) -> None:
        if change is Change.ORIGINATED:
            made = self._visit(line.source, line)
            made.change, made.sent = change, number
            return
        if change is Change.PAST:
            passed = self._numbered.pop((line.source, line.own.n if line.own else 0), None)
            if passed is not None:
                passed.change = Change.PAST
            return
        before = self._reader.before(number)
        if change is Change.ANSWERED:
            before = self._reader.pair(number)
        visit = self._got.get(before) if before is not None else None
        if visit is None:
            return
        visit.sent, visit.change = number, change
        visit.ms = round(max(line.left - visit.at, 0.0) * 1000, 3)
        if change is Change.CHANGED and visit.got is not None:
            got = read_line(self._reader.line(visit.got))
            if got is not None:
                visit.edits = edits.of_changed(bytes(got.body), bytes(line.body))
                if line.method == PROMPT:
                    visit.tokens = edits.added_tokens(visit.edits)

    def in_order(self, components: list[str]) -> list[Visit]:
        """By component in the order of the chain; those with a change first, then by time. Equal
        neighbours are one."""
        place = {name: at for at, name in enumerate(components)}
        for words in self._words.values():
            words.end()
        for visit in self._all:
            if visit.change is Change.OPEN and visit.kind == "notification":
                visit.change = Change.DROPPED
        wanted = [visit for visit in self._all if visit.change is not Change.PAST]
        wanted.sort(key=lambda v: (place.get(v.component, 0), v.change not in _DONE, v.at))
        merged: list[Visit] = []
        end = 0.0
        for visit in wanted:
            last = merged[-1] if merged else None
            if (
                last is not None
                and not visit.edits
                and not last.edits
                and (last.component, last.method, last.kind, last.change, last.direction)
                == (visit.component, visit.method, visit.kind, visit.change, visit.direction)
                and visit.kind == "notification"
            ):
                last.times += 1
                overlap = max(end - visit.at, 0.0) * 1000
                last.ms = round(last.ms + max(visit.ms - overlap, 0.0), 3)
                last.sent = visit.sent
                end = max(end, visit.at + visit.ms / 1000)
            else:
                merged.append(visit)
                end = visit.at + visit.ms / 1000
        return merged[:_MOST_VISITS]
