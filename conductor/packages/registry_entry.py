"""The entry of a component in a catalogue: an extension, in the format of the ACP registry."""

from __future__ import annotations

import re
from typing import Any, Final

from conductor.errors import UsageError
from conductor.spec.manifest.reading import Manifest

PACKAGE: Final = "conductor-acp"
"""The package that an editor would start if it knows nothing of conductor."""

_ID: Final = re.compile(r"[a-z][a-z0-9-]*")
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+.*")


def entry(manifest: Manifest, source: str, repository: str = "") -> dict[str, Any]:
    """The entry of a component.

    Args:
        manifest: The manifest of the component.
        source: Its source, pinned.
        repository: The URL of its source code; empty: not named.

    Raises:
        UsageError: The registry would not take it.
    """
    key = manifest.name.lower().replace("_", "-")
    if not _ID.fullmatch(key):
        raise UsageError(
            f"`{manifest.name}` can be no id in a registry",
            "an id is small letters, digits and `-`, and begins with a letter: change `name`",
        )
    if not _VERSION.fullmatch(manifest.version):
        raise UsageError(
            f"`{manifest.name}` has no version that a registry takes",
            'three numbers: `version = "1.0.0"` in component.toml',
        )
    if not manifest.description.strip():
        raise UsageError(
            f"`{manifest.name}` has no description",
            'one sentence for who looks for it: `description = "…"` in component.toml',
        )
    made: dict[str, Any] = {
        "id": key,
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
    }
    if repository:
        made["repository"] = repository
    if manifest.licence:
        made["license"] = manifest.licence
    return made | {"distribution": {"uvx": {"package": PACKAGE, "args": ["proxy", source]}}}
