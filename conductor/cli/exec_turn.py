"""The client of `conductor exec`: from `initialize` to the end of its one turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from conductor.cli.exec_output import OutputClosed, View
from conductor.client import acp
from conductor.client.connection import ChainEnded
from conductor.client.handlers import Files, Permissions
from conductor.client.session import Question, Session, Update
from conductor.client.talk import Talk
from conductor.core.policy.key_table import STAMP
from conductor.errors import RequestError
from conductor.record.turns.messages import members
from conductor.transports.memory import Channel

if TYPE_CHECKING:
    from conductor.cli.exec_ import Asked


class ExecTurn(Talk):
    """Runs the turn. Afterwards `stop_reason` holds how it ended, or `error` why it did not."""

    def __init__(
        self,
        asked: Asked,
        view: View,
        *,
        ask: Callable[[str], Awaitable[str]],
        answers: Callable[[], None],
    ) -> None:
        """`ask`: asks on the terminal. `answers`: called with each part of the answer."""
        super().__init__("exec", asked.cwd, Files(asked.cwd, asked.fs).handlers(), answers=answers)
        self._blocks = [{"type": "text", "text": asked.prompt}]
        self._view = view
        self._permissions = Permissions(asked.permissions, view.note, ask)
        self._id = ""
        self.stop_reason: str | None = None
        self.refused_by = ""
        """The component that has ended the turn with a refusal; empty: no component has refused."""
        self.error: Exception | None = None
        self.defect: Exception | None = None
        """An exception of the client itself."""

    async def run(self, channel: Channel) -> None:
        """The in-process component; returns when the turn is over."""
        async with self.over(channel):
            try:
                await self.introduced()
                self._id = (await self.new_session()).id
                self.prompt(self._id, self._blocks)
                await self.stay()
                await self._view.finish()
            except (RequestError, ChainEnded, OutputClosed) as error:
                self.error = self.error or error
            except Exception as error:
                self.defect = error

    async def _heard(self, line: bytes) -> None:
        await self._view.frame(line)

    async def _shown(self, session: Session, update: Update) -> None:
        if update.get("sessionUpdate") != "turn_complete":
            await self._view.update(update)
            return
        self.error = session.error
        if self.error is None:
            self.stop_reason = acp.stop_reason(update)
            self.refused_by = str(members(update.get("_meta")).get(STAMP) or "")
        self._leaving.set()

    async def _answered(self, question: Question) -> str | None:
        return await self._permissions.choose(question.call, question.options)

    def interrupt(self) -> bool:
        """Cancels the turn; False if none runs."""
        session = self.sessions.get(self._id)
        if session is None or not session.running:
            return False
        self.cancel(self._id)
        return True
