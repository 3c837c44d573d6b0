"""Lets an agent explain code in a panel, with comments at the lines that it names.

conductor agent walkthrough claude-agent-acp
"""

import posixpath
from dataclasses import dataclass, field
from urllib.parse import quote

import pages
import places
from places import Range
from walk import Note, Walkthrough, Wrong, parse

from guest_sdk.python import Call, Proxy, Record, Refused, Session, ToolError, gather

LONGEST = 200_000
"""Characters of a walkthrough."""
FILES = 2000
"""The most files that are looked into for a symbol without a file."""
BYTES = 512 * 1024
"""The most bytes of a file that is looked into."""
AT_ONCE = 32
PANEL = "walkthrough"


@dataclass
class Config:
    """The settings; README.md explains each."""

    most: int = 40
    skip: list[str] = field(
        default_factory=lambda: ["node_modules", "vendor", "target", "dist", "build", "__pycache__"]
    )

    def __post_init__(self) -> None:
        if not 1 <= self.most <= 60:
            raise ValueError("`most` is 1 to 60")


@dataclass
class Known:
    """The state of a session."""

    comments: int = 0
    """How many are in the files."""


@dataclass
class Place:
    """Where a comment stands."""

    path: str
    """Absolute."""
    shown: str
    """From the session's folder."""
    range: Range

    def __str__(self) -> str:
        return f"{self.shown}:{self.range.line}"


proxy = Proxy(
    "walkthrough",
    description="Explains code to the user in a panel, with comments in the files.",
    config=Config,
    session=Known,
)


# -- the tools -------------------------------------------------------------------------------------


@proxy.tool
async def show(markdown: str, call: Call) -> str:
    """Shows the user a walkthrough of code: Markdown in a panel beside the conversation, with
    comments at lines of files. It takes the place of the one before. A comment is a fenced block
    that names its place by a symbol or by words that stand there, never by a line number:

    ```comment src/parser.rs symbol=Parser::parse
    What is to be known of it, in Markdown.
    ```

    ```comment src/main.rs search="let config = load("
    Words stand within one line. Where there are several: `nth=2`.
    ```

    A symbol without a file is looked for in the whole project.
    """
    if len(markdown) > LONGEST:
        raise ToolError(f"a walkthrough has {LONGEST:,} characters at most")
    if not call.in_session:
        raise ToolError("a walkthrough can be shown once the session is there")
    try:
        found = parse(markdown)
    except Wrong as error:
        raise ToolError(str(error)) from None
    if len(found.notes) > proxy.config.most:
        raise ToolError(f"a walkthrough has {proxy.config.most} comments at most")
    look = Look(call.session)
    located: dict[int, Place] = {}
    wrong = []
    for note in found.notes:
        try:
            located[note.number] = await look.place(note)
        except Wrong as error:
            wrong.append(str(error))
    if wrong:
        raise ToolError("nothing is shown:\n" + "\n".join(wrong))
    return await display(call.session, found, located)


@proxy.tool
async def clear(call: Call) -> str:
    """Takes the walkthrough and its comments away."""
    if call.in_session:
        await call.session.editor.panel(PANEL).clear()
        await uncomment(call.session, 0)
    return "ok"


async def display(session: Session, found: Walkthrough, located: dict[int, Place]) -> str:
    """Shows a walkthrough; returns the text for the agent."""
    told = [f"{one}: {located[one.number]}" for one in found.notes]
    data = {
        "title": found.title,
        "comments": [
            {"path": at.path, "line": at.range.line, "text": one.text}
            for one in found.notes
            if (at := located[one.number])
        ],
    }
    session.event("walkthrough", f"\n[walkthrough: {found.title}]\n\n", data)
    panel = session.editor.panel(PANEL)
    panel.on("close")(lambda event: uncomment(event.session, 0))
    seen = await panel.show(label=found.title, contents=contents(found, located))
    for one in found.notes:
        at = located[one.number]
        start, end = (at.range.line, at.range.column), (at.range.line, at.range.end)
        await session.editor.comment(name(one.number)).show(
            url="file://" + quote(at.path), start=start, end=end, text=one.text, can_reply=True
        )
    await uncomment(session, len(found.notes))
    how = "" if seen else " as text, since the editor has no panels"
    return "\n".join([f"the user sees `{found.title}`{how}", *told])


async def uncomment(session: Session, left: int) -> None:
    """Takes comments away that are no part of the walkthrough."""
    for number in range(left, session.state.comments):
        await session.editor.comment(name(number + 1)).clear()
    session.state.comments = left
    session.keep()


def name(number: int) -> str:
    """The id of a comment."""
    return f"{PANEL}-{number}"


def contents(found: Walkthrough, located: dict[int, Place]) -> str:
    """The panel: where a comment stands, its place."""
    parts = []
    for one in found.parts:
        if isinstance(one, Note):
            what = f" <code>{pages.escape(one.symbol)}</code>" if one.symbol else ""
            parts.append(f"<p>→ <code>{pages.escape(str(located[one.number]))}</code>{what}</p>")
        else:
            parts.append(pages.html(one))
    return "\n".join(part for part in parts if part)


# -- where comments stand --------------------------------------------------------------------------


class Look:
    """Looks for places in the project's files, as they are now."""

    def __init__(self, session: Session) -> None:
        self.folder = posixpath.normpath(session.cwd or "/")
        self.texts: dict[str, str] = {}

    async def place(self, note: Note) -> Place:
        """Where a comment stands. Raises `Wrong`."""
        if note.file:
            path = posixpath.normpath(posixpath.join(self.folder, note.file))
            found = [
                Place(path, self.shown(path), one)
                for one in self.ranges(note, await self.text(path))
            ]
        else:
            found = await self.anywhere(note)
        if not found:
            where = note.file or "the project"
            what = f"symbol `{note.symbol}`" if note.symbol else f"`{note.search}`"
            raise Wrong(f"{note}: there is no {what} in {where}")
        if note.nth > len(found):
            raise Wrong(f"{note}: there are {len(found)} of them only")
        if len(found) > 1 and not note.nth:
            listed = ", ".join(map(str, found[:12]))
            raise Wrong(
                f"{note}: it is in {len(found)} places, {listed}; say `nth=…`, or more of it"
            )
        return found[max(0, note.nth - 1)]

    def shown(self, path: str) -> str:
        """A path as it is told."""
        inside = self.folder.rstrip("/") + "/"
        return path.removeprefix(inside)

    @staticmethod
    def ranges(note: Note, text: str) -> list[Range]:
        """Where it may stand in a text."""
        if note.symbol:
            return places.symbol(text, note.symbol)
        return places.words(text, note.search)

    async def text(self, path: str) -> str:
        """A file. Raises `Wrong`."""
        if path not in self.texts:
            try:
                self.texts[path] = await proxy.files.read(path)
            except Refused as refused:
                raise Wrong(f"{self.shown(path)} cannot be read: {refused.message}") from None
        return self.texts[path]

    async def anywhere(self, note: Note) -> list[Place]:
        """A symbol in the whole project."""
        try:
            listed = await proxy.files.list(self.folder, glob="**", limit=10_000)
        except Refused as refused:
            raise Wrong(f"{note}: the project cannot be looked into: {refused.message}") from None
        paths = [one.path for one in listed if self.fits(one)][:FILES]
        last = note.symbol.replace("::", ".").replace("#", ".").rpartition(".")[2]
        found: list[Place] = []
        for at in range(0, len(paths), AT_ONCE):
            some = paths[at : at + AT_ONCE]
            texts = await gather(*map(quiet, some))
            for path, text in zip(some, texts, strict=True):
                if last in text:
                    found += [Place(path, self.shown(path), one) for one in self.ranges(note, text)]
        return found

    def fits(self, entry: Record) -> bool:
        """Whether a symbol may be in a file."""
        inside = posixpath.relpath(entry.path, self.folder).split("/")
        hidden = any(one.startswith(".") for one in inside) or {*inside} & {*proxy.config.skip}
        return (
            entry.kind == "file"
            and not hidden
            and entry.get("size", 0) <= BYTES
            and posixpath.splitext(entry.path)[1].lower()
            not in (".md", ".lock", ".json", ".svg", ".txt")
        )


async def quiet(path: str) -> str:
    """A file; empty if it cannot be read, or is no text."""
    try:
        held = await proxy.files.read_bytes(path, max_bytes=BYTES)
    except Refused:
        return ""
    return "" if b"\0" in held else held.decode("utf-8", "replace")


if __name__ == "__main__":
    proxy.run()
