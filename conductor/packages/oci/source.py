"""Components in registries as a source: fetched whole, compared, and only then written."""

from __future__ import annotations

import os

import msgspec

from conductor.errors import ComponentError, UsageError
from conductor.packages import archive, signatures
from conductor.packages.oci import artifact, reference
from conductor.packages.oci.artifact import Artifact
from conductor.packages.oci.reference import Reference
from conductor.packages.oci.registry import Registry, resolved
from conductor.packages.signatures import Demand
from conductor.packages.sources import Fetched
from conductor.spec.installed import Signer
from conductor.spec.manifest import reading, section
from conductor.spec.paths import MANIFEST
from conductor.spec.programs import is_version


class Oci(msgspec.Struct, frozen=True):
    """A component in a registry."""

    reference: Reference

    @property
    def written(self) -> str:
        """The reference as it was typed."""
        return str(self.reference)

    @property
    def origin(self) -> str:
        """The repository."""
        return f"{reference.SCHEME}{self.reference.host}/{self.reference.name}"

    @property
    def is_pinned(self) -> bool:
        """Whether it names a digest."""
        return bool(self.reference.digest)

    def fetch(self, folder: str, wanted: Demand = signatures.ANYBODY) -> Fetched:
        """Pulls it. Raises `ConductorError`, `OSError`."""
        registry = Registry(self.reference)
        one, pinned = resolved(registry, self.reference)
        try:
            signer = signatures.signer_of(
                one.manifest, registry.offers(one.digest), wanted, self.written
            )
            content = registry.blob(one.layer)
            described = None if not one.is_module else _description(registry, one, signer)
        except ComponentError as error:
            raise ComponentError(f"`{self.written}`: {error.text}", error.hint) from None
        place = _placed(content, one, described, pinned.name, folder)
        version = one.annotations.get(artifact.VERSION, "")
        return Fetched(
            place=place,
            source=str(pinned),
            version=version if is_version(version) else "",
            signer=signer,
        )


def parse(text: str) -> Oci:
    """Raises `UsageError` for a text that is no component in a registry."""
    return Oci(reference.parse(text))


def _description(registry: Registry, one: Artifact, signer: Signer | None) -> bytes | None:
    """The `component.toml` that comes beside a module; None: none does.

    The annotation is covered by the artifact's digest, and so by a signature. A referrer is not, so
    it says nothing about a signed component. Raises `ConductorError`.
    """
    if (described := one.described) is not None or signer is not None:
        return described
    found = set(registry.attached(one.digest, artifact.DESCRIPTION))
    if len(found) > 1:
        raise ComponentError(
            f"its registry holds {len(found)} manifests of it that differ", "ask its publisher"
        )
    return found.pop() if found else None


def _placed(content: bytes, one: Artifact, described: bytes | None, name: str, folder: str) -> str:
    """Writes a component; where it is then. Raises `UsageError`, `OSError`."""
    place = os.path.join(folder, "package")
    if not one.is_module:
        os.mkdir(place, 0o700)
        archive.unpack(content, place)
        return place
    file = f"{name.rpartition('/')[2]}.wasm"
    archive.Tree(folder).file(file, (content,))
    path = os.path.join(folder, file)
    if described is None or section.find(path) is not None:
        return path
    manifest = reading.parse(described, MANIFEST)
    if manifest.file is None or manifest.scripted:
        raise UsageError(
            f"`{manifest.name}` is a module, and its manifest runs something else",
            "its publisher must push it again with `conductor publish`",
        )
    os.unlink(path)
    os.mkdir(place, 0o700)
    tree = archive.Tree(place)
    tree.file(manifest.file, (content,))
    tree.file(MANIFEST, (described,))
    return place
