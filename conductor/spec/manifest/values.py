"""What a manifest may hold: its tables, and the words that are values there.

docs/authoring.md is the reference for authors.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from conductor.core.policy.rule_syntax import parse_grant
from conductor.core.policy.rules import Grants, merged
from conductor.spec.programs import AGENT

FILE: Final = "component.toml"
KINDS: Final = ("proxy", AGENT)
CARRIERS: Final = ("core", "component", "wasi", "python", "command")
TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "any")
MATCHES: Final = ("bytes", "json")


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a manifest: no key but those it declares."""


class Wants(Table, frozen=True, kw_only=True):
    """What it asks for; each with a reason for its user to read."""

    profile: str | None = None
    """The profile it works under; None: it does not say."""
    reason: str = ""
    """Why it needs this profile."""
    rights: dict[str, str] = {}
    """Rules besides the profile (`down:session/prompt:answer`), with their reasons."""
    grants: dict[str, str] = {}
    """What it asks for by name (`turns=within`, `texts`), with their reasons."""
    services: dict[str, str] = {}
    """Services (`clock`, `files:**/AGENTS.md`, `fetch:api.example.com`), with their reasons."""
    fails: str = "open"
    """With `closed`, a request it held when it failed is refused instead of passed on."""
    ids: str = ""
    """`kept`: a program that passes requests on under the ids they came with."""
    verbs: dict[str, str] = {}
    """Rules as older versions wrote them; once read, `rights` and `grants` hold what they come
    to."""
    guards: dict[str, str] = {}
    """Guards to be lifted, as older versions wrote it; likewise."""

    def __bool__(self) -> bool:
        return bool(self.profile or self.rights or self.grants or self.services)

    @property
    def named(self) -> Grants:
        """What it asks for by name."""
        found = Grants()
        for grant in self.grants:
            found = merged(found, parse_grant(grant))
        return found


class Setting(Table, frozen=True, kw_only=True):
    """One of its settings."""

    type: str = "any"
    description: str = ""
    default: Any = None
    required: bool = False
    enum: list[Any] = []


class Build(Table, frozen=True, kw_only=True):
    """How `conductor build` makes `file`."""

    command: list[str] = []
    """A program and its arguments, run without a shell in the component's folder. `{python}`,
    `{dir}`, `{sdk}`, `{source}` and `{file}` are replaced."""
    made: str = ""
    """Where the command leaves it, relative to the folder, if it cannot be told `file`: it is
    copied from there."""
    env: dict[str, str] = {}
    """Variables for it, besides those of whoever builds."""
    needs: str = ""
    """What has to be installed for it, as a sentence or command for people."""


class Tests(Table, frozen=True, kw_only=True):
    """What `conductor test` plays."""

    transcripts: list[str] = msgspec.field(default_factory=lambda: ["transcripts/*.txt"])
    """Patterns of files, relative to the folder."""
    match: str = "bytes"
    """How what comes must be what was expected: `bytes`, or `json` (the same values, whatever the
    spacing and the ids of the component's own requests)."""


class Manifest(Table, frozen=True, kw_only=True):
    """A whole manifest. Exactly one of `file` and `command` says what runs."""

    name: str
    version: str = ""
    description: str = ""
    licence: str = ""
    kind: str = "proxy"
    carrier: str | None = None
    dialect: str | None = None
    file: str | None = None
    """A WebAssembly module, a `.py` file or a folder of them (`.`); relative to the folder."""
    source: str | None = None
    """What `file` is built from."""
    command: list[str] = []
    sha256: str = ""
    """Digest of `file`."""
    wants: Wants = Wants()
    config: dict[str, str | Setting] = {}
    """Its settings: what each means, or more of it."""
    limits: dict[str, Any] = {}
    """Limits it needs, by their full names; stricter ones of the user's hold."""
    build: Build = Build()
    test: Tests = Tests()

    @property
    def sandboxed(self) -> bool:
        """Whether it runs as a guest."""
        return self.file is not None

    @property
    def scripted(self) -> bool:
        """Whether what runs is Python source."""
        return self.file is not None and not self.file.endswith(".wasm")

    @property
    def settings(self) -> dict[str, Setting]:
        """What is known of each setting."""
        return {
            key: Setting(description=said) if isinstance(said, str) else said
            for key, said in self.config.items()
        }


TABLES: Final[dict[tuple[str, ...], type[msgspec.Struct]]] = {
    (): Manifest,
    ("wants",): Wants,
    ("build",): Build,
    ("test",): Tests,
    ("config",): Setting,
}
"""What may stand where; under `config`, for each setting."""


def is_a(value: object, kind: str) -> bool:
    """Whether a JSON value is of one of `TYPES`."""
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    return True
