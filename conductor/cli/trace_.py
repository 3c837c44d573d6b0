"""`conductor trace`: looks at what `--trace` wrote. One module a subcommand."""

from __future__ import annotations

from typing import Final

import typer

from conductor.cli import trace_export, trace_show, trace_stats, trace_view

app: Final = typer.Typer(help="Look at what --trace writes.", no_args_is_help=True)
app.command(name="show", help=trace_show.HELP, epilog=trace_show.EPILOG)(trace_show.show)
app.command(name="stats", help=trace_stats.HELP, epilog=trace_stats.EPILOG)(trace_stats.stats)
app.command(name="view", help=trace_view.HELP, epilog=trace_view.EPILOG)(trace_view.view)
app.command(name="export", help=trace_export.HELP, epilog=trace_export.EPILOG)(trace_export.export)
