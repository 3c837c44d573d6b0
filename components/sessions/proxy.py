"""Keeps sessions for agents that do not, and begins sessions with a history.

conductor agent sessions claude-agent-acp
"""

from typing import Any

from store import Head, Store

from guest_sdk.python import (
    Answered,
    Cancelled,
    Conversation,
    Notification,
    Proxy,
    ProxyError,
    Recorder,
    Refused,
    Request,
    Update,
)

INVALID_PARAMS, NOT_FOUND, METHOD_NOT_FOUND = -32602, -32002, -32601
LOADS = ("session/load", "session/resume")
HISTORY = "conversation"
"""The member of `_meta` by which `session/new` begins with a history."""
TAKES = "conductor.conversation/history"
"""The capability of an agent that takes such a history."""
LARGEST = 1_000_000
"""Characters of a history that are kept."""


class Chat:
    """A session of the client. `agent`: the agent's session that it is; mostly of the same id."""

    def __init__(self, agent: str, cwd: str) -> None:
        self.agent = agent
        self.cwd = cwd
        self.recorder = Recorder()
        """The conversation since it was kept last."""
        self.untold: Conversation | None = None
        """The history that the agent gets before the next prompt."""


proxy = Proxy(
    "sessions",
    description="Keeps sessions for agents that do not.",
)
store = Store(proxy)
chats: dict[str, Chat] = {}
"""The sessions that are open, by the client's ids."""
inner: dict[str, str] = {}
"""The client's ids by the agent's, where they differ."""
can = {"load": False, "list": False, "history": False}
"""The abilities of the agent itself."""


@proxy.on_start
def started() -> None:
    for id_, agent, cwd in proxy.kept("open") or []:
        joined(id_, agent, cwd)


def joined(id_: str, agent: str, cwd: str) -> Chat:
    """Takes up a session."""
    chat = chats[id_] = Chat(agent, cwd)
    if agent != id_:
        inner[agent] = id_
    proxy.keep("open", [[one, each.agent, each.cwd] for one, each in chats.items()][-1000:])
    return chat


def chat_of(message: Request | Notification) -> tuple[str, Chat] | None:
    """The session a message belongs to, whichever id it has."""
    id_ = message.params.get("sessionId")
    id_ = inner.get(id_, id_) if isinstance(id_, str) else None
    return (id_, chats[id_]) if id_ in chats else None


# -- what agent and client can do ------------------------------------------------------------------


@proxy.request("initialize")
async def initialize(request: Request, following: Any) -> Any:
    result = await following(request)
    if not isinstance(result, dict):
        return result
    version = result.get("protocolVersion")
    held = result.setdefault("agentCapabilities" if version == 1 else "capabilities", {})
    if not isinstance(held, dict):
        return result
    meta, within = held.get("_meta"), held.get("sessionCapabilities")
    can["history"] = isinstance(meta, dict) and meta.get(TAKES) is True
    can["load"] = version != 1 or held.get("loadSession") is True
    can["list"] = version != 1 or (isinstance(within, dict) and "list" in within)
    if version == 1:
        held["loadSession"] = True
        held["sessionCapabilities"] = {
            **(within if isinstance(within, dict) else {}), "list": {},
        }  # fmt: skip
    return result


# -- sessions begin and end ------------------------------------------------------------------------


@proxy.request("session/new", "session/fork")
async def begun(request: Request, following: Any) -> Any:
    if request.direction != "down":
        return await following(request)
    source = chat_of(request)
    history = given(request) if request.method == "session/new" else None
    result = await following(request)
    agent = result.get("sessionId") if isinstance(result, dict) else None
    if not isinstance(agent, str):
        return result
    id_ = await named(agent)
    chat = joined(id_, agent, str(request.params.get("cwd", "")))
    result["sessionId"] = id_
    if source is not None:
        head = await store.head(source[0])
        history = await store.load(head) if head is not None else None
    if history is not None:
        if source is None and not can["history"]:
            chat.untold = history
        await store.append(id_, chat.cwd, history)
    return result


async def named(agent: str) -> str:
    """The client's id of a new session of the agent's, which may have given that id before.

    Agents may count from 1 each time they start. The older session is then kept under another id;
    where it is open, the new one has another.
    """
    other, number = agent, 1
    while other in chats or await store.head(other) is not None:
        number += 1
        other = f"{agent}~{number}"
    if agent in chats and chats[agent].agent != agent:
        return other
    if other != agent:
        await store.move(agent, other)
    return agent


def given(request: Request) -> Conversation | None:
    """The history that a session is to begin with. An agent that cannot take it does not get it."""
    meta = request.params.get("_meta")
    if not isinstance(meta, dict) or HISTORY not in meta:
        return None
    try:
        history = Conversation.read(meta[HISTORY], f"/_meta/{HISTORY}")
    except ValueError as error:
        raise ProxyError(f"session/new: {error}", INVALID_PARAMS) from None
    if not can["history"]:
        del meta[HISTORY]
    history.trim(LARGEST)
    return history


@proxy.request(*LOADS)
async def loaded(request: Request, following: Any) -> Any:
    id_ = request.params.get("sessionId")
    if request.direction != "down" or not isinstance(id_, str):
        return await following(request)
    head = await store.head(id_)
    cwd = request.params.get("cwd")
    if head is not None and head["cwd"] != cwd:
        raise ProxyError(f"session `{id_}` belongs to another folder", NOT_FOUND)
    ours = id_ in inner or (id_ in chats and chats[id_].agent != id_)
    if can["load"] and not ours:
        try:
            result = await following(request)
        except Answered:
            if head is None:
                raise
        else:
            joined(id_, id_, str(cwd))
            return result
    if head is None:
        raise ProxyError(f"there is no session `{id_}` in this folder", NOT_FOUND)
    return await opened_again(request, head)


async def opened_again(request: Request, head: Head) -> Any:
    """Opens a fresh session with the agent in the place of one it does not have."""
    history = await store.load(head)
    again = ("sessionId", "replayFrom")
    setup = {name: one for name, one in request.params.items() if name not in again}
    if can["history"]:
        meta = setup.get("_meta")
        setup["_meta"] = {**(meta if isinstance(meta, dict) else {}), HISTORY: history.json()}
    result = dict(await proxy.ask_agent("session/new", **setup))
    chat = joined(head["id"], str(result.pop("sessionId")), head["cwd"])
    chat.untold = None if can["history"] else history
    from_start = request.params.get("replayFrom")
    if request.method == "session/load" or from_start:
        request.session.replay(history)
    if from_start or "replayFrom" in request.params:
        request.session.update("state_update", state="idle")
    return result


@proxy.request("session/close", "session/delete")
async def ended(request: Request, following: Any) -> Any:
    found, id_ = chat_of(request), request.params.get("sessionId")
    known = request.method == "session/delete" and isinstance(id_, str) and await store.forget(id_)
    try:
        result = await following(request)
    except Answered:
        if not known:
            raise
        result = {}
    if found is not None:
        del chats[found[0]]
        inner.pop(found[1].agent, None)
    return result


@proxy.request("session/list")
async def listed(request: Request, following: Any) -> Any:
    try:
        result = await following(request) if can["list"] else {"sessions": []}
    except Answered as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        result = {"sessions": []}
    sessions = result.get("sessions") if isinstance(result, dict) else None
    if not isinstance(sessions, list) or request.params.get("cursor"):
        return result
    sessions[:] = [
        one for one in sessions if not isinstance(one, dict) or one.get("sessionId") not in inner
    ]
    there = {one.get("sessionId") for one in sessions if isinstance(one, dict)}
    cwd = request.params.get("cwd")
    for head in reversed(await store.heads()):
        if head["id"] not in there and cwd in (None, head["cwd"]):
            one = {"sessionId": head["id"], "cwd": head["cwd"], "title": head["title"]}
            sessions.append({**one, "updatedAt": head["updated"]} if head["updated"] else one)
    return result


# -- turns -----------------------------------------------------------------------------------------


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    found = chat_of(request)
    if found is None or request.direction != "down":
        return await following(request)
    id_, chat = found
    await tell(chat)
    chat.recorder.prompted(request.params.get("prompt"))
    try:
        result = await following(request)
    except Answered:
        await keep(id_, chat)
        raise
    chat.recorder.ended(result)
    if isinstance(result, dict) and "stopReason" in result:  # else a state ends it
        await keep(id_, chat)
    return result


async def tell(chat: Chat) -> None:
    """Gives the agent the history that it does not have yet."""
    history, chat.untold = chat.untold, None
    if history is None or not history.turns:
        return
    try:
        turn = await proxy.session(chat.agent).preload(history)
        if turn.stop_reason == "cancelled":
            chat.untold = history
    except Cancelled:
        chat.untold = history
        raise
    except ProxyError as error:
        proxy.log.warn(f"the agent does not know what was said before: {error.message}")


async def keep(id_: str, chat: Chat) -> None:
    """Keeps the turns that are over."""
    turns, chat.recorder = chat.recorder.conversation, Recorder()
    try:
        await store.append(id_, chat.cwd, turns)
    except Refused as refused:
        proxy.log.warn(f"{id_} is not kept: {refused.message}")


@proxy.update()
async def updated(update: Update) -> None:
    found = chat_of(update)
    if found is None or update.replayed:
        return
    id_, chat = found
    chat.recorder.heard(update.update)
    if update.kind == "state_update" and update.update.get("state") == "idle":
        await keep(id_, chat)


@proxy.request("session/request_permission")
async def permission(request: Request, following: Any) -> Any:
    result = await following(request)
    found = chat_of(request)
    if found is not None:
        found[1].recorder.approved(request.params, result)
    return result


# -- ids, last of all ------------------------------------------------------------------------------


@proxy.request()
async def readdress(request: Request, following: Any) -> Any:
    before = renamed(request)
    try:
        return await following(request)
    finally:
        if before is not None:
            request.params["sessionId"] = before


@proxy.notification()
def readdress_too(notification: Notification) -> None:
    renamed(notification)


def renamed(message: Request | Notification) -> str | None:
    """Gives a message the id its session has on the other side; the one it had, if that differs."""
    params = message.params
    id_ = params.get("sessionId") if isinstance(params, dict) else None
    if not isinstance(id_, str):
        return None
    other = inner.get(id_, id_)
    if message.direction == "down":
        other = chats[id_].agent if id_ in chats else id_
    if other == id_:
        return None
    params["sessionId"] = other
    return id_


if __name__ == "__main__":
    proxy.run()
