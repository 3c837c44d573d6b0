"""Slash commands out of a folder of Markdown files, for any agent.

conductor agent 'slash-commands,config.commands={"tldr":"Sum up: $ARGUMENTS"}' claude-agent-acp
"""

import posixpath
import re
import shlex
from dataclasses import dataclass, field
from typing import Any

from guest_sdk.python import Proxy, Record, Refused, Request, Session, Update

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")
GRANTED = ".conductor/commands"
"""The folder that is granted unasked."""
LARGEST = 256 * 1024
"""Bytes of one command's file."""
MOST = 256
"""Commands of one session."""
SECOND = "project:"
"""The prefix of a command whose name the agent uses too."""
NAME = re.compile(r"[\w.-]+(?::[\w.-]+)*")
CALL = re.compile(r"\s*/([\w.:-]+)(?:\s+(.*))?\s*", re.DOTALL)
PLACE = re.compile(r"\\\$|\$(?:ARGUMENTS\b|[1-9]\b)")


@dataclass
class Config:
    """The settings; README.md explains each."""

    folders: list[str] = field(default_factory=lambda: [GRANTED])
    commands: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in self.folders:
            if not folder or folder.startswith("/") or ".." in folder.split("/"):
                raise ValueError(f"`{folder}` is no folder below the session's")
        for name in self.commands:
            if not NAME.fullmatch(name):
                raise ValueError(f"`{name}` cannot be the name of a command")


@dataclass
class Command:
    """A command. `path`: its file; None for a command of the settings."""

    body: str
    description: str
    hint: str = ""
    path: str | None = None
    stamp: Any = None


@dataclass
class Known:
    """The state of a session: its folder, our commands, and those of the components behind us.

    Without a folder, it was not set up yet, or not well.
    """

    cwd: str = ""
    own: dict[str, Command] = field(default_factory=dict)
    theirs: list[Any] = field(default_factory=list)
    shown: list[Any] | None = None
    """Our part of the list the client was last sent."""


KEPT = ("cwd", "theirs", "shown")
"""The members kept for the next instance of this proxy, which reads the commands anew."""


proxy = Proxy(
    "slash-commands",
    description="Slash commands out of a folder of Markdown files.",
    config=Config,
    session=Known,
)
missed: set[str] = set()
"""Folders, files and sessions of which the log has said that they are not looked into."""
asked: set[str] = set()
"""Empty folders of which it was asked whether they are granted."""


# -- what passes -------------------------------------------------------------------------------


@proxy.request(*SETUPS)
async def set_up(request: Request, following: Any) -> Any:
    result = await following(request)
    session, cwd = getattr(request, "session", None), request.params.get("cwd")
    if session is not None and isinstance(cwd, str):
        session.state = Known(posixpath.normpath(cwd), theirs=session.state.theirs)
        session.keep(*KEPT)
        # Behind the answer, which is the first the client hears of the session.
        proxy.start(announce(session))
    return result


@proxy.update("available_commands_update")
def listed(update: Update) -> None:
    held, commands = getattr(update, "session", None), update.update
    if held is None or not isinstance(commands.get("availableCommands"), list):
        return
    session = held.state
    session.theirs = commands["availableCommands"]
    if not session.cwd:
        return
    commands["availableCommands"] = joined(session)
    session.shown = shown(session)
    held.keep(*KEPT)


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    held, blocks = getattr(request, "session", None), request.params.get("prompt")
    if held is None or not isinstance(blocks, list):
        return await following(request)
    calls = [(one, CALL.fullmatch(said)) for one in blocks if (said := text_of(one))]
    if any(call for _, call in calls):
        await announce(held)  # a command that was written a moment ago is there too
        if not held.state.cwd and held.id not in missed:
            missed.add(held.id)
            proxy.log.warn(
                f"the folder of {held.id} is not known to this proxy, and so are not its commands: "
                "load the session again"
            )
    for block, call in calls:
        command = named(held.state).get(call[1]) if call else None
        if call and command:
            block["text"] = expanded(command.body, (call[2] or "").strip())
            break
    return await following(request)


def text_of(block: Any) -> str:
    """The text of a text block."""
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
    return text if isinstance(text, str) else ""


# -- the list ----------------------------------------------------------------------------------


async def announce(held: Session) -> None:
    """Looks for a session's commands, and tells the client if they are others than it knows."""
    session = held.state
    session.own = await search(session)
    now, open_ = shown(session), proxy.sessions.get(held.id) is held
    known = open_ and held.state is session and session.cwd  # else a list would lack others
    if now != (session.shown or []) and known:
        session.shown = now
        held.update("available_commands_update", availableCommands=joined(session))
        held.keep(*KEPT)


def shown(session: Known) -> list[Any]:
    """Our commands as clients are shown them."""
    # Version 2 tells kinds of commands and inputs by `type`; version 1 has one of each and
    # passes over it.
    return [
        {
            "type": "command",
            "name": name,
            "description": one.description,
            **({"input": {"type": "text", "hint": one.hint}} if one.hint else {}),
        }
        for name, one in named(session).items()
    ]


def named(session: Known) -> dict[str, Command]:
    """Our commands as the user types them: `/review` stays the agent's where it has one, and ours
    is `/project:review`."""
    names = (one.get("name") for one in session.theirs if isinstance(one, dict))
    taken = {name.lstrip("/").casefold() for name in names if isinstance(name, str)}
    found: dict[str, Command] = {}
    for name, one in session.own.items():
        free = next((n for n in (name, SECOND + name) if n.casefold() not in taken), None)
        if free is not None:
            found.setdefault(free, one)
    return found


def joined(session: Known) -> list[Any]:
    """The commands of whoever is behind us, and ours."""
    return session.theirs + shown(session)


async def search(session: Known) -> dict[str, Command]:
    """The commands there are, by name; of two with one name the first counts."""
    found = {name: parsed(said) for name, said in proxy.config.commands.items()}
    held = {one.path: one for one in session.own.values() if one.path}
    for folder in proxy.config.folders if session.cwd else ():
        whole = posixpath.join(session.cwd, folder)
        listed = await entries(whole)
        if not listed and folder != GRANTED:
            await complain(whole, folder)
        for entry in listed:
            short = posixpath.relpath(entry.path, whole).removesuffix(".md").replace("/", ":")
            if not NAME.fullmatch(short) and entry.path not in missed:
                missed.add(entry.path)
                proxy.log.warn(
                    f"{entry.path} is left out: `{short[:100]}` cannot be the name of a command\n"
                    "hint: its file, and the folders it is in, have names of letters, digits and "
                    "any of `._-`"
                )
            if short in found or not NAME.fullmatch(short) or len(found) >= MOST:
                continue
            stamp = (entry.get("size"), entry.get("mtimeMs"))
            before = held.get(entry.path)
            if before is not None and before.stamp == stamp:
                found[short] = before
            elif (command := await read(entry.path)) is not None:
                command.stamp = stamp
                found[short] = command
    return found


async def entries(folder: str) -> list[Record]:
    """The Markdown files below a folder; none if it is not there."""
    try:
        return [one for one in await proxy.files.list(folder, glob="**/*.md") if one.kind == "file"]
    except Refused as refused:
        if not refused.granted and folder not in missed:
            missed.add(folder)
            proxy.log.warn(f"{folder} is not looked into: {refused.message}")
        return []


async def complain(whole: str, folder: str) -> None:
    """Says so, once, if a folder's commands are not seen because they are not granted."""
    if whole in asked:
        return
    asked.add(whole)
    try:
        await proxy.files.read_bytes(posixpath.join(whole, "any.md"), max_bytes=1)
    except Refused as refused:
        if isinstance(refused.data, dict) and refused.data.get("reason") == "not-granted":
            wanted = f"`,allow=read:{folder.strip('/')}/**/*.md`"
            proxy.log.warn(f"{folder} is not looked into: it is not granted\nhint: {wanted}")


async def read(path: str) -> Command | None:
    """The command of a file; None if it cannot be read."""
    try:
        held = await proxy.files.read_bytes(path, max_bytes=LARGEST)
    except Refused as refused:
        proxy.log.warn(f"{path} is left out: {refused.message}")
        return None
    command = parsed(held.decode("utf-8", "replace"))
    command.path = path
    return command


# -- one command -------------------------------------------------------------------------------


def parsed(said: str) -> Command:
    """The command in a text: the lines between two lines `---` at its beginning describe it."""
    lines = said.removeprefix("\ufeff").splitlines()
    about: dict[str, str] = {}
    if lines and lines[0].strip() == "---":
        ends = [at for at, line in enumerate(lines[1:], 1) if line.strip() == "---"]
        if ends:
            for line in lines[1 : ends[0]]:
                key, colon, value = line.partition(":")
                if colon and not key.startswith((" ", "#")):
                    about[key.strip()] = unquoted(value.strip())
            lines = lines[ends[0] + 1 :]
    body = "\n".join(lines).strip()
    first = body.partition("\n")[0].lstrip("# ")
    description = about.get("description") or first[:100] or "an empty command"
    hint = about.get("argument-hint") or ("arguments" if "$ARGUMENTS" in body else "")
    return Command(body, description, hint)


def unquoted(value: str) -> str:
    """A value without the quotes around it."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def expanded(body: str, given: str) -> str:
    """A command's body with its arguments; behind it, where it does not say where."""
    try:
        words = shlex.split(given)
    except ValueError:
        words = given.split()
    used = False

    def put(place: re.Match[str]) -> str:
        nonlocal used
        if place[0] == "\\$":
            return "$"
        used = True
        if place[0] == "$ARGUMENTS":
            return given
        at = int(place[0][1:]) - 1
        return words[at] if at < len(words) else ""

    said = PLACE.sub(put, body)
    return said if used or not given else f"{said}\n\n{given}"


if __name__ == "__main__":
    proxy.run()
