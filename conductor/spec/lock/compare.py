"""What has changed since a chain was locked, and whether that is allowed: less is, more is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from conductor.core.policy.rule_syntax import parse_grant, parse_rule
from conductor.core.policy.rules import (
    NO_PROFILE,
    TRUSTED,
    Grants,
    Policy,
    lacking,
    merged,
    permits,
)
from conductor.spec import digests
from conductor.spec.limits import DEFAULT_LIMITS, LIMITS
from conductor.spec.lock.values import ALL, Entry

_ISOLATIONS: Final = ("separate", "process", "inline")
"""From the strictest on."""

_GIVEN_BY_SHAPE: Final = ("core", "component")
"""Carriers of modules that speak the channel by what they are."""

_UNITS: Final = ((1 << 20, "MiB"), (1 << 10, "KiB"))

ALLOWED: Final = "allowed"
WARNED: Final = "warned"
REFUSED: Final = "refused"
VERDICTS: Final = (ALLOWED, WARNED, REFUSED)


class Difference(msgspec.Struct, frozen=True):
    """One difference of a component. `text` is for people, such as `services: + clock`."""

    text: str
    verdict: str = REFUSED


class Comparison(msgspec.Struct, frozen=True):
    """All there is to say of a chain. `listing`: the components as a diff, if they are others."""

    listing: list[str]
    each: list[tuple[Entry, list[Difference]]]
    """Of the components that are still there: each as it is now, and its differences."""

    def lines(self, *verdicts: str) -> list[str]:
        """What is different, for people; without `verdicts`, all of it."""
        lines = ["  components:", *(f"    {one}" for one in self.listing)] if self.listing else []
        for entry, found in self.each:
            shown = [f"    {one.text}" for one in found if one.verdict in (verdicts or VERDICTS)]
            lines += [f"  {title(entry)}:", *shown] if shown else []
        return lines

    def refusal(self) -> str:
        """What is not allowed; empty if everything is."""
        return "\n".join(self.lines(REFUSED))

    def warnings(self) -> Iterator[tuple[str, str]]:
        """Names of components, and what may be worth knowing of them."""
        for entry, found in self.each:
            for one in found:
                if one.verdict == WARNED:
                    yield entry.name, f"it is not what was locked: {one.text}"


def compare(locked: Sequence[Entry], now: Sequence[Entry]) -> Comparison:
    """Compares a chain with the one that was locked."""
    listing = []
    if [_key(one) for one in locked] != [_key(one) for one in now]:
        import difflib

        before, after = [_described(one) for one in locked], [_described(one) for one in now]
        listing = [one.rstrip() for one in difflib.ndiff(before, after) if one[0] != "?"]
    known = {_key(one): one for one in locked}
    pairs = [(known[_key(new)], new) for new in now if _key(new) in known]
    return Comparison(listing, [(new, list(differences(old, new))) for old, new in pairs])


def title(entry: Entry) -> str:
    """A component for people: `proxy (./proxy.wasm)`."""
    what = "" if entry.source == entry.name else f" ({entry.source})"
    return one_line(f"{entry.name}{what}" + (", agent" if entry.role == "agent" else ""))


def _described(entry: Entry) -> str:
    """The same, with all that makes it another component."""
    return f"{title(entry)}, {entry.kind}"


def _key(entry: Entry) -> tuple[str, str, str, str]:
    """What makes two components the same one: where a module lies does not matter."""
    return (
        entry.name,
        entry.role,
        entry.kind,
        "" if entry.kind in ("module", "script") else entry.source,
    )


def one_line(text: str) -> str:
    """`text` without line breaks."""
    return " ".join(text.split())


def differences(old: Entry, new: Entry) -> Iterator[Difference]:
    """What is different in one component."""
    yield from _digests(old, new)
    for key in ("args", "env", "config", "config_file"):
        yield from _changed(key, getattr(old, key), getattr(new, key))
    given = old.carrier in _GIVEN_BY_SHAPE
    if not given and old.dialect != new.dialect:
        yield _moved("dialect", old.dialect, new.dialect, refused=old.dialect is not None)
    if new.role == "proxy":
        yield from _services(old, new)
        yield from _policy(old, new)
        if old.on_failure != new.on_failure:
            wider = not _actions(new) <= _actions(old)
            yield _moved("on_failure", old.on_failure, new.on_failure, refused=wider)
    if old.timeout != new.timeout:
        wider = old.timeout is not None and (new.timeout is None or new.timeout > old.timeout)
        yield _moved("timeout", _seconds(old.timeout), _seconds(new.timeout), refused=wider)
    yield from _sandbox(old, new)


def _digests(old: Entry, new: Entry) -> Iterator[Difference]:
    verdict = REFUSED if old.pinned else WARNED
    if old.sha256 != new.sha256:
        yield Difference(_digest_text("digest", old.sha256, new.sha256), verdict)
    for before, after in zip(old.files, new.files, strict=False):
        if before.sha256 != after.sha256:
            yield Difference(_digest_text(after.path, before.sha256, after.sha256), verdict)
    known = len(new.files)
    yield from (Difference(f"files: - {one.path}", verdict) for one in old.files[known:])
    known = len(old.files)
    yield from (Difference(f"files: + {one.path}", verdict) for one in new.files[known:])


def _digest_text(key: str, before: str | None, now: str | None) -> str:
    shown = (f"sha256:{digests.short(one)}" if one else "none" for one in (before, now))
    return f"{one_line(key)}: {' → '.join(shown)}"


def _changed(key: str, before: object, now: object) -> Iterator[Difference]:
    if (before or None) != (now or None):
        yield _moved(key, _shown(before), _shown(now), refused=True)


def _shown(value: object) -> str | None:
    if not value:
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _moved(key: str, before: object, now: object, *, refused: bool) -> Difference:
    shown = (one_line(str(one)) if one is not None else "none" for one in (before, now))
    return Difference(f"{key}: {' → '.join(shown)}", REFUSED if refused else ALLOWED)


def _listed(key: str, signs: str, words: Iterable[str], *, refused: bool) -> Iterator[Difference]:
    listed = ", ".join(f"{signs} {one_line(word)}" for word in words)
    if listed:
        yield Difference(f"{key}: {listed}", REFUSED if refused else ALLOWED)


def _services(old: Entry, new: Entry) -> Iterator[Difference]:
    before, now = old.services, new.services
    if before == now:
        return
    if ALL in (before, now):
        shown = (ALL if one == ALL else "+".join(one) or "none" for one in (before, now))
        yield _moved("services", *shown, refused=now == ALL)
        return
    yield from _listed("services", "+", _without(now, before), refused=True)
    yield from _listed("services", "-", _without(before, now), refused=False)


def _without(words: Iterable[str], others: Iterable[str]) -> list[str]:
    return sorted(set(words) - set(others))


def _policy(old: Entry, new: Entry) -> Iterator[Difference]:
    before, after = policy_of(old), policy_of(new)
    more = [text for text in new.rights if not permits(before, parse_rule(text))]
    less = [text for text in old.rights if not permits(after, parse_rule(text))]
    wider = bool(more) or (after is None and before is not None)
    if old.profile != new.profile:
        yield _moved("profile", old.profile, new.profile, refused=wider)
    yield from _listed("rights", "+", more, refused=True)
    yield from _listed("rights", "-", less, refused=False)
    if before is None or after is None:
        return
    yield from _listed("grants", "+", lacking(after.grants, before.grants).words(), refused=True)
    yield from _listed("grants", "-", lacking(before.grants, after.grants).words(), refused=False)
    if old.fails != new.fails:
        yield _moved("fails", old.fails, new.fails, refused=new.fails == "open")
    if old.hold != new.hold:
        wider = old.hold is not None and (new.hold is None or new.hold > old.hold)
        yield _moved("hold", _seconds(old.hold), _seconds(new.hold), refused=wider)
    if old.on_violation != new.on_violation:
        wider = new.on_violation == "pass"
        yield _moved("on_violation", old.on_violation, new.on_violation, refused=wider)


def policy_of(entry: Entry) -> Policy | None:
    """What an entry allows; None: everything."""
    if entry.profile == TRUSTED:
        return None
    grants = Grants()
    for text in entry.grants:
        grants = merged(grants, parse_grant(text))
    return Policy(NO_PROFILE, tuple(parse_rule(text) for text in entry.rights), grants)


def _actions(entry: Entry) -> set[str]:
    """What may happen to the chain when it fails, besides that it ends."""
    return set(entry.on_failure.split("+")) - {"fail"}


def _seconds(time: float | None) -> str | None:
    return None if time is None else f"{time:g} s"


def _sandbox(old: Entry, new: Entry) -> Iterator[Difference]:
    if new.isolation is None:
        return
    if old.isolation != new.isolation:
        most = _ISOLATIONS.index(old.isolation) if old.isolation in _ISOLATIONS else 0
        wider = _ISOLATIONS.index(new.isolation) > most
        yield _moved("isolation", old.isolation, new.isolation, refused=wider)
    for name, measure in LIMITS.items():
        before = old.limits.get(name, DEFAULT_LIMITS.get(name))
        now = new.limits.get(name)
        if before != now:
            wider = before is not None and (now is None or now > before)
            shown = (amount(measure, one) for one in (before, now))
            yield _moved(f"limits.{name}", *shown, refused=wider)


def amount(measure: str, value: int | None) -> str:
    """A limit for people: `16 MiB`, `500 ms`, `off`."""
    if value is None:
        return "off"
    if measure == "time":
        return f"{value} ms"
    if measure == "size":
        for size, unit in _UNITS:
            if value % size == 0:
                return f"{value // size} {unit}"
    return str(value)
