"""Explains findings of accessibility checkers to an agent, with the places in the project.

conductor agent a11y claude-agent-acp
"""

import posixpath
import re
from dataclasses import dataclass

from a11y_reports import Element, Finding, Place, read
from a11y_sources import BUILT, Match, Wanted, best, matches, wanted
from a11y_topics import RULES, TOPICS
from wcag import CRITERIA, sentence

from guest_sdk.python import Call, Proxy, Refused, ToolError

LONGEST = 1_000_000
"""Characters of an output."""
LISTED = 10_000
"""Files that are listed at most to look for elements in."""
LARGEST = 256 * 1024
"""Bytes of a file that is looked through."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    most: int = 10
    places: int = 5
    lines: int = 1
    files: int = 300

    def __post_init__(self) -> None:
        if not 1 <= self.most <= 100 or not 1 <= self.places <= 50:
            raise ValueError("`most` is 1 to 100, and `places` is 1 to 50")
        if not 0 <= self.lines <= 20 or not 0 <= self.files <= 2000:
            raise ValueError("`lines` is 0 to 20, and `files` is 0 to 2000")


proxy = Proxy(
    "a11y",
    description="Explains findings of accessibility checkers, with the lines that they are about.",
    config=Config,
)


@proxy.tool(annotations={"readOnlyHint": True})
async def explain(output: str, call: Call) -> str:
    """Explains what an accessibility checker found: whom it hinders, which success criteria of
    WCAG it is about, how it is repaired, and where it is written. `output`: all that axe or pa11y
    gave as JSON, or ESLint with jsx-a11y as text or JSON."""
    if len(output) > LONGEST:
        raise ToolError(f"an output has {LONGEST:,} characters at most: check fewer pages at once")
    report = read(output)
    if not report.checked:
        raise ToolError(
            "this is no output of axe, pa11y (both as JSON) or ESLint with jsx-a11y: pass it on "
            "unchanged"
        )
    left_out = f"({report.others} of other rules of ESLint are left out)" if report.others else ""
    findings = report.findings
    if not findings:
        nothing = "The checker found nothing. It sees a part of what hinders people only: try the "
        return f"{nothing}page with the keyboard and a screen reader. {left_out}".rstrip()
    shown = findings[: proxy.config.most]
    written = await where_written(shown, call)
    parts, known = [], set[str]()
    for one in shown:
        parts.append(await explained(one, one.topic in known, written, call))
        known.add(one.topic)
    if len(findings) > len(shown):
        rest = ", ".join(one.rule for one in findings[len(shown) : len(shown) + 50])
        parts.append(f"(Also found: {rest[:500]})")
    return "\n\n".join([*parts, left_out] if left_out else parts)


@proxy.tool(annotations={"readOnlyHint": True})
def explain_rule(rule: str) -> str:
    """What a rule of axe or of jsx-a11y is about, such as `button-name`, or what a success
    criterion of WCAG asks for, such as `1.4.3`."""
    name = rule.strip().removeprefix("jsx-a11y/")
    if name in CRITERIA:
        return sentence(name)
    if name not in RULES:
        raise ToolError(f"`{name[:40]}` is no rule that is known here, and no criterion of WCAG")
    topic, criteria = RULES[name]
    return f"{name}: {about(topic)}\n{asked(criteria.split())}"


def about(topic: str) -> str:
    """The title, the hindrance and the repair of a topic."""
    title, hinders, repair = TOPICS[topic]
    return f"{title}. {hinders}\nHow to repair it: {repair}"


def asked(criteria: list[str]) -> str:
    """The criteria in words, or that there are none."""
    if not criteria:
        return "No success criterion of WCAG asks for it: it is good practice."
    return "\n".join(map(sentence, criteria))


async def explained(one: Finding, known: bool, written: dict[str, list[Match]], call: Call) -> str:
    """All there is to say of a finding; its topic is not explained where that is `known`."""
    parts = [f"## {one.level}: {one.said or one.rule} ({one.rule})"]
    if not one.topic:
        parts.append(
            "This rule is not explained here; the checker's own words are all there is"
            + (f", and {one.address}" if one.address else "")
            + "."
        )
    else:
        parts.append(f"({TOPICS[one.topic].title}: as above)" if known else about(one.topic))
    parts.append(asked(one.criteria) if one.topic or one.criteria else "")
    if one.level == "to be checked":
        parts.append("The checker could not decide this: look at it yourself.")
    count = proxy.config.places
    parts += [await shown_element(each, one, written, call) for each in one.elements[:count]]
    parts += [
        await shown(place, call) + (f"\n  {said}" if said != one.said else "")
        for place, said in one.places[:count]
    ]
    more = max(0, len(one.elements) - count) + max(0, len(one.places) - count)
    if more:
        parts.append(f"({more} more of this rule)")
    return "\n\n".join(part for part in parts if part)


async def shown_element(
    element: Element, one: Finding, written: dict[str, list[Match]], call: Call
) -> str:
    """An element, and where it may be written."""
    lines = [f"- `{element.html[:300]}` at `{element.selector[:300]}`"]
    if element.said and element.said != one.said:
        lines.append(f"  {element.said[:500]}")
    places = [Place(match.file, match.line, 0) for match in written.get(element.html, ())]
    lines += [f"  It may be written here: {await shown(place, call)}" for place in places]
    return "\n".join(lines)


# -- the project -----------------------------------------------------------------------------------


async def where_written(findings: list[Finding], call: Call) -> dict[str, list[Match]]:
    """Where the elements that are shown may be written, by their HTML."""
    count = proxy.config.places
    sought: dict[str, Wanted] = {}
    for one in findings:
        for element in one.elements[:count]:
            if (want := wanted(element.html)) is not None:
                sought[element.html] = want
    found: dict[str, list[Match]] = {html: [] for html in sought}
    for path in await sources(call) if sought else ():
        try:
            held = await proxy.files.read(path)
        except Refused:
            continue  # it has gone since, or leads elsewhere
        for html, want in sought.items():
            found[html] += matches(held, path, want)
    return {html: best(all_of_it) for html, all_of_it in found.items()}


async def sources(call: Call) -> list[str]:
    """The paths of files in which elements may be written, the nearest first."""
    if not call.in_session or call.session.cwd is None or not proxy.config.files:
        return []
    folder = posixpath.normpath(call.session.cwd)
    try:
        entries = await proxy.files.list(folder, glob="**", limit=LISTED)
    except Refused as refused:
        proxy.log.warn(f"elements are not looked for: {refused.message}")
        return []
    paths = [
        entry.path
        for entry in entries
        if entry.kind == "file"
        and entry.size <= LARGEST
        and not BUILT & set(posixpath.relpath(entry.path, folder).split("/"))
    ]
    return paths[: proxy.config.files]


_ENDS = re.compile(r"\r\n|[\n\r]")


async def shown(place: Place, call: Call) -> str:
    """The lines around a place, as they are in the project now."""
    folder = call.session.cwd if call.in_session else None
    path = posixpath.normpath(posixpath.join(folder or "/", place.file))
    inside = folder is not None and path.startswith(folder.rstrip("/") + "/")
    name = posixpath.relpath(path, folder) if inside else place.file
    where = f"{name}:{place.line}" + (f":{place.column}" if place.column else "")
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
