"""Reads manifests. Strict: what is not known, or cannot be, is an error with its line.

Loaded where an editor waits, if a component has a manifest: imports nothing heavy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from conductor.core.dialects import DIALECTS
from conductor.core.policy.older_rules import lifted, read_rule
from conductor.core.policy.rule_syntax import parse_grant, parse_rule, shown, surplus
from conductor.core.policy.rules import PROFILE_NAMES
from conductor.errors import UsageError
from conductor.spec import component_options, limits, toml, untrusted_files
from conductor.spec.manifest.values import (
    CARRIERS,
    FILE,
    KINDS,
    MATCHES,
    TABLES,
    TYPES,
    Manifest,
    Wants,
    is_a,
)
from conductor.spec.programs import AGENT, NAME_RULE, is_name, is_reserved

_MOST: Final = 64 * 1024
"""Bytes of a manifest."""

_TOO_LARGE: Final = f"a manifest is at most {_MOST:,} bytes"

_LONGEST: Final = 4096
"""Bytes of one of its lines: the time to read a key grows with the square of its dots."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def path_of(folder: str) -> str | None:
    """The manifest of a folder, or None if it has none."""
    path = os.path.join(folder, FILE)
    return path if os.path.isfile(path) else None


def load(path: str, *, links: bool = False) -> Manifest:
    """Reads a manifest. Raises `UsageError` that names the file and the line.

    One that is a link is refused, unless `links`: a stranger's may lead anywhere.
    """
    try:
        text = untrusted_files.read(path, _MOST, links=links)
    except untrusted_files.TooLargeError:
        raise UsageError(f"{path}: {_TOO_LARGE}", "it holds no data") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "check the path") from None
    return parse(text, path)


def parse(text: bytes, path: str = FILE) -> Manifest:
    """A manifest's text, read. `path` is what errors call it. Raises `UsageError`."""
    if len(text) > _MOST:
        raise UsageError(f"{path}: {_TOO_LARGE}", "it holds no data")
    for number, line in enumerate(text.split(b"\n"), 1):
        if len(line) > _LONGEST:
            raise UsageError(
                f"{path}, line {number}: a line of a manifest is at most {_LONGEST:,} bytes",
                'long text goes over several lines, between two `"""`',
            )
    try:
        source = text.decode()
        found = toml.loads(source)
    except ValueError as error:  # of TOML and UTF-8 alike
        raise UsageError(
            f"{path}: {error}", "a manifest is a few tables: a TOML file in UTF-8"
        ) from None
    try:
        read = msgspec.convert(found, Manifest)
        return _checked(read)
    except msgspec.ValidationError as error:
        from conductor.spec.manifest import errors

        raise errors.misshapen(str(error), source, found, path, TABLES) from None
    except Wrong as error:
        from conductor.spec.manifest import errors

        raise errors.at_line(path, source, error.at, str(error), error.hint) from None


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
    return msgspec.structs.replace(
        found,
        limits=_limits(found) if found.limits else found.limits,
        wants=_translated(found.wants),
    )


def _identity(found: Manifest) -> None:
    _among(found.kind, KINDS, "kind")
    if not is_name(found.name):
        raise Wrong(f"`name` is {NAME_RULE}", "name")
    if is_reserved(found.name) and (found.name, found.kind) != (AGENT, AGENT):
        hint = "the log and records use that word for something else: give it another name"
        raise Wrong(f"a component cannot be called `{found.name}`", "name", hint=hint)
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
    _among(wants.fails, ("open", "closed"), "wants", "fails")
    _among(wants.ids or None, ("kept",), "wants", "ids")
    for rule in wants.rights:
        try:
            why = surplus(parse_rule(rule))
        except ValueError as error:
            why = str(error)
        if why:
            raise Wrong(f"`{rule}`: {why}", "wants", "rights", rule)
    for grant in wants.grants:
        try:
            parse_grant(grant)
        except ValueError as error:
            raise Wrong(f"`{grant}`: {error}", "wants", "grants", grant) from None
    for service in wants.services:
        _service(service)
    for table in ("rights", "grants", "services", "verbs", "guards"):
        for key, reason in getattr(wants, table).items():
            if not reason.strip():
                where = ("wants", table, key)
                raise Wrong(f"`{key}` is asked for without a reason", *where, hint=_REASON)


def _translated(wants: Wants) -> Wants:
    """With what verbs and guards of older versions come to in today's words."""
    if not (wants.verbs or wants.guards):
        return wants
    rights, grants = dict(wants.rights), dict(wants.grants)
    for rule, reason in wants.verbs.items():
        try:
            read_as = read_rule(rule)
        except ValueError as error:
            raise Wrong(f"`{rule}`: {error}", "wants", "verbs", rule) from None
        rights |= {shown(one): reason for one in read_as.rules if shown(one) not in rights}
        grants |= {one: reason for one in read_as.grants.words() if one not in grants}
    for guard, reason in wants.guards.items():
        read_as = lifted(guard)
        rights |= {shown(one): reason for one in read_as.rules if shown(one) not in rights}
        grants |= {one: reason for one in read_as.grants.words() if one not in grants}
    return msgspec.structs.replace(wants, rights=rights, grants=grants)


_REASON: Final = "say what for: users read it before they grant anything"


def _service(service: str) -> None:
    try:
        component_options.read("manifest", [("grant", [service])])
    except UsageError as error:
        raise Wrong(error.text.partition("`manifest`: ")[2], "wants", "services", service) from None


def _limits(found: Manifest) -> dict[str, int]:
    read: dict[str, int] = {}
    for key, value in found.limits.items():
        name = limits.SHORT.get(key, key)
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


def _tests(found: Manifest) -> None:
    _among(found.test.match, MATCHES, "test", "match")
    for pattern in found.test.transcripts:
        if os.path.isabs(pattern) or ".." in pattern.split("/"):
            raise Wrong(f"`{pattern}` leaves the component's folder", "test", "transcripts")
