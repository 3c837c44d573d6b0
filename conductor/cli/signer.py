"""The options of `add` and `update` that say who must have signed a package."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Identity: TypeAlias = Annotated[
    str,
    typer.Option(
        "--signer",
        metavar="IDENTITY",
        help="Who must have signed it: an address, or a workflow's URL.",
        show_default=False,
    ),
]
Issuer: TypeAlias = Annotated[
    str,
    typer.Option(
        "--issuer", metavar="URL", help="Who vouches for that identity.", show_default=False
    ),
]
Key: TypeAlias = Annotated[
    str,
    typer.Option(
        "--key",
        metavar="FILE",
        help="The public key (PEM) that it must be signed with.",
        show_default=False,
    ),
]
TrustedRoot: TypeAlias = Annotated[
    str,
    typer.Option(
        "--trusted-root",
        metavar="FILE",
        help="The root of a sigstore of one's own.",
        show_default=False,
    ),
]
AnySigner: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--any-signer",
        help="Take it although who signed what is installed has not signed this.",
    ),
]


def words(
    identity: str, issuer: str, key: str, trusted_root: str, *, any_signer: bool
) -> list[str]:
    """The options as they were typed."""
    typed = {
        "--signer": identity,
        "--issuer": issuer,
        "--key": key,
        "--trusted-root": trusted_root,
    }
    given = [word for option, value in typed.items() if value for word in (option, value)]
    return [*given, *(["--any-signer"] if any_signer else [])]
