"""Bytes that have come and that nobody has taken yet: one account a principal, and one for all.

Knows no server and no transport. The reader of a connection has an entry here, and counts the bytes
that come and those that are taken: half a body, the pieces of a message, a message that waits for
its chain.

A principal may hold half as much as is free, so that something is free for everybody else at any
time. Beyond that a connection waits once another of its pieces has come. Only the connection that
has held bytes longest reads on, so that large messages come one after the other; once half of all
is held, only the principal that has held bytes longest has such a connection. If even this
connection needs too long, it goes. So one connection always reads on: nobody sees that the client
of a waiting one has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

PATIENCE: Final = 30.0
"""Seconds that others of a principal wait for the connection that has held something longest."""


class Reader(Protocol):
    """Reads a connection."""

    def wait(self) -> None:
        """Stops reading for now. May be called again while it waits."""

    def go_on(self) -> None:
        """Reads on."""

    def go(self) -> None:
        """Ends: it has kept others of its principal waiting for too long."""


class Received:
    """The accounts of one server.

    Attributes:
        most: Bytes that may be held at once.
        held: Bytes that are held.
    """

    def __init__(
        self,
        most: int,
        patience: float = PATIENCE,
        ended: Callable[[int], None] = lambda size: None,
    ) -> None:
        """`ended` hears of each entry that is closed: how many bytes it held."""
        self.most = most
        self._ended = ended
        self.held = 0
        self._patience = patience
        self._accounts: dict[str, _Account] = {}
        self._waiting: dict[Entry, None] = {}

    def entry(self, principal: str, reader: Reader) -> Entry:
        """An entry for a connection of a principal."""
        return Entry(principal, reader, self)

    def counted(self, entry: Entry, size: int) -> None:
        """An entry holds so many bytes more."""
        account = self._accounts.setdefault(entry.principal, _Account())
        self.held += size
        account.held += size
        if entry.held:
            account.holding.setdefault(entry)
        else:
            account.holding.pop(entry, None)
        if not account.holding:
            account.stop()
            del self._accounts[entry.principal]
        if size > 0 and self._must_wait(entry, account):
            self._wait(entry, account)
        elif size < 0 and self._waiting:
            self._go_on()

    def _must_wait(self, entry: Entry, account: _Account) -> bool:
        if 2 * account.held <= self.most - self.held:
            return False
        if entry is not account.first:
            return True
        return 2 * self.held > self.most and account is not next(iter(self._accounts.values()))

    def _wait(self, entry: Entry, account: _Account) -> None:
        self._waiting[entry] = None
        entry.reader.wait()
        if account.timer is None:
            self._watch(account)

    def _watch(self, account: _Account) -> None:
        """The first entry has so long to make room for the others."""
        loop = asyncio.get_running_loop()
        account.timer = loop.call_later(self._patience, self._late, account, account.first)

    def _late(self, account: _Account, first: Entry | None) -> None:
        account.timer = None
        if first is not None and first is account.first and self._keeps_waiting(account):
            first.close()
            first.reader.go()
        if self._keeps_waiting(account):
            self._watch(account)

    def _keeps_waiting(self, account: _Account) -> bool:
        return any(entry in self._waiting for entry in account.holding)

    def _go_on(self) -> None:
        for entry in [*self._waiting]:
            account = self._accounts.get(entry.principal)
            if account is None or not self._must_wait(entry, account):
                self._waiting.pop(entry, None)
                entry.reader.go_on()

    def closed(self, entry: Entry) -> None:
        """Nothing of a connection counts any more."""
        if entry in self._waiting:
            del self._waiting[entry]
            entry.reader.go_on()
        self._ended(entry.held)


class _Account:
    """The bytes that one principal holds."""

    def __init__(self) -> None:
        self.held = 0
        self.holding: dict[Entry, None] = {}
        """Entries with bytes, in the order in which they began to hold some."""
        self.timer: asyncio.TimerHandle | None = None

    @property
    def first(self) -> Entry | None:
        """The entry that has held bytes longest."""
        return next(iter(self.holding), None)

    def stop(self) -> None:
        """Nobody waits for the first any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Entry:
    """The bytes that one connection holds.

    Attributes:
        held: Its bytes.
    """

    def __init__(self, principal: str, reader: Reader, received: Received | None = None) -> None:
        """Without `received` it is a stranger's, who has no account: others see to its bound."""
        self.principal, self.reader = principal, reader
        self.held = 0
        self._received = received

    def count(self, size: int) -> None:
        """So many bytes more are held; or, below 0, have been taken."""
        self.held += size
        if self._received is not None:
            self._received.counted(self, size)

    def set(self, size: int) -> None:
        """So many bytes are held now."""
        if size != self.held:
            self.count(size - self.held)

    def close(self) -> None:
        """The connection has ended, or is about to: nothing of it counts any more."""
        received = self._received
        if received is not None:
            received.closed(self)
            self.set(0)
            self._received = None
