"""The one turn of `conductor exec`: from `initialize` to the answer of `session/prompt`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from conductor.cli.exec_output import OutputClosed, View
from conductor.client.connection import ChainEnded, Connection, Handler
from conductor.client.handlers import capabilities
from conductor.errors import RequestError
from conductor.transports.memory import Channel

_PARTS: Final = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
)
"""The kinds of updates that are parts of an answer."""


class ExecTurn:
    """Runs the turn. Afterwards `stop_reason` holds how it ended, or `error` why it did not."""

    def __init__(
        self,
        *,
        prompt: str,
        cwd: str,
        view: View,
        handlers: Mapping[str, Handler],
        answers: Callable[[], None],
    ) -> None:
        """`answers`: called with each part of the answer, before it is shown."""
        self._answers = answers
        self._prompt = prompt
        self._cwd = cwd
        self._capabilities = capabilities(handlers)
        self._view = view
        self._connection = Connection(
            "exec", handlers, on_update=self._updated, on_frame=view.frame
        )
        self._session: str | None = None
        self.stop_reason: str | None = None
        self.error: RequestError | ChainEnded | OutputClosed | None = None
        self.defect: Exception | None = None
        """An exception of the client itself."""

    async def run(self, channel: Channel) -> None:
        """The in-process component; returns when the turn is over."""
        async with self._connection.over(channel):
            try:
                self.stop_reason = await self._turn()
            except (RequestError, ChainEnded, OutputClosed) as error:
                self.error = error
            except Exception as error:
                self.defect = error
                return
            try:
                await self._view.finish()
            except OutputClosed as error:
                self.error = self.error or error

    async def _turn(self) -> str:
        await self._connection.initialize(self._capabilities)
        self._session = (await self._connection.new_session(self._cwd))["sessionId"]
        blocks = [{"type": "text", "text": self._prompt}]
        return await self._connection.prompt(self._session, blocks)

    async def _updated(self, session: str, update: dict[str, Any]) -> None:
        # The id is unknown until the answer to `session/new`; there is only one session.
        if self._session in (None, session):
            if update.get("sessionUpdate") in _PARTS:
                self._answers()
            await self._view.update(update)

    def knows(self, command: Sequence[str]) -> None:
        """Takes the agent's command, for hints."""
        self._connection.agent = command

    @property
    def over(self) -> bool:
        """Whether the turn has ended."""
        return self.stop_reason is not None or self.error is not None

    @property
    def refused_by(self) -> str:
        """The component that has ended the turn with a refusal; empty: nobody has said so."""
        return self._connection.refused_by

    def cancel(self) -> bool:
        """Cancels the turn; False if no prompt is pending."""
        if self._session is None or self.over:
            return False
        self._connection.cancel(self._session)
        return True
