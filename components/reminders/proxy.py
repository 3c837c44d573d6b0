"""Reminds its user at a time that they name, and writes checkpoints of the conversation.

conductor agent reminders claude-agent-acp
"""

import datetime
import hashlib
import posixpath
from dataclasses import dataclass
from typing import Any, NamedTuple

import checkpoints
import times

from guest_sdk.python import (
    Call,
    Cancelled,
    Next,
    Proxy,
    ProxyError,
    Recorder,
    Refused,
    Request,
    Session,
    ToolError,
    Update,
    gather,
)

KEY = "reminder:"
"""How the keys of reminders begin in the store."""
LONGEST = 1000
"""Characters of a reminder."""
LATE = 60_000
"""Milliseconds that a reminder waits for its own session, before another one of its folder shows
it. A reminder that is shown later than that says when it was due."""
STRIDE = 6 * 24 * 3600 * 1000
"""Milliseconds that one timer waits at most; the conductor's wait 7 days."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    act: bool = False
    most: int = 50
    every: int = 0
    folder: str = ".conductor/checkpoints"
    chars: int = 500_000

    def __post_init__(self) -> None:
        if not 1 <= self.most <= 500 or self.every < 0 or not 1000 <= self.chars <= 2_000_000:
            raise ValueError(
                "`most` is 1 to 500, `every` 0 or more, and `chars` 1,000 to 2,000,000"
            )
        if {"", ".", ".."} & set(self.folder.split("/")):
            raise ValueError("`folder` is a path below the session's folder, without `..`")


class Reminder(NamedTuple):
    """A reminder. It is kept under a key of its own: who takes the key away tells it."""

    key: str
    number: int
    text: str
    due: int
    """Milliseconds since 1970."""
    session: str
    cwd: str
    act: bool
    """Whether the agent is prompted, too."""

    def line(self, now: datetime.datetime) -> str:
        """The reminder in a line, for people and agents."""
        due = datetime.datetime.fromtimestamp(self.due / 1000, now.tzinfo)
        return f"{self.number}. {times.shown(due)}: {self.text}" + " (you act on it)" * self.act


proxy = Proxy(
    "reminders",
    description="Reminds the user at a time that they name. Writes checkpoints.",
    config=Config,
)


# -- the store -------------------------------------------------------------------------------------


async def kept() -> list[Reminder]:
    """All reminders of the project, the next one first. Raises `Refused`."""
    keys = await proxy.kv.keys(KEY)
    values = await gather(*(proxy.kv.get(key) for key in keys))
    found = []
    for key, value in zip(keys, values, strict=True):
        if isinstance(value, dict):  # another conductor may have told it by now
            found.append(Reminder(key, **{name: value[name] for name in Reminder._fields[1:]}))
    return sorted(found, key=lambda one: (one.due, one.number))


@proxy.tool(name="set")
async def set_reminder(
    text: str, call: Call, at: str = "", minutes: float = 0, act: bool = False
) -> str:
    """Reminds the user of something, in this conversation, also if the program was restarted since.

    `at`: 18:00, or 2025-10-08T18:00 in the user's local time; or else `minutes` from now. `act`:
    you are prompted with the text then, and can do what it says.
    """
    words = "".join(one for one in " ".join(text.split()) if one.isprintable())
    if not words or len(words) > LONGEST:
        raise ToolError(f"a reminder has 1 to {LONGEST} characters")
    if act and not proxy.config.act:
        raise ToolError("a reminder may not prompt you: the user allows that by `config.act=true`")
    if not call.in_session:
        raise ToolError("reminders are set once the session is there")
    now = await proxy.clock.now()
    try:
        due = times.due(at, minutes, now)
    except ValueError as error:
        raise ToolError(str(error)) from None
    before = await kept()
    if len(before) >= proxy.config.most:
        raise ToolError(f"{len(before)} reminders are set, and no more may be: cancel one of them")
    number, session = max((one.number for one in before), default=0) + 1, call.session
    digest = hashlib.sha256(f"{session.id}\n{words}".encode()).hexdigest()[:8]
    value = {
        "number": number,
        "text": words,
        "due": round(due.timestamp() * 1000),
        "session": session.id,
        "cwd": folder_of(session),
        "act": act,
    }
    reminder = Reminder(f"{KEY}{number:06}:{digest}", **value)
    await proxy.kv.set(reminder.key, value)
    proxy.start(arm())
    return f"set: {reminder.line(now)}"


@proxy.tool(name="list", annotations={"readOnlyHint": True})
async def listed() -> str:
    """All reminders of the project, by their numbers."""
    now = await proxy.clock.now()
    return "\n".join(one.line(now) for one in await kept()) or "none"


@proxy.tool
async def cancel(number: int) -> str:
    """Cancels the reminder of a number."""
    gone = [one for one in await kept() if one.number == number]
    if not gone:
        raise ToolError(f"there is no reminder {number}")
    await gather(*(proxy.kv.delete(one.key) for one in gone))
    return f"cancelled: {gone[0].line(await proxy.clock.now())}"


# -- when they are due -----------------------------------------------------------------------------


class Alarm:
    """The one timer, for the reminder that is due next."""

    def __init__(self) -> None:
        self.timer: Any = None
        self.armed = 0
        """How often it was set anew."""
        self.telling: set[str] = set()
        """The keys of reminders that wait for their turn, or could not be told."""


alarm = Alarm()


def folder_of(session: Session) -> str:
    return posixpath.normpath(session.cwd or "/")


def place(one: Reminder) -> tuple[Session, int] | None:
    """The session in which a reminder is told, and when; None: there is none yet.

    It is its own, or, where that is not open, the last one that was opened in the same folder. That
    one waits a little longer: another conductor may have the reminder's own.
    """
    there = [session for session in proxy.sessions.values() if folder_of(session) == one.cwd]
    for session in there:
        if session.id == one.session:
            return session, one.due
    return (there[-1], one.due + LATE) if there else None


async def arm(target: int = 0) -> None:
    """Tells the reminders that are due, and sets the timer for the next. `target`: the time, in
    milliseconds, of a timer that fires: it is past, whatever the clock says."""
    alarm.armed += 1
    mine = alarm.armed
    try:
        reminders = [one for one in await kept() if one.key not in alarm.telling]
        now = max(await proxy.clock.unix_ms(), target) if reminders else 0
        if mine != alarm.armed:
            return  # it is set anew meanwhile
        times_ = []
        for one in reminders:
            where = place(one)
            if where is not None and where[1] <= now:
                alarm.telling.add(one.key)
                proxy.start(tell(where[0], one, now))
            elif where is not None:
                times_.append(where[1])
        former, alarm.timer = alarm.timer, None
        if former is not None:
            await former.stop()
        if times_ and mine == alarm.armed:
            until = min(*times_, now + STRIDE)
            alarm.timer = await proxy.timer.after((until - now) / 1000, lambda: arm(until))
    except Refused as refused:
        proxy.log.warn(f"reminders are not told: {refused.message}")


async def tell(session: Session, one: Reminder, now: int) -> None:
    """Tells a reminder, once nobody prompts in the session; only the first who comes to it does."""
    late = ""
    if now - one.due >= LATE:
        zone = (await proxy.clock.now()).tzinfo
        due = datetime.datetime.fromtimestamp(one.due / 1000, zone)
        late = f", due {times.shown(due)}"
    said = f"[reminder{late}: {one.text}]\n"
    try:
        async with session.turn() as turn:
            if await proxy.kv.delete(one.key):
                show(session, said)
                if one.act and proxy.config.act:
                    await turn.prompt(f"This reminder of yours is due, act on it: {one.text}")
        alarm.telling.discard(one.key)
    except Refused as refused:
        proxy.log.warn(f"a reminder cannot wait for its turn: {refused.message}")
        if await proxy.kv.delete(one.key):
            show(session, said)
        alarm.telling.discard(one.key)
    except (Cancelled, ProxyError) as error:  # it is told when a session is opened
        proxy.log.warn(f"a reminder was not told: {error}")


def show(session: Session, said: str) -> None:
    session.event("reminder", said)
    recorder(session).event("reminder", said.strip())


# -- sessions, and what is said in them ------------------------------------------------------------

recorders: dict[str, Recorder] = {}
ended_turns: dict[str, int] = {}
"""The number of turns that have ended, by session."""


def recorder(session: Session) -> Recorder:
    if session.id not in recorders:
        recorders[session.id] = Recorder(most=proxy.config.chars)
    return recorders[session.id]


@proxy.on_start
def started() -> None:
    for id_ in proxy.kept("open") or []:
        proxy.session(id_)
    if proxy.sessions:
        proxy.start(arm())


@proxy.request("session/new", "session/load", "session/resume", "session/fork")
async def set_up(request: Request, following: Next) -> Any:
    """Tells the reminders that became due meanwhile, behind the answer."""
    if request.method in ("session/load", "session/resume"):
        recorders.pop(str(request.params.get("sessionId")), None)
    result = await following(request)
    session = getattr(request, "session", None)
    if session is not None:
        session.keep()
        proxy.keep("open", list(proxy.sessions)[-100:])
        alarm.telling.clear()
        proxy.start(arm())
    return result


@proxy.request("session/close", "session/delete")
async def closed(request: Request, following: Next) -> Any:
    result = await following(request)
    proxy.keep("open", list(proxy.sessions)[-100:])
    recorders.pop(str(request.params.get("sessionId")), None)
    ended_turns.pop(str(request.params.get("sessionId")), None)
    return result


@proxy.request("session/prompt")
async def prompt(request: Request, following: Next) -> Any:
    session = getattr(request, "session", None)
    if session is None or request.direction != "down":
        return await following(request)
    recorder(session).prompted(request.params.get("prompt"))
    result = await following(request)
    recorder(session).ended(result)
    if isinstance(result, dict) and "stopReason" in result:  # else a state ends it
        turn_ended(session)
    return result


@proxy.update()
def updated(update: Update) -> None:
    session = getattr(update, "session", None)
    if session is None:
        return
    recorder(session).heard(update.update, replayed=update.replayed)
    if update.kind == "state_update" and update.update.get("state") == "idle":
        turn_ended(session)


# -- checkpoints -----------------------------------------------------------------------------------


def turn_ended(session: Session) -> None:
    """Writes a checkpoint where one is due."""
    count = ended_turns[session.id] = ended_turns.get(session.id, 0) + 1
    if proxy.config.every and count % proxy.config.every == 0:
        proxy.start(written(session))


async def written(session: Session) -> None:
    try:
        await write(session, "")
    except ProxyError as error:
        proxy.log.warn(f"no checkpoint is written: {error.message}")


@proxy.tool
async def checkpoint(call: Call, title: str = "") -> str:
    """Writes the conversation so far into a Markdown file of the project, and says where it is.
    `title`: a few words that name the file."""
    if not call.in_session:
        raise ToolError("there is a conversation once the session is there")
    return f"written: {await write(call.session, title)}"


async def write(session: Session, title: str) -> str:
    """Writes a checkpoint; its path. Raises `ProxyError`."""
    title = "".join(one for one in " ".join(title.split()) if one.isprintable())[:100]
    now, folder = await proxy.clock.now(), folder_of(session)
    said = recorder(session).conversation
    text = checkpoints.markdown(said, title, folder, now)
    path = f"{proxy.config.folder}/{checkpoints.name(title, now)}.md"
    return await proxy.files.write(path, text, root=folder)


if __name__ == "__main__":
    proxy.run()
