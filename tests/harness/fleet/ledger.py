"""The account of the clients of numbering agents: each request is answered once, each update comes
once and in order, and nothing comes of a life that is over (`tests.e2e.actors.numbering_agent`).

Pure bookkeeping: an editor reports the messages that it sends and gets.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

META: Final = "example.com/turn"


@dataclass(slots=True)
class Turn:
    """A prompt."""

    session: str
    n: int
    life: str = ""
    """The life of the agent that answers the prompt."""
    updates: int = 0
    answers: int = 0
    error: Json | None = None
    left: bool = False
    """Whether the client has lost the link, and cannot hear the answer."""

    @property
    def is_open(self) -> bool:
        """Whether the prompt waits for its answer."""
        return not self.answers and not self.left


@dataclass(slots=True)
class _Session:
    """The record of one session, as its client has seen it."""

    lives: list[str] = field(default_factory=list)
    """The lives that answered, each once, in the order in which they came."""
    turns: dict[int, Turn] = field(default_factory=dict)
    loading: bool = False


class Ledger:
    """The messages that pass at one editor, or at many.

    Attributes:
        faults: What must not be, in words.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.turns: list[Turn] = []
        self.counts: Counter[str] = Counter()
        self._sessions: dict[str, _Session] = {}

    # -- what the editor does --------------------------------------------------------------------

    def opened(self, session: str) -> None:
        """A session is there."""
        self._sessions.setdefault(session, _Session())

    def loads(self, session: str, loading: bool) -> None:
        """The editor loads a session itself: its history comes, until it is loaded."""
        self._sessions[session].loading = loading

    def prompted(self, session: str) -> Turn:
        """The next prompt of a session."""
        of = self._sessions[session]
        turn = Turn(session, len(of.turns) + 1)
        of.turns[turn.n] = turn
        self.turns.append(turn)
        return turn

    def lost_link(self, session: str) -> None:
        """A client without a link that comes back: open prompts get no answer."""
        for turn in self._sessions[session].turns.values():
            turn.left = turn.left or turn.is_open

    # -- what comes ------------------------------------------------------------------------------

    def update(self, session: str, text: str) -> None:
        """An update."""
        of = self._sessions.get(session)
        if of is None:
            self._fault(f"an update of the unknown session {session}")
            return
        said = json.loads(text)
        if of.loading:
            self.counts["history"] += 1
            return
        if said["i"] == 0:
            self._fault(f"{session}: what a loaded session says of its history: {text[:120]}")
            return
        turn = of.turns.get(said["n"])
        if turn is None:
            self._fault(f"{session}: an update of prompt {said['n']}, which nobody sent")
            return
        self.counts["updates"] += 1
        self._lives(of, turn, said["life"])
        if turn.error is not None and said["i"] > turn.updates:
            # Its answer got lost with a gateway, and the turn goes on: whoever loads the session
            # hears it from there on.
            self.counts["behind an error"] += 1
            if said["i"] != turn.updates + 1 and not turn.left:
                self._fault(f"{_name(turn)}: update {said['i']} behind {turn.updates} was missed")
        elif turn.answers:
            self._fault(f"{_name(turn)}: update {said['i']} behind the answer")
        elif said["i"] != turn.updates + 1 and not turn.left:
            self._fault(f"{_name(turn)}: update {said['i']} behind {turn.updates}")
        turn.updates = said["i"]

    def answered(self, turn: Turn, frame: Json) -> None:
        """The answer to a prompt."""
        turn.answers += 1
        if turn.answers > 1:
            self._fault(f"{_name(turn)}: answered {turn.answers} times")
            return
        if "error" in frame:
            turn.error = frame["error"]
            self.counts["errors"] += 1
            return
        self.counts["results"] += 1
        meta = frame["result"]["_meta"][META]
        self._lives(self._sessions[turn.session], turn, meta["life"])
        if meta["n"] != turn.n:
            self._fault(f"{_name(turn)}: the answer to prompt {meta['n']}")
        if meta["updates"] != turn.updates:
            self._fault(f"{_name(turn)}: {turn.updates} of {meta['updates']} updates came")

    def _lives(self, of: _Session, turn: Turn, life: str) -> None:
        if turn.life and turn.life != life:
            self._fault(f"{_name(turn)}: first of {turn.life}, then of {life}")
        turn.life = life
        if life not in of.lives:
            of.lives.append(life)
        elif life != of.lives[-1]:
            self._fault(f"{_name(turn)}: {life} is dead, {of.lives[-1]} came after it")

    def _fault(self, text: str) -> None:
        self.counts["faults"] += 1
        if len(self.faults) < 50:
            self.faults.append(text)

    # -- the end ---------------------------------------------------------------------------------

    @property
    def open(self) -> list[Turn]:
        """Prompts that wait for their answers."""
        return [turn for turn in self.turns if turn.is_open]

    def close(self, *folders: Path) -> None:
        """Compares with the records of the agents of these folders; no more messages come."""
        for turn in self.open:
            self._fault(f"{_name(turn)}: no answer")
        begun: Counter[tuple[str, int]] = Counter()
        ended: set[tuple[str, int]] = set()
        for record in records(*folders):
            key = record["session"], record["n"]
            if record["what"] == "prompt":
                begun[key] += 1
            elif record["what"] == "end":
                ended.add(key)
        for (session, n), count in begun.items():
            if count > 1 and session in self._sessions:
                self._fault(f"prompt {n} of {session}: it reached agents {count} times")
        for turn in self.turns:
            if turn.answers and turn.error is None and (turn.session, turn.n) not in ended:
                self._fault(f"{_name(turn)}: a result that no agent sent")


def records(*folders: Path) -> list[Json]:
    """The entries that agents wrote to their records."""
    return [
        json.loads(line)
        for folder in folders
        if (folder / "lives").exists()
        # The line after the last newline is still being written.
        for line in (folder / "lives").read_bytes().split(b"\n")[:-1]
    ]


def _name(turn: Turn) -> str:
    return f"prompt {turn.n} of {turn.session}"
