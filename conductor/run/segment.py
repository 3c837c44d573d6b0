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
from conductor.core.accounts import Account, Cause
from conductor.core.jsonrpc import INTERNAL_ERROR, error_object
from conductor.core.policy import checks
from conductor.core.restart_state import Bypass, Due, GiveUp, Recovery, Restart
from conductor.core.services import CHANGED, OWNED, RECOVERED, VIOLATED
from conductor.run.guest_module import component
from conductor.run.outboxes import Outboxes, QueuedFrames, joined
from conductor.run.reports.lines import failed_line, hop_line, relayed_line, report
from conductor.run.rounds import Round, Rounds
from conductor.run.segment_spec import (
    FIRED,
    LOCAL,
    RECONFIGURE,
    Fired,
    Recovered,
    Relayed,
    SegmentSpec,
)
from conductor.services.local import Services
from conductor.services.log_lines import LogLines
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.transports.buffers import BIG_CHUNK, CHUNK, QUIET, give_back, keep_large
from conductor.transports.guest import deliver, ended, explain, flooded, overdrawn
from conductor.transports.framing import LineSplitter

_HIGH_WATER: Final = 8 * 1024 * 1024
"""Bytes that wait for the parent, or for guests since the parent sent them, above which nothing
more is done, or read."""

_AT_ONCE: Final = 0.05
"""Seconds of work before input is looked at again."""

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


_OWN_REQUEST: Final = b'{"jsonrpc":"2.0","id":"c'
"""How requests begin, after their side, that guests send of their own; and answers to them."""


def _own_id(line: bytes) -> bytes:
    """The id of such a line."""
    start = 1 + len(_OWN_REQUEST)
    return line[start : line.find(b'"', start)]


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
        self._outboxes = Outboxes(router, self._perform)
        self._guests = {name: module.instantiate(name) for name, module in modules.items()}
        self._refusals = {name: partial(self._refused, name) for name in modules}
        self._verbose = spec.verbose
        limits = {
            one.name: one.limits.get("log_lines", DEFAULT_LIMITS["log_lines"])
            for one in spec.guests
        }
        self._log_lines = LogLines(limits, _log)
        self._log = self._log_lines.say
        self._services = Services(self._log, spec.clock)
        self._lines = LineSplitter(spec.line_limit)
        self._line_limit = spec.line_limit
        self._out: list[bytes] = []
        self._reporter = None
        if spec.recording:
            from conductor.run.reports.deliveries import Reporter  # loaded at the start

            self._reporter = Reporter(self._out.append, spec.line_limit)
        self._unsent = memoryview(b"")
        accounts = {one.name: Account(one.name, one.allowance) for one in components}
        self._rounds = Rounds(self._outboxes, accounts)
        self._asked: dict[int, Cause] = {}
        """Why a guest asked for a service that the parent performs, by token."""
        self._asked_outside: dict[bytes, Cause] = {}
        """Why a guest has sent a request that is none it carries, by its id."""
        self._rings: dict[str, set[str]] = {name: set() for name in modules}
        """Timers that have fired and whose guest has not been delivered that yet."""
        self._failed = False

    def run(self) -> int:
        """Serves until the input ends; the exit code."""
        for guest in self._guests.values():
            self._start(guest)
        self._outboxes.apply(self._outboxes.router.start())
        poll = select.poll()
        chunk = CHUNK
        large = False
        while True:
            wait = self._settle()
            if self._failed:
                break
            if self._due or self._wakes:
                wait = _sooner(wait, self._next_due())
            idle = wait is None and not self._unsent
            if idle and large:
                wait = QUIET
            if self._unsent or wait is not None:
                taken = (
                    len(self._unsent) < _HIGH_WATER
                    and self._outboxes.outside.account.waiting < _HIGH_WATER
                )
                poll.register(0, select.POLLIN if taken else 0)
                poll.register(1, select.POLLOUT if self._unsent else 0)
                ready = dict(poll.poll(None if wait is None else math.ceil(wait * 1000)))
                if idle and large and not ready:
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
        self._log_lines.close()
        for guest in self._guests.values():
            guest.close()
        return EXIT_GUEST_FAILED if self._failed else 0

    def _hear(self, lines: list[bytes]) -> None:
        """Routes what came in, in order, but for what the parent itself says (side `c`)."""
        start = 0
        for number, line in enumerate(lines):
            own = line.startswith(b"c")
            if own or (self._asked_outside and line.startswith(_OWN_REQUEST, 1)):
                self._outboxes.feed(UPSTREAM, lines[start:number])
                start = number + 1
                if own:
                    self._told(line)
                else:
                    self._answered(line)
        self._outboxes.feed(UPSTREAM, lines[start:] if start else lines)

    def _answered(self, line: bytes) -> None:
        """Routes the answer to a request of a guest's own: its cause is that of the request."""
        outboxes = self._outboxes
        cause = self._asked_outside.pop(_own_id(line), outboxes.outside)
        outboxes.cause = cause.answered(cause.account)
        outboxes.feed(UPSTREAM, [line])
        outboxes.cause = outboxes.outside

    def _start(self, guest: wasm_host.Guest) -> bool:
        try:
            said = guest.start(b"")
        except wasm_host.GuestError as error:
            self._guest_failed(guest.name, error)
            return False
        if self._reporter is not None:
            self._reporter.started(guest.name, said)
        if said:
            self._rounds.returned(guest.name, _lines(said))
        return True

    def _settle(self) -> float | None:
        """Works until nothing is left to be done, or input is to be looked at, and writes upstream.

        Seconds until there is more to be done: 0 means at once, None that nothing waits.
        """
        until = time.monotonic() + _AT_ONCE
        wait: float | None = None
        while not self._failed:
            now = time.monotonic()
            name, wait = self._next(now)
            if name is None:
                break
            if name == UPSTREAM:
                self._send(self._outboxes.take_from(UPSTREAM))
            elif not self._work(name, now) or now > until:
                wait = 0.0
                break
        self._write()
        return wait

    def _send(self, runs: list[QueuedFrames]) -> None:
        """Sends frames to the parent. Why a guest has sent a request of its own is noted: that is
        the cause of its answer, too."""
        for run in runs:
            for frame in run.frames:
                if frame.startswith(b"#"):  # the number of the message, where a trace is written
                    frame = frame[frame.find(b"\n") + 1 :]  # noqa: PLW2901
                if frame.startswith(_OWN_REQUEST, 1):
                    self._asked_outside[_own_id(frame)] = run.cause
        self._out.append(joined(runs))
        if len(self._out[-1]) > CHUNK:
            self._write()

    def _next(self, now: float) -> tuple[str | None, float | None]:
        """The peer whose turn it is; if nobody's, the seconds until it is somebody's."""
        if len(self._unsent) > _HIGH_WATER:
            return None, None
        # What a guest does of its own does not queue up before what somebody outside waits for.
        name, wait = self._rounds.next(now, own=not self._unsent)
        if name is not None or wait is not None or self._unsent:
            return name, wait
        stuck = self._rounds.stuck()
        if stuck is None:
            return None, None
        self._guest_failed(stuck, flooded(stuck, self._rounds.accounts[stuck].waiting))
        return None, 0.0

    def _work(self, name: str, now: float) -> bool:
        """One turn of a guest. Whether somebody outside has caused it: if not, input is looked at
        before anything else is done."""
        found = self._rounds.begun(name)
        if found.outside:
            self._turn(name, found, now)
            self._rounds.used(name, time.monotonic() - now)
            return True
        began = time.process_time()
        self._turn(name, found, now)
        self._rounds.spend(name, time.process_time() - began, now)
        return False

    def _turn(self, name: str, found: Round, now: float) -> None:
        """Delivers a piece of a guest's round, or routes a slice of what the guest returned."""
        guest, account = self._guests[name], self._rounds.accounts[name]
        if not found.lines and (guest.dead or not self._deliver(guest, found, now)):
            self._rounds.end(name)
            return
        self._route(name, found)
        if not self._rounds.is_in(name, found):
            return  # it was ended for what it sent
        if account.waiting > 2 * account.allowance.waiting_bytes:
            self._guest_failed(name, flooded(name, account.waiting))
        elif found.over or (guest.dead and not found.lines):
            self._rounds.end(name)
            if found.whole and (effects := self._outboxes.router.delivered(name)):
                self._outboxes.apply(effects)
            if guest.dead:
                self._guest_failed(name, ended(name))

    def _deliver(self, guest: wasm_host.Guest, found: Round, now: float) -> bool:
        """Delivers a piece of a guest's round; whether the guest has not failed of it."""
        name, account = guest.name, self._rounds.accounts[guest.name]
        if found.whole and not found.begun:
            self._outboxes.router.delivering(name)
        if found.runs[0].answer:
            self._rings[name].clear()
        data, cause = found.piece()
        try:
            said = deliver(guest, data, self._refusals[name])
        except wasm_host.GuestError as error:
            if self._reporter is not None:
                self._reporter.delivered(name, data, error.outbox, str(error))
            found.cause = found.answering = account.caused[0]
            found.lines = _lines(error.outbox)
            while found.lines and self._rounds.is_in(name, found):
                self._route(name, found)
            if self._rounds.is_in(name, found):  # else it was ended for what it sent
                self._guest_failed(name, error)
            return False
        if self._reporter is not None:
            self._reporter.delivered(name, data, said)
        found.lines = _lines(said)
        more, size = len(found.lines), len(said)
        passed_on = data.count(b"\n")
        surplus = more > passed_on or size > len(data) + CHUNK
        found.cause = cause.passed(account, more=surplus)
        found.answering = cause.answered(account)
        if cause.left:  # what it only passes on costs it nothing
            more, size = more - passed_on, size - len(data)
        if surplus or not cause.left:
            payer = found.cause.account
            payer.spend_messages(more, size, now)
            if payer is account and payer.floods(now):
                self._guest_failed(name, overdrawn(name, account.allowance.own_messages))
                return False
        return True

    def _route(self, name: str, found: Round) -> None:
        """Routes a slice of what a guest returned."""
        outboxes = self._outboxes
        outboxes.cause, outboxes.answering = found.cause, found.answering
        outboxes.feed(name, found.slice())
        outboxes.cause = outboxes.answering = outboxes.outside

    def _refused(self, name: str, line: bytes, why: str) -> None:
        self._outboxes.apply(self._outboxes.router.undeliverable(name, line, why))

    def _guest_failed(self, name: str, error: wasm_host.GuestError) -> None:
        text, hint = explain(name, error)
        label = self._outboxes.router.peers[name].label
        data = {"component": name, "phase": error.phase, "limit": error.limit}
        said = self._guests[name].stderr
        if said.strip():
            self._log("warning", name, f"{label} ends with these words:\n{_last_words(said)}")
        self._recover(name, Closure(f"{label} {text}", hint, data))

    def _recover(self, name: str, reason: Closure) -> None:
        """Ends a guest, and starts it again, goes on without it, or gives up."""
        router = self._outboxes.router
        self._guests[name].close()
        self._rounds.end(name)
        self._rounds.accounts[name].begin_anew(time.monotonic())
        self._rings[name].clear()
        self._outboxes.discard(name)
        match self._recoveries[name].failed(time.monotonic()):
            case Restart(delay, number, most):
                text = f"{reason.text}; it is started again ({number} of {most})"
                self._recovered(name, "restart", text)
                self._outboxes.apply(router.leaving(name, reason))
                self._due.add(name, time.monotonic() + delay)
            case Bypass():
                self._recovered(name, "bypass", f"{reason.text}; the chain goes on without it")
                self._outboxes.apply(router.bypassed(name, reason))
            case GiveUp():
                self._out.append(failed_line(reason))  # before what is answered for it
                self._outboxes.apply(router.closed(name, reason))

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
            self._outboxes.apply(self._outboxes.router.woken(token))
        for name in self._due.take(time.monotonic()):
            try:
                guest = self._guests[name] = self._modules[name].instantiate(name)
            except wasm_host.GuestError as error:
                self._guest_failed(name, error)
                continue
            if self._start(guest):
                self._outboxes.apply(self._outboxes.router.returned(name))

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Serve):
            self._serve(effect)
        elif isinstance(effect, Note):
            if effect.level in ("warning", "error") or self._verbose:
                self._log(effect.level, effect.peer, effect.text)
        elif isinstance(effect, Changed):
            from conductor.run.reports import changes  # loaded at the start

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
        outboxes = self._outboxes
        if effect.service not in LOCAL:
            if effect.token is not None:
                self._asked[effect.token] = outboxes.answering
            self._out.append(relayed_line(effect))
            return
        answer: tuple[bytes | None, bytes | None]
        if self._rounds.accounts[effect.peer].full:
            text = f"{effect.service}: too much that it has asked for waits for it"
            answer = None, error_object(INTERNAL_ERROR, text, {"limit": "waiting_bytes"})
        else:
            answer = self._services.serve(effect.peer, effect.service, effect.params)
        if effect.token is not None:
            outboxes.apply(outboxes.router.served(effect.token, *answer), outboxes.answering)

    def _told(self, line: bytes) -> None:
        """The parent answers what was asked for a guest, or has something to tell one."""
        said = msgspec.json.decode(line[1:], type=_FromParent)
        router = self._outboxes.router
        if said.params is not None:
            one = said.params
            if said.method == RECONFIGURE:
                self._outboxes.apply(router.reconfigure(one.component, bytes(one.params)))
            elif not self._guests[one.component].dead and self._may_ring(one):
                effects = router.tell(one.component, one.method, bytes(one.params))
                self._outboxes.apply(effects, self._rounds.accounts[one.component].caused[0])
        elif said.id is not None:
            result = bytes(said.result) if said.result is not msgspec.UNSET else None
            error = bytes(said.error) if said.error is not msgspec.UNSET else None
            cause = self._asked.pop(said.id, self._outboxes.outside)
            self._outboxes.apply(router.served(said.id, result, error), cause)

    def _may_ring(self, one: Relayed) -> bool:
        """Whether a guest gets what its timer sends: not before it was delivered the last."""
        if one.method != FIRED:
            return True
        timer, rings = msgspec.json.decode(one.params, type=Fired).timer, self._rings[one.component]
        if timer in rings:
            return False
        rings.add(timer)
        return True

    def _broke_rules(self, violation: Violated) -> None:
        """Ends a guest whose policy does not tolerate violations."""
        self._recover(violation.peer, checks.closure(violation))

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


def _log(level: str, peer: str, text: str) -> None:
    # Further lines are indented: none of what a guest says passes for an entry of its own.
    sys.stderr.write(f"{level}: {peer}: {text}".replace("\n", "\n  ") + "\n")
    sys.stderr.flush()


def _last_words(said: str) -> str:
    """A failed guest's standard error; of much the two ends, where runtimes say what it was."""
    lines = said.strip().splitlines()
    if len(lines) > 2 * _LAST_WORDS:
        lines[_LAST_WORDS:-_LAST_WORDS] = ["…"]
    return "\n".join(lines)


def _sooner(one: float | None, other: float | None) -> float | None:
    """The shorter of two waits; None is none."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _lines(data: bytes) -> list[bytes]:
    if not data:
        return []
    if data.find(b"\n") == len(data) - 1:
        return [data]  # one line, perhaps a large one: not copied
    lines = data.split(b"\n")
    lines.pop()
    return lines
