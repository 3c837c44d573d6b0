"""An artifact into a registry, or a folder, with its attachments, such as its signature."""

from __future__ import annotations

import json
import os
from typing import Any, Final

import msgspec

from conductor.errors import UsageError
from conductor.packages import key_signatures
from conductor.packages.oci import artifact, reference, registry
from conductor.packages.oci.artifact import Made
from conductor.packages.oci.reference import SCHEME, Reference
from conductor.packages.pack import Packed, write

_COMPONENT: Final = b"\0asm\x0d\x00\x01\x00"
"""The first bytes of a component of WebAssembly; a module has another version."""


class Publication(msgspec.Struct, frozen=True):
    """All bytes that go into a registry for one artifact."""

    reference: Reference
    """With the tag it gets."""
    made: Made
    attached: tuple[Made, ...]

    @property
    def pinned(self) -> Reference:
        """Its lasting reference."""
        return self.reference.pinned(self.made.digest)


def prepare(package: Packed, where: str, sign_with: str = "") -> Publication:
    """The bytes that a push of a package will send. Nothing is sent yet.

    Args:
        package: The component.
        where: `oci://HOST/NAME`, with a tag or without; then its version is the tag.
        sign_with: The file of a private key; empty: it is not signed.

    Raises:
        UsageError: The package cannot be published so.
    """
    to = _tagged(where, package.manifest.version)
    manifest = package.manifest
    annotations = artifact.annotated(
        {
            "title": manifest.name,
            "version": manifest.version,
            "description": manifest.description,
            "licenses": manifest.licence,
        },
        package.description if package.module is not None else None,
    )
    if package.module is None:
        return signed(to, artifact.of_archive(package.archive, annotations), (), sign_with)
    made = artifact.of_module(
        package.module, is_component=package.module.startswith(_COMPONENT), annotations=annotations
    )
    described = artifact.attached(made, artifact.DESCRIPTION, package.description)
    return signed(to, made, (described,), sign_with)


def check_place(where: str) -> None:
    """Raises `UsageError` for a text that is no place to publish to."""
    if not where.startswith(SCHEME) or "@" in where:
        raise UsageError(
            f"`{where}` is no place to publish to", "as in `oci://ghcr.io/somebody/proxy:1.0.0`"
        )


def _tagged(where: str, version: str) -> Reference:
    check_place(where)
    bare = where.removeprefix(SCHEME)
    if ":" in bare.partition("/")[2]:
        return reference.parse(where)
    if not version:
        raise UsageError(
            f"`{where}` has no tag, and the component no version",
            'write `version = "1.0.0"` in component.toml, or a tag: `oci://HOST/NAME:TAG`',
        )
    return reference.parse(f"{where}:{version}")


def signed(to: Reference, made: Made, others: tuple[Made, ...], sign_with: str) -> Publication:
    """The publication of an artifact, with its signature by the private key in a file, if a file is
    named. Raises `UsageError`."""
    if not sign_with:
        return Publication(to, made, others)
    bundle = key_signatures.bundle(made.manifest, sign_with)
    return Publication(to, made, (*others, artifact.attached(made, key_signatures.BUNDLE, bundle)))


def push(publication: Publication, *, replace: bool = False) -> bool:
    """Pushes a publication; whether the tag was there already, with the same digest.

    Raises:
        UsageError: The tag names something else, and `replace` is off.
        ConductorError: The registry refuses.
    """
    to = publication.reference
    there = registry.Registry(to, registry.PUSH)
    made = publication.made
    found = there.manifest(to.tag)
    before = artifact.digest_of(found[0]) if found is not None else ""
    if before not in ("", made.digest) and not replace:
        raise UsageError(
            f"`{to}` is there already, and is something else: {before}",
            "take a new version, or replace it with --replace: pinned chains keep the former one",
        )
    there.push(made)
    for one in publication.attached:
        there.attach(made, one)
    # The tag comes last: whoever finds the tag finds all blobs.
    if before != made.digest:
        there.put_manifest(made.manifest, artifact.MANIFEST, to.tag)
    return before == made.digest


def save(publication: Publication, folder: str) -> list[str]:
    """Writes a publication as an OCI layout, which oras and others read; returns its files.

    Raises `UsageError`, also for a folder that holds anything.
    """
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UsageError(f"`{folder}` exists already", "name a new folder with --output")
    all_of_it = (publication.made, *publication.attached)
    blobs = {blob.descriptor["digest"]: blob.content for made in all_of_it for blob in made.blobs}
    blobs |= {made.digest: made.manifest for made in all_of_it}
    tag = {artifact.TAG: publication.reference.tag}
    manifests = [made.descriptor for made in all_of_it]
    manifests[0] = manifests[0] | {"annotations": tag}
    index: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": artifact.INDEX,
        "manifests": manifests,
    }
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps(index, indent=2).encode(),
        **{f"blobs/{digest.replace(':', '/')}": content for digest, content in blobs.items()},
    }
    try:
        os.makedirs(os.path.join(folder, "blobs", "sha256"))
    except OSError as error:
        raise UsageError(f"cannot write `{folder}`: {error.strerror}", "name another") from None
    for name, content in files.items():
        write(os.path.join(folder, name), content)
    return sorted(files)


def size_of(publication: Publication) -> int:
    """The most bytes that a push sends."""
    all_of_it = (publication.made, *publication.attached)
    return sum(
        len(made.manifest) + sum(len(blob.content) for blob in made.blobs) for made in all_of_it
    )
