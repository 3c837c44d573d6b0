"""`conductor components`: what comes with conductor."""

from __future__ import annotations

import sys

import msgspec

from conductor import catalog


def show(*, as_json: bool) -> int:
    """Prints name, kind and description of each; 0."""
    found = [one for name in catalog.bundled() if (one := catalog.manifest(name)) is not None]
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
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n")
        return 0
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        kind = "sandboxed proxy" if one.file is not None else one.kind
        sys.stdout.write(f"{one.name:<{width}}  {kind:<15}  {one.description}\n")
    return 0
