"""A component as a subprocess, speaking on its standard input and output.

This module is loaded before the event loop exists, so that processes start while the rest of the
program is still being imported; `spawn` needs no loop, `open` does.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from conductor import children
from conductor.errors import ComponentError, PrivateKeys, agrees, counted, hidden
from conductor.transports import descriptors
from conductor.transports.base import LINGER, Ended, Events, Piped
from conductor.transports.buffers import enlarge_pipe
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.process_groups import Guardian

if TYPE_CHECKING:
    import asyncio

    from conductor.transports.fds import FdReader

_TAIL_LINES: Final = 20
_TAIL_BYTES: Final = 4096
_LINES: Final = 1000
"""The lines of standard error that are shown in a second."""
_BURST: Final = 5
"""The seconds for which unused lines may be saved up."""


class _Stage(enum.Enum):
    """The state of a process; it moves downwards only."""

    NEW = 0
    """Not carrying lines yet, though the process may run already."""
    OPEN = 1
    """Carrying lines."""
    ENDED = 2
    """The end has been reported, or `close` was called: then the owner expects the end."""
    CLOSED = 3
    """Nothing of it is left."""


class Stderr:
    """The lines of a process's standard error: shown, as far as their rate allows, and the last of
    them kept to explain its end."""

    def __init__(self, show: Callable[[str], None] | None) -> None:
        self._show = show
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._keys = PrivateKeys()
        self._torn = False
        """Whether lines of the private key were left out that is being written."""
        self._allowance = float(_LINES * _BURST)
        """How many lines may be shown, as of `_counted`."""
        self._counted = 0.0
        self._left_out = 0

    def tail(self) -> list[str]:
        """The last lines without private keys, at most 4 KiB of them."""
        lines = list(self._tail)
        while lines and sum(map(len, lines)) > _TAIL_BYTES:
            lines.pop(0)
        return lines

    def take(self, lines: list[bytes]) -> None:
        """Shows lines, or counts them as left out."""
        now = time.monotonic()
        saved = self._allowance + (now - self._counted) * _LINES
        self._allowance, self._counted = min(saved, _LINES * _BURST), now
        may = int(self._allowance)
        if may and lines and self._left_out:
            were = f"{counted(self._left_out, 'line')} {agrees(self._left_out, 'was', 'were')}"
            self._write(f"({were} left out: more than {_LINES} a second)")
            self._left_out = 0
        if len(lines) > may + _TAIL_LINES and not self._keys.concerns(lines):
            # A flood: lines that are neither shown nor kept are not even read.
            self._left_out += len(lines) - may - _TAIL_LINES
            lines = [*lines[:may], *lines[-_TAIL_LINES:]]
        for at, line in enumerate(lines):
            text = _text(line)
            quoted = self._keys.without(text)
            if quoted is not None:
                self._tail.append(quoted)
            # Without its first line nobody would recognise the rest of a private key.
            self._torn = quoted != text and (self._torn or at >= may)
            if at < may and not self._torn:
                self._write(text)
            else:
                self._left_out += 1
        self._allowance -= min(may, len(lines))

    def _write(self, text: str) -> None:
        if self._show is not None:
            self._show(text)


def _text(line: bytes) -> str:
    # Errors have these lines among their data too, which no terminal sees but a client does.
    return hidden(line.decode(errors="replace").rstrip())


class StartedProcess(Protocol):
    """The part of `subprocess.Popen` that a process started by other means must have."""

    pid: int
    stdin: int
    stdout: int
    stderr: int
    returncode: int | None

    def wait(self) -> int:
        """Reaps the process; its exit code, negative for a signal."""

    def kill(self) -> None:
        """Ends the process at once."""


class ProcessTransport(Piped):
    """One subprocess in a session of its own, watched over by a guardian."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        guardian: Guardian | None = None,
        on_stderr: Callable[[str], None] | None = None,
        line_limit: int = LINE_LIMIT,
        first_line: bytes = b"",
        adopt: StartedProcess | None = None,
        shown: str | None = None,
    ) -> None:
        """
        Args:
            command: The program and its arguments.
            env: The whole environment; None: the part of this process's that programs get.
            cwd: The folder it starts in; None: this process's.
            guardian: Ends the process's group should this process be killed.
            on_stderr: Called with each line of standard error that is shown.
            line_limit: Bytes of a line, at most.
            first_line: Written before anything else, when the process is started.
            adopt: A process that runs `command` already.
            shown: The text that people read instead of the command.
        """
        super().__init__()
        self._shown = shown
        self._adopt = adopt
        self.command = list(command)
        self._env = env
        self._cwd = cwd
        self._guardian = guardian
        self._limit = line_limit
        self._first_line = first_line
        self._state = _Stage.NEW
        self._process: subprocess.Popen[bytes] | StartedProcess | None = None
        self.stderr = Stderr(on_stderr)
        self._stderr_reader: FdReader | None = None
        self._exit: asyncio.Future[None] | None = None
        self._pidfd = -1

    @property
    def pid(self) -> int | None:
        """The id of the process; None before it is started."""
        return None if self._process is None else self._process.pid

    # -- starting ----------------------------------------------------------------------------

    def spawn(self) -> None:
        """Starts the process. Raises `ComponentError` if it cannot be started."""
        if self._process is not None:
            return
        if self._adopt is not None:
            self._process = self._adopt
            self._prepare(self._adopt.pid, self._adopt.stdin, self._adopt.stdout)
            return
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env if self._env is not None else children.inherited(),
                cwd=self._cwd,
                start_new_session=True,
                bufsize=0,
                **children.identity(),
            )
        except OSError as error:
            raise ComponentError(
                f"cannot start `{self.describe()}`: {error.strerror or error}",
                # A system that finds the file says this of the program in its first line.
                "check the first line of that file: it names the program that runs it"
                if error.errno in (errno.ENOENT, errno.ENOEXEC) and os.path.isfile(self.command[0])
                else "check that the program is installed and on PATH",
                {"command": self.describe()},
            ) from None
        except ValueError:  # its text may show a variable's value
            raise ComponentError(
                f"cannot start `{self.describe()}`: no program takes such words or variables",
                "look for characters that nobody sees, and for half of an emoji",
                {"command": self.describe()},
            ) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pipes = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._prepare(self._process.pid, *pipes)

    def _prepare(self, pid: int, stdin: int, stdout: int) -> None:
        enlarge_pipe(stdin)
        enlarge_pipe(stdout)
        descriptors.restore(pid)
        if self._guardian is not None:
            self._guardian.add(pid)
        if self._first_line:
            with contextlib.suppress(OSError):  # it has died already: `open` will report that
                os.write(stdin, self._first_line)

    async def open(self, events: Events) -> None:
        """Starts the process if that has not happened yet, and carries lines from now on."""
        import asyncio

        from conductor.transports.fds import FdReader, FdWriter

        self.spawn()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._events, self._state = events, _Stage.OPEN
        self._exit = asyncio.get_running_loop().create_future()
        writer = FdWriter(
            _take(process.stdin),
            events.drained,
            lambda _: self._half_closed("closed its standard input"),
        )
        self._stderr_reader = FdReader(
            _take(process.stderr), 64 * 1024, self.stderr.take, _ignore, _ignore, unhurried=True
        )
        reader = FdReader(
            _take(process.stdout),
            self._limit,
            events.received,
            events.oversized,
            lambda _: self._half_closed("closed its standard output"),
        )
        self._watch()
        self._carry(reader, writer)

    def _watch(self) -> None:
        import asyncio

        assert self._process is not None
        loop = asyncio.get_running_loop()
        pid = self._process.pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except (AttributeError, OSError):  # not Linux
            import threading

            def wait() -> None:
                with contextlib.suppress(ChildProcessError):  # somebody has taken its exit code
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                with contextlib.suppress(RuntimeError):  # the loop has ended before
                    loop.call_soon_threadsafe(self._exited)

            # The loop has few threads of its own, and file writes there would wait.
            threading.Thread(target=wait, daemon=True).start()
        else:
            loop.add_reader(self._pidfd, self._exited)

    # -- ending ------------------------------------------------------------------------------

    def describe(self) -> str:
        """The command as a person would type it."""
        import shlex

        return self._shown or shlex.join(self.command)

    def hear(self) -> None:
        """Takes the process's standard error so far: as much as fits into a pipe."""
        if self._stderr_reader is not None:
            self._stderr_reader.read()

    def _half_closed(self, text: str) -> None:
        """One of its pipes is closed: normally because the process is about to end."""
        import asyncio

        asyncio.get_running_loop().call_later(LINGER, self._report, text)

    def _exited(self) -> None:
        if self._pidfd >= 0:
            import asyncio

            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        stdout, stderr = self._reader, self._stderr_reader
        assert stdout is not None
        assert stderr is not None
        # Its last lines are still in the pipes, even if backpressure has paused us.
        stdout.drain(lambda: stderr.drain(self._gone))

    def _gone(self) -> None:
        """It has ended, and its last lines have been taken."""
        if self._exit is not None and not self._exit.done():
            self._exit.set_result(None)
        self._report("")

    def _report(self, text: str) -> None:
        if self._state is not _Stage.OPEN:
            return
        assert self._events is not None
        self._state = _Stage.ENDED
        self.hear()
        code = self._exit_code() if self._exit is not None and self._exit.done() else None
        if code is not None:
            text = _exit_text(code)
        data: dict[str, object] = {"command": self.describe(), "exitCode": code}
        tail = self.stderr.tail()
        if tail:
            data["stderr"] = tail
        self._events.ended(Ended(text, clean=code == 0, data=data))

    def _exit_code(self) -> int | None:
        """The exit code of an ended process, read without reaping it.

        The zombie keeps its process group's number from being reused until `close` is done.
        """
        assert self._process is not None
        try:
            info = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return self._process.returncode
        if info is None:
            return None
        return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status

    async def close(self, grace: float) -> None:
        """Ends the process and its whole group: end of file, then SIGTERM, then SIGKILL."""
        import asyncio

        from conductor.transports import process_groups

        process = self._process
        if process is None or self._state is _Stage.CLOSED:
            return
        self._state = _Stage.ENDED
        if self._exit is None:  # never opened
            process.kill()
            process.wait()
        else:
            # Gentle steps first: a program may have files to write, and a shell wrapper passes
            # neither its end of file nor a signal on, hence the whole group for each signal.
            self.finish()
            for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
                if signal_number is not None:
                    process_groups.signal(process.pid, signal_number)
                await asyncio.wait((self._exit,), timeout=grace)
                if self._exit.done():
                    break
            # Before `wait`: once the process is reaped, its group's number may be somebody else's.
            await process_groups.end(process.pid, grace)
            process.wait()
        for end in (self._reader, self._stderr_reader, self._writer):
            if end is not None:
                end.close()
        if self._guardian is not None:
            self._guardian.remove(process.pid)
        self._state = _Stage.CLOSED


def _take(pipe: object) -> int:
    """The descriptor of a Popen pipe, which no longer closes it."""
    if isinstance(pipe, int):
        return pipe
    fd = os.dup(pipe.fileno())  # type: ignore[attr-defined]
    pipe.close()  # type: ignore[attr-defined]
    return fd


def _ignore(*_: object) -> None:
    """Ends and oversized lines of standard error need no reaction."""


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
