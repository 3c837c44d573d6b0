"""The checker: every request gets one entry, every entry one verdict.

Pure bookkeeping: the code that talks to the conductor reports all messages sent and received.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.chaos.expected import Arrival, Expected

Json = dict[str, Any]
Explains = Callable[[str], bool]
"""Whether a harm to the chain explains a failure of the component of this name; without a name:
whether the conductor was told to stop."""

_KEPT_TROUBLES = 20
_KEPT_ALIKE = 5
_LONGEST = 2000


@dataclass(slots=True)
class Entry:
    """One request of the client: the expected answer, and the answer that came."""

    key: int | str
    what: str
    session: str | None = None
    expected: Expected | None = None
    stop: str | None = None
    """The stop reason with which a prompt must end."""
    code: int | None = None
    """The error code with which the request must be answered; None: a result."""
    partial: bool = False
    """A cancelled turn: its updates may stop early, but miss nothing in between."""
    answers: int = 0
    answer: Json = field(default_factory=dict)
    gaps: int = 0
    asked: int = 0
    """Permission requests seen for this turn."""

    @property
    def good(self) -> bool:
        """Whether it has been answered with a result."""
        return "result" in self.answer


@dataclass(slots=True)
class Tally:
    """The figures of the table; sums over lives with ``+=`` of `add`."""

    requests: int = 0
    messages: int = 0
    """Lines sent and received by the client."""
    ok: int = 0
    refused: int = 0
    """Answered with the error that was asked for."""
    errors: Counter[str] = field(default_factory=Counter)
    """Answered with an error, by the component that was killed."""
    cut_updates: int = 0
    """Updates of turns that had failed already, or missing in such turns: no fault of anybody."""
    permissions: int = 0
    lost: int = 0
    doubled: int = 0
    unanswered: int = 0
    unexplained: int = 0
    """Errors nothing that was done accounts for."""
    altered: int = 0
    """Answers or updates that nobody asked for, or with other contents."""
    untold: int = 0
    """Messages that differ from their entries in the log."""
    orphans: int = 0
    failures: int = 0
    """Chains that ended, or stopped serving, when they should not have."""
    troubles: list[str] = field(default_factory=list)
    """The first faults in words."""

    def trouble(self, text: str) -> None:
        """Keeps a fault in words, up to a bound."""
        kind = text.partition(":")[0]
        alike = sum(one.startswith(kind) for one in self.troubles)
        if alike < _KEPT_ALIKE and len(self.troubles) < _KEPT_TROUBLES:
            self.troubles.append(text[:_LONGEST])

    def add(self, other: "Tally") -> None:
        """Takes in another tally."""
        for name in SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.errors += other.errors
        for text in other.troubles:
            self.trouble(text)

    @property
    def faults(self) -> int:
        """The counts that must be 0."""
        return sum(getattr(self, name) for name in FAULTS)


FAULTS = (
    "lost",
    "doubled",
    "unanswered",
    "orphans",
    "unexplained",
    "altered",
    "untold",
    "failures",
)
SUMMED = ("requests", "messages", "ok", "refused", "cut_updates", "permissions", *FAULTS)


class Ledger:
    """The entries of one chain."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self._entries: dict[int | str, Entry] = {}
        self._turns: dict[str, Entry] = {}
        self._asks: set[int | str] = set()

    @property
    def open(self) -> list[Entry]:
        """The entries without an answer."""
        return [entry for entry in self._entries.values() if not entry.answers]

    def sent(self, entry: Entry) -> None:
        """A request has been sent."""
        self.tally.requests += 1
        self._entries[entry.key] = entry
        if entry.session is not None:
            self._turns[entry.session] = entry

    def updated(self, session: str, text: str) -> None:
        """An update with this text has come."""
        turn = self._turns.get(session)
        if turn is None or turn.expected is None:
            self._fault("altered", f"an update nobody waits for: {session} {text[:80]!r}")
            return
        arrival = turn.expected.take(text)
        failed = bool(turn.answers) and not turn.good
        if arrival is Arrival.AGAIN:
            self._fault("doubled", f"{turn.what}: an update came twice: {text[:80]!r}")
        elif failed:  # the agent's news about its own failed requests comes, too
            self.tally.cut_updates += 1
        elif arrival is Arrival.FOREIGN:
            self._fault("altered", f"{turn.what}: a strange update: {text[:80]!r}")
        elif turn.answers:
            self._fault("lost", f"{turn.what}: an update after the answer: {text[:80]!r}")
        elif arrival is Arrival.GAP:
            # The turn may still fail, which accounts for the gap: the answer decides.
            turn.gaps += 1

    def asked(self, key: int | str, session: str) -> None:
        """The agent asks for a permission."""
        self.tally.permissions += 1
        if key in self._asks:
            self._fault("doubled", f"a permission request whose id {key!r} is still in use")
        self._asks.add(key)
        turn = self._turns.get(session)
        if turn is not None:
            turn.asked += 1
            if turn.asked > 1:
                self._fault("doubled", f"{turn.what}: asked for permission {turn.asked} times")

    def replied(self, key: int | str) -> None:
        """The client answers a permission request."""
        self._asks.discard(key)

    def answered(self, key: int | str, answer: Json, explains: Explains) -> Entry | None:
        """An answer has come; its entry, if it is the first."""
        entry = self._entries.get(key)
        if entry is None:
            self._fault("altered", f"an answer to nothing: {str(answer)[:200]}")
            return None
        entry.answers += 1
        if entry.answers > 1:
            self._fault("doubled", f"{entry.what}: answered {entry.answers} times")
            return None
        entry.answer = answer
        if "error" in answer:
            self._error(entry, answer["error"], explains)
        else:
            self._result(entry, answer["result"])
        return entry

    def close(self) -> None:
        """Nothing more will come: open entries stay open."""
        for entry in self.open:
            self._fault("unanswered", f"{entry.what}: no answer")

    def excuse(self) -> None:
        """The conductor itself was killed: nobody is left to answer."""
        for entry in self.open:
            self.tally.errors["conductor killed"] += 1
            entry.answers = 1

    def wrong(self, what: str) -> None:
        """Something that came has other contents than it should."""
        self._fault("altered", what)

    def _error(self, entry: Entry, error: Json, explains: Explains) -> None:
        data = error.get("data")
        name = str(data.get("component", "")) if isinstance(data, dict) else ""
        if explains(name):
            cause = f"{name} killed" if name else "conductor stopped"
            self.tally.errors[cause] += 1
        elif entry.code is not None and error.get("code") == entry.code:
            self.tally.refused += 1
        else:
            self._fault("unexplained", f"{entry.what}: {error}")

    def _result(self, entry: Entry, result: Any) -> None:
        stop = result.get("stopReason") if isinstance(result, dict) else None
        if entry.code is not None or (entry.stop is not None and stop != entry.stop):
            self._fault("altered", f"{entry.what}: answered {str(result)[:200]}")
            return
        self.tally.ok += 1
        if entry.gaps:
            self._fault("lost", f"{entry.what}: answered, with {entry.gaps} gap(s) in its updates")
        elif entry.expected is not None and not entry.partial and not entry.expected.complete:
            self._fault("lost", f"{entry.what}: answered, but updates are missing at the end")

    def _fault(self, name: str, text: str) -> None:
        setattr(self.tally, name, getattr(self.tally, name) + 1)
        self.tally.trouble(f"{name}: {text}")
