"""Guests in cages, used as if they were here: each `CagedGuest` is a `wasm_host.Guest`."""

from __future__ import annotations

import itertools
import os
import select
import subprocess
import time
from typing import Final, NoReturn, Self

import msgspec

import wasm_host
from conductor.author.caged.wire import (
    ALIVE,
    ANSWER,
    ASK,
    CLOSE,
    DELIVER,
    ENDED,
    FAILED,
    MAKE,
    START,
    Failure,
    Opening,
)
from conductor.run import spawn
from conductor.run.guest_module import WASI_GRANTS
from conductor.run.segment_spec import GuestSpec
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.transports.buffers import enlarge_pipe

_LOADING: Final = 600.0
"""Seconds a module may take to be loaded: it may have to be compiled first, or wait for others."""

_PATIENCE: Final = 60.0
"""Seconds an answer may take longer than a guest may compute: the machine may be busy."""

_CHUNK: Final = 1024 * 1024


class Cages:
    """Instances of guests, those that are told the same in one process. Ends them all at the end.

    `cache`: the folder of compiled modules. Used by one thread.
    """

    def __init__(self, cache: str | None) -> None:
        self._cache = cache
        self._open: dict[bytes, _Cage] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for cage in self._open.values():
            cage.close()
        self._open.clear()

    def carrier(self, spec: GuestSpec) -> str:
        """`core`, `component` or `wasi`. Raises `wasm_host.GuestError`."""
        return self._cage(spec).carrier

    def instantiate(self, spec: GuestSpec, name: str) -> CagedGuest:
        """A fresh instance. Raises `wasm_host.GuestError`, also where it cannot be loaded."""
        return self._cage(spec).instantiate(name)

    def _cage(self, spec: GuestSpec) -> _Cage:
        """The process for a guest; another one if a guest has broken the former."""
        told = _told(spec)
        key = msgspec.json.encode(told, order="deterministic")
        cage = self._open.get(key)
        if cage is None or cage.gone:
            cage = self._open[key] = _Cage(told, self._cache)
        return cage


def _told(spec: GuestSpec) -> GuestSpec:
    """What of a guest makes a difference to its module: starting a process takes a while."""
    return GuestSpec(
        name=spec.name,
        path=spec.path,
        sha256=spec.sha256,
        script=spec.script,
        script_sha256=spec.script_sha256,
        locked=spec.locked,
        services=spec.services & WASI_GRANTS,
        configure=spec.configure if spec.script else msgspec.Raw(b"null"),
        limits={**DEFAULT_LIMITS, **spec.limits},
    )


class CagedGuest:
    """An instance elsewhere; see `wasm_host.Guest`."""

    denied: set[str]

    def __init__(self, cage: _Cage, number: int, name: str) -> None:
        self.name = name
        self.carrier = cage.carrier
        self.dead = False
        self.denied = set()
        self._cage = cage
        self._number = number

    @property
    def memory_bytes(self) -> int | None:
        """Not known here."""
        return None

    @property
    def stderr(self) -> str:
        """Kept there: errors quote it."""
        return ""

    def start(self, config: bytes) -> bytes:
        """Starts it and delivers its first lines."""
        return self._ask(START, config)

    def deliver(self, lines: bytes) -> bytes:
        """Delivers complete lines; those it returns."""
        return self._ask(DELIVER, lines)

    def close(self) -> None:
        """Ends it; may be called again."""
        if not self._cage.gone:
            self._ask(CLOSE, b"")
        self.dead = True

    def _ask(self, what: int, given: bytes) -> bytes:
        try:
            how, said = self._cage.ask(what, self._number, given)
        except wasm_host.LimitRefused:
            raise
        except wasm_host.GuestError:
            self.dead = True
            raise
        self.dead = how == ENDED
        return said


class _Cage:
    """A process, and the instances in it."""

    def __init__(self, spec: GuestSpec, cache: str | None) -> None:
        self._name = spec.name
        self._patience = _PATIENCE + spec.limits["cpu_ms"] / 1000
        self._numbers = itertools.count()
        self.gone = False
        # In a session of its own: what is typed at the terminal is for us.
        self._process = subprocess.Popen(
            spawn.child_command("conductor.author.caged.guests_process"),
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        enlarge_pipe(self._process.stdin.fileno())
        enlarge_pipe(self._process.stdout.fileno())
        try:
            self._write(msgspec.json.encode(Opening(spec, cache)) + b"\n")
            self.carrier = self._answer(_LOADING)[1].decode()
        except BaseException:
            self.close()
            raise

    def instantiate(self, name: str) -> CagedGuest:
        number = next(self._numbers)
        self.ask(MAKE, number, name.encode())
        return CagedGuest(self, number, name)

    def ask(self, what: int, number: int, given: bytes) -> tuple[int, bytes]:
        """How it went, and what was said. Raises `wasm_host.GuestError`."""
        if self.gone:
            self._lost()
        self._write(ASK.pack(what, number, len(given)))
        self._write(given)
        return self._answer(self._patience)

    def close(self) -> None:
        """Ends the process; may be called again."""
        self.gone = True
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()  # it may be in the middle of something that nobody waits for any more
        self._process.wait()

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._process.stdin.fileno(), left) :]
        except BrokenPipeError:
            self._lost()

    def _answer(self, patience: float) -> tuple[int, bytes]:
        until = time.monotonic() + patience
        how, size = ANSWER.unpack(self._exactly(ANSWER.size, until))
        said = self._exactly(size, until)
        if how == FAILED:
            raise _error(msgspec.json.decode(said, type=Failure))
        assert how in (ALIVE, ENDED)
        return how, said

    def _exactly(self, size: int, until: float) -> bytes:
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(source, select.POLLIN)
        found = bytearray()
        while len(found) < size:
            left = until - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                self._process.kill()
                self._lost("does not answer")
            some = os.read(source, min(size - len(found), _CHUNK))
            if not some:
                self._lost()
            found += some
        return bytes(found)

    def _lost(self, what: str = "") -> NoReturn:
        """Says that the process is gone."""
        if not self.gone:
            self.close()
        what = what or f"has ended with exit code {self._process.returncode}"
        raise wasm_host.GuestError(
            "deliver",
            f"{self._name}: the process that hosts it {what}",
            hint="no guest can end its host: see whether the machine ran out of memory",
        )


def _error(failure: Failure) -> wasm_host.GuestError:
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
