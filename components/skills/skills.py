"""Tells any agent which skills there are, and gives it the one it asks for.

conductor agent skills claude-agent-acp
"""

import posixpath
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from guest_sdk.python import (
    Call,
    Contents,
    Proxy,
    Refused,
    Request,
    Resource,
    Session,
    ToolError,
    unlinked,
)

SCHEME = "skill://"
MOST = 1024
"""Characters of a description that are told."""

INTRODUCTION = (
    "There are skills: instructions for particular tasks. Before such a task, read the skill, "
    f"with the tool `read_skill` or as the resource {SCHEME}NAME, and follow it."
)
KEY = re.compile(r"([A-Za-z][\w-]*):\s*(.*)")


class Skill(NamedTuple):
    """A skill, before its file is read for the agent."""

    name: str
    description: str
    folder: str


@dataclass
class Config:
    """The settings; README.md explains each."""

    folders: list[str] = field(
        default_factory=lambda: ["skills", ".claude/skills", ".agents/skills"]
    )
    only: list[str] = field(default_factory=list)


USUAL = frozenset(Config().folders)
"""Folders that need not be there."""


@dataclass
class Known:
    """The state of a session."""

    skills: dict[str, Skill] | None = None
    """None: not looked for yet."""
    told: bool = False


proxy = Proxy(
    "skills",
    description="Instructions for particular tasks, to be read when they are needed.",
    config=Config,
    session=Known,
)
warned: set[str] = set()
"""The warnings that the log already has."""


# -- skills ----------------------------------------------------------------------------------------


async def shelf(session: Session) -> dict[str, Skill]:
    """The skills of a session, by name; looked for once."""
    if session.cwd is None:
        return {}
    known = session.state
    if known.skills is None:
        known.skills = {}
        refused: dict[str, Refused] = {}
        for folder in proxy.config.folders:
            try:
                found = await search(posixpath.join(session.cwd, folder), folder)
            except Refused as error:
                refused[folder] = error
                continue
            for skill in found:
                known.skills.setdefault(skill.name, skill)
        if refused:
            why = next(iter(refused.values()))
            proxy.log.warn(f"no skills are looked for in {', '.join(refused)}: {why}")
    return dict(known.skills)


async def search(place: str, folder: str) -> list[Skill]:
    """The skills of one folder, which the settings call `folder`. Raises `Refused`."""
    try:
        paths = sorted(one.path for one in await proxy.files.list(place, glob="*/SKILL.md"))
    except Refused as refused:
        if not refused.granted:
            raise
        return []
    if not paths and folder not in USUAL:
        await complain(place, folder)
    found = []
    for path in paths:
        home = posixpath.dirname(path)
        if posixpath.dirname(home) != posixpath.normpath(place):
            continue
        try:
            held, _ = parted(
                (await proxy.files.read_bytes(path, max_bytes=65536)).decode("utf-8", "replace")
            )
        except Refused as refused:
            proxy.log.warn(f"{path} is left out: {refused}")
            continue
        name = held.get("name") or posixpath.basename(home)
        if not re.fullmatch(r"[\w.-]{1,64}", name):
            warn_once(
                f"{path} is left out: `{name[:100]}` cannot be the name of a skill\n"
                "hint: a name is up to 64 letters, digits and any of `._-`; "
                "say `name: …` at the head of the file, or rename the folder"
            )
        elif not proxy.config.only or name in proxy.config.only:
            found.append(Skill(name, held.get("description", "")[:MOST], home))
    return found


async def complain(place: str, folder: str) -> None:
    """Says so if a folder's skills are not seen because they are not granted."""
    try:
        await proxy.files.read_bytes(posixpath.join(place, "any", "SKILL.md"), max_bytes=1)
    except Refused as refused:
        if isinstance(refused.data, dict) and refused.data.get("reason") == "not-granted":
            wanted = f"`,allow=read:{folder.strip('/')}/**`"
            warn_once(f"{folder} is not looked into: it is not granted\nhint: {wanted}")


def warn_once(said: str) -> None:
    """Logs a warning once for all sessions."""
    if said not in warned:
        warned.add(said)
        proxy.log.warn(said)


def parted(said: str) -> tuple[dict[str, str], str]:
    """The head of a skill's file, between lines of dashes, as far as it is plain; and its body."""
    match = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", said, re.DOTALL)
    if match is None:
        return {}, said
    held: dict[str, str] = {}
    last = ""
    for line in match[1].splitlines():
        key = KEY.fullmatch(line)
        if key is not None:
            last = key[1]
            value = key[2].strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            held[last] = value[1:-1] if quoted else re.sub(r"^[>|][+-]?$", "", value)
        elif last and line[:1] in (" ", "\t"):
            held[last] = f"{held[last]} {line.strip()}".strip()
    return held, said[match.end() :]


async def body(session: Session, name: str, file: str) -> Contents:
    """The body of a skill, or another file of its folder. Raises `FileNotFoundError`."""
    found = await shelf(session)
    skill = found.get(name)
    path = posixpath.normpath(file or "SKILL.md")
    uri = f"{SCHEME}{name}/{file}".rstrip("/")[:200]
    if skill is None or path.startswith(("..", "/")):
        known = ", ".join(found) or "none"
        raise FileNotFoundError(f"there is no skill at {uri}; skills are: {known}")
    try:
        said = await proxy.files.read(posixpath.join(skill.folder, path))
    except Refused as refused:
        raise FileNotFoundError(f"{uri} cannot be read: {refused}") from None
    kind = "text/markdown" if path.endswith(".md") else "text/plain"
    return Contents(parted(said)[1] if path == "SKILL.md" else said, kind)


# -- reading ---------------------------------------------------------------------------------------


@proxy.resources
async def skills(call: Call) -> list[Resource]:
    found = await shelf(call.session) if call.in_session else {}
    return [
        Resource(f"{SCHEME}{one.name}", one.name, one.description, mime_type="text/markdown")
        for one in found.values()
    ]


@proxy.resource("skill://{name}", name="skill", mime_type="text/markdown")
async def skill(name: str, call: Call) -> Contents:
    """A skill: instructions for a particular task."""
    return await body(call.session, name, "")


@proxy.resource("skill://{name}/{+file}", name="file of a skill")
async def file_of_skill(name: str, file: str, call: Call) -> Contents:
    """Another file of a skill's folder."""
    return await body(call.session, name, file)


@proxy.tool(annotations={"readOnlyHint": True})
async def read_skill(name: str, call: Call, file: str = "") -> str:
    """Reads a skill: instructions for a particular task. `file`: another file of its folder."""
    try:
        return str((await body(call.session, name, file)).held)
    except FileNotFoundError as error:
        raise ToolError(str(error)) from None


# -- telling ---------------------------------------------------------------------------------------


@proxy.request("session/new", "session/load", "session/resume", "session/fork")
async def set_up(request: Request, following: Any) -> Any:
    result = await following(request)
    session = getattr(request, "session", None)
    if session is not None:
        session.state.told = request.method != "session/new"  # it is in its history
        session.keep("told")
    return result


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    blocks = request.params.get("prompt")
    if isinstance(blocks, list) and not request.is_command and "sessionId" in request.params:
        found = {} if request.state.told else await shelf(request.session)
        request.state.told = True
        request.session.keep("told")
        if found:
            request.preface(unlinked(listing(list(found.values()))))
    return await following(request)


def listing(skills: list[Skill]) -> str:
    """The text that tells the agent of its skills up front."""
    lines = [f"- {one.name}: {one.description}".rstrip(": ") for one in skills]
    return "\n".join([INTRODUCTION, *lines])


if __name__ == "__main__":
    proxy.run()
