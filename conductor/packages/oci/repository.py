"""Reads artifacts, wherever they are: manifests, blobs, and attached manifests.

Content leaves here only after it has been compared with the digest that named it; a tag stands for
its digest from then on.
"""

from __future__ import annotations

import abc
import base64
from typing import Final

from conductor.errors import ComponentError, counted
from conductor.packages import key_signatures
from conductor.packages.oci import artifact
from conductor.packages.oci.artifact import Descriptor
from conductor.packages.signatures import Offer

_SIMPLE: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_SIGNATURE: Final = "dev.cosignproject.cosign/signature"
_MOST_SIMPLE: Final = 8
_MOST_ATTACHED: Final = 32
"""Referrers of one kind that are looked at: a registry may list any number."""


class Repository(abc.ABC):
    """One repository of a registry, or a folder. `str` of the object is its place, for errors."""

    @abc.abstractmethod
    def manifest(self, wanted: str) -> tuple[bytes, str] | None:
        """The bytes of a manifest and the type that the repository gives them; None: there is none.

        Args:
            wanted: A tag, or a digest, which is compared.

        Raises:
            ComponentError: The repository refuses, or has other content.
        """

    @abc.abstractmethod
    def _content(self, one: Descriptor) -> bytes | None:
        """The content under a digest, at most as long as it should be; None: the repository has
        none. Raises `ComponentError`."""

    @abc.abstractmethod
    def _referrers(self, digest: str) -> list[Descriptor]:
        """The manifests that may be attached to a manifest. Raises `ComponentError`."""

    def blob(self, one: Descriptor) -> bytes:
        """The bytes of a descriptor, compared with its digest and its size.

        Raises:
            ComponentError: The repository refuses, or has something else.
        """
        content = self._content(one)
        if content is None:
            text = f"`{self}` has no {one.digest}, which the manifest names"
            raise ComponentError(text, "its publisher must push it again")
        if len(content) != one.size:
            raise ComponentError(
                f"`{self}` sends {len(content):,} bytes of the {one.size:,} it declares",
                "try again; nothing was kept of it",
            )
        return self._same(one.digest, content)

    def attached(self, digest: str, kind: str) -> list[bytes]:
        """The content of each referrer of one artifact type that is attached to a manifest.

        Raises:
            ComponentError: A referrer is not as it should be, or there are too many.
        """
        listed = [
            one
            for one in self._referrers(digest)
            # Some registries leave the type out, and some list the type of the config instead.
            if one.digest != digest and one.artifact_type in ("", artifact.EMPTY, kind)
        ]
        if len(listed) > _MOST_ATTACHED:
            raise ComponentError(
                f"`{self}` has {counted(len(listed), 'referrer')} of one kind",
                f"conductor reads {_MOST_ATTACHED}; its publisher may remove old ones",
            )
        contents = []
        for one in listed:
            found = self.manifest(artifact.checked(one, artifact.MOST_MANIFEST).digest)
            if found is None:
                continue
            manifest = artifact.read_attached(found[0], digest, kind)
            if manifest is not None:
                contents.append(self.blob(manifest.layer))
        return contents

    def offers(self, digest: str) -> list[Offer]:
        """The signatures of a manifest, not compared yet. Raises `ComponentError`."""
        bundles = self.attached(digest, key_signatures.BUNDLE)
        offers = [Offer("bundle", content) for content in bundles]
        found = self.manifest(f"{fallback_tag(digest)}.sig")  # as older cosigns call it
        if found is None:
            return offers
        layers = [one for one in artifact.read_signatures(found[0]) if one.media_type == _SIMPLE]
        for layer in layers[:_MOST_SIMPLE]:
            try:
                signature = base64.b64decode(layer.annotations.get(_SIGNATURE, ""), validate=True)
            except ValueError:
                continue
            offers.append(Offer("simple", signature, self.blob(layer)))
        return offers

    def _same(self, digest: str, content: bytes) -> bytes:
        """The content, if it has this digest. Raises `ComponentError`."""
        found = artifact.digest_of(content)
        if found != digest:
            raise ComponentError(
                f"`{self}` sends something else than {digest}: its digest is {found}",
                "nothing was kept of it; ask its publisher",
            )
        return content


def fallback_tag(digest: str) -> str:
    """The tag of the list of referrers, where a registry does not keep one itself."""
    return digest.replace(":", "-")
