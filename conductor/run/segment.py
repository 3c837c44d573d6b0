"""The child process that runs adjacent sandboxed proxies: a conductor in proxy mode.

Its parent sees one proxy that speaks `channel/1` on standard input and output; inside, a router of
its own joins the guests, so a message passes from one to the next without a system call. It starts
with an empty environment, reads its guests from the first line of its input, and opens nothing
afterwards. It ends when its input does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

import wasm_host
from conductor.core import (
    CHANNEL,
    UPSTREAM,
    Changed,
    Effect,
    Fail,
    LogLine,
    OwnedAddresses,
    Reached,
    Serve,
    Silent,
    Violated,
    Wake,
    json_text,
)
from conductor.core.accounts import Cause
from conductor.core.effects import Effects
from conductor.core.jsonrpc import INTERNAL_ERROR, error_object
from conductor.core.restart_state import Due
from conductor.core.router import Router, RouterOptions
from conductor.core.service_table import (
    CHANGED,
    LOCAL,
    OWNED,
    REACHED,
    REBIND,
    TURN_END,
    USE_AGENT,
    VIOLATED,
)
from conductor.run.guest_module import component
from conductor.run.outboxes import HostOutboxes, QueuedFrames, joined
from conductor.run.report_lines import FURTHER, change_params, failed_line, relayed_line, report
from conductor.run.segment_guests import SegmentGuests
from conductor.run.segment_loop import HIGH_WATER, ParentOutput
from conductor.run.segment_spec import PAUSED, RECONFIGURE, RESERVE, Relayed, SegmentSpec
from conductor.run.shortcut import Shortcut
from conductor.services.local import LocalServices
from conductor.services.log_lines import LogLines
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.transports.buffers import CHUNK

if TYPE_CHECKING:
    from conductor.run.host_record import HostRecord

_ON_ITS_WAY: Final = 1.0
"""The seconds that a guest's frames of a turn may need through a busy host."""

_MOVES: Final = (REBIND, USE_AGENT)
"""The calls by which a session goes on elsewhere."""

_AT_ONCE: Final = 0.05
"""Seconds of work before the input is read again: a cancellation may be waiting there."""


class _ParentLine(msgspec.Struct):
    """A line of the parent's own: an answer, or something for a guest."""

    method: str = ""
    id: int | None = None
    params: Relayed | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OWN_REQUEST: Final = b'{"jsonrpc":"2.0","id":"c'
"""The beginning, after the side byte, of a request that a guest sends of its own, and of its answer
(`conductor.core.state.IdSpace.fresh_id`)."""


def _own_id(line: bytes) -> bytes:
    """The id of such a line."""
    start = 1 + len(_OWN_REQUEST)
    return line[start : line.find(b'"', start)]


_NUMBER: Final = b"#"
"""The beginning of the line with the number of a message (`conductor.core.tracing`)."""


def _new_router(spec: SegmentSpec, modules: dict[str, wasm_host.Module]) -> Router:
    """The router over the guests of a segment."""
    return Router(
        [component(guest, modules[guest.name].carrier) for guest in spec.guests],
        "proxy",
        options=RouterOptions(
            upstream=CHANNEL,
            tracing=spec.numbers > 0,
            first_number=spec.numbers,
            audited=[guest.name for guest in spec.guests] if spec.auditing else (),
            owned=spec.owned,
            reserved=spec.reserved,
        ),
    )


class Segment:
    """A router over guests in this process, with the parent as its predecessor and successor."""

    def __init__(
        self, spec: SegmentSpec, modules: dict[str, wasm_host.Module], output: ParentOutput
    ) -> None:
        """Instantiates every guest. Raises `wasm_host.GuestError`."""
        self._output = output
        self._verbose = spec.verbose
        self._line_limit = spec.line_limit
        self._wakes: Due[int] = Due()
        self._record: HostRecord | None = None
        if spec.recording:
            from conductor.run.host_record import HostRecord  # few hosts have one

            self._record = HostRecord(spec.line_limit, output.send)
        self._router = _new_router(spec, modules)
        self._auditing = spec.auditing
        if spec.paused:
            self._pause(spec.paused)
        crossed = self._record.crossed if self._record is not None else None
        self._outboxes = HostOutboxes(self._router, self._perform, crossed)
        usual = DEFAULT_LIMITS["log_lines"]
        limits = {guest.name: guest.limits.get("log_lines", usual) for guest in spec.guests}
        self._log_lines = LogLines(limits, _log)
        self._log = self._log_lines.say
        self._services = LocalServices(self._log, spec.clock)
        self._relays = spec.relays
        delivered = self._record if spec.deliveries else None
        self._guests = SegmentGuests(
            spec.guests, modules, self._outboxes, self._log, output.send, delivered
        )
        self._shortcut = self._new_shortcut()
        self._relayed: dict[int, Cause] = {}
        """The causes of calls that the parent performs, by token."""
        self._own_requests: dict[bytes, Cause] = {}
        """The causes of requests that guests sent of their own, by id."""
        self._ends: list[tuple[float, Serve]] = []
        """Ends of guests' turns, while frames of these turns are on their way through the guests,
        and requests behind an end; each with the time until which it waits."""
        self.failed = False
        """Whether the chain cannot go on."""

    def _new_shortcut(self) -> Shortcut | None:
        """None: the router sees all, for a trace or an audit, or because guests speak in envelopes,
        may have sessions of their own, or get references to long texts."""
        if self._record is not None or self._auditing or not Shortcut.fits(self._router):
            return None
        route = partial(self._outboxes.feed, UPSTREAM)
        return Shortcut(self._router, self._guests, self._output, route, self._one_turn)

    @property
    def incoming(self) -> int:
        """Bytes from the parent that guests have not taken yet."""
        return self._outboxes.outside.account.waiting

    def start(self) -> None:
        """Starts the guests."""
        self._guests.start()
        self._outboxes.apply(self._router.start())

    def close(self) -> None:
        """Frees the guests, and logs the last lines."""
        self._log_lines.close()
        self._guests.close()

    def feed(self, lines: list[bytes]) -> None:
        """Routes the parent's lines, in order, except those it sends of its own (side `c`)."""
        if self._shortcut is not None:
            lines = self._shortcut.take(lines)
        start = 0
        for number, line in enumerate(lines):
            own = line.startswith(b"c")
            if own or (self._own_requests and line.startswith(_OWN_REQUEST, 1)):
                self._outboxes.feed(UPSTREAM, lines[start:number])
                start = number + 1
                if own:
                    self._parent_line(line)
                else:
                    self._answer_to_own(line)
        self._outboxes.feed(UPSTREAM, lines[start:] if start else lines)

    def settle(self) -> float | None:
        """Works until nothing is left to be done, or input is to be read, and flushes the output.

        Returns:
            Seconds until there is more to be done: 0 means at once, None that nothing waits.
        """
        until = time.monotonic() + _AT_ONCE
        wait: float | None = None
        # While the parent takes nothing, the guests do not either: so frames for it are bounded.
        while not self.failed and self._output.unsent <= HIGH_WATER:
            now = time.monotonic()
            # A guest's own work does not queue up before frames that somebody outside waits for.
            name, wait = self._guests.next(now, own=not self._output.unsent)
            if name is None:
                self._end_turns()
                if self._shortcut is not None and wait is None:
                    self._shortcut.reopen()
                break
            if not self._work(name, now) or now > until:
                wait = 0.0
                break
        if self._ends and self._ends[0][0] < until:
            self._end_turns()
        if self._record is not None:
            self._record.send()
        self._output.flush()
        restarts = self._guests.restarts
        if self._wakes or restarts:
            now = time.monotonic()
            waits = (wait, self._wakes.seconds(now), restarts.seconds(now))
            return min(seconds for seconds in waits if seconds is not None)
        return wait

    def _end_turns(self) -> None:
        """Relays the ends of turns, behind the frames of these turns."""
        for _, effect in self._ends:
            self._output.send(relayed_line(effect))
        self._ends.clear()

    def _work(self, name: str, now: float) -> bool:
        """Does one turn of a guest, or sends the parent its waiting frames. Returns whether
        somebody outside has caused it."""
        if name != UPSTREAM:
            return self._guests.work(name, now)
        self._send(self._outboxes.taken(UPSTREAM))
        return True

    def _one_turn(self) -> bool:
        """Does one turn of waiting work; False: there is none."""
        now = time.monotonic()
        name, _ = self._guests.next(now, own=True)
        if self.failed or name is None:
            return False
        self._work(name, now)
        return True

    def run_due(self) -> None:
        """Does the work that is due: wakes the router, starts guests again."""
        tokens = self._wakes.take(time.monotonic())
        if tokens and self._shortcut is not None:
            self._shortcut.close()
        for token in tokens:
            self._outboxes.apply(self._router.woken(token))
        self._guests.restart_due()

    def _send(self, queue: list[QueuedFrames]) -> None:
        """Sends frames to the parent, and remembers the causes of guests' own requests: the answers
        have the same."""
        for run in queue:
            for frame in run.frames:
                line = frame if frame[:1] != _NUMBER else frame.partition(b"\n")[2]
                if line.startswith(_OWN_REQUEST, 1):
                    self._own_requests[_own_id(line)] = run.cause
        if self._record is not None:
            self._record.send()
        lines = joined(queue)
        if self._shortcut is not None and self._shortcut.has_sent(lines):
            return
        self._output.send(lines)
        if len(lines) > CHUNK:
            self._output.flush()

    def _answer_to_own(self, line: bytes) -> None:
        """Routes the answer to a request of a guest's own, with the cause of the request."""
        outboxes = self._outboxes
        cause = self._own_requests.pop(_own_id(line), outboxes.outside)
        outboxes.cause = cause.answered(cause.account)
        outboxes.feed(UPSTREAM, [line])
        outboxes.cause = outboxes.outside

    def _parent_line(self, line: bytes) -> None:
        """The parent answers a relayed call, or has something for a guest."""
        message = json_text.decode(line[1:], type=_ParentLine)
        if message.params is not None:
            if message.method == RECONFIGURE:
                relayed = message.params
                effects = self._router.reconfigure(relayed.component, bytes(relayed.params))
                self._outboxes.apply(effects)
            elif message.method == RESERVE:
                self._router.reserve(json_text.decode(message.params.params, type=list[str]))
            elif message.method == PAUSED:
                names = json_text.decode(message.params.params, type=list[str])
                self._outboxes.apply(self._pause(names))
            else:
                self._guests.tell(message.params)
        elif message.id is not None:
            result = bytes(message.result) if message.result is not msgspec.UNSET else None
            error = bytes(message.error) if message.error is not msgspec.UNSET else None
            cause = self._relayed.pop(message.id, self._outboxes.outside)
            self._outboxes.answer(self._router.served(message.id, result, error), cause)

    def _pause(self, names: Collection[str]) -> Effects:
        """From now on these guests are paused, and no others."""
        out: Effects = []
        for name in self._router.peers.keys() - {UPSTREAM}:
            out += self._router.pause(name, paused=name in names)
        return out

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Serve():
                self._serve(effect)
            case LogLine():
                if effect.level in ("warning", "error") or self._verbose:
                    self._log(effect.level, effect.peer, effect.text)
            case Changed():
                self._output.send(report(CHANGED, change_params(effect, self._line_limit)))
            case Wake():
                self._wakes.add(effect.token, time.monotonic() + effect.seconds)
            case OwnedAddresses():
                self._output.send(report(OWNED, effect))
            case Reached():
                if self._auditing:
                    self._output.send(report(REACHED, effect))
            case Violated():
                self._output.send(report(VIOLATED, effect))
                if effect.fatal:
                    self._guests.end(effect.peer, effect.closure)
            case Silent():
                self._guests.silent(effect)
            case Fail():
                self.failed = True
                self._output.send(failed_line(effect.reason))
            case _:
                raise AssertionError(effect)

    def _serve(self, effect: Serve) -> None:
        """Performs a call that needs nothing; relays all others to the parent."""
        outboxes = self._outboxes
        if self._relays or effect.service not in LOCAL:
            if effect.token is not None:
                self._relayed[effect.token] = outboxes.answering
            # A session may go on elsewhere only once its turn is over.
            if effect.service == TURN_END or (effect.service in _MOVES and self._ends):
                self._ends.append((time.monotonic() + _ON_ITS_WAY, effect))
            else:
                self._output.send(relayed_line(effect))
            return
        answer: tuple[bytes | None, bytes | None]
        if self._guests.accounts[effect.peer].full:
            text = f"{effect.service}: too many bytes of its answers wait for it"
            answer = None, error_object(INTERNAL_ERROR, text, {"limit": "waiting_bytes"})
        else:
            answer = self._services.serve(effect.peer, effect.service, effect.params)
        if effect.token is not None:
            outboxes.answer(self._router.served(effect.token, *answer), outboxes.answering)


def _log(level: str, peer: str, text: str) -> None:
    # Further lines are indented: no text of a guest may pass for an entry of its own.
    sys.stderr.write(f"{level}: {peer}: {text}".replace("\n", f"\n{FURTHER}") + "\n")
    sys.stderr.flush()
