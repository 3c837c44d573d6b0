"""Gives the agent a tool that has tasks done by the same agent, in sessions of their own, at once.

conductor exec subagents demo -p '/call subagents run {"tasks": ["hello", "there"]}'
"""

from contextlib import suppress
from dataclasses import dataclass

from guest_sdk.python import (
    Call,
    Cancelled,
    Notification,
    Proxy,
    ProxyError,
    Refused,
    SubSession,
    ToolError,
    gather,
)


@dataclass
class Config:
    """The settings; README.md explains each."""

    at_once: int = 4
    most: int = 16
    seconds: float = 600
    longest: int = 100_000
    peer: str = ""

    def __post_init__(self) -> None:
        if min(self.at_once, self.most, self.longest) < 1 or self.seconds <= 0:
            raise ValueError("`at_once`, `most`, `seconds` and `longest` must be positive")


proxy = Proxy(
    "subagents",
    description="Has tasks done by agents of their own, at once.",
    config=Config,
)


class Work:
    """A call of the tool: its tasks, and the sub-sessions that they run in."""

    def __init__(self, tasks: list[str], session: str, workers: int) -> None:
        self.tasks = list(enumerate(tasks))
        self.answers = ["" for _ in tasks]
        self.session = session
        self.workers = workers
        """How many tasks are worked on at once."""
        self.running: list[SubSession] = []
        self.done = 0
        self.stopped = False

    def stop(self) -> None:
        """Begins no more tasks, and stops those that run."""
        self.stopped = True
        for sub in self.running:
            sub.cancel()


works: list[Work] = []
"""The calls that run."""


@proxy.tool
async def run(tasks: list[str], call: Call) -> str:
    """Has each task done by an agent of its own, all at once, and returns what each answered.

    An agent knows nothing of this conversation: a task has to say all that it needs to know. It
    can do what you can, but nobody is asked for permission: what needs one is refused to it.
    """
    config = proxy.config
    if not tasks or len(tasks) > config.most:
        raise ToolError(f"`tasks` holds 1 to {config.most} tasks, not {len(tasks)}")
    longest = max(map(len, tasks))
    if longest > config.longest:
        raise ToolError(f"a task has {config.longest} characters at most, not {longest}")
    if not call.in_session:
        raise ToolError("sub-agents are there once the session is")
    free = config.at_once - sum(one.workers for one in works)
    if free < 1:
        raise ToolError(f"{config.at_once} sub-agents work already: call again when they are done")
    work = Work(tasks, call.session.id, min(free, len(tasks)))
    works.append(work)
    try:
        await gather(*(worker(work, call) for _ in range(work.workers)))
    except Cancelled:
        work.stop()
        raise
    finally:
        works.remove(work)
    return joined(work)


async def worker(work: Work, call: Call) -> None:
    """Does one task after another, until none is left."""
    while work.tasks and not work.stopped:
        number, task = work.tasks.pop(0)
        try:
            work.answers[number] = await answer(work, task, call.session.cwd or "/")
        except ProxyError as error:
            work.answers[number] = f"failed: {error.message}"
        work.done += 1
        call.progress(work.done, len(work.answers), f"task {number + 1} is done")


async def answer(work: Work, task: str, cwd: str) -> str:
    """The answer of a fresh session to a task."""
    peer = proxy.config.peer
    async with (proxy.peer(peer) if peer else proxy).subsession(cwd=cwd) as sub:
        if work.stopped:
            return "stopped"
        late = []

        def give_up() -> None:
            if sub in work.running:
                late.append(True)
                sub.cancel()

        work.running.append(sub)
        timer = None
        try:
            with suppress(Refused):  # without the service it may take as long as it likes
                timer = await proxy.timer.after(proxy.config.seconds, give_up)
            if work.stopped:
                return "stopped"
            turn = await sub.prompt(task)
        finally:
            work.running.remove(sub)
        if timer is not None and not late:
            await timer.stop()
    if late:
        return f"failed: it was not done within {proxy.config.seconds:g} seconds"
    said, longest = turn.text, proxy.config.longest
    if not said:
        return f"(no words; it ended with {turn.stop_reason})"
    return said if len(said) <= longest else f"{said[:longest]}\n(… {len(said)} characters)"


def joined(work: Work) -> str:
    """All answers as one text; a single one by itself."""
    if len(work.answers) == 1:
        return work.answers[0]
    parts = (f"## Task {number}\n\n{said}" for number, said in enumerate(work.answers, 1))
    return "\n\n".join(parts)


@proxy.notification("session/cancel")
def cancelled(notification: Notification) -> None:
    """Ends the work that was begun in a turn which the user has stopped."""
    for work in works:
        if work.session == notification.params.get("sessionId"):
            work.stop()


if __name__ == "__main__":
    proxy.run()
