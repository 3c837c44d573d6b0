"""The own work of every proxy: it is initialized, and keeps count of sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from . import editor, keeping
from .messages import set_session

if TYPE_CHECKING:
    from .engine import Engine
    from .handling import Next
    from .messages import Request

Handlers = dict[str, Callable[[Any, Any], Awaitable[Any]]]

SETUPS: Final = ("session/new", "session/load", "session/resume", "session/fork")
"""Requests that begin a session, or bring one back; all carry `mcpServers`."""

_REPLAYS: Final = frozenset({"session/load", "session/resume"})
ENDS: Final = ("session/close", "session/delete")


def handlers(engine: Engine) -> Handlers:
    """The handlers, by method."""

    async def initialize(request: Request, following: Next) -> Any:
        if engine.failure is not None:
            raise engine.failure
        engine.capabilities = editor.capabilities(request.params)
        result = await following(request)
        if isinstance(result, dict):
            engine.version = result.get("protocolVersion")
        return result

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
        _opened(engine, request, result)
        return result

    async def end(request: Request, following: Next) -> Any:
        result = await following(request)
        gone = engine.sessions.pop(request.params.get("sessionId", ""), None)
        if gone is not None and gone.told is not None:
            engine.keep({keeping.of_session(gone.id): None})
        return result

    return {
        "initialize": initialize,
        **dict.fromkeys(SETUPS, set_up),
        **dict.fromkeys(ENDS, end),
    }


def last(engine: Engine) -> Handlers:
    """The handlers behind the author's, by method: whoever called `next` finds what they did."""

    async def set_up(request: Request, following: Next) -> Any:
        result = await following(request)
        _opened(engine, request, result)
        return result

    return {**dict.fromkeys(SETUPS, set_up), **editor.handlers(engine)}


def _opened(engine: Engine, request: Request, result: Any) -> None:
    """Takes note of the session that a setup opened; from now on the request belongs to it."""
    opened = request.params.get("sessionId")
    if request.method not in _REPLAYS and isinstance(result, dict):  # those have named it
        opened = result.get("sessionId", opened)
    if isinstance(opened, str):
        session = engine.session(opened)
        session.cwd = request.params.get("cwd", session.cwd)
        session.began = request.method
        set_session(request, session)
