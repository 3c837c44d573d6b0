"""How a component in a registry is written."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from conductor.errors import UsageError

SCHEME: Final = "oci://"

_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(rf"{_PART}(?:/{_PART})*")
_HOST: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?"
)
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST: Final = 255
_FORM: Final = "as in `oci://ghcr.io/somebody/proxy:1.0`, or with `@sha256:` and 64 digits"


class Reference(msgspec.Struct, frozen=True):
    """A component in a registry: by a tag, by a digest, or by both."""

    host: str
    """With its port, if that is written."""
    name: str
    tag: str = ""
    digest: str = ""
    """`sha256:` and 64 digits; empty: the tag is still to be resolved."""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{SCHEME}{self.host}/{self.name}{tag}{digest}"

    @property
    def wanted(self) -> str:
        """The word to ask the registry for: the digest if there is one, else the tag."""
        return self.digest or self.tag

    def pinned(self, digest: str) -> Reference:
        """The same component by digest: the present content of a tag, for good."""
        return msgspec.structs.replace(self, tag="", digest=digest)


def parse(text: str) -> Reference:
    """Reads a reference. Raises `UsageError`."""
    rest = text.removeprefix(SCHEME)
    host, slash, path = rest.partition("/")
    path, at, digest = path.partition("@")
    name, colon, tag = path.partition(":")
    if not slash or not _HOST.fullmatch(host):
        raise _misread(text, "it names no registry")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise _misread(text, "a name in a registry is small letters, digits and `._-/`")
    if colon and not _TAG.fullmatch(tag):
        raise _misread(text, "a tag is up to 128 letters, digits and `._-`")
    if at and not _DIGEST.fullmatch(digest):
        raise _misread(text, "a digest is `sha256:` and 64 small hexadecimal digits")
    if not at and not colon:
        raise _misread(text, "it has neither a tag nor a digest")
    return Reference(host, name, tag, digest)


def _misread(text: str, why: str) -> UsageError:
    return UsageError(f"`{text}` is no component in a registry: {why}", _FORM)
