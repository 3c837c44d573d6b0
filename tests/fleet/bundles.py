"""Bundles for tests, in folders that are OCI layouts."""

from collections.abc import Mapping
from pathlib import Path

from conductor.fleet import bundle
from conductor.packages.oci import artifact, publish
from conductor.packages.oci.artifact import Made
from conductor.packages.pack import File


def saved(folder: Path, made: Made, key: str = "") -> str:
    """Writes an artifact, signed if a key is named; its name."""
    publish.save(publish.signed(bundle.IN_FOLDER, made, (), key), str(folder))
    return f"{folder}@{made.digest}"


def written(folder: Path, files: Mapping[str, File] | str, key: str = "") -> str:
    """Writes a bundle of these files, or of this `conductor.toml`; its name."""
    named = {"conductor.toml": File(files.encode())} if isinstance(files, str) else files
    return saved(folder, bundle.made(named), key)


def of_layer(layer: bytes, kind: str = bundle.LAYER, config: str = bundle.CONFIG) -> Made:
    """A bundle whose layer is this, whatever it is."""
    return artifact.of_archive(layer, {}, kind, config)


def blob(name: str) -> Path:
    """The file of the blob that a name in a folder names."""
    folder, _, digest = name.rpartition("@")
    return Path(folder, "blobs", *digest.split(":"))
