"""Answers the page's requests about a trace: turns, events in short, one event, news."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.errors import ConductorError
from conductor.http.request import Request, Response
from conductor.page.choice import Choice, Choices, Wanted
from conductor.page.source import Source, head
from conductor.record.turns.reader import Reader
from conductor.spec.limits import size_in_words

_MOST_ROWS: Final = 2_000
_MOST_TURNS: Final = 2_000
_MOST_EVENT: Final = 4 * 1024 * 1024
"""The most bytes of an event whose texts the page shows whole."""
_MOST_TEXT: Final = 10_000
"""The most characters of each text of a larger event."""
_MOST_READ: Final = 64 * 1024 * 1024
"""The most bytes of an event of which the page shows anything."""
_MOST_DETAIL: Final = 16 * 1024 * 1024
_MOST_HELD: Final = 32 * 1024 * 1024
"""Bytes of the details of turns that are kept."""
_MOST_RUNNING: Final = 50

_encode: Final = json_text.encode


def failure(status: int, why: str) -> Response:
    """An error, as the page shows it."""
    return Response(_encode({"error": why}), status)


def refusal(error: ConductorError, status: int = 400) -> Response:
    """An error of conductor with its hint, as the page shows it."""
    return failure(status, f"{error.text}; {error.hint}" if error.hint else error.text)


def data(value: Any) -> Response:
    """A value as JSON."""
    return Response(_encode(value))


async def _made(make: Callable[[], Any]) -> Response:
    """A value that takes long to make: others are answered meanwhile."""
    return Response(await asyncio.to_thread(lambda: _encode(make())))


def _short(value: Any) -> Any:
    """A value with the beginning of each of its long texts."""
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        return f"{value[:_MOST_TEXT]} … {len(value) - _MOST_TEXT:,} more characters"
    if isinstance(value, list):
        return [_short(entry) for entry in value]
    if isinstance(value, dict):
        return {name: _short(member) for name, member in value.items()}
    return value


class Data:
    """The data of one trace."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._shown = source.reader
        self._choices = {source.reader: Choices(source.reader)}
        self._traces = 0
        """How many other traces have come in its place."""
        self._details: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    @property
    def _reader(self) -> Reader:
        reader = self._source.reader
        if reader is not self._shown:
            self._shown, self._choices = reader, {reader: Choices(reader)}
            self._details.clear()
            self._traces += 1
        return reader

    async def _choice(self, request: Request, turn: int | None) -> Choice:
        asked, reader = request.query, self._reader
        wanted = Wanted(asked.get("filter", ""), asked.get("component", ""), turn)
        return await self._choices[reader].of(wanted)

    async def head(self, request: Request) -> Response:
        """The origin of the trace, and its size."""
        return data(self.now())

    def now(self) -> dict[str, Any]:
        """The origin of the trace, and its size."""
        shown = head(self._source)
        return {
            **msgspec.to_builtins(shown),
            "live": self._source.live,
            "lines": len(self._reader),
            "events": shown.events,
            "empty": self._reader.is_empty,
            "gaps": shown.gaps,
            "turns": self._reader.count,
            "running": self._reader.running[:_MOST_RUNNING],
            "notice": self._source.notice,
            "trace": self._traces,
        }

    async def turns(self, request: Request) -> Response:
        """The turns from number `after` on, or those whose numbers `only` lists."""
        reader = self._reader
        only = request.query.get("only")
        if only is not None:
            numbers = [
                int(n) for n in only.split(",")[:_MOST_TURNS] if n.isdecimal() and len(n) < 10
            ]
        else:
            after = _number(request, "after", 0)
            numbers = list(range(after, after + _MOST_TURNS))
        wanted = [number for number in numbers if number < reader.count]
        return await _made(lambda: [reader.turn(number) for number in wanted])

    async def turn(self, request: Request) -> Response:
        """A turn in detail."""
        reader, number = self._reader, int(request.parts["number"])
        if number >= reader.count:
            return failure(404, "there is no such turn")
        key = number, reader.span(number)[1]
        held = self._details.get(key)
        if held is None:
            held = await asyncio.to_thread(lambda: _encode(reader.detail(number)))
            if reader is self._reader:
                self._details[key] = held
            while len(self._details) > 1 and sum(map(len, self._details.values())) > _MOST_HELD:
                self._details.popitem(last=False)
        if len(held) > _MOST_DETAIL:
            return failure(
                413, f"this turn has {size_in_words(len(held))} to show, too much for a page"
            )
        return Response(held)

    async def find(self, request: Request) -> Response:
        """How many events a filter chooses, and how many of each turn."""
        try:
            choice = await self._choice(request, None)
        except ConductorError as error:
            return refusal(error)
        return data({"count": len(choice.numbers), "turns": list(choice.turns.items())})

    async def rows(self, request: Request) -> Response:
        """Events in short: from place `after` at most `limit` of the wanted events, the number of
        all wanted events, and the place of event `event`."""
        turn = _number(request, "turn", 0) if "turn" in request.query else None
        after, limit = _number(request, "after", 0), _number(request, "limit", 500)
        try:
            choice = await self._choice(
                request, None if turn is None else _number(request, "turn", 0)
            )
        except ConductorError as error:
            return refusal(error)
        except IndexError:
            return failure(404, "there is no such turn")
        answer: dict[str, Any] = {
            "count": len(choice.numbers),
            "rows": choice.rows(after, min(limit, _MOST_ROWS)),
        }
        if "event" in request.query:
            answer["place"] = choice.place(_number(request, "event", 0))
        return data(answer)

    async def event(self, request: Request) -> Response:
        """A line of the trace as it is, and the number of the event that it passes on."""
        number = int(request.parts["number"])
        line = self._reader.line(number)
        if not line.strip():
            return failure(404, "this event is not there any more")
        if len(line) > _MOST_READ:
            why = f"this message has {size_in_words(len(line))}, too much for a page"
            return failure(413, f"{why}; it is line {number + 1} of the file")
        before = self._reader.before(number)
        if len(line) > _MOST_EVENT:
            return await _made(lambda: {"event": _short(json_text.decode(line)), "before": before})
        text = line.decode("utf-8", "replace").encode()
        return data({"event": msgspec.Raw(text), "before": before})


def _number(request: Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
