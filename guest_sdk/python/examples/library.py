"""Gives the agent a shelf of notes: resources to read, a prompt to pick, tools that ask back.

conductor exec ./library.py demo -p "/resource library note://fox"
conductor exec ./library.py,allow=prompt:within+ask:user demo -p '/tool rhyme {"name":"fox"}'
"""

from dataclasses import dataclass, field

from guest_sdk.python import Call, Contents, Proxy, Resource, ToolError, resource_link

proxy = Proxy(
    "library",
    rights={"serve:tools": "to let the agent read and write notes"},
    description="Notes of this session.",
    session=lambda: {"fox": "The quick brown fox."},
)


@dataclass
class Kept:
    """The content of a note."""

    name: str
    words: int
    lines: list[str] = field(default_factory=list)


@dataclass
class Permission:
    """The question to a person before a note is thrown away."""

    sure: bool
    reason: str = ""


# -- resources -------------------------------------------------------------------------------------


@proxy.resources
def notes(call: Call) -> list[Resource]:
    return [Resource(f"note://{name}", name, mime_type="text/plain") for name in call.session.state]


@proxy.resource("note://{name}", mime_type="text/plain")
def note(name: str, call: Call) -> str | None:
    """A note."""
    found: str | None = call.session.state.get(name)
    return found  # None: there is none


@proxy.resource("icon://library", name="icon")
def icon() -> Contents:
    """What the library looks like."""
    return Contents(b"\x89PNG", "image/png")


# -- a prompt --------------------------------------------------------------------------------------


@proxy.prompt
def summarize(name: str, words: int = 20) -> list:
    """Asks for a summary of a note."""
    said = f"Summarize this note in {words} words."
    return [said, resource_link(f"note://{name}", name), ("assistant", "In short:")]


# -- tools -----------------------------------------------------------------------------------------


@proxy.tool
def keep(name: str, said: str, call: Call) -> Kept:
    """Keeps a note."""
    call.session.state[name] = said
    proxy.list_changed("resources", call.session)
    proxy.resource_updated(f"note://{name}", call.session)
    return Kept(name, len(said.split()), said.splitlines())


@proxy.tool(annotations={"destructiveHint": True})
async def throw_away(name: str, call: Call) -> str:
    """Throws a note away, if a person says so."""
    if name not in call.session.state:
        raise ToolError(f"there is no note `{name}`")
    asked = await call.elicit(f"Throw away the note `{name}`?", Permission)
    if not asked or not asked.content.sure:
        return "It was kept."
    del call.session.state[name]
    call.log({"thrown away": name, "reason": asked.content.reason}, "notice")
    proxy.list_changed("resources", call.session)
    return "It is gone."


@proxy.tool
async def rhyme(name: str, call: Call) -> str:
    """Has the agent's own model make a rhyme of a note."""
    said = note_of(name, call)
    answer = await call.sample(f"Make a rhyme of this: {said}", max_tokens=200)
    return str(answer.content.text)


def note_of(name: str, call: Call) -> str:
    """A note's text."""
    if name not in call.session.state:
        raise ToolError(f"there is no note `{name}`")
    return str(call.session.state[name])


# -- another server --------------------------------------------------------------------------------

desk = proxy.server("desk", instructions="Counts what is on the shelf.")


@desk.tool
def count(call: Call) -> dict[str, int]:
    """How many notes there are."""
    return {"notes": len(call.session.state)}


if __name__ == "__main__":
    proxy.run()
