"""Explains errors of the Rust compiler to an agent, with the places in the project.

conductor agent rust-errors claude-agent-acp
"""

import posixpath
from dataclasses import dataclass

from codes import CODES
from rustc import Diagnostic, Place, read
from traits import hints

from guest_sdk.python import Call, Proxy, Refused, ToolError

LONGEST = 400_000
"""Characters of an output."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    most: int = 10
    lines: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.most <= 100 or not 0 <= self.lines <= 20:
            raise ValueError("`most` is 1 to 100, and `lines` is 0 to 20")


proxy = Proxy(
    "rust-errors",
    description="Explains errors of rustc and cargo, with the lines that they are about.",
    config=Config,
)


@proxy.tool(annotations={"readOnlyHint": True})
async def explain(output: str, call: Call) -> str:
    """Explains the errors in what rustc or cargo printed: what each means, the lines that it is
    about, why a trait is required, and how such errors are repaired. `output`: all of it, as text,
    short or JSON."""
    if len(output) > LONGEST:
        raise ToolError(f"an output has {LONGEST:,} characters at most: leave out what compiled")
    found = read(output)
    errors = [one for one in found if one.level == "error"] or found
    if not errors:
        raise ToolError("there is no error of rustc in this: pass on what it printed, unchanged")
    most = proxy.config.most
    parts = [await explained(one, call) for one in errors[:most]]
    if len(errors) > most:
        parts.append(f"({len(errors) - most} more; repair these first, many go with them)")
    return "\n\n".join(parts)


@proxy.tool(annotations={"readOnlyHint": True})
def explain_code(code: str) -> str:
    """What an error code of rustc means, such as E0382, and how such errors are repaired."""
    wanted = code.strip().upper().strip("[]")
    wanted = wanted if wanted.startswith("E") else f"E{wanted.zfill(4)}"
    if wanted not in CODES:
        known = ", ".join(CODES)
        raise ToolError(f"{wanted[:20]} is not known here; `rustc --explain` may. Known: {known}")
    return f"{wanted}: {about(wanted)}"


def about(code: str) -> str:
    """The title, the meaning and the repair of a code."""
    title, meaning, repair = CODES[code]
    return f"{title}. {meaning}".rstrip() + f"\nHow to repair it: {repair}"


async def explained(one: Diagnostic, call: Call) -> str:
    """All there is to say of an error."""
    code = f"[{one.code}]" if one.code else ""
    parts = [f"## {one.level}{code}: {one.said}"]
    if one.place is not None:
        parts.append(await shown(one.place, call))
    if one.labels:
        said = (f"line {label.line}: {label.said}" for label in one.labels[:12])
        parts.append("What the compiler points at:\n" + "\n".join(f"- {line}" for line in said))
    if one.code in CODES:
        parts.append(about(one.code))
    because = reasons(one)
    if because:
        parts.append("Where it comes from:\n" + "\n".join(f"- {line}" for line in because))
    special = hints(one)
    if special:
        parts.append("\n".join(f"In this case: {line}" for line in special))
    helps = [note.said for note in one.notes if note.kind == "help"][:5]
    if helps:
        parts.append("The compiler suggests:\n" + "\n".join(f"- {line}" for line in helps))
    return "\n\n".join(parts)


def reasons(one: Diagnostic) -> list[str]:
    """The chain of requirements behind an error, and the macro it is in, in words."""
    said = []
    for note in one.notes[:20]:
        where = f" ({note.place.file}:{note.place.line})" if note.place else ""
        if note.said.startswith(("required ", "because ", "the following other types implement")):
            said.append(f"{note.said}{where}")
        elif "originates in the" in note.said and "macro" in note.said:
            said.append(
                f"{note.said.split(' (')[0]}: the code is what the macro makes of its arguments, "
                "so look at them and at what the macro asks of their types"
            )
    return said


async def shown(place: Place, call: Call) -> str:
    """The lines around a place, as they are in the project now."""
    where = f"{place.file}:{place.line}:{place.column}"
    folder = call.session.cwd if call.in_session else None
    path = posixpath.normpath(posixpath.join(folder or "/", place.file))
    try:
        lines = (await proxy.files.read(path)).splitlines()
    except Refused as refused:
        return f"{where} (it cannot be shown: {refused.message})"
    if place.line > len(lines):
        return f"{where} (the file has {len(lines)} lines now: it has changed since)"
    first = max(1, place.line - proxy.config.lines)
    last = min(len(lines), place.line + proxy.config.lines)
    width = len(str(last))
    marked = [
        f"{'>' if number == place.line else ' '} {number:>{width}} | {lines[number - 1][:300]}"
        for number in range(first, last + 1)
    ]
    return "\n".join([where, *marked])


if __name__ == "__main__":
    proxy.run()
