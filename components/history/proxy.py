"""Keeps long sessions short for the agent: it goes on in a fresh one, and is told what matters.

conductor agent history,config.tokens=80000 claude-agent-acp
"""

import copy
import math
from typing import Any

from chat import (
    ASKED,
    Chat,
    Config,
    heard_agent,
    heard_user,
    number,
    readable,
    summarised,
    told_before,
    worded,
)
from kept import Kept

from guest_sdk.python import (
    DROP,
    Notification,
    Proxy,
    ProxyError,
    Request,
    Session,
    Update,
)

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")
ENDS = ("session/close", "session/delete")
RETRY = 10
"""Prompts until another session is asked for again, where none was to be had."""
COMMAND = {
    "type": "command",
    "name": "remember",
    "description": "Keeps a fact for the whole session",
    "input": {"type": "text", "hint": "what to keep"},
}

proxy = Proxy(
    "history",
    description="Keeps long sessions short for the agent.",
    config=Config,
    session=Chat,
)
kept = Kept(proxy)
inner = kept.inner
proxy.on_start(kept.learn)


def chat_of(message: Request | Notification) -> tuple[Session, Chat] | None:
    """The client's session a message belongs to; None: to none."""
    params = message.params
    id_ = params.get("sessionId") if isinstance(params, dict) else None
    if not isinstance(id_, str) or id_ in inner:
        return None
    session = proxy.session(id_)
    return session, session.state


def is_hidden(message: Request | Notification) -> bool:
    """Whether a message is of a session of the agent's that the client does not know: one that a
    session of the client's was, or will be."""
    params = message.params
    return isinstance(params, dict) and params.get("sessionId") in inner


async def recognised(request: Request) -> tuple[Session, Chat] | None:
    """The session and its chat, with the facts that an earlier instance kept of the session."""
    found = chat_of(request)
    if found is not None:
        await recognise(found[0])
    return found


# -- sessions begin and end ------------------------------------------------------------------------


@proxy.request(*SETUPS)
async def set_up(request: Request, following: Any) -> Any:
    if request.direction != "down":
        return await following(request)
    source: Session | None = getattr(request, "session", None)
    mine = ("sessionId", "replayFrom")
    setup = {k: v for k, v in copy.deepcopy(request.params).items() if k not in mine}
    # The first conversation is of this session only, and may be more than the store takes.
    meta = setup.get("_meta")
    first = meta.pop("conversation", None) if isinstance(meta, dict) else None
    if source is not None and request.method in ("session/load", "session/resume"):
        chat: Chat = source.state
        chat.setup = setup
        try:
            told = await recall(source, request)
            proxy.start(kept.setup(source))
            try:
                result = await following(request)
            except ProxyError as error:
                result = await fall_back(source, request, following, told, error)
        finally:
            chat.loading = chat.hiding = False
        if isinstance(result, dict) and "sessionId" in result:  # as some agents say here too
            result["sessionId"] = source.id
        return result
    before = source.state if source is not None else Chat()
    result = await following(request)
    session = getattr(request, "session", None)
    if session is not None:
        chat = session.state = copy.deepcopy(before)
        chat.agent, chat.past, chat.setup, chat.running = session.id, [], setup, 0
        chat.spare, chat.ids = "", {}
        if first is not None:
            told_before(chat, proxy.config, first)
        inner.pop(session.id, None)
        proxy.start(kept.begun(session))
    return result


async def recall(session: Session, request: Request) -> dict[str, Any]:
    """Finds the parts of a session that is loaded, and has all but the last told again.

    Returns what the agent answered, by the parts it has told.
    """
    chat: Chat = session.state
    told: dict[str, Any] = {}
    await recognise(session)
    if request.method != "session/load" and not request.params.get("replayFrom"):
        return told
    chat.turns, chat.loading, last = [], True, chat.agent
    for one in chat.past:
        try:
            await go_on_as(session, one)
            told[one] = await proxy.ask_agent(request.method, **request.params)
        except ProxyError as error:
            proxy.log.warn(f"{one} is not told again: {error.message}")
    if chat.past:
        await go_on_as(session, last)
    # The last part is counted as it is told; if it is too long, the next prompt moves.
    chat.chars, chat.used, chat.running, chat.since = 0, 0, 0, 1
    return told


async def fall_back(
    session: Session, request: Request, following: Any, told: dict[str, Any], error: ProxyError
) -> Any:
    """Goes on in an earlier part, where the agent has the last one no more.

    Agents may keep a session only when its first turn is over. `told`: what the agent answered, by
    the parts it has told by now. Raises its `error` if it has none of them.
    """
    chat, past, lost = session.state, list(session.state.past), session.state.agent
    while chat.past:
        await go_on_as(session, chat.past.pop())
        try:
            result = told[chat.agent] if chat.agent in told else await following(request)
        except ProxyError:
            continue
        proxy.log.warn(f"{lost} is lost, {session.id} goes on from before: {error.message}")
        limit = chat.limit(proxy.config)
        chat.since, chat.used = 1, int(limit) if limit < math.inf else 0  # for it was full
        await kept.record(session)
        return result
    chat.past = past
    await go_on_as(session, lost)
    raise error


async def go_on_as(session: Session, agent: str) -> None:
    """The client's session is this one of the agent's from now on."""
    await session.rebind(agent)
    session.state.agent = agent


async def recognise(session: Session) -> None:
    """Finds the parts of a session that an earlier instance knew."""
    chat = session.state
    if chat.agent:
        return
    known = await kept.parts(session.id)
    if not chat.setup:
        opened = await kept.opened(session.id)
        chat.setup = chat.setup or opened
    if chat.agent:  # another message of the session was quicker
        return
    chat.agent = session.id
    if isinstance(known, dict):
        chat.past, chat.agent = list(known["past"]), str(known["agent"])
        chat.facts, chat.summary = list(known["facts"]), str(known["summary"])
        chat.choose(known.get("choices", []))
        inner.update({one: session.id for one in (*chat.past, chat.agent) if one != session.id})
        await session.rebind(chat.agent)


@proxy.request(*ENDS)
async def end(request: Request, following: Any) -> Any:
    found = await recognised(request)
    result = await following(request)
    if found is not None and request.direction == "down":
        session, chat = found
        agents = [*chat.past, chat.agent]
        try:
            for one in chat.past:
                await go_on_as(session, one)
                await also(request.method, session)
            if chat.past:
                await session.rebind(None)
        except ProxyError as error:  # a turn still runs
            proxy.log.warn(f"not all of {session.id} is ended: {error.message}")
        for one in agents:
            inner.pop(one, None)
        if request.method == "session/delete":
            proxy.start(kept.forget(session.id, agents))
    return result


async def also(method: str, session: Session) -> None:
    """Ends the part that a session is now."""
    try:
        await proxy.ask_agent(method, sessionId=session.id)
    except ProxyError as error:
        proxy.log(f"{method} of {session.state.agent}: {error.message}")


@proxy.request("session/list")
async def list_sessions(request: Request, following: Any) -> Any:
    result = await following(request)
    sessions = result.get("sessions") if isinstance(result, dict) else None
    if isinstance(sessions, list):
        hidden = await kept.hidden()
        sessions[:] = [
            one
            for one in sessions
            if not isinstance(one, dict) or one.get("sessionId") not in hidden
        ]
    return result


@proxy.request("session/set_mode", "session/set_model", "session/set_config_option")
async def chosen(request: Request, following: Any) -> Any:
    found = await recognised(request)
    result = await following(request)
    if found is not None and request.direction == "down":
        session, chat = found
        params = {k: v for k, v in request.params.items() if k != "sessionId"}
        chat.choose([[request.method, params]])
        proxy.start(kept.record(session))
    return result


# -- prompts ---------------------------------------------------------------------------------------


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    found, blocks = chat_of(request), request.params.get("prompt")
    if found is None or request.direction != "down" or not isinstance(blocks, list):
        return await following(request)
    session, chat = found
    await recognise(session)
    worded(blocks)
    said = "\n".join(readable(blocks))
    if chat.full(proxy.config) and not request.is_command:
        await shorten(session, chat, request)
    facts = len(chat.facts)
    chat.begun(proxy.config, said)
    chat.running += 1
    if len(chat.facts) > facts:
        proxy.start(kept.record(session))
    over = True
    try:
        result = await following(request)
        over = not isinstance(result, dict) or "stopReason" in result  # else a state ends it
        return result
    finally:
        chat.running = max(0, chat.running - over)


# -- a fresh session -------------------------------------------------------------------------------


async def shorten(session: Session, chat: Chat, request: Request) -> None:
    """Goes on in a fresh session of the agent's, and puts the needed knowledge into the prompt."""
    if not await spared(session, chat):
        return
    summary = await summed_up(session) if proxy.config.summary else ""
    for method, params in chat.chosen():
        try:
            await proxy.ask_agent(method, **{**params, "sessionId": chat.spare})
        except ProxyError as error:
            proxy.log.warn(f"{method} is not as before: {error.message}")
    try:
        await session.rebind(chat.spare)
    except ProxyError as error:
        proxy.log.warn(f"the session grows on, it cannot be moved now: {error.message}")
        chat.since = -RETRY
        return
    request.preface(chat.moved(proxy.config, summary))
    await kept.record(session)
    notify(session, chat)


async def spared(session: Session, chat: Chat) -> bool:
    """Opens the agent's next session, unless it is there already; whether it is."""
    if chat.spare:
        return True
    try:
        if not chat.setup:
            raise ProxyError("how it was opened is forgotten; load it again")
        opened = await proxy.ask_agent("session/new", **copy.deepcopy(chat.setup))
        chat.spare = str(opened["sessionId"])
    except (ProxyError, KeyError, TypeError) as error:
        if not chat.warned:
            proxy.log.warn(f"the session grows on, no other can be opened: {error}")
        chat.warned, chat.since = True, -RETRY
        return False
    inner[chat.spare] = session.id
    return True


async def summed_up(session: Session) -> str:
    """The agent's own summary of its session; empty if it gives none."""
    try:
        ask = f"{ASKED}\n{proxy.config.ask}\n{ASKED.replace('<', '</')}"
        turn = await session.prompt(ask, show=False)
    except ProxyError as error:
        proxy.log.warn(f"there is no summary: {error.message}")
        return ""
    return turn.text.strip() if turn.stop_reason != "cancelled" else ""


def notify(session: Session, chat: Chat) -> None:
    """Tells the user."""
    with_ = summarised(chat)
    said = f"[history: the conversation was long; the agent goes on with {with_}]\n\n"
    if proxy.config.note == "message":
        session.say(said)
    elif proxy.config.note == "thought":
        session.think(said)


# -- what the agent says ---------------------------------------------------------------------------


@proxy.update()
def heard(update: Update) -> Any:
    if is_hidden(update):
        return DROP
    found = chat_of(update)
    if found is None:
        return None
    _, chat = found
    kind, said = update.kind, update.update
    chat.tell_apart(said)
    if kind in ("user_message", "user_message_chunk"):
        return None if heard_user(chat, proxy.config, said) else DROP
    if kind == "current_mode_update" and "currentModeId" in said:
        chat.choose([["session/set_mode", {"modeId": said["currentModeId"]}]])
    elif kind == "usage_update":
        chat.used, chat.size = number(said.get("used")), number(said.get("size")) or chat.size
    elif kind == "available_commands_update" and isinstance(said.get("availableCommands"), list):
        listed = [one for one in said["availableCommands"] if isinstance(one, dict)]
        if COMMAND["name"] not in [one.get("name") for one in listed]:
            said["availableCommands"].append(COMMAND)
    elif kind == "state_update" and said.get("state") == "idle":
        chat.running = 0
    elif chat.hiding:
        return DROP
    elif chat.turns:
        heard_agent(chat, kind, said)
    return None


# -- what others than the current session say, last of all ---------------------------------------


@proxy.request()
async def pass_on(request: Request, following: Any) -> Any:
    if request.direction == "up" and is_hidden(request):
        if request.method == "session/request_permission":
            return {"outcome": {"outcome": "cancelled"}}
        raise ProxyError(f"`{request.method}`: the conversation goes on in another session")
    found = chat_of(request)
    if found is None:
        return await following(request)
    _, chat = found
    if request.direction == "up":
        for held in (request.params, request.params.get("toolCall")):
            chat.tell_apart(held)
        return await following(request)
    result = await following(request)
    chat.tell_apart(result)
    return result


if __name__ == "__main__":
    proxy.run()
