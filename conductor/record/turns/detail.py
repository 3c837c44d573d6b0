"""A turn in detail: what a person reads of it, and what each component made of each message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.record.turns import edits
from conductor.record.turns.model import (
    Change,
    Item,
    Turn,
    TurnDetail,
    Verdict,
    Visit,
)
from conductor.record.turns.reader import (
    AGENT,
    CLIENT,
    CONDUCTOR,
    PROMPT,
    UPDATE,
    Line,
    chunk_of,
    read_line,
    update_of,
)

if TYPE_CHECKING:
    from conductor.record.turns.reader import Reader

_MOST_VISITS: Final = 2_000
_MOST_ITEMS: Final = 5_000
_LONGEST: Final = 200_000
"""Characters of the words of one item."""
_LARGEST: Final = 256 * 1024
"""Bytes of an item's blocks."""
_QUESTION: Final = "session/request_permission"
_CHUNKS: Final = {
    "agent_message_chunk": "text", "agent_message": "text", "agent_thought_chunk": "thought",
    "agent_thought": "thought", "user_message_chunk": "prompt",
}  # fmt: skip
_EMPTY: Final = msgspec.Raw(b"[]")
_DONE: Final = {Change.CHANGED, Change.ANSWERED, Change.ORIGINATED, Change.DROPPED}

_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def detail(reader: Reader, turn: Turn) -> TurnDetail:
    """All that is shown of a turn."""
    items, visits = _Items(), _Visits(reader)
    verdicts: list[Verdict] = []
    for number, line in reader.of_turn(turn):
        if line.verdict is not None:
            verdict = _verdict(number, line)
            verdicts.append(verdict)
            items.refused(number, verdict)
        elif line.type in ("request", "notification", "response"):
            items.event(number, line)
            visits.event(number, line)
    return TurnDetail(
        turn=turn,
        items=tuple(items.all),
        visits=tuple(visits.in_order(reader.components)),
        verdicts=tuple(verdicts),
    )


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


def _words(value: Any) -> str:
    """A text that strangers chose, if it is one."""
    return value if isinstance(value, str) else ""


class _Items:
    """Collects what a person reads: what the client sent and got."""

    def __init__(self) -> None:
        self.all: list[Item] = []
        self._tools: dict[str, Item] = {}
        self._questions: dict[int, Item] = {}
        """By the pair's event."""
        self._asked: dict[tuple[str, str, bytes], Item] = {}
        self._plan: Item | None = None

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
        self.all.append(item)

    def event(self, number: int, line: Line) -> None:
        """Takes an event of the turn."""
        if line.protocol == "mcp" or (line.own is not None and line.own.carrier):
            self._mcp(number, line)
        elif line.type == "response":
            self._response(number, line)
        elif line.method == PROMPT and line.source == CLIENT:
            params = _object(line.params)
            text = edits.text_of(bytes(line.params))[:_LONGEST]
            self._add(number, line, "prompt", text=text, blocks=_list(params.get("prompt")))
        elif line.method == UPDATE and line.target == CLIENT:
            self._update(number, line)
        elif line.method == _QUESTION and line.target == CLIENT:
            self._question(number, line)
        elif line.method == "session/cancel" and line.source == CLIENT:
            self._add(number, line, "notice", text="cancelled by the client")
        elif line.type == "request" and line.target == CLIENT and line.source != CONDUCTOR:
            path = _words(_object(line.params).get("path"))
            item = self._add(number, line, "notice", text=f"{line.method} {path}".rstrip())
            self._asked[line.source, line.target, bytes(line.id)] = item

    def _update(self, number: int, line: Line) -> None:
        update = _object(line.params).get("update")
        if not isinstance(update, dict):
            return
        kind = _words(update.get("sessionUpdate"))
        passed = line.source == AGENT or (line.own is not None and line.own.passes)
        who = "" if passed else line.source
        if (shown := _CHUNKS.get(kind)) is not None:
            self._chunk(number, line, shown, update)
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(number, line, update)
        elif kind in ("plan", "plan_update"):
            plan = self._plan
            if plan is None:
                plan = self._plan = self._add(number, line, "plan", component=who)
            entries = update.get("entries")
            if entries is None and isinstance(update.get("plan"), dict):
                entries = update["plan"].get("entries")
            plan.blocks, plan.events = _list(entries), (plan.events[0], number)
        elif kind == "current_mode_update":
            text = _words(update.get("currentModeId"))
            self._add(number, line, "mode", text=text, component=who)
        elif kind == "notice":
            text = _words(update.get("message")) or _words(update.get("text"))
            self._add(number, line, "notice", text=text, component=who)

    def _chunk(self, number: int, line: Line, kind: str, update: dict[str, Any]) -> None:
        content = update.get("content")
        text = _words(content.get("text")) if isinstance(content, dict) else ""
        last = self.all[-1] if self.all else None
        if text and last is not None and last.kind == kind and last.blocks == _EMPTY:
            if len(last.text) < _LONGEST:
                last.text += text
            last.ms = (line.ts - last.at) * 1000
            last.events = (last.events[0], number)
            return
        if text:
            self._add(number, line, kind, text=text)
        elif content is not None:
            blocks = content if isinstance(content, list) else [content]
            self._add(number, line, kind, blocks=_list(blocks))

    def _tool(self, number: int, line: Line, update: dict[str, Any]) -> None:
        id_ = _words(update.get("toolCallId"))
        item = self._tools.get(id_)
        if item is None:
            item = self._tools[id_] = self._add(number, line, "tool", id=id_)
            if line.source != AGENT:
                item.component = "" if line.own and line.own.passes else line.source
        item.text = _words(update.get("title")) or item.text
        item.status = _words(update.get("status")) or item.status
        if update.get("content"):
            item.blocks = _list(update["content"])
        item.ms = (line.ts - item.at) * 1000
        item.events = (item.events[0], number)

    def _question(self, number: int, line: Line) -> None:
        params = _object(line.params)
        call = params.get("toolCall")
        title = _words(call.get("title")) if isinstance(call, dict) else ""
        title = title or _words(params.get("title")) or "permission"
        item = self._add(number, line, "question", text=title, blocks=_list(params.get("options")))
        if line.source != AGENT and not (line.own and line.own.passes):
            item.component = line.source
        self._asked[line.source, line.target, bytes(line.id)] = item

    def _response(self, number: int, line: Line) -> None:
        item = self._asked.pop((line.target, line.source, bytes(line.id)), None)
        if item is not None:
            item.ms = (line.ts - item.at) * 1000
            item.events = (item.events[0], number)
            item.status = "error" if line.is_error else "ok"
            if item.kind == "question":
                item.status = _answer(item, line)
        elif line.is_error and line.target == CLIENT:
            error = _object(line.payload)
            text = _words(error.get("message")) or "error"
            made = self._add(number, line, "error", text=text, status=str(error.get("code", "")))
            made.component = "" if line.source == AGENT else line.source

    def _mcp(self, number: int, line: Line) -> None:
        """A message of MCP: a request is an item, its response ends it."""
        if line.type == "response":
            item = self._asked.pop((line.target, line.source, bytes(line.id)), None)
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
            self._asked[line.source, line.target, bytes(line.id)] = item


def _answer(item: Item, line: Line) -> str:
    """What was answered to a question, in words."""
    if line.is_error:
        return "error"
    outcome = _object(line.payload).get("outcome")
    outcome = outcome if isinstance(outcome, dict) else {}
    chosen = outcome.get("optionId")
    if chosen is None:
        return _words(outcome.get("outcome")) or "no answer"
    options = _any(item.blocks)
    names = (
        {o.get("optionId"): o.get("name") or o.get("kind") for o in options if isinstance(o, dict)}
        if isinstance(chosen, str)
        else {}
    )
    return _words(names.get(chosen)) or str(chosen)


class _Words:
    """The words of one kind that a component got and passed on in a turn."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._got: list[str] = []
        self._sent: list[str] = []
        self._since: float | None = None

    def take(self, number: int, line: Line, text: str, *, sent: bool) -> None:
        """Takes a chunk."""
        visit = self._visit
        if sent:
            self._sent.append(text)
            visit.sent = number
            if self._since is not None:
                visit.ms = max(visit.ms, round((line.ts - self._since) * 1000, 3))
                self._since = None
        else:
            self._got.append(text)
            visit.got = number if visit.got is None else visit.got
            visit.times += 1
            if self._since is None:
                self._since = line.ts

    def end(self) -> None:
        """Compares what it got with what it passed on."""
        visit = self._visit
        got, sent = "".join(self._got), "".join(self._sent)
        visit.times = max(visit.times, 1)
        if not self._got:
            visit.change = Change.ORIGINATED
        elif not self._sent:
            visit.change = Change.DROPPED
        elif got != sent:
            visit.change = Change.CHANGED
            visit.edits = edits.of_texts(got, sent)


class _Visits:
    """Collects what each component made of each message."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._all: list[Visit] = []
        self._got: dict[int, Visit] = {}
        """What a component has, by the number of the message."""
        self._by_event: dict[int, Visit] = {}
        """The visits of requests, by the event with which they were got."""
        self._words: dict[tuple[str, str], _Words] = {}
        """Words of the agent, by component and kind."""

    def event(self, number: int, line: Line) -> None:
        """Takes an event of the turn."""
        source, target = line.source, line.target
        change = self._reader.change(number)
        own = line.own
        if self._chunk(number, line):
            return
        if change is not None and own is not None and CONDUCTOR not in (source, target):
            self._left(number, line, change)
        if target not in (CLIENT, AGENT, CONDUCTOR) and source != CONDUCTOR:
            self._arrived(number, line)

    def _chunk(self, number: int, line: Line) -> bool:
        """Takes a chunk of words: those of a turn are one visit, since a component may cut them
        anew. False: it is none."""
        update = update_of(line)
        text = chunk_of(update)
        if text is None or update is None:
            return False
        for end, sent in ((line.target, False), (line.source, True)):
            if end not in (CLIENT, AGENT, CONDUCTOR):
                words = self._words.get((end, update.kind))
                if words is None:
                    visit = Visit(
                        component=end,
                        method=UPDATE,
                        kind=line.type,
                        direction=self._direction(line),
                        at=line.ts,
                        times=0,
                    )
                    words = self._words[end, update.kind] = _Words(visit)
                    self._put(visit)
                words.take(number, line, text, sent=sent)
        return True

    def _arrived(self, number: int, line: Line) -> None:
        own = line.own
        if own is None:
            return
        method = line.method or own.method
        visit = Visit(
            component=line.target,
            method=method,
            kind=line.type,
            direction=self._direction(line),
            at=line.ts,
            change=Change.OPEN,
            got=number,
        )
        if own.n:
            self._got[own.n] = visit
        if line.type == "request":
            self._by_event[number] = visit
        self._put(visit)

    def _left(self, number: int, line: Line, change: Change) -> None:
        own = line.own
        assert own is not None
        if change is Change.ORIGINATED:
            self._put(
                Visit(
                    component=line.source,
                    method=line.method,
                    kind=line.type,
                    direction=self._direction(line),
                    at=line.ts,
                    change=change,
                    sent=number,
                )
            )
            return
        if line.type == "response" and change in (Change.ANSWERED, Change.PAST):
            pair = self._reader.pair(number)
            asked = self._by_event.get(pair)
            if change is Change.PAST:
                self._past(own.n)
            elif asked is not None:
                asked.change, asked.sent = change, number
                asked.ms = own.ms_in or own.ms or 0.0
            return
        visit = self._got.get(own.passes)
        if visit is None:
            return
        visit.sent, visit.change = number, change
        visit.ms = round(max(line.ts - visit.at, 0.0) * 1000, 3)
        if change is Change.CHANGED and visit.got is not None:
            before = read_line(self._reader.line(visit.got))
            if before is not None:
                visit.edits = edits.edits(bytes(before.body), bytes(line.body))
                if not visit.edits:
                    visit.change = Change.SAME
                elif line.method == PROMPT:
                    visit.tokens = edits.added_tokens(visit.edits)

    def _past(self, number: int) -> None:
        visit = self._got.pop(number, None)
        if visit is not None:
            visit.change = Change.PAST

    def _direction(self, line: Line) -> str:
        order = self._reader.components
        places = [order.index(end) if end in order else 0 for end in (line.source, line.target)]
        return "down" if places[0] < places[1] else "up"

    def _put(self, visit: Visit) -> None:
        if len(self._all) < _MOST_VISITS * 10:
            self._all.append(visit)

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
                last.ms = max(last.ms, visit.ms)
                last.sent = visit.sent
            else:
                merged.append(visit)
        return merged[:_MOST_VISITS]
