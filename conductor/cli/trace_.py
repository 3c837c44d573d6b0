"""`conductor trace`: looks at what `--trace` wrote. One module a subcommand."""

from __future__ import annotations

from typing import Final

import typer

app: Final = typer.Typer(help="Look at what --trace writes.", no_args_is_help=True)
