"""`conductor doctor --report`: a text for a bug report, which the user sees first."""

from __future__ import annotations

import os
import time
from typing import Final

from conductor.cli import report
from conductor.errors import UsageError, counted, visible_path
from conductor.spec import private_files

_HEAD: Final = (
    "# Report of conductor\n\n"
    "Secrets are taken out as far as conductor recognises them, `~` is the home folder. Read this\n"
    "before you give it away.\n"
)


def make(output: str | None, *, show: bool, with_content: bool, yes: bool) -> int:
    """Writes a report, once the user has seen its content; the exit code.

    Args:
        output: The file to write, which must be new; None: a file here that is named by the date.
        show: Print all of it first.
        with_content: Leave in the content of the ring's messages.
        yes: Do not ask.
    """
    from conductor.cli.report_parts import parts

    path = output or time.strftime("conductor-report-%Y%m%d-%H%M%S.txt")
    found = parts(with_content=with_content)
    texts = [_HEAD, *(f"\n## {part.title}\n\n{part.text}\n" for part in found)]
    whole = "".join(texts)
    if show:
        report.say(*whole.splitlines())
    report.say("The report holds:")
    for part in found:
        lines = part.text.count("\n") + 1
        report.say(f"  {part.title}: {counted(lines, 'line')}")
    if not yes:
        if not (os.isatty(0) and os.isatty(2)):
            if show:
                return 0
            raise UsageError(
                "nothing is written without your yes, and nobody can be asked",
                "`--show` prints the report; `--yes` writes it",
            )
        if not report.agrees(f"write it to {visible_path(path)}"):
            report.say("nothing was written")
            return 1
    private_files.write_new(path, whole.encode("utf-8", "backslashreplace"))
    report.say(
        f"written to {visible_path(os.path.abspath(path))}, {counted(len(whole), 'character')}"
    )
    report.say("Nothing was sent: read it, then attach it to your bug report.")
    return 0
