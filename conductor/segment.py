"""The child process that runs adjacent sandboxed proxies: a conductor in proxy mode.

Its parent sees one proxy that speaks `channel/1` on standard input and output; inside, a router of
its own joins the guests, so a message passes from one to the next without a system call. It is
started with an empty environment, reads what to run from the first line of its input, and opens
nothing afterwards. It ends when its input does.

Its main loop blocks: there is nothing else to do than to read, route, deliver and write.
"""

from __future__ import annotations

import math
import os
import select
import sys
import time
from functools import partial
from typing import Final

import msgspec

import wasm_host
from conductor.core import (
    CHANNEL,
    UPSTREAM,
    Changed,
    Closure,
    Effect,
    Fail,
    Note,
    Owned,
    Router,
    Send,
    Serve,
    Trace,
    Violated,
    Wake,
)
from conductor.core.policy import verdicts
from conductor.core.services import CHANGED, OWNED, RECOVERED, VIOLATED
from conductor.guest_module import component
from conductor.guest_spec import LOCAL, RECONFIGURE, Recovered, Relayed, SegmentSpec
from conductor.hub import Hub
from conductor.recovery import Bypass, Due, GiveUp, Recovery, Restart
from conductor.reports.lines import failed_line, hop_line, relayed_line, report
from conductor.services.local import Services
from conductor.transports.buffers import BIG_CHUNK, CHUNK, QUIET, give_back, keep_large
from conductor.transports.delivery import deliver, ended, explain, flooded
from conductor.transports.framing import LineSplitter

_HIGH_WATER: Final = 8 * 1024 * 1024
_DELIVERIES: Final = 256
"""Deliveries in a row before input is looked at again."""

_FLOOD: Final = 512 * 1024 * 1024
"""Bytes that may wait between guests."""

_LAST_WORDS: Final = 10
"""First and last lines of a failed guest's standard error that are shown."""

EXIT_GUEST_FAILED: Final = 70


class _FromParent(msgspec.Struct):
    """A line of the parent's own: an answer, or something for a guest."""

    method: str = ""
    id: int | None = None
    params: Relayed | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Segment:
    """A router over in-process guests, with descriptors 0 and 1 as its predecessor/successor."""

    def __init__(self, spec: SegmentSpec, modules: dict[str, wasm_host.Module]) -> None:
        """Instantiates every guest. Raises `wasm_host.GuestError`."""
        components = [component(one, modules[one.name].carrier) for one in spec.guests]
        self._modules = modules
        self._recoveries = {one.name: Recovery(one.on_failure) for one in spec.guests}
        self._due: Due[str] = Due()
        self._wakes: Due[int] = Due()
        router = Router(
            components,
            "proxy",
            upstream=CHANNEL,
            tracing=spec.numbers > 0,
            first_number=spec.numbers,
            audited=[one.name for one in spec.guests] if spec.auditing else (),
            owned=spec.owned,
            reserved=spec.reserved,
        )
        self._hub = Hub(router, self._perform)
        self._guests = {name: module.instantiate(name) for name, module in modules.items()}
        self._refusals = {name: partial(self._refused, name) for name in modules}
        self._verbose = spec.verbose
        self._services = Services(self._log, spec.clock)
        self._lines = LineSplitter(spec.line_limit)
        self._line_limit = spec.line_limit
        self._out: list[bytes] = []
        self._reporter = None
        if spec.recording:
            from conductor.reports.deliveries import Reporter  # loaded at the start

            self._reporter = Reporter(self._out.append, spec.line_limit)
        self._unsent = memoryview(b"")
        self._failed = False

    def run(self) -> int:
        """Serves until the input ends; the exit code."""
        for guest in self._guests.values():
            self._start(guest)
        self._hub.apply(self._hub.router.start())
        poll = select.poll()
        chunk = CHUNK
        large = False
        while True:
            more = self._settle()
            if self._failed:
                break
            wait = 0.0 if more else self._next_due()
            if large and wait is None and not self._unsent:
                wait = QUIET
            if self._unsent or wait is not None:
                poll.register(0, select.POLLIN if len(self._unsent) < _HIGH_WATER else 0)
                poll.register(1, select.POLLOUT if self._unsent else 0)
                ready = dict(poll.poll(None if wait is None else math.ceil(wait * 1000)))
                if large and not ready and not more:
                    large = False
                    give_back()
                self._return_due()
                if not ready.get(0, 0) & (select.POLLIN | select.POLLHUP):
                    continue
            data = os.read(0, chunk)
            if not data:
                break
            if len(data) == chunk:
                keep_large()
                chunk = BIG_CHUNK
            else:
                chunk = CHUNK
            large = large or len(data) >= CHUNK
            self._hear(self._lines.feed(data))
        os.set_blocking(1, True)
        self._write()
        for guest in self._guests.values():
            guest.close()
        return EXIT_GUEST_FAILED if self._failed else 0

    def _hear(self, lines: list[bytes]) -> None:
        """Routes what came in, but for what the parent itself says (side `c`), in order."""
        start = 0
        for number, line in enumerate(lines):
            if line.startswith(b"c"):
                self._hub.feed(UPSTREAM, lines[start:number])
                self._told(line)
                start = number + 1
        self._hub.feed(UPSTREAM, lines[start:] if start else lines)

    def _start(self, guest: wasm_host.Guest) -> bool:
        try:
            said = guest.start(b"")
        except wasm_host.GuestError as error:
            self._guest_failed(guest.name, error)
            return False
        if self._reporter is not None:
            self._reporter.started(guest.name, said)
        self._hub.feed(guest.name, _lines(said))
        return True

    def _settle(self) -> bool:
        """Delivers until no guest has anything left to be told, and writes upstream once.

        True if guests that keep each other busy have more: input is looked at in between.
        """
        left = _DELIVERIES
        while left and (taken := self._hub.take()) is not None:
            peer, data = taken
            guest = self._guests.get(peer)
            if guest is None:
                self._out.append(data)
            elif not guest.dead:
                left -= 1
                self._deliver(guest, data)
        self._write()
        return not left

    def _deliver(self, guest: wasm_host.Guest, data: bytes) -> None:
        name, router = guest.name, self._hub.router
        router.delivering(name)
        try:
            said = deliver(guest, data, self._refusals[name])
        except wasm_host.GuestError as error:
            if self._reporter is not None:
                self._reporter.delivered(name, data, error.outbox, str(error))
            self._hub.feed(name, _lines(error.outbox))
            self._guest_failed(name, error)
            return
        if self._reporter is not None:
            self._reporter.delivered(name, data, said)
        by_itself = guest.dead  # afterwards it may have been ended for a violation
        if said:
            self._hub.feed(name, _lines(said))
        effects = router.delivered(name)
        if effects:
            self._hub.apply(effects)
        if by_itself:
            self._guest_failed(name, ended(name))
        elif not guest.dead and self._hub.queued > _FLOOD:
            guest.close()
            self._guest_failed(name, flooded(name, self._hub.queued))

    def _refused(self, name: str, line: bytes, why: str) -> None:
        self._hub.apply(self._hub.router.undeliverable(name, line, why))

    def _guest_failed(self, name: str, error: wasm_host.GuestError) -> None:
        text, hint = explain(name, error)
        label = self._hub.router.peers[name].label
        data = {"component": name, "phase": error.phase, "limit": error.limit}
        said = self._guests[name].stderr
        if said.strip():
            self._log("warning", name, f"{label} ends with these words:\n{_last_words(said)}")
        self._recover(name, Closure(f"{label} {text}", hint, data))

    def _recover(self, name: str, reason: Closure) -> None:
        """Ends a guest, and starts it again, goes on without it, or gives up."""
        router = self._hub.router
        self._guests[name].close()
        self._hub.discard(name)
        match self._recoveries[name].failed(time.monotonic()):
            case Restart(delay, number, most):
                text = f"{reason.text}; it is started again ({number} of {most})"
                self._recovered(name, "restart", text)
                self._hub.apply(router.leaving(name, reason))
                self._due.add(name, time.monotonic() + delay)
            case Bypass():
                self._recovered(name, "bypass", f"{reason.text}; the chain goes on without it")
                self._hub.apply(router.bypassed(name, reason))
            case GiveUp():
                self._out.append(failed_line(reason))  # before what is answered for it
                self._hub.apply(router.closed(name, reason))

    def _recovered(self, name: str, action: str, text: str) -> None:
        self._log("warning", name, text)
        self._out.append(report(RECOVERED, Recovered(name, action, text)))

    def _next_due(self) -> float | None:
        """Seconds until something is to be done; None: nothing is."""
        now = time.monotonic()
        waits = [s for s in (self._due.seconds(now), self._wakes.seconds(now)) if s is not None]
        return min(waits, default=None)

    def _return_due(self) -> None:
        """Does what is due: guests are started again, the router is woken."""
        for token in self._wakes.take(time.monotonic()):
            self._hub.apply(self._hub.router.woken(token))
        for name in self._due.take(time.monotonic()):
            try:
                guest = self._guests[name] = self._modules[name].instantiate(name)
            except wasm_host.GuestError as error:
                self._guest_failed(name, error)
                continue
            if self._start(guest):
                self._hub.apply(self._hub.router.returned(name))

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Serve):
            self._serve(effect)
        elif isinstance(effect, Note):
            if effect.level in ("warning", "error") or self._verbose:
                self._log(effect.level, effect.peer, effect.text)
        elif isinstance(effect, Changed):
            from conductor.reports import changes  # loaded at the start

            self._out.append(report(CHANGED, changes.params(effect, self._line_limit)))
        elif isinstance(effect, Wake):
            self._wakes.add(effect.token, time.monotonic() + effect.seconds)
        elif isinstance(effect, Owned):
            self._out.append(report(OWNED, effect))
        elif isinstance(effect, Violated):
            self._out.append(report(VIOLATED, effect))
            if effect.fatal:
                self._broke_rules(effect)
        elif isinstance(effect, Fail):
            self._failed = True
            self._out.append(failed_line(effect.reason))
        elif isinstance(effect, Trace):
            # Of what comes in here, or leaves, the parent has the payload itself.
            between = UPSTREAM not in (effect.source, effect.target)
            self._out.append(hop_line(effect, self._line_limit if between else 0))
        else:
            assert not isinstance(effect, Send)

    def _serve(self, effect: Serve) -> None:
        """Performs a service that needs nothing; asks the parent for all others."""
        if effect.service not in LOCAL:
            self._out.append(relayed_line(effect))
            return
        result, error = self._services.serve(effect.peer, effect.service, effect.params)
        if effect.token is not None:
            self._hub.apply(self._hub.router.served(effect.token, result, error))

    def _told(self, line: bytes) -> None:
        """The parent answers what was asked for a guest, or has something to tell one."""
        said = msgspec.json.decode(line[1:], type=_FromParent)
        router = self._hub.router
        if said.params is not None:
            one = said.params
            if said.method == RECONFIGURE:
                self._hub.apply(router.reconfigure(one.component, bytes(one.params)))
            elif not self._guests[one.component].dead:
                self._hub.apply(router.tell(one.component, one.method, bytes(one.params)))
        elif said.id is not None:
            result = bytes(said.result) if said.result is not msgspec.UNSET else None
            error = bytes(said.error) if said.error is not msgspec.UNSET else None
            self._hub.apply(router.served(said.id, result, error))

    def _broke_rules(self, violation: Violated) -> None:
        """Ends a guest whose policy does not tolerate violations."""
        self._recover(violation.peer, verdicts.closure(violation))

    def _log(self, level: str, peer: str, text: str) -> None:
        # Further lines are indented: none of what a guest says passes for an entry of its own.
        sys.stderr.write(f"{level}: {peer}: {text}".replace("\n", "\n  ") + "\n")
        sys.stderr.flush()

    def _write(self) -> None:
        if self._out:
            held = [bytes(self._unsent), *self._out] if self._unsent else self._out
            self._unsent = memoryview(held[0] if len(held) == 1 else b"".join(held))
            self._out.clear()
        while self._unsent:
            try:
                sent = os.write(1, self._unsent)
            except BlockingIOError:
                return
            self._unsent = self._unsent[sent:]


def _last_words(said: str) -> str:
    """A failed guest's standard error; of much the two ends, where runtimes say what it was."""
    lines = said.strip().splitlines()
    if len(lines) > 2 * _LAST_WORDS:
        lines[_LAST_WORDS:-_LAST_WORDS] = ["…"]
    return "\n".join(lines)


def _lines(data: bytes) -> list[bytes]:
    if not data:
        return []
    if data.find(b"\n") == len(data) - 1:
        return [data]  # one line, perhaps a large one: not copied
    lines = data.split(b"\n")
    lines.pop()
    return lines
