"""Gives the agent a tool that begins research in the background; the report comes by itself.

conductor exec research demo -p '/call research begin_research {"question": "Is Rust fast?"}'
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from guest_sdk.python import (
    Call,
    Proxy,
    ProxyError,
    Refused,
    Request,
    Session,
    ToolError,
    Update,
    unlinked,
)

DONE = "<research-complete/>"
"""How the prompt begins that brings a report."""
TASK = (
    "You are a researcher. Find out what is asked below: read and search as much as it takes. "
    "Change nothing and run nothing that changes anything; nobody is there to allow it, or to "
    "answer questions. End with a report in Markdown: what you found, where it stands, and how "
    "sure it is."
)
MOST = 8 << 20
"""Characters of updates that a researcher may send: the component has to hold them."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    peer: str = ""
    task: str = TASK
    seconds: float = 600
    at_once: int = 3
    longest: int = 40_000

    def __post_init__(self) -> None:
        if not 1 <= self.at_once <= 16 or not 1 <= self.longest <= 400_000:
            raise ValueError("`at_once` is 1 to 16, and `longest` is 1 to 400,000")
        if self.seconds <= 0:
            raise ValueError("`seconds` is more than 0")


proxy = Proxy(
    "research",
    description="Researches in the background; the report comes when it is done.",
    config=Config,
)


class Research:
    """A question, and the answer so far."""

    def __init__(self, session: Session, question: str) -> None:
        self.session = session
        self.question = question
        self.said: list[str] = []
        self.size = self.seen = 0
        """Characters of the report, and of all updates."""
        self.why = ""
        """Why it was ended before it was done."""
        self.task: Any = None
        """Asks the researcher."""

    def end(self, why: str) -> None:
        """Ends it now, whatever the researcher does."""
        if not self.why:
            self.why = why
            self.task.cancel()

    def heard(self, update: Update) -> None:
        """Takes an update of the researcher."""
        self.seen += len(str(update.update))
        if update.kind in ("agent_message_chunk", "agent_message"):
            said = words(update.update.get("content"))[: proxy.config.longest + 1 - self.size]
            self.said.append(said)
            self.size += len(said)
        if self.size > proxy.config.longest:
            self.end(f"wrote more than {proxy.config.longest:,} characters")
        elif self.seen > MOST:
            self.end(f"sent more than {MOST:,} characters")

    def report(self) -> str:
        """The prompt that tells the agent the result."""
        said = "".join(self.said)[: proxy.config.longest].strip()
        if self.why:
            found = f"It was ended: {researcher()} {self.why}.\n\n"
            found += f"What it had written until then:\n\n{said}" if said else "There is no report."
        else:
            found = f"The report:\n\n{said}"
        return unlinked(f"{DONE}\nYou began this research: {self.question}\n\n{found}")


researches: list[Research] = []
"""The researches under way."""


def researcher() -> str:
    """Who researches, for people."""
    peer = proxy.config.peer
    return f"the researcher `{peer}`" if peer else "the researcher, a session of this agent,"


def words(content: Any) -> str:
    """The text of an update."""
    blocks = content if isinstance(content, list) else [content]
    return "".join(str(one.get("text", "")) for one in blocks if isinstance(one, dict))


# -- the tools -------------------------------------------------------------------------------------


@proxy.tool
async def begin_research(question: str, call: Call) -> str:
    """Begins research in the background, and returns at once. Tell the user that you look into it,
    and go on with other work: do not wait for it. When it is done, a prompt that begins with
    <research-complete/> brings you the report; the user sees your answer to that.

    The researcher knows nothing of this conversation, so `question` has all that it needs: what
    you want to know, what you know, what you have tried, and what stood in the way.
    """
    config = proxy.config
    if not question.strip():
        raise ToolError("`question` has words: what is it that you want to know?")
    if len(question) > config.longest:
        raise ToolError(f"a question has {config.longest:,} characters at most")
    if not call.in_session:
        raise ToolError("research can begin once the session is there")
    if len(researches) >= config.at_once:
        raise ToolError(f"{config.at_once} are under way already: begin this when one is done")
    one = Research(call.session, question)
    researches.append(one)
    remember()
    proxy.start(done(one))
    return "ok"


@proxy.tool
async def stop_research(call: Call) -> str:
    """Stops all research of this conversation: no report comes."""
    found = [one for one in researches if call.in_session and one.session is call.session]
    for one in found:
        researches.remove(one)
        one.end("was stopped")
    remember()
    return f"stopped: {len(found)}"


# -- the research ----------------------------------------------------------------------------------


async def done(one: Research) -> None:
    """Has a question researched, and brings the agent the report."""
    one.task = proxy.start(asked(one))
    config, timer = proxy.config, None
    with suppress(Refused):  # without the service it may take as long as it likes
        timer = await proxy.timer.after(
            config.seconds, lambda: one.end(f"did not end within {config.seconds:g} seconds")
        )
    await one.task
    if timer is not None:
        await timer.stop()
    if one in researches:
        researches.remove(one)
        remember()
        await tell(one.session, one.report())


async def asked(one: Research) -> None:
    """Asks the researcher, in a session of its own."""
    config = proxy.config
    try:
        held = proxy.peer(config.peer) if config.peer else proxy
        async with held.subsession(cwd=one.session.cwd or "/") as sub:
            # All in one text: so a question that begins with a slash is no command.
            told = unlinked(f"{config.task}\n\n{one.question}".lstrip("\n"))
            turn = await sub.prompt(told, on_update=one.heard)
    except ProxyError as error:
        one.why = one.why or f"failed: {error.message}"
    else:
        if turn.stop_reason != "end_turn":
            one.why = one.why or f"ended with {turn.stop_reason}"
        elif not one.size:
            one.why = one.why or "wrote nothing"


async def tell(session: Session, report: str) -> None:
    """Prompts the agent, once nobody else does; the user sees its answer."""
    try:
        await session.prompt(report)
    except ProxyError as error:
        proxy.log.warn(f"the agent does not get a report: {error.message}")


@proxy.request("session/close", "session/delete")
def closed(request: Request) -> None:
    """Ends the researches of a session together with the session."""
    for one in [one for one in researches if one.session.id == request.params.get("sessionId")]:
        researches.remove(one)
        one.end("ended with its session")
    remember()


# -- what is known after a failure -----------------------------------------------------------------


def remember() -> None:
    """Has the conductor keep the researches under way."""
    held = [[one.session.id, one.question] for one in researches]
    proxy.keep("researches", held or None)


@proxy.on_start
def begun() -> None:
    """Tells the agent of the researches that a former instance has not finished."""
    for id_, question in proxy.kept("researches") or []:
        lost = Research(proxy.session(id_), question)
        lost.why = "was lost when the component `research` was started again"
        proxy.start(tell(lost.session, lost.report()))
    remember()


if __name__ == "__main__":
    proxy.run()
