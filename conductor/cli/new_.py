"""`conductor new`: the folder of a new component, from a template."""

from __future__ import annotations

from typing import Annotated, Final

from conductor.author import project
from conductor.cli import report
from conductor.cli.typer_options import argument, option
from conductor.errors import UsageError
from conductor.packages import install
from conductor.spec import trust

HELP: Final = (
    "Make the folder of a new component: a manifest, a small proxy, a transcript that tests the "
    "proxy, and the files of its build."
)
EPILOG: Final = "Examples:\n\n  conductor new my-proxy\n\n  conductor new my-proxy --lang c"


def new(
    name: Annotated[
        str,
        argument("NAME", "The component's name, and its folder's."),
    ],
    lang: Annotated[
        str,
        option("--lang", "LANGUAGE", "Its language: python, rust, js, zig, go, c or wat."),
    ] = "python",
) -> int:
    """Makes a project."""
    install.check_name(name, "take another name")
    template, paths = project.make(name, lang)
    report.say(f"{name}: {template['title']}", *(f"  {path}" for path in sorted(paths)))
    try:
        trust.trust_folder(name, own=True)
    except UsageError as error:
        # The folder is made; its component asks like any other.
        report.write(f"{error.text}; {error.hint}", word="warning")
    report.say("", "Next:", f"  cd {name}", *(f"  {step}" for step in template["next"]))
    return 0
