"""The guests of one segment: start, delivery, failure, restart.

`conductor.run.rounds` decides in which order they get their turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

import wasm_host
from conductor.core import Closure, Silent, json_text
from conductor.core.accounts import Account, Cause
from conductor.core.restart_state import Bypass, Due, GiveUp, Recovery, Restart
from conductor.core.service_table import RECOVERED
from conductor.run.outboxes import HostOutboxes
from conductor.run.report_lines import failed_line, report
from conductor.run.rounds import Round, Rounds
from conductor.run.segment_spec import FIRED, FiredTimer, GuestSpec, Recovered, Relayed
from conductor.transports.buffers import CHUNK
from conductor.transports.guest import deliver, explain, last_words

if TYPE_CHECKING:
    from conductor.run.host_record import HostRecord


class Delivery(msgspec.Struct, frozen=True):
    """The lines that a guest got, and those that it returned."""

    given: bytes
    returned: bytes
    error: wasm_host.GuestError | None = None
    ended: bool = False
    """Whether the guest has ended by itself."""

    def again(self, data: bytes) -> bytes:
        """The lines that the guest returned for the same input. Raises its error."""
        if data != self.given:
            raise RuntimeError("a guest gets something else than it got before")
        if self.error is not None:
            raise self.error
        return self.returned


class SegmentGuests:
    """The instances of one segment, by name, and how far each is with its queued frames."""

    def __init__(
        self,
        specs: list[GuestSpec],
        modules: dict[str, wasm_host.Module],
        outboxes: HostOutboxes,
        log: Callable[[str, str, str], None],
        send: Callable[[bytes], None],
        record: HostRecord | None,
    ) -> None:
        """Instantiates every guest. Raises `wasm_host.GuestError`.

        Args:
            specs: The guests, in order.
            modules: Their modules, by guest.
            outboxes: Routes the returned lines.
            log: Writes a line: level, component name, text.
            send: Takes whole lines for the parent.
            record: Takes deliveries for a trace; None: there is no record.
        """
        self._modules = modules
        self._instances = {name: module.instantiate(name) for name, module in modules.items()}
        self._outboxes = outboxes
        self._router = outboxes.router
        self._log = log
        self._send = send
        self._record = record
        self._recoveries = {spec.name: Recovery(spec.on_failure) for spec in specs}
        self.restarts: Due[str] = Due()
        """When guests that failed are started again."""
        self.accounts = {
            spec.name: Account(spec.name, self._router.peers[spec.name].component.allowance)
            for spec in specs
        }
        self.rounds = Rounds(outboxes, self.accounts)
        self._unheard_timers: dict[str, set[str]] = {name: set() for name in modules}
        """Timers that have fired, until their guest gets the notification."""
        self.recorded: dict[str, Delivery] = {}
        """Deliveries that took the shortcut: they are not repeated (`conductor.run.shortcut`)."""
        self.repeating = False
        """Whether all guests have got, and returned, more than the present lines."""

    # -- start and end -------------------------------------------------------------------------

    def start(self) -> None:
        """Starts every guest."""
        for name in self._instances:
            self._start(name)

    def close(self) -> None:
        """Frees every instance."""
        for guest in self._instances.values():
            guest.close()

    def restart_due(self) -> None:
        """Starts those guests again whose time has come."""
        for name in self.restarts.take(time.monotonic()):
            try:
                self._instances[name] = self._modules[name].instantiate(name)
            except wasm_host.GuestError as error:
                self._failed(name, error)
                continue
            if self._start(name):
                self._outboxes.apply(self._router.returned(name))

    def _start(self, name: str) -> bool:
        try:
            returned = self._instances[name].start(b"")
        except wasm_host.GuestError as error:
            self._failed(name, error)
            return False
        if self._record is not None:
            self._record.delivered(name, b"", returned)
        if returned:
            self.rounds.returned(name, _lines(returned))
        return True

    # -- rounds --------------------------------------------------------------------------------

    def next(self, now: float, *, own: bool) -> tuple[str | None, float | None]:
        """The peer whose turn it is (`Rounds.next`); ends a guest where all wait for each other."""
        if self.rounds.none:
            return None, None
        name, wait = self.rounds.next(now, own=own)
        if name is not None or wait is not None or not own:
            return name, wait
        stuck = self.rounds.stuck()
        if stuck is None:
            return None, None
        self._failed(stuck, _flooded(stuck, self.accounts[stuck].waiting))
        return None, 0.0

    def work(self, name: str, now: float) -> bool:
        """Does one turn of a guest. Whether somebody outside has caused it: if not, the caller
        reads input before it does anything else."""
        current = self.rounds.begun(name)
        if current.outside:
            self._turn(name, current, now)
            self.rounds.used(name, time.monotonic() - now)
            return True
        began = time.process_time()
        self._turn(name, current, now)
        self.rounds.spend(name, time.process_time() - began, now)
        return False

    def _turn(self, name: str, current: Round, now: float) -> None:
        """Delivers a piece of a guest's round, or routes a slice of the lines that it returned."""
        guest, account = self._instances[name], self.accounts[name]
        dead = guest.dead and name not in self.recorded
        if not current.lines and (dead or not self._deliver(guest, current, now)):
            self.rounds.end(name)
            return
        self._route(name, current)
        if not self.rounds.is_in(name, current):
            return  # the guest was ended for a returned line
        # Twice the limit: at the limit the guest is delivered nothing more, and one delivery may
        # bring it over.
        if account.waiting > 2 * account.allowance.waiting_bytes:
            self._failed(name, _flooded(name, account.waiting))
        elif current.over or (guest.dead and not current.lines):
            self.rounds.end(name)
            if current.whole and (effects := self._router.delivered(name)):
                self._outboxes.apply(effects)
            if guest.dead and not self.repeating:
                self._failed(name, _ended(name))

    def _deliver(self, guest: wasm_host.Guest, current: Round, now: float) -> bool:
        """Delivers a piece of a guest's round; False if the guest failed."""
        name = guest.name
        if current.whole and not current.begun:
            self._router.delivering(name)
        if current.runs[0].answer:
            self._unheard_timers[name].clear()
        data, cause = current.piece()
        try:
            if name in self.recorded:
                returned = self.recorded.pop(name).again(data)
            else:
                returned = deliver(guest, data, partial(self._refused, name))
        except wasm_host.GuestError as error:
            if self._record is not None:
                self._record.delivered(name, data, error.outbox, str(error))
            current.cause = current.answering = self.accounts[name].caused[0]
            current.lines = _lines(error.outbox)
            # All of it now, in slices: the guest has no further turn.
            while current.lines and self.rounds.is_in(name, current):
                self._route(name, current)
            if self.rounds.is_in(name, current):  # else it was ended for a returned line
                self._failed(name, error)
            return False
        if self._record is not None:
            self._record.delivered(name, data, returned)
        current.lines = _lines(returned)
        return self._charge(name, current, cause, data, returned, now)

    def exchange(self, name: str, same: Delivery) -> Delivery | None:
        """Delivers lines past the router, for the shortcut. Returns `same` itself if the guest
        returns the same lines; None: the guest cannot take the lines."""
        guest = self._instances[name]
        try:
            returned = guest.deliver(same.given)
        except wasm_host.LimitRefused:
            return None
        except wasm_host.GuestError as error:
            return Delivery(same.given, error.outbox, error)
        if returned == same.returned and not guest.dead:
            return same
        return Delivery(same.given, returned, ended=guest.dead)

    def _charge(
        self, name: str, current: Round, cause: Cause, data: bytes, returned: bytes, now: float
    ) -> bool:
        """Charges the lines that a guest returned; False if that ended the guest."""
        account = self.accounts[name]
        lines, size = len(current.lines), len(returned)
        # Counting looks at each byte of a single line, which may be megabytes.
        delivered = 1 if data.find(b"\n") == len(data) - 1 else data.count(b"\n")
        surplus = lines > delivered or size > len(data) + CHUNK
        current.cause = cause.passed(account, more=surplus)
        current.answering = cause.answered(account)
        if cause.left:  # lines that the guest only passes on cost it nothing
            lines, size = lines - delivered, size - len(data)
        if surplus or not cause.left:
            payer = current.cause.account
            payer.spend_messages(lines, size, now)
            if payer is account and payer.floods(now):
                self._failed(name, _overdrawn(name, account.allowance.own_messages))
                return False
        return True

    def _route(self, name: str, current: Round) -> None:
        """Routes a slice of the lines that a guest returned."""
        outboxes = self._outboxes
        outboxes.cause, outboxes.answering = current.cause, current.answering
        outboxes.feed(name, current.slice())
        outboxes.cause = outboxes.answering = outboxes.outside

    def _refused(self, name: str, line: bytes, why: str) -> None:
        self._outboxes.apply(self._router.undeliverable(name, line, why))

    # -- messages of the parent to guests ------------------------------------------------------

    def tell(self, relayed: Relayed) -> None:
        """Queues a notification of the parent's for a guest."""
        name = relayed.component
        if self._instances[name].dead:
            return
        if relayed.method == FIRED:
            timer = json_text.decode(relayed.params, type=FiredTimer).timer
            if timer in self._unheard_timers[name]:
                # The guest has not taken the timer's last firing yet. Otherwise timers would fill
                # the queue of a guest that is out of processor time.
                return
            self._unheard_timers[name].add(timer)
        effects = self._router.tell(name, relayed.method, bytes(relayed.params))
        self._outboxes.answer(effects, self.accounts[name].caused[0])

    # -- failures ------------------------------------------------------------------------------

    def _failed(self, name: str, error: wasm_host.GuestError) -> None:
        text, hint = explain(name, error)
        label = self._router.peers[name].label
        data = {"component": name, "phase": error.phase, "limit": error.limit}
        if words := "\n".join(last_words(self._instances[name].stderr)):
            self._log("warning", name, f"{label} ends with these words:\n{words}")
        self.end(name, Closure(f"{label} {text}", hint, data))

    def silent(self, of: Silent) -> None:
        """A guest does not take its role: it counts as failed."""
        name, peer = of.peer, self._router.peers[of.peer]
        if peer.starts > 1 or peer.component.instance:
            self._recoveries[name].silent()
        hint = f"if it needs longer to start, raise its `timeout={of.seconds:g}`"
        data = {"component": name, "timeout": of.seconds}
        if of.said:
            hint, data = "", {"component": name}
        self.end(name, Closure(f"{peer.label} {of.text}", hint, data))

    def end(self, name: str, reason: Closure) -> None:
        """Ends a guest, and starts it again, goes on without it, or gives up."""
        router, now = self._router, time.monotonic()
        self._instances[name].close()
        self.rounds.end(name)
        self.accounts[name].begin_anew(now)
        self._unheard_timers[name].clear()
        self._outboxes.discard(name)
        match self._recoveries[name].failed(now):
            case Restart(delay, number, most):
                text = f"{reason.text}; it is started again ({number} of {most})"
                self._send(report(RECOVERED, Recovered(name, "restart", text)))
                self._outboxes.apply(router.leaving(name, reason))
                self.restarts.add(name, now + delay)
            case Bypass():
                text = f"{reason.text}; the chain goes on without it"
                self._send(report(RECOVERED, Recovered(name, "bypass", text)))
                self._outboxes.apply(router.bypassed(name, reason))
            case GiveUp():
                # Before the errors that answer open requests: they end the parent's chain.
                self._send(failed_line(reason))
                self._outboxes.apply(router.closed(name, reason))


def _ended(name: str) -> wasm_host.GuestError:
    """The error of a guest that ended without an error, as a WASI program may."""
    return wasm_host.GuestError(
        "deliver",
        f"{name} has ended by itself",
        hint="a proxy reads its input until that ends; see its standard error",
    )


def _overdrawn(name: str, limit: int) -> wasm_host.GuestError:
    """The error of a guest that sends far more messages than it receives."""
    return wasm_host.GuestError(
        "deliver",
        f"{name} exceeded own_messages: it sent many times the {limit} a second that it may send "
        "of its own",
        limit="own_messages",
        hint="raise the component's own_messages if this is intended",
    )


def _flooded(name: str, waiting: int) -> wasm_host.GuestError:
    """The error of a guest that answers messages with ever more messages."""
    return wasm_host.GuestError(
        "deliver",
        f"{name} exceeded waiting_bytes: {waiting} bytes that it sent are waiting for delivery",
        limit="waiting_bytes",
        hint="the guest answers messages with ever more messages; report it to its author",
    )


def _lines(data: bytes) -> list[bytes]:
    if not data:
        return []
    if data.find(b"\n") == len(data) - 1:
        return [data]  # a single line, which may be megabytes: not copied
    lines = data.split(b"\n")
    lines.pop()
    return lines
