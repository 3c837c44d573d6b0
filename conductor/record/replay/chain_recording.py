"""What a trace holds of a whole chain: its components, what passed at its two ends, the services.

Every trace will do, also the reference's: only events are read.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.errors import UsageError
from conductor.record.replay.recording import MOST_LINE, within_memory
from conductor.record.trace.chain import ChainComponent
from conductor.record.turns.lines import unreadable
from conductor.spec import untrusted_files

CLIENT: Final = "client"
AGENT: Final = "agent"
CONDUCTOR: Final = "conductor"
_ENDS: Final = {"Client": CLIENT, "Agent": AGENT}
"""What the reference calls the ends of a chain."""
_LATEST: Final = 1e11
"""Seconds: times beyond the year 5000 are none."""
_MARK: Final = b'"[redacted'
_KINDS: Final = ("request", "response", "notification")
RECORD_ANEW: Final = "send the requests of the trace, or record it anew"
_RECORD_HINT: Final = "record a trace: `conductor agent --trace FILE …`"


class _Own(msgspec.Struct):
    """Our own members of an event."""

    id: msgspec.Raw = msgspec.Raw(b"")
    n: int = 0
    by: str = ""


class TraceEvent(msgspec.Struct, rename={"source": "from", "target": "to", "own": "_conductor"}):
    """A message of a trace."""

    type: str
    source: str = ""
    target: str = ""
    protocol: str = "acp"
    id: int | str | None = None
    method: str = ""
    session: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    payload: msgspec.Raw = msgspec.Raw(b"null")
    is_error: bool = False
    own: _Own = msgspec.field(default_factory=_Own)
    place: int = 0
    """Which line of the file it is, from 1; of what an end of the chain sent, see `_as_sent`."""


class _Header(msgspec.Struct):
    format: int | None = None
    content: str = ""
    components: list[str] = []
    chain: msgspec.Raw = msgspec.Raw(b"[]")
    began: float | None = None


class ChainRecording(msgspec.Struct):
    """A trace as the recording of a chain."""

    path: str
    noun: str = "trace"
    """What it comes from, for people …"""
    hint: str = RECORD_ANEW
    """… and what to do about a request of the agent's that it does not have."""
    content: str = "all"
    """What it holds of messages: `all` or `redacted`."""
    began: str | None = None
    """When it began, as ISO 8601; None: it does not say that."""
    names: list[str] = []
    """The names of the proxies, in order."""
    chain: dict[str, ChainComponent] = {}
    """What the header says of components, by name; of the reference's nothing."""
    client: list[TraceEvent] = []
    """What came to the client, and from it."""
    agent: list[TraceEvent] = []
    """What came to the agent, and from it."""
    services: list[TraceEvent] = []
    """What passed between proxies and the conductor itself."""
    mcp: int = 0
    """How many messages of MCP servers it holds, which are not played."""
    is_redacted: bool = False
    """Whether secrets were taken out of it."""
    is_cut: bool = False
    """Whether its last line is incomplete."""


_event: Final = json_text.Decoder(TraceEvent).decode
_header: Final = json_text.Decoder(_Header).decode
_chain: Final = json_text.Decoder(list[ChainComponent]).decode
_BAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def load(path: str) -> ChainRecording:
    """The recording in a file. Raises `UsageError` for one that cannot be replayed."""
    recording = ChainRecording(path)
    met: dict[str, None] = {}
    size = 0
    ended = True
    try:
        with untrusted_files.ordinary(path) as file:
            for number, line in enumerate(untrusted_files.lines(file, path, MOST_LINE), 1):
                ended = line.endswith(b"\n")
                if line.startswith(b'{"type":"_conductor"'):
                    if number == 1:
                        _take_header(recording, line)
                    continue
                event = _read(line, number)
                if event is not None:
                    size = within_memory(path, size + len(line))
                    recording.is_redacted |= _MARK in line
                    _take(recording, event, met)
    except OSError as error:
        raise unreadable(path, error) from None
    recording.is_cut = not ended
    recording.client = _as_sent(recording.client, CLIENT)
    recording.agent = _as_sent(recording.agent, AGENT)
    _check(recording, met)
    return recording


def _take_header(recording: ChainRecording, line: bytes) -> None:
    try:
        header = _header(line)
    except _BAD:
        return
    recording.content = header.content or recording.content
    recording.names = list(header.components)
    if header.began is not None and 0 < header.began < _LATEST:
        recording.began = datetime.datetime.fromtimestamp(header.began).astimezone().isoformat()
    try:
        recording.chain = {each.name: each for each in _chain(header.chain)}
    except _BAD:
        return  # of a later conductor: as without


def _read(line: bytes, number: int) -> TraceEvent | None:
    try:
        event = _event(line)
    except _BAD:
        return None  # no event, or cut off
    if event.type not in _KINDS:
        return None
    event.place = number
    event.source = _ENDS.get(event.source, event.source)
    event.target = _ENDS.get(event.target, event.target)
    return event


def _take(recording: ChainRecording, event: TraceEvent, met: dict[str, None]) -> None:
    ends = (event.source, event.target)
    met.update(dict.fromkeys(ends))
    if event.protocol == "mcp" or event.method.startswith(("mcp/", "_mcp/")):
        recording.mcp += 1
        return
    if CONDUCTOR in ends:
        recording.services.append(event)
        return
    if CLIENT in ends:
        recording.client.append(event)
    if AGENT in ends:
        recording.agent.append(event)


def _as_sent(events: list[TraceEvent], end: str) -> list[TraceEvent]:
    """The events of an end of the chain, with what it sent in the order in which it sent it.

    A trace has each message where it arrived: one that went past a proxy stands before an older one
    that the proxy got. Numbers rise as messages were read, so the older one was sent by then.
    """
    numbered = [event for event in events if event.source == end and event.own.n > 0]
    arrived = events[-1].place if events else 0
    for event in sorted(numbered, key=lambda each: each.own.n, reverse=True):
        event.place = arrived = min(arrived, event.place)
    return sorted(events, key=lambda each: (each.place, each.own.n if each.source == end else 0))


def _check(recording: ChainRecording, met: dict[str, None]) -> None:
    """Raises `UsageError` for a file without what a replay needs. Finds the names of the proxies
    where no header has them."""
    path = recording.path
    if not (recording.client or recording.agent):
        raise UsageError(f"`{path}` is no trace, or one without any message", _RECORD_HINT)
    if recording.content == "none":
        raise UsageError(
            f"the trace `{path}` was written without content, so there is nothing to replay",
            "record it with --trace-content redacted (the default) or all",
        )
    if not any(event.source == CLIENT and event.type == "request" for event in recording.client):
        raise UsageError(f"the trace `{path}` has no request of a client", _RECORD_HINT)
    if not recording.agent:
        raise UsageError(
            f"the trace `{path}` has no agent: it is of `conductor proxy`",
            "record the outer chain, with `conductor agent` or `exec`",
        )
    if not recording.names:
        recording.names = [name for name in met if name not in ("", CLIENT, AGENT, CONDUCTOR)]
        return
    # The header names all components; as the agent the last one is called `agent` in events.
    last = recording.names[-1]
    of_last = recording.chain.get(last)
    if last not in met and (of_last is None or of_last.role == "agent"):
        recording.names.pop()


def members(raw: msgspec.Raw) -> dict[str, Any]:
    """The members of an object; none of anything else."""
    try:
        value = json_text.decode(raw)
    except _BAD:
        return {}
    return value if isinstance(value, dict) else {}
