"""`conductor build`: builds a component by the command in its manifest."""

from __future__ import annotations

from typing import Final

from conductor.cli import report, silence
from conductor.cli.typer_options import Folder

HELP: Final = (
    "Build a component by the command in its manifest. Conductor puts the manifest into the module "
    "that came of it, and records its digest. The command is run without a shell, in the "
    "component's folder, with your rights.\n\n"
    "Exit code 1 when it fails, or what it makes is no proxy."
)
EPILOG: Final = "Examples:\n\n  conductor build\n\n  conductor build ./my-proxy"


def build(folder: Folder = ".") -> int:
    """Builds a component. Raises `UsageError`, `ComponentError`."""
    from conductor.author.build import build_component

    with silence.during("the build goes on"):
        report.say(build_component(folder, begun))
    return 0


def begun(text: str) -> None:
    """Says that a build has begun: compilers may be silent for a minute."""
    report.write(f"{text} …", dim=True)
