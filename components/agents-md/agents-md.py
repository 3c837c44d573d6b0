"""Tells any agent what the project's AGENTS.md files say: each where it holds, once a session.

conductor agent agents-md claude-agent-acp
"""

import posixpath
import re
import urllib.parse
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal

from guest_sdk.python import Proxy, Refused, Request, unlinked

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")
INTRODUCTION = (
    "Instructions for working in this project. Each holds for the folder named and everything "
    "below it; where two disagree, the one for the deeper folder counts, and what the user says "
    "counts more than any of them."
)
GRANTED = "AGENTS.md"
"""The file that the manifest of this proxy grants."""
READERS = frozenset(
    ("amp", "auggie", "codex", "copilot", "cursor", "devin", "droid", "goose", "junie", "kilo",
     "kimi", "opencode", "pi", "vibe")
)  # fmt: skip
"""Agents that read files of this name themselves, by a word of the name they give themselves."""
OTHERS = "There are more, each to be read before working in its folder:"


@dataclass
class Config:
    """The settings; README.md explains each."""

    names: list[str] = field(default_factory=lambda: [GRANTED])
    nested: Literal["mentioned", "all", "never"] = "mentioned"
    always: bool = False
    max_bytes: int = 64 * 1024
    skip: list[str] = field(
        default_factory=lambda: ["node_modules", "vendor", "target", "dist", "build"]
    )

    def __post_init__(self) -> None:
        if any("/" in name or name in ("", ".", "..", "*", "**") for name in self.names):
            raise ValueError("`names` are names of files")
        if not 1 <= self.max_bytes <= 1 << 20:
            raise ValueError("`max_bytes` is 1 to 1048576")


@dataclass
class Known:
    """The state of a session: its folders, the files found below them, the files its agent
    knows."""

    folders: list[str] = field(default_factory=list)
    before: bool = False
    """Whether the agent was told of the folders' own files in an earlier life of the proxy."""
    files: list[str] | None = None
    told: set[str] = field(default_factory=set)
    mentioned: bool = False
    """Whether the agent was told which files there are besides."""


KEPT = ("folders", "before", "told", "mentioned")
"""The members kept for the next instance of this proxy, which looks for files anew."""


proxy = Proxy(
    "agents-md",
    description="Tells the agent what the project's AGENTS.md files say.",
    config=Config,
    session=Known,
)


# -- the agent -------------------------------------------------------------------------------------


@dataclass
class Agent:
    """The agent behind: whether it reads the files itself."""

    reads: bool = False


behind = Agent()


@proxy.on_start
def started() -> None:
    behind.reads = behind.reads or bool(proxy.kept("reads"))


@proxy.request("initialize")
async def initialize(request: Request, following: Any) -> Any:
    result = await following(request)
    told = result if isinstance(result, dict) else {}
    info = told.get("agentInfo") or told.get("info")  # of ACP v1, or v2
    names = info if isinstance(info, dict) else {}
    words = re.findall("[a-z]+", f"{names.get('name')} {names.get('title')}".lower()[:1000])
    reader = next((word for word in words if word in READERS), "")
    if reader and not proxy.config.always and GRANTED in proxy.config.names:
        proxy.log(f"{reader} reads {GRANTED} itself: it is not told of it")
    behind.reads = bool(reader)
    if reader:
        proxy.keep("reads", True)
    return result


def wanted_names() -> list[str]:
    """The names of the files that the agent does not read itself."""
    names = proxy.config.names
    all_of_them = proxy.config.always or not behind.reads
    return [name for name in names if all_of_them or name != GRANTED]


# -- what it is told -------------------------------------------------------------------------------


@proxy.request(*SETUPS)
async def set_up(request: Request, following: Any) -> Any:
    source = getattr(request, "session", None)
    before = source.state if source is not None and source.began else None
    result = await following(request)
    session = getattr(request, "session", None)
    if session is None:
        return result
    if request.method == "session/new" or before is None:
        folders = list(named(request.params))
        session.state = Known(folders, before=request.method != "session/new")
    elif session is not source:  # a fork has heard what its original has
        session.state = copy(before)
        session.state.told = set(before.told)
    session.keep(*KEPT)
    return result


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    held, blocks = getattr(request, "session", None), request.params.get("prompt")
    if held is None or not held.began or not isinstance(blocks, list) or request.is_command:
        return await following(request)
    session = held.state
    if session.files is None:
        session.files = await search(session.folders)
        if session.before:
            session.told |= {one for one in session.files if in_force(one, session.folders)}
    said = "\n".join(mentions(blocks))
    wanted = [
        one
        for one in session.files
        if one not in session.told and is_wanted(one, session.folders, said)
    ]
    parts = [part for one in wanted if (part := await told(one)) is not None]
    session.told.update(wanted)
    others = [one for one in session.files if one not in session.told]
    first, session.mentioned = not session.mentioned, True
    held.keep(*KEPT)
    if others and first and proxy.config.nested != "never":
        parts.append("\n".join([OTHERS, *(f"- {one}" for one in others)]))
    if parts:
        request.preface("\n\n".join([INTRODUCTION, *parts]))
    return await following(request)


def named(params: dict[str, Any]) -> Iterator[str]:
    """The folders a setup names."""
    more = params.get("additionalDirectories")
    for one in [params.get("cwd"), *(more if isinstance(more, list) else ())]:
        if isinstance(one, str) and one.startswith("/"):
            yield posixpath.normpath(one)


async def search(folders: list[str]) -> list[str]:
    """The files of instructions below folders, the outermost first."""
    found: dict[str, None] = {}
    for folder in folders:
        for name in wanted_names():
            try:
                entries = await proxy.files.list(folder, glob=f"**/{name}")
            except Refused as refused:
                proxy.log.warn(f"{name} is not looked for: {refused.message}")
                continue
            if not entries and name != GRANTED:
                await complain(folder, name)
            for entry in entries:
                parts = posixpath.relpath(entry.path, folder).split("/")
                if entry.kind != "folder" and not set(parts) & set(proxy.config.skip):
                    found[posixpath.normpath(entry.path)] = None
    return sorted(found, key=lambda path: (path.count("/"), path))


async def complain(folder: str, name: str) -> None:
    """Says so if files of a name are not seen because they are not granted."""
    try:
        await proxy.files.read_bytes(posixpath.join(folder, name), max_bytes=1)
    except Refused as refused:
        if isinstance(refused.data, dict) and refused.data.get("reason") == "not-granted":
            wanted = f"`,allow=read:**/{name}`"
            proxy.log.warn(f"`names`: {name} is not looked for, it needs {wanted}")


async def told(path: str) -> str | None:
    """The instructions of a file; None if it has none, or cannot be read."""
    most = proxy.config.max_bytes
    try:
        held = await proxy.files.read_bytes(path, max_bytes=most + 1)
    except Refused as refused:
        proxy.log.warn(f"{path} is left out: {refused.message}")
        return None
    said = unlinked(held[:most].decode("utf-8", "replace").strip("\ufeff\n "))
    if len(held) > most:
        said += f"\n(The rest of {path} is left out; read it.)"
    folder = posixpath.dirname(path)
    name = posixpath.basename(path)
    return (
        f'<instructions folder="{folder}" file="{name}">\n{said}\n</instructions>' if said else None
    )


def in_force(path: str, folders: list[str]) -> bool:
    """Whether a file's folder holds one of the session's folders."""
    scope = posixpath.dirname(path).rstrip("/")
    return any(one.rstrip("/") == scope or one.startswith(scope + "/") for one in folders)


def is_wanted(path: str, folders: list[str], said: str) -> bool:
    """Whether the agent is told of a file now."""
    if in_force(path, folders) or proxy.config.nested == "all":
        return True
    if proxy.config.nested == "never":
        return False
    scope = posixpath.dirname(path)
    if re.search(rf"{re.escape(scope)}(?![\w-])", said):
        return True
    for folder in folders:
        short = re.escape(posixpath.relpath(scope, folder))
        ends = r"(?![\w-])" if "/" in short else "/"
        if re.search(rf"(?<![\w./-])(?:\./)?{short}{ends}", said):
            return True
    return False


def mentions(blocks: list[Any]) -> Iterator[str]:
    """Where a prompt may name files: its texts, its links, its resources."""
    for block in blocks:
        if not isinstance(block, dict):
            continue
        resource = block.get("resource")
        uris = [block.get("uri"), resource.get("uri") if isinstance(resource, dict) else None]
        yield from (urllib.parse.unquote(one) for one in uris if isinstance(one, str))
        if isinstance(block.get("text"), str):
            yield block["text"]


if __name__ == "__main__":
    proxy.run()
