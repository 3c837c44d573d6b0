"""A proxy that is given messages: in a segment of this process, or a program behind pipes."""

import re
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from conductor.core.policy.policy_words import PolicyWords
from conductor.run import guest_module, segment, segment_loop
from conductor.run.segment_spec import GuestSpec, SegmentSpec
from conductor.spec import catalog
from conductor.spec.paths import compiled_modules
from conductor.transports.buffers import keep_large

_ID: Final = re.compile(rb'"id":("[^"]*"|\d+)')
_BLOCK: Final = b"Answer briefly."
_LINE: Final = rb"    return \"some text\"  # a line as source code has them, with its escapes\n"
_HELLO: Final = b'"params":{"protocolVersion":1,"clientCapabilities":{}}}\n'
_WELCOME: Final = b'"result":{"protocolVersion":1,"agentCapabilities":{}}}\n'
_DONE: Final = b'"result":{"stopReason":"end_turn"}}\n'


class WayError(Exception):
    """A proxy does something else than it should; the text says what."""


def text(size: int) -> bytes:
    """About as many bytes of text, as they stand in JSON: whole lines where there is room."""
    lines = _LINE * (size // len(_LINE))
    return lines + b"x" * (size - len(lines))


class Way(ABC):
    """A proxy, initialized: a context manager. All times are seconds."""

    def __init__(self) -> None:
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def turn(self, size: int, *, adds: bool = True) -> tuple[float, float, float]:
        """A prompt with a text of `size` bytes, an update with another text, the answer: the time
        of each.

        Raises `WayError` unless each comes out on the other side, the prompt with its block.
        """
        self._count += 1
        prompt = (
            b'"id":%d,"method":"session/prompt","params":{"sessionId":"s1","prompt":['
            b'{"type":"text","text":"%s"}]}}\n' % (self._count, text(size))
        )
        took, said = self._timed(self._down(prompt))
        if len(said) < size or (_BLOCK in said) != adds:
            raise WayError(f"a prompt came out as {said[:200]!r}")
        found = _ID.search(said)
        update = (
            b'"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":'
            b'"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n' % text(size)
        )
        passed, said = self._timed(self._up(update))
        if len(said) < size or b'"agent_message_chunk"' not in said:
            raise WayError(f"an update came out as {said[:200]!r}")
        assert found is not None
        answered, said = self._timed(self._answer(b'"id":%s,' % found[1] + _DONE))
        if b'"id":%d,' % self._count not in said or b"end_turn" not in said:
            raise WayError(f"an answer came out as {said[:200]!r}")
        return took, passed, answered

    def _initialize(self) -> None:
        said = self._exchange(self._hello(b'"id":0,'))
        found = _ID.search(said)
        if found is None or b'"initialize"' not in said:
            raise WayError(f"`initialize` came out as {said[:200]!r}")
        self._exchange(self._answer(b'"id":%s,' % found[1] + _WELCOME))

    def _timed(self, line: bytes) -> tuple[float, bytes]:
        begun = time.perf_counter()
        said = self._exchange(line)
        return time.perf_counter() - begun, said

    @abstractmethod
    def _hello(self, head: bytes) -> bytes:
        """`initialize`."""

    @abstractmethod
    def _down(self, rest: bytes) -> bytes:
        """A message of the client's side as the proxy gets it."""

    @abstractmethod
    def _up(self, rest: bytes) -> bytes:
        """A notification of the agent's side."""

    @abstractmethod
    def _answer(self, rest: bytes) -> bytes:
        """An answer of the agent's."""

    @abstractmethod
    def _exchange(self, line: bytes) -> bytes:
        """Gives it a line; the line that comes of it."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""


class _Collected(segment_loop.ParentOutput):
    """Keeps the output of a segment, instead of writing it to a descriptor."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""

    def flush(self) -> None:
        """Writes nothing."""

    def send(self, lines: bytes) -> None:
        """Keeps the lines."""
        self.sent += lines


def spec(folder: Path) -> GuestSpec:
    """A sandboxed proxy as the conductor would run it, under the profile `full`."""
    found = catalog.resolve(str(folder))
    assert found.wasm is not None
    return GuestSpec(
        name=found.name,
        wasm=found.wasm,
        sha256=found.sha256,
        script=found.script,
        dialect=found.dialect,
        limits=found.limits,
        # With less it would not be told of updates at all: they would pass it by.
        policy=PolicyWords(("full",)),
    )


class Hosted(Way):
    """A guest, with the router and the policy around it, in this process."""

    def __init__(self, guest: GuestSpec) -> None:
        super().__init__()
        whole = SegmentSpec([guest], cache=compiled_modules())
        modules = {guest.name: guest_module.load(guest, whole.cache)}
        self._output = _Collected()
        self._segment = segment.Segment(whole, modules, self._output)
        keep_large()  # as when large messages have come
        self._segment.start()
        self._settle()
        self._initialize()

    def _hello(self, head: bytes) -> bytes:
        return self._down(head + b'"method":"initialize",' + _HELLO)

    def _down(self, rest: bytes) -> bytes:
        return b'p{"jsonrpc":"2.0",' + rest

    def _up(self, rest: bytes) -> bytes:
        return b's{"jsonrpc":"2.0",' + rest

    _answer = _up

    def _exchange(self, line: bytes) -> bytes:
        self._output.sent = b""
        self._segment.feed([line])
        self._settle()
        return self._output.sent

    def _settle(self) -> None:
        while self._segment.settle() == 0:
            pass  # there is no other input to be read

    def close(self) -> None:
        """Frees it."""
        self._segment.close()


class Piped(Way):
    """A program that speaks the dialect `acp`, without a conductor."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        super().__init__()
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to = self._process.stdin
        self._from = open(self._process.stdout.fileno(), "rb", closefd=False)  # noqa: SIM115
        try:
            self._initialize()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of the program."""
        return self._process.pid

    def _hello(self, head: bytes) -> bytes:
        return self._down(head + b'"method":"proxy/initialize",' + _HELLO)

    def _down(self, rest: bytes) -> bytes:
        return b'{"jsonrpc":"2.0",' + rest

    def _up(self, rest: bytes) -> bytes:
        envelope = b'{"jsonrpc":"2.0","method":"proxy/successor","params":{%s}\n'
        return envelope % rest.removesuffix(b"\n")

    _answer = _down

    def _exchange(self, line: bytes) -> bytes:
        view = memoryview(line)
        while view:
            view = view[self._to.write(view) :]
        return self._from.readline()

    def close(self) -> None:
        """Ends its input, and so the program."""
        self._to.close()
        self._process.wait()
        self._from.close()
        assert self._process.stdout is not None
        self._process.stdout.close()


def program() -> list[str]:
    """The command of a Python proxy without a sandbox, in its folder."""
    return [sys.executable, "proxy.py"]


def opened(folder: Path, *, sandboxed: bool) -> Way:
    """A proxy of this folder, ready. Raises `WayError`, or the error of loading."""
    if sandboxed:
        return Hosted(spec(folder))
    return Piped(program(), folder)
