"""Tells any agent which skills there are, and gives it the one it asks for.

conductor agent skills claude-agent-acp
"""

import posixpath
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from guest_sdk.python import Call, Proxy, ProxyError, Refused, Request, text
from guest_sdk.python.mcp import Server

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")
SCHEME = "skill://"
NOT_FOUND = -32002
MOST = 1024
"""Characters of a description that are told."""

INTRODUCTION = (
    "There are skills: instructions for particular tasks. Before such a task, read the skill, "
    f"with the tool `read_skill` or as the resource {SCHEME}NAME, and follow it."
)
KEY = re.compile(r"([A-Za-z][\w-]*):\s*(.*)")


class Skill(NamedTuple):
    """What is known of a skill before it is read."""

    name: str
    description: str
    folder: str


@dataclass
class Config:
    """The settings; what each means is in README.md."""

    folders: list[str] = field(
        default_factory=lambda: ["skills", ".claude/skills", ".agents/skills"]
    )
    only: list[str] = field(default_factory=list)


@dataclass
class Known:
    """What is kept of a session."""

    skills: dict[str, Skill] | None = None
    """None: not looked for yet."""
    told: bool = False


class Shelf(Server):
    """The MCP server: the SDK's own, of one tool, and resources besides."""

    async def _serve(self, method: str, params: Any, session: Any, notify: Any) -> Any:
        if method in ("initialize", "server/discover"):
            held = await super()._serve(method, params, session, notify)
            return {**held, "capabilities": {**held["capabilities"], "resources": {}}}
        fresh = {"ttlMs": 0, "cacheScope": "private"}
        if method == "resources/list":
            found = (await shelf(session)).values()
            return {"resources": [card(skill) for skill in found], **fresh}
        if method == "resources/templates/list":
            return {"resourceTemplates": [], **fresh}
        if method == "resources/read":
            uri = str(params.get("uri", ""))
            kind = "text/markdown" if not posixpath.splitext(uri)[1] else "text/plain"
            said = await read(session, uri)
            return {"contents": [{"uri": uri, "mimeType": kind, "text": said}], **fresh}
        return await super()._serve(method, params, session, notify)


class Skills(Proxy):
    """A proxy whose MCP server has resources."""

    def builtin(self, running: Any) -> Any:
        """What every proxy does, with this server."""
        return {**super().builtin(running), **Shelf(running).handlers()}


proxy = Skills(
    "skills",
    profile="tools",
    description="Instructions for particular tasks, to be read when they are needed.",
    wants={
        "files:skills/**": "to read the project's skills",
        "files:.claude/skills/**": "to read them where Claude Code keeps them",
        "files:.agents/skills/**": "to read them where other agents keep them",
    },
    config=Config,
    session=Known,
)


# -- skills ----------------------------------------------------------------------------------------


async def shelf(session: Any) -> dict[str, Skill]:
    """The skills of a session, by name; looked for once."""
    if session is None or session.cwd is None:
        return {}
    known = session.state
    if known.skills is None:
        known.skills = {}
        for folder in proxy.config.folders:
            place = posixpath.join(session.cwd, folder)
            for skill in await search(place):
                known.skills.setdefault(skill.name, skill)
    return dict(known.skills)


async def search(place: str) -> list[Skill]:
    """The skills of one folder."""
    try:
        paths = sorted(one.path for one in await proxy.files.list(place, glob="*/SKILL.md"))
    except Refused as refused:
        if not refused.granted:
            proxy.log.warn(f"no skills are looked for in {place}: {refused}")
        return []
    found = []
    for path in paths:
        folder = posixpath.dirname(path)
        if posixpath.dirname(folder) != posixpath.normpath(place):
            continue
        try:
            held, _ = parted(
                (await proxy.files.read_bytes(path, max_bytes=65536)).decode("utf-8", "replace")
            )
        except Refused as refused:
            proxy.log.warn(f"{path} is left out: {refused}")
            continue
        name = held.get("name") or posixpath.basename(folder)
        if re.fullmatch(r"[\w.-]{1,64}", name) and (
            not proxy.config.only or name in proxy.config.only
        ):
            found.append(Skill(name, held.get("description", "")[:MOST], folder))
    return found


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


async def read(session: Any, uri: str) -> str:
    """The body of a skill, `skill://NAME`, or a file beside it, `skill://NAME/FILE`."""
    name, _, path = uri.removeprefix(SCHEME).partition("/")
    found = await shelf(session)
    skill = found.get(name) if uri.startswith(SCHEME) else None
    path = posixpath.normpath(path or "SKILL.md")
    if skill is None or path.startswith(("..", "/")):
        known = ", ".join(found) or "none"
        raise ProxyError(f"there is no skill at {uri[:200]}; skills are: {known}", NOT_FOUND)
    try:
        said = await proxy.files.read(posixpath.join(skill.folder, path))
    except Refused as refused:
        raise ProxyError(f"{uri[:200]} cannot be read: {refused}", NOT_FOUND) from None
    return parted(said)[1] if path == "SKILL.md" else said


def card(skill: Skill) -> dict[str, Any]:
    """A skill in a list of resources."""
    return {
        "uri": f"{SCHEME}{skill.name}",
        "name": skill.name,
        "description": skill.description,
        "mimeType": "text/markdown",
    }


@proxy.tool
async def read_skill(name: str, call: Call, file: str = "") -> str:
    """Reads a skill: instructions for a particular task. `file`: another file of its folder."""
    try:
        return await read(call.session, f"{SCHEME}{name}/{file}".rstrip("/"))
    except ProxyError as error:
        raise ValueError(str(error)) from None  # for the model to read


# -- telling ---------------------------------------------------------------------------------------


@proxy.request("session/load", "session/resume", "session/fork")
async def known_already(request: Request, following: Any) -> Any:
    result = await following(request)
    if "sessionId" in request.params:
        request.state.told = True  # it is in its history
    return result


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    blocks = request.params.get("prompt")
    word = request.text.split(maxsplit=1)[:1]
    command = bool(word) and word[0].startswith("/") and word[0].count("/") == 1
    if isinstance(blocks, list) and not command and "sessionId" in request.params:
        found = {} if request.state.told else await shelf(request.session)
        request.state.told = True
        if found:
            blocks.insert(0, text(listing(list(found.values()))))
    return await following(request)


def listing(skills: list[Skill]) -> str:
    """What the agent is told up front."""
    lines = [f"- {one.name}: {one.description}".rstrip(": ") for one in skills]
    return "\n".join([INTRODUCTION, *lines])


if __name__ == "__main__":
    proxy.run()
