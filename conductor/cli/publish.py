"""`conductor publish`: puts a component into a registry."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated, Final

import typer

from conductor.cli import report
from conductor.cli.pack import Allowed
from conductor.cli.typer_options import Folder, output_option, paragraphs
from conductor.errors import UsageError, counted
from conductor.spec.paths import MANIFEST

if TYPE_CHECKING:
    from conductor.packages.oci.publish import Publication
    from conductor.spec.manifest.reading import Manifest

HELP: Final = paragraphs(
    "Put a component into an OCI registry: a module in the form that other WebAssembly tools read, "
    "Python source and programs as the archive of `conductor pack`. Prints its pinned reference, "
    "the command that installs it, and its entry for a catalogue.",
    "Conductor logs in as `docker login`, `podman login` and `oras login` have left it.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor publish oci://ghcr.io/me/proxy --dry-run",
    "  conductor publish oci://ghcr.io/me/proxy:1.0.0 ./proxy --sign key.pem",
)


def publish(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            help="oci://HOST/NAME[:TAG]. Default tag: the component's version.",
            show_default=False,
        ),
    ],
    folder: Folder = ".",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing: show what would be sent.")
    ] = False,
    output: Annotated[
        str | None,
        output_option("Also write what is sent into a new folder, as an OCI layout.", "FOLDER"),
    ] = None,
    sign: Annotated[
        str | None,
        typer.Option(
            "--sign",
            metavar="KEY",
            help="Sign it with this private key (PEM, without a password).",
            show_default=False,
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Let the tag name this, if it names something else.")
    ] = False,
    repository: Annotated[
        str,
        typer.Option(
            "--repository",
            metavar="URL",
            help="Where its source code is, for the entry.",
            show_default=False,
        ),
    ] = "",
    allow: Allowed = None,
) -> int:
    """Publishes a component."""
    from conductor.packages import pack, registry_entry
    from conductor.packages.oci import publish as publishing

    publishing.check_place(reference)  # first: many write the folder there
    package = pack.pack(folder, allow or ())
    _refuse_generated(package.manifest)
    ready = publishing.prepare(package, reference, sign or "")
    pinned = str(ready.pinned)
    entry = registry_entry.entry(package.manifest, pinned, repository)
    if output is not None:
        publishing.save(ready, output)
    if dry_run:
        report.say(*_described(ready), f"would be published as {pinned}")
    else:
        was_there = publishing.push(ready, replace=replace)
        report.say(f"{'was there already' if was_there else 'published'}: {pinned}")
    report.say(f"to install it: {shlex.join(['conductor', 'add', pinned])}")
    if sign is None:
        place = pinned.removeprefix("oci://")
        report.say(f"to sign it as yourself: {shlex.join(['cosign', 'sign', place])}")
    report.say("its entry under `extensions` of a catalogue:")
    report.say_json(entry)
    return 0


def _refuse_generated(manifest: Manifest) -> None:
    """Raises `UsageError` for a description or a reason that `conductor new` has written: people
    decide by them."""
    from conductor.author import project

    generated = {_words(text) for text in project.generated()}
    texts = {"description": manifest.description, "[wants] reason": manifest.wants.reason}
    for place, text in texts.items():
        if _words(text) in generated:
            raise UsageError(
                f"`{manifest.name}` still has the text of its template: {place} = `{text}`",
                f"people decide by {MANIFEST}: say there what it does, and why it needs its rights",
            )


def _words(text: str) -> str:
    """What a text says, in whatever case and with whatever signs."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _described(ready: Publication) -> list[str]:
    """What a push would send, for people."""
    from conductor.packages.oci.publish import size_of

    parts = (ready.component, *ready.attached)
    lines = []
    for made in parts:
        config, layer = made.blobs
        kind = made.artifact_type or config.media_type
        lines.append(f"  {made.digest}  {kind}")
        lines.append(f"    {layer.media_type}, {counted(len(layer.content), 'byte')}")
    count = counted(len(parts), "manifest")
    return [f"{ready.reference}: {count}, {counted(size_of(ready), 'byte')}", *lines]
