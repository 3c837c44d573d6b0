"""`conductor trace`: looks at what `--trace` wrote. One module a subcommand."""

from __future__ import annotations

from typing import Final

import typer

from conductor.cli import log_export, log_show, log_view, trace_stats

app: Final = typer.Typer(help="Look at what --trace writes.", no_args_is_help=True)
app.command(name="show", help=log_show.HELP, epilog=log_show.EPILOG)(log_show.show)
app.command(name="stats", help=trace_stats.HELP, epilog=trace_stats.EPILOG)(trace_stats.stats)
app.command(name="view", help=log_view.HELP, epilog=log_view.EPILOG)(log_view.view)
app.command(name="export", help=log_export.HELP, epilog=log_export.EPILOG)(log_export.export)
