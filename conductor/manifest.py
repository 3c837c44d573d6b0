"""The manifest of a component, `component.toml`: what it is, what runs, what it asks for and why.

Strict: a key that is not known, or a value that cannot be, is an error with its line. It grants
nothing by itself: what a bundled component asks for is granted by `conductor.catalog`, a stranger's
manifest can only ask, and narrow. docs/authoring.md is the reference for authors.

Loaded where an editor waits, if a component has a manifest: imports nothing heavy.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from conductor import component_options
from conductor.core.dialects import DIALECTS
from conductor.core.policy import PROFILE_NAMES, parse_rule
from conductor.errors import UsageError

FILE: Final = "component.toml"
KINDS: Final = ("proxy", "agent")
CARRIERS: Final = ("core", "component", "wasi", "python", "command")
TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "any")
MATCHES: Final = ("bytes", "json")

_MOST: Final = 64 * 1024
"""Bytes of a manifest."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[\w-]{1,64}")


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a manifest: no key but those it declares."""


class Wants(Table, frozen=True, kw_only=True):
    """What it asks for; each with a reason for its user to read."""

    profile: str | None = None
    """The profile it works under; None: it does not say."""
    reason: str = ""
    """Why it needs this profile."""
    verbs: dict[str, str] = {}
    """Rules besides the profile (`up:session/update:modify`), with their reasons."""
    guards: dict[str, str] = {}
    """Guards to be lifted, with their reasons."""
    services: dict[str, str] = {}
    """Grants (`clock`, `files:**/AGENTS.md`, `fetch:api.example.com`), with their reasons."""

    def __bool__(self) -> bool:
        return bool(self.profile or self.verbs or self.guards or self.services)


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


def path_of(folder: str) -> str | None:
    """The manifest of a folder, or None if it has none."""
    path = os.path.join(folder, FILE)
    return path if os.path.isfile(path) else None


def load(path: str) -> Manifest:
    """Reads a manifest. Raises `UsageError` that names the file and the line."""
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "check the path") from None
    return parse(text, path)


def parse(text: bytes, path: str = FILE) -> Manifest:
    """A manifest's text, read. `path` is what errors call it. Raises `UsageError`."""
    if len(text) > _MOST:
        raise UsageError(f"{path}: a manifest is at most {_MOST:,} bytes", "it holds no data")
    try:
        source = text.decode()
        found = tomllib.loads(source)
    except ValueError as error:  # of TOML and UTF-8 alike
        raise UsageError(f"{path}: {error}", "a manifest is a TOML file in UTF-8") from None
    try:
        read = msgspec.convert(found, Manifest)
        return _checked(read)
    except msgspec.ValidationError as error:
        from conductor import manifest_errors

        raise manifest_errors.misshapen(str(error), source, found, path, TABLES) from None
    except Wrong as error:
        from conductor import manifest_errors

        raise manifest_errors.at_line(path, source, error.at, str(error), error.hint) from None


# -- what values may be --------------------------------------------------------------------------


class Wrong(Exception):  # noqa: N818 - becomes a `UsageError` once its line is known
    """What is wrong at a place, given as the keys that lead there."""

    def __init__(self, text: str, *at: str, hint: str = "") -> None:
        super().__init__(text)
        self.at = at
        self.hint = hint


def _checked(found: Manifest) -> Manifest:
    for one in (_identity, _what_runs, _wants, _settings, _tests):
        one(found)
    return msgspec.structs.replace(found, limits=_limits(found)) if found.limits else found


def _identity(found: Manifest) -> None:
    if not _NAME.fullmatch(found.name):
        raise Wrong("`name` is up to 64 letters, digits and any of `_-`", "name")
    _among(found.kind, KINDS, "kind")
    _among(found.carrier, CARRIERS, "carrier")
    _among(found.dialect, DIALECTS, "dialect")


def _among(value: str | None, known: Iterable[str], *at: str) -> None:
    if value is not None and value not in known:
        raise Wrong(f"`{at[-1]}` cannot be `{value}`", *at, hint=f"it is {_one_of(known)}")


def _one_of(words: Iterable[str]) -> str:
    *rest, last = words
    return f"{', '.join(rest)} or {last}" if rest else last


def _what_runs(found: Manifest) -> None:
    if (found.file is None) == (not found.command):
        raise Wrong(
            "a manifest says exactly once what runs",
            "command" if found.command else "name",
            hint='`file = "NAME.wasm"` or `file = "NAME.py"` (sandboxed), or `command = ["…"]`',
        )
    for key in ("file", "source"):
        path = getattr(found, key)
        if path is not None and (os.path.isabs(path) or ".." in path.split("/") or not path):
            raise Wrong(f"`{key}` is a path within the component's folder", key)
    if found.file is not None and found.kind == "agent":
        raise Wrong("an agent cannot be sandboxed", "kind", hint='give it a `command = ["…"]`')
    runs = "command" if found.command else "python" if found.scripted else None
    if found.carrier is not None and (runs or found.carrier) != found.carrier:
        raise Wrong(f"`carrier` is `{found.carrier}`, but what runs is {runs}", "carrier")
    if found.carrier in ("python", "command") and runs is None:
        raise Wrong(f"`carrier` is `{found.carrier}`, but `file` is a module", "carrier")
    if found.sha256 and not _DIGEST.fullmatch(found.sha256):
        raise Wrong("`sha256` is 64 hexadecimal digits", "sha256", hint="`conductor build` sets it")


def _wants(found: Manifest) -> None:
    wants = found.wants
    _among(wants.profile, PROFILE_NAMES, "wants", "profile")
    if wants.guards:
        from conductor.core.guards import GUARDS

        for guard in wants.guards:
            if guard not in {one.name for one in GUARDS}:
                listed = _one_of(one.name for one in GUARDS)
                raise Wrong(f"no guard `{guard}`", "wants", "guards", guard, hint=f"it is {listed}")
    for rule in wants.verbs:
        try:
            parse_rule(rule)
        except ValueError as error:
            raise Wrong(f"`{rule}`: {error}", "wants", "verbs", rule) from None
    for grant in wants.services:
        _grant(grant)
    for table in ("verbs", "guards", "services"):
        for key, reason in getattr(wants, table).items():
            if not reason.strip():
                where = ("wants", table, key)
                raise Wrong(f"`{key}` is asked for without a reason", *where, hint=_REASON)


_REASON: Final = "say what for: users read it before they grant anything"


def _grant(grant: str) -> None:
    try:
        component_options.read("manifest", [("grant", [grant])])
    except UsageError as error:
        raise Wrong(error.text.partition("`manifest`: ")[2], "wants", "services", grant) from None


def _limits(found: Manifest) -> dict[str, int]:
    read: dict[str, int] = {}
    for key, value in found.limits.items():
        name = component_options.SHORT.get(key, key)
        try:
            read |= component_options.read("manifest", [(f"limit.{name}", value)]).limits
        except UsageError as error:
            raise Wrong(
                f"`{key}`: {error.text.partition('`manifest`: ')[2]}", "limits", key
            ) from None
    return read


def _settings(found: Manifest) -> None:
    for key, one in found.settings.items():
        if not re.fullmatch(r"\w+", key):
            raise Wrong(f"the setting `{key}` cannot be given as config.KEY", "config", key)
        _among(one.type, TYPES, "config", key, "type")
        if one.required and one.default is not None:
            where = ("config", key, "required")
            raise Wrong(f"`{key}` is required, so it has no default", *where)
        for value in one.enum if one.default is None else [*one.enum, one.default]:
            if not is_a(value, one.type):
                raise Wrong(f"`{key}`: {value!r} is no {one.type}", "config", key)
        if one.enum and one.default is not None and one.default not in one.enum:
            raise Wrong(f"the default of `{key}` is not in its `enum`", "config", key, "default")


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


def _tests(found: Manifest) -> None:
    _among(found.test.match, MATCHES, "test", "match")
    for pattern in found.test.transcripts:
        if os.path.isabs(pattern) or ".." in pattern.split("/"):
            raise Wrong(f"`{pattern}` leaves the component's folder", "test", "transcripts")
