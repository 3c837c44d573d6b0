"""The streams of one HTTP client: a stream for its connection, and a stream for each session.

Each event has a number. A reader that comes back with the number of its last event gets the events
behind it, as long as they are kept. A session that nobody reads is heard on the connection's
stream: all clients take messages there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Raw

from conductor.core import jsonrpc
from conductor.http.request import Refused
from conductor.transports.deadline import Deadline
from conductor.transports.remote import wire

if TYPE_CHECKING:
    from conductor.serve.connections import Farewell

_AT_ONCE: Final = 64
"""The most events in one write to a reader."""
_BYTES_AT_ONCE: Final = 256 * 1024
"""The bytes after which a write takes no further event."""
_KEPT: Final = 16 * 1024 * 1024
"""The most bytes of written events that a stream keeps: so much may be on its way."""
_KEPT_QUIET: Final = 1024 * 1024
"""The same for a stream that has been quiet for a while, and for all streams while those of their
principal keep `_KEPT_ALL`."""
_KEPT_ALL: Final = 64 * 1024 * 1024
_QUIET: Final = 4
"""How often nothing comes in the time of `Reader.take` until a stream is quiet."""
_UNNAMED: Final = 16
"""Streams of sessions that the agent has not named yet."""
_STREAMS: Final = 1024
"""Streams of sessions in all."""


class Kept:
    """The bytes that the streams of all clients of a principal keep."""

    def __init__(self) -> None:
        self.size = 0

    @property
    def is_much(self) -> bool:
        """Whether each keeps less from now on."""
        return self.size > _KEPT_ALL


class Sizes:
    """The bytes in all streams of a client.

    Attributes:
        waiting: The bytes of events that have not been written to a reader.
        kept: The bytes of events that were written, and may be needed once more.
    """

    def __init__(self, together: Kept) -> None:
        self.waiting = 0
        self.kept = 0
        self.together = together

    def keep(self, size: int) -> None:
        """So many bytes more are kept, or fewer."""
        self.kept += size
        self.together.size += size


class Stream:
    """One stream: the events that wait, and the last events that were written."""

    def __init__(self, sizes: Sizes) -> None:
        self._all = sizes
        self.named = False
        """Whether it has had an event."""
        self.reader: Reader | None = None
        self.heard = False
        """Whether it has had a reader."""
        self.waiting: deque[tuple[int, bytes]] = deque()
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._number = 0

    def put(self, frame: bytes) -> None:
        """An event waits for the reader."""
        self.named = True
        self._number += 1
        self.waiting.append((self._number, frame))
        self._all.waiting += len(frame)
        if self.reader is not None:
            self.reader.wake.set()

    def take(self) -> list[bytes]:
        """The next events as they are written."""
        events: list[bytes] = []
        size = 0
        while self.waiting and len(events) < _AT_ONCE and size < _BYTES_AT_ONCE:
            number, frame = self.waiting.popleft()
            self._all.waiting -= len(frame)
            size += len(frame)
            events.append(wire.event(number, frame))
            self._keep(number, frame)
        return events

    def _keep(self, number: int, frame: bytes) -> None:
        self._kept.append((number, frame))
        self._count(len(frame))
        self._trim(_KEPT_QUIET if self._all.together.is_much else _KEPT)

    def forget(self) -> None:
        """Nobody comes back for the events that were written."""
        self._count(-self._kept_bytes)
        self._kept.clear()

    def settle(self) -> None:
        """Nothing has come for a while: the written events have arrived, or no reader is left."""
        self._trim(_KEPT_QUIET)

    def _trim(self, most: int) -> None:
        while self._kept_bytes > most and len(self._kept) > 1:
            self._count(-len(self._kept.popleft()[1]))

    def _count(self, size: int) -> None:
        self._kept_bytes += size
        self._all.keep(size)

    @property
    def written(self) -> int:
        """The number of the last event that a reader was given."""
        return self._number - len(self.waiting)

    def rewind(self, after: int) -> bool:
        """The events behind an event wait once more; False: they are not kept any more."""
        written = self.written
        if after > self._number or written - after > len(self._kept):
            return False
        while self._kept and self._kept[-1][0] > after:
            number, frame = self._kept.pop()
            self._count(-len(frame))
            self.waiting.appendleft((number, frame))
            self._all.waiting += len(frame)
        # A request that came late may have rewound too far.
        while self.waiting and self.waiting[0][0] <= after:
            number, frame = self.waiting.popleft()
            self._all.waiting -= len(frame)
            self._keep(number, frame)
        return True


class Reader:
    """One GET that reads a stream."""

    def __init__(self, streams: Streams, stream: Stream, session: str | None) -> None:
        self.wake = asyncio.Event()
        self.stream = stream
        self.session = session
        self.over = False
        self._streams = streams
        self._idle = 0
        self._is_late = False
        self._loop = asyncio.get_running_loop()
        self._deadline = Deadline(self._late)

    @property
    def after(self) -> int:
        """The number of the last event before the next one."""
        return self.stream.written

    async def take(self, seconds: float) -> list[bytes] | None:
        """The next events; an empty list after so many seconds without any; None: the end."""
        while not self.stream.waiting or self.over:
            if self.over or self._streams.closed:
                return None
            self.wake.clear()
            self._is_late = False
            self._deadline.set(self._loop.time() + seconds)
            await self.wake.wait()
            if self._is_late:
                self._idle += 1
                if self._idle == _QUIET:
                    self.stream.settle()
                return []
            self._deadline.set(None)
        self._idle = 0
        events = self.stream.take()
        self._streams.drained()
        return events

    def _late(self) -> None:
        self._is_late = True
        self.wake.set()

    def leave(self) -> None:
        """Nobody takes its events any more."""
        self._deadline.stop()


class Streams:
    """Takes frames for one HTTP client.

    Attributes:
        opening: Gets the answer to `initialize`, which goes into the body of the HTTP answer.
        closed: Whether no more frames come.
    """

    def __init__(self, opening: bytes, kept: Kept) -> None:
        """`opening`: the id of `initialize`. `kept`: the bytes that the principal's streams
        keep."""
        self.drained: Callable[[], None] = lambda: None
        self.closed = False
        self.opening: asyncio.Future[tuple[bytes, bool]] = (
            asyncio.get_running_loop().create_future()
        )
        self._id = opening
        self._sizes = Sizes(kept)
        self._own = Stream(self._sizes)
        self._of: dict[str, Stream] = {}
        """By session; streams whose readers have left come in the order in which they left."""
        self._taken: set[int] = set()
        self._low = 0

    @property
    def waiting(self) -> int:
        """Bytes that have not been written to a reader."""
        return self._sizes.waiting

    @property
    def kept(self) -> int:
        """Bytes that were written, and are kept for readers that come back."""
        return self._sizes.kept

    @property
    def readers(self) -> int:
        """How many GETs read."""
        return sum(one.reader is not None for one in (self._own, *self._of.values()))

    def send(self, frame: bytes, session: str | None) -> None:
        """Puts a frame into its stream."""
        if self.closed:
            return
        if not self.opening.done() and (failed := self._answers(frame)) is not None:
            self.opening.set_result((frame, failed))
            return
        stream = self._of.get(session) if session is not None else None
        if stream is None or not stream.heard:
            stream = self._own
        stream.put(frame)

    def flush(self) -> None:
        """Does nothing: a reader takes the frames that are there."""

    def _answers(self, frame: bytes) -> bool | None:
        """Whether a frame answers `initialize` with an error; None: it is no answer to it."""
        message = jsonrpc.message_of(frame)
        if message is None or not message.answers:
            return None
        if not isinstance(message.id, Raw) or jsonrpc.canonical_id(message.id) != self._id:
            return None
        return message.error is not UNSET

    def hold(self, held: bool) -> None:
        """Does nothing: each POST waits."""

    def fresh(self, number: int | None) -> bool:
        """Whether a message of this number has not come before. Raises `Refused`."""
        if number is None:
            return True
        if number <= self._low or number in self._taken:
            return False
        if len(self._taken) >= _STREAMS and number != self._low + 1:
            raise Refused(400, "Acp-Message-Number leaves out too many numbers")
        self._taken.add(number)
        while self._low + 1 in self._taken:
            self._low += 1
            self._taken.discard(self._low)
        return True

    def read(self, session: str | None, after: int | None) -> Reader:
        """A reader for a stream. Raises `Refused`."""
        stream = self._own if session is None else self._of.get(session)
        if stream is None:
            stream = self._new(session or "")
        if after is not None:
            if not stream.rewind(after):
                raise Refused(409, "the events after this one are gone: session/load")
            if stream.reader is not None:
                stream.reader.over = True
                stream.reader.wake.set()
        elif stream.reader is not None:
            raise Refused(409, "this stream has a reader already")
        stream.heard = True
        stream.reader = Reader(self, stream, session)
        return stream.reader

    def _new(self, session: str) -> Stream:
        unnamed = [one for one, stream in self._of.items() if not stream.named]
        # A stream whose reader has left stays while there is room: its client may only be cut, and
        # events for it then may not go another way.
        left = [one for one in unnamed if self._of[one].reader is None]
        if len(unnamed) >= _UNNAMED and left:
            del self._of[left[0]], unnamed[0]
        if len(unnamed) >= _UNNAMED:
            raise Refused(404, "too many sessions that are not known yet")
        if len(self._of) >= _STREAMS and not self._forgotten():
            raise Refused(404, "too many streams of sessions; end some of them")
        stream = self._of[session] = Stream(self._sizes)
        return stream

    def _forgotten(self) -> bool:
        """Forgets the stream whose reader left first, among streams without a waiting event: their
        sessions are most likely closed. Returns whether there is such a stream."""
        for session, stream in self._of.items():
            if stream.reader is None and not stream.waiting:
                stream.forget()
                del self._of[session]
                return True
        return False

    def leave(self, reader: Reader) -> None:
        """A reader has gone."""
        reader.leave()
        stream, session = reader.stream, reader.session
        if stream.reader is not reader:
            return
        stream.reader = None
        if self.closed:
            stream.forget()
        if session is not None and self._of.get(session) is stream:
            self._of[session] = self._of.pop(session)  # the last stream that a reader has left
        while self._sizes.together.is_much and self._forgotten():
            pass

    def close(self, why: Farewell) -> None:
        """The waiting events leave, then all streams end."""
        del why
        self.closed = True
        if not self.opening.done():
            self.opening.cancel()
        for stream in (self._own, *self._of.values()):
            stream.forget()
            if stream.reader is not None:
                stream.reader.wake.set()
