"""Manifests of components in registries: which are taken, and which ours look like. Pure.

A component of WebAssembly has the form of the CNCF's Wasm working group: a config of its media type
and exactly one layer, the module. So other tools read ours, and conductor reads theirs. Python
source and programs are one layer as well: an archive, of a media type of our own.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from conductor.errors import ComponentError, counted
from conductor.spec import digests

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
WASM: Final = "application/wasm"
WASM_CONFIG: Final = "application/vnd.wasm.config.v0+json"
ARCHIVE: Final = "application/vnd.conductor.component.layer.v1.tar+gzip"
ARCHIVE_CONFIG: Final = "application/vnd.conductor.component.config.v1+json"
DESCRIPTION: Final = "application/vnd.conductor.component.v1+toml"
"""A `component.toml`: the artifact type of a referrer, and the media type of its layer."""
EMPTY: Final = "application/vnd.oci.empty.v1+json"
ANNOTATION: Final = "dev.conductor.component"
"""A `component.toml` in base64, where registries have no referrers."""

MOST_MANIFEST: Final = 4 * 1024 * 1024
"""Bytes of a manifest, as registries have it."""
MOST_ANNOTATION: Final = 4096
"""Characters of our annotation."""
MOST_LAYER: Final = 64 * 1024 * 1024
_MOST_CONFIG: Final = 1024 * 1024
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_EMPTY_BYTES: Final = b"{}"
_ASK: Final = "ask its publisher to push it again"

_NO_TIME: Final = "1970-01-01T00:00:00Z"
"""When a config was made: others require a time, and ours must be the same each time."""

_SHOWN: Final = "org.opencontainers.image."
"""Begins the annotations that registries show."""
VERSION: Final = f"{_SHOWN}version"
TAG: Final = f"{_SHOWN}ref.name"
"""The annotation that has the tag of a manifest in a layout."""


class Form(msgspec.Struct, frozen=True):
    """The form of an artifact: one layer of these kinds, with the config that belongs to it."""

    what: str
    kinds: dict[str, str]
    """The media type of the config, by the media type of the layer."""
    most: int = MOST_LAYER
    """The most bytes of the layer."""


COMPONENT: Final = Form("component", {WASM: WASM_CONFIG, ARCHIVE: ARCHIVE_CONFIG})


class Descriptor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Bytes in a registry: their kind, digest and number."""

    media_type: str
    digest: str
    size: int
    artifact_type: str = ""
    urls: list[str] = []
    annotations: dict[str, str] = {}
    data: str = ""


class Artifact(msgspec.Struct, frozen=True):
    """An artifact of one layer, such as a component, as its manifest describes it."""

    manifest: bytes
    layer: Descriptor
    annotations: dict[str, str]

    @property
    def digest(self) -> str:
        """The digest of its manifest."""
        return digest_of(self.manifest)

    @property
    def is_module(self) -> bool:
        """Whether the layer is a module; else it is an archive."""
        return self.layer.media_type == WASM

    @property
    def described(self) -> bytes | None:
        """The `component.toml` in the annotation. Raises `ComponentError`."""
        text = self.annotations.get(ANNOTATION)
        if text is None:
            return None
        if len(text) > MOST_ANNOTATION:
            raise ComponentError(
                f"its annotation `{ANNOTATION}` is longer than {MOST_ANNOTATION:,} characters", _ASK
            )
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            raise ComponentError(f"its annotation `{ANNOTATION}` is not base64", _ASK) from None


class _Written(msgspec.Struct, frozen=True, rename="camel"):
    """A manifest as a registry has it."""

    schema_version: int
    config: Descriptor | None = None
    layers: list[Descriptor] | None = None
    media_type: str = ""
    artifact_type: str = ""
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}
    manifests: Any = None


class _Index(msgspec.Struct, frozen=True, rename="camel"):
    """A list of manifests."""

    schema_version: int
    manifests: list[Descriptor]
    media_type: str = ""


def digest_of(content: bytes) -> str:
    """The digest of bytes as registries write it."""
    return f"sha256:{digests.of_bytes(content)}"


# -- reading ---------------------------------------------------------------------------------------


def read(content: bytes, media_type: str, form: Form = COMPONENT) -> Artifact:
    """The artifact that a manifest describes.

    Args:
        content: The manifest's bytes, which have been compared with their digest if one was known.
        media_type: The type that the registry gives them; empty: none.
        form: The form that it must have.

    Raises:
        ComponentError: Conductor takes no such artifact.
    """
    written = _manifest(content, media_type)
    layers = written.layers or []
    made = f"a {form.what} is one layer of {' or '.join(f'`{kind}`' for kind in form.kinds)}"
    if len(layers) != 1:
        raise ComponentError(
            f"it has {counted(len(layers), 'layer')}, and a {form.what} has one", made
        )
    (layer,) = layers
    if layer.media_type not in form.kinds:
        raise ComponentError(f"its layer is `{layer.media_type}`, which is no {form.what}", made)
    assert written.config is not None
    if written.config.media_type != form.kinds[layer.media_type]:
        raise ComponentError(
            f"its config is `{written.config.media_type}`, which does not belong to "
            f"`{layer.media_type}`",
            f"it would be `{form.kinds[layer.media_type]}`",
        )
    checked(layer, form.most)
    checked(written.config, _MOST_CONFIG)
    return Artifact(content, layer, written.annotations)


def read_attached(content: bytes, subject: str, kind: str) -> Artifact | None:
    """A manifest about another manifest, such as its signature.

    Args:
        content: Its bytes, which have been compared with their digest.
        subject: The digest it must be about.
        kind: The artifact type it must have.

    Returns:
        None for a manifest that is about another one, or of another kind.

    Raises:
        ComponentError: It is no manifest, or has not one layer.
    """
    written = _manifest(content, "")
    assert written.config is not None
    is_kind = kind in (written.artifact_type, written.config.media_type)
    if not is_kind or written.subject is None or written.subject.digest != subject:
        return None
    if len(written.layers or []) != 1:
        raise ComponentError(f"its attachment `{kind}` has not exactly one layer", _ASK)
    (layer,) = written.layers or []
    return Artifact(content, checked(layer, MOST_MANIFEST), written.annotations)


def read_signatures(content: bytes) -> list[Descriptor]:
    """The layers of a manifest with older signatures of cosign. Raises `ComponentError`."""
    return [checked(layer, MOST_MANIFEST) for layer in _manifest(content, "").layers or []]


def read_index(content: bytes) -> list[Descriptor]:
    """The manifests of an index that are small and have a digest. Raises `ComponentError`."""
    try:
        index = msgspec.json.decode(content, type=_Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ComponentError(f"its list of referrers cannot be read: {error}", _ASK) from None
    return [one for one in index.manifests if one.media_type == MANIFEST]


def checked(one: Descriptor, most: int) -> Descriptor:
    """A descriptor of bytes that may be fetched. Raises `ComponentError`."""
    if not DIGEST.fullmatch(one.digest):
        raise ComponentError(
            f"`{one.digest}` in its manifest is no digest that is checked",
            "a digest is `sha256:` and 64 small hexadecimal digits",
        )
    if one.urls:
        raise ComponentError(
            "its manifest sends us to another address for a layer",
            "its publisher must push it whole",
        )
    if not 0 <= one.size <= most:
        raise ComponentError(f"it declares {one.size:,} bytes, and {most:,} are the most", _ASK)
    return one


def _manifest(content: bytes, media_type: str) -> _Written:
    """Reads a manifest of one thing. Raises `ComponentError`."""
    try:
        written = msgspec.json.decode(content, type=_Written)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ComponentError(f"its manifest cannot be read: {error}", _ASK) from None
    kind = written.media_type or media_type
    is_index = written.manifests is not None or kind == INDEX
    if is_index:
        raise ComponentError(
            "it is an index of several artifacts, and a component is one",
            "name the one you mean by its digest",
        )
    agreed = written.media_type in ("", MANIFEST) and media_type in ("", MANIFEST)
    if written.schema_version != 2 or not agreed or written.config is None:
        shown = written.media_type or media_type or "without a media type"
        raise ComponentError(
            f"its manifest is no OCI manifest ({shown})", f"it would be `{MANIFEST}`"
        )
    return written


# -- writing ---------------------------------------------------------------------------------------


class Blob(msgspec.Struct, frozen=True):
    """Bytes that go into a registry, with their kind."""

    media_type: str
    content: bytes

    @property
    def descriptor(self) -> dict[str, Any]:
        """The descriptor of the bytes in a manifest."""
        return {
            "mediaType": self.media_type,
            "digest": digest_of(self.content),
            "size": len(self.content),
        }


class Made(msgspec.Struct, frozen=True):
    """A manifest and its blobs: all bytes that a push sends. The same component gives the same
    bytes, so that a second push changes nothing."""

    manifest: bytes
    blobs: tuple[Blob, ...]
    artifact_type: str = ""

    @property
    def digest(self) -> str:
        """The digest of the manifest."""
        return digest_of(self.manifest)

    @property
    def descriptor(self) -> dict[str, Any]:
        """The descriptor of the manifest in another manifest."""
        kind = {"artifactType": self.artifact_type} if self.artifact_type else {}
        return {
            "mediaType": MANIFEST,
            "digest": self.digest,
            "size": len(self.manifest),
            **kind,
        }


def of_module(module: bytes, *, is_component: bool, annotations: Mapping[str, str]) -> Made:
    """The artifact of a module: the manifest of the CNCF's Wasm working group."""
    layer = Blob(WASM, module)
    config: dict[str, Any] = {
        "created": _NO_TIME,
        "architecture": "wasm",
        "os": "wasip2" if is_component else "wasip1",
        "layerDigests": [layer.descriptor["digest"]],
    }
    if is_component:
        config["component"] = {"exports": [], "imports": []}
    return _made(Blob(WASM_CONFIG, _json(config)), layer, annotations)


def of_archive(
    archive: bytes,
    annotations: Mapping[str, str],
    kind: str = ARCHIVE,
    config: str = ARCHIVE_CONFIG,
) -> Made:
    """The artifact of an archive: of Python source or of a program, if no other kind is named."""
    return _made(Blob(config, _EMPTY_BYTES), Blob(kind, archive), annotations)


def attached(subject: Made, kind: str, content: bytes) -> Made:
    """An artifact that says something about another: a referrer."""
    layer = Blob(kind, content)
    return _made(Blob(EMPTY, _EMPTY_BYTES), layer, {}, subject=subject, kind=kind)


def index_with(before: bytes | None, added: Made) -> bytes:
    """The list of referrers under the fallback tag, with one more. Raises `ComponentError`."""
    others: list[Any] = []
    if before is not None:
        read_index(before)
        others = msgspec.json.decode(before)["manifests"]
    kept = [one for one in others if one.get("digest") != added.digest]
    return _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [*kept, added.descriptor]})


def _made(
    config: Blob,
    layer: Blob,
    annotations: Mapping[str, str],
    *,
    subject: Made | None = None,
    kind: str = "",
) -> Made:
    manifest: dict[str, Any] = {"schemaVersion": 2, "mediaType": MANIFEST}
    if kind:
        manifest["artifactType"] = kind
    manifest |= {"config": config.descriptor, "layers": [layer.descriptor]}
    if subject is not None:
        manifest["subject"] = {
            key: value for key, value in subject.descriptor.items() if key != "artifactType"
        }
    if annotations:
        manifest["annotations"] = dict(sorted(annotations.items()))
    return Made(_json(manifest), (config, layer), kind)


def annotated(fields: Mapping[str, str], description: bytes | None) -> dict[str, str]:
    """The annotations of a component: the fields that registries show, and its `component.toml` if
    that is short enough."""
    made = {f"{_SHOWN}{key}": value for key, value in fields.items() if value}
    encoded = base64.b64encode(description or b"").decode()
    if encoded and len(encoded) <= MOST_ANNOTATION:
        made[ANNOTATION] = encoded
    return made


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)
