"""The differences between a chain and its lock, and whether each is allowed.

A chain may have fewer rights than its lock: nobody agreed to more, but less harms nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from conductor.core import json_text
from conductor.core.policy import words
from conductor.errors import UsageError
from conductor.spec import digests, limits, origins
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.lock.entries import entries, pinned
from conductor.spec.lock.file import Entry, read
from conductor.spec.model import Spec
from conductor.spec.plan import Plan

_ISOLATIONS: Final = ("separate", "process", "inline")
"""From the strictest on."""

_GIVEN_BY_SHAPE: Final = ("core", "component")
"""Carriers of modules whose shape shows that they speak the channel."""

ALLOWED: Final = "allowed"
WARNED: Final = "warned"
REFUSED: Final = "refused"
VERDICTS: Final = (ALLOWED, WARNED, REFUSED)


class Difference(msgspec.Struct, frozen=True):
    """One difference of a component. `text` is for people, such as `rights: + clock`."""

    text: str
    verdict: str = REFUSED


class Comparison(msgspec.Struct, frozen=True):
    """All differences of a chain."""

    listing: list[str]
    """The components as a diff, if they are others."""
    each: list[tuple[Entry, list[Difference]]]
    """Of the components that are still there: each as it is now, and its differences."""

    def lines(self, *verdicts: str) -> list[str]:
        """The differences for people; without `verdicts`, all of them."""
        lines = ["  components:", *(f"    {row}" for row in self.listing)] if self.listing else []
        for entry, differences in self.each:
            shown = [f"    {d.text}" for d in differences if d.verdict in (verdicts or VERDICTS)]
            lines += [f"  {title(entry)}:", *shown] if shown else []
        return lines


def enforced(plan: Plan, path: str, warn: Callable[[str, str], None]) -> Plan:
    """Holds a chain to the lock file at `path`, before anything is started.

    Args:
        plan: The chain.
        path: The file.
        warn: Called with the name of a component and a sentence for its user.

    Returns:
        The plan, its components with the digests that the lock pins.

    Raises:
        UsageError: There is no such file, it cannot be read, or it does not allow this chain.
    """
    set_by = plan.options.set_by
    who = set_by.get("lock_file", set_by.get("locked"))
    try:
        lock = read(path)
    except UsageError as error:
        raise origins.blamed(error, who) from None
    now = entries(plan, path)
    comparison = compare(lock.component, now, plan)
    refused = "\n".join(comparison.lines(REFUSED))
    if refused:
        raise UsageError(
            f"{path}{origins.by(who)} does not allow this chain\n{refused}",
            "`conductor inspect` shows a component and its rights; `conductor lock COMPONENT…` "
            "with the same components accepts the changes",
        )
    for entry, differences in comparison.each:
        for difference in differences:
            if difference.verdict == WARNED:
                warn(entry.name, f"it differs from the locked one: {difference.text}")
    pairs = zip(plan.components, lock.component, strict=True)
    return plan.of([pinned(spec, entry, path) for spec, entry in pairs])


def compare(
    locked: Sequence[Entry],
    now: Sequence[Entry],
    plan: Plan,
) -> Comparison:
    """Compares the entries of a plan with those that were locked."""
    specs = {spec.name: spec for spec in plan.components}
    listing = []
    if [_key(entry) for entry in locked] != [_key(entry) for entry in now]:
        import difflib

        before, after = ([f"{title(e)}, {e.kind}" for e in chain] for chain in (locked, now))
        named = {f"+ {text}": e.name for text, e in zip(after, now, strict=True)}
        rows = (row.rstrip() for row in difflib.ndiff(before, after) if row[0] != "?")
        listing = [
            f"{row} ({origins.named_by(specs[named[row]])})" if row in named else row
            for row in rows
        ]
    known = {_key(entry): entry for entry in locked}
    pairs = [(known[_key(new)], new) for new in now if _key(new) in known]
    each = [
        (new, [_attributed(one, specs[new.name], plan) for one in _differences(old, new)])
        for old, new in pairs
    ]
    return Comparison(listing, each)


def diff(before: Plan, now: Plan) -> list[str]:
    """The differences of a plan from the plan before, for people. Raises `UsageError`."""
    comparison = compare(entries(before), entries(now), now)
    known = {spec.name: spec for spec in before.components}
    fresh = {spec.name: spec for spec in now.components}
    for entry, differences in comparison.each:
        differences.extend(_settings(known[entry.name], fresh[entry.name]))
    return comparison.lines()


def _settings(before: Spec, now: Spec) -> Iterator[Difference]:
    """The settings that a component declares, and did or does not."""
    old, new = (
        [
            f"{key} ({one.type}{', required' if one.required else ''})"
            for key, one in spec.schema.items()
        ]
        for spec in (before, now)
    )
    yield from _listed("settings", "+", (one for one in new if one not in old), refused=False)
    yield from _listed("settings", "-", (one for one in old if one not in new), refused=False)


def title(entry: Entry) -> str:
    """A component for people: `proxy (./proxy.wasm)`."""
    what = "" if entry.source == entry.name else f" ({entry.source})"
    return one_line(f"{entry.name}{what}" + (", agent" if entry.role == "agent" else ""))


def _attributed(difference: Difference, spec: Spec, plan: Plan) -> Difference:
    """The difference with who set the value of now; else with who named the component."""
    key, _, rest = difference.text.partition(": ")
    if rest.startswith("- "):  # nobody has set a word that is gone
        return difference
    if key == "rights" and rest.startswith("+ "):
        added = (word.removeprefix("+ ") for word in rest.split(", "))
        text = ", ".join(f"+ {word} ({origins.giver(spec, word)})" for word in added)
        return msgspec.structs.replace(difference, text=f"{key}: {text}")
    found = origins.of(spec)
    settings = dict.fromkeys(by for name, by in found.items() if name.startswith(f"{key}."))
    by = plan.origin(key) if key == "isolation" else found.get(key) or ", ".join(settings)
    if not by:
        by = origins.DEFAULT if origins.has_default(key) else origins.named_by(spec)
    text = f"{difference.text} ({by})"
    return msgspec.structs.replace(difference, text=text)


def _key(entry: Entry) -> tuple[str, str, str, str]:
    """The identity of a component. The path of a module or script is no part of it. The digest of
    the file is compared apart (`compare`)."""
    source = "" if entry.kind in ("module", "script") else entry.source
    return entry.name, entry.role, entry.kind, source


def one_line(text: str) -> str:
    """`text` without line breaks."""
    return " ".join(text.split())


def _differences(old: Entry, new: Entry) -> Iterator[Difference]:
    yield from _digests(old, new)
    if old.signer != new.signer:
        yield _moved("signer", old.signer, new.signer, refused=old.signer is not None)
    for key in ("args", "env", "config", "config_file"):
        before, now = getattr(old, key), getattr(new, key)
        if (before or None) != (now or None):
            yield _moved(key, _shown(before), _shown(now), refused=True)
    if old.carrier not in _GIVEN_BY_SHAPE and old.dialect != new.dialect:
        yield _moved("dialect", old.dialect, new.dialect, refused=old.dialect is not None)
    if new.role == "proxy":
        yield from _policy(old, new)
    if old.on_failure != new.on_failure:
        wider = not _actions(new) <= _actions(old)
        yield _moved("on_failure", old.on_failure, new.on_failure, refused=wider)
    yield from _longer("timeout", old.timeout, new.timeout)
    yield from _sandbox(old, new)


def _digests(old: Entry, new: Entry) -> Iterator[Difference]:
    verdict = REFUSED if old.pinned else WARNED
    if old.sha256 != new.sha256:
        yield Difference(_digest_text("digest", old.sha256, new.sha256), verdict)
    for before, after in zip(old.files, new.files, strict=False):
        if before.sha256 != after.sha256:
            yield Difference(_digest_text(after.path, before.sha256, after.sha256), verdict)
    for sign, files in (("-", old.files[len(new.files) :]), ("+", new.files[len(old.files) :])):
        yield from (Difference(f"files: {sign} {file.path}", verdict) for file in files)


def _digest_text(key: str, before: str | None, now: str | None) -> str:
    shown = (f"sha256:{digests.short(digest)}" if digest else "none" for digest in (before, now))
    return f"{one_line(key)}: {' → '.join(shown)}"


def _shown(value: object) -> str | None:
    if not value:
        return None
    return value if isinstance(value, str) else json_text.encode(value).decode()


def _moved(key: str, before: object, now: object, *, refused: bool) -> Difference:
    shown = ("none" if value is None else one_line(str(value)) for value in (before, now))
    return Difference(f"{key}: {' → '.join(shown)}", REFUSED if refused else ALLOWED)


def _listed(key: str, signs: str, words: Iterable[str], *, refused: bool) -> Iterator[Difference]:
    listed = ", ".join(f"{signs} {one_line(word)}" for word in words)
    if listed:
        yield Difference(f"{key}: {listed}", REFUSED if refused else ALLOWED)


def _policy(old: Entry, new: Entry) -> Iterator[Difference]:
    # Words that have got another meaning are other words.
    kept = old.rights if words.meaning(*old.rights) == old.meaning else ()
    yield from _listed("rights", "+", words.lacking(new.rights, kept), refused=True)
    yield from _listed("rights", "-", words.lacking(old.rights, new.rights), refused=False)
    # The lock of a trusted component says nothing about `fails`: nothing stops such a component.
    if old.fails != new.fails and words.TRUSTED not in (*old.rights, *new.rights):
        yield _moved("fails", old.fails, new.fails, refused=new.fails == "open")
    yield from _longer("hold", old.hold, new.hold)
    if old.on_violation != new.on_violation:
        wider = new.on_violation == "pass"
        yield _moved("on_violation", old.on_violation, new.on_violation, refused=wider)
    if old.enforce != new.enforce:
        yield _moved("enforce", old.enforce, new.enforce, refused=new.enforce != "all")


def _longer(key: str, before: float | None, now: float | None) -> Iterator[Difference]:
    """A time in seconds; None: without end."""
    if before != now:
        wider = before is not None and (now is None or now > before)
        shown = (None if time is None else f"{time:g} s" for time in (before, now))
        yield _moved(key, *shown, refused=wider)


def _actions(entry: Entry) -> set[str]:
    """The actions on a failure of the component, besides the end of the chain."""
    return set(entry.on_failure.split("+")) - {"fail"}


def _sandbox(old: Entry, new: Entry) -> Iterator[Difference]:
    if new.isolation is None:
        return
    if old.isolation != new.isolation:
        most = _ISOLATIONS.index(old.isolation) if old.isolation in _ISOLATIONS else 0
        wider = _ISOLATIONS.index(new.isolation) > most
        yield _moved("isolation", old.isolation, new.isolation, refused=wider)
    for name in limits.LIMITS:
        before = old.limits.get(name, DEFAULT_LIMITS.get(name))
        now = new.limits.get(name)
        if before != now:
            wider = before is not None and (now is None or now > before)
            amounts = (limits.shown(name, limit) for limit in (before, now))
            yield _moved(f"limits.{name}", *amounts, refused=wider)
