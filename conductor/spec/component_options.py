"""What may be said of a component besides what it is: `proxy.wasm,grant=clock,memory=32MiB`.

One table for every way to say it: after commas on the command line, or as keys of a JSON object
(`conductor.spec.json_form`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from conductor.core.dialects import DIALECTS
from conductor.core.policy.rule_syntax import (
    Translated,
    is_old,
    lifted,
    merged,
    read_grant,
    read_rule,
    shown,
    surplus,
    today,
)
from conductor.core.policy.rules import GRANT_NAMES, PROFILE_NAMES, Grants
from conductor.core.restart_state import CHOICES
from conductor.core.service_table import ALWAYS_GRANTED, SERVICES, SHOWN_GRANTS
from conductor.errors import UsageError
from conductor.mcp import KINDS as MCP_KINDS
from conductor.spec import limits
from conductor.spec.programs import NAME_RULE, is_name

ALL: Final = "*"
"""Denies every service that has to be granted."""


class Older(msgspec.Struct, frozen=True):
    """What was said in words of older versions, how it is said today, and what of it is lost."""

    said: str
    today: str
    lost: str = ""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """Options read: what was not given is None, or empty."""

    name: str | None = None
    dialect: str | None = None
    grants: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()
    config: dict[str, Any] = {}
    config_file: str | None = None
    limits: dict[str, int] = {}
    profile: str | None = None
    allow: tuple[str, ...] = ()
    named: Grants = Grants()
    """What was granted by name: `turns=within`."""
    older: tuple[Older, ...] = ()
    on_violation: str | None = None
    fails: str | None = None
    ids: str | None = None
    hold: float | None = None
    on_failure: str | None = None
    timeout: float | None = None
    quiet: float | None = None
    mcp_bridge: str | None = None


def split(text: str) -> tuple[str, list[tuple[str, str]]]:
    """`("p.wasm", [("grant", "clock")])` for `p.wasm,grant=clock`; only known keys are options.

    A value reaches to the next comma, or, if it is a JSON string, list or object, to its end.
    """
    for begin in _OPTION.finditer(text):
        options = _options(text, begin.start())
        if options is not None:
            return text[: begin.start()], options
    return text, []


def unread(base: str) -> str | None:
    """What looks like an option in a component without its options, and is none; None: nothing.

    So it is with a comma in a value that is not quoted.
    """
    found = _OPTION.search(base)
    return base[found.start() + 1 :] if found is not None else None


def misspelt(base: str) -> tuple[str, str] | None:
    """What is wrong, and what to do, with a component that is not found and has something like an
    option; None: nothing.

    Paths may hold commas, so what is no option is taken for a part of the path.
    """
    found = _LIKE_OPTION.search(base)
    if found is None:
        return None
    key, equals = found.groups()
    if not equals:
        if not _OPTION.match(f",{key}="):
            return None
        return f"no value for the option `{key}` in `{base}`", f"`{key}` is given as `{key}=…`"
    import difflib

    close = difflib.get_close_matches(key, NAMES, 1)
    said = f"; did you mean `{close[0]}`?" if close else f" in `{base}`"
    return f"no option `{key}`{said}", _HINT


def _options(text: str, at: int) -> list[tuple[str, str]] | None:
    """The options from here to the end; None where something else is among them."""
    options = []
    while at < len(text):
        key = _OPTION.match(text, at)
        if key is None:
            return None
        if key[2]:
            at = key.end()
            options.append((key[2], "yes"))
            continue
        at = _value_end(text, key.end())
        options.append((key[1], text[key.end() : at]))
    return options


def _value_end(text: str, start: int) -> int:
    if text[start : start + 1] in ('"', "[", "{"):
        import json  # msgspec reads whole texts only

        try:
            end = json.JSONDecoder().raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            end = -1
        if text[end : end + 1] == "," or end == len(text):
            return end
    end = text.find(",", start)
    return len(text) if end < 0 else end


def read(name: str, options: list[tuple[str, Any]]) -> Given:
    """Reads options of the component `name`, in order. Raises `UsageError` with a hint."""
    found: dict[str, Any] = {"config": {}, "limits": {}}
    for key, value in options:
        try:
            _read_one(key, value, found)
        except ValueError as error:
            raise UsageError(f"`{key}={_shown(value)}` of `{name}`: {error}", _HINT) from None
    return Given(**found)


def _read_one(key: str, value: Any, found: dict[str, Any]) -> None:
    base, _, inner = key.partition(".")
    if base != "config" and isinstance(value, str) and value.startswith('"'):
        value = _loose(value)
    if base == "config" and inner:
        found["config"][inner] = _loose(value)
    elif base == "limit" and inner:
        found["limits"][inner] = limits.read(inner, value)
    elif key in limits.SHORT:
        found["limits"][limits.SHORT[key]] = limits.read(limits.SHORT[key], value)
    elif key in GRANT_NAMES:
        found["named"] = merged(found.get("named", Grants()), read_grant(key, value))
    elif key == "allow":
        _allow(value, found)
    elif key == "unguard":
        _unguard(value, found)
    elif key in _READERS:
        field, reader = _READERS[key]
        found[field] = reader(value, found.get(field))
    else:
        raise ValueError("there is no such option")


def _name(value: Any, _: Any) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise ValueError(f"a name is {NAME_RULE}")
    return value


def _file(value: Any, _: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("is the name of a file of settings; single ones are `config.KEY=VALUE`")
    return value


def _dialect(value: Any, _: Any) -> str:
    if value not in DIALECTS:
        raise ValueError(f"dialects are: {', '.join(DIALECTS)}")
    return str(value)


def words(value: Any) -> frozenset[str]:
    """Several words: `a+b`, or a JSON list."""
    listed = value if isinstance(value, list) else str(value).split("+")
    return frozenset(str(word) for word in listed if word)


def _grants(value: Any, before: Any) -> frozenset[str]:
    granted = words(value)
    special = granted - (SERVICES - SHOWN_GRANTS.keys())
    if special:
        from conductor.services.scopes import check

        for grant in sorted(special):
            check(grant)
    return granted | (before or frozenset())


def _denied(value: Any, before: Any) -> frozenset[str]:
    denied = words(value)
    known = (SERVICES - ALWAYS_GRANTED) | {ALL}
    if unknown := sorted(denied - known):
        told = f"services that can be denied are {', '.join(sorted(known))}"
        raise ValueError(f"{told}, not `{', '.join(unknown)}`")
    return denied | (before or frozenset())


def granted(
    own: frozenset[str] | None, given: frozenset[str] | None, denied: frozenset[str]
) -> frozenset[str] | None:
    """The services of a component: its own and those given, without those denied; None: all.

    Raises `ValueError` where it is not said of what those denied are taken away.
    """
    services = own if given is None else given | (own or frozenset())
    if not denied:
        return services
    if services is None:
        raise ValueError("it may use every service; name those it may with `grant=SERVICE`")
    if ALL in denied:
        return frozenset()
    return frozenset(one for one in services if one.partition(":")[0] not in denied)


def _profile(value: Any, _: Any) -> str:
    if value not in PROFILE_NAMES:
        raise ValueError(f"profiles are: {', '.join(PROFILE_NAMES)}")
    return str(value)


def _allow(value: Any, found: dict[str, Any]) -> None:
    """Rules, in today's words or in verbs of older versions."""
    for rule in value if isinstance(value, list) else [value]:
        text = str(rule)
        read_as = read_rule(text)
        if is_old(text) or read_as.grants.names() or read_as.lost:
            older = Older(f"allow={text}", ",".join(today(read_as)), read_as.lost)
            found["older"] = (*found.get("older", ()), older)
        elif why := surplus(read_as.rules[0]):
            raise ValueError(why)
        _give(read_as, found)


def _unguard(value: Any, found: dict[str, Any]) -> None:
    """Guards as older versions lifted them."""
    for guard in sorted(words(value)):
        read_as = lifted(guard)
        older = Older(f"unguard={guard}", ",".join(today(read_as)), read_as.lost)
        found["older"] = (*found.get("older", ()), older)
        _give(read_as, found)


def _give(what: Translated, found: dict[str, Any]) -> None:
    rules = tuple(shown(rule) for rule in what.rules)
    found["allow"] = (*found.get("allow", ()), *rules)
    found["named"] = merged(found.get("named", Grants()), what.grants)


def _ids(value: Any, _: Any) -> str:
    if value != "kept":
        raise ValueError("is `kept`, or left out")
    return str(value)


def _one_of(*values: str) -> Callable[[Any, Any], str]:
    def read_one(value: Any, _: Any) -> str:
        if value not in values:
            raise ValueError(f"must be {' or '.join(values)}")
        return str(value)

    return read_one


_READERS: Final[dict[str, tuple[str, Callable[[Any, Any], Any]]]] = {
    "name": ("name", _name),
    "dialect": ("dialect", _dialect),
    "grant": ("grants", _grants),
    "grants": ("grants", _grants),
    "deny": ("denied", _denied),
    "config": ("config_file", _file),
    "profile": ("profile", _profile),
    "on_violation": ("on_violation", _one_of("pass", "fail")),
    "fails": ("fails", _one_of("closed", "open")),
    "ids": ("ids", _ids),
    "hold": ("hold", lambda value, _: limits.seconds(str(value))),
    "on_failure": ("on_failure", _one_of(*CHOICES)),
    "timeout": ("timeout", lambda value, _: limits.seconds(str(value))),
    "quiet": ("quiet", lambda value, _: limits.seconds(str(value))),
    "mcp_bridge": ("mcp_bridge", _one_of(*MCP_KINDS)),
}
"""Each option: the field it sets, and how its value is read (given what was read before)."""

_BARE: Final = ("modes", "texts")
"""Options that may be given without a value."""

NAMES: Final = (*_READERS, "allow", *GRANT_NAMES, *limits.SHORT, "config.KEY", "limit.KEY")
"""Every option there is; `unguard` is one of older versions."""

_WORDS: Final = "|".join([*_READERS, "allow", "unguard", *GRANT_NAMES, *limits.SHORT])
_OPTION: Final = re.compile(
    rf",(?:((?:{_WORDS})|(?:config|limit)\.\w+)=|({'|'.join(_BARE)})(?=,|$))"
)
_LIKE_OPTION: Final = re.compile(r",([A-Za-z]\w*(?:\.\w+)?)(?:(=)|(?=,|$))")
_HINT: Final = f"options are: {', '.join(NAMES)}"


def _loose(value: Any) -> Any:
    """A configuration value: JSON where it is JSON, else text."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
