"""A bundle: all that a pool runs, as an OCI artifact of one layer, signed as packages are.

    oci://HOST/NAME@sha256:HEX    in a registry
    FOLDER@sha256:HEX             in a folder that is an OCI image layout, also without `@sha256:…`

The layer is a `.tar.gz` of the files. The digest of the manifest names the bundle: the same content
is the same digest. The files read here may come from anybody: the manifest is compared with the
digest, its signature with the keys, and the layer with the manifest, before anything is unpacked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.errors import ComponentError, ConductorError, UsageError
from conductor.packages import pack, signatures
from conductor.packages.oci import artifact, reference
from conductor.packages.oci.layout import Layout
from conductor.packages.oci.reference import SCHEME, Reference
from conductor.packages.oci.registry import Registry
from conductor.packages.signatures import Offer
from conductor.spec import paths

if TYPE_CHECKING:
    from conductor.packages.oci.artifact import Artifact, Made
    from conductor.packages.oci.repository import Repository
    from conductor.packages.pack import File
    from conductor.packages.signatures import Demand

POLICY: Final = "policy.toml"
"""The managed policy among the files of a bundle."""
MOST: Final = 128 * 1024 * 1024
"""Bytes of a bundle, packed and unpacked."""
MOST_FILES: Final = 2000

LAYER: Final = "application/vnd.conductor.bundle.layer.v1.tar+gzip"
CONFIG: Final = "application/vnd.conductor.bundle.config.v1+json"
_FORM: Final = artifact.Form("bundle", {LAYER: CONFIG}, MOST)
_MOST_LISTED: Final = 64
"""Manifests of a folder among which the bundle is looked for."""
IN_FOLDER: Final = Reference("", "", "latest")
"""The tag of a bundle in a folder: tools that copy a bundle ask for a tag."""
_PINNED: Final = re.compile(r"(.+)@(sha256:[0-9a-f]{64})", re.DOTALL)


class BundleError(ConductorError):
    """A bundle that nobody may use; `reason` is one word that a program may compare."""

    def __init__(self, reason: str, text: str, hint: str) -> None:
        super().__init__(text, hint)
        self.reason = reason


class Where(msgspec.Struct, frozen=True):
    """The place of a bundle, and its tag or digest there."""

    place: str
    """`oci://HOST/NAME`, or the path of a folder."""
    tag: str = ""
    digest: str = ""
    """`sha256:HEX`; empty: it is still to be found."""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.place}{tag}@{self.digest}" if self.digest else f"{self.place}{tag}"

    @property
    def is_folder(self) -> bool:
        """Whether it is in a folder of this machine."""
        return not self.place.startswith(SCHEME)

    def pinned(self, digest: str) -> Where:
        """The same bundle by its digest, for good."""
        return Where(self.place, "", digest)

    def repository(self) -> Repository:
        """The folder or registry that holds the bundle."""
        if self.is_folder:
            return Layout(self.place)
        host, _, name = self.place.removeprefix(SCHEME).partition("/")
        return Registry(Reference(host, name))


def parse(text: str) -> Where:
    """Reads where a bundle is; a path is made absolute. Raises `UsageError`."""
    if text.startswith(SCHEME):
        one = reference.parse(text)
        return Where(f"{SCHEME}{one.host}/{one.name}", one.tag, one.digest)
    folder, digest = found.groups() if (found := _PINNED.fullmatch(text)) else (text, "")
    return Where(os.path.abspath(folder), "", digest)


# -- writing ---------------------------------------------------------------------------------------


def made(files: Mapping[str, File]) -> Made:
    """The artifact of these files by path. Raises `UsageError`: they are too many or too large."""
    if paths.CONFIG not in files:
        raise UsageError(f"a bundle needs a {paths.CONFIG}", "name the folder that it is in")
    whole = sum(len(file.content) for file in files.values())
    if len(files) > MOST_FILES or whole > MOST:
        raise UsageError(
            f"a bundle of {len(files):,} files with {whole:,} bytes is too large",
            f"it is at most {MOST_FILES:,} files with {MOST >> 20} MiB; leave components out, and "
            "install them on the workers",
        )
    return artifact.of_archive(pack.archive_of(dict(sorted(files.items()))), {}, LAYER, CONFIG)


# -- reading ---------------------------------------------------------------------------------------


class Bundle(msgspec.Struct, frozen=True):
    """A bundle as it came, with its signature."""

    manifest: bytes
    layer: bytes
    offer: Offer | None = None
    """The signature by one of the keys; None: no keys were given."""

    @property
    def digest(self) -> str:
        """The digest that names it."""
        return artifact.digest_of(self.manifest)

    def holds(self, digest: str, keys: Sequence[Demand]) -> bool:
        """Whether the bundle has this digest, and one of these keys has signed it."""
        offers = [] if self.offer is None else [self.offer]
        try:
            signed_by(self.manifest, offers, keys, "it")
            layer = artifact.read(self.manifest, "", _FORM).layer
        except ConductorError:
            return False
        return (self.digest, artifact.digest_of(self.layer)) == (digest, layer.digest)


def signed(where: Where, keys: Sequence[Demand]) -> Where:
    """The place of a bundle that one of these keys has signed, with its digest. Its layer is not
    fetched. Raises the same errors as `pulled`."""
    return where.pinned(_seen(where.repository(), where, keys)[0].digest)


def pulled(where: Where, keys: Sequence[Demand]) -> Bundle:
    """Fetches a bundle that one of these keys has signed; without keys the signer does not matter.

    Raises:
        BundleError: It is no bundle, has another digest, or none of these keys has signed it.
        ConductorError: The folder or registry does not answer.
    """
    repository = where.repository()
    one, offer = _seen(repository, where, keys)
    try:
        return Bundle(one.manifest, repository.blob(one.layer), offer)
    except ComponentError as error:
        raise BundleError("damaged", error.text, error.hint) from None


def _seen(
    repository: Repository, where: Where, keys: Sequence[Demand]
) -> tuple[Artifact, Offer | None]:
    """The manifest and the signature of a bundle, before its layer is fetched."""
    try:
        wanted = where.digest or where.tag or _only(repository)
        found = repository.manifest(wanted)
        if found is None:
            raise BundleError(
                "missing", f"`{where.place}` has no {wanted}", "publish it there, or name another"
            )
        one = artifact.read(*found, _FORM)
        offers = repository.offers(one.digest) if keys else []
    except ComponentError as error:
        raise BundleError("damaged", f"`{where}`: {error.text}", error.hint) from None
    return one, signed_by(one.manifest, offers, keys, str(where))[0]


def _only(repository: Repository) -> str:
    """The digest of the only bundle in a folder. Raises `ComponentError`."""
    assert isinstance(repository, Layout)  # a reference has a tag or a digest
    digests = dict.fromkeys(one.digest for one in repository.listed()[:_MOST_LISTED])
    bundles = [digest for digest in digests if _is_bundle(repository.manifest(digest))]
    if len(bundles) != 1:
        raise ComponentError(
            f"it holds {len(bundles)} bundles",
            "name the one you mean: FOLDER@sha256:HEX" if bundles else "it is another folder",
        )
    return bundles[0]


def _is_bundle(found: tuple[bytes, str] | None) -> bool:
    try:
        return found is not None and bool(artifact.read(*found, _FORM))
    except ComponentError:
        return False


# -- keys ------------------------------------------------------------------------------------------


def signed_by(
    content: bytes, offers: Sequence[Offer], keys: Sequence[Demand], shown: str
) -> tuple[Offer | None, str]:
    """The signature by one of these public keys, and the key; None and an empty text without keys.
    Raises `BundleError`: none of the keys has signed this content."""
    why = "" if offers else f"`{shown}` comes with no signature"
    for key in keys:
        for offer in offers:
            try:
                signatures.signer_of(content, [offer], key, shown)
            except UsageError as error:
                why = error.text
            else:
                return offer, key.key
    if not keys:
        return None, ""
    raise BundleError(
        "signature" if offers else "unsigned",
        why,
        "`conductor fleet bundle --key KEY` signs it; `--bundle-key` names the public key",
    )


def keys_of(files: Iterable[str]) -> list[Demand]:
    """The public keys in these files: one of them must have signed a bundle. Raises
    `UsageError`."""
    return [signatures.demand(key=file) for file in files]


def key_of(file: str) -> Demand:
    """The public key of the private key in a file. Raises `UsageError`."""
    from conductor.spec import signing

    return signatures.Demand(key=signing.Key(signing.private(file).public_key(), file).text)
