"""`conductor components`: what comes with conductor."""

from __future__ import annotations

from conductor.cli import report
from conductor.spec import catalog


def show(*, as_json: bool) -> int:
    """Prints name, kind and description of each; 0."""
    found = [
        one for name in catalog.bundled() if (one := catalog.bundled_manifest(name)) is not None
    ]
    if as_json:
        rows = [
            {
                "name": one.name,
                "kind": one.kind,
                "version": one.version,
                "description": one.description,
                "sandboxed": one.file is not None,
            }
            for one in found
        ]
        report.say_json(rows)
        return 0
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        kind = "sandboxed proxy" if one.file is not None else one.kind
        report.say(f"{one.name:<{width}}  {kind:<15}  {one.description}")
    return 0
