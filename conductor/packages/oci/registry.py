"""The distribution API of a registry: manifests, blobs and referrers."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

from conductor.errors import ComponentError
from conductor.packages import download
from conductor.packages.oci import artifact
from conductor.packages.oci.artifact import Artifact, Blob, Descriptor, Made
from conductor.packages.oci.reference import Reference
from conductor.packages.oci.repository import Repository, fallback_tag
from conductor.packages.oci.transport import Transport

PULL: Final = "pull"
PUSH: Final = "pull,push"

_ACCEPT: Final = {"Accept": f"{artifact.MANIFEST}, {artifact.INDEX}"}
_TAKEN: Final = (200, 201, 202)


class Registry(Repository):
    """One repository of a registry."""

    def __init__(self, reference: Reference, actions: str = PULL) -> None:
        self._reference = reference
        self._transport = Transport(reference.host, reference.name, actions)
        self._base = f"{self._transport.origin}/v2/{reference.name}"

    def __str__(self) -> str:
        return self._reference.host

    # -- reading -----------------------------------------------------------------------------------

    def manifest(self, wanted: str) -> tuple[bytes, str] | None:
        """The bytes of a manifest and the type that the registry gives them; None: there is no such
        manifest. Raises `ComponentError`."""
        answer = self._get(f"manifests/{wanted}", _ACCEPT, artifact.MOST_MANIFEST)
        if answer is None:
            return None
        if ":" in wanted:
            self._same(wanted, answer.content)
        media_type = answer.header("content-type").partition(";")[0].strip()
        return answer.content, media_type

    def _content(self, one: Descriptor) -> bytes | None:
        answer = self._get(f"blobs/{one.digest}", {}, one.size)
        return answer.content if answer is not None else None

    def _referrers(self, digest: str) -> list[Descriptor]:
        """Registries without an API of referrers have them under a tag (`sha256-HEX`)."""
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

    # -- writing -----------------------------------------------------------------------------------

    def push(self, made: Made) -> download.Answer:
        """Puts a manifest and its blobs into the registry; blobs that are there are not sent again.
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


def resolved(registry: Registry, reference: Reference) -> tuple[Artifact, Reference]:
    """The component that a reference names, and the reference by its digest: a tag is asked for
    once, and its content of that moment counts.

    Raises:
        ComponentError: There is none, or conductor takes no such artifact.
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
