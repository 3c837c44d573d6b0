"""`conductor dev`: builds, tests and runs a component while its author changes it."""

from __future__ import annotations

from typing import Annotated, Final

from conductor.cli.typer_options import argument, paragraphs, takes

HELP: Final = paragraphs(
    "Work on a component: build the component, play its scenarios, and talk to it. After each "
    "change in its folder conductor builds and plays again. Then conductor replaces the component "
    "in the running chain between two messages.",
    "Each line that you type is a prompt. Ctrl-C cancels the turn, or ends the command. Without a "
    "terminal the lines of standard input are the prompts, and the end of the input ends the "
    "command. Exit code 1 when the last build, test or prompt failed.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor dev",
    "  conductor dev ./my-proxy,allow=clock",
    '  conductor dev --agent "claude"',
)


@takes("dev")
def dev(
    folder: Annotated[
        str,
        argument(
            "[FOLDER]", "The component's folder; options may follow a comma. Default: this one."
        ),
    ] = ".",
    *,
    agent: str | None = None,
) -> int:
    """Works on a component. Raises `UsageError`."""
    from conductor.cli.dev_loop import Dev
    from conductor.cli.loop import run_loop

    return run_loop(Dev(folder, agent or "demo").run)
