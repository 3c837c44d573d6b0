"""`conductor cache`: what is kept to save work, and how much of it."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from conductor.cli import options, report

HELP: Final = (
    "Show what is kept on this machine to save work: compiled modules, and Python guests that were "
    "built here. It looks after itself; `conductor cache prune` removes what was not used for a "
    "month at once."
)
PRUNE_HELP: Final = (
    "Remove what was not used for a month, and the oldest beyond 512 MiB; with --all everything. "
    "Conductors that run are not disturbed; what is needed again is made again."
)

app = typer.Typer(help=HELP, epilog="Example:\n\n  conductor cache")

Json = Annotated[bool, typer.Option("--json", help="As one JSON object.")]


@app.callback(invoke_without_command=True)
def show(context: typer.Context, json_: Json = False, cache: options.Cache = None) -> int:
    """Shows how much there is."""
    if context.invoked_subcommand is not None:
        return 0
    from conductor.cli import caches

    found = caches.kept(cache)
    if json_:
        report.say_json({"folders": found})
        return 0
    for one in found:
        what = f"{one.files} {_NAMES[one.kind][one.files != 1]}"
        report.say(f"{what:<24} {one.bytes / 1e6:>8.1f} MB  {one.folder}")
    return 0


_NAMES: Final = {
    "modules": ("compiled module", "compiled modules"),
    "guests": ("Python guest", "Python guests"),
}


@app.command(help=PRUNE_HELP, epilog="Example:\n\n  conductor cache prune --all")
def prune(
    everything: Annotated[bool, typer.Option("--all", help="Remove all of it.")] = False,
    json_: Json = False,
    cache: options.Cache = None,
) -> int:
    """Removes what is not used."""
    from conductor.cli import caches

    gone = caches.prune(cache, everything=everything)
    if json_:
        report.say_json({"removed": gone})
    else:
        files = f"{gone.files} file{'' if gone.files == 1 else 's'}"
        report.say(f"removed {files}, {gone.bytes / 1e6:.1f} MB")
    return 0
