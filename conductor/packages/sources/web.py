"""Sources on the web: one file or archive behind an `https` URL, held to the digest in it."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from conductor.errors import ConductorError, UsageError
from conductor.packages import download, key_signatures, signatures
from conductor.packages.signatures import ANYBODY, Demand, Offer
from conductor.packages.sources import Fetched
from conductor.packages.sources.local import placed
from conductor.spec import digests

_DIGEST: Final = re.compile(r"sha256=([0-9a-f]{64})")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_+.@-]+")


class Web(msgspec.Struct, frozen=True):
    """A URL and the SHA-256 of its content."""

    url: str
    sha256: str
    """Empty: the user has not typed a digest yet, and `fetch` shows it."""

    @property
    def is_pinned(self) -> bool:
        """Whether it has a digest."""
        return bool(self.sha256)

    @property
    def written(self) -> str:
        """The URL with the digest behind it."""
        return f"{self.url}#sha256={self.sha256}" if self.sha256 else self.url

    @property
    def origin(self) -> str:
        """The URL."""
        return self.url

    def fetch(self, folder: str, wanted: Demand = ANYBODY) -> Fetched:
        """Downloads it. Raises `ConductorError` for anything but the bytes of the digest."""
        content = download.get(self.url)
        now = digests.of_bytes(content)
        if not self.sha256:
            raise UsageError(
                f"`{self.url}` has no digest, and the file at a URL can change",
                "compare the digest with one that its author publishes; what is there now is "
                f"`conductor add '{self.url}#sha256={now}'`",
            )
        if now != self.sha256:
            raise ConductorError(
                f"{self.url} is not the file that you asked for: "
                f"its sha256 is {now}, not {self.sha256}",
                "somebody has changed it: ask its author; nothing was installed",
            )
        signer = signatures.signer_of(content, self._offers(wanted), wanted, self.url)
        name = unquote(os.path.basename(urlsplit(self.url).path))
        place = placed(content, name if _PLAIN.fullmatch(name) else "proxy", folder)
        return Fetched(place=place, source=self.written, signer=signer)

    def _offers(self, wanted: Demand) -> list[Offer]:
        """The signatures beside it on the web. Raises `ConductorError`."""
        offers = []
        for ending, kind in signatures.BESIDE.items():
            if kind == "plain" and not wanted.key:
                continue
            parts = urlsplit(self.url)
            url = urlunsplit(parts._replace(path=parts.path + ending))
            try:
                answer = download.send("GET", url, most=key_signatures.MOST)
            except download.DownloadError:
                if wanted:
                    raise
                continue  # some servers send a long page for a missing file
            if answer.status == download.OK:
                offers.append(Offer(kind, answer.content))
        return offers


def parse(text: str) -> Web:
    """Raises `UsageError` for a URL that may not be fetched, or an invalid digest."""
    url, mark, fragment = text.partition("#")
    download.checked(url)
    if not mark:
        return Web(url, "")
    digest = _DIGEST.fullmatch(fragment)
    if digest is None:
        raise UsageError(
            f"`#{fragment}` behind a URL is no digest", "`#sha256=` and 64 digits from 0-9 and a-f"
        )
    return Web(url, digest[1])
