"""Follows the router of a chain by its journal, and makes the trace: when nothing else is to do."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.core import Effect, Router, Send, Trace, Violated
from conductor.run.host_journal import DELIVERED, OWN, HostEntries, is_journal
from conductor.run.idle_work import IdleWork, Later
from conductor.run.journal import LOST, Call, Entry, Lines, MemoryJournal, Noted
from conductor.run.plan import Planned
from conductor.run.report_checks import Tracing, named
from conductor.transports.base import Transport
from conductor.transports.recorded import Recorded, Recorder

if TYPE_CHECKING:
    from conductor.run.host_following import HostFollower

_MOST: Final = 128 * 1024 * 1024
"""Bytes of journals above which messages wait for the trace."""
_SLICE: Final = 0.02
"""Seconds for which others wait while the end of a chain waits for its trace."""
_ASKED: Final = 64
_ENDS: Final = frozenset({"bypassed", "closed", "leaving"})
"""Methods of the router by which a run of a host ends."""


class Follower:
    """Makes the trace of one chain."""

    def __init__(
        self, tracing: Tracing, router: Router, log: Callable[[str, str, str], None], later: Later
    ) -> None:
        """`router`: one of the same components that makes `Trace` effects. `log` takes level,
        component and text."""
        self._tracing = tracing
        self._router = router
        self._log = log
        self._work = IdleWork(self._step, later)
        self.journal = MemoryJournal(self._called)
        """What goes into the router that is followed."""
        self._peer, self._at = "", 0.0
        """Whose lines follow in the journal, and when they came."""
        self._hosts: dict[int, HostFollower] = {}
        """The hosts of guests that keep a journal of their own, by the first of their numbers."""
        self._streams: dict[str, HostEntries] = {}
        """What other hosts report of deliveries, by name."""
        self._ended: Counter[str] = Counter()
        """Ends of peers in the journal."""
        self._asked: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=_ASKED))
        """The numbers of the last requests with params, by the peer that got them."""
        self._late: Counter[str] = Counter()
        """Requests whose numbers were not known when they were asked for."""
        self._named: frozenset[str] = frozenset()
        """The peers that the trace knows."""
        self._is_incomplete = self._is_over = False

    # -- what happens in the chain ---------------------------------------------------------------

    def begin(self, planned: Sequence[Planned]) -> None:
        """The trace begins."""
        self._tracing.begin(named(planned))
        self._named = frozenset(one.component.name for one in planned)

    def rearranged(self, planned: Sequence[Planned], gone: Sequence[str]) -> None:
        """The chain has these components from now on; others have gone, or have been replaced."""
        self._ended.update(gone)
        self.journal.note(0, self._rearranged, named(planned), gone)

    def watched(self, planned: Planned) -> Planned:
        """A component whose lines are recorded; of its guests' a host keeps a journal."""
        if planned.guests:
            return planned
        name, renew = planned.component.name, planned.renew

        def recorded(transport: Transport) -> Transport:
            recorder = self._tracing.recorder(name)
            return transport if recorder is None else Recorded(transport, _Later(self, recorder))

        def again(make: Callable[[], Transport]) -> Callable[[], Transport]:
            return lambda: recorded(make())

        return msgspec.structs.replace(
            planned, transport=recorded(planned.transport), renew=renew and again(renew)
        )

    def violated(self, violation: Violated) -> None:
        """A component broke a rule of its policy."""
        self.journal.note(0, self._tracing.violated, violation)
        self.passed()

    def happened(self, event: str, component: str, text: str) -> None:
        """Something has happened to a component (`Tracing.happened`)."""
        self.journal.note(0, self._tracing.happened, event, component, text)
        self.passed()

    def without_journal(self, host: Planned | None, frames: list[bytes]) -> list[bytes]:
        """Lines without those of a host's journal, which it takes; None: no host sent them."""
        if host is None or not host.guests:
            return frames
        component, kept = host.component, []
        for frame in frames:
            if not is_journal(frame):
                kept.append(frame)
            elif component.numbers is not None:
                self._host(component.numbers).take(frame)
            else:
                self.journal.note(len(frame), self._deliver, component.name, frame)
        if len(kept) < len(frames):
            self.passed()
        return kept

    def _called(self, method: str, peer: object) -> None:
        """A method of the router was called, for a peer."""
        if method in _ENDS:
            self._ended[str(peer)] += 1

    def passed(self) -> None:
        """Messages have passed."""
        self._work.passed()
        while self._waiting() > _MOST and self._step():
            pass

    def catch_up(self) -> None:
        """Follows all there is."""
        self._work.do(math.inf)

    def number(self, peer: str) -> int:
        """The number of the request that is about to go to a peer, the first one that has not been
        asked for; 0: the trace does not know it."""
        self.catch_up()
        asked = self._asked[peer]
        if asked:
            return asked.popleft()
        self._late[peer] += 1
        return 0

    def _asked_of(self, peer: str, number: int) -> None:
        """A peer got a request with params."""
        if self._late[peer]:
            self._late[peer] -= 1
        else:
            self._asked[peer].append(number)

    @property
    def is_behind(self) -> bool:
        """Whether the trace misses messages that have passed."""
        return bool(self.journal.entries) or any(one.is_behind for one in self._hosts.values())

    async def caught_up(self) -> None:
        """Follows all there is, and lets others work meanwhile."""
        while self._work.do(_SLICE):
            await asyncio.sleep(0)

    def close(self) -> None:
        """The chain has ended: what is left is followed, and the trace ends."""
        if not self._is_over:
            self._is_over = True
            self.catch_up()
            self._tracing.close()

    def _waiting(self) -> int:
        """Bytes of journals that are not followed yet, about."""
        return self.journal.size + sum(host.size for host in self._hosts.values())

    # -- one entry -------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Follows one entry; False: there is none that can be followed yet."""
        entries = self.journal.entries
        entry = entries[0] if entries else None
        try:
            if self._hosts and type(entry) is not bytes and self._follow_a_host(entry):
                return True
            if entry is None:
                return False
            if not self._follow(entry):
                return False
        except Exception as error:  # the chain goes on, whatever becomes of its trace
            self._incomplete("conductor", error)
        if entry is not None:
            self.journal.done(entry)
        return entry is not None

    def _incomplete(self, name: str, error: Exception) -> None:
        """Logs, once, that the trace misses something."""
        if not self._is_incomplete:
            self._is_incomplete = True
            self._log("warning", name, f"the trace is incomplete: {str(error) or repr(error)}")

    def _follow(self, entry: Entry) -> bool:
        """False: it has to wait for the journal of a host."""
        if type(entry) is bytes:
            return self._line(entry)
        assert not isinstance(entry, bytes)
        self._tracing.at(entry.at)
        if type(entry) is Lines:
            self._peer, self._at = entry.peer, entry.at
        elif type(entry) is Noted:
            entry.take(*entry.args)
        else:
            assert isinstance(entry, Call)
            self._call(entry)
        return True

    def _line(self, line: bytes) -> bool:
        host = self._host_of(self._peer)
        lines = [line]
        if host is not None and line[:1] != OWN:
            sent = host.sends(line, self._at)
            if sent is None and self._goes_on():
                return False
            host.is_incomplete |= sent is None
            lines = sent or lines
            self._pass_on(self._peer, host)
        for each in lines:
            self._perform(self._router.receive(self._peer, each))
        return True

    def _goes_on(self) -> bool:
        """Whether more of the journal of the peer may come."""
        return not (self._is_over or self._ended[self._peer] or self._waiting() > _MOST)

    def _call(self, call: Call) -> None:
        peer = str(call.args[0]) if call.args else ""
        host = self._host_of(peer)
        if host is not None and call.method in (LOST, "undeliverable"):
            host.take_back(*call.args[1:2])
        if call.method in _ENDS:
            self._ended[peer] -= 1
            if host is not None:
                host.end()
                self._pass_on(peer, host)
        if call.method != LOST:
            self._perform(getattr(self._router, call.method)(*call.args, **call.named))

    def _perform(self, effects: Any) -> None:
        if isinstance(effects, tuple):  # `Router.overdue`
            effects = effects[1]
        each: Effect
        for each in effects if isinstance(effects, list) else ():
            if type(each) is Trace:
                self._tracing.crossed(each, self._router.mode)
                if each.kind == "request" and each.payload is not None:
                    self._asked_of(each.target, each.number)
            elif type(each) is Send and (host := self._host_of(each.peer)) is not None:
                host.give(each.frame)

    # -- hosts -----------------------------------------------------------------------------------

    def _host(self, numbers: range) -> HostFollower:
        if numbers.start not in self._hosts:
            from conductor.run.host_following import HostFollower

            self._hosts[numbers.start] = HostFollower(numbers)
        return self._hosts[numbers.start]

    def _host_of(self, peer: str) -> HostFollower | None:
        known = self._router.peers.get(peer)
        return None if known is None or known.numbers is None else self._host(known.numbers)

    def _follow_a_host(self, before: Entry | None) -> bool:
        """Follows an entry of a host's journal that is older than one of the conductor's own;
        whether there was one."""
        until = math.inf if before is None or isinstance(before, bytes) else before.at
        for name, peer in self._router.peers.items():
            host = self._hosts.get(peer.numbers.start) if peer.numbers is not None else None
            if host is not None and host.step(until):
                self._pass_on(name, host)
                return True
        return False

    def _pass_on(self, name: str, host: HostFollower) -> None:
        """Passes what came of a host's journal on to the trace: once that knows the host."""
        if host.wrong is not None or host.is_incomplete:
            text = "its journal does not explain all of its messages"
            self._incomplete(name, host.wrong or ValueError(text))
        if not host.seen or name not in self._named:
            return
        seen, host.seen = host.seen, []
        for at, what in seen:
            try:
                if isinstance(what, Trace):
                    self._tracing.hop(name, what, at)
                else:
                    self._tracing.delivered(name, *what, at=at)
            except ValueError as error:
                self._incomplete(name, error)

    def _deliver(self, host: str, line: bytes) -> None:
        """Takes what was delivered to the guest of a host that keeps no journal of its router."""
        for kind, at, *what in self._streams.setdefault(host, HostEntries()).read(line):
            if kind == DELIVERED:
                self._tracing.delivered(host, *what, at=at)

    def _rearranged(
        self, names: Sequence[tuple[str, Sequence[str], range | None]], gone: Sequence[str]
    ) -> None:
        self._ended.subtract(gone)
        self._tracing.rearranged(names)
        self._named = frozenset(name for name, _, _ in names)
        numbers = [peer.numbers for peer in self._router.peers.values() if peer.numbers is not None]
        running = {each.start for each in numbers}
        self._hosts = {key: host for key, host in self._hosts.items() if key in running}


class _Later:
    """Has the lines of a component recorded once the trace has come so far."""

    def __init__(self, follower: Follower, recorder: Recorder) -> None:
        self._journal = follower.journal
        self._recorder = recorder

    def given(self, data: bytes) -> None:
        """See `Recorder`."""
        self._journal.note(len(data), self._recorder.given, data)

    def sent(self, frames: list[bytes]) -> None:
        """See `Recorder`: the lines are in the journal as well."""
        self._journal.note(0, self._recorder.sent, frames)

    def delivered(self, given: bytes, sent: bytes, failed: str) -> None:
        """See `Recorder`."""
        size = len(given) + len(sent)
        self._journal.note(size, self._recorder.delivered, given, sent, failed)
