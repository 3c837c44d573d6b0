"""The facts of `conductor inspect` as a person reads them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from conductor.cli import inspect_policy
from conductor.errors import CONTINUED, one_line
from conductor.spec.limits import DEFAULT_LIMITS, LIMITS

if TYPE_CHECKING:
    from conductor.cli.inspect_facts import Facts
    from conductor.cli.inspect_policy import GuardFact, PolicyFacts

DETECTED: Final = "detected when it starts"

_WIDTH: Final = 11
_LONGEST_DEFAULT: Final = 72
_NARROWEST: Final = 60
_CARRIERS: Final = {
    "core": "core module: channel/1 called directly",
    "component": "WebAssembly component: channel/1 as text",
    "python": "Python source, run by CPython inside WebAssembly: channel/1 as text",
    "wasi": "WASI command: JSON-RPC lines on its standard input and output",
    "unknown": "unknown: it has no way in for messages",
}
_POWERS: Final = {
    "none": "this module cannot call anything; it can only return messages",
    "wasi": "this module can only return messages: its WASI imports are answered by stubs that "
    "give nothing away; clock and random work if granted",
    "forbidden": "this module asks for functions no guest gets, so it is refused",
    "subprocess": "UNSANDBOXED: it runs with your rights, so it can read and write your files, "
    "use the network and start programs",
}
_ISOLATION: Final = (
    "process: in a child process with an empty environment, together with sandboxed neighbours "
    "(--isolation separate|inline: alone, or in the conductor itself)"
)
_VIOLATIONS: Final = {
    "pass": "What breaks a rule is undone and reported; the session goes on",
    "fail": "What breaks a rule is undone and reported, and ends the component",
}
_HELD: Final = {
    "open": "A request it held when it failed goes on as it was",
    "closed": "A request it held when it failed is refused",
}
_FAILURES: Final = {
    "fail": "the chain ends if it fails",
    "restart": "it is started again if it fails, a few times; then the chain ends",
    "bypass": "the chain goes on without it if it fails",
    "restart+bypass": "it is started again if it fails, a few times; then the chain goes on "
    "without it",
}


def lines(facts: Facts, width: int) -> Iterator[str]:
    """The facts, one or more lines each, wrapped at `width` columns."""
    page = _Page(max(width, _NARROWEST))
    version = f" {one_line(facts.version)}" if facts.version else ""
    yield f"{one_line(facts.name)}{version}: {facts.kind}, {facts.role}"
    if facts.description:
        yield from page.quoted(one_line(facts.description))
    yield ""
    yield from _what(facts, page)
    if facts.policy is not None:
        yield from _policy(facts.policy, page)
    yield from _wants(facts, page)
    for note in facts.notes:
        yield ""
        yield from page.text(f"note: {one_line(note, 1000)}")


class _Page:
    """Wraps what is printed; words are never broken, so that paths and digests can be copied."""

    def __init__(self, width: int) -> None:
        self._width = width

    def field(self, label: str, *values: str, width: int = _WIDTH) -> Iterator[str]:
        """A label and what belongs to it, one or more lines each."""
        for at, value in enumerate(values):
            head = f"  {'' if at else label:<{width}}"
            yield from self._wrapped(value, head, " " * len(head))

    def text(self, text: str) -> Iterator[str]:
        """A paragraph."""
        yield from self._wrapped(text, "", "")

    def quoted(self, text: str) -> Iterator[str]:
        """A paragraph in somebody else's words: none of its lines begins as ours do."""
        yield from self._wrapped(text, CONTINUED, CONTINUED)

    def _wrapped(self, text: str, first: str, rest: str) -> Iterator[str]:
        yield from textwrap.wrap(
            text,
            self._width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]


def _what(facts: Facts, page: _Page) -> Iterator[str]:
    yield from page.field("can do", _power(facts))
    if facts.command is not None:
        yield from page.field("command", " ".join(map(one_line, facts.command)))
    if facts.file is not None:
        yield from page.field("file", one_line(facts.file, 1000))
    if facts.size is not None:
        yield from page.field("size", f"{facts.size} bytes")
    if facts.sha256 is not None:
        yield from page.field("sha256", facts.sha256, *_verified(facts))
    if facts.carrier is not None:
        yield from page.field("carrier", _CARRIERS[facts.carrier])
    if facts.exports is not None:
        yield from _imports(facts, page)
        yield from page.field("exports", ", ".join(map(one_line, facts.exports or ["none"])))
    if facts.dialect != "none":
        yield from page.field("dialect", facts.dialect)
    if facts.services:
        yield from page.field("services", *map(one_line, _services(facts)))
    if facts.settings:
        yield from page.field("settings", *_settings(facts))
    if facts.config:
        yield from page.field("config", *(f"{k} = {one_line(v)}" for k, v in facts.config.items()))
    if facts.limits is not None:
        yield from page.field("limits", ", ".join(_limits(facts)))
    if facts.isolation != "none":
        yield from page.field("isolation", _ISOLATION, *_cage(facts))
    if facts.kind != "file" and facts.policy is not None:
        yield from page.field("failure", _FAILURES[facts.on_failure])


def _power(facts: Facts) -> str:
    if not facts.sandboxed:
        return _POWERS["subprocess"]
    if facts.carrier is None:
        return "nothing: this is no WebAssembly module"
    if facts.forbidden:
        return _POWERS["forbidden"]
    return _POWERS["wasi" if facts.wasi else "none"]


def _verified(facts: Facts) -> Iterator[str]:
    if facts.recorded_sha256 is None:
        return
    if facts.recorded_sha256 == facts.sha256:
        yield "as its manifest records"
    else:
        yield f"NOT as its manifest records: {one_line(facts.recorded_sha256)}"


def _imports(facts: Facts, page: _Page) -> Iterator[str]:
    if not facts.imports:
        yield from page.field("imports", "none")
    if facts.wasi:
        yield from page.field("imports", *(f"{one_line(name)}: stub" for name in facts.wasi))
    if facts.forbidden:
        yield from page.field("forbidden", *map(one_line, facts.forbidden))


def _services(facts: Facts) -> Iterator[str]:
    others = []
    for service in facts.services:
        if not service.granted and not service.reason:
            others.append(service.name)
            continue
        granted = "granted" if service.granted else "not granted"
        reason = f", wanted {service.reason}" if service.reason else ""
        yield f"{service.name}: {granted}{reason}"
    if others:
        yield f"not granted: {', '.join(others)}"


def _settings(facts: Facts) -> Iterator[str]:
    """What may be set, as its manifest says."""
    for key, one in facts.settings.items():
        more = [] if one.type == "any" else [one.type]
        more += ["required"] if one.required else []
        more += [f"one of {', '.join(map(str, one.enum))}"] if one.enum else []
        more += [f"{_default(one.default)} if not given"] if one.default is not None else []
        said = f": {one.description}" if one.description else ""
        kind = f" ({'; '.join(more)})" if more else ""
        yield one_line(f"{key}{kind}{said}")


def _default(value: object) -> str:
    """A default as it would be given, or the beginning of it."""
    if value in ("", [], {}):
        return "empty"
    if isinstance(value, str) and " " not in value:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_DEFAULT else text[: _LONGEST_DEFAULT - 1] + "…"


def _limits(facts: Facts) -> Iterator[str]:
    found = (facts.limits or {}).items()
    own = [(name, n) for name, n in found if n is not None and n != DEFAULT_LIMITS.get(name)]
    for name, value in own:
        yield f"{name} = {_SHOWN.get(LIMITS[name], str)(value)}"
    yield f"{'all others' if own else 'all'} at their defaults (docs/limits.md)"
    if facts.timeout is not None:
        yield f"timeout = {facts.timeout:g} s"


def _sized(number: int) -> str:
    for unit, factor in (("MiB", 1024**2), ("KiB", 1024)):
        if number % factor == 0:
            return f"{number // factor} {unit}"
    return str(number)


_SHOWN: Final = {"size": _sized, "time": "{} ms".format, "percent": "{} %".format}
"""How limits are written, by what they are measured in."""


def _cage(facts: Facts) -> Iterator[str]:
    held = [layer.name for layer in facts.cage if layer.in_force]
    if held:
        yield f"locked up on this machine by: {', '.join(held)} (`conductor doctor` explains)"
    for layer in facts.cage:
        if not layer.in_force:
            yield f"NOT in force: {layer.name}: {one_line(layer.detail)}"


# -- what it may do to the conversation --------------------------------------------------------


def _policy(policy: PolicyFacts, page: _Page) -> Iterator[str]:
    yield ""
    if not policy.enforced:
        yield from page.text(
            "Trusted: no rule is enforced on what it does to the conversation. A profile changes "
            "that, e.g. `,profile=filter` after the component: then the guards apply."
        )
        return
    yield f"To the conversation it may (profile {policy.profile})"
    for label, what in policy.may:
        yield from page.field(label, what, width=20)
    yield from page.field("", _rest(policy), width=20)
    if not policy.speaks:
        return
    yield ""
    yield from page.text(
        "Guards hold, whatever it may do: some unless a grant widens them, the others always "
        "(docs/security.md says what each stops)"
    )
    for how, names in _guards(policy.guards):
        yield from page.field(how, names, width=25)
    yield ""
    yield from page.text(f"{_VIOLATIONS[policy.on_violation]}. {_HELD[policy.fails]}")
    if policy.hold is not None:
        yield from page.text(f"It may hold a prompt for {policy.hold:g} s.")


def _rest(policy: PolicyFacts) -> str:
    if not policy.speaks:
        return "nothing it says reaches anybody, so no guard is needed"
    return "all else goes past it unseen, and nothing else of its own goes out"


def _guards(guards: Iterable[GuardFact]) -> Iterator[tuple[str, str]]:
    """The guards by what widens them, those first that are widened."""
    groups: dict[str, list[str]] = {}
    for guard in guards:
        grant = inspect_policy.widener(guard.lifted_by)
        how = f"WIDENED by {grant}" if guard.lifted else grant or "always"
        groups.setdefault(how, []).append(guard.name)
    for how in sorted(groups, key=lambda how: (not how.startswith("WIDENED"), how == "always")):
        yield how, ", ".join(groups[how])


def _wants(facts: Facts, page: _Page) -> Iterator[str]:
    wants, policy = facts.wants, facts.policy
    missing = [f"service {name}, {wants.services[name]}" for name in wants.not_granted]
    asked = wants.profile or wants.services or wants.rights or wants.grants
    if policy is None or not asked:
        return
    if not wants.profile_granted:
        why = f", {wants.reason}" if wants.reason else ""
        missing.append(f"profile {wants.profile}{why}; it is given {policy.profile}")
    missing += [f"the right {rule}, {wants.rights[rule]}" for rule in wants.rights_not_granted]
    missing += [f"{one}, {wants.grants[one]}" for one in wants.grants_not_given]
    yield ""
    if missing:
        yield f"Its {wants.source} asks for what it is not granted"
        for one in missing:
            yield from page.field("", one_line(one), width=0)
    else:
        yield f"Its {wants.source} asks for nothing that it is not granted"
    if wants.profile_granted and wants.profile not in (None, policy.profile):
        yield from page.text(
            one_line(
                f"It is given more than it asks for: profile {policy.profile}, where "
                f"{wants.profile} would do (`,profile={wants.profile}` after the component)"
            )
        )
