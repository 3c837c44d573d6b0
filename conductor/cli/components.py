"""`conductor components`: what comes with conductor."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from conductor.cli import pages, report
from conductor.cli.pages import Entry, Page
from conductor.spec import catalog
from conductor.spec.manifest.reading import Manifest

HELP: Final = "List the components that come with conductor."
_END: Final = (
    "All are proxies in a sandbox, but for those marked. `conductor inspect NAME` shows what one "
    "may do."
)


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
        listed = [
            {
                "name": manifest.name,
                "kind": manifest.kind,
                "version": manifest.version,
                "description": manifest.description,
                "sandboxed": manifest.file is not None,
            }
            for manifest in manifests
        ]
        report.say_json(listed)
        return 0
    rows = pages.Section("", tuple(Entry(each.name, _described(each)) for each in manifests))
    report.page(pages.laid_out(Page("", "", (rows,), _END)))
    return 0


def _described(manifest: Manifest) -> str:
    """What a component does, and what only few are."""
    text = manifest.description.rstrip(".")
    return text if manifest.file is not None else f"{text} ({manifest.kind}, not sandboxed)"
