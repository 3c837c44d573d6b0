"""Commands that the client runs for an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ..errors import ProxyError

if TYPE_CHECKING:
    from .turns import Turn


class Exit(NamedTuple):
    """How a command has ended."""

    code: int | None
    signal: str | None


class Terminal:
    """A command that the client runs; `async with turn.terminal("pytest", "-q") as terminal`.

    When the block is left it is ended, if it still runs.
    """

    def __init__(self, turn: Turn, params: dict[str, Any]) -> None:
        self._turn = turn
        self._params = params
        self.id = ""
        """How a tool call names it: `{"type": "terminal", "terminalId": terminal.id}`."""

    async def __aenter__(self) -> Self:
        held = await self._turn.ask_client("terminal/create", **self._params)
        name = held.get("terminalId") if isinstance(held, dict) else None
        if not isinstance(name, str):
            raise ProxyError("the client answered `terminal/create` without `terminalId`")
        self.id = name
        return self

    async def __aexit__(self, *exception: object) -> None:
        # Nobody waits for the answer: the turn may be over.
        params = {"sessionId": self._turn.session.id, "terminalId": self.id}
        self._turn._running.request("p", "terminal/release", params)

    async def wait(self) -> Exit:
        """Waits until it has ended."""
        held = await self._asked("terminal/wait_for_exit")
        return Exit(held.get("exitCode"), held.get("signal"))

    async def output(self) -> str:
        """The output of the terminal so far."""
        return str((await self._asked("terminal/output")).get("output", ""))

    async def kill(self) -> None:
        """Ends the terminal's command; its output can still be read."""
        await self._asked("terminal/kill")

    async def _asked(self, method: str) -> dict[str, Any]:
        held = await self._turn.ask_client(method, terminalId=self.id)
        return held if isinstance(held, dict) else {}
