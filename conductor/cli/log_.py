"""`conductor log`: looks at what chains have left on record. One module a subcommand."""

from __future__ import annotations

from typing import Final

import typer

from conductor.cli import log_export, log_replay, log_show, log_stats, log_verify, log_view

HELP: Final = (
    "Look at what is on record of a chain: the files that --trace and --audit write, and the ring "
    "of a failure. The first line of a file says which kind it is."
)

app: Final = typer.Typer(help=HELP, no_args_is_help=True)
app.command(name="show", help=log_show.HELP, epilog=log_show.EPILOG)(log_show.show)
app.command(name="stats", help=log_stats.HELP, epilog=log_stats.EPILOG)(log_stats.stats)
app.command(name="view", help=log_view.HELP, epilog=log_view.EPILOG)(log_view.view)
app.command(name="verify", help=log_verify.HELP, epilog=log_verify.EPILOG)(log_verify.verify)
app.command(name="export", help=log_export.HELP, epilog=log_export.EPILOG)(log_export.export)
app.command(name="replay", help=log_replay.HELP, epilog=log_replay.EPILOG)(log_replay.replay)
