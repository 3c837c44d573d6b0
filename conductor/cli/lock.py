"""`conductor lock COMPONENT…`: writes down what a chain is and what it may do at most."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Callable, Sequence

import msgspec

from conductor.cli import report
from conductor.cli.version import version
from conductor.errors import UsageError
from conductor.run.plan import LOCK_FILE, Options
from conductor.spec import component_options, digests, toml
from conductor.spec.catalog import Spec, resolve_all
from conductor.spec.lock import compare, reading, writing
from conductor.spec.lock.entries import entries as entries_now
from conductor.spec.lock.entries import without_secrets, without_secrets_in
from conductor.spec.lock.values import VERSION, Entry, Lock

EXIT_STALE = 1


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. `pin_agent`: None keeps what the file says, which is no at first."""

    components: list[str]
    path: str = LOCK_FILE
    check: bool = False
    proxy: bool = False
    isolation: str = Options().isolation
    pin_agent: bool | None = None
    upgrade: bool = False


def run(wanted: Wanted) -> int:
    """Writes or checks the file; the exit code. Raises `UsageError`."""
    if wanted.upgrade:
        return _upgrade(wanted)
    if not wanted.components:
        raise UsageError("nothing to lock", "name the components: `conductor lock COMPONENT…`")
    specs = resolve_all(wanted.components, agent_last=not wanted.proxy)
    lock = _before(wanted.path)
    before = lock.component if lock is not None else None
    entries = _entries(wanted, specs, before)
    if wanted.check:
        return _check(wanted, lock, entries)
    if (
        lock is not None
        and lock.version == VERSION
        and _same(lock.component, entries, _without_place)
    ):
        report.say(f"{wanted.path} is up to date: {_count(entries)}")
        return 0
    writing.save(wanted.path, writing.document(entries, _head(wanted)))
    lines = [_line(one) for one in entries] if before is None else _changes(before, entries)
    made = "written" if before is None else "updated"
    report.say(f"{wanted.path} {made}: {_count(entries)}", *lines)
    return 0


def _upgrade(wanted: Wanted) -> int:
    """Rewrites a file of an older version in today's words: what is locked stays the same."""
    from conductor.spec.lock import older

    if wanted.components or wanted.check or wanted.proxy or wanted.pin_agent is not None:
        raise UsageError(
            "`--upgrade` rewrites what the file says, and takes no components",
            "`conductor lock --upgrade`, with --output FILE for another file",
        )
    text = reading.text_of(wanted.path)
    lock = reading.parse(text, wanted.path)
    if lock.version == VERSION:
        report.say(f"{wanted.path} is in today's words: {_count(lock.component)}")
        return 0
    comments = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    head = [line.removeprefix("#").removeprefix(" ") for line in comments]
    writing.save(wanted.path, writing.document(lock.component, head))
    lines = [f"{wanted.path} rewritten in today's words: {_count(lock.component)}"]
    for one in older.translated(toml.loads(text))[1]:
        lines.append(f"  {one.component}: {one.said} → {one.today or 'nothing'}")
        lines += [f"    {one.lost}"] if one.lost else []
    report.say(*lines)
    return 0


def _before(path: str) -> Lock | None:
    """What the file says so far; None if there is none. What is no lock is not overwritten."""
    if not os.path.lexists(path):
        return None
    try:
        return reading.read(path)
    except UsageError as error:
        raise UsageError(error.text, "remove it, or name another with --output FILE") from None


def _entries(wanted: Wanted, specs: Sequence[Spec], before: list[Entry] | None) -> list[Entry]:
    agent_last = not wanted.proxy and not specs[-1].sandboxed
    found = entries_now(specs, wanted.path, agent_last=agent_last, isolation=wanted.isolation)
    pinned = wanted.pin_agent
    if pinned is None:
        pinned = any(one.role == "agent" and one.pinned for one in before or ())
    if wanted.pin_agent is not None and not agent_last:
        raise UsageError("there is no agent in this chain to be locked", "leave out --lock-agent")
    found = [writing.described(entry, spec) for entry, spec in zip(found, specs, strict=True)]
    if agent_last:
        found[-1] = msgspec.structs.replace(found[-1], pinned=pinned)
    return found


def _check(wanted: Wanted, lock: Lock | None, entries: list[Entry]) -> int:
    if lock is None:
        raise UsageError(f"no lock file `{wanted.path}`", "make it: leave out --check")
    before = lock.component
    if lock.version == VERSION and _same(before, entries, _material):
        report.say(f"{wanted.path} is up to date: {_count(entries)}")
        return 0
    lines = "\n".join(_changes(before, entries))
    report.error(f"{wanted.path} would change\n{lines}", "leave out --check to write it")
    return EXIT_STALE


def _same(before: Sequence[Entry], now: Sequence[Entry], part: Callable[[Entry], Entry]) -> bool:
    return [part(one) for one in before] == [part(one) for one in now]


def _without_place(entry: Entry) -> Entry:
    """The entry without what differs by machine."""
    return msgspec.structs.replace(entry, program=None)


def _material(entry: Entry) -> Entry:
    """The entry without what may change besides."""
    entry = _without_place(entry)
    return entry if entry.pinned else msgspec.structs.replace(entry, sha256=None, files=[])


def _changes(before: Sequence[Entry], entries: Sequence[Entry]) -> list[str]:
    lines = compare.compare(before, entries).lines()
    return lines or ["  what is said of the components, not what they are or may do"]


def _line(entry: Entry) -> str:
    digest = f" sha256:{digests.short(entry.sha256)}" if entry.sha256 else ""
    pinned = "" if entry.pinned else ", not pinned"
    return f"  {compare.title(entry)}:{digest}{pinned}"


def _count(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} component{'' if len(entries) == 1 else 's'}"


def _head(wanted: Wanted) -> list[str]:
    """The comment: what the file is, and how it was made."""
    components = [_shown(one) for one in wanted.components]
    options = ["--proxy"] if wanted.proxy else []
    if wanted.isolation != Wanted(components=[]).isolation:
        options += ["--isolation", wanted.isolation]
    if wanted.pin_agent:
        options.append("--lock-agent")
    command = "proxy" if wanted.proxy else "agent"
    return [
        f"{LOCK_FILE}: which components may run, and what each may do at most.",
        f"Written by conductor {version()}; not to be edited by hand. Made, and made anew, by",
        f"    {shlex.join(['conductor', 'lock', *options, *components])}",
        "and obeyed by",
        f"    {shlex.join(['conductor', command, '--locked', *components])}",
        'What is pinned and what is not: docs/cli.md, "Locks".',
    ]


def _shown(component: str) -> str:
    """A component as it was typed, without what looks like a secret."""
    if component.lstrip().startswith("{"):
        held = msgspec.json.decode(component)
        return msgspec.json.encode(without_secrets_in(held)).decode()
    base, options = component_options.split(component)
    words = shlex.split(base)
    clean = without_secrets(words)
    shown = without_secrets([f"{key}={value}" for key, value in options])
    return ",".join([base if clean == words else shlex.join(clean), *shown])
