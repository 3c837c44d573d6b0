"""The owner of a running chain: the chain asks it, and tells it of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from conductor.core import Closure, Dialect
    from conductor.run.judged_folder import JudgedFolder
    from conductor.run.launch import Launcher
    from conductor.spec.consent.tools import ToolsQuestion
    from conductor.spec.model import Spec

Log: TypeAlias = Callable[[str, str, str], None]
"""Writes a line: level, component name, text."""

Tell: TypeAlias = Callable[[str, str, bytes], None]
"""Sends a component a notification: name, method, params."""

Answer: TypeAlias = tuple[bytes | None, bytes | None]
"""The raw result, or None and the raw error object."""


class Owner:
    """The owner of a chain. This class hears nothing, and changes nothing."""

    launcher: Launcher | None = None
    """Plans other components for the running chain; None: it gets none."""
    outer_dialect: Dialect | None = None
    """The dialect of the outer conductor, where that is known."""
    judged: JudgedFolder | None = None
    """The folder by which the chain was chosen; None: any folder will do."""

    def respec(self) -> Sequence[Spec]:
        """The components from now on, at a reload. Raises `ConductorError`: then the former
        components stay. Not called without a `launcher`."""
        return ()

    def sources(self) -> Sequence[str]:
        """The files that `respec` reads beside the components' own."""
        return ()

    def connected(self) -> None:
        """The components are connected; the client's first message comes after this."""

    def passed(self) -> None:
        """The frames of a peer have been routed and written."""

    def answered(self, lines: bytes) -> None:
        """Lines are about to be written to the client."""

    def held(self, session: str | None) -> None:
        """A prompt is held (`Runtime.hold`)."""

    def differs(self, question: ToolsQuestion) -> bool:
        """An MCP server offers more than before; whether the user is asked."""
        return False

    def replied(self, token: int, member: bytes, body: bytes) -> None:
        """The client has answered a request of the conductor's own (`Runtime.ask`): `member` is
        `result` or `error`, and `body` its JSON."""

    def failed(self, reason: Closure) -> None:
        """The chain has failed. Called once, at once."""

    def stamped(self, number: int, params: bytes) -> bytes:
        """The params of a request to the agent with the trace context in them; `number`: of the
        message."""
        return params

    def perform(self, name: str, call: str, params: bytes | None, tell: Tell) -> Answer | None:
        """Answers a component's call of a service; None: the chain performs it."""
        return None
