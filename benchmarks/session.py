"""One chain alive, driven through the native client (``native/client.c``)."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

from benchmarks import proctree

_TAIL_BYTES = 2000


class ChainError(Exception):
    """A chain failed; the text has the event, the exit code and the end of stderr."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The result of a stream's updates."""

    lost: int
    doubled: int
    disordered: int


class Session:
    """Spawns the client with a chain's command, or the address of a server, and speaks the
    client's line protocol.

    A context manager: entering it initializes the chain, leaving it ends the chain and
    everything below it, whatever happened. All times are nanoseconds.
    """

    def __init__(
        self, client: Path, command: Sequence[str], env: Mapping[str, str], limit_s: int
    ) -> None:
        self._command = [str(client), str(limit_s), *command]
        self._env = dict(env)
        self._limit_s = limit_s
        # Not a pipe: a chain that talks much must not wait for somebody to listen.
        self._stderr = TemporaryFile()  # noqa: SIM115 - closed in _end with the rest
        self.ready_ns = 0
        #: Updates that came after the answer that should have closed their turn.
        self.late = 0
        #: Whether processes outlived the chain's first one by more than a second.
        self.leftovers = False

    def __enter__(self) -> Self:
        # A session of its own, so that Ctrl-C ends the harness first and it the chain.
        self._client = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=self._env,
            start_new_session=True,
        )
        try:
            self.ready_ns = int(self._answer()["ready_ns"])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    @property
    def client_pid(self) -> int:
        """The root of the process tree; the client itself, so not to be counted."""
        return self._client.pid

    def open(self) -> None:
        """Sends ``session/new``; later requests go to this session."""
        self._ask("session")

    def blocks(self) -> int:
        """The number of blocks of a prompt of one block when the agent gets it."""
        return int(self._ask("blocks")["blocks"])

    def trips(self, count: int, size: int) -> list[int]:
        """``count`` prompts of ``size`` bytes, each answered without an update: their times."""
        return [int(sample) for sample in self._ask(f"trips {count} {size}")["trips_ns"]]

    def other(self) -> int:
        """A request that is no prompt, and its answer: how long that took."""
        return int(self._ask("other")["elapsed_ns"])

    def turns(self, count: int, size: int) -> list[int]:
        """``count`` prompts of ``size`` bytes, each echoed in one update: their times."""
        return [int(sample) for sample in self._ask(f"turns {count} {size}")["trips_ns"]]

    def many(self, sessions: int, count: int, size: int) -> int:
        """``count`` such turns in each of so many new sessions at once: how long all took."""
        return int(self._ask(f"many {sessions} {count} {size}")["elapsed_ns"])

    def stream(self, count: int, size: int, pace: int = 0) -> int:
        """One prompt answered by ``count`` updates of ``size`` bytes of text: its duration.

        The agent writes ``pace`` updates a second, or as fast as it can.
        """
        return self._streamed(f"stream {count} {size} {pace}")

    def begin_tally(self, count: int, size: int) -> None:
        """Asks for such a stream; ``tally`` returns its result."""
        self._send(f"tally {count} {size}")

    def tally(self) -> Tally:
        """The updates that have come, once the stream's request is answered."""
        answer = self._answer()
        return Tally(*(int(answer[name]) for name in ("lost", "doubled", "disordered")))

    def hold(self, count: int, size: int) -> None:
        """Asks for such a stream; the client reads nothing of it until ``drain``."""
        self._ask(f"hold {count} {size}")

    def drain(self) -> int:
        """Reads the stream of ``hold`` to its end. Returns the time it took."""
        return self._streamed("drain")

    def _streamed(self, command: str) -> int:
        answer = self._ask(command)
        self.late += int(answer["late"])
        return int(answer["elapsed_ns"])

    def stop(self) -> int:
        """Closes the chain's input and waits: its exit code, or minus the signal."""
        answer = self._ask("stop")
        self.leftovers = bool(answer["left"])
        return int(answer["exit"])

    def _ask(self, command: str) -> dict[str, Any]:
        self._send(command)
        return self._answer()

    def _send(self, command: str) -> None:
        assert self._client.stdin is not None
        try:
            self._client.stdin.write(command.encode() + b"\n")
            self._client.stdin.flush()
        except BrokenPipeError as error:
            raise ChainError(self._explain("the client is gone")) from error

    def _answer(self) -> dict[str, Any]:
        # The client keeps the deadlines of the chain; it always answers or ends.
        assert self._client.stdout is not None
        line = self._client.stdout.readline()
        if not line:
            raise ChainError(self._explain("the client ended without an answer"))
        answer = json.loads(line)
        if "error" in answer:
            raise ChainError(self._explain(f"{answer['error']} (exit code {answer['exit']})"))
        assert isinstance(answer, dict)
        return answer

    def _explain(self, what: str) -> str:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - _TAIL_BYTES))
        tail = self._stderr.read().decode(errors="replace").strip()
        return f"{what}\n{tail}" if tail else what

    def _descendants(self) -> list[int]:
        return proctree.descendants(self._client.pid) if proctree.SUPPORTED else []

    def _end(self) -> None:
        """Leaves nothing running: the client is the tree's reaper, so it goes last."""
        for pid in self._descendants():
            with suppress(ProcessLookupError):  # it may end by itself in between
                os.kill(pid, signal.SIGKILL)
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        with suppress(BrokenPipeError):  # a command that a dead client never read
            self._client.stdin.close()
        try:
            self._client.wait(timeout=self._limit_s)
        except subprocess.TimeoutExpired:
            self._client.kill()
            self._client.wait()
        self._client.stdout.close()
        self._stderr.close()
