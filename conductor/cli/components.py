"""`conductor components`: what comes with conductor."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from conductor.cli import report
from conductor.spec import catalog

HELP: Final = "List the components that come with conductor."


def components(
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> int:
    """Lists the bundled components."""
    return show(as_json=json_)


def show(*, as_json: bool) -> int:
    """Prints name, kind and description of each bundled component; 0."""
    manifests = [
        each for name in catalog.bundled() if (each := catalog.bundled_manifest(name)) is not None
    ]
    if as_json:
        rows = [
            {
                "name": manifest.name,
                "kind": manifest.kind,
                "version": manifest.version,
                "description": manifest.description,
                "sandboxed": manifest.file is not None,
            }
            for manifest in manifests
        ]
        report.say_json(rows)
        return 0
    width = max((len(manifest.name) for manifest in manifests), default=0)
    for manifest in manifests:
        kind = "sandboxed proxy" if manifest.file is not None else manifest.kind
        report.say(f"{manifest.name:<{width}}  {kind:<15}  {manifest.description}")
    return 0
