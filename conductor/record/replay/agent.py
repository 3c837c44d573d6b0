"""Plays the agent of a trace: whoever asks what was asked then is answered as it was then. Pure.

What the agent said follows what it had been told before, session by session. A request is paired
with one of the trace by method and session, and by its params where one has the same; a prompt that
has changed is answered all the same. Messages of MCP are not played, nor cancellations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from conductor.core import jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.jsonrpc import Malformed, Message
from conductor.errors import UsageError
from conductor.record import diff
from conductor.record.redaction import redacted
from conductor.record.replay.recording import MOST_LINE, counted, head, unreadable
from conductor.spec import untrusted_files

AGENT: Final = "agent"
_HINT: Final = "ask what was asked when the trace was made, or record it anew"


class Event(msgspec.Struct, rename={"source": "from", "target": "to"}):
    """A message of a trace."""

    type: str
    source: str = ""
    target: str = ""
    protocol: str = "acp"
    id: int | None = None
    method: str = ""
    session: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    payload: msgspec.Raw = msgspec.Raw(b"null")
    is_error: bool = False


class _Told(msgspec.Struct):
    """One message to the agent, and what it said before it was told the next of the session."""

    event: Event | None
    """None: before the first."""
    said: list[Event]
    came: bool = False
    id: bytes = b""
    """Of a request: what it has now."""
    past: bool = False
    """Whether all of this has been played, or passed over."""


_event: Final = msgspec.json.Decoder(Event)


def load(path: str) -> list[Event]:
    """The messages to and from the agent. Raises `UsageError` for a file that has none."""
    head(path)
    found: list[Event] = []
    held = 0
    try:
        with untrusted_files.ordinary(path) as file:
            for line in untrusted_files.lines(file, path, MOST_LINE):
                try:
                    event = _event.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue  # a record, or cut off
                if AGENT in (event.source, event.target) and event.protocol == "acp":
                    held = counted(path, held + len(line))
                    found.append(event)
    except OSError as error:
        raise unreadable(path, error) from None
    if not found:
        raise UsageError(f"the trace `{path}` has no agent", "record `conductor agent` or `exec`")
    return found


class Agent:
    """The agent of a trace."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._sessions: dict[str | None, list[_Told]] = defaultdict(list)
        self._requests: dict[tuple[bool, int], tuple[str | None, _Told | None]] = {}
        """The session of each request, and the request itself, by who asked (the agent: true)."""
        self.notes: list[str] = []
        """What is worth telling: what was not asked just so."""
        for event in events:
            self._read(event)

    def _read(self, event: Event) -> None:
        said, session = event.source == AGENT, event.session
        if event.method == CANCEL:
            return
        if event.type == "response":
            asked = self._requests.get((not said, event.id or 0))
            if asked is None:  # of MCP
                return
            session, request = asked
            if request is not None and session is None:  # outside of sessions nothing is in order
                request.said.append(event)
                return
        told = self._sessions[session]
        if not said:
            told.append(_Told(event, []))
        else:
            if not told:
                told.append(_Told(None, [], came=True))
            told[-1].said.append(event)
        if event.type == "request":
            self._requests[said, event.id or 0] = session, None if said else told[-1]

    def receive(self, frame: bytes) -> list[bytes]:
        """Takes one line; the lines that follow."""
        try:
            message = jsonrpc.parse(frame)
        except Malformed as error:
            body = jsonrpc.error_object(error.code, error.text)
            return [jsonrpc.answer(error.id or b"null", b"error", body)]
        if not isinstance(message, Message):
            return []
        found, session = self._find(message)
        if found is None:
            return self._unknown(message)
        found.came = True
        if isinstance(message.id, msgspec.Raw):
            found.id = bytes(message.id)
        if found.past:  # a later one came before it
            return list(self._say(found))
        return list(self._play(self._sessions[session]))

    def _find(self, message: Message) -> tuple[_Told | None, str | None]:
        """What the trace has of a message, and the session it belongs to."""
        if not isinstance(message.method, str):
            return self._answer(message)
        kind = "request" if isinstance(message.id, msgspec.Raw) else "notification"
        params = bytes(message.params) if isinstance(message.params, msgspec.Raw) else b"null"
        session = _session(params)
        like = [
            told
            for told in self._sessions.get(session, ())
            if not told.came
            and told.event is not None
            and (told.event.type, told.event.method) == (kind, message.method)
        ]
        now = redacted(params, message.method)  # as the trace may have it
        same = next(
            (
                one
                for one in like
                if one.event is not None
                and (_same(one.event.params, params) or _same(one.event.params, now))
            ),
            None,
        )
        if same is None and like:
            of = f" of session {session}" if session else ""
            self.notes.append(f"`{message.method}`{of} is not what it was; it is answered as then")
        return same or next(iter(like), None), session

    def _answer(self, message: Message) -> tuple[_Told | None, str | None]:
        """What the trace has of an answer to the agent, which asks under numbers of the trace."""
        raw = bytes(message.id) if isinstance(message.id, msgspec.Raw) else b""
        number = int(raw) if raw.isdigit() else -1
        session, _ = self._requests.get((True, number), (None, None))
        for told in self._sessions.get(session, ()):
            event = told.event
            if (
                event is not None
                and not told.came
                and (event.type, event.id) == ("response", number)
            ):
                return told, session
        return None, session

    def _unknown(self, message: Message) -> list[bytes]:
        if not isinstance(message.method, str) or not isinstance(message.id, msgspec.Raw):
            return []
        self.notes.append(f"`{message.method}` was not asked in the trace, or not as often")
        text = f"the trace has no answer to this `{message.method}`\nhint: {_HINT}"
        body = jsonrpc.error_object(jsonrpc.INTERNAL_ERROR, text)
        return [jsonrpc.answer(bytes(message.id), b"error", body)]

    def _play(self, session: list[_Told]) -> Iterator[bytes]:
        """What the agent says now: what it said then up to the next message it was told.

        A message that does not come this time is passed over once a later one has come, with what
        it led to.
        """
        last = max((at for at, told in enumerate(session) if told.came), default=-1)
        for told in session[: last + 1]:
            if not told.past:
                told.past = True
                yield from self._say(told)

    def _say(self, told: _Told) -> Iterator[bytes]:
        for event in told.said:
            if event.type == "response":
                yield from self._respond(event)
            elif told.came and event.type == "request":
                yield jsonrpc.request(b"%d" % (event.id or 0), event.method, bytes(event.params))
            elif told.came:
                yield jsonrpc.notification(event.method, bytes(event.params))

    def _respond(self, event: Event) -> Iterator[bytes]:
        _, asked = self._requests[False, event.id or 0]
        if asked is not None and asked.came:
            yield jsonrpc.answer(
                asked.id, b"error" if event.is_error else b"result", bytes(event.payload)
            )


class _Params(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815 - the protocol's name


def _session(params: bytes) -> str | None:
    try:
        return msgspec.json.decode(params, type=_Params).sessionId
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _same(then: msgspec.Raw, now: bytes) -> bool:
    if bytes(then) == now:
        return True
    try:
        return not diff.diff(diff.parse(bytes(then)), diff.parse(now))
    except ValueError:
        return False
