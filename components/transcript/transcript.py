"""Keeps each conversation as data, and answers with it where the agent or the client cannot.

conductor agent transcript claude-agent-acp
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from guest_sdk.python import (
    Answered,
    Conversation,
    Proxy,
    ProxyError,
    Recorder,
    Request,
    Session,
    Update,
)

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
REPLAYS = ("session/load", "session/resume")


@dataclass
class Config:
    """The settings; README.md explains each."""

    chars: int = 2_000_000
    sessions: int = 16

    def __post_init__(self) -> None:
        if self.chars < 1000 or self.sessions < 1:
            raise ValueError("`chars` is at least 1000, `sessions` at least 1")


proxy = Proxy(
    "transcript",
    description="Keeps each conversation as data.",
    config=Config,
)
kept: OrderedDict[str, Recorder] = OrderedDict()
"""The conversation of each session; the session that was used last stands last."""


def recorder(session: Session) -> Recorder:
    """Keeps a session, from now on if it is new."""
    if session.id not in kept:
        begin(session.id, Recorder(most=proxy.config.chars))
    kept.move_to_end(session.id)
    return kept[session.id]


def begin(id_: str, found: Recorder) -> None:
    """Keeps a session in this; of too many the one goes that was not used for the longest time."""
    kept[id_] = found
    kept.move_to_end(id_)
    while len(kept) > proxy.config.sessions:
        kept.popitem(last=False)


# -- what passes -----------------------------------------------------------------------------------


@proxy.request("session/new", *REPLAYS, "session/fork")
async def set_up(request: Request, following: Any) -> Any:
    source = getattr(request, "session", None)
    told_again = request.method == "session/load" or "replayFrom" in request.params
    if source is not None and request.method in REPLAYS and told_again:
        begin(source.id, Recorder(most=proxy.config.chars))
    result = await following(request)
    session = getattr(request, "session", None)
    if session is not None and session is not source:
        forked = kept.get(source.id) if source is not None else None
        before = Conversation.read(forked.conversation.json()) if forked is not None else None
        begin(session.id, Recorder(before, most=proxy.config.chars))
    return result


@proxy.request("session/close", "session/delete")
async def ended(request: Request, following: Any) -> Any:
    result = await following(request)
    kept.pop(request.params.get("sessionId", ""), None)
    return result


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    if getattr(request, "session", None) is None or request.direction != "down":
        return await following(request)
    held = recorder(request.session)
    held.prompted(request.params.get("prompt"))
    result = await following(request)
    held.ended(result)
    return result


@proxy.update()
def updated(update: Update) -> None:
    if getattr(update, "session", None) is not None:
        recorder(update.session).heard(update.update, replayed=update.replayed)


@proxy.request("session/request_permission")
async def permission(request: Request, following: Any) -> Any:
    result = await following(request)
    if getattr(request, "session", None) is not None:
        recorder(request.session).approved(request.params, result)
    return result


# -- what is asked for -----------------------------------------------------------------------------


@proxy.summarize
def summarized(conversation: Conversation, session: Session) -> dict[str, Any]:
    held = recorder(session).conversation
    ahead = held.left_out - conversation.left_out
    if ahead + len(held.turns) == len(conversation.turns):  # else a turn is not the same turn
        both = zip(conversation.turns[::-1], held.turns[::-1], strict=False)
        for turn, here in ((turn, here.json()) for turn, here in both):
            if turn.json()["items"] != here["items"]:
                turn.meta[proxy.meta_key] = {"items": here["items"]}
    return known(session)


@proxy.augment
def augmented(_: Conversation, session: Session) -> dict[str, Any]:
    return known(session)


def known(session: Session) -> dict[str, Any]:
    """Members added to a conversation: the number of turns that passed here, and their events."""
    held = recorder(session).conversation
    events = [
        {"turn": held.left_out + number, **one.json()}
        for number, turn in enumerate(held.turns)
        for one in turn.events
    ]
    return {"turns": held.left_out + len(held.turns), "events": events}


@proxy.request("_conversation/summarize")
async def summarize(request: Request, following: Any) -> Any:
    try:
        return await following(request)
    except Answered as error:
        session = getattr(request, "session", None)
        if error.code != METHOD_NOT_FOUND or session is None or session.id not in kept:
            raise
        held = recorder(session).conversation
        held.session_id, held.cwd = session.id, session.cwd or ""
        return {"conversation": held.json()}


@proxy.request("_conversation/augment")
async def augment(request: Request, following: Any) -> Any:
    try:
        return await following(request)
    except Answered as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        presented = request.params.get("conversation")
        try:
            Conversation.read(presented, "/conversation")
        except ValueError as malformed:
            raise ProxyError(str(malformed), INVALID_PARAMS) from None
        return {"conversation": presented}


if __name__ == "__main__":
    proxy.run()
