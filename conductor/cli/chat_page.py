"""`conductor chat [COMPONENT…]`: a local page that is the client of a chain.

The chain runs in this process, with `conductor.client.chat` in the editor's place.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from conductor import signals, tasks
from conductor.cli import error_details, log_view, report
from conductor.cli.exec_ import lend_terminal
from conductor.cli.loop import run_loop
from conductor.cli.started import Started
from conductor.client.chat import Attach, Chat
from conductor.client.connection import ChainEnded
from conductor.client.handlers import Files
from conductor.errors import ConductorError, RequestError, UsageError, with_log
from conductor.page import server
from conductor.page.chat import ChatRoutes
from conductor.page.editor import EditorRoutes
from conductor.page.running import RunningChain
from conductor.spec.consent import Where
from conductor.spec.paths import session_folder
from conductor.transports.memory import MemoryTransport

if TYPE_CHECKING:
    import socket

    from conductor.spec.parsed import Parsed

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_START: Final = "chat.html"
_DEBUG: Final = "run it again with --log debug to see each step of the chain"


def execute(
    parsed: Parsed,
    *,
    port: int,
    opens: bool,
    attach: str | None = None,
    view: bool = False,
    cwd: str = ".",
    fs: str = "none",
    **_: Any,
) -> int:
    """Runs a chat until Ctrl-C; the exit code. Raises `ConductorError`.

    The parameters behind `opens` are options of `conductor chat` that `agent` has not.
    """
    if view and attach is None:
        raise UsageError("`--view` watches the session that `--attach` names", "add --attach")
    wanted = None if attach is None else Attach(attach, view)
    # drain: who ends the chat waits for no answer.
    chain = msgspec.structs.replace(parsed.options, drain=0.0)
    parsed = msgspec.structs.replace(parsed, options=chain)
    lend_terminal()
    place = session_folder(cwd, "--cwd")
    with contextlib.closing(log_view.listen(port)) as listening:
        source = RunningChain("chat")
        started = Started(parsed, Where.EDITOR, watching=[source])
        files = Files(place, fs).handlers()

        chat = Chat(
            place, files, events=lambda: source.count, answers=started.answers, attach=wanted
        )
        try:
            return run_loop(_Sitting(started, chat, source, listening, opens=opens).run)
        finally:
            started.close()


class _Sitting:
    """One chat, from the start of its chain to its end."""

    def __init__(
        self,
        started: Started,
        chat: Chat,
        source: RunningChain,
        listening: socket.socket,
        *,
        opens: bool,
    ) -> None:
        self._opens = opens
        self._started = started
        self._chat = chat
        self._source = source
        self._listening = listening
        self._runtime = started.runtime(MemoryTransport(chat.run))
        self._ending = asyncio.Event()
        self._ended = asyncio.Event()
        """Whether the chain has ended."""
        self._shows = False
        """Whether there is a page."""
        chat.agent_command = self._runtime.agent_command
        started.follow("line" if report.can_cover() else "once")

    async def run(self) -> int:
        """Runs the chain, and once it has a session the page of it."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            signals.call(loop, number, self._end)
        begun = self._chat.begun
        async with tasks.group() as sitting:
            sitting.start_soon(self._source.run, lambda: None)
            sitting.start_soon(self._run)
            try:
                await tasks.first(self._ended.wait, self._ending.wait, begun.wait)
                if begun.is_set() and self._chat.failed is None:
                    await self._serve()
            finally:
                self._chat.leave()
                if not begun.is_set():
                    self._runtime.stop()
                with anyio.CancelScope(shield=True):
                    await self._ended.wait()
            sitting.cancel_scope.cancel()
        return self._outcome()

    async def _run(self) -> None:
        """Runs the chain, which ends in order also if a task beside it fails."""
        try:
            with anyio.CancelScope(shield=True):
                await self._runtime.run()
        finally:
            self._ended.set()
            if self._shows:
                self._chain_ended()

    def _end(self) -> None:
        """Ends the chat; the second time at once."""
        if self._ending.is_set():
            self._runtime.stop()
        self._ending.set()

    async def _serve(self) -> None:
        """Serves the page until the chat is to end, also when the chain has ended before."""
        secret = server.new_secret()
        routes = [
            *ChatRoutes(self._chat, self._source, self._pause, self._runtime.lacks).all,
            *EditorRoutes(self._chat, self._chat.cwd).all,
        ]
        port = self._listening.getsockname()[1]
        page = server.Page(self._source, port, secret, _START, routes, frames=True)
        self._shows = True
        if self._ended.is_set():
            self._chain_ended()
        async with server.serving(page.serve, self._listening, log_view.complain):
            with log_view.announced(self._listening, secret, opens=self._opens):
                await self._ending.wait()

    async def _pause(self, name: str, paused: bool) -> None:
        """Pauses a component, or resumes it, once nothing is open. Raises `ConductorError`."""
        await tasks.first(self._ended.wait, partial(self._runtime.pause, name, paused=paused))
        if self._ended.is_set():
            raise ConductorError("the chain has ended")

    def _chain_ended(self) -> None:
        if self._ending.is_set():
            return
        text, hint = self._why()
        self._chat.ended(text, hint)
        report.error(text, hint)
        report.write("the page shows the conversation so far, until Ctrl-C", dim=True)

    def _why(self) -> tuple[str, str]:
        """Why the chain has ended, and a hint."""
        failure, error = self._runtime.failure, self._chat.failed
        if failure is not None:
            return failure.text, failure.hint
        log = self._started.log.path
        if isinstance(error, RequestError):
            text = error_details.shown(error.text, error.details)
            return text, with_log(error.hint or _DEBUG, log)
        text = "the chain ended" if error is None else error.text
        return text, with_log(_DEBUG, log)

    def _outcome(self) -> int:
        """The exit code; an error that nobody has seen is reported."""
        failed = self._chat.failed
        if failed is not None and not (isinstance(failed, ChainEnded) and self._ending.is_set()):
            report.error(*self._why())
            return 1
        if self._runtime.failure is None:
            return 0
        if not self._chat.begun.is_set():
            report.error(*self._why())
        return 1
