"""The journal: the frames at the client's end of each chain, in the stream `journal`.

It is written beside the live path, which never waits for it: frames are kept, cleaned of secrets
and published, and the stream acknowledges them. While it takes nothing (JetStream has no leader,
its disk is full, NATS is away) frames are kept up to a bound. Frames beyond the bound are missing:
they are counted, and marked in the journal as soon as a mark can be written.

    journal.ROOM.CHAIN.c2a     a frame of the client
    journal.ROOM.CHAIN.a2c     a frame for the client
    journal.ROOM.CHAIN.mark    JSON: the chain begins or ends, or frames are missing

Frames of one chain are numbered in the order in which they passed. The header `Nats-Msg-Id` is
EPOCH-CHAIN-WAY-NUMBER, so that a frame that is sent twice is stored once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core import json_text, jsonrpc
from conductor.core.jsonrpc import INTERNAL_ERROR
from conductor.errors import are, counted
from conductor.fleet import names
from conductor.fleet.frames import clean_frame
from conductor.fleet.unwritten import Entry, Unwritten
from conductor.serve.hub import frames as answers
from conductor.transports.base import Wrapper
from conductor.transports.framing import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from conductor.fleet.bus import Bus, End
    from conductor.transports.base import Owner, Transport

KEPT: Final = 16 * 1024 * 1024
"""The most bytes of frames that are kept until the journal has them; further frames are missing."""
LAG_BYTES: Final = 8 * 1024 * 1024
"""Where the journal is required, prompts are refused while more bytes than this are not written."""
LAG_SECONDS: Final = 10.0
"""The same while a frame has waited for longer than this."""
PART: Final = 512 * 1024
"""Bytes of a message; longer frames are split."""
C2A: Final = "c2a"
A2C: Final = "a2c"
MARK: Final = "mark"
NUMBER: Final = "Conductor-Number"
"""The header with the number of a frame in its chain."""
MORE: Final = "Conductor-More"
"""The header with the number of parts that follow, if a frame is split."""
AT: Final = "Conductor-At"
"""The header with the time at which a frame passed (Unix time)."""
UNREAD: Final = "Conductor-Left-Out"
"""The header with the bytes of a frame that could not be read, and so is left out."""

_TURN: Final = 0.002
"""Seconds of work at a time: then others have their turn."""
_LOOK: Final = 0.5
_SAID: Final = 60.0
"""Seconds between two lines in the log about missing frames."""
_PROMPT: Final = "session/prompt"


class _Raw(msgspec.Struct, gc=False):
    """A frame that has passed, with its secrets: it is cleaned before it leaves this process."""

    chain: Journalled
    way: str
    number: int
    frame: bytes
    at: float


class Journal:
    """The journal of a worker.

    Attributes:
        is_required: Whether prompts are refused while the journal cannot be written.
    """

    def __init__(self, bus: Bus, log: Callable[[str], None], *, is_required: bool = False) -> None:
        self.is_required = is_required
        self._bus, self._log = bus, log
        self._loop = asyncio.get_running_loop()
        self._raw: deque[_Raw] = deque()
        self._raw_bytes = 0
        self._unwritten = Unwritten()
        self._losing: dict[Journalled, None] = {}
        """The chains whose gap is not marked yet."""
        self._inbox = ""
        self._ends: list[End] = []
        self._working: asyncio.Handle | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._written = self._lost = self._lost_bytes = 0
        self._said = self._said_lost = 0.0
        self._why = ""

    async def begin(self, days: float = 0) -> None:
        """Makes the stream, where there is none; entries older than `days` go (0: none). Raises
        `ConductorError`."""
        await self._bus.stream(names.JOURNAL, f"{names.JOURNAL}.>", days * 86400.0)
        self._inbox = self._bus.inbox()
        self._ends.append(await self._bus.listen(f"{self._inbox}.*", self._answered))
        self._bus.cut.append(self._cut)
        self._look()

    async def end(self) -> None:
        """Writes as much as it can in short time, and stops."""
        await self.flush()
        for handle in (self._working, self._looking):
            if handle is not None:
                handle.cancel()
        for end in self._ends:
            await end()

    async def flush(self, seconds: float = 2.0) -> None:
        """Waits until all is written, not for long."""
        try:
            async with asyncio.timeout(seconds):
                while self._raw or len(self._unwritten):
                    self._work_soon()
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass

    def chain(self, inner: Transport, principal: str, named: str, epoch: int) -> Journalled:
        """A transport before the client's end of a chain: its frames go to the journal too."""
        return Journalled(self, inner, principal, named, epoch)

    # -- frames to write -------------------------------------------------------------------------

    @property
    def lag(self) -> int:
        """Bytes that are not written."""
        return self._raw_bytes + self._unwritten.kept

    @property
    def is_behind(self) -> bool:
        """Whether it lags past the bounds, or frames are missing that are not marked yet."""
        behind = self.lag > LAG_BYTES or self._unwritten.age(self._loop.time()) > LAG_SECONDS
        return behind or bool(self._losing)

    @property
    def why(self) -> str:
        """Why it does not get on, in words."""
        return self._why or "it is slow"

    def add(self, chain: Journalled, way: str, frame: bytes) -> None:
        """A frame has passed."""
        number = chain.number = chain.number + 1
        if self.lag and self.lag + len(frame) > KEPT:
            self._lost += 1
            self._lost_bytes += len(frame)
            chain.lost += 1
            chain.lost_bytes += len(frame)
            self._losing[chain] = None
            return
        self._raw.append(_Raw(chain, way, number, frame, time.time()))
        self._raw_bytes += len(frame)
        self._work_soon()

    def mark(self, chain: Journalled, **what: object) -> None:
        """Writes something about a chain."""
        chain.number += 1
        entry = _Raw(chain, MARK, chain.number, json_text.encode(what), time.time())
        self._raw.append(entry)
        self._raw_bytes += len(entry.frame)
        self._work_soon()

    def metrics(self) -> str:
        """The journal's metrics, in the text format of Prometheus."""
        numbers = {
            "journal_written_total": self._written,
            "journal_missing_frames_total": self._lost,
            "journal_missing_bytes_total": self._lost_bytes,
            "journal_lag_bytes": self.lag,
        }
        lines = []
        for name, number in numbers.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# TYPE conductor_fleet_{name} {kind}", f"conductor_fleet_{name} {number}"]
        return "\n".join([*lines, ""])

    # -- writing ---------------------------------------------------------------------------------

    def _work_soon(self) -> None:
        if self._working is None:
            self._working = self._loop.call_soon(self._work)

    def _work(self) -> None:
        """Cleans frames and publishes them, for a moment."""
        self._working = None
        until = self._loop.time() + _TURN
        while (now := self._loop.time()) < until:
            taken = self._unwritten.take(now) if self._bus.is_linked else None
            if taken is not None:
                number, entry = taken
                reply = f"{self._inbox}.{number}"
                self._bus.publish(entry.subject, entry.payload, reply, entry.headers)
            elif self._raw:
                self._clean()
            else:
                return
        self._working = self._loop.call_later(0, self._work)

    def _clean(self) -> None:
        """Makes entries of the oldest frame."""
        raw = self._raw.popleft()
        self._raw_bytes -= len(raw.frame)
        payload = raw.frame if raw.way == MARK else clean_frame(raw.frame)
        headers = {NUMBER: str(raw.number), AT: f"{raw.at:.6f}"}
        if payload is None:
            payload, headers[UNREAD] = b"", str(len(raw.frame))
        chain = raw.chain
        id_ = f"{chain.epoch}-{chain.id}-{raw.way}-{raw.number}"
        subject = names.journal(chain.room, chain.id, raw.way)
        since = self._loop.time()
        parts = range(0, max(len(payload), 1), PART)
        for index, start in enumerate(parts):
            more = len(parts) - index - 1
            own = {"Nats-Msg-Id": f"{id_}.{index}" if len(parts) > 1 else id_, **headers}
            if len(parts) > 1:
                own[MORE] = str(more)
            part = payload[start : start + PART] if len(parts) > 1 else payload
            self._unwritten.add(Entry(subject, own, part, since))

    def _answered(self, subject: str, data: bytes) -> None:
        """The stream acknowledges an entry, or does not take it."""
        number = int(subject.rpartition(".")[2])
        try:
            answer = json_text.decode(data, type=_Answer) if data else _NOBODY
        except msgspec.DecodeError:
            answer = _NOBODY
        if answer.error is None:
            self._written += self._unwritten.written(number)
            self._why = ""
            self._mark_gaps()
        else:
            self._why = answer.error.description
            self._unwritten.refused(number, self._loop.time())
        self._work_soon()

    def _mark_gaps(self) -> None:
        """Marks the gaps of chains, once there is room again."""
        if self._unwritten.away or self.lag > KEPT // 2:
            return
        chains, self._losing = self._losing, {}
        for chain in chains:
            lost, size, chain.lost, chain.lost_bytes = chain.lost, chain.lost_bytes, 0, 0
            self.mark(chain, missing=lost, bytes=size)

    def _cut(self) -> None:
        self._why = "NATS is away"
        self._unwritten.cut(self._loop.time())

    def _look(self) -> None:
        """Time has passed."""
        self._looking = self._loop.call_later(_LOOK, self._look)
        now = self._loop.time()
        if self._unwritten.look(now):
            self._why = "no acknowledgement has come in time"
        self._mark_gaps()
        self._work_soon()
        if self._lost > self._said_lost and now - self._said > _SAID:
            self._said, self._said_lost = now, self._lost
            self._log(
                f"the journal cannot be written: {self.why}; so far {counted(self._lost, 'frame')} "
                f"({counted(self._lost_bytes, 'byte')}) {are(self._lost)} missing in it"
            )


class Journalled(Wrapper):
    """The client's end of one chain."""

    def __init__(
        self, journal: Journal, inner: Transport, principal: str, named: str, epoch: int
    ) -> None:
        super().__init__(inner)
        self.id = names.new_id()
        self.room = names.encoded(principal)
        self.epoch = epoch
        self.number = 0
        """Of the last frame."""
        self.lost = self.lost_bytes = 0
        """The missing frames without a mark, and their bytes."""
        self._journal = journal
        self._named = named

    async def open(self, events: Owner) -> None:
        """Opens the transport within."""
        self._journal.mark(self, begins=self._named, epoch=self.epoch)
        await super().open(events)

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        for line in split(data):
            if line:
                self._journal.add(self, A2C, line)
        self._inner.write(data)

    def received(self, frames: list[bytes]) -> None:
        """Lines arrived."""
        if self._journal.is_required and self._journal.is_behind:
            frames = [frame for frame in frames if not self._refuses(frame)]
        for frame in frames:
            self._journal.add(self, C2A, frame)
        if frames:
            super().received(frames)

    def _refuses(self, frame: bytes) -> bool:
        """Answers a prompt that may not begin now."""
        if _PROMPT.encode() not in frame:
            return False
        message = jsonrpc.message_of(frame)
        if message is None or message.method != _PROMPT:
            return False
        if isinstance(message.id, msgspec.Raw) and (id_ := jsonrpc.canonical_id(message.id)):
            text = f"the journal, without which no prompt begins here, lags: {self._journal.why}"
            hint = "try again in a moment; the worker's number `journal_lag_bytes` shows the lag"
            error = answers.error(id_, INTERNAL_ERROR, text, hint, reason="journal")
            self._inner.write(error + b"\n")
        return True

    async def close(self, grace: float) -> None:
        """Ends the transport within, and all that runs behind it."""
        self._journal.mark(self, ends=self._named)
        await super().close(grace)


class _Error(msgspec.Struct):
    description: str = "it does not say why"


class _Answer(msgspec.Struct):
    error: _Error | None = None


_NOBODY: Final = _Answer(_Error("no stream takes it"))
