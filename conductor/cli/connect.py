"""`conductor connect ADDRESS`: its help and its options; `connection` does it."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from conductor.cli import connection
from conductor.cli.typer_options import paragraphs

HELP: Final = paragraphs(
    "Connect an editor to a chain that runs elsewhere: this is its agent, on standard input and "
    "output.",
    "ADDRESS is where the chain listens: ws://HOST, wss://HOST, http://HOST, https://HOST, "
    "tcp://HOST:PORT or unix:PATH; or several of them between commas. A URL without a "
    "path means /acp. The variable CONDUCTOR_TOKEN has the token that is shown there. Where the "
    "other end is a conductor, a connection that is cut goes on as soon as the network is back: "
    "nothing is lost. Where that has started again, open requests get an error and the "
    "sessions go on, if its agent can load them.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor connect ws://127.0.0.1:8790\n"
    "  conductor connect wss://chains.example.org --token-file ~/.chain-token",
)

_Address = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="Where the chain listens.", show_default=False)
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file with the token. Default: the variable CONDUCTOR_TOKEN.",
        show_default=False,
    ),
]
Ca = Annotated[
    str | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="The certificates (PEM) of the authorities to trust, instead of the system's.",
        show_default=False,
    ),
]


def connect(address: _Address, token_file: TokenFile = None, ca: Ca = None) -> int:
    """Connects standard input and output to an address."""
    return connection.run(address, token_file, ca)
