"""Explains errors of the TypeScript compiler to an agent, with the places in the project.

conductor agent ts-errors claude-agent-acp
"""

import posixpath
import re
from dataclasses import dataclass

from ts_causes import hints
from ts_codes import CODES, KINDS
from tsc import Diagnostic, Place, read

from guest_sdk.python import Call, Proxy, Refused, ToolError

LONGEST = 400_000
"""Characters of an output."""

UNUSED = frozenset({2578, 6133, 6138, 6192, 6196, 6198})
"""Codes about code that nothing uses; they are explained last."""

_ENDS = re.compile(r"\r\n|[\n\r\u2028\u2029]")
"""The ends of lines, as the compiler counts them."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    most: int = 10
    lines: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.most <= 100 or not 0 <= self.lines <= 20:
            raise ValueError("`most` is 1 to 100, and `lines` is 0 to 20")


proxy = Proxy(
    "ts-errors",
    description="Explains errors of tsc, with the lines that they are about.",
    config=Config,
)


@proxy.tool(annotations={"readOnlyHint": True})
async def explain(output: str, call: Call) -> str:
    """Explains the errors in what tsc printed: what each means, the lines that it is about, where
    the types differ, and how such errors are repaired. `output`: all of it, plain or pretty."""
    if len(output) > LONGEST:
        raise ToolError(f"an output has {LONGEST:,} characters at most: pass on its beginning")
    found = read(output)
    errors = [one for one in found if one.level == "error"] or found
    errors.sort(key=lambda one: one.code in UNUSED)
    if not errors:
        raise ToolError("there is no error of tsc in this: pass on what it printed, unchanged")
    most = proxy.config.most
    parts, known = [], set[int]()
    for one in errors[:most]:
        parts.append(await explained(one, one.code in known, call))
        known.add(one.code)
    if len(errors) > most:
        parts.append(f"({len(errors) - most} more; repair these first, many go with them)")
    return "\n\n".join(parts)


@proxy.tool(annotations={"readOnlyHint": True})
def explain_code(code: str) -> str:
    """What an error code of tsc means, such as TS2322, and how such errors are repaired."""
    digits = re.fullmatch(r"\s*\[?(?:TS|ts)?-?(\d{1,6})\]?:?\s*", code)
    if digits is None:
        raise ToolError(f"`{code[:20]}` is no code of tsc: one is TS2322")
    return f"TS{int(digits[1])}: {about(int(digits[1]))}"


def about(code: int) -> str:
    """The meaning and the repair of a code; for an unknown code, the topic of its range."""
    if code in CODES:
        title, meaning, repair = CODES[code]
        return f"{title}. {meaning}".rstrip() + f"\nHow to repair it: {repair}"
    for first, last, what in KINDS:
        if first <= code <= last:
            return f"It is not explained here. Codes from {first} to {last}: {what}."
    return "It is not explained here."


async def explained(one: Diagnostic, known: bool, call: Call) -> str:
    """All there is to say of an error; its code is not explained where that is `known`."""
    parts = [f"## {one.level} TS{one.code}: {one.said}"]
    if one.place is not None:
        parts.append(await shown(one.place, call))
    if one.reasons:
        parts.append("The compiler's reasons:\n" + "\n".join(one.reasons[:40]))
    if one.related:
        beside = [
            f"- {place.file}:{place.line}:{place.column}: {said}" for place, said in one.related[:6]
        ]
        parts.append("The compiler also points at:\n" + "\n".join(beside))
    parts.append(f"(TS{one.code} as above)" if known else about(one.code))
    special = hints(one)
    if special:
        parts.append("\n".join(f"In this case: {line}" for line in special))
    return "\n\n".join(parts)


async def shown(place: Place, call: Call) -> str:
    """The lines around a place, as they are in the project now."""
    where = f"{place.file}:{place.line}:{place.column}"
    folder = call.session.cwd if call.in_session else None
    path = posixpath.normpath(posixpath.join(folder or "/", place.file))
    try:
        lines = _ENDS.split(await proxy.files.read(path))
    except Refused as refused:
        return f"{where} (it cannot be shown: {refused.message})"
    if place.line > len(lines):
        return f"{where} (the file has {len(lines)} lines now: it has changed since)"
    first = max(1, place.line - proxy.config.lines)
    last = min(len(lines), place.line + proxy.config.lines)
    while last > place.line and not lines[last - 1]:
        last -= 1  # what stands behind the end of the last line
    width = len(str(last))
    marked = [
        f"{'>' if number == place.line else ' '} {number:>{width}} | {lines[number - 1][:300]}"
        for number in range(first, last + 1)
    ]
    return "\n".join([where, *marked])


if __name__ == "__main__":
    proxy.run()
