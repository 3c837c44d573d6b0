"""Runs `python -m MODULE ARGUMENT…` as a copy of a process that has loaded the module already.

Loading the command line takes 0.3 to 0.5 s of CPU, and the tests run it a thousand times. A copy is
a process with arguments, variables, folder and streams of its own. Python, its loader and some
libraries read variables when they start, so a test that sets such a variable gets a new process.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.places import DEADLINE, ROOT

_MODULES: Final = ("conductor", "tests.harness.process.managed")
"""The modules that a copy may run."""
_LOADED: Final = ("conductor.cli", "conductor.run", "conductor.spec", "conductor.record")
"""The packages whose modules are loaded, with all that these import."""
_LAZY: Final = ("typer._adapters", "rich.console", "wasmtime", "uvloop", "tomlkit")
"""What libraries, and functions of conductor, import at their first use."""
_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "DYLD_", "MALLOC", "FORCE_", "PY_", "TERM")
"""Beginnings of the names of variables that count when a process starts."""


def fits(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a copy runs as the command does."""
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


def run(
    command: Sequence[str], stdin: bytes, cwd: str, env: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command that `fits` to its end.

    Raises:
        subprocess.TimeoutExpired: It took longer than the deadline of tests, and was killed.
    """
    line, its_line = socket.socketpair()
    (its_in, given), (out, its_out), (err, its_err) = os.pipe(), os.pipe(), os.pipe()
    with its_line:
        fds = [its_line.fileno(), its_in, its_out, its_err]
        socket.send_fds(_original(), [b"+"], fds)
    for fd in (its_in, its_out, its_err):
        os.close(fd)
    what = {"module": command[2], "arguments": command[3:], "cwd": cwd, "env": dict(env)}
    with line, line.makefile("rw") as told, ThreadPoolExecutor(3) as threads:
        print(json.dumps(what), file=told, flush=True)
        pid = int(told.readline())
        threads.submit(_write, given, stdin)
        texts = [threads.submit(_read, each) for each in (out, err)]
        line.settimeout(DEADLINE)
        try:
            code = int(told.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(command, DEADLINE) from None
        output, errors = (text.result() for text in texts)
    return subprocess.CompletedProcess(command, code, output, errors)


def _write(fd: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(fd, "wb") as pipe:
        pipe.write(data)


def _read(fd: int) -> bytes:
    with open(fd, "rb") as pipe:
        return pipe.read()


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


@functools.cache
def _first() -> list[_Original]:
    return [_Original()]


def _original() -> socket.socket:
    """Where copies are asked for. A chain that ran in this process has ended all its children."""
    found = _first()
    if found[0].process.poll() is not None:
        found[0].end()
        found[0] = _Original()
    return found[0].asked


def _serve(asks: socket.socket) -> None:
    for name in _LOADED:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    for name in _LAZY:
        importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that keep copies
    while fds := socket.recv_fds(asks, 1, 4)[1]:
        if not os.fork():
            asks.close()
            _keep(*fds)
        for fd in fds:
            os.close(fd)


def _keep(line: int, *streams: int) -> None:
    """Makes a copy, and tells what became of it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=line).makefile("rw") as told:
        what = json.loads(told.readline())
        if not (pid := os.fork()):
            os.close(line)
            _become(streams, **what)
        print(pid, file=told, flush=True)
        for fd in streams:
            os.close(fd)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=told, flush=True)
    os._exit(0)


def _become(
    streams: Sequence[int], module: str, arguments: list[str], cwd: str, env: dict[str, str]
) -> None:
    """Runs as `python -m MODULE ARGUMENT…` does."""
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
    sys.path[0] = cwd
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
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=0))
