"""A chain held to a lock: `--locked` comes here before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from conductor.errors import UsageError
from conductor.spec.catalog import Spec
from conductor.spec.lock import compare, entries, reading
from conductor.spec.lock.values import OLDER, Entry


def enforce(
    specs: Sequence[Spec],
    path: str,
    *,
    agent_last: bool,
    isolation: str,
    warn: Callable[[str, str], None],
) -> list[Spec]:
    """The specs, held to what the lock file at `path` pins. Raises `UsageError`: no such file, one
    that cannot be read, or a chain that it does not allow, with what is different.

    `warn` is called with the name of a component and what may be worth knowing.
    """
    lock = reading.read(path)
    now = entries.entries(specs, path, agent_last=agent_last, isolation=isolation)
    found = compare.compare(lock.component, now)
    text = found.refusal()
    if text:
        raise UsageError(
            f"{path} does not allow this chain\n{text}",
            "`conductor inspect` shows what a component is and may do; "
            "`conductor lock COMPONENT…` with the same components accepts the changes",
        )
    if lock.version == OLDER:
        warn(path, "it is in words of an older version: `conductor lock --upgrade` rewrites it")
    for name, said in found.warnings():
        warn(name, said)
    return [_pinned(spec, entry, path) for spec, entry in zip(specs, lock.component, strict=True)]


def _pinned(spec: Spec, entry: Entry, path: str) -> Spec:
    if not entry.pinned or entry.sha256 is None:
        return spec
    if spec.script:
        return msgspec.structs.replace(spec, script_sha256=entry.sha256, locked=path)
    if spec.wasm is not None:
        return msgspec.structs.replace(spec, sha256=entry.sha256, locked=path)
    return msgspec.structs.replace(spec, pins=entries.pins(spec, entry), locked=path)
