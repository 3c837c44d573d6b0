"""A client that is attached to a session of others, in a terminal: what `conductor attach` runs.

When its link is lost for good, as when the server has started again, it comes back by a new one:
the session is replayed, and what has been shown is not shown again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.cli import attach_list, report
from conductor.cli.attach_seen import Seen
from conductor.core import json_text
from conductor.errors import ConductorError, RequestError, UsageError, are, counted, one_line
from conductor.transports import backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from conductor.cli.attach_output import SessionView
    from conductor.cli.attach_typing import Typing
    from conductor.client.connection import Connection
    from conductor.transports.base import Transport
    from conductor.transports.remote.channel import RemoteChannel

_GRACE: Final = 2.0
_CLOSED: Final = "session_closed"


def is_terminal() -> bool:
    """Whether somebody can type, and see what is typed."""
    return os.isatty(0) and os.isatty(2) and hasattr(os, "ttyname")


class Wanted:
    """What the command line asks for."""

    def __init__(
        self,
        place: str,
        session: str | None,
        history: str,
        name: str,
        types: bool,
        *,
        listing: bool,
        json: bool,
    ) -> None:
        self.place = place
        self.session = session
        self.history = history
        self.name = name
        self.drives = types
        self.listing = listing
        self.json = json


class Attached:
    """One client, from its connection to its end."""

    def __init__(self, wanted: Wanted, dialled: Callable[[], Transport]) -> None:
        """`dialled`: a way to the server, for another link."""
        from conductor.cli.attach_output import SessionView
        from conductor.cli.attach_typing import Typing
        from conductor.cli.exec_output import JsonView, Output, View

        self._wanted = wanted
        self._dialled = dialled
        self._output = Output()
        self._shown: SessionView | None = None if wanted.json else SessionView(self._output)
        view: View = self._shown or JsonView(self._output)
        if wanted.listing:
            view = View(self._output)
        self._typing: Typing = Typing(self._typed, self._leave)
        self._view: View = view
        self._connection: Connection = self._new_connection()
        self._seen = Seen()
        self._there = False
        """Whether the session can be reached now."""
        self._channel: RemoteChannel | None = None
        self._session = ""
        self._client = ""
        """Our id, as others see it."""
        self._running = False
        """Whether a turn of others runs."""
        self._own: asyncio.Task[None] | None = None
        """The turn of a prompt that was typed here."""
        self._prompts: list[str] = []
        """What was typed while a turn ran."""
        self._cancelled = False
        self._leaving = asyncio.Event()
        self._signal = 0
        self._closed: dict[str, Any] | None = None
        """The update that said that the session is closed."""

    def _new_connection(self) -> Connection:
        from conductor.client.connection import PERMISSION, Connection
        from conductor.client.handlers import Permissions

        permissions = Permissions("ask", self._view.note, self._typing.agrees)
        handlers = {PERMISSION: permissions.request}
        return Connection("attach", handlers, on_update=self._updated, on_frame=self._heard)

    async def run(self, first: Transport) -> int:
        """Returns the exit code. Raises `ConductorError`."""
        from conductor.cli.exec_output import OutputClosed

        self._watch_signals()
        try:
            code = await self._linked(first)
            while code is None:
                code = await self._return()
        except OutputClosed as error:
            raise report.unwritable(str(error)) from None
        finally:
            self._typing.end()
        return code

    async def _linked(self, remote: Transport) -> int | None:
        """Returns the exit code; None: the link is lost, and the session was there. Raises
        `ConductorError`."""
        from conductor.client.connection import ChainEnded
        from conductor.transports.remote.channel import RemoteChannel

        self._channel = channel = RemoteChannel(remote, self.say)
        try:
            await channel.open()
            async with self._connection.over(channel):
                return await self._visit()
        except ChainEnded:
            raise self._lost() from None
        finally:
            await channel.close(_GRACE)

    async def _return(self) -> int | None:
        """Comes back by another link. Raises `ConductorError` where that fails for a minute."""
        error = self._lost()
        self.say(f"{error.text}; trying again")
        loop, tries = asyncio.get_running_loop(), 0
        until = loop.time() + backoff.PATIENCE
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), backoff.seconds(tries))
                return 128 + self._signal if self._signal else 0
            tries += 1
            self._connection = self._new_connection()
            try:
                return await self._linked(self._dialled())
            except ConductorError as raised:
                if self._there:  # the session has ended
                    raise
                error = raised
            if getattr(error, "is_final", False) or loop.time() > until:
                raise error

    def say(self, text: str) -> None:
        """Shows a sentence about the link."""
        report.write(text, dim=True)
        self._marked()

    async def _visit(self) -> int | None:
        from conductor.client import visit

        wanted = self._wanted
        await visit.introduced(self._connection, wanted.place)
        if wanted.listing:
            sessions = await visit.live(self._connection)
            attach_list.show(sessions, wanted.place, as_json=wanted.json)
            return 0
        self._session = self._session or wanted.session or await self._chosen()
        if wanted.history == "full":
            self._seen.replays()
        said = await visit.attached(
            self._connection,
            self._session,
            drives=wanted.drives,
            history=wanted.history,
            name=wanted.name,
        )
        self._seen.goes_on()
        await self._begin(said)
        await self._stay()
        return await self._end()

    async def _chosen(self) -> str:
        """The one live session, or the one that the person chooses. Raises `UsageError`."""
        from conductor.client import visit

        sessions, place = await visit.live(self._connection), self._wanted.place
        if not sessions:
            raise UsageError(f"no session is live at {place}", "open one: `conductor connect`")
        if len(sessions) == 1:
            return sessions[0].id
        table = "\n".join(attach_list.table(sessions))
        if not self._wanted.drives and not (is_terminal() and not self._wanted.json):
            hint = f"name one: conductor attach {place} {one_line(sessions[0].id, 100)}"
            raise UsageError(f"{len(sessions)} sessions are live at {place}\n{table}", hint)
        report.write(f"{len(sessions)} sessions are live at {place}\n{table}")
        self._typing.begin()
        try:
            while True:
                line = (await self._typing.ask(f"which one? 1 to {len(sessions)}: ")).strip()
                if line.isdecimal() and 0 < int(line) <= len(sessions):
                    return sessions[int(line) - 1].id
        finally:
            self._typing.end()

    async def _begin(self, said: Any) -> None:
        from conductor.client.chat_session import members

        about = members(members(said.get("_meta")).get("conductor"))
        is_back, self._client = bool(self._client), str(said.get("clientId"))
        self._running, self._there = about.get("turn") is True, True
        if is_back:
            self.say(f"linked to {self._wanted.place} again")
        if self._shown is None:
            return
        if is_back:
            self._go_on()
            return
        await self._shown.settle()
        if self._wanted.history == "full" and about.get("complete") is False:
            self._view.note("the beginning of this session is not kept any more")
        role = "you take part" if self._wanted.drives else "you watch"
        others = max(0, len(said.get("connectedClients") or []) - 1)
        keys = "Ctrl-C cancels a turn, Ctrl-D leaves" if self._wanted.drives else "Ctrl-C leaves"
        name = one_line(self._session, 100)
        self._view.note(
            f"session {name}: {role}, {counted(others, 'other')} {are(others)} attached; {keys}"
        )
        if is_terminal():
            self._typing.begin()
            self._marked()

    async def _stay(self) -> None:
        """Returns when the person leaves, or nothing more comes."""
        leaving = asyncio.ensure_future(self._leaving.wait())
        closed = asyncio.ensure_future(self._connection.closed())
        try:
            await asyncio.wait((leaving, closed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            closed.cancel()

    async def _end(self) -> int | None:
        """The exit code; None: the link is lost."""
        if self._connection.defect is not None:
            raise self._connection.defect
        if self._closed is None and not self._leaving.is_set():
            self._there = self._running = False
            return None
        self._typing.end()
        await self._view.finish()
        if self._closed is not None:
            error = self._closed.get("error")
            if isinstance(error, dict):
                text = f"the session is closed: {one_line(error.get('message'), 1000)}"
                raise ConductorError(text, "the server may have a log")
            self._view.note("the session is closed")
            return 0
        return 128 + self._signal if self._signal else 0

    def _lost(self) -> ConductorError:
        """Why nothing more comes from there."""
        how = self._channel.how if self._channel is not None else None
        text = how.text if how is not None else "ended without an answer"
        hint = (how.hint if how is not None else "") or "attach again"
        return ConductorError(f"{self._wanted.place} {text}", hint)

    # -- what comes ----------------------------------------------------------------------------

    async def _heard(self, line: bytes) -> None:
        if self._wanted.json and not self._is_new(line):
            return
        await self._view.frame(line)

    def _is_new(self, line: bytes) -> bool:
        """Whether a frame is none that has been shown before a cut."""
        from conductor.client.chat_session import members

        with contextlib.suppress(msgspec.DecodeError):
            params = members(members(json_text.decode(line)).get("params"))
            if params.get("sessionId") == self._session and "update" in params:
                return self._seen.is_new(members(params["update"]))
        return True

    async def _updated(self, session: str, update: dict[str, Any]) -> None:
        from conductor.client.visit import client_of

        if session != self._session or self._shown is None:
            if update.get("sessionUpdate") == _CLOSED and session == self._session:
                self._closed = update
                self._leave()
            return
        if not self._seen.is_new(update):
            return
        kind = update.get("sessionUpdate")
        if kind == _CLOSED:
            self._closed = update
            self._leave()
        elif kind == "permission_resolved":
            if client_of(update.get("resolvedBy")).id != self._client:
                await self._shown.answered(update)
        elif kind == "turn_complete":
            self._running = False
            self._connection.turn_ended(session)
            await self._shown.turn_ended(update.get("stopReason"), update.get("error"))
            self._go_on()
        elif kind == "user_message_chunk" and self._own is not None and not self._running:
            pass  # the agent repeats what was typed here
        else:
            if kind == "prompt_received":
                self._running = True
            await self._shown.update(update)
        self._marked()

    def _marked(self) -> None:
        """Shows where one types, if that makes sense now."""
        if self._client and not self._output.line_open:
            self._typing.show(marker=self._wanted.drives and not self._turns)

    @property
    def _turns(self) -> bool:
        """Whether a turn runs."""
        return self._running or self._own is not None

    # -- what the person does ------------------------------------------------------------------

    def _typed(self, line: str) -> None:
        if not line.strip():
            self._marked()
        elif not self._wanted.drives:
            self._view.note("you only watch this session: attach without --view to take part")
        elif self._turns or not self._there:
            self._prompts.append(line)
            when = "the turn has ended" if self._there else "the link is back"
            self._view.note(f"this is sent when {when}")
        else:
            self._prompt(line)

    def _prompt(self, text: str) -> None:
        self._own = asyncio.get_running_loop().create_task(self._turn(text))

    async def _turn(self, text: str) -> None:
        """A turn of our own."""
        from conductor.client.connection import ChainEnded

        assert self._shown is not None
        reason, error = "", None
        block = {"type": "text", "text": text}
        # The history has it as it is shown to others.
        self._seen.is_new({"sessionUpdate": "user_message_chunk", "content": block})
        try:
            reason = await self._connection.prompt(self._session, [block])
        except ChainEnded:  # who waits for that end says why
            self._own, self._cancelled = None, False
            self._view.note(f"this may not have arrived: {one_line(text, 200)}")
            return
        except RequestError as raised:
            error = {"message": raised.text}
        self._own, self._cancelled = None, False
        await self._shown.turn_ended(reason, error)
        self._go_on()
        self._marked()

    def _go_on(self) -> None:
        """A turn has ended: what was typed meanwhile is sent."""
        self._cancelled = False
        if self._prompts and self._there and not self._turns:
            self._prompt(self._prompts.pop(0))

    def _interrupt(self) -> None:
        if self._wanted.drives and self._there and self._turns and not self._cancelled:
            self._cancelled = True
            self._prompts.clear()
            self._connection.cancel(self._session)
            self._view.note("cancelling the turn; press Ctrl-C again to leave")
        else:
            self._signal = signal.SIGINT
            self._leave()

    def _terminate(self, number: int) -> None:
        self._signal = number
        self._leave()

    def _leave(self) -> None:
        self._leaving.set()

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._terminate, number)
