"""Shows the agent the project: a summary with the first prompt, and tools to look further.

conductor agent context claude-agent-acp
"""

import posixpath
from dataclasses import dataclass, field
from typing import Any, Literal

from guest_sdk.python import Call, Proxy, Refused, Request, ToolError, unlinked

KINDS = {
    "pyproject.toml": "Python",
    "setup.py": "Python",
    "Cargo.toml": "Rust",
    "package.json": "JavaScript",
    "tsconfig.json": "TypeScript",
    "go.mod": "Go",
    "pom.xml": "Java",
    "build.gradle": "Java",
    "build.gradle.kts": "Kotlin",
    "Package.swift": "Swift",
    "CMakeLists.txt": "C or C++",
    "build.zig": "Zig",
    "Gemfile": "Ruby",
    "composer.json": "PHP",
    "mix.exs": "Elixir",
}
"""The language or tool of a project, by a file at its top."""

LOOKED_AT = 5000
"""Entries asked for at most to make a summary."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    summary: Literal["first", "never"] = "first"
    depth: int = 2
    entries: int = 150
    heads: list[str] = field(default_factory=lambda: ["README.md", "README.rst", "README"])
    head_bytes: int = 2048
    skip: list[str] = field(
        default_factory=lambda: ["node_modules", "vendor", "target", "dist", "build", "__pycache__"]
    )

    def __post_init__(self) -> None:
        if min(self.depth, self.entries, self.head_bytes) < 1:
            raise ValueError("`depth`, `entries` and `head_bytes` are at least 1")


RESUMED = ("session/load", "session/resume")
"""Requests that set up a session whose history already holds the summary."""


@dataclass
class Seen:
    """The state of a session."""

    told: bool = False


proxy = Proxy(
    "context",
    description="The files of the project: list them, read them.",
    config=Config,
    session=Seen,
)


# -- the summary -------------------------------------------------------------------------------


@proxy.request("session/new", "session/load", "session/resume", "session/fork")
async def set_up(request: Request, following: Any) -> Any:
    result = await following(request)
    if getattr(request, "session", None) is not None:
        request.session.keep()
    return result


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    blocks = request.params.get("prompt")
    if (
        proxy.config.summary == "never"
        or not isinstance(blocks, list)
        or "sessionId" not in request.params
        or request.state.told
        or request.session.began in RESUMED
        or request.is_command
    ):
        return await following(request)
    request.state.told = True
    request.session.keep()
    said = await summary(request.session.cwd)
    if said:
        request.preface(unlinked(said))
    return await following(request)


async def summary(cwd: str | None) -> str:
    """A summary of a project; empty if its folder cannot be read."""
    if cwd is None:
        return ""
    folder = posixpath.normpath(cwd)
    try:
        found = await listing(folder, "**", LOOKED_AT)
    except Refused as refused:
        proxy.log.warn(f"prompts go on without a summary: {refused.message}")
        return ""
    if not found:
        return ""
    near = [path for path in found if path.rstrip("/").count("/") < proxy.config.depth]
    kinds = ", ".join(dict.fromkeys(KINDS[path] for path in near if path in KINDS))
    lines = [f'<project folder="{folder}"' + (f' kind="{kinds}">' if kinds else ">")]
    lines += near[: proxy.config.entries]
    if len(near) < len(found) or len(near) > proxy.config.entries:
        lines.append(f"… and more; the tool `list` of `{proxy.chain_name}` has all of it")
    for name in proxy.config.heads:
        if name in found:
            lines += ["", f"{name} begins:", await head(posixpath.join(folder, name))]
            break
    return "\n".join([*lines, "</project>"])


async def listing(folder: str, glob: str, limit: int) -> list[str]:
    """Paths below a folder, relative to it, the nearest first; those of folders end in a slash."""
    paths = []
    for entry in await proxy.files.list(folder, glob=glob, limit=limit):
        path = posixpath.relpath(entry.path, folder)
        if not set(path.split("/")) & set(proxy.config.skip):
            paths.append(path + "/" if entry.kind == "folder" else path)
    return paths


async def head(path: str) -> str:
    """The beginning of a file, in whole lines."""
    most = proxy.config.head_bytes
    try:
        held = await proxy.files.read_bytes(path, max_bytes=most)
    except Refused as refused:
        return f"({refused.message})"
    said = held.decode("utf-8", "replace")
    return said.rstrip() if len(held) < most else said.rpartition("\n")[0] + "\n…"


# -- tools -------------------------------------------------------------------------------------


@proxy.tool(name="list", title="List files", annotations={"readOnlyHint": True})
async def list_files(call: Call, path: str = ".", glob: str = "**", limit: int = 500) -> str:
    """Lists files and folders below a folder of the project, the nearest first."""
    folder = inside(call, "list", path)
    try:
        found = await listing(folder, glob, max(1, min(limit, 10_000)))
    except Refused as refused:
        raise ToolError(f"cannot list {path}: {refused.message}") from None
    return "\n".join(found) or f"nothing in {path} fits {glob}"


@proxy.tool(title="Read a file", annotations={"readOnlyHint": True})
async def read(call: Call, path: str, first_line: int = 1, lines: int = 1000) -> str:
    """Reads lines of a text file of the project."""
    whole = inside(call, "read", path)
    try:
        said = (await proxy.files.read(whole)).splitlines()
    except Refused as refused:
        raise ToolError(f"cannot read {path}: {refused.message}") from None
    begin = max(0, first_line - 1)
    part = said[begin : begin + max(0, lines)]
    rest = len(said) - begin - len(part)
    return "\n".join(part) + (f"\n… {rest} more lines" if rest > 0 else "")


def inside(call: Call, doing: str, path: str) -> str:
    """A path in the session's folder, made absolute. Raises `ToolError` for one elsewhere."""
    folder = posixpath.normpath(call.session.cwd or "/")
    whole = posixpath.normpath(posixpath.join(folder, path))
    if whole != folder and not whole.startswith(folder.rstrip("/") + "/"):
        raise ToolError(
            f"cannot {doing} {path}: `{path}` is outside of the session's folder, {folder}"
        )
    return whole


if __name__ == "__main__":
    proxy.run()
