"""`conductor publish`: puts a component into a registry, or makes its archive."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from conductor.cli import report
from conductor.cli.typer_options import (
    Replace,
    argument,
    option,
    output_option,
    paragraphs,
    switch,
)
from conductor.errors import UsageError, counted
from conductor.spec.paths import MANIFEST

if TYPE_CHECKING:
    from conductor.packages.oci.publish import Publication
    from conductor.spec.manifest.reading import Manifest

HELP: Final = paragraphs(
    "Put a component into an OCI registry: a module in the form that other WebAssembly tools read, "
    "Python source and programs as an archive. Prints its pinned reference, the command that "
    "installs it, and its entry for a catalogue. A registry gets no text of the template of "
    "`conductor new`: people decide by the description and the reasons of the rights.",
    "`--archive` without REFERENCE makes only the archive, for any web server. It holds the "
    "manifest with its files, README, licence and transcripts. The same files give the same "
    "archive. Conductor refuses a link that leads out of the folder, and a text that looks like a "
    "secret.",
    "Conductor logs in as `docker login`, `podman login` and `oras login` have left it.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor publish --archive . ./proxy",
    "  conductor publish oci://ghcr.io/me/proxy --dry-run",
    "  conductor publish oci://ghcr.io/me/proxy:1.0.0 ./proxy --sign key.pem",
)


_Words = Annotated[
    list[str] | None,
    argument(
        "[REFERENCE] [FOLDER]",
        "oci://HOST/NAME[:TAG]; default tag: the component's version. Then the component's folder; "
        "default: this one.",
    ),
]
_Archive = Annotated[
    str | None,
    option(
        "--archive",
        "FILE",
        "Write the archive to this file, or as NAME-VERSION.tar.gz into a folder.",
    ),
]
_DryRun = Annotated[bool, switch("--dry-run", "Send nothing: show the files that would be sent.")]
_Output = Annotated[
    str | None,
    output_option("Also write the sent files into a new folder, as an OCI layout.", "FOLDER"),
]
_Sign = Annotated[
    str | None,
    option("--sign", "KEY", "Sign it with this private key (PEM, without a password)."),
]
_Repository = Annotated[
    str,
    option("--repository", "URL", "Where its source code is, for the entry."),
]
_Include = Annotated[
    list[str] | None,
    option(
        "--include",
        "FILE",
        "Take in this file although it looks like a secret; may be repeated.",
    ),
]


def publish(
    words: _Words = None,
    archive: _Archive = None,
    dry_run: _DryRun = False,
    output: _Output = None,
    sign: _Sign = None,
    replace: Replace = False,
    repository: _Repository = "",
    include: _Include = None,
) -> int:
    """Publishes a component, or makes its archive. Raises `UsageError`."""
    places = words or []
    if archive is not None:
        others = {
            "--dry-run": dry_run,
            "--output": output is not None,
            "--sign": sign is not None,
            "--replace": replace,
            "--repository": bool(repository),
        }
        if flag := next((flag for flag, is_set in others.items() if is_set), ""):
            raise UsageError(f"`{flag}` is for a registry, and `--archive` sends nothing", _EITHER)
        return _archive(places, archive, include or ())
    if not 1 <= len(places) <= 2:
        raise UsageError("`conductor publish` takes a REFERENCE and a FOLDER", _EITHER)
    reference, folder = places[0], (*places[1:], ".")[0]
    from conductor.packages import pack, registry_entry
    from conductor.packages.oci import publish as publishing

    publishing.check_place(reference)  # first: many write the folder there
    package = pack.pack(folder, include or ())
    _refuse_generated(package.manifest)
    ready = publishing.prepare(package, reference, sign or "")
    pinned = str(ready.pinned)
    entry = registry_entry.entry(package.manifest, pinned, repository)
    if output is not None:
        publishing.save(ready, output)
    _send(ready, replace=replace, dry_run=dry_run)
    _say_next(pinned, entry, is_signed=sign is not None)
    return 0


def _send(ready: Publication, *, replace: bool, dry_run: bool) -> None:
    """Sends a package to its registry, or shows the upload. Raises `ConductorError`."""
    from conductor.packages.oci import publish as publishing

    if dry_run:
        report.say(*_described(ready), f"would be published as {ready.pinned}")
        return
    was_there = publishing.push(ready, replace=replace)
    report.say(f"{'was there already' if was_there else 'published'}: {ready.pinned}")


def _say_next(pinned: str, entry: Mapping[str, Any], *, is_signed: bool) -> None:
    """Names the next commands for a published package."""
    report.say(f"to install it: {shlex.join(['conductor', 'add', pinned])}")
    if not is_signed:
        place = pinned.removeprefix("oci://")
        report.say(f"to sign it as yourself: {shlex.join(['cosign', 'sign', place])}")
    report.say("its entry under `extensions` of a catalogue:")
    report.say_json(entry)


_EITHER: Final = (
    "`conductor publish oci://HOST/NAME` puts it into a registry, `conductor publish --archive .` "
    "makes an archive"
)


def _archive(places: Sequence[str], path: str, include: Sequence[str]) -> int:
    """Makes the archive of the component in a folder. Raises `UsageError`."""
    from conductor.packages import pack

    if len(places) > 1 or any(place.startswith("oci://") for place in places):
        raise UsageError("an archive is of one FOLDER, and goes to no REFERENCE", _EITHER)
    package = pack.pack((*places, ".")[0], include)
    if os.path.isdir(path):
        path = os.path.normpath(os.path.join(path, package.file_name))
    pack.write(path, package.archive)
    shown = path if os.path.dirname(path) else f"./{path}"
    url = f"https://HOST/{os.path.basename(path)}#sha256={package.sha256}"
    report.say(
        f"{path}: {counted(len(package.files), 'file')}, {counted(len(package.archive), 'byte')}",
        *(f"  {name}" for name in package.files),
        f"sha256 {package.sha256} of the archive",
        f"to install it: {shlex.join(['conductor', 'add', shown])}",
        f"from where you put it: {shlex.join(['conductor', 'add', url])}",
    )
    return 0


def _refuse_generated(manifest: Manifest) -> None:
    """Raises `UsageError` for a description or a reason that `conductor new` has written: people
    decide by them."""
    from conductor.author import project

    generated = {_words(text) for text in project.generated()}
    texts = {"description": manifest.description}
    texts |= {f"[rights] {word}": reason for word, reason in (manifest.rights or {}).items()}
    for place, text in texts.items():
        if _words(text) in generated:
            raise UsageError(
                f"`{manifest.name}` still has the text of its template: {place} = `{text}`",
                f"people decide by {MANIFEST}: describe there the component's work, and give a "
                "reason for each right",
            )


def _words(text: str) -> str:
    """The words of a text, in lower case and without signs."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _described(ready: Publication) -> list[str]:
    """The upload, for people."""
    from conductor.packages.oci.publish import size_of

    parts = (ready.made, *ready.attached)
    lines = []
    for made in parts:
        config, layer = made.blobs
        kind = made.artifact_type or config.media_type
        lines.append(f"  {made.digest}  {kind}")
        lines.append(f"    {layer.media_type}, {counted(len(layer.content), 'byte')}")
    count = counted(len(parts), "manifest")
    return [f"{ready.reference}: {count}, {counted(size_of(ready), 'byte')}", *lines]
