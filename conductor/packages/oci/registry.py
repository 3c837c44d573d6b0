"""What the distribution API of a registry offers: manifests, blobs and referrers.

Nothing leaves here before it has been compared with the digest that named it; what a tag names is
its digest from then on.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

from conductor.errors import ComponentError, counted
from conductor.packages import download
from conductor.packages.oci import artifact
from conductor.packages.oci.artifact import Artifact, Blob, Descriptor, Made
from conductor.packages.oci.reference import Reference
from conductor.packages.oci.transport import Transport

PULL: Final = "pull"
PUSH: Final = "pull,push"

_ACCEPT: Final = {"Accept": f"{artifact.MANIFEST}, {artifact.INDEX}"}
_TAKEN: Final = (200, 201, 202)
_MOST_ATTACHED: Final = 32
"""Referrers of one kind that are looked at: a registry may list any number."""


class Registry:
    """One repository of a registry."""

    def __init__(self, reference: Reference, actions: str = PULL) -> None:
        self._reference = reference
        self._transport = Transport(reference.host, reference.name, actions)
        self._base = f"{self._transport.origin}/v2/{reference.name}"

    # -- reading -----------------------------------------------------------------------------------

    def manifest(self, wanted: str) -> tuple[bytes, str] | None:
        """The bytes of a manifest and what the registry calls them; None: there is none.

        Args:
            wanted: A tag, or a digest, which is compared.

        Raises:
            ComponentError: The registry refuses, or sends something else.
        """
        most = artifact.MOST_MANIFEST
        answer = self._get(f"manifests/{wanted}", _ACCEPT, most)
        if answer is None:
            return None
        found = artifact.digest_of(answer.content)
        if ":" in wanted and found != wanted:
            raise self._other(f"the manifest {wanted}", found)
        media_type = answer.header("content-type").partition(";")[0].strip()
        return answer.content, media_type

    def blob(self, one: Descriptor) -> bytes:
        """The bytes of a descriptor, compared with its digest and its size.

        Raises:
            ComponentError: The registry refuses, or sends something else.
        """
        answer = self._get(f"blobs/{one.digest}", {}, one.size)
        if answer is None:
            text = f"`{self._reference.host}` has no {one.digest}, which the manifest names"
            raise ComponentError(text, "its publisher must push it again")
        if len(answer.content) != one.size:
            raise ComponentError(
                f"`{self._reference.host}` sends {len(answer.content):,} bytes of the "
                f"{one.size:,} it declares",
                "try again; nothing was kept of it",
            )
        found = artifact.digest_of(answer.content)
        if found != one.digest:
            raise self._other(one.digest, found)
        return answer.content

    def attached(self, digest: str, kind: str) -> list[bytes]:
        """What is attached to a manifest as referrers of one artifact type: the content of each.

        Registries without an API of referrers have them under a tag (`sha256-HEX`).

        Raises:
            ComponentError: One of them is not what it should be, or there are too many.
        """
        listed = [
            one
            for one in self._referrers(digest)
            # Some registries leave it out, and some list the type of the config instead.
            if one.artifact_type in ("", artifact.EMPTY, kind)
        ]
        if len(listed) > _MOST_ATTACHED:
            raise ComponentError(
                f"`{self._reference}` has {counted(len(listed), 'referrer')} of one kind",
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

    def _referrers(self, digest: str) -> list[Descriptor]:
        answer = self._get(
            f"referrers/{digest}", {"Accept": artifact.INDEX}, artifact.MOST_MANIFEST, quiet=True
        )
        is_index = answer is not None and artifact.INDEX in answer.header("content-type")
        if answer is not None and is_index:
            return artifact.read_index(answer.content)
        found = self.manifest(fallback_tag(digest))
        return artifact.read_index(found[0]) if found is not None else []

    def _get(
        self, path: str, headers: dict[str, str], most: int, *, quiet: bool = False
    ) -> download.Answer | None:
        """The answer to a question; None: there is nothing. Raises `ComponentError`."""
        answer = self._transport.send("GET", f"{self._base}/{path}", headers=headers, most=most)
        if answer.status == 404 or (quiet and answer.status in (400, 405, 501)):
            return None
        if answer.status != 200:
            raise self._transport.refused(answer, self._reference.name)
        return answer

    def _other(self, wanted: str, found: str) -> ComponentError:
        return ComponentError(
            f"`{self._reference.host}` sends something else than {wanted}: its digest is {found}",
            "nothing was kept of it; ask its publisher",
        )

    # -- writing -----------------------------------------------------------------------------------

    def push(self, made: Made) -> download.Answer:
        """Puts a manifest and what it names into the registry; what is there is not sent again.
        Raises `ComponentError`."""
        for blob in made.blobs:
            self._push_blob(blob)
        return self.put_manifest(made.manifest, artifact.MANIFEST, made.digest)

    def attach(self, subject: Made, added: Made) -> None:
        """Pushes a referrer, and lists it under the fallback tag unless the registry says that it
        lists referrers itself. Raises `ComponentError`."""
        if self.push(added).header("oci-subject"):
            return
        tag = fallback_tag(subject.digest)
        found = self.manifest(tag)
        index = artifact.index_with(found[0] if found is not None else None, added)
        if found is None or found[0] != index:
            self.put_manifest(index, artifact.INDEX, tag)

    def put_manifest(self, content: bytes, media_type: str, wanted: str) -> download.Answer:
        """Puts a manifest under a tag or its digest. Raises `ComponentError`."""
        headers = {"Content-Type": media_type}
        return self._put(f"{self._base}/manifests/{wanted}", content, headers)

    def _put(self, url: str, content: bytes, headers: dict[str, str]) -> download.Answer:
        answer = self._transport.send("PUT", url, headers=headers, body=content)
        if answer.status not in _TAKEN:
            raise self._transport.refused(answer, self._reference.name)
        return answer

    def _push_blob(self, blob: Blob) -> None:
        digest = artifact.digest_of(blob.content)
        there = self._transport.send("HEAD", f"{self._base}/blobs/{digest}")
        if there.status == 200:
            return
        answer = self._transport.send("POST", f"{self._base}/blobs/uploads/", body=b"")
        place = answer.header("location")
        if answer.status not in _TAKEN or not place:
            raise self._transport.refused(answer, self._reference.name)
        url = urljoin(f"{self._base}/", place)
        url += ("&" if urlsplit(url).query else "?") + urlencode({"digest": digest})
        self._put(url, blob.content, {"Content-Type": "application/octet-stream"})


def fallback_tag(digest: str) -> str:
    """The tag of the list of referrers, where a registry does not keep one itself."""
    return digest.replace(":", "-")


def signature_tag(digest: str) -> str:
    """The tag that older cosigns give to the signatures of a manifest."""
    return f"{fallback_tag(digest)}.sig"


def resolved(registry: Registry, reference: Reference) -> tuple[Artifact, Reference]:
    """The component that a reference names, and the reference by its digest: a tag is asked for
    once, and what it named then is what counts.

    Raises:
        ComponentError: There is none, or none that conductor takes.
    """
    found = registry.manifest(reference.wanted)
    if found is None:
        raise ComponentError(
            f"`{reference.host}` has no `{reference.name}` with {reference.wanted}",
            "check the name and the tag; a private one needs a login",
        )
    try:
        one = artifact.read(*found)
    except ComponentError as error:
        raise ComponentError(f"`{reference}` cannot be used: {error.text}", error.hint) from None
    return one, reference.pinned(one.digest)
