"""`conductor log blame FILE`: which agent, model and prompt made each line of a file."""

from __future__ import annotations

from typing import Annotated, Final

from conductor.cli import log_notes, report
from conductor.cli.blame import Blame, blame
from conductor.cli.log_notes import worded
from conductor.cli.log_rows import DIM, PLAIN, Line
from conductor.cli.typer_options import Json, argument, paragraphs, switch
from conductor.errors import UsageError

EXIT_NO_RECORD: Final = 1
_UNKNOWN: Final = "(no record)"

HELP: Final = paragraphs(
    "Show which agent, model and prompt made each line of a file.",
    "The component `attribution` keeps this record in the project. Lines that others have written "
    "or changed since have no record. Exit code 1 when the file has no record at all. --notes "
    "writes the record of the lines of the last commit, as a note of git on this commit. `git "
    "notes --ref conductor show` shows the note.",
)
EPILOG: Final = paragraphs(
    "Examples:", "  conductor log blame src/main.py", "  conductor log blame --notes"
)


def show(
    file: Annotated[
        str,
        argument("[FILE]", "A file of the project."),
    ] = "",
    notes: Annotated[
        bool, switch("--notes", "Write a note on the last commit, for all its files.")
    ] = False,
    json_: Json = False,
) -> int:
    """Shows whose the lines of a file are."""
    if notes == bool(file):
        raise UsageError(
            "`conductor log blame` takes a file, or `--notes`", "conductor log blame FILE"
        )
    if notes:
        written = log_notes.write(".")
        report.say_json(written) if json_ else report.say(*written.text.splitlines())
        return 0
    found = blame(file)
    if json_:
        report.say_json(found.model_dump(mode="json"))
    elif found.record is not None:
        report.say_styled(*rows(found))
    if found.record is not None:
        return 0
    hint = "conductor keeps only edits that agents have made while `attribution` was in the chain"
    report.error(f"`{file}` has no record", hint)
    return EXIT_NO_RECORD


def rows(found: Blame) -> list[Line]:
    """A line each for neighbouring lines of one edit."""
    table = [(f"{one.start}-{one.end}", one.edit) for one in found.ranges]
    width = max([len(lines) for lines, _ in table], default=0)
    return [
        (PLAIN if edit else DIM, f"{lines:>{width}}  {worded(edit) if edit else _UNKNOWN}")
        for lines, edit in table
    ]
