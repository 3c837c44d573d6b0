"""The options of `add` and `update` that say who must have signed a package."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from conductor.cli.typer_options import option

Identity: TypeAlias = Annotated[
    str,
    option("--signer", "IDENTITY", "Who must have signed it: an address, or a workflow's URL."),
]
Issuer: TypeAlias = Annotated[
    str,
    option("--issuer", "URL", "Who vouches for that identity."),
]
Key: TypeAlias = Annotated[
    str,
    option("--key", "FILE", "The public key (PEM) that it must be signed with."),
]
TrustedRoot: TypeAlias = Annotated[
    str,
    option("--trusted-root", "FILE", "The root of a sigstore of one's own."),
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
