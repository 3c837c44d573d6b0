"""The editors in `conductor doctor`: which editors are there, and whether our entries in them
still start something. Nothing is started, and nothing is changed."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from conductor.cli import consent, fast
from conductor.editors import apply, launcher, table
from conductor.editors.target import ENTRY, Launch, Target
from conductor.errors import ConductorError, UsageError, one_line, visible_path
from conductor.spec import lacking
from conductor.spec.lock.entries import redacted
from conductor.spec.parsed import layered, planned


class Finding(NamedTuple):
    """The facts about one editor."""

    editor: str
    ok: bool
    detail: str
    hint: str


def findings() -> Iterator[Finding]:
    """The editors that are there, in the order of the table."""
    for target in table.TARGETS.values():
        try:
            finding = _finding(target)
        except ConductorError as error:
            finding = Finding(target.name, False, error.text, error.hint)
        if finding is not None:
            yield finding


def _finding(target: Target) -> Finding | None:
    """The facts about an editor; None: it is not there. Raises `ConductorError`."""
    path = target.file()
    text = apply.read(path).text if path else None
    programs = [found for name in target.programs if (found := shutil.which(name))]
    if text is None and not programs:
        return None
    ours = {
        name: launch
        for name, launch in target.entries(text).items()
        if launch is not None and launcher.starts_conductor(launch.words)
    }
    place = visible_path(path) if text is not None else programs[0]
    if not ours:
        detail = f"{place}: no entry of conductor; `conductor setup {target.name} …` makes one"
        if not path:
            detail = f"{place}: `conductor setup {target.name} …` prints how to start it"
        return Finding(target.name, True, detail, "")
    lacks: list[str] = []
    for name, launch in ours.items():
        try:
            lacks += _check(launch)
        except UsageError as error:
            detail = f"{place}: the entry `{one_line(name)}` does not start: {error.text}"
            hint = error.hint or "correct the places that it names"
            remove = ["conductor", "setup", target.name, "--remove"]
            if name != ENTRY:
                remove += ["--name", one_line(name)]
            again = f"or set it up again; `{shlex.join(remove)}` takes it out"
            return Finding(target.name, False, detail, f"{hint}; {again}")
    listed = ", ".join(
        f"`{one_line(name)}` starts {_arguments(launch)}" for name, launch in ours.items()
    )
    note = f"; {target.note}" if target.note else ""
    if todo := target.todo():
        return Finding(target.name, False, f"{place}: {listed}, but nothing loads that file", todo)
    if lacks:
        text, hint = lacks[0].split("\n")[0], "see `conductor inspect`"
        more = f", and {len(lacks) - 1} more like this" if len(lacks) > 1 else ""
        return Finding(target.name, False, f"{place}: {listed}{note}; {text}{more}", hint)
    return Finding(target.name, True, f"{place}: {listed}{note}", "")


def _check(launch: Launch) -> list[str]:
    """The rights that components of an entry lack. Raises `UsageError` if one is missing."""
    if shutil.which(launch.command) is None:
        raise UsageError(
            f"there is no program `{one_line(launch.command)}` any more", "install conductor again"
        )
    arguments = launch.args[launch.args.index("agent") :] if "agent" in launch.args else []
    wraps_any = arguments[-1:] == ["--"]
    if wraps_any:  # the editor puts its own command behind
        arguments = arguments[:-1]
    parsed = fast.parse(arguments) if arguments else None
    if parsed is None:
        raise UsageError(
            f"conductor does not understand its arguments: {_arguments(launch)}",
            "`conductor help agent` lists its options",
        )
    if not parsed.components:
        return []  # `[[choose]]` chooses them where the editor works
    parsed = msgspec.structs.replace(layered(parsed), mode="proxy" if wraps_any else "agent")
    plan, _ = consent.kept(planned(parsed))
    return [f"`{spec.name}`: {text}" for spec in plan.components for text in lacking.notes(spec)]


def _arguments(launch: Launch) -> str:
    """The arguments that an entry passes to conductor, without secrets."""
    return one_line(" ".join(redacted(launch.args)), 120)
