"""coordinator: an agent researches before the chain's agent works, another one reviews after it."""

import json
from dataclasses import dataclass, field
from typing import Any

from guest_sdk.python import (
    Cancelled,
    Next,
    Notification,
    PeerSession,
    Proxy,
    ProxyError,
    Request,
    Session,
    Update,
    text,
)
from guest_sdk.python.tasks import Task, Waiter

_TEXT = "agent_message_chunk"
MOST = 256 * 1024
"""Characters that a peer agent may say in one turn: then it is stopped."""


@dataclass
class Config:
    """The settings; a peer agent that is not there is left out."""

    research: str = "research"
    """The peer agent that is asked first."""
    review: str = "review"
    """The peer agent that is asked last."""
    research_task: str = "Research what is needed for this task. Do not do it yourself."
    review_task: str = "Review the work below. Say what is wrong with it, or that nothing is."


@dataclass
class Turns:
    """The prompt that runs in a session."""

    asked: str = ""
    said: str = ""
    """The text of the chain's agent."""
    over: Waiter[str] = field(default_factory=Waiter)
    """Version 2: gets the reason for which the agent's turn ended."""
    work: Task | None = None
    """The task that waits for `over`."""


proxy = Proxy(
    "coordinator",
    description="Hands a task from a research agent to the chain's agent, and to a review agent",
    config=Config,
    session=Turns,
)


@proxy.on_start
def started() -> None:
    """Warns at once where there is neither of the peer agents."""
    config = proxy.config
    if not {config.research, config.review} & {*proxy.peers}:
        proxy.log.warn(
            f"it has neither of the peer agents `{config.research}` and `{config.review}`, so it "
            "does nothing: `,allow=peer:NAME` gives it one"
        )


@proxy.request("session/prompt")
async def prompt(request: Request, following: Next) -> Any:
    """Runs one turn of the user's, in which up to three agents work."""
    config, session = proxy.config, request.session
    turns: Turns = session.state
    turns.asked, turns.said, turns.over = words(request.params.get("prompt")), "", Waiter()
    if config.research in proxy.peers:
        found = await ask(session, config.research, f"{config.research_task}\n\n{turns.asked}")
        if found:
            session.say(f"[{config.research}] {found}\n\n")
            request.prompt.append(text(f"What the agent `{config.research}` found:\n{found}"))
    if config.review not in proxy.peers:
        return await following(request)
    if proxy.protocol_version == 2:
        return await answered_early(request, following)
    result = await following(request)
    if isinstance(result, dict) and result.get("stopReason") == "end_turn":
        await review(session)
    return result


async def answered_early(request: Request, following: Next) -> Any:
    """Version 2: the agent works on behind its answer. So that the user's turn goes on until the
    review is there, the proxy has a turn of its own in it."""
    turns: Turns = request.session.state
    begun: Waiter[None] = Waiter()
    turns.work = proxy.start(reviewed(request.session, begun))
    await begun
    stop = "failed"
    try:
        result = await following(request)
        stop = result.get("stopReason") if isinstance(result, dict) else stop
    finally:
        if stop is not None:  # it is over with its answer
            turns.over.resolve(stop)
            await turns.work
    return result


async def reviewed(session: Session, begun: Waiter[None]) -> None:
    """The turn for the review."""
    try:
        async with session.turn():
            begun.resolve(None)
            if await session.state.over == "end_turn":
                await review(session)
    except Cancelled:
        proxy.log.info("the user has cancelled the review")
    except ProxyError as error:
        proxy.log.warn(f"the review is left out of this turn: {error.message}")
    finally:
        begun.resolve(None)


@proxy.notification("session/cancel")
def cancelled(notification: Notification) -> None:
    """The user cancels: a review stops, too."""
    if notification.session.state.work is not None:
        notification.session.state.work.cancel()


@proxy.update(_TEXT)
def heard(update: Update) -> None:
    """Keeps the text of the chain's agent, for the review."""
    update.state.said += update.text


@proxy.update("state_update")
async def over(update: Update, following: Next) -> Any:
    """Version 2: the agent's turn is over, so that its work can be reviewed."""
    turns: Turns = update.session.state
    if update.update.get("state") == "idle":
        turns.over.resolve(str(update.update.get("stopReason", "end_turn")))
        if turns.work is not None:
            await turns.work  # a trusted proxy carries the state; else it waits for the turn
    return await following(update)


async def review(session: Session) -> None:
    """Has the work of the chain's agent reviewed, in its turn."""
    config, turns = proxy.config, session.state
    if not turns.said:
        return
    task = f"{config.review_task}\n\nThe task:\n{turns.asked}\n\nThe work:\n{turns.said}"
    turns.said = ""
    found = await ask(session, config.review, task)
    if found:
        session.say(f"\n\n[{config.review}] {found}")


async def ask(session: Session, peer: str, task: str) -> str:
    """The answer of a peer agent to a task; empty: the agent fails, and the turn goes on without
    it."""
    session.think(f"`{peer}` works …\n")
    try:
        async with proxy.peer(peer).subsession(cwd=session.cwd or "/") as one:
            return (await one.prompt(task, on_update=Bound(one))).text[:MOST]
    except ProxyError as error:
        proxy.log.warn(f"`{peer}` is left out of this turn: {error.message}")
        session.think(f"`{peer}` cannot help: {error.message}\n")
        return ""


class Bound:
    """Stops a peer agent that says too much."""

    def __init__(self, session: PeerSession) -> None:
        self._session = session
        self._left = MOST

    def __call__(self, update: Update) -> None:
        """Counts one more update of the sub-session's turn."""
        before, self._left = self._left, self._left - len(json.dumps(update.update))
        if before > 0 >= self._left:
            self._session.cancel()


def words(prompt: Any) -> str:
    """The texts of a prompt, joined."""
    blocks = prompt if isinstance(prompt, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(one for one in texts if isinstance(one, str))


if __name__ == "__main__":
    proxy.run()
