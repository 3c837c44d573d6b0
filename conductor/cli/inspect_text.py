"""The page of `conductor inspect`, for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from conductor.cli import pages
from conductor.cli.inspect_policy import GuardFact, PolicyFacts
from conductor.core.policy import words
from conductor.core.policy.words import TRUSTED
from conductor.errors import CONTINUED, counted, one_line
from conductor.spec import limits, origins
from conductor.spec.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from conductor.cli.inspect_ import Facts, ShownWants

Entry: TypeAlias = tuple[str, str, str]
"""The beginning of its first line, a text to wrap, the beginning of its further lines."""

_BLANK: Final[Entry] = ("", "", "")

_WIDTH: Final = 11
"""Columns of the labels."""
_LONGEST_DEFAULT: Final = 72
_NARROWEST: Final = 60
_CARRIERS: Final = {
    "core": "core module: channel/1 called directly",
    "component": "WebAssembly component: channel/1 as text",
    "python": "Python source, run by CPython inside WebAssembly: channel/1 as text",
    "wasi": "WASI command: JSON-RPC lines on its standard input and output",
    "unknown": "unknown: nothing can pass messages to it",
}
_ABILITIES: Final = {
    "none": "this module cannot call anything; it can only return messages",
    "wasi": "this module can only return messages: stubs answer its WASI imports and give nothing "
    "away; clock and random work if granted",
    "forbidden": "this module needs functions that no guest gets, so conductor refuses it",
    "subprocess": "UNSANDBOXED: it runs with your rights: it can read and write your files, use "
    "the network and start programs",
    "elsewhere": "UNSANDBOXED: it runs elsewhere, and gets all messages that its rights let it see",
}
_ISOLATION: Final = (
    "process: in a child process with an empty environment, together with sandboxed neighbours "
    "(-c isolation=separate|inline: alone, or in the conductor itself)"
)
_VIOLATIONS: Final = {
    "pass": "Conductor undoes and reports each violation; the session goes on",
    "fail": "Conductor undoes and reports each violation, and ends the component",
}
_HELD: Final = {
    "open": "If the component fails, a request that the component holds goes on unchanged",
    "closed": "If the component fails, conductor refuses a request that the component holds",
}
_TRUSTED: Final = (
    "Trusted: no rule limits its acts on the conversation. Write `,only=filter` after the "
    "component: then the guards apply."
)
_SILENT: Final = "none of its messages reaches anybody, so it needs no guard"
_OTHER_MESSAGES: Final = "it sees no other message, and can send no other message of its own"
_GUARDS: Final = (
    "Guards hold in addition. A right widens some guards, the other guards always hold "
    "(docs/security.md explains each guard)"
)
_FAILURES: Final = {
    "fail": "if it fails, the chain ends",
    "restart": "if it fails, conductor restarts it, a few times; then the chain ends",
    "bypass": "if it fails, the chain goes on without it",
    "restart+bypass": "if it fails, conductor restarts it, a few times; then the chain goes on "
    "without it",
}


def lines(facts: Facts, width: int) -> Iterator[str]:
    """The page, wrapped at `width` columns."""
    for head, text, indent in _entries(facts):
        yield from pages.hanging(head, text, max(width, _NARROWEST), indent)


def _entries(facts: Facts) -> Iterator[Entry]:
    version = f" {one_line(facts.version)}" if facts.version else ""
    yield "", f"{one_line(facts.name)}{version}: {facts.kind}, {facts.role}", ""
    if facts.description:
        # Somebody else's words, marked so that they cannot pass for conductor's own.
        yield CONTINUED, one_line(facts.description), CONTINUED
    yield _BLANK
    for label, values in _what(facts):
        yield from _field(label, *values)
    if facts.policy is not None:
        yield from _policy(facts.policy)
        yield from _wants(facts.wants, facts.policy)
    if facts.origins:
        yield _BLANK
        yield "", "Who set what:", ""
        yield from _field("", *origins.told(facts.origins), width=0)
    for note in facts.notes:
        yield _BLANK
        yield "", f"note: {one_line(note, 1000)}", ""


def _field(label: str, *values: str, width: int = _WIDTH) -> Iterator[Entry]:
    """A label and its values, each on a line of its own."""
    for head, value in pages.labelled(label, values, width):
        yield head, value, " " * len(head)


def _what(facts: Facts) -> Iterator[tuple[str, Iterable[str]]]:
    """The labels of the first part, each with its values; without values it has no line."""
    yield "can do", [_ability(facts)]
    yield "command", [" ".join(map(one_line, facts.command))] if facts.command else []
    yield "address", [one_line(facts.address, 1000)] if facts.address is not None else []
    yield "file", [one_line(facts.file, 1000)] if facts.file is not None else []
    yield "size", [counted(facts.size, "byte")] if facts.size is not None else []
    yield "sha256", _digest(facts)
    yield "carrier", [_CARRIERS[facts.carrier]] if facts.carrier is not None else []
    if facts.exports is not None:
        yield "imports", [f"{one_line(name)}: stub" for name in facts.wasi or ()]
        yield "imports", [] if facts.imports else ["none"]
        yield "forbidden", map(one_line, facts.forbidden or ())
        yield "exports", [", ".join(map(one_line, facts.exports or ["none"]))]
    yield "dialect", [facts.dialect] if facts.dialect != "none" else []
    yield "settings", _settings(facts)
    yield "config", [f"{key} = {one_line(value)}" for key, value in facts.config.items()]
    yield "limits", [", ".join(_limits(facts))] if facts.limits is not None else []
    yield "isolation", [_ISOLATION, *_cage(facts)] if facts.isolation != "none" else []
    yield "peers", list(facts.peers)
    yield "failure", [_FAILURES[facts.on_failure]] if facts.policy is not None else []


def _ability(facts: Facts) -> str:
    if facts.address is not None:
        return _ABILITIES["elsewhere"]
    if not facts.sandboxed:
        return _ABILITIES["subprocess"]
    if facts.carrier is None:
        return "nothing: this is not a WebAssembly module"
    if facts.forbidden:
        return _ABILITIES["forbidden"]
    return _ABILITIES["wasi" if facts.wasi else "none"]


def _digest(facts: Facts) -> Iterator[str]:
    if facts.sha256 is not None:
        yield facts.sha256
    if facts.recorded_sha256 is not None:
        if facts.recorded_sha256 == facts.sha256:
            yield "as its manifest records"
        else:
            yield f"NOT as its manifest records: {one_line(facts.recorded_sha256)}"


def _settings(facts: Facts) -> Iterator[str]:
    """The settings that the component knows."""
    for key, setting in facts.settings.items():
        notes: list[str] = [] if setting.type == "any" else [setting.type]
        notes += ["required"] if setting.required else []
        notes += [f"one of {', '.join(map(str, setting.enum))}"] if setting.enum else []
        notes += [f"default {_default(setting.default)}"] if setting.default is not None else []
        kind = f" ({'; '.join(notes)})" if notes else ""
        description = f": {setting.description}" if setting.description else ""
        yield one_line(f"{key}{kind}{description}")


def _default(value: object) -> str:
    """A default as a user would write it, or the beginning of it."""
    if value in ("", [], {}):
        return "empty"
    if isinstance(value, str) and " " not in value:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_DEFAULT else text[: _LONGEST_DEFAULT - 1] + "…"


def _limits(facts: Facts) -> Iterator[str]:
    own = {
        name: value
        for name, value in (facts.limits or {}).items()
        if value is not None and value != DEFAULT_LIMITS.get(name)
    }
    for name, value in own.items():
        yield f"{name} = {limits.shown(name, value)}"
    yield f"{'all others' if own else 'all'} at their defaults (docs/configuration.md#limits)"
    if facts.timeout is not None:
        yield f"timeout = {facts.timeout:g} s"


def _cage(facts: Facts) -> Iterator[str]:
    held = [layer.name for layer in facts.cage if layer.in_force]
    if held:
        yield f"locked up on this machine by: {', '.join(held)} (`conductor doctor` explains)"
    for layer in facts.cage:
        if not layer.in_force:
            yield f"NOT in force: {layer.name}: {one_line(layer.detail)}"


def _policy(policy: PolicyFacts) -> Iterator[Entry]:
    yield _BLANK
    if not policy.enforced:
        yield "", _TRUSTED, ""
        return
    yield "", f"It has: {', '.join(policy.rights) or 'no right'}", ""
    yield from _field("may", *policy.may)
    yield from _field("sees", *policy.sees)
    yield from _field("", _OTHER_MESSAGES if policy.speaks else _SILENT)
    if not policy.speaks:
        return
    yield _BLANK
    yield "", _GUARDS, ""
    for condition, names in _guards(policy.guards):
        yield from _field(condition, names, width=32)
    yield _BLANK
    yield "", f"{_VIOLATIONS[policy.on_violation]}. {_HELD[policy.fails]}.", ""
    if policy.hold is not None:
        yield "", f"It may hold a prompt for {policy.hold:g} s.", ""


def _guards(guards: Iterable[GuardFact]) -> Iterator[tuple[str, str]]:
    """The guards by the right that widens them; first the widened ones."""
    groups: dict[str, list[str]] = {}
    for guard in guards:
        word = "" if guard.lifted_by == TRUSTED else guard.lifted_by
        condition = f"WIDENED by {word}" if guard.lifted else word or "always"
        groups.setdefault(condition, []).append(guard.name)
    ordered = sorted(groups, key=lambda key: (not key.startswith("WIDENED"), key == "always"))
    for condition in ordered:
        yield condition, ", ".join(groups[condition])


def _wants(wants: ShownWants, policy: PolicyFacts) -> Iterator[Entry]:
    """The rights that it asks for, each with its author's reason."""
    asked = wants.rights or {}
    if not asked:
        return
    yield _BLANK
    some = "rights that it does not get" if wants.lacking else "all the rights that it gets"
    yield "", f"Its {wants.source} asks for {some}", ""
    for name, reason in asked.items():
        lacks = "NOT GIVEN: " if name in wants.lacking else ""
        yield from _field("", one_line(f"{lacks}{name}, {reason}"), width=0)
    if not wants.lacking and (more := words.lacking(policy.rights, asked)):
        yield "", one_line(f"It gets more than it asks for: {', '.join(more)}"), ""
