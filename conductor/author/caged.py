"""Guests to try out, and files of strangers to read, each in a process that is locked up first.

`conductor agent` hosts guests in a child with a router of its own (`conductor.run.segment`). A
guest under test must show its own lines. So here the child holds nothing but instances of it. The
child's side, and the messages between the two sides, are in `conductor.author.caged_process`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import subprocess
import time
from typing import Final, Self, TypeVar

import msgspec

import wasm_host
from conductor.author import caged_process as process
from conductor.author.caged_process import Failure, Opening
from conductor.errors import ComponentError
from conductor.run import spawn
from conductor.run.guest_module import WASI_GRANTS
from conductor.run.segment_spec import GuestSpec
from conductor.spec import untrusted_files
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.python_guest.facts import Declared
from conductor.spec.python_guest.scripts import Script
from conductor.transports.buffers import enlarge_pipe

PATIENCE: Final = 60.0
"""Seconds an answer may take beyond the computing time of the child: the machine may be busy."""

_LOADING: Final = 600.0
"""Seconds to load a module: it may have to be compiled first, or wait for another compilation."""

_CHUNK: Final = 1024 * 1024
_HINT: Final = "no tool writes files like that: ask its author"
_LARGEST_FACTS: Final = 64 * 1024 * 1024
"""The most bytes of the facts from a file; more bytes count as no answer."""


_Facts = TypeVar("_Facts", wasm_host.ModuleInfo, Declared)


class _Child:
    """A locked-up process, and the frames that go to it and come back.

    Methods raise `wasm_host.GuestError` if the process has ended or is silent.
    """

    def __init__(self, name: str, opening: Opening, stderr: int | None = None) -> None:
        # In a session of its own: keys typed at the terminal are for us.
        self._process = subprocess.Popen(
            spawn.child_command("conductor.author.caged_process"),
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._name = name
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        enlarge_pipe(self._input)
        enlarge_pipe(self._output)
        # A child that does not read must not hold us up beyond the deadline of its answer.
        os.set_blocking(self._input, False)
        self.gone = False
        """Whether the process has ended."""
        with contextlib.suppress(wasm_host.GuestError):  # the first answer reports that it is gone
            self._write(msgspec.json.encode(opening) + b"\n", time.monotonic() + PATIENCE)

    def request(self, kind: int, body: bytes, patience: float, number: int = 0) -> None:
        """Sends a request."""
        until = time.monotonic() + patience
        self._write(process.REQUEST.pack(kind, number, len(body)), until)
        self._write(body, until)

    def answer(self, patience: float, most: int | None = None) -> tuple[int, bytes]:
        """Status and body of the next answer, of at most `most` bytes."""
        until = time.monotonic() + patience
        status, size = process.ANSWER.unpack(self._exactly(process.ANSWER.size, until))
        if most is not None and size > most:
            raise self._lost("does not answer as it should")
        return status, self._exactly(size, until)

    def close(self) -> None:
        """Ends the process; may be called again."""
        self.gone = True
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.kill()  # it may be computing something that nobody waits for any more
        self._process.wait()

    def _write(self, data: bytes, until: float) -> None:
        left = memoryview(data)
        try:
            while left:
                self._wait(self._input, select.POLLOUT, until)
                left = left[os.write(self._input, left[:_CHUNK]) :]
        except BrokenPipeError:
            raise self._lost() from None

    def _exactly(self, size: int, until: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait(self._output, select.POLLIN, until)
            chunk = os.read(self._output, min(size - len(data), _CHUNK))
            if not chunk:
                raise self._lost()
            data += chunk
        return bytes(data)

    def _wait(self, fd: int, event: int, until: float) -> None:
        if self.gone:
            raise self._lost()
        poll = select.poll()
        poll.register(fd, event)
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise self._lost("does not answer")

    def _lost(self, why: str = "") -> wasm_host.GuestError:
        if not self.gone:
            self.close()
        why = why or f"has ended with exit code {self._process.returncode}"
        return wasm_host.GuestError(
            "deliver",
            f"{self._name}: the process that hosts it {why}",
            hint="no guest can end its host: see whether the machine ran out of memory",
        )


# -- guests ----------------------------------------------------------------------------------------


class CagedGuests:
    """Makes instances of guests, those of one module in one process; ends them all on exit.

    Used by one thread.
    """

    def __init__(self, cache: str | None, patience: float = PATIENCE) -> None:
        """`cache`: the folder of compiled modules. `patience`: see `PATIENCE`."""
        self._cache = cache
        self._patience = patience
        self._hosts: dict[bytes, _GuestProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()

    def carrier(self, spec: GuestSpec) -> str:
        """`core`, `component` or `wasi`. Raises `wasm_host.GuestError`."""
        return self._host(spec).carrier

    def instantiate(self, spec: GuestSpec, name: str) -> CagedGuest:
        """A fresh instance. Raises `wasm_host.GuestError`, also if it cannot be loaded."""
        return self._host(spec).instantiate(name)

    def _host(self, spec: GuestSpec) -> _GuestProcess:
        """The process for a guest; a new one if a guest has broken the last."""
        # Only facts that change the module: a process for a mere policy would cost seconds.
        module = GuestSpec(
            name=spec.name,
            wasm=spec.wasm,
            sha256=spec.sha256,
            script=spec.script,
            script_sha256=spec.script_sha256,
            locked=spec.locked,
            services=spec.services & WASI_GRANTS,
            configure=spec.configure if spec.script else msgspec.Raw(b"null"),
            limits={**DEFAULT_LIMITS, **spec.limits},
        )
        key = msgspec.json.encode(module, order="deterministic")
        host = self._hosts.get(key)
        if host is None or host.gone:
            host = self._hosts[key] = _GuestProcess(module, self._cache, self._patience)
        return host


class CagedGuest:
    """An instance in a child; see `wasm_host.Guest`."""

    memory_bytes: int | None = None  # known to the child alone
    stderr = ""  # the child's errors quote it
    denied: set[str]

    def __init__(self, host: _GuestProcess, number: int, name: str) -> None:
        self.name = name
        self.carrier = host.carrier
        self.dead = False
        self.denied = set()
        self._host = host
        self._number = number

    def start(self, config: bytes) -> bytes:
        """Starts it and delivers its first lines."""
        return self._request(process.START, config)

    def deliver(self, lines: bytes) -> bytes:
        """Delivers complete lines; the lines it returns."""
        return self._request(process.DELIVER, lines)

    def close(self) -> None:
        """Ends it; may be called again."""
        if not self._host.gone:
            self._request(process.CLOSE, b"")
        self.dead = True

    def _request(self, kind: int, body: bytes) -> bytes:
        try:
            status, lines = self._host.perform(kind, self._number, body)
        except wasm_host.LimitRefused:
            raise  # the guest did not see the lines, so it lives on
        except wasm_host.GuestError:
            self.dead = True
            raise
        self.dead = status == process.ENDED
        return lines


class _GuestProcess(_Child):
    """A child that hosts instances of one module."""

    def __init__(self, spec: GuestSpec, cache: str | None, patience: float) -> None:
        super().__init__(spec.name, Opening(spec, cache))
        self._patience = patience + spec.limits["cpu_ms"] / 1000
        self._numbers = itertools.count()
        try:
            self.carrier = self._lines(_LOADING)[1].decode()
        except BaseException:
            self.close()
            raise

    def instantiate(self, name: str) -> CagedGuest:
        number = next(self._numbers)
        self.perform(process.MAKE, number, name.encode())
        return CagedGuest(self, number, name)

    def perform(self, kind: int, number: int, body: bytes) -> tuple[int, bytes]:
        """Status and lines. Raises `wasm_host.GuestError`."""
        self.request(kind, body, self._patience, number)
        return self._lines(self._patience)

    def _lines(self, patience: float) -> tuple[int, bytes]:
        status, body = self.answer(patience)
        if status == process.FAILED:
            raise _guest_error(msgspec.json.decode(body, type=Failure))
        return status, body


def _guest_error(failure: Failure) -> wasm_host.GuestError:
    if failure.phase == "load":
        return wasm_host.LoadError(failure.text, detail=failure.detail, hint=failure.hint)
    kind = wasm_host.LimitRefused if failure.refused else wasm_host.GuestError
    return kind(
        failure.phase,
        failure.text,
        limit=failure.limit,
        detail=failure.detail,
        hint=failure.hint,
        outbox=failure.outbox,
    )


# -- one file --------------------------------------------------------------------------------------


class CagedReader:
    """Reads one file of a stranger, for commands that describe a component.

    Its child is started at once, so that it is ready when the file is known. `conductor agent`
    starts none: the files that it reads itself are bounded (`conductor.spec.python_guest.facts`).
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        """`patience`: seconds for the answer."""
        self._patience = patience
        self._child = _Child("", Opening(), stderr=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()

    def module(self, path: str, most: int) -> wasm_host.ModuleInfo:
        """The facts of a module of at most `most` bytes. Raises `wasm_host.LoadError`."""
        try:
            data = untrusted_files.read(path, most)
        except OSError as error:
            why = error.strerror or str(error)
            hint = "look at the file, and at the limit `module_bytes`"
            raise wasm_host.LoadError(f"{path} cannot be read: {why}", hint=hint) from None
        facts = self._read(process.READ_MODULE, path, data, wasm_host.ModuleInfo)
        if isinstance(facts, Failure):
            raise wasm_host.LoadError(facts.text, hint=facts.hint or _HINT)
        return facts

    def source(self, script: Script, label: str) -> Declared:
        """The declarations of a script; `label` names it in errors. Raises `ComponentError`."""
        facts = self._read(process.READ_SOURCE, label, msgspec.json.encode(script), Declared)
        if isinstance(facts, Failure):
            raise ComponentError(facts.text, facts.hint or _HINT)
        return facts

    def _read(self, kind: int, label: str, content: bytes, facts: type[_Facts]) -> _Facts | Failure:
        body = msgspec.json.encode(label) + b"\n" + content
        try:
            self._child.request(kind, body, self._patience)
            status, answer = self._child.answer(self._patience, _LARGEST_FACTS)
            if status != process.ALIVE:
                return msgspec.json.decode(answer, type=Failure)
            return msgspec.json.decode(answer, type=facts)
        except (wasm_host.GuestError, msgspec.DecodeError, UnicodeDecodeError):
            return Failure("load", f"{label} takes too much time or memory to be read")
