"""The recording of a chain in a trace: its components, and the messages at its ends and services.

Every trace will do, also the reference's: only events are read. The recording of one component is
that of a chain of this component alone: all before the component is the client, all behind it
the agent.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.core.policy.headings import session_of
from conductor.errors import UsageError
from conductor.record.trace.chain import ChainComponent
from conductor.record.turns import reader as turns
from conductor.record.turns.line import AGENT, CLIENT, CONDUCTOR, Line, plain, read_line
from conductor.record.turns.reader import Reader

_MARK: Final = b'"[redacted'
_RECORD_HINT: Final = "record a trace: `conductor agent --trace FILE …`"
_NUMBERS: Final = 10**9
"""The range of message numbers that one run of a host has (`conductor/run/guest_host.py`)."""
_MOMENT: Final = 2.5e-6
"""Seconds: the time of a line and its way are rounded to a microsecond each."""
_MOST_HELD: Final = 512 * 1024 * 1024
"""Bytes of the messages of a trace that are taken into memory."""


class Recording(msgspec.Struct):
    """A trace as the recording of a chain."""

    path: str
    content: str = "all"
    """How much of messages the trace holds: `all` or `redacted`."""
    began: str | None = None
    """When it began, as ISO 8601; None: it does not say that."""
    names: list[str] = []
    """The names of the proxies, in order."""
    chain: dict[str, ChainComponent] = {}
    """The components that the header describes, by name; the reference's header describes none."""
    client: list[Line] = []
    """The messages to and from the client, in order; a message from the client stands where it was
    read."""
    agent: list[Line] = []
    """The same for the agent."""
    services: list[Line] = []
    """The messages between proxies and the conductor itself."""
    mcp: int = 0
    """How many messages of MCP servers it holds, which are not played."""
    is_redacted: bool = False
    """Whether secrets were taken out of it."""
    is_cut: bool = False
    """Whether its last line is incomplete."""


class _Header(msgspec.Struct):
    chain: list[msgspec.Raw] = []


_header: Final = json_text.Decoder(_Header).decode
_component: Final = json_text.Decoder(ChainComponent).decode
_BAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def load(path: str, component: str = "") -> tuple[Recording, Reader]:
    """The recording in a file, and its trace. Raises `UsageError` for a trace that cannot
    be replayed.

    `component`: record this component alone, as a chain.
    """
    trace = turns.opened(path)
    head = trace.head()
    recording = Recording(path, names=trace.components[1:-1], is_cut=turns.CUT in head.gaps)
    recording.content = head.content if head.content != "unknown" else recording.content
    if head.began is not None:
        recording.began = datetime.datetime.fromtimestamp(head.began).astimezone().isoformat()
    recording.chain = {each.name: each for each in components(trace) if each is not None}
    _check(recording, trace)
    if component:
        trace = _alone(path, trace, component)
        recording.names = [component]
    for line in _messages(path, trace):
        _take(recording, line)
    recording.client = _at_end(recording.client, CLIENT)
    recording.agent = _at_end(recording.agent, AGENT)
    if not any(line.source == CLIENT and line.type == "request" for line in recording.client):
        asks = f" to `{component}`" if component else ""
        raise UsageError(f"the trace `{path}` has no request of a client{asks}", _RECORD_HINT)
    if not recording.agent and not component:
        raise UsageError(
            f"the trace `{path}` has no agent: it is of `conductor proxy`",
            "record the outer chain, with `conductor agent` or `exec`",
        )
    return recording, trace


def components(trace: Reader) -> list[ChainComponent | None]:
    """The components that the header of a trace describes; None for a component with a description
    that cannot be understood, as in a trace of a later conductor."""
    try:
        listed = _header(trace.line(0)).chain
    except _BAD:
        return []
    found: list[ChainComponent | None] = []
    for raw in listed:
        try:
            found.append(_component(raw))
        except _BAD:
            found.append(None)
    return found


def _check(recording: Recording, trace: Reader) -> None:
    """Raises `UsageError` for a trace without any message, or without the content of messages."""
    if trace.is_empty:
        raise UsageError(f"`{recording.path}` is no trace with a message", _RECORD_HINT)
    if recording.content == "none":
        raise UsageError(
            f"the trace `{recording.path}` was written without content, so there is nothing to "
            "replay",
            "record it with -c trace-content=redacted (the default) or all",
        )


def _messages(path: str, trace: Reader) -> list[Line]:
    """The messages of a trace, each with the session in its params. A request that a component
    could not take counts where it went then.

    Of two requests at a time under one id the second is left out, and so is a response to no
    request: no run could have them, and a replay would wait for an answer for ever.
    """
    kept: dict[int, Line] = {}
    open_: dict[tuple[str, str, bytes], int] = {}
    size = 0
    for number in range(len(trace)):
        text = trace.line(number)
        line = read_line(text)
        if line is None or not line.is_event:
            continue
        size += len(text)
        if size > _MOST_HELD:
            raise UsageError(
                f"the trace `{path}` holds more than {_MOST_HELD >> 20} MiB of messages",
                "record less at a time",
            )
        if line.type == "request":
            if open_.setdefault((line.source, line.target, line.key), number) != number:
                continue
        elif line.type == "response":
            asked = open_.pop((line.target, line.source, line.key), None)
            if asked is None:
                continue
            if _is_lost(line) or _is_lost(kept[asked]):
                del kept[asked]
                continue
        line.session = session_of(line.params)
        kept[number] = line
    return [line for line in kept.values() if not _is_lost(line)]


def _is_lost(line: Line) -> bool:
    return line.own is not None and line.own.lost


def _alone(path: str, trace: Reader, component: str) -> Reader:
    """The trace of one component: only the messages to it, past it and from it. A message to the
    component stands where it arrived, all others where they were read."""
    order = trace.components
    known = order[1:-1]
    if component not in known:
        raise UsageError(
            f"the trace `{path}` has no component `{component}`",
            f"--as NAME names a component of it: {', '.join(known)}"
            if known
            else f"it has nothing of any proxy; {_RECORD_HINT}",
        )
    at = order.index(component)
    shown = {CONDUCTOR: CONDUCTOR, component: component}
    shown |= dict.fromkeys(order[:at], CLIENT) | dict.fromkeys(order[at + 1 :], AGENT)
    lines = []
    for line in _messages(path, trace):
        ends = line.source, line.target
        line.source, line.target = (shown.get(end, "") for end in ends)
        is_anothers = CONDUCTOR in ends and component not in ends
        if line.is_event and line.source != line.target and not is_anothers:
            line.method = plain(line.method)
            if line.own is not None and line.target != component:
                line.ts, line.own.way = line.left, 0.0
            lines.append(line)
    alone, held = turns.held(_MOST_HELD)
    for line in _in_order(lines, component):
        held.append(json_text.encode(line) + b"\n")
        alone.read(line)
    return alone


def _in_order(lines: Iterable[Line], component: str) -> list[Line]:
    """The lines of a component by their times. The times are rounded: lines that the component sent
    within a moment stand in the order of the numbers that its conductor gave."""
    ordered = sorted(lines, key=lambda line: line.ts)
    moments: dict[int, list[list[int]]] = {}
    for at, line in enumerate(ordered):
        if line.source == component and line.own is not None:
            known = moments.setdefault(line.own.n // _NUMBERS, [])
            if known and line.ts - ordered[known[-1][-1]].ts < _MOMENT:
                known[-1].append(at)
            else:
                known.append([at])
    for places in (places for known in moments.values() for places in known):
        times = [ordered[at].ts for at in places]
        sent = sorted((ordered[at] for at in places), key=_number)
        for at, ts, line in zip(places, times, sent, strict=True):
            ordered[at], line.ts = line, ts
    return ordered


def _number(line: Line) -> int:
    return line.own.n if line.own is not None else 0


def _take(recording: Recording, line: Line) -> None:
    ends = (line.source, line.target)
    if line.protocol == "mcp" or line.method.startswith(("mcp/", "_mcp/")):
        recording.mcp += 1
        return
    recording.is_redacted |= _MARK in bytes(line.body)
    if CONDUCTOR in ends:
        recording.services.append(line)
        return
    if CLIENT in ends:
        recording.client.append(line)
    if AGENT in ends:
        recording.agent.append(line)


def _at_end(lines: Iterable[Line], end: str) -> list[Line]:
    """The events of an end of the chain, in order there: a trace has each where it arrived."""
    return sorted(lines, key=lambda line: line.left if line.source == end else line.ts)


def members(raw: msgspec.Raw) -> dict[str, Any]:
    """The members of an object; none of anything else."""
    try:
        value = json_text.decode(raw)
    except _BAD:
        return {}
    return value if isinstance(value, dict) else {}
