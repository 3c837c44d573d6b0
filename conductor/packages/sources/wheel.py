"""Python packages as a source: a wheel that carries one sandboxed component.

`pip` finds and downloads the wheel, from the index that the user has set up for it. It takes wheels
only, without dependencies: nothing is built, and nothing of the package runs. The `component.toml`
in it counts; a wheel that is a Python program is for `uv tool install`, or `pipx`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from typing import Final

import msgspec
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from conductor import installation
from conductor.errors import ConductorError, UsageError, counted
from conductor.packages import archive, download, signatures
from conductor.packages.signatures import ANYBODY, Demand
from conductor.packages.sources import Fetched
from conductor.packages.sources.programs import ProgramError, bounded
from conductor.spec import digests, untrusted_files
from conductor.spec.paths import MANIFEST

SECONDS: Final = 300.0
_SOURCE: Final = re.compile(
    r"pypi:(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?)"
    r"(?:==(?P<version>[A-Za-z0-9.!+_-]{1,64}))?(?:#sha256=(?P<digest>[0-9a-f]{64}))?"
)


class Wheel(msgspec.Struct, frozen=True):
    """A package by its normalised name, and a version of it."""

    name: str
    version: str = ""
    """Empty: the newest."""
    sha256: str = ""

    @property
    def written(self) -> str:
        """As a user writes it."""
        version = f"=={self.version}" if self.version else ""
        return f"{self.origin}{version}{f'#sha256={self.sha256}' if self.sha256 else ''}"

    @property
    def origin(self) -> str:
        """The package, whatever the version."""
        return f"pypi:{self.name}"

    @property
    def is_pinned(self) -> bool:
        """Whether it names a version."""
        return bool(self.version or self.sha256)

    def fetch(self, folder: str, wanted: Demand = ANYBODY) -> Fetched:
        """Downloads the wheel and unpacks it. Raises `ConductorError`, `OSError`."""
        signatures.signer_of(b"", (), wanted, self.written)  # pip brings none
        path = self._downloaded(folder)
        file = os.path.basename(path)
        try:
            name, version, _, _ = parse_wheel_filename(file)
        except InvalidWheelFilename as error:
            raise archive.refused(str(error)) from None
        if name != self.name or (self.version and version != Version(self.version)):
            raise ConductorError(f"pip brought `{file}` for `{self.written}`", "check its index")
        content = untrusted_files.read(path, download.MOST)
        now = digests.of_bytes(content)
        if self.sha256 not in ("", now):
            raise ConductorError(
                f"`{file}` is not the file that you asked for: "
                f"its sha256 is {now}, not {self.sha256}",
                "there may be several wheels of this version; nothing was installed",
            )
        whole = os.path.join(folder, "package")
        os.mkdir(whole, 0o700)
        archive.unpack(content, whole)
        pinned = Wheel(self.name, str(version), now)
        return Fetched(
            place=_component(whole, self.name), source=pinned.written, version=str(version)
        )

    def _downloaded(self, folder: str) -> str:
        """The path of the wheel in a folder of its own."""
        if importlib.util.find_spec("pip") is None:
            raise UsageError(
                "Python packages are downloaded by pip, and this Python has none",
                f"`{installation.with_package('pip')}`, or `{sys.executable} -m ensurepip`",
            )
        there = os.path.join(folder, "wheels")
        scratch = os.path.join(folder, "scratch")
        os.mkdir(there, 0o700)
        os.mkdir(scratch, 0o700)
        wanted = f"{self.name}=={self.version}" if self.version else self.name
        command = [
            # -I: neither the current folder nor PYTHONPATH may have another pip.
            sys.executable, "-I", "-m", "pip", "download", "--quiet", "--no-deps",
            "--only-binary", ":all:", "--no-input", "--no-cache-dir",
            "--disable-pip-version-check", "--progress-bar", "off", "--dest", there, "--", wanted,
        ]  # fmt: skip
        environment = {**os.environ, "TMPDIR": scratch}
        until = time.monotonic() + SECONDS
        try:
            bounded(command, environment, until, largest=download.MOST)
        except ProgramError as error:
            raise ConductorError(
                f"pip could not download `{wanted}`: {error}",
                "check the name and version; only wheels are taken, since nothing may be built",
            ) from None
        found = os.listdir(there)
        if len(found) != 1:
            raise ConductorError(
                f"pip brought {counted(len(found), 'file')} for `{wanted}`", "try again"
            )
        return os.path.join(there, found[0])


def parse(text: str) -> Wheel:
    """Raises `UsageError` unless a text is a package with at most one exact version."""
    found = _SOURCE.fullmatch(text)
    if found is None:
        raise UsageError(f"`{text}` is no Python package", "as in `pypi:NAME==1.2.3`")
    version = found["version"] or ""
    try:
        version = version and str(Version(version))
    except InvalidVersion:
        raise UsageError(
            f"`{text}`: `{version}` is no version", "as in `pypi:NAME==1.2.3`"
        ) from None
    return Wheel(canonicalize_name(found["name"]), version, found["digest"] or "")


def _component(root: str, name: str) -> str:
    """The folder of the one component in an unpacked wheel. Raises `UsageError`."""
    found = [folder for folder, _, files in os.walk(root) if MANIFEST in files]
    if len(found) == 1:
        return found[0]
    if found:
        raise archive.refused(f"the wheel holds {len(found)} files {MANIFEST}, and one is meant")
    raise UsageError(
        f"`{name}` carries no {MANIFEST}: it is a Python program or library, not a component",
        f"to run a program of it outside any sandbox: `uv tool install {name}` or `pipx install "
        f"{name}`, then its command is a component of a chain",
    )
