"""The loop of `conductor dev`: look, build, test, talk.

One thing at a time: a change that comes during a turn is taken up after it. Standard input is read
only while a prompt is awaited, so that a debugger of the component may have the terminal meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import conductor
from conductor import signals, tasks
from conductor.author.build import build_component
from conductor.cli import configured, error_details, exec_, report, test_, test_scenarios
from conductor.cli.exec_output import Output, OutputClosed, TextView
from conductor.cli.status import waiting
from conductor.errors import ConductorError
from conductor.spec import untrusted_files
from conductor.spec.manifest.reading import Manifest, load, path_in

_LOOK: Final = 0.2
"""Seconds between looks at the folder."""
_MADE: Final = ("target", "node_modules", "__pycache__", "build", "dist")
"""Folders that tools fill."""
_QUESTION: Final = "> "

Stamps = dict[str, tuple[int, int]]
"""Time and size of each file."""


class Dev:
    """A component, its folder, and the chain it runs in. Raises `UsageError`."""

    def __init__(self, component: str, agent: str) -> None:
        folder, comma, options = component.partition(",")
        self._folder, self._manifest = folder, path_in(folder)
        self._component = os.path.join(folder, "") + comma + options
        self._agent = agent
        self._chain: conductor.Chain | None = None
        self._closing = contextlib.AsyncExitStack()
        self._view = TextView(Output())
        self._terminal = os.isatty(0)
        self._broken = False
        """Whether the last build, or the last test, has failed."""
        self._failed = False
        """Whether the last prompt has failed, or the last start of the chain."""
        self._told = ""
        """The error of this round's build or test: the chain may fail by the same."""
        self._ending = asyncio.Event()
        self._answers: Callable[[], None] = report.uncover
        """Called as soon as the answer to a prompt begins."""

    async def run(self) -> int:
        """Works until the input ends or a signal comes; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signals.call(loop, number, self._interrupt)
        self._lines = Lines(loop)
        exec_.lend_terminal()
        try:
            await self._work()
        except OutputClosed:
            self._failed = True
        finally:
            with contextlib.suppress(ConductorError):  # shown when it happened
                await self._closing.aclose()
        return int((self._broken or self._failed) and not self._ending.is_set())

    async def _work(self) -> None:
        seen = await self._round({})
        line: asyncio.Future[str | None] | None = None
        while True:
            if line is None:
                if self._terminal:
                    report.send(_QUESTION.encode())
                line = self._lines.next()
            changed: list[Stamps] = []
            typing, changing = partial(asyncio.wait, (line,)), partial(self._change, seen, changed)
            await tasks.first(typing, changing, self._ending.wait)
            if self._ending.is_set() or (line.done() and line.result() is None):
                break
            if changed:
                if self._terminal:
                    report.say("")
                seen = await self._round(changed[0])
                if self._terminal:
                    report.send(_QUESTION.encode())
            if line.done():
                await self._turn(line.result() or "")
                line = None
        if self._terminal:
            report.say("")

    def _interrupt(self) -> None:
        if self._chain is not None and self._chain.cancel():
            return
        if self._ending.is_set():
            os._exit(128 + signal.SIGINT)  # the guardian ends the processes of this run
        self._ending.set()

    # -- a change ------------------------------------------------------------------------------

    async def _change(self, seen: Stamps, changed: list[Stamps]) -> None:
        """Waits for a change of the folder; `changed` gets the files, once they are written
        completely."""
        before = seen
        while True:
            await asyncio.sleep(_LOOK)
            now = self._stamps()
            if now != seen and now == before:
                changed.append(now)
                return
            before = now

    def _stamps(self) -> Stamps:
        manifest = self._read()
        made = {manifest.file, manifest.build.made} if manifest and _is_built(manifest) else set()
        found: Stamps = {}
        with contextlib.suppress(OSError):
            for path in untrusted_files.below(self._folder, lambda name: not _is_made(name)):
                if path not in made:
                    stat = os.stat(os.path.join(self._folder, path))
                    found[path] = stat.st_mtime_ns, stat.st_size
        return found

    def _read(self) -> Manifest | None:
        """The manifest; None while it is wrong."""
        try:
            return load(self._manifest)
        except ConductorError:
            return None

    async def _round(self, seen: Stamps) -> Stamps:
        """Builds the component, plays its scenarios, and has the chain run it; the files as they
        were before."""
        seen = seen or self._stamps()
        self._broken = self._failed = False
        manifest = self._read()
        built = manifest is None or not _is_built(manifest) or await self._step(self._build)
        if built:
            await self._step(self._test)
            await self._open()
        self._told = ""
        name = os.path.basename(self._manifest)
        if name in seen:  # the build has written the digest into it
            seen = {**seen, name: self._stamps().get(name, (0, 0))}
        return seen

    def _build(self) -> int:
        report.say(build_component(self._folder, test_.begun))
        return 0

    def _test(self) -> int:
        return test_scenarios.play([self._folder], configured.here())

    async def _step(self, work: Callable[[], int]) -> bool:
        """Does slow work beside the chain, which goes on; returns whether it succeeded."""
        try:
            async with waiting(lambda: "building and testing"):
                code = await asyncio.to_thread(work)
        except ConductorError as error:
            report.error(error.text, error.hint)
            code, self._told = error.exit_code, error.text
        self._broken = self._broken or code != 0
        return code == 0

    # -- the chain -----------------------------------------------------------------------------

    async def _open(self) -> None:
        """Starts the chain, if none runs."""
        if self._chain is not None:
            return
        opening = conductor.open(
            self._component,
            self._agent,
            on_update=self._update,
            permissions=self._permit,
            log=self._log,
            reload=True,
        )
        try:
            async with waiting(lambda: "starting the chain"):
                self._chain = await self._closing.enter_async_context(opening)
        except ConductorError as error:
            self._show(error)

    async def _turn(self, text: str) -> None:
        if not text.strip():
            return
        await self._open()
        if self._chain is None:
            return
        try:
            async with waiting(lambda: "waiting for the answer") as self._answers:
                answer = await self._chain.prompt(text)
        except ConductorError as error:
            self._show(error)
            if not isinstance(error, conductor.RequestError):  # it is over: the next is a new one
                self._chain = None
                with contextlib.suppress(ConductorError):
                    await self._closing.aclose()
                self._closing = contextlib.AsyncExitStack()
        else:
            self._failed = False
            await self._view.finish()
            if answer.stop_reason != "end_turn":
                self._view.note(f"the turn ended with `{answer.stop_reason}`")

    async def _update(self, update: conductor.Update) -> None:
        self._answers()
        await self._view.update(dict(update.members))

    def _show(self, error: ConductorError) -> None:
        self._failed = True
        if error.text != self._told:
            details = getattr(error, "details", None)
            report.error(error_details.shown(error.text, details), error.hint)

    async def _permit(self, permission: conductor.Permission) -> bool:
        self._answers()
        self._view.note(f"the agent asks for permission: {permission.title}")
        if not self._terminal:
            self._view.note("permission denied: there is no terminal to ask on")
            return False
        report.send(b"allow it this once? [y/N] ")
        return ((await self._lines.next()) or "").strip().lower() in ("y", "yes")

    def _log(self, level: str, name: str, text: str) -> None:
        # The component's prints are at level `info`.
        if level != "debug" and name != "conductor":
            self._view.note(f"{name}: {text}")


class Lines:
    """Standard input by lines, read when somebody waits for the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[str | None]] = deque()
        self._kept: deque[str | None] = deque()
        """Lines that came when nobody waited any more."""
        self._reading = False
        self._wanted = threading.Semaphore(0)
        # A thread, since a loop cannot wait for a file; a daemon, since nothing ends its reading.
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> asyncio.Future[str | None]:
        """The next line; None at the end of the input."""
        line: asyncio.Future[str | None] = self._loop.create_future()
        if self._kept:
            line.set_result(self._kept.popleft())
        else:
            self._waiting.append(line)
            self._ask()
        return line

    def _ask(self) -> None:
        if not self._reading:
            self._reading = True
            self._wanted.release()

    def _came(self, text: str | None) -> None:
        self._reading = False
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        if not self._waiting:
            self._kept.append(text)
            return
        self._waiting.popleft().set_result(text)
        if self._waiting:
            self._ask()

    def _read(self) -> None:
        held, over = b"", False
        while self._wanted.acquire():
            while b"\n" not in held and not over:
                # Not `sys.stdin`: its lock would be held when the interpreter ends.
                data = os.read(0, 65536)
                held, over = held + data, not data
            line, newline, held = held.partition(b"\n")
            text = line.decode(errors="replace") if line or newline else None
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._came, text)


def _is_built(manifest: Manifest) -> bool:
    return bool(manifest.build.command) and not manifest.scripted and manifest.file is not None


def _is_made(path: str) -> bool:
    """Whether a path is hidden, or in a folder that tools fill."""
    return any(part.startswith(".") or part in _MADE for part in path.split("/"))
