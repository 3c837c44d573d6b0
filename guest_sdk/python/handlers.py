"""Handlers as the engine calls them, out of the functions authors write."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import CoroutineType, NoneType
from typing import Any, Final

from . import checked
from .engine import engine
from .handling import answers
from .messages import DROP, Drop, Message, Request, Update
from .records import Record, plain

Handler = Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]


_VALUES: Final = frozenset({NoneType, dict, Record, list, str, Drop, bool, int})
"""Types that are no awaitables, so nobody needs to ask."""


def adapted(
    function: Callable[..., Any], kind: type[Message], kinds: tuple[str, ...] = ()
) -> Handler:
    """A handler of messages of a kind out of a function of one or two parameters, sync or async.

    Others pass it. `kinds`: those of updates that it is for, if not all. Raises `TypeError` for
    a function that takes something else.
    """
    positional = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if len(positional) not in (1, 2):
        raise TypeError(
            f"handler `{function.__name__}` must take the message, or the message and `next`"
        )
    make = _deciding if len(positional) == 2 else _looking
    return make(function, kind, kinds)


def _deciding(function: Callable[..., Any], kind: type[Message], kinds: tuple[str, ...]) -> Handler:
    async def handler(message: Any, following: Any) -> Any:
        if not isinstance(message, kind) or (kinds and message.kind not in kinds):
            return await following(message)
        found = function(message, following)
        # Twice where `return next(request)` lacks its `await`.
        while (of := type(found)) not in _VALUES:
            if of is not CoroutineType and not isinstance(found, Awaitable):
                break
            found = await found
        if not isinstance(message, Request):
            if isinstance(found, (dict, list, str, Message)):
                raise TypeError(
                    f"{checked.place(function)} returned {type(found).__name__}, which nobody is "
                    "sent: what is passed on is given to `next`"
                )
            return found
        given = answers(following)
        if found is not None:
            if given is None or found is not given[0]:
                checked.answer(message.method, found, function)
            return found
        if given is None:
            raise TypeError(
                f"{checked.place(function)} answered nothing: "
                "`return await next(request)` passes a request on"
            )
        return given[0]

    return handler


def _looking(function: Callable[..., Any], kind: type[Message], kinds: tuple[str, ...]) -> Handler:
    async def handler(message: Any, following: Any) -> Any:
        if not isinstance(message, kind) or (kinds and message.kind not in kinds):
            return await following(message)
        found = function(message)
        while (of := type(found)) not in _VALUES:
            if of is not CoroutineType and not isinstance(found, Awaitable):
                break
            found = await found
        if found is None:
            return await following(message)
        if isinstance(message, Request):
            return checked.answer(message.method, found, function)
        if found is not DROP:
            _instead(message, found, function)
        return None

    return handler


def _instead(message: Message, found: Any, function: Callable[..., Any]) -> None:
    """Sends the value that a handler returned in place of a notification."""
    side = "p" if message.direction == "up" else "s"
    is_update = isinstance(message, Update)
    for one in found if isinstance(found, list) else [found]:
        one = one.update if isinstance(one, Update) else plain(one)  # noqa: PLW2901
        if not isinstance(one, dict) or (is_update and "sessionUpdate" not in one):
            meant = "with a `sessionUpdate`" if is_update else "of parameters"
            raise TypeError(
                f"{checked.place(function)} returned {one!r}; DROP or a dict {meant} is meant"
            )
        params = {**message.params, "update": one} if is_update else one
        engine().notify(side, message.method, params)
