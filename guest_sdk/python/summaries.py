"""Additions of a proxy to a conversation that is requested or shown: `_conversation/…`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from . import checked, failures
from .content import jsonable
from .conversation import Conversation
from .engine import engine
from .handlers import Handler
from .recorder import SPACE
from .sessions import Session

SUMMARIZE: Final = "_conversation/summarize"
AUGMENT: Final = "_conversation/augment"
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")


def member(name: str) -> str:
    """The member of `_meta` in which a component of this name adds to a conversation."""
    return SPACE + _ODD.sub("-", name)


Adds = Callable[[Conversation, Session], Any]
"""An author's function of a conversation and its session; returns the addition."""


def adding(function: Adds) -> Handler:
    """The handler that adds a function's result to a conversation, under the proxy's name."""

    async def conversed(request: Any, following: Callable[[Any], Awaitable[Any]]) -> Any:
        result = await following(request)
        held = result.get("conversation") if isinstance(result, dict) else None
        try:
            conversation = Conversation.read(held, "/conversation")
        except ValueError as error:
            engine().log("warn", f"the answer to `{request.method}` has no conversation: {error}")
            return result
        try:
            found = function(conversation, request.session)
            found = await found if isinstance(found, Awaitable) else found
        except Exception as error:  # the conversation is not to suffer from it
            failures.report(engine(), f"{checked.place(function)} failed", error)
            return result
        if found is not None:
            conversation.meta[member(engine().name)] = jsonable(found)
        result["conversation"] = conversation.json()
        return result

    return conversed
