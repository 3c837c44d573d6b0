"""What every proxy does of itself: it is initialized, and keeps count of sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .engine import Engine, Next
    from .messages import Request

Handlers = dict[str, Callable[[Any, Any], Awaitable[Any]]]

SETUPS: Final = ("session/new", "session/load", "session/resume", "session/fork")
"""Requests that begin a session, or bring one back; all carry `mcpServers`."""

_REPLAYS: Final = frozenset({"session/load", "session/resume"})
_ENDS: Final = ("session/close", "session/delete")


def handlers(engine: Engine) -> Handlers:
    """The handlers, by method."""

    async def initialize(request: Request, following: Next) -> Any:
        if engine.failure is not None:
            raise engine.failure
        return await following(request)

    async def set_up(request: Request, following: Next) -> Any:
        session = request.session if "sessionId" in request.params else None
        replays = session is not None and request.method in _REPLAYS
        if session is not None and replays:
            session.replaying += 1
        try:
            result = await following(request)
        finally:
            if session is not None and replays:
                session.replaying -= 1
        opened = result.get("sessionId") if isinstance(result, dict) else None
        found = engine.session(opened) if isinstance(opened, str) else session
        if found is not None:
            found.cwd = request.params.get("cwd", found.cwd)
        return result

    async def end(request: Request, following: Next) -> Any:
        result = await following(request)
        engine.sessions.pop(request.params.get("sessionId", ""), None)
        return result

    return {
        "initialize": initialize,
        **dict.fromkeys(SETUPS, set_up),
        **dict.fromkeys(_ENDS, end),
    }
