"""The lock: which components may run, and what each may do at most (docs/cli.md, "Locks").

    lock           what a lock holds, and `enforce`
    lock_entries   what there is to hold of a component
    lock_reading   from the file, strictly
    lock_compare   what has changed, and whether that is allowed
    lock_writing   to the file; only `conductor lock` loads that

`enforce` is on the way of `conductor agent`: nothing heavy is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal

import msgspec

from conductor.catalog import Spec
from conductor.errors import UsageError

VERSION: Final = 1

ALL: Final = "all"
"""Written in place of a list of grants where there is no bound."""

REMAKE: Final = "`conductor lock COMPONENT…` writes it anew"

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script among a command's arguments."""

    path: str
    sha256: Digest


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is locked of one component, in the order of the file. What is missing allows nothing.

    Informative only: `program`, `version`, `size`, `carrier`, `imports`, and `source` of modules.
    """

    name: str
    role: Literal["proxy", "agent"]
    kind: Literal["bundled", "module", "script", "command", "python"]
    source: str
    """A module's path, relative to the lock file unless the user wrote an absolute one; else what
    the user wrote: a bundled component's name, a program, `py:module:attribute`."""
    version: str | None = None
    sha256: Digest | None = None
    """Of the module, of the program, or of all files of a bundled program."""
    pinned: bool = True
    """Whether a changed digest is refused, or only reported (agents that update themselves)."""
    size: int | None = None
    carrier: str | None = None
    imports: list[str] | None = None
    program: str | None = None
    """Where the program was found."""
    args: list[str] | None = None
    """Of a command, without what looks like a secret."""
    env: dict[str, str] | None = None
    files: list[File] = []
    dialect: str | None = None
    """None: found out when it starts."""
    grants: list[str] | Literal["all"] = []
    profile: str | None = None
    verbs: list[str] = []
    """What the profile and `allow` come to, as rules: `down:session/prompt:modify`."""
    unguard: list[str] = []
    on_violation: Literal["pass", "fail"] = "fail"
    on_failure: str = "fail"
    timeout: float | None = None
    isolation: str | None = None
    config: str | None = None
    """JSON, without what looks like a secret."""
    config_file: str | None = None
    """Which file of settings it is given; what is in there is the user's to change."""
    limits: dict[str, int] = {}


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A lock file: components from the client's side on."""

    version: int
    component: list[Entry]


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
    from conductor import lock_compare, lock_entries, lock_reading

    lock = lock_reading.read(path)
    now = lock_entries.entries(specs, path, agent_last=agent_last, isolation=isolation)
    found = lock_compare.compare(lock.component, now)
    text = found.refusal()
    if text:
        raise UsageError(
            f"{path} does not allow this chain\n{text}",
            "`conductor inspect` shows what a component is and may do; "
            "`conductor lock COMPONENT…` with the same components accepts the changes",
        )
    for name, said in found.warnings():
        warn(name, said)
    return [_pinned(spec, entry, path) for spec, entry in zip(specs, lock.component, strict=True)]


def _pinned(spec: Spec, entry: Entry, path: str) -> Spec:
    from conductor import lock_entries

    if not entry.pinned or entry.sha256 is None:
        return spec
    if spec.script:
        return msgspec.structs.replace(spec, script_sha256=entry.sha256, locked=path)
    if spec.wasm is not None:
        return msgspec.structs.replace(spec, sha256=entry.sha256, locked=path)
    return msgspec.structs.replace(spec, pins=lock_entries.pins(spec, entry), locked=path)
