"""/agent NAME continues the session with another agent, and tells that agent the conversation.

conductor agent -c peer.codex=codex switch,allow=agent:codex claude
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from guest_sdk.python import (
    Conversation,
    Proxy,
    ProxyError,
    Recorder,
    Request,
    Session,
    Update,
    in_words,
)

NAME = "agent"
CALL = f"/{NAME}"
COMMAND = {
    "type": "command",
    "name": NAME,
    "description": "Has another agent go on with this session, or says which there are",
    "input": {"type": "text", "hint": "its name, and what to say to it"},
}
MOST = 32
"""Conversations that are kept."""
LOADS = ("session/load", "session/resume")
TOLD = """<conversation-so-far>
This conversation goes on from what you find below. Another agent has answered there. Take it as
what was said here, and answer what stands behind it.

{}
</conversation-so-far>"""


@dataclass
class Config:
    """The settings; README.md explains each."""

    chars: int = 100_000

    def __post_init__(self) -> None:
        if not 0 <= self.chars <= 200_000:
            raise ValueError("`chars` is 0 to 200,000")


@dataclass
class Chat:
    """A session."""

    agent: str = ""
    """The agent that answers; empty: the chain's."""
    known: dict[str, int] = field(default_factory=dict)
    """How many turns each agent knows."""
    turns: int = 0
    """How many there were when the last one began."""


proxy = Proxy(
    "switch",
    description="Has a session go on with another agent.",
    config=Config,
    session=Chat,
)
recorders: OrderedDict[str, Recorder] = OrderedDict()
"""The conversations; the one that was used last stands last."""


def recorder(session: Session) -> Recorder:
    """The recorder of a session's conversation. It knows the number of turns that it has not
    kept."""
    if session.id not in recorders:
        before = Conversation(left_out=session.state.turns)
        recorders[session.id] = Recorder(before, most=proxy.config.chars)
        if len(recorders) > MOST:
            recorders.popitem(last=False)
    recorders.move_to_end(session.id)
    return recorders[session.id]


# -- sessions --------------------------------------------------------------------------------------


@proxy.request(*LOADS)
async def load(request: Request, following: Any) -> Any:
    """A session that is loaded goes on with the chain's agent."""
    recorders.pop(request.session.id, None)
    chat = request.session.state = Chat()
    result = await following(request)
    chat.known[""] = len(recorder(request.session).conversation.turns)
    proxy.start(listed(request.session))
    return result


@proxy.request("session/new", "session/fork")
async def begin(request: Request, following: Any) -> Any:
    result = await following(request)
    session = getattr(request, "session", None)
    if session is not None:
        recorders.pop(session.id, None)
        proxy.start(listed(session))
    return result


async def listed(session: Session) -> None:
    """Lists the command, behind the answer, which is the first the client hears of the session."""
    session.update("available_commands_update", availableCommands=[COMMAND])


# -- prompts ---------------------------------------------------------------------------------------


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    session, blocks = getattr(request, "session", None), request.params.get("prompt")
    if session is None or not isinstance(blocks, list):
        return await following(request)
    words = blocks[0].get("text") if blocks and isinstance(blocks[0], dict) else None
    called, _, rest = words.strip().partition(" ") if isinstance(words, str) else ("", "", "")
    if called == CALL:
        name, _, rest = rest.strip().partition(" ")
        await use(session, name)
        rest = rest.strip()
        if not rest and len(blocks) == 1:
            return {"stopReason": "end_turn"}
        blocks[0]["text"] = rest
        if not rest:
            del blocks[0]
    tell(session, request)
    return await following(request)


async def use(session: Session, name: str) -> None:
    """The session goes on with the agent of this name; without one the user reads who answers."""
    chat: Chat = session.state
    try:
        used = await session.use_agent(name)
    except ProxyError as error:
        raise ProxyError(f"{CALL} {name}: {error.message}") from None
    before, chat.agent = chat.agent, "" if used.agent == used.agents[0] else used.agent
    session.keep()
    if not name or chat.agent == before:
        there = ", ".join(f"`{one}`" for one in used.agents)
        session.say(f"[agent: `{used.agent}` answers; there are {there}]\n\n")


def tell(session: Session, request: Request) -> None:
    """Tells the agent the part of the conversation that it does not know yet."""
    chat, held = session.state, recorder(session)
    said, known = held.conversation, chat.known.get(chat.agent, 0)
    untold = Conversation(
        turns=said.turns[max(0, known - said.left_out) :], left_out=max(0, said.left_out - known)
    )
    held.prompted(request.params.get("prompt"))
    if (untold.turns or untold.left_out) and proxy.config.chars:
        request.preface(TOLD.format(in_words(untold, proxy.config.chars)))
    chat.turns = chat.known[chat.agent] = said.left_out + len(said.turns)
    session.keep()


# -- what is said ----------------------------------------------------------------------------------


@proxy.update()
def heard(update: Update) -> None:
    session, said = getattr(update, "session", None), update.update
    if session is None:
        return
    if update.kind == "available_commands_update":
        commands = said.get("availableCommands")
        if isinstance(commands, list):
            commands.append(COMMAND)
    else:
        recorder(session).heard(said, replayed=update.replayed)


if __name__ == "__main__":
    proxy.run()
