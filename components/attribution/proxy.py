"""Keeps which agent, model and prompt made each line of the project's files.

conductor agent attribution claude-agent-acp
conductor log blame src/main.py
"""

import posixpath
import urllib.parse
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import edits
import records
from edits import Edit

from guest_sdk.python import Next, Proxy, Refused, Request, Session, Update

CALLS = 512
"""Tool calls that are remembered."""
CHARS = 4_000_000
"""Characters of edits that are remembered, and of those that wait to be written down."""
JOBS = 1_000
"""Jobs that wait."""
TOGETHER = 64
"""Edits that are written down together."""
EARLY = 500
"""Edits of a session that wait for its folder."""
FINISHED = ("completed", "failed", "cancelled")


@dataclass
class Config:
    """The settings; README.md explains each."""

    words: int = 80

    def __post_init__(self) -> None:
        if not 0 <= self.words <= 500:
            raise ValueError("`words` is 0 to 500 characters")


@dataclass
class State:
    """The maker of the next edit of a session: agent, model, prompt and proxy."""

    agent: str = ""
    """The name of the agent that goes on with the session; empty: the chain's agent."""
    model: str | None = None
    prompt: str = ""
    proxy: str | None = None
    early: list[tuple[list[Edit], dict[str, Any] | None]] = field(default_factory=list)
    """Edits that were told of before the session's folder was known."""


proxy = Proxy(
    "attribution",
    description="Keeps which agent, model and prompt made each line of the project's files.",
    config=Config,
    session=State,
)


class Job(NamedTuple):
    """The next edits to record, in the order in which they happened."""

    root: str
    edits: list[Edit]
    origin: dict[str, Any] | None
    """Who made the edits; None: they are about to be made."""

    @property
    def chars(self) -> int:
        """The characters of its edits."""
        return sum(one.chars for one in self.edits)


class Worker:
    """Remembers tool calls, and does one job after another."""

    def __init__(self) -> None:
        self.agent: str | None = None
        self.calls: dict[tuple[str, str], list[Edit] | None] = {}
        """The edits of each call, by session and id; None: the call is done."""
        self.remembered = 0
        """The characters of these edits."""
        self.jobs: deque[Job] = deque()
        self.waiting = 0
        """The characters of theirs."""
        self.running = False
        self.warned: set[str] = set()

    def add(self, job: Job) -> None:
        """Does a job, behind those that wait; with the last of them, if it is of the same."""
        last = self.jobs.pop() if self.jobs else None
        if last is not None:
            together = last.root == job.root and last.origin == job.origin is not None
            if together and len(last.edits) + len(job.edits) <= TOGETHER:
                self.waiting -= last.chars
                job = last._replace(edits=[*last.edits, *job.edits])
            else:
                self.jobs.append(last)
        if len(self.jobs) >= JOBS or self.waiting + job.chars > CHARS:
            self.warn("edits come faster than they are written down: some have no record")
            return
        self.jobs.append(job)
        self.waiting += job.chars
        if not self.running:
            self.running = True
            proxy.start(self.work())

    async def work(self) -> None:
        """Does the jobs that wait."""
        try:
            while self.jobs:
                job = self.jobs.popleft()
                self.waiting -= job.chars
                await self.do(job)
        finally:
            self.running = False

    async def do(self, job: Job) -> None:
        """Does a job; a file that it may not read or write is told of once."""
        for path in dict.fromkeys(one.path for one in job.edits):
            about = [one for one in job.edits if one.path == path]
            try:
                if job.origin is None:
                    await records.seen(job.root, path)
                else:
                    await records.settle(job.root, path, about, job.origin)
            except Refused as refused:
                self.warn(f"no record of an edit: {refused.message.partition(chr(10))[0]}")
            except ValueError as error:
                self.warn(f"no record of an edit: {error}")

    def remember(self, key: tuple[str, str], told: list[Edit] | None) -> None:
        """Keeps the edits that a tool call is to make; the oldest calls are forgotten."""
        self.forget(key)
        self.calls[key] = told
        self.remembered += sum(one.chars for one in told or ())
        while len(self.calls) > CALLS or self.remembered > CHARS:
            self.forget(next(iter(self.calls)))

    def forget(self, key: tuple[str, str]) -> None:
        """A tool call is over."""
        told = self.calls.pop(key, None)
        self.remembered -= sum(one.chars for one in told or ())

    def warn(self, what: str) -> None:
        """Says something once."""
        if what not in self.warned and len(self.warned) < 20:
            self.warned.add(what)
            proxy.log.warn(what)


worker = Worker()


# -- who makes the edits ---------------------------------------------------------------------------


@proxy.request("initialize")
async def begun(request: Request, following: Next) -> Any:
    result = await following(request)
    held = result if isinstance(result, dict) else {}
    info = held.get("agentInfo") or held.get("info")
    if isinstance(info, dict) and isinstance(info.get("name"), str):
        worker.agent = f"{info['name']} {info.get('version') or ''}".strip()[:100]
    return result


@proxy.request("session/new", "session/load", "session/resume", "session/fork")
@proxy.request("session/set_config_option")
async def set_up(request: Request, following: Next) -> Any:
    result = await following(request)
    if getattr(request, "session", None) is not None and isinstance(result, dict):
        models = result.get("models")
        if isinstance(models, dict) and isinstance(models.get("currentModelId"), str):
            request.state.model = models["currentModelId"][:100]
        chosen(request.session, result.get("configOptions"))
        early, request.state.early = request.state.early, []
        for found, by in early:
            add(request.session, found, by)
        request.session.keep("agent", "model", "prompt", "proxy")
    return result


@proxy.request("session/set_model")
async def set_model(request: Request, following: Next) -> Any:
    result = await following(request)
    model = request.params.get("modelId")
    if isinstance(model, str):
        request.state.model = model[:100]
    return result


@proxy.update("session_info_update")
def moved(update: Update) -> None:
    """Another agent goes on with a session."""
    meta, session = update.update.get("_meta"), getattr(update, "session", None)
    told = meta.get("conductor.session") if isinstance(meta, dict) else None
    agent = told.get("agent") if isinstance(told, dict) else None
    if session is not None and isinstance(agent, str):
        session.state.agent, session.state.model = agent[:100], None


@proxy.update("config_option_update")
def options(update: Update) -> None:
    chosen(update.session, update.update.get("configOptions"))


def chosen(session: Session, held: Any) -> None:
    """The model that is set among the options of a session."""
    for one in held if isinstance(held, list) else []:
        if isinstance(one, dict) and one.get("category") == "model":
            value = one.get("currentValue")
            session.state.model = value[:100] if isinstance(value, str) else session.state.model


@proxy.request("session/prompt")
async def prompted(request: Request, following: Next) -> Any:
    if request.direction == "down" and getattr(request, "session", None) is not None:
        said = " ".join(request.text[:10_000].split())
        words = proxy.config.words
        request.state.prompt = said if len(said) <= words else f"{said[:words]}…" if words else ""
        meta = request.params.get("_meta")
        by = meta.get("conductor.component") if isinstance(meta, dict) else None
        request.state.proxy = by[:100] if isinstance(by, str) else None
    return await following(request)


# -- what is edited --------------------------------------------------------------------------------


@proxy.update("tool_call", "tool_call_update", "tool_call_content_chunk")
def told(update: Update) -> None:
    id_, held = update.update.get("toolCallId"), update.update
    session = getattr(update, "session", None)
    if update.replayed or session is None or not isinstance(id_, str):
        return
    key, content = (session.id, id_[:200]), held.get("content")
    is_done = worker.calls.get(key, []) is None
    if update.kind == "tool_call_content_chunk":
        found = edits.bounded([*(worker.calls.get(key) or []), *edits.edits([content])])
    elif content is None:
        found = worker.calls.get(key) or []
    else:
        found = edits.edits(content)
    if held.get("status") == "completed" or is_done:
        worker.remember(key, None)
        made(session, found)
    elif held.get("status") in FINISHED:
        worker.forget(key)
    else:
        if key not in worker.calls:
            made(session, [*found, *edits.places(held)], done=False)
        worker.remember(key, found)


@proxy.request("fs/write_text_file")
async def write(request: Request, following: Next) -> Any:
    session, path, new = getattr(request, "session", None), None, None
    if request.direction == "up" and session is not None:
        path, new = request.params.get("path"), request.params.get("content")
    found = [Edit(path, None, new)] if isinstance(path, str) and isinstance(new, str) else []
    by = origin(session) if session is not None else {}
    result = await following(request)
    if session is not None:
        add(session, found, by)
    return result


def made(session: Session, found: list[Edit], *, done: bool = True) -> None:
    """Edits that were made in a session, or are about to be."""
    add(session, found, origin(session) if done else None)


def origin(session: Session) -> dict[str, Any]:
    """The maker of the edits of a session now."""
    state = session.state
    by = {"agent": state.agent or worker.agent, "model": state.model, "proxy": state.proxy}
    return {**by, "prompt": state.prompt, "session": session.id[:200]}


def add(session: Session, found: list[Edit], by: dict[str, Any] | None) -> None:
    """Edits of this origin (None: they are about to be made); paths elsewhere count for nothing."""
    root = posixpath.normpath(session.cwd) if session.cwd else None
    if root is None and found:  # an observer that starts late gets answers behind what followed
        early = session.state.early
        early.append((found, by))
        while len(early) > EARLY or sum(one.chars for held, _ in early for one in held) > CHARS:
            del early[0]
        return
    named = [(below(root, one.path), below(root, one.source), one) for one in found]
    within = [one._replace(path=path, source=source) for path, source, one in named if path]
    if root is None or not within:
        return
    if by is None:
        worker.add(Job(root, [Edit(path) for path in {one.path for one in within}], None))
        return
    # A proxy that starts late may learn the agent's name only after the agent's first edit.
    known = {"agent": by["agent"] or worker.agent, "model": by["model"] or session.state.model}
    worker.add(Job(root, within, by | known))


def below(root: str | None, path: str | None) -> str | None:
    """A path relative to the session's folder; None for one that is elsewhere."""
    if root is None or path is None:
        return None
    if path.startswith("file://"):
        path = urllib.parse.unquote(path.removeprefix("file://"))
    head = root.rstrip("/") + "/"
    place = posixpath.normpath(posixpath.join(root, path))
    inner = place.removeprefix(head) if place.startswith(head) else ""
    return inner if 0 < len(inner) <= 1000 and inner.isprintable() else None


if __name__ == "__main__":
    proxy.run()
