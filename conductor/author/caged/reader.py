"""What a stranger has made is read elsewhere: whatever that costs, it costs the child of `judging`.

For commands that tell of a component. `conductor agent` starts no further process for it: what it
reads itself is bounded before it is read (`conductor.spec.python_guest.facts`, `conductor.toml`).
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from typing import Final, Self

import msgspec

import wasm_host
from conductor.author.caged.wire import MODULE, SOURCE, Question, Verdict
from conductor.errors import ComponentError
from conductor.run import spawn
from conductor.spec import untrusted_files
from conductor.spec.python_guest.facts import Declared
from conductor.spec.python_guest.scripts import Script
from conductor.transports.buffers import enlarge_pipe

_PATIENCE: Final = 60.0
"""Seconds for an answer. It may compute for 5; the machine may be busy."""

_CHUNK: Final = 1024 * 1024
_MOST_SAID: Final = 64 * 1024 * 1024
_HINT: Final = "no tool writes files like that: ask its author"


class Judge:
    """A child that reads one thing. It is started at once, so that it is ready when it is asked."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            spawn.child_command("conductor.author.caged.reader_process"),
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self._process.stdin, self._process.stdout):
            assert end is not None
            end.close()
        self._process.kill()
        self._process.wait()

    def module(self, path: str, most: int) -> wasm_host.ModuleInfo:
        """The facts of a module of at most so many bytes. Raises `wasm_host.LoadError`."""
        try:
            data = untrusted_files.read(path, most)
        except OSError as error:
            why = error.strerror or str(error)
            hint = "look at the file, and at the limit `module_bytes`"
            raise wasm_host.LoadError(f"{path} cannot be read: {why}", hint=hint) from None
        found = self._asked(Question(MODULE, path), data)
        if found is None or found.module is None:
            why, hint = _why(found, path)
            raise wasm_host.LoadError(why, hint=hint)
        return found.module

    def source(self, script: Script, label: str) -> Declared:
        """What a script says of itself. Raises `ComponentError`."""
        found = self._asked(Question(SOURCE, label), msgspec.json.encode(script))
        if found is None or found.source is None:
            raise ComponentError(*_why(found, label))
        return found.source

    def _asked(self, question: Question, body: bytes) -> Verdict | None:
        """The answer; None if the child has ended without one, or took too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        enlarge_pipe(self._process.stdin.fileno())
        until = time.monotonic() + _PATIENCE
        given = memoryview(msgspec.json.encode(question) + b"\n" + body)
        os.set_blocking(self._process.stdin.fileno(), False)
        try:
            while given:
                if not _ready(self._process.stdin.fileno(), select.POLLOUT, until):
                    return None
                given = given[os.write(self._process.stdin.fileno(), given[:_CHUNK]) :]
        except BrokenPipeError:
            return None
        self._process.stdin.close()
        said = bytearray()
        while _ready(self._process.stdout.fileno(), select.POLLIN, until):
            some = os.read(self._process.stdout.fileno(), _CHUNK)
            said += some
            if not some or len(said) > _MOST_SAID:
                break
        try:
            return msgspec.json.decode(said, type=Verdict)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None


def _ready(fd: int, event: int, until: float) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))


def _why(found: Verdict | None, label: str) -> tuple[str, str]:
    """What is wrong, and a hint."""
    if found is None:
        return f"{label} takes too much time or memory to be read", _HINT
    return found.error, found.hint or _HINT
