"""Shows a session that several clients have: turns as `conductor exec` does, and who did them."""

from __future__ import annotations

from typing import Any, Final

from conductor.cli import report
from conductor.cli.exec_output import Output, TextView, described, remember, text_of
from conductor.client.handlers import described as described_call
from conductor.client.session import Question
from conductor.client.visit import client_of
from conductor.errors import one_line
from conductor.record.turns.messages import members

_USUAL: Final = ("end_turn", "")


class SessionView(TextView):
    """The agent's text on standard output; prompts, tool calls and all else on standard error."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._asker = ""
        """Who has sent the next prompt."""

    async def update(self, update: dict[str, Any]) -> None:
        """Shows one update."""
        kind = update.get("sessionUpdate")
        if kind == "user_message_chunk":
            await self._prompt(update.get("content"))
        elif kind == "prompt_received":
            await self.finish()
            self._asker = client_of(update.get("sentBy")).shown
        else:
            await super().update(update)

    async def _prompt(self, content: object) -> None:
        await self.finish()
        block = members(content)
        text = text_of(block) if block.get("type") == "text" else f"[{described(block)}]"
        report.write(f"{one_line(self._asker, 100)}> {text}")

    async def settle(self) -> None:
        """Shows the updates so far; ends a line only where its turn has ended as well."""
        self._end_thought()

    def asked(self, question: Question) -> None:
        """The drivers are asked something: a viewer is shown it here, a driver where it answers."""
        title, details = described_call(question.call)
        remember(self._titles, question.call_id, title)
        if question.viewed:
            self.note("\n  ".join([f"the agent asks for permission: {title}", *details]))

    async def answered(self, update: dict[str, Any]) -> None:
        """Shows how a question was answered."""
        call = str(update.get("toolCallId"))
        title = self._titles.get(call, one_line(call))
        by = client_of(update.get("resolvedBy")).shown
        outcome = members(update.get("outcome")).get("outcome")
        chosen = one_line(update.get("chosenOptionId") or outcome, 100)
        answered = f"{one_line(by, 100)} answered {chosen}" if by else "nobody is asked any more"
        self.note(f"permission for {title}: {answered}")

    async def turn_ended(self, reason: object, error: object) -> None:
        """Shows the end of a turn, if it ended in another way than most."""
        await self.finish()
        self._asker = ""
        if isinstance(error, dict):
            report.write(one_line(error.get("message"), 1000), word="error")
        elif str(reason or "") not in _USUAL:
            self.note(f"the turn ended: {one_line(reason)}")
