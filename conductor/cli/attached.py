"""A client that is attached to a session of others, in a terminal: `conductor attach` runs it.

A link may be lost for good, as when the server has started again. Then the client comes back by a
new link: the session is replayed, and updates that have been shown are not shown again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import anyio
import msgspec

from conductor import signals
from conductor.cli import pages, report
from conductor.cli.attach_output import SessionView
from conductor.cli.attach_typing import Typing
from conductor.cli.exec_output import JsonView, Output, OutputClosed, View
from conductor.client.connection import ChainEnded
from conductor.client.handlers import Permissions
from conductor.client.session import Question, Session, Update
from conductor.client.talk import Talk
from conductor.client.visit import LiveSession, about, client_of
from conductor.core import json_text
from conductor.errors import ConductorError, UsageError, are, counted, one_line
from conductor.record.turns.messages import members
from conductor.transports import backoff
from conductor.transports.base import Transport
from conductor.transports.remote.channel import RemoteChannel

_GRACE: Final = 2.0


def is_terminal() -> bool:
    """Whether a person can type, and see the typed text."""
    return os.isatty(0) and os.isatty(2)


class Wanted(NamedTuple):
    """The wishes of the command line."""

    place: str
    session: str | None
    history: str
    name: str
    drives: bool
    listing: bool
    json: bool


class _Seen:
    """The updates that have been shown: a replay after a cut does not show them again. Equal
    updates are counted: as many of a replay are old as were shown."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._old: Counter[int] = Counter()
        """The updates of a replay that are still to come, and were shown before."""

    def replays(self) -> None:
        """From now on the old updates come again, and those that came meanwhile."""
        self._old = self._counts.copy()

    def goes_on(self) -> None:
        """The replay is over."""
        self._old.clear()

    def is_new(self, update: dict[str, Any]) -> bool:
        """Whether an update has not been shown; from now on it has. The state of a turn is always
        new."""
        if update.get("sessionUpdate") == "state_update":
            return True
        key = hash(json_text.encode_sorted(update))
        if self._old[key] > 0:
            self._old[key] -= 1
            return False
        self._counts[key] += 1
        return True


class Attached(Talk):
    """One client, from its first link to its end."""

    def __init__(self, wanted: Wanted, dialled: Callable[[], Transport]) -> None:
        """`dialled`: makes another link to the server."""
        super().__init__("attach", "", {})
        self._wanted = wanted
        self._dialled = dialled
        self._output = Output()
        self._terminal: SessionView | None = None if wanted.json else SessionView(self._output)
        self._view: View = self._terminal or JsonView(self._output)
        if wanted.listing:
            self._view = View(self._output)
        self._typing = Typing(self._typed, self._leaving.set)
        self._permissions = Permissions("ask", self._view.note, self._typing.agrees)
        self._seen = _Seen()
        self._channel: RemoteChannel | None = None
        self._id = wanted.session or ""
        self._client = ""
        """Our id, as others see it."""
        self._signal = 0
        self._closed: Update | None = None
        """The update that said that the session is closed."""

    # -- links ---------------------------------------------------------------------------------

    async def run(self, first: Transport) -> int:
        """Returns the exit code. Raises `ConductorError`."""
        self._watch_signals()
        try:
            code = await self._over(first)
            while code is None:
                code = await self._return()
        except OutputClosed as error:
            raise report.unwritable(str(error)) from None
        finally:
            self._typing.end()
        return code

    async def _over(self, remote: Transport) -> int | None:
        """Returns the exit code; None: the link is lost, and the session was there. Raises
        `ConductorError`."""
        self._channel = channel = RemoteChannel(remote, self.say)
        try:
            await channel.open()
            async with self.over(channel):
                return await self._visit()
        except ChainEnded:
            raise self._cut() from None
        finally:
            await channel.close(_GRACE)

    async def _return(self) -> int | None:
        """Comes back by another link. Raises `ConductorError` where that fails for a minute."""
        error = self._cut()
        self.say(f"{error.text}; trying again")
        loop, tries = asyncio.get_running_loop(), 0
        until = loop.time() + backoff.PATIENCE
        while True:
            with anyio.move_on_after(backoff.seconds(tries)):
                await self._leaving.wait()
                return self._left()
            tries += 1
            try:
                return await self._over(self._dialled())
            except ConductorError as raised:
                if self._closed is not None:
                    raise
                error = raised
            if getattr(error, "is_final", False) or loop.time() > until:
                raise error

    def say(self, text: str) -> None:
        """Shows a sentence about the link."""
        report.write(text, dim=True)
        self._marked()

    def _cut(self) -> ConductorError:
        """Why nothing more comes from there."""
        how = self._channel.how if self._channel is not None else None
        text = how.text if how is not None else "ended without an answer"
        hint = (how.hint if how is not None else "") or "attach again"
        return ConductorError(f"{self._wanted.place} {text}", hint)

    def _left(self) -> int:
        """The exit code of who leaves."""
        return 128 + self._signal if self._signal else 0

    # -- the visit -----------------------------------------------------------------------------

    async def _visit(self) -> int | None:
        wanted = self._wanted
        await self.introduced(wanted.place, attaches=self._id or True)
        if wanted.listing:
            _show(await self.live(), wanted.place, as_json=wanted.json)
            return 0
        self._id = self._id or await self._chosen()
        if wanted.history == "full":
            self._seen.replays()
        said = await self.attached(
            self._id, drives=wanted.drives, history=wanted.history, name=wanted.name
        )
        self._seen.goes_on()
        await self._arrived(said)
        await self.stay()
        return await self._end()

    async def _chosen(self) -> str:
        """The only live session, or the session that the person chooses. Raises `UsageError`."""
        sessions, place = await self.live(), self._wanted.place
        if not sessions:
            raise UsageError(f"no session is live at {place}", "open one: `conductor connect`")
        if len(sessions) == 1:
            return sessions[0].id
        table = "\n".join(_table(sessions))
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

    async def _arrived(self, said: Mapping[str, Any]) -> None:
        is_back, self._client = bool(self._client), str(said.get("clientId"))
        if is_back:
            self.say(f"linked to {self._wanted.place} again")
            self.go_on(self.sessions[self._id])
        elif self._terminal is not None:
            await self._terminal.settle()
            self._introduce(said)
            if is_terminal():
                self._typing.begin()
                self._marked()

    def _introduce(self, said: Mapping[str, Any]) -> None:
        """Tells the person which session this is."""
        if self._wanted.history == "full" and about(said).get("complete") is False:
            self._view.note("the beginning of this session is not kept any more")
        role = "you take part" if self._wanted.drives else "you watch"
        clients = said.get("connectedClients")
        others = max(0, len(clients) - 1) if isinstance(clients, list) else 0
        keys = "Ctrl-C cancels a turn, Ctrl-D leaves" if self._wanted.drives else "Ctrl-C leaves"
        name = one_line(self._id, 100)
        self._view.note(
            f"session {name}: {role}, {counted(others, 'other')} {are(others)} attached; {keys}"
        )

    async def _end(self) -> int | None:
        """The exit code; None: the link is lost."""
        if self._closed is None and not self._leaving.is_set():
            return None
        self._typing.end()
        await self._view.finish()
        if self._closed is None:
            return self._left()
        error = self._closed.get("error")
        if isinstance(error, dict):
            text = f"the session is closed: {one_line(error.get('message'), 1000)}"
            raise ConductorError(text, "the server may have a log")
        self._view.note("the session is closed")
        return 0

    # -- from the server ------------------------------------------------------------------------

    async def _heard(self, line: bytes) -> None:
        if not self._wanted.json or self._is_fresh(line):
            await self._view.frame(line)

    def _is_fresh(self, line: bytes) -> bool:
        """Whether a frame has not been shown before a cut."""
        with contextlib.suppress(msgspec.DecodeError):
            params = members(members(json_text.decode(line)).get("params"))
            if params.get("sessionId") == self._id and "update" in params:
                return self._seen.is_new(members(params["update"]))
        return True

    def _is_new(self, session: str, update: Update) -> bool:
        return self._wanted.json or self._seen.is_new(update)

    async def _shown(self, session: Session, update: Update) -> None:
        kind, view = update.get("sessionUpdate"), self._terminal
        if kind == "session_closed":
            self._closed = update
            self._leaving.set()
        elif view is None or kind == "permission_requested":
            return
        elif kind == "permission_resolved":
            if client_of(update.get("resolvedBy")).id != self._client:
                await view.answered(update)
        elif kind == "turn_complete":
            await view.turn_ended(update.get("stopReason"), update.get("error"))
        else:
            await view.update(update)
        self._marked()

    def _overheard(self, question: Question) -> None:
        if self._terminal is not None:
            self._terminal.asked(question)

    async def _answered(self, question: Question) -> str | None:
        self._overheard(question)
        return await self._permissions.choose(question.call, question.options)

    def _lost(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        if not self._leaving.is_set():
            self._view.note(f"this may not have arrived: {one_line(blocks[0]['text'], 200)}")

    def _marked(self) -> None:
        """Shows where one types, if that makes sense now."""
        session = self.sessions.get(self._id)
        if self._client and session is not None and not self._output.line_open:
            self._typing.show(marker=self._wanted.drives and not session.running)

    # -- from the person ------------------------------------------------------------------------

    def _typed(self, line: str) -> None:
        block = {"type": "text", "text": line}
        if not line.strip():
            self._marked()
        elif not self._wanted.drives:
            self._view.note("you only watch this session: attach without --view to take part")
        elif not self.prompt(self._id, [block], waits=True):
            when = "the turn has ended" if self._linked else "the link is back"
            self._view.note(f"this is sent when {when}")

    def _prompted(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        if session.version == 1:  # the history has it as it is shown to others
            self._seen.is_new({"sessionUpdate": "user_message_chunk", "content": blocks[0]})

    def _interrupt(self) -> None:
        session = self.sessions.get(self._id)
        is_running = session is not None and session.running and not session.cancelling
        if session is not None and is_running and self._wanted.drives and self._linked:
            session.waiting.clear()
            self.cancel(self._id)
            self._view.note("cancelling the turn; press Ctrl-C again to leave")
        else:
            self._terminate(signal.SIGINT)

    def _terminate(self, number: int) -> None:
        self._signal = number
        self._leaving.set()

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        signals.call(loop, signal.SIGINT, self._interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signals.call(loop, number, self._terminate, number)


# -- the live sessions of a server -----------------------------------------------------------------


def _show(sessions: list[LiveSession], place: str, *, as_json: bool) -> None:
    """Prints the live sessions of a server, and the clients of each."""
    if as_json:
        report.say_json(
            [
                {**one._asdict(), "clients": [client._asdict() for client in one.clients]}
                for one in sessions
            ]
        )
    elif sessions:
        report.say(*_table(sessions))
    else:
        report.say(f"no session is live at {place}")


def _table(sessions: list[LiveSession]) -> list[str]:
    """The sessions with their numbers, and the clients of each."""
    rows = [("", "session", "state", "folder", "clients")]
    for number, one in enumerate(sessions, 1):
        clients = ", ".join(f"{client.shown} {client.role}" for client in one.clients)
        name = f"{one.id} {one.title}" if one.title else one.id
        state = "a turn runs" if one.turn else "idle"
        cells = (one_line(name, 60), state, one_line(one.cwd, 60), one_line(clients, 200))
        rows.append((str(number), *cells))
    return pages.aligned(rows)
