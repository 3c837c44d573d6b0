"""C of the rig: a scripted client over a process's three pipes.

One thread, one poll: nothing is read behind the test's back, so a client that does not read
(`reading = False`) really does not, and every wait has a deadline.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, Self

from tests.harness.process import forks
from tests.places import DEADLINE

Json = dict[str, Any]
Serve = Callable[[Json], Json]

FIRST_ID: Final = 1001
"""The id of the first request that is not given one."""

_CHUNK: Final = 1 << 20


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """Raised by a `serves` function to answer with an error; the argument is its raw JSON."""


class Client:
    """The process under test and everything it said, in arrival order."""

    hopeless: bytes | None = b"Traceback (most"
    """Text on standard error after which nothing is worth waiting for."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: IO[bytes] | None = None,
    ) -> None:
        """Starts `command` with pipes; `stdout` is a file that takes its output instead."""
        self.command = list(command)
        pipe = subprocess.PIPE
        streams = (pipe, pipe if stdout is None else stdout.fileno(), pipe)
        self.process = forks.start(self.command, env or os.environ, cwd, streams)
        self.lines: list[bytes] = []
        """Every line of standard output, raw, without its newline."""
        self.serves: dict[str, Serve | None] = {}
        """Answers to requests by method; None leaves them open, absent ones get -32601."""
        self.reading = True
        self.on_line: Callable[[bytes], None] = self._record
        self.errors = bytearray()
        """Standard error so far."""
        self._frames: list[Json] = []
        self._unsent = bytearray()
        self._rest: list[bytes] = []
        self._finishing = False
        self._turning = False
        self._last_id = FIRST_ID - 1
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self._in, self._out, self._err = (p.fileno() if p else -1 for p in pipes)
        os.set_blocking(self._in, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # -- sending -----------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        """Queues bytes as they are; as many as possible leave now."""
        self._unsent += data
        if not self._turning:  # else what is being read now comes first; it leaves next turn
            self._turn(0)

    def send(self, frame: Json) -> None:
        """Sends one frame."""
        self.send_bytes(json.dumps(frame, separators=(",", ":")).encode() + b"\n")

    def start(self, method: str, params: object = None, id: object = None) -> Any:  # noqa: A002
        """Sends a request and does not wait; its id."""
        if id is None:
            self._last_id += 1
            id = self._last_id  # noqa: A001
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})
        return id

    def request(self, method: str, params: object = None, id: object = None) -> Json:  # noqa: A002
        """Sends a request; the frame that answers it."""
        return self.answer(self.start(method, params, id))

    def notify(self, method: str, params: object = None) -> None:
        """Sends a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def eof(self) -> None:
        """Ends the process's standard input, once everything queued has left."""
        self._finishing = True
        self._turn(0)

    @property
    def unsent(self) -> int:
        """Bytes queued that the process has not taken yet."""
        return len(self._unsent)

    # -- waiting -----------------------------------------------------------------------------

    @property
    def frames(self) -> list[Json]:
        """Everything received that is JSON, decoded."""
        for line in self.lines[len(self._frames) :]:
            self._frames.append(_decode(line))
        return self._frames

    def until(self, done: Callable[[], object], what: str) -> None:
        """Waits until `done()`; fails after the deadline, or when nothing more can come."""
        deadline = time.monotonic() + DEADLINE
        while not done():
            left = deadline - time.monotonic()
            ended = self._out < 0 and self._err < 0
            broken = self.hopeless is not None and self.hopeless in self.errors
            if left <= 0 or ended or broken:
                why = "the process said its last" if ended else f"{DEADLINE:g} s are over"
                why = "it printed a traceback" if broken else why
                raise AssertionError(f"waited for {what}, but {why}{self.story()}")
            self._turn(left)

    def answer(self, id: object) -> Json:  # noqa: A002
        """Waits for the frame that answers the request `id`; there may be only one."""
        self.until(lambda: self.answers(id), f"the answer to {id!r}")
        (found,) = self.answers(id)
        return found

    def answers(self, id: object) -> list[Json]:  # noqa: A002
        """All answers to `id` so far."""
        return [f for f in self.frames if "method" not in f and _same(f.get("id"), id)]

    def expect(self, method: str, count: int = 1) -> Json:
        """Waits for the `count`-th request or notification of this method."""
        self.until(lambda: len(self.seen(method)) >= count, f"{count} x {method}")
        return self.seen(method)[count - 1]

    def seen(self, method: str) -> list[Json]:
        """All requests and notifications of this method so far."""
        return [f for f in self.frames if f.get("method") == method]

    def settled(self) -> None:
        """Returns when everything sent before has gone through the whole chain and back.

        A request nobody knows is the fence: order holds on every hop, so its answer comes last.
        """
        fence = self.request("_rig/fence")
        assert fence["error"]["code"] == -32601, fence

    def exit_code(self) -> int:
        """Waits until the process has ended and said all it had to say; its exit code."""
        self.until(lambda: self._out < 0 and self._err < 0, "the end of the process")
        return self.process.wait(DEADLINE)

    def finish(self) -> int:
        """Ends the conversation as an editor does; the exit code."""
        self.eof()
        return self.exit_code()

    @property
    def output_ended(self) -> bool:
        """Whether its standard output is closed and read to the end."""
        return self._out < 0

    @property
    def stderr(self) -> str:
        """Standard error so far."""
        return self.errors.decode(errors="replace")

    def until_stderr(self, text: str, count: int = 1) -> None:
        """Waits until standard error holds `text` so often."""
        self.until(lambda: self.stderr.count(text) >= count, f"{text!r} on standard error")

    def story(self) -> str:
        """The talk so far, for a failing test."""
        last = b"\n  ".join(line[:300] for line in self.lines[-8:]).decode(errors="replace")
        return (
            f"\ncommand: {self.command}\nlast lines:\n  {last}\n"
            f"exit code: {self.process.poll()}\nstderr:\n{self.stderr[-4000:]}"
        )

    def abandon(self) -> None:
        """Closes both ends without a word, as an editor that crashed."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._in = self._out = -1

    def kill(self) -> None:
        """Ends the process, whatever state it is in, and gives the pipes back."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self._in = self._out = self._err = -1

    # -- inside ------------------------------------------------------------------------------

    def _turn(self, timeout: float) -> None:
        poll = select.poll()
        for fd, events in self.interests().items():
            poll.register(fd, events)
        self.move(fd for fd, _ in poll.poll(timeout * 1000))

    def interests(self) -> dict[int, int]:
        """The descriptors that it waits for, and the events of each."""
        if self._finishing and not self._unsent and self._in >= 0:
            self._close_input()
        found = {}
        if self._unsent and self._in >= 0:
            found[self._in] = select.POLLOUT
        if self._out >= 0 and self.reading:
            found[self._out] = select.POLLIN
        if self._err >= 0:
            found[self._err] = select.POLLIN
        return found

    def move(self, ready: Iterable[int]) -> None:
        """Moves bytes over descriptors that are ready."""
        self._turning = True
        try:
            for fd in ready:
                self._move(fd)
        finally:
            self._turning = False

    def _move(self, fd: int) -> None:
        if fd == self._in:
            self._write()
        elif fd == self._out:
            self._read()
        else:
            data = os.read(fd, _CHUNK)
            self.errors += data
            if not data:
                self._err = -1

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._in, self._unsent)]
        except BrokenPipeError:  # it ended: what it does not take any more is no failure
            self._unsent.clear()
            self._close_input()

    def _close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._in = -1

    def _read(self) -> None:
        data = os.read(self._out, _CHUNK)
        if not data:
            self._out = -1
            if self._rest:
                raise AssertionError(f"an unfinished last line: {b''.join(self._rest)[:300]!r}")
            return
        first, newline, others = data.partition(b"\n")
        self._rest.append(first)
        if not newline:
            return
        *lines, last = others.split(b"\n")
        head = b"".join(self._rest)
        self._rest = [last] if last else []
        for line in (head, *lines):
            self.on_line(line)

    def _record(self, line: bytes) -> None:
        self.lines.append(line)
        frame = _decode(line)
        if "method" in frame and "id" in frame:
            self._serve(frame)

    def _serve(self, frame: Json) -> None:
        method, head = frame["method"], {"jsonrpc": "2.0", "id": frame["id"]}
        if method not in self.serves:
            error = {"code": -32601, "message": "Method not found"}
            self.send({**head, "error": error})
            return
        serve = self.serves[method]
        if serve is None:
            return
        try:
            self.send({**head, "result": serve(frame.get("params", {}))})
        except Refusal as refusal:
            text = json.dumps(head)[:-1] + f', "error": {refusal}}}'
            self.send_bytes(text.encode() + b"\n")


def _decode(line: bytes) -> Json:
    try:
        frame = json.loads(line)
    except ValueError as error:
        raise AssertionError(f"not JSON on standard output: {line[:300]!r}") from error
    return frame if isinstance(frame, dict) else {"batch": frame}


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other
