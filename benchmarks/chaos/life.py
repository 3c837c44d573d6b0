"""One chain alive: the means by which a round or an ending drives it and holds it to account."""

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from benchmarks.chaos import victims
from benchmarks.chaos.expected import Expected
from benchmarks.chaos.ledger import Entry, Json, Ledger, Tally
from benchmarks.chaos.script import LifePlan, Turn, chat
from benchmarks.chaos.wire import Wire

DEADLINE = 30.0
"""Seconds that anything may take; a life that needs longer counts as stuck."""

_WINDOW = 62.0
"""Seconds in which at most `_BUDGET` failures of a component are forgiven, and a little."""

_BUDGET = 3
_HISTORY = 2_000_000
"""Characters of prompts up to which a session's history is compared."""


class StuckError(Exception):
    """The chain ended, or stopped answering, when it should not have."""


class Session:
    """An ACP session, and the prompts the agent should have seen in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.prompts: list[str] = []
        self.stopped: set[int] = set()
        """Places of cancelled prompts: a proxy may have held one, unheard by the agent."""
        self.busy = False

    def as_heard(self, heard: list[str]) -> list[str]:
        """The session's prompts that the agent should have heard, if it has heard `heard`."""
        left, found = list(heard), []
        for place, text in enumerate(self.prompts):
            if left and left[0] == text:
                found.append(left.pop(0))
            elif place not in self.stopped:
                found.append(text)
        return found


class Life:
    """A conductor with its client: sends, checks what comes, performs acts that are due."""

    def __init__(self, plan: LifePlan, command: Sequence[str], env: dict[str, str]) -> None:
        self.plan = plan
        self.tally = Tally()
        self.ledger = Ledger(self.tally)
        self.wire = Wire(command, env, self._received)
        self.memory: list[float] = []
        """PSS of the conductor after each round, in MB."""
        self.harms: dict[str, int] = {}
        self.killed: set[str] = set()
        """The victims of this round: `guests`, or a proxy's name."""
        self.hold_permissions = 0.0
        self._kills: dict[str, deque[float]] = {}
        self._handles: list[int] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._ids = itertools.count(1)
        self._idle: list[Session] = []
        self._after: dict[int | str, Callable[[Entry], None]] = {}

    # -- asking ------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        params: Json,
        entry: dict[str, Any],
        then: Callable[[Entry], None] | None = None,
    ) -> Entry:
        """Sends a request; ``entry`` are the fields of its `Entry`, ``then`` gets the answer."""
        number = next(self._ids)
        key: int | str = (number, f"c-{number}", -number)[number % 3]
        made = Entry(key, **entry)
        if then is not None:
            self._after[key] = then
        self.ledger.sent(made)
        self.wire.send({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
        return made

    def initialize(self) -> None:
        """The client's first word."""
        params = {"protocolVersion": 1, "clientCapabilities": {}}
        entry = self.request("initialize", params, {"what": "initialize"})
        self.until_answered([entry])
        if not entry.good:
            raise StuckError("initialize failed")

    def session(self) -> Session:
        """A session that nobody uses: an old one, or a new one."""
        while not self._idle:
            entry = self.request(
                "session/new", {"cwd": "/", "mcpServers": []}, {"what": "session/new"}
            )
            self.until_answered([entry])
            if entry.good:
                self._idle.append(Session(entry.answer["result"]["sessionId"]))
            elif not self.killed:
                raise StuckError(f"session/new failed: {entry.answer}")
        return self._idle.pop()

    def prompt(self, session: Session, turn: Turn) -> Entry:
        """Starts a turn. When it ends well, the turns after it follow, and the session is free."""
        expected: Expected = turn.expected()
        blocks = [{"type": "text", "text": turn.text}]
        fields = {
            "what": turn.what,
            "session": session.name,
            "expected": expected,
            "partial": turn.cancel_after is not None,
            "stop": "cancelled" if turn.cancel_after is not None and turn.sure else None,
        }
        place = len(session.prompts)
        session.prompts.append(turn.text)

        def ended(entry: Entry) -> None:
            if turn.cancel_after is not None:
                session.stopped.add(place)
            if not entry.good:  # the agent may still work on it; its session is used no more
                self.cancel(session)
            elif turn.more:
                name = turn.what.removeprefix("chat ").partition("/")[0]
                self.prompt(session, chat(f"{name}/{turn.more}", turn.more - 1))
            else:
                self._idle.append(session)

        entry = self.request(
            "session/prompt", {"sessionId": session.name, "prompt": blocks}, fields, ended
        )
        if turn.cancel_after is not None:
            self.later(turn.cancel_after, lambda: self.cancel(session))
        return entry

    def cancel(self, session: Session) -> None:
        """`session/cancel`."""
        params = {"sessionId": session.name}
        self.wire.send({"jsonrpc": "2.0", "method": "session/cancel", "params": params})

    # -- waiting -----------------------------------------------------------------------------

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Does something in so many seconds, while anything is waited for."""
        self._due.append((time.monotonic() + seconds, next(self._ids), action))
        self._due.sort(key=lambda one: one[:2])

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Serves the wire until ``done()``. Raises `StuckError` after the deadline."""
        last, seen = time.monotonic(), self.wire.lines
        while not done():
            now = time.monotonic()
            if self.wire.lines != seen:
                last, seen = now, self.wire.lines
            if now - last > DEADLINE or self.wire.ended:
                why = "the conductor ended" if self.wire.ended else "nothing came any more"
                raise StuckError(f"waited for {what}: {why}\n{self.wire.stderr[-1800:]}")
            self.wire.turn(min(0.05, self._do_due(now)))

    def serve(self, timeout: float) -> None:
        """Performs acts that are due and serves the wire once, for at most so many seconds."""
        self.wire.turn(min(timeout, self._do_due(time.monotonic())))

    @property
    def quiet(self) -> bool:
        """Whether nothing is open and nothing is due."""
        return not self.ledger.open and not self._due

    def until_answered(self, entries: Sequence[Entry]) -> None:
        """Waits for these."""
        what = ", ".join(entry.what for entry in entries)
        self.until(lambda: all(entry.answers for entry in entries), what)

    def until_quiet(self) -> None:
        """Waits until nothing is open, nothing is due, and all killed processes are gone."""
        self.until(lambda: self.quiet, "the end of the round")
        for handle in self._handles:
            self.until(lambda handle=handle: victims.gone(handle), "a killed process")  # type: ignore[misc]
            os.close(handle)
        self._handles.clear()

    def _do_due(self, now: float) -> float:
        """Performs acts that are due. Returns the seconds until the next act."""
        while self._due and self._due[0][0] <= now:
            self._due.pop(0)[2]()
        return max(0.0, self._due[0][0] - now) if self._due else DEADLINE

    # -- killing -----------------------------------------------------------------------------

    def kill(self, pid: int, name: str) -> None:
        """Kills a component, unless the chain would rightly give it up."""
        now = time.monotonic()
        kills = self._kills.setdefault(name, deque())
        while kills and now - kills[0] > _WINDOW:
            kills.popleft()
        if len(kills) < _BUDGET and (handle := victims.kill(pid)) is not None:
            kills.append(now)
            self._handles.append(handle)
            self.killed.add(name)
            self.count(f"kill {name.rstrip('0123456789')}")

    def count(self, what: str) -> None:
        """Counts something that was done to the chain."""
        self.harms[what] = self.harms.get(what, 0) + 1

    def explains(self, name: str) -> bool:
        """Whether a component of this name was killed in this round."""
        return name in self.killed or (name.startswith("guest") and "guests" in self.killed)

    # -- messages that come ------------------------------------------------------------------

    def _received(self, line: bytes) -> None:
        frame: Json = msgspec.json.decode(line)
        method = frame.get("method")
        if method == "session/update":
            content = frame["params"]["update"].get("content")
            if isinstance(content, dict):
                self.ledger.updated(frame["params"]["sessionId"], content.get("text", ""))
        elif method == "session/request_permission":
            self._permit(frame)
        elif method is None:
            entry = self.ledger.answered(frame["id"], frame, self.explains)
            if entry is not None and (then := self._after.pop(entry.key, None)) is not None:
                then(entry)
        elif "id" in frame:
            self.ledger.wrong(f"a request nobody expects: {line[:200]!r}")

    def _permit(self, frame: Json) -> None:
        key = frame["id"]
        self.ledger.asked(key, frame["params"]["sessionId"])
        result = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}

        def reply() -> None:
            self.ledger.replied(key)
            self.wire.send({"jsonrpc": "2.0", "id": key, "result": result})

        self.later(self.hold_permissions, reply)

    # -- the end --------------------------------------------------------------

    def idle_sessions(self) -> list[Session]:
        """Sessions nothing was done to, short enough to be compared."""
        return [s for s in self._idle if sum(map(len, s.prompts)) < _HISTORY]

    def release(self) -> None:
        """Whatever happened: nobody stays stopped, and the conductor ends."""
        for _, _, action in self._due:
            action()
        self._due.clear()
        self.wire.close()
        for handle in self._handles:
            os.close(handle)
