"""The manifest of a component, `component.toml`: its keys, and how it is read.

The structs are the one declaration of the file (`conductor.spec.toml_files`); docs/proxies.md is
the reference for authors. Reading is strict: an unknown or impossible value is an error with its
line. The start path loads this module if a component has a manifest: it imports nothing heavy.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final, Literal, TypeAlias

import msgspec

from conductor.core.dialects import DIALECTS
from conductor.core.policy import words
from conductor.errors import UsageError, hint_of, visible_path
from conductor.patterns import lazy_pattern
from conductor.spec import limits, toml_files, untrusted_files
from conductor.spec.paths import MANIFEST
from conductor.spec.programs import AGENT, NAME_RULE, is_name, is_reserved
from conductor.spec.settings import is_a
from conductor.spec.toml_files import Mistake, among

SettingType: TypeAlias = Literal["any", "string", "integer", "number", "boolean", "array", "object"]
Match: TypeAlias = Literal["bytes", "json"]

_MOST: Final = 64 * 1024
"""Bytes of a manifest."""

_LONGEST: Final = 4096
"""Bytes of one of its lines: the time to read a key grows with the square of its dots."""

_DIGEST: Final = lazy_pattern(r"[0-9a-f]{64}")
_HINT: Final = "docs/proxies.md explains the manifest"


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a manifest: no key but those it declares."""


class Setting(_Table, frozen=True, kw_only=True):
    """One of its settings."""

    type: SettingType = "any"
    description: str = ""
    default: Any = None
    """None: there is no default, or it is unknown."""
    required: bool = False
    enum: list[Any] = []


class Build(_Table, frozen=True, kw_only=True):
    """How `conductor test --build` makes `file`."""

    command: list[str] = []
    """A program and its arguments, run without a shell in the component's folder. `{python}`,
    `{dir}`, `{sdk}`, `{source}` and `{file}` are replaced."""
    made: str = ""
    """The file the command writes if it cannot write `file`, relative to the folder; `conductor
    test --build` copies it from there."""
    env: dict[str, str] = {}
    """Variables for the command, besides those of `conductor test --build`."""
    needs: str = ""
    """The programs that must be installed, as a sentence or command for people."""


class Tests(_Table, frozen=True, kw_only=True):
    """How `conductor test` plays scenarios."""

    match: Match = "bytes"
    """How received lines are compared with expected ones: `bytes`, or `json` (equal values are
    enough; spacing and the ids of the component's own requests do not count)."""


class Manifest(_Table, frozen=True, kw_only=True):
    """A whole manifest. Exactly one of `file` and `command` gives the program."""

    name: str
    version: str = ""
    description: str = ""
    licence: str = ""
    kind: Literal["proxy", "agent"] = "proxy"
    carrier: Literal["core", "component", "wasi", "python", "command"] | None = None
    dialect: str | None = None
    file: str | None = None
    """A WebAssembly module, a `.py` file or a folder of them (`.`); relative to the folder."""
    source: str | None = None
    """The source that `file` is built from."""
    command: list[str] = []
    sha256: str = ""
    """Digest of `file`."""
    rights: dict[str, str] | None = None
    """The words for its rights (`answer:prompts`, `clock`), each with a reason for the user to
    read; None: the manifest names no rights."""
    fails: Literal["open", "closed"] = "open"
    """With `closed`, a request that it held when it failed is refused instead of passed on."""
    ids: Literal["", "kept"] = ""
    """`kept`: a program that passes requests on under the ids they came with."""
    config: dict[str, str | Setting] = {}
    """Its settings: a description each, or a table."""
    idle_without: list[str] = []
    """The component does nothing without at least one of these settings."""
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
        """Whether it is Python source."""
        return self.file is not None and not self.file.endswith(".wasm")

    @property
    def settings(self) -> dict[str, Setting]:
        """Its settings, each as a table."""
        return {
            key: Setting(description=setting) if isinstance(setting, str) else setting
            for key, setting in self.config.items()
        }


# -- reading ---------------------------------------------------------------------------------------


def path_of(folder: str) -> str | None:
    """The manifest of a folder, or None if it has none."""
    path = os.path.join(folder, MANIFEST)
    return path if os.path.isfile(path) else None


def path_in(folder: str) -> str:
    """The manifest of a folder that must have one. Raises `UsageError`."""
    path = path_of(folder)
    if path is None:
        if os.path.isfile(folder):
            raise UsageError(
                f"`{folder}` is a file, and a folder with a {MANIFEST} is meant here",
                f"`conductor new NAME` makes one; `conductor agent {folder} AGENT --reload` runs "
                "a file, and takes up its changes",
            )
        missing = f"{MANIFEST} in" if os.path.isdir(folder) else "folder"
        raise UsageError(f"there is no {missing} `{folder}`", "`conductor new NAME` makes one")
    return path


def load(path: str, *, links: bool = False, bundled: str = "") -> Manifest:
    """Reads a manifest. Raises `UsageError` that names the file and the line.

    A manifest that is a link is refused unless `links`: a stranger's may lead to any file.
    `bundled`: the name of the bundled component that it is of; empty: of none.
    """
    try:
        text = untrusted_files.read(path, _MOST, links=links)
    except untrusted_files.TooLargeError:
        raise _too_large(path) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "check the path") from None
    if not bundled:
        return parse(text, path)
    from conductor.spec.manifest import drawn

    return parse(text, path, drawn.tables(bundled, text))


def parse(text: bytes, path: str = MANIFEST, tables: dict[str, Any] | None = None) -> Manifest:
    """Reads a manifest's text; errors name it `path`. Raises `UsageError`.

    `tables`: the content of the text, if the caller knows it.
    """
    if len(text) > _MOST:
        raise _too_large(path)
    for number, line in enumerate(text.split(b"\n"), 1):
        if len(line) > _LONGEST:
            raise UsageError(
                f"{path}, line {number}: a line of a manifest is at most {_LONGEST:,} bytes",
                'long text goes over several lines, between two `"""`',
            )
    if tables is None:
        source, tables = toml_files.read(text, path, "a manifest is a few tables of TOML in UTF-8")
    else:
        source = text.decode()
    try:
        if "wants" in tables:
            hint = '`[rights]` has words now: `clock = "why"`; `conductor help rights` lists them'
            raise Mistake("there is no table `[wants]`", "wants", hint=hint)
        return _checked(toml_files.convert(tables, Manifest, "a manifest"))
    except Mistake as mistake:
        raise mistake.placed(source, path, _HINT) from None


def place(path: str, *at: str) -> str:
    """A key of the manifest at `path`, for people: `FILE, line N`."""
    shown = visible_path(path)
    try:
        source = toml_files.read(untrusted_files.read(path, _MOST), path, _HINT)[0]
    except (OSError, UsageError):  # it was there when the chain was planned
        return shown
    line = toml_files.line_of(source, at)
    return f"{shown}, line {line}" if line else shown


def _too_large(path: str) -> UsageError:
    return UsageError(f"{path}: a manifest is at most {_MOST:,} bytes", "it holds no data")


def _checked(manifest: Manifest) -> Manifest:
    """The manifest with its limits as numbers. Raises `Mistake`."""
    for check in (_identity, _what_runs, _rights, _settings):
        check(manifest)
    return msgspec.structs.replace(manifest, limits=_limits(manifest))


def _identity(manifest: Manifest) -> None:
    name = manifest.name
    if not is_name(name):
        raise Mistake(f"`name` is {NAME_RULE}", "name")
    if is_reserved(name) and (name, manifest.kind) != (AGENT, AGENT):
        hint = "the log and records use that word for something else: give it another name"
        raise Mistake(f"a component cannot be called `{name}`", "name", hint=hint)
    among(manifest.dialect, DIALECTS, "dialect")


def _what_runs(manifest: Manifest) -> None:
    carrier = manifest.carrier
    if (manifest.file is None) == (not manifest.command):
        raise Mistake(
            "a manifest names exactly one program or module",
            "command" if manifest.command else "name",
            hint='`file = "NAME.wasm"` or `file = "NAME.py"` (sandboxed), or `command = ["…"]`',
        )
    for key in ("file", "source"):
        path = getattr(manifest, key)
        if path is not None and (os.path.isabs(path) or ".." in path.split("/") or not path):
            raise Mistake(f"`{key}` is a path within the component's folder", key)
    if manifest.file is not None and manifest.kind == AGENT:
        raise Mistake("an agent cannot be sandboxed", "kind", hint='give it a `command = ["…"]`')
    runs = "command" if manifest.command else "python" if manifest.scripted else None
    if carrier is not None and (runs or carrier) != carrier:
        raise Mistake(f"`carrier` is `{carrier}`, but the module is {runs}", "carrier")
    if carrier in ("python", "command") and runs is None:
        raise Mistake(f"`carrier` is `{carrier}`, but `file` is a module", "carrier")
    if manifest.sha256 and not _DIGEST.fullmatch(manifest.sha256):
        hint = "`conductor test --build` sets it"
        raise Mistake("`sha256` is 64 hexadecimal digits", "sha256", hint=hint)


def _rights(manifest: Manifest) -> None:
    for name, reason in (manifest.rights or {}).items():
        at = ("rights", name)
        try:
            words.read([name])
        except ValueError as error:
            raise Mistake(str(error), *at, hint=hint_of(error) or words.HINT) from None
        if manifest.command and words.of_world([name]):
            raise Mistake(f"`{name}`: a program has the machine anyway", *at, hint="leave it out")
        if not reason.strip():
            hint = "give the purpose: users read it before they allow anything"
            raise Mistake(f"`{name}` is requested without a reason", *at, hint=hint)


def _limits(manifest: Manifest) -> dict[str, int]:
    read: dict[str, int] = {}
    for key, value in manifest.limits.items():
        name = limits.SHORT.get(key, key)
        try:
            read[name] = limits.read(name, value)
        except ValueError as error:
            raise Mistake(f"`{key}`: {error}", "limits", key, hint=hint_of(error)) from None
    return read


def _settings(manifest: Manifest) -> None:
    for key in manifest.idle_without:
        among(key, manifest.config, "idle_without")
    for key, setting in manifest.settings.items():
        at = ("config", key)
        if not re.fullmatch(r"\w+", key):
            raise Mistake(f"the setting `{key}` cannot be given as config.KEY", *at)
        if setting.required and setting.default is not None:
            raise Mistake(f"`{key}` is required, so it has no default", *at, "required")
        values = setting.enum if setting.default is None else [*setting.enum, setting.default]
        for value in values:
            if not is_a(value, setting.type):
                raise Mistake(f"`{key}`: {value!r} is no {setting.type}", *at)
        if setting.enum and values[-1] not in setting.enum:
            raise Mistake(f"the default of `{key}` is not in its `enum`", *at, "default")
