"""`conductor pack`: makes the archive of a component."""

from __future__ import annotations

import os
import shlex
from typing import Annotated, Final, TypeAlias

import typer

from conductor.cli import report
from conductor.cli.typer_options import Folder, output_option, paragraphs
from conductor.errors import counted

HELP: Final = paragraphs(
    "Make an archive of a component: its manifest and what that names, its README, its licence "
    "and its transcripts. The same files give the same archive.",
    "It is held to what `conductor add` asks of a package. A link that leads out of the folder, or "
    "a file that looks like a secret, is refused.",
)
EPILOG: Final = "Examples:\n\n  conductor pack\n\n  conductor pack ./my-proxy -o my-proxy.tar.gz"


Allowed: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="FILE",
        help="Pack this file although it looks like a secret; may be repeated.",
        show_default=False,
    ),
]


def pack(
    folder: Folder = ".",
    output: Annotated[
        str | None,
        output_option("The file to write. Default: NAME-VERSION.tar.gz."),
    ] = None,
    allow: Allowed = None,
) -> int:
    """Makes the archive of a component."""
    from conductor.packages import pack as packing

    package = packing.pack(folder, allow or ())
    path = output or package.file_name
    packing.write(path, package.archive)
    shown = path if os.path.dirname(path) else f"./{path}"
    url = f"https://HOST/{os.path.basename(path)}#sha256={package.sha256}"
    report.say(
        f"{path}: {counted(len(package.files), 'file')}, {counted(len(package.archive), 'byte')}",
        *(f"  {name}" for name in package.files),
        f"sha256 {package.sha256}",
        f"to install it: {shlex.join(['conductor', 'add', shown])}",
        f"from where you put it: {shlex.join(['conductor', 'add', url])}",
    )
    return 0
