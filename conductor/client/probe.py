"""Asks a program whether it is an agent: `initialize`, then `session/new`, and no prompt.

`Exchange` is pure: frames in, frames out, at the end a `Probe`. `probing` runs the program for it,
in an empty private folder of its own, within bounds of time and output, and ends the whole group
of its processes. The caller ends daemons that a program leaves behind:
`conductor.transports.process_groups.end_strays`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from conductor.client.probe_exchange import METHODS, Exchange, Probe, Step
from conductor.errors import ComponentError, one_line
from conductor.transports.base import Ended
from conductor.transports.process import ProcessTransport
from conductor.transports.process_groups import Guardian

TIMEOUT: Final = 20.0
"""Seconds that a program gets by default."""

_GRACE: Final = 1.0
"""Seconds for each step of its end."""

_LINE: Final = 4 << 20
"""The most bytes of a line that a program may write."""
_VERSION: Final = re.compile(r"(?<![\w.])v?\d+\.\d[\w.+-]*")
_EMPTY: Final = re.compile(r"\s+at \S|[\W_]*$|Node\.js v[\d.]+$")
"""Lines around an error of Node that say nothing of it."""


def probe(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    seconds: float = TIMEOUT,
    *,
    session: bool = True,
    proves_login: bool = False,
) -> Probe:
    """`probing`, for a caller without an event loop."""
    return asyncio.run(probing(command, env, seconds, session=session, proves_login=proves_login))


async def probing(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    seconds: float = TIMEOUT,
    *,
    session: bool = True,
    proves_login: bool = False,
) -> Probe:
    """Starts a program, asks it, and ends it with all its group.

    Args:
        command: The program and its arguments.
        env: Its whole environment; None: this process's.
        seconds: For all answers of the program together.
        session: Whether the program is to open a session, too.
        proves_login: Whether the program opens a session only for somebody who is logged in.
    """
    with _program(command, env) as (transport, folder):
        exchange = Exchange(folder, session=session, proves_login=proves_login)
        await _Conversation(exchange, transport).hold(seconds)
        return exchange.probe


@contextlib.contextmanager
def _program(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> Iterator[tuple[ProcessTransport, str]]:
    """A program that is to run in a new folder, which only this user may enter."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="conductor-probe-"))
    guardian = Guardian()
    try:
        yield (
            ProcessTransport(command, env=env, cwd=folder, guardian=guardian, line_limit=_LINE),
            folder,
        )
    finally:
        guardian.release()
        shutil.rmtree(folder, ignore_errors=True)


class _Conversation:
    """An exchange over a transport; gets its events."""

    def __init__(self, exchange: Exchange, transport: ProcessTransport) -> None:
        self._exchange = exchange
        self._transport = transport
        self._over = asyncio.Event()

    async def hold(self, seconds: float) -> None:
        """Runs it to its end, and the program to its own."""
        try:
            await self._transport.open(self)
            self._transport.write(self._exchange.begin())
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except ComponentError as error:
            self._exchange.fail(error.text)
        except TimeoutError:
            words = _last_words(self._transport.stderr.tail())
            step = self._exchange.step.value
            self._exchange.fail(f"did not answer `{step}` within {seconds:.3g} s{words}")
        finally:
            await self._transport.close(_GRACE)

    def received(self, frames: list[bytes]) -> None:
        """Lines of the agent."""
        for frame in frames:
            answer = self._exchange.take(frame)
            if answer:
                self._transport.write(answer)
        self._look()

    def oversized(self, head: bytes, limit: int) -> None:
        """A line was too long."""
        self._exchange.fail(f"wrote a line of more than {limit >> 20} MiB")
        self._look()

    def undeliverable(self, frame: bytes, why: str) -> None:
        """Nothing to do: its end is reported, too."""

    def drained(self) -> None:
        """Does nothing: all messages are small."""

    def ended(self, how: Ended) -> None:
        """The program ended."""
        words = _last_words(how.data.get("stderr") or [])
        self._exchange.fail(f"{how.text} before it answered `{self._exchange.step.value}`{words}")
        self._look()

    def _look(self) -> None:
        if self._exchange.step is Step.DONE:
            self._transport.pause()
            self._over.set()


async def version_of(command: Sequence[str], seconds: float) -> str:
    """The version that a command prints: the first word with a number and a dot.

    The command starts and ends as in `probing`. Empty: no version came within so many seconds.
    """
    with _program(command) as (transport, _):
        return await _Printed(transport).version(seconds)


class _Printed:
    """The lines that a program prints until it ends; gets the events of its transport."""

    def __init__(self, transport: ProcessTransport) -> None:
        self._transport = transport
        self._over = asyncio.Event()
        self._lines: list[str] = []

    async def version(self, seconds: float) -> str:
        """The version among them."""
        with contextlib.suppress(ComponentError, TimeoutError):
            try:
                await self._transport.open(self)
                self._transport.finish()
                async with asyncio.timeout(seconds):
                    await self._over.wait()
            finally:
                await self._transport.close(_GRACE)
        for line in self._lines:
            if found := _VERSION.search(line):
                return one_line(found[0], 40)
        return ""

    def received(self, frames: list[bytes]) -> None:
        """Lines that it printed."""
        self._lines += [frame.decode(errors="replace") for frame in frames[:METHODS]]
        if len(self._lines) >= METHODS:
            self._over.set()

    def oversized(self, head: bytes, limit: int) -> None:
        """A line that is no version."""
        self._over.set()

    def undeliverable(self, frame: bytes, why: str) -> None:
        """Nothing is sent."""

    def drained(self) -> None:
        """Nothing is sent."""

    def ended(self, how: Ended) -> None:
        """The command has printed all its output."""
        self._over.set()


def _last_words(lines: Sequence[str]) -> str:
    shown = [one_line(line) for line in lines if not _EMPTY.match(line)][-3:]
    return f"; its last words: {' | '.join(shown)}" if shown else ""
