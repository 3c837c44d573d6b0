"""Runs `python -m MODULE ARGUMENT…` as a copy of a process that has loaded the module already.

Loading the command line takes 0.1 to 0.5 s of CPU, and the tests start it two thousand times. A
copy is a process with arguments, variables, folder and streams of its own. Python, its loader and
some libraries read variables when they start, so a test that sets such a variable gets a new
process. With `pytest --long`, or the variable `NO_COPIES`, all processes are new.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final

from tests.places import DEADLINE, ROOT

_MODULES: Final = ("conductor", "tests.harness.process.managed")
"""The modules that a copy may run."""
_LOADED: Final = ("conductor.cli", "conductor.run", "conductor.spec", "conductor.record")
"""The packages whose modules are loaded, with all that these import."""
_LAZY: Final = ("typer._adapters", "rich.console", "wasmtime", "uvloop", "tomlkit")
"""Modules that libraries, and functions of conductor, import at their first use."""
_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "DYLD_", "MALLOC", "FORCE_", "PY_", "TERM")
"""Beginnings of the names of variables that count when a process starts."""


def fits(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a copy runs as the command does."""
    if os.environ.get("NO_COPIES"):
        return False
    is_ours = tuple(command[:2]) == (sys.executable, "-m") and command[2] in _MODULES
    ours = _at_start({**os.environ, "PYTHONPATH": str(ROOT)})
    return is_ours and _at_start(env) == ours and _network() == _NETWORK


def _network() -> str:
    """The network that this thread is in (Linux); empty: it is in that of all."""
    try:
        return os.readlink("/proc/thread-self/ns/net")
    except OSError:
        return ""


_NETWORK: Final = _network()
"""Where the original is: a test can be on a machine of its own."""


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in env.items() if name.startswith(_AT_START)}


class Copy:
    """A command that `fits`, while it runs: what tests call of `subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        streams: Sequence[int],
        *,
        leads: bool,
    ) -> None:
        self.command = command
        self.returncode: int | None = None
        (its_in, self.stdin), (its_out, self.stdout), (its_err, self.stderr) = map(
            _ends, streams, _MODES
        )
        self._line, its_line = socket.socketpair()
        with its_line:
            socket.send_fds(_original(), [b"+"], [its_line.fileno(), its_in, its_out, its_err])
        for fd in (its_in, its_out, its_err):
            os.close(fd)
        module, arguments = command[2], command[3:]
        what = {"module": module, "arguments": arguments, "cwd": cwd, "env": dict(env)}
        self._told = self._line.makefile("rw")
        print(json.dumps({**what, "leads": leads}), file=self._told, flush=True)
        self.pid = int(self._told.readline())

    def poll(self) -> int | None:
        """The exit code of the process, once it has ended."""
        if self.returncode is None and select.select([self._line], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; its exit code. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self._line], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.command, timeout or 0.0)
            self.returncode = int(self._told.readline())
            self._told.close()
            self._line.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends it a signal, if it has not ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and has not said so yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills it, if it has not ended."""
        self.send_signal(signal.SIGKILL)


Process = Copy | subprocess.Popen[bytes]
_MODES: Final = ("wb", "rb", "rb")
"""How tests open the other ends of standard input, output and error."""


def start(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path | None = None,
    streams: tuple[int, int, int] = (subprocess.PIPE,) * 3,
    *,
    leads: bool = False,
) -> Process:
    """Starts a command: as a copy, if it `fits`. `leads`: a session of its own."""
    if fits(command, env):
        return Copy(command, env, str(cwd or Path.cwd()), streams, leads=leads)
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=env,
        cwd=cwd,
        bufsize=0,
        start_new_session=leads,
    )


def run(
    command: Sequence[str], stdin: bytes, cwd: Path | None, env: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """Runs a command to its end: its exit code, its output, its errors.

    Raises:
        subprocess.TimeoutExpired: It took longer than the deadline of tests, and was killed.
    """
    process = start(command, env, cwd)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr, ThreadPoolExecutor(3) as threads:
        threads.submit(_write, process.stdin, stdin)
        texts = [threads.submit(each.read) for each in (process.stdout, process.stderr)]
        try:
            code = process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        output, errors = (text.result() for text in texts)
    return code, output, errors


def _ends(wanted: int, mode: str) -> tuple[int, IO[bytes] | None]:
    """A copy's end of a stream, and of a pipe the other one."""
    if wanted == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if wanted != subprocess.PIPE:
        return os.dup(wanted), None
    read, write = os.pipe()
    its, others = (read, write) if mode == "wb" else (write, read)
    return its, open(others, mode, buffering=0)


def _write(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(data)


# -- the original ------------------------------------------------------------------------------


class _Original:
    """The process that is copied, and the socket on which it is asked for copies."""

    def __init__(self) -> None:
        self.asked, asks = socket.socketpair()
        with asks:
            command = [sys.executable, "-m", __name__]
            self.process = subprocess.Popen(command, stdin=asks.fileno(), cwd=ROOT)
        atexit.register(self.end)

    def end(self) -> None:
        """Lets it end."""
        self.asked.close()
        self.process.wait()


_running: Final[list[_Original]] = []
"""The original, once a copy was asked for."""


def _original() -> socket.socket:
    """Where copies are asked for. A chain that ran in this process has ended all its children."""
    while _running and _running[-1].process.poll() is not None:
        _running.pop().end()
    if not _running:
        _running.append(_Original())
    return _running[-1].asked


def _serve(asks: socket.socket) -> None:
    for name in _LOADED:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    for name in _LAZY:
        importlib.import_module(name)
    gc.freeze()
    lines: dict[int, socket.socket] = {}
    woken, wakes = socket.socketpair()
    woken.setblocking(False)
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)  # else nothing is written there
    while True:
        ready = select.select([asks, woken], [], [])[0]
        if woken in ready:
            woken.recv(4096)
            _tell_ended(lines)
        if asks in ready:
            fds = socket.recv_fds(asks, 1, 4)[1]
            if not fds:
                return
            line, streams = socket.socket(fileno=fds[0]), fds[1:]
            with line.makefile() as asked:
                what = json.loads(asked.readline())
            if not (pid := os.fork()):
                for each in (line, asks, woken, wakes, *lines.values()):
                    each.close()
                _become(streams, **what)
            for fd in streams:
                os.close(fd)
            lines[pid] = line
            line.sendall(b"%d\n" % pid)


def _tell_ended(lines: dict[int, socket.socket]) -> None:
    """Tells who asked for them how copies have ended."""
    while lines:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with lines.pop(pid) as line, contextlib.suppress(BrokenPipeError):
            line.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(
    streams: Sequence[int],
    module: str,
    arguments: list[str],
    cwd: str,
    env: dict[str, str],
    leads: bool,
) -> None:
    """Runs as `python -m MODULE ARGUMENT…` does; `leads`: in a session of its own."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if leads:
        os.setsid()
    for wanted, fd in enumerate(streams):
        os.dup2(fd, wanted)
        os.close(fd)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False))),
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False))),
        io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
            errors="backslashreplace",
            line_buffering=True,
        ),
    )
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[:1] = [cwd, str(ROOT)]
    sys.orig_argv = [sys.executable, "-m", module, *arguments]
    sys.argv = ["", *arguments]
    code = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=0))
