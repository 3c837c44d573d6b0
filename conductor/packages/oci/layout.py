"""Artifacts in a folder: an OCI image layout, as `oras`, `skopeo` and `conductor` write it."""

from __future__ import annotations

import os
from typing import Final

from conductor.errors import ComponentError, visible_path
from conductor.packages.oci import artifact
from conductor.packages.oci.artifact import Descriptor
from conductor.packages.oci.repository import Repository
from conductor.spec import untrusted_files

_INDEX: Final = "index.json"


class Layout(Repository):
    """A folder that is an OCI image layout."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return visible_path(self._folder)

    def listed(self) -> list[Descriptor]:
        """The manifests in its index, also those that are attached to others. Raises
        `ComponentError`."""
        content = self._read(_INDEX, artifact.MOST_MANIFEST)
        if content is None:
            raise ComponentError(
                f"`{self}` is no folder with an OCI layout: it has no `{_INDEX}`",
                "`conductor fleet bundle --out FOLDER` and `oras copy --to-oci-layout` write one",
            )
        return artifact.read_index(content)

    def manifest(self, wanted: str) -> tuple[bytes, str] | None:
        """The bytes of a manifest; None: there is none. Raises `ComponentError`."""
        digest = wanted
        if ":" not in wanted:
            tagged = (one for one in self.listed() if one.annotations.get(artifact.TAG) == wanted)
            digest = next((one.digest for one in tagged), "")
        content = self._blob(digest, artifact.MOST_MANIFEST)
        return (self._same(digest, content), "") if content is not None else None

    def _content(self, one: Descriptor) -> bytes | None:
        return self._blob(one.digest, one.size)

    def _referrers(self, digest: str) -> list[Descriptor]:
        del digest  # an index does not tell which manifest is attached to which
        return self.listed()

    def _blob(self, digest: str, most: int) -> bytes | None:
        if not artifact.DIGEST.fullmatch(digest):
            return None
        return self._read(os.path.join("blobs", *digest.split(":")), most)

    def _read(self, name: str, most: int) -> bytes | None:
        """A file of the folder; None: there is none. Raises `ComponentError`."""
        try:
            return untrusted_files.read(os.path.join(self._folder, name), most, links=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ComponentError(
                f"`{name}` of `{self}` cannot be read: {error.strerror or error}",
                "copy the folder again, as a whole",
            ) from None
