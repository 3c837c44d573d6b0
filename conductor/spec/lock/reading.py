"""Reads a lock file strictly: what is not known is refused, with the line it is in."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from conductor.core.policy.rule_syntax import parse_grant, parse_rule
from conductor.core.policy.rules import PROFILE_NAMES
from conductor.errors import UsageError
from conductor.spec import toml, untrusted_files
from conductor.spec.lock.values import OLDER, REMAKE, VERSION, Lock
from conductor.spec.programs import NAME_RULE, is_name

_HEAD: Final = re.compile(r"\s*\[\[\s*component\s*\]\]")
_PLACE: Final = re.compile(r" - at `\$?(?:\.component\[(\d+)\])?(?:\.?(\w+))?.*`$")
_UNKNOWN: Final = re.compile(r"unknown field `(.*?)`")
_MOST: Final = 1024 * 1024


def read(path: str) -> Lock:
    """The lock in a file, in today's words. Raises `UsageError` saying what is wrong, and in which
    line."""
    return parse(text_of(path), path)


def text_of(path: str) -> str:
    """What is in the file. Raises `UsageError`."""
    try:
        return untrusted_files.read(path, _MOST).decode()
    except untrusted_files.TooLargeError:
        raise UsageError(f"{path} is too large to be a lock file", REMAKE) from None
    except FileNotFoundError:
        raise UsageError(
            f"no lock file `{path}`",
            "make one with `conductor lock COMPONENT…`, name another with --lock-file FILE, "
            "or leave out --locked",
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot read the lock file `{path}`: {error.strerror or error}", "check the path"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no lock file: it is not text", REMAKE) from None


def parse(text: str, path: str) -> Lock:
    """The lock that `text` is; `path` is for messages. Raises `UsageError`."""
    try:
        held = toml.loads(text)
    except ValueError as error:
        raise UsageError(f"cannot read the lock file `{path}`: {error}", REMAKE) from None
    version = held.get("version")
    if version not in (VERSION, OLDER) or isinstance(version, bool):
        where = _line(text, None, "version")
        what = f"its format is version {version!r}" if "version" in held else "it has no version"
        raise UsageError(
            f"cannot read the lock file `{path}`{where}: {what}; "
            f"this conductor knows versions {OLDER} and {VERSION}",
            f"use the conductor that wrote it, or remove it: {REMAKE}",
        )
    if version == OLDER:
        from conductor.spec.lock import older

        try:
            held, _ = older.translated(held)
        except older.UnreadableError as error:
            raise _wrong(path, _line(text, error.at, error.key), str(error)) from None
    try:
        lock = msgspec.convert(held, Lock)
    except msgspec.ValidationError as error:
        raise _refused(text, path, str(error)) from None
    for at, entry in enumerate(lock.component):
        if not is_name(entry.name):
            raise _wrong(path, _line(text, at, "name"), f"a name is {NAME_RULE}")
        if entry.role == "proxy" and entry.profile not in PROFILE_NAMES:
            where = _line(text, at, "profile")
            raise _wrong(path, where, f"a proxy's profile is one of {', '.join(PROFILE_NAMES)}")
        for key, reader in (("rights", parse_rule), ("grants", parse_grant)):
            for word in getattr(entry, key):
                try:
                    reader(word)
                except ValueError as error:
                    raise _wrong(path, _line(text, at, key), str(error)) from None
    return msgspec.structs.replace(lock, version=version)


def _refused(text: str, path: str, error: str) -> UsageError:
    """What msgspec has against it, with the line."""
    place = _PLACE.search(error)
    unknown = _UNKNOWN.search(error)
    at = int(place[1]) if place is not None and place[1] is not None else None
    key = unknown[1] if unknown is not None else place[2] if place is not None else None
    said = error[: place.start()] if place is not None else error
    if unknown is not None:
        said = f"unknown key `{unknown[1]}`"
    elif key is not None:
        said = f"`{key}`: {said[:1].lower()}{said[1:]}"
    return _wrong(path, _line(text, at, key), said)


def _wrong(path: str, where: str, what: str) -> UsageError:
    return UsageError(
        f"cannot read the lock file `{path}`{where}: {what}",
        f"it is not to be edited by hand; {REMAKE}",
    )


def _line(text: str, component: int | None, key: str | None) -> str:
    """`, line 7`: where a key of a component is, or, where that cannot be told, the component."""
    now, start = None, None
    wanted = None if key is None else re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
    table = None if key is None else re.compile(rf"\s*\[+\s*(?:component\.)?{re.escape(key)}\b")
    for number, line in enumerate(text.splitlines(), 1):
        if _HEAD.match(line):
            now = 0 if now is None else now + 1
            start = number if now == component else start
        heads = table is not None and bool(table.match(line))
        assigns = wanted is not None and bool(wanted.match(line))
        if (now == component and (assigns or heads)) or (component is None and heads):
            return f", line {number}"
    return "" if start is None else f", line {start}"
