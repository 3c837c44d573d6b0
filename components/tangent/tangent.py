"""Side conversations: /tangent begins one, the next /tangent ends it, and the agent forgets it.

conductor agent tangent claude-agent-acp
"""

from dataclasses import dataclass, field
from typing import Any

from guest_sdk.python import Proxy, ProxyError, Request, Session, Update

NAME = "tangent"
CALL = f"/{NAME}"
COMMAND = {
    "type": "command",
    "name": NAME,
    "description": "Begins a side conversation that the agent will forget, or ends it",
    "input": {"type": "text", "hint": "what to say then"},
}
ENTERS = ("session/load", "session/resume")
BEGINS = "[tangent: what follows leaves no trace in the conversation; /tangent ends it]\n\n"
ENDS = "[tangent: back in the conversation, as it was]\n\n"
TOLD = """<conversation-so-far>
This is a side conversation. What was said before it:

{}
</conversation-so-far>"""


@dataclass
class Config:
    """The settings; README.md explains each."""

    chars: int = 20_000

    def __post_init__(self) -> None:
        if not 0 <= self.chars <= 100_000:
            raise ValueError("`chars` is 0 to 100,000")


@dataclass
class Chat:
    """A session. `aside`: during a tangent, the id of the agent's other session."""

    said: list[str] = field(default_factory=list)
    """The conversation without its tangents, in words."""
    on: bool = False
    """Whether a tangent was begun."""
    aside: str = ""
    more: list[Any] = field(default_factory=list)
    """The session's directories besides its `cwd`."""
    theirs: list[Any] = field(default_factory=list)
    """The agent's own commands."""

    def heard(self, who: str, words: str) -> None:
        """Takes words that were said outside of tangents."""
        if self.on or not words:
            return
        if self.said and who == "You" and self.said[-1].startswith("You: "):
            self.said[-1] += words
        else:
            self.said.append(f"{who}: {words}")
        room = proxy.config.chars
        while len(self.said) > 1 and sum(map(len, self.said)) > room:
            del self.said[0]
        self.said[0] = self.said[0][-room:] if room else ""


proxy = Proxy(
    "tangent",
    description="Side conversations that leave no trace.",
    config=Config,
    session=Chat,
)


# -- sessions --------------------------------------------------------------------------------------


@proxy.request("session/new", "session/fork")
async def set_up(request: Request, following: Any) -> Any:
    result = await following(request)
    begun(request)
    return result


@proxy.request(*ENTERS)
async def enter(request: Request, following: Any) -> Any:
    """Leaves the tangent: the client loads the conversation itself."""
    if request.session.state.on:
        await leave(request.session)
    result = await following(request)
    begun(request)
    return result


@proxy.request("session/close", "session/delete")
async def close(request: Request, following: Any) -> Any:
    session = getattr(request, "session", None)
    result = await following(request)  # of a tangent: it has ended the tangent's
    if session is not None and session.state.aside:
        await end(request.method, session.state.aside)
        try:
            await session.rebind(None)
        except ProxyError as error:  # a turn still runs; what loads the session ends the tangent
            proxy.log.warn(f"the tangent goes on: {error.message}")
        else:
            session.state.on, session.state.aside = False, ""
    return result


def begun(request: Request) -> None:
    """Lists the command, behind the answer, which is the first the client hears of the session."""
    session, more = getattr(request, "session", None), request.params.get("additionalDirectories")
    if session is not None:
        session.state.more = list(more) if isinstance(more, list) else []
        proxy.start(listed(session))


async def listed(session: Session) -> None:
    listing = [*session.state.theirs, COMMAND]
    session.update("available_commands_update", availableCommands=listing)


# -- prompts ---------------------------------------------------------------------------------------


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    session, blocks = getattr(request, "session", None), request.params.get("prompt")
    if session is None or not isinstance(blocks, list):
        return await following(request)
    chat: Chat = session.state
    words = blocks[0].get("text") if blocks and isinstance(blocks[0], dict) else None
    called, _, rest = words.strip().partition(" ") if isinstance(words, str) else ("", "", "")
    if called == CALL:
        if chat.on:
            await leave(session)
        else:
            chat.on = True
        session.keep()
        session.say(BEGINS if chat.on else ENDS)
        if not rest and len(blocks) == 1:
            return {"stopReason": "end_turn"}
        blocks[0]["text"] = rest
        if not rest:
            del blocks[0]
    if chat.on and not chat.aside:
        await depart(session, request)
    chat.heard("User", request.text)
    result = await following(request)
    session.keep()
    return result


async def depart(session: Session, request: Request) -> None:
    """The session goes on as another one of the agent's, which gets the conversation in words.

    The conductor sets there what the user has set, and tells them what is missing.
    """
    chat: Chat = session.state
    aside, folders = "", {"additionalDirectories": chat.more} if chat.more else {}
    try:
        opened = await proxy.ask_agent(
            "session/new", cwd=session.cwd or "/", mcpServers=[], **folders
        )
        aside = str(opened["sessionId"])
        await session.rebind(aside)
    except (ProxyError, KeyError, TypeError) as error:
        chat.on = False
        if aside:
            await end("session/close", aside)
        raise ProxyError(f"the tangent cannot begin: {error}") from None
    chat.aside = aside
    session.keep()
    if any(chat.said):
        request.preface(TOLD.format("\n\n".join(chat.said)))


async def leave(session: Session) -> None:
    """The session is itself again; the tangent's is closed."""
    chat: Chat = session.state
    aside = chat.aside
    if aside:
        await session.rebind(None)
        chat.aside = ""
        await end("session/close", aside)
    chat.on = False
    session.keep()


async def end(method: str, id_: str) -> None:
    """Ends a session of the agent's that the client does not know."""
    try:
        await proxy.ask_agent(method, sessionId=id_)
    except ProxyError as error:  # some agents close none
        proxy.log(f"{method} of {id_}: {error.message}")


# -- what is said ----------------------------------------------------------------------------------


@proxy.update()
async def heard(update: Update) -> None:
    session, said = getattr(update, "session", None), update.update
    if session is None:
        return
    chat: Chat = session.state
    content = said.get("content")
    if update.kind in ("agent_message_chunk", "agent_message"):
        found = content if isinstance(content, list) else [content]
        words = (str(one.get("text", "")) for one in found if isinstance(one, dict))
        chat.heard("You", "".join(words))
    elif update.kind == "available_commands_update":
        commands = said.get("availableCommands")
        if isinstance(commands, list):
            chat.theirs = list(commands)
            commands.append(COMMAND)


if __name__ == "__main__":
    proxy.run()
