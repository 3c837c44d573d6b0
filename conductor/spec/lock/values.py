"""What a lock holds: which components may run, and what each may do at most."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

VERSION: Final = 2
OLDER: Final = 1
"""Its entries speak of verbs and guards; it is read as what those come to."""

ALL: Final = "all"
"""Written in place of a list of services where there is no bound."""

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
    services: list[str] | Literal["all"] = []
    profile: str | None = None
    rights: list[str] = []
    """What the profile and `allow` come to, as rules: `down:session/prompt:carry`."""
    grants: list[str] = []
    """What is granted by name: `turns=within`."""
    fails: Literal["closed", "open"] = "closed"
    hold: float | None = None
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
    """A lock file: components from the client's side on, in today's words. `version`: the one it
    is written in."""

    version: int
    component: list[Entry]
