"""Starts the host of sandboxed proxies before anything else is imported.

The child needs about as long to load WebAssembly's engine as this process needs to load the rest of
the program, so the two happen at the same time. Later the child reads its guests from its input.
This module imports nothing that a fresh interpreter has not imported already.
"""

from __future__ import annotations

import os
import sys

import conductor

EXIT_UNKNOWN = 255

_MANIFEST = 64 * 1024
"""Bytes of a manifest that are looked at: all it may have."""
_FOR_COMPONENTS = (
    "wasm_host.calls.capi_component",
    "wasm_host.carriers.component",
    "wasm_host.wasi.preview2",
)
"""Modules that hosts import for components alone: they import the package `wasmtime`, which takes
as long as half of all other imports."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class EarlyProcess:
    """A process started by `posix_spawn`, with the part of `subprocess.Popen` that is used."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None

    def wait(self) -> int:
        """Reaps the process; its exit code, negative for a signal."""
        if self.returncode is None:
            try:
                _, status = os.waitpid(self.pid, 0)
            except ChildProcessError:
                self.returncode = EXIT_UNKNOWN
            else:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        """Ends the process at once."""
        if self.returncode is None:
            os.kill(self.pid, 9)

    def discard(self) -> None:
        """Ends an unused process: its input ends before its first line, so it exits by itself."""
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)
        self.wait()


_started: EarlyProcess | None = None


def child_command(main: str = "conductor.run.segment_start", *early: str) -> list[str]:
    """The command that starts a host of guests: isolated, and without `site`'s start-up work.

    Of our import path it gets only the folders of its packages. Garbage is not collected before
    there is any (`conductor.run.segment_start`). Modules in `early` are imported before the child
    waits for the first line.
    """
    needed = ("conductor", "wasm_host", "msgspec", "wasmtime")
    paths = [p for p in sys.path if any(os.path.isdir(os.path.join(p, n)) for n in needed) and p]
    code = (
        f"import gc,sys;gc.disable();sys.path[:0]={paths!r};"
        "from conductor.code_cache import CodeCache;cache=CodeCache('host');"
        "from conductor.run.stand_ins import load;load('msgspec');"
        "from wasm_host.harden import drop_inherited;"
        f"drop_inherited(parent={os.getpid()},but=cache.fd);"
        f"{''.join(f'import {name};' for name in early)}from {main} import main;main(cache)"
    )
    no_files = ["-B"] if sys.dont_write_bytecode else []  # its environment is empty
    return [sys.executable, "-I", "-S", *no_files, "-c", code]


def start(arguments: list[str]) -> None:
    """Starts the host if the command line looks as if it needed a host."""
    global _started  # noqa: PLW0603 - one per process, until `launch` takes it
    if "isolation=inline" in arguments:
        return  # guests will run in this process
    package = os.path.dirname(conductor.__file__)
    components = os.path.join(package, "_components")
    if not os.path.isdir(components):  # a checkout
        components = os.path.join(os.path.dirname(package), "components")
    files = []
    for argument in arguments[1:]:
        if argument == "--":
            break  # a command follows
        name = argument.partition(",")[0]
        if " " in name:
            continue
        if name.endswith((".wasm", ".py")):
            files.append(name)
        elif file := _sandboxed(name if "/" in name or name == "." else f"{components}/{name}"):
            files.append(file)
    if files:
        # A file that is no WebAssembly is Python, whose interpreter is a component.
        early = () if all(file.endswith(".wasm") for file in files) else _FOR_COMPONENTS
        _started = _spawn(*early)


def _sandboxed(folder: str) -> str:
    """The file that a component's manifest seems to name for a guest to run; or ''."""
    # Not `conductor.spec.untrusted_files`: nothing is imported yet. A pipe or a device has no size.
    try:
        fd = os.open(f"{folder}/component.toml", _FLAGS)
    except (OSError, ValueError):
        return ""
    try:
        manifest = b"\n" + os.read(fd, min(os.fstat(fd).st_size, _MANIFEST))
    except OSError:  # a folder
        return ""
    finally:
        os.close(fd)
    line = manifest.partition(b"\nfile")[2].partition(b"\n")[0]
    return line.partition(b"#")[0].decode("utf-8", "replace").strip(" \t\r=\"'")


def take() -> EarlyProcess | None:
    """The host that was started; None if there is none or a chain has taken it."""
    global _started
    process, _started = _started, None
    return process


def discard() -> None:
    """Ends a host that nobody took."""
    process = take()
    if process is not None:
        process.discard()


def _spawn(*early: str) -> EarlyProcess | None:
    pipes = [os.pipe(), os.pipe(), os.pipe()]
    (in_read, in_write), (out_read, out_write), (err_read, err_write) = pipes
    command = child_command("conductor.run.segment_start", *early)
    actions: list[tuple[int, ...]] = [
        (os.POSIX_SPAWN_DUP2, in_read, 0),
        (os.POSIX_SPAWN_DUP2, out_write, 1),
        (os.POSIX_SPAWN_DUP2, err_write, 2),
        *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()),
    ]
    try:
        pid = os.posix_spawn(command[0], command, {}, file_actions=actions, setsid=True)
    except (OSError, NotImplementedError):
        for pair in pipes:
            for fd in pair:
                os.close(fd)
        return None
    for fd in (in_read, out_write, err_write):
        os.close(fd)
    return EarlyProcess(pid, in_write, out_read, err_read)


def _inheritable() -> list[int]:
    """Descriptors beyond the standard three that a child would get from us."""
    inheritable = []
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(folder):
            for entry in os.listdir(folder):
                fd = int(entry)
                try:
                    if fd > 2 and os.get_inheritable(fd):
                        inheritable.append(fd)
                except OSError:
                    continue  # the descriptor of the listing itself
            break
    return inheritable
