"""The sources of packages: the text that a user writes, as a `Source` that fetches a package.

    ./proxy.wasm, ./folder                   a file or folder of this machine (`local`)
    https://HOST/FILE#sha256=HEX             a file or an archive (`web`)
    git+https://HOST/PATH@COMMIT             a git tree (`git`)
    oci://HOST/NAME:TAG                      an OCI artifact (`conductor.packages.oci`)
    pypi:NAME==VERSION                       a Python package (`wheel`)

To add a kind: a module with a class that has the methods of `Source`, and its row in `KINDS`.
"""

from __future__ import annotations

import importlib
import re
from typing import Final, Protocol

import msgspec

from conductor.errors import UsageError, did_you_mean, visible_path
from conductor.packages import download
from conductor.packages.signatures import ANYBODY, Demand
from conductor.spec.installed import Signer

_LONGEST: Final = 2048
"""Characters of a source."""

KINDS: Final = {
    "http://": "conductor.packages.sources.web:parse",
    "https://": "conductor.packages.sources.web:parse",
    "git+": "conductor.packages.sources.git:parse",
    "oci://": "conductor.packages.oci.source:parse",
    "pypi:": "conductor.packages.sources.wheel:parse",
}
"""The maker of a `Source`, by the beginning of its text. Any other text is a path."""

WRITTEN: Final = (
    ("`./weather.wasm`, `./weather.py`", "a file"),
    (
        "`./weather`",
        (
            "a folder with a component: a `component.toml`, one `.wasm`, or Python source. Names "
            "that begin with a dot, `__pycache__`, `node_modules`, `venv` and the component's own "
            "archives (`NAME-VERSION.tar.gz`) are left out"
        ),
    ),
    ("`./weather.tar.gz`, `./weather.zip`", "an archive of such a folder"),
    (
        "`https://HOST/weather.wasm#sha256=HEX`",
        "a file or an archive on the web, with the SHA-256 of its bytes",
    ),
    (
        "`git+https://HOST/NAME.git@COMMIT`",
        (
            "the files of a commit, 40 digits. `#subdirectory=FOLDER` after the commit takes one "
            "folder. Also `git+ssh://` and `git+file://`"
        ),
    ),
    (
        "`oci://HOST/NAME:TAG`, `oci://HOST/NAME@sha256:HEX`",
        "an artifact in an OCI registry",
    ),
    (
        "`pypi:NAME==VERSION`, `pypi:NAME`",
        "a Python package whose wheel carries one `component.toml`",
    ),
    ("`weather`", "a name that a [catalogue](proxies.md#catalogues) offers"),
)
"""How a source is written, in Markdown: docs/proxies.md#install-components has the same table."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\\)")
_LOCAL: Final = "conductor.packages.sources.local:parse"


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """A package that has been fetched. Nothing of it has run."""

    place: str
    """Its file, or its folder, in the folder that it was fetched to."""
    source: str
    """Its source in the spelling that always means these bytes, or its path."""
    version: str = ""
    """Its version, where the source names one."""
    signer: Signer | None = None
    """Its signer, checked; None: nobody signed it."""


class Source(Protocol):
    """The source of a package."""

    @property
    def written(self) -> str:
        """Its spelling; `parse` makes the same source of it."""

    @property
    def origin(self) -> str:
        """The origin that all its versions share: another version may replace the installed one."""

    @property
    def is_pinned(self) -> bool:
        """Whether it always means the same bytes: then it never has a newer version."""

    def fetch(self, folder: str, wanted: Demand = ANYBODY) -> Fetched:
        """Fetches the package into an empty, private folder.

        Args:
            folder: The folder to fetch it into.
            wanted: The demanded signer (`conductor.packages.signatures.signer_of`).

        Raises:
            ConductorError: With a hint. The content of the folder is of no use then.
            OSError: The file system takes nothing.
        """


def parse(text: str) -> Source:
    """The source for a text; paths are made absolute. Raises `UsageError`; fetches nothing."""
    if not text or len(text) > _LONGEST:
        raise UsageError("a source is a path, a URL or a name", "`conductor add --help` lists them")
    download.refuse_login(text)
    for prefix, where in KINDS.items():
        if text.startswith(prefix):
            return _made(where, text)
    if _SCHEME.match(text):
        kinds = [*KINDS, "./FILE"]
        hint = did_you_mean(text.partition(":")[0], [k.partition(":")[0] for k in KINDS])
        raise UsageError(
            f"`{visible_path(text)}` is no kind of source",
            hint or f"a source begins with {', '.join(kinds)}; or it is a name of a catalogue",
        )
    return _made(_LOCAL, text)


def _made(where: str, text: str) -> Source:
    module, _, name = where.partition(":")
    source: Source = getattr(importlib.import_module(module), name)(text)
    return source
