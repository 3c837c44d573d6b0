"""`conductor lock COMPONENT…`: writes down the components of a chain and their greatest rights."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

import wasm_host
from conductor.author.caged import CagedReader
from conductor.cli import configured, consent, report
from conductor.cli.config_show import shown
from conductor.cli.typer_options import argument, option, paragraphs, switch, takes
from conductor.core.dialects import CHANNEL
from conductor.errors import UsageError, counted
from conductor.spec import digests, option_table
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.lock import compare, file, offers
from conductor.spec.lock.entries import entries as entries_of
from conductor.spec.lock.file import Entry, Lock, Server
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.spec.parsed import assemble, planned
from conductor.spec.paths import LOCK_FILE
from conductor.spec.plan import Plan
from conductor.version import version

if TYPE_CHECKING:
    from conductor.spec.parsed import Parsed

HELP: Final = paragraphs(
    "Write a lock file: the components of a chain, with the most rights of each. With --locked, a "
    "chain refuses a component that has changed.",
    "Exit code 1 with --check, when the file would change.",
)
EPILOG: Final = (
    "Examples:\n\n  conductor lock datetime ./proxy.wasm,allow=clock claude\n\n"
    "  conductor agent --locked datetime ./proxy.wasm,allow=clock claude"
)

_Lockable = Annotated[
    list[str] | None,
    argument("COMPONENT", "The components, as `agent` takes them."),
]
_LockFile = Annotated[str, option("--output -o", "FILE", "The file to write.")]
_Check = Annotated[bool, switch("--check", "Fail if the file would change, and write nothing.")]
_ForProxy = Annotated[
    bool,
    switch(
        "--proxy",
        "Lock a chain without an agent. Default: the last component is the agent, "
        "unless it is sandboxed.",
    ),
]
_LockAgent = Annotated[
    str | None,
    option(
        "--lock-agent",
        "on|off",
        "Refuse an agent whose program has changed, instead of reporting the change. Default: as "
        "the file says; off in a new file.",
    ),
]

EXIT_STALE = 1
_on: Final = option_table.one_of("on", "off")
_BY_SHAPE = ("core", "component")
"""Carriers that speak the channel by their ABI."""


@takes("lock")
def lock(
    components: _Lockable = None,
    output: _LockFile = LOCK_FILE,
    check: _Check = False,
    proxy: _ForProxy = False,
    lock_agent: _LockAgent = None,
    **values: Any,
) -> int:
    """Writes the lock file of a chain."""
    parsed = assemble("proxy" if proxy else "agent", components or [], **values)
    pinned = None
    if lock_agent is not None:
        pinned = option_table.read("--lock-agent", lock_agent, _on) == "on"
    return run(configured.applied(parsed), components or [], output, pinned=pinned, check=check)


def run(
    parsed: Parsed,
    typed: Sequence[str],
    path: str = LOCK_FILE,
    *,
    pinned: bool | None = None,
    check: bool = False,
) -> int:
    """Writes or checks the file; the exit code. Raises `ConductorError`.

    Args:
        parsed: The chain.
        typed: Its components as they were typed.
        path: The file.
        pinned: Whether another program of the agent is refused; None: as the file says.
        check: Write nothing.
    """
    if not parsed.components:
        chains = sorted(parsed.config.chains) if parsed.config is not None else []
        named = f", or a chain of the configuration: @{', @'.join(chains)}" if chains else ""
        hint = f"name the components, `conductor lock COMPONENT…`{named}"
        raise UsageError("nothing to lock", hint)
    plan, _ = consent.kept(planned(parsed))  # as `--locked` will see it
    lock = _existing(path)
    before = lock.component if lock is not None else None
    entries = _entries(plan, path, before, pinned)
    servers = offers.of(plan.components, client=plan.options.pin_mcp)
    if check:
        return _check(path, lock, entries, plan, servers)
    if lock is not None and _placeless(lock) == _placeless(entries) and lock.server == servers:
        report.say(f"{path} is up to date: {_count(entries)}")
        return 0
    file.save(path, file.document(entries, _head(parsed, typed, pinned=pinned), servers))
    if lock is None:
        lines = [*map(_line, entries), *map(offers.line, servers)]
    else:
        lines = _changes(lock, entries, plan, servers)
    written = "written" if before is None else "updated"
    report.say(f"{path} {written}: {_count(entries)}", *lines)
    return 0


def _existing(path: str) -> Lock | None:
    """The present lock file; None if there is none. Raises rather than overwrite another file."""
    if not os.path.lexists(path):
        return None
    try:
        return file.read(path)
    except UsageError as error:
        raise UsageError(error.text, "remove it, or name another with --output FILE") from None


def _entries(plan: Plan, path: str, before: list[Entry] | None, pinned: bool | None) -> list[Entry]:
    specs = plan.components
    if specs[-1].sandboxed:
        plan = msgspec.structs.replace(plan, mode="proxy")
    agent_last = plan.agent_last
    entries = entries_of(plan, path)
    entries = [_with_module(entry, spec) for entry, spec in zip(entries, specs, strict=True)]
    if pinned is not None and not agent_last:
        raise UsageError("there is no agent in this chain to be locked", "leave out --lock-agent")
    if pinned is None:
        # Of the chain's agent, which is the last: peer agents are always pinned.
        last = before[-1] if before else None
        pinned = last is not None and last.role == "agent" and last.pinned
    if agent_last:
        entries[-1] = msgspec.structs.replace(entries[-1], pinned=pinned)
    return entries


def _with_module(entry: Entry, spec: Spec) -> Entry:
    """The entry with facts of its module that people want to know.

    Raises `UsageError` for a module that would be refused.
    """
    if spec.wasm is None or spec.script:
        return entry
    label = spec.label("proxy")
    try:
        with CagedReader() as reader:
            info = reader.module(spec.wasm, {**DEFAULT_LIMITS, **spec.limits}["module_bytes"])
    except wasm_host.LoadError as error:
        raise UsageError(f"{label}: {error}", error.hint) from None
    if info.digest != entry.sha256:
        raise UsageError(
            f"{label} changed while it was being locked", "wait for its build to end, then lock it"
        )
    if info.problems:
        raise UsageError(
            f"{label} would be refused: it {'; it '.join(info.problems)}",
            "`conductor inspect` says more",
        )
    return msgspec.structs.replace(
        entry,
        size=info.size,
        carrier=info.carrier,
        imports=[f"{module}.{name}" if name else module for module, name, _ in info.imports],
        dialect=CHANNEL.name if info.carrier in _BY_SHAPE else entry.dialect,
    )


def _check(
    path: str, lock: Lock | None, entries: list[Entry], plan: Plan, servers: list[Server]
) -> int:
    if lock is None:
        raise UsageError(f"no lock file `{path}`", "make it: leave out --check")
    if _fixed(lock.component) == _fixed(entries) and lock.server == servers:
        report.say(f"{path} is up to date: {_count(entries)}")
        return 0
    lines = "\n".join(_changes(lock, entries, plan, servers))
    report.error(f"{path} would change\n{lines}", "leave out --check to write it")
    return EXIT_STALE


def _placeless(chain: Lock | Sequence[Entry]) -> list[Entry]:
    """The entries without the paths of programs, which differ by machine."""
    entries = chain.component if isinstance(chain, Lock) else chain
    return [msgspec.structs.replace(entry, program=None) for entry in entries]


def _fixed(entries: Sequence[Entry]) -> list[Entry]:
    """The entries without values that may change: paths, and the files of unpinned agents."""
    return [
        entry if entry.pinned else msgspec.structs.replace(entry, sha256=None, files=[])
        for entry in _placeless(entries)
    ]


def _changes(
    before: Lock, entries: Sequence[Entry], plan: Plan, servers: Sequence[Server]
) -> list[str]:
    lines = compare.compare(before.component, entries, plan).lines()
    lines += offers.changes(before.server, servers)
    return lines or ["  the description of the components, not their files or their rights"]


def _line(entry: Entry) -> str:
    digest = f" sha256:{digests.short(entry.sha256)}" if entry.sha256 else ""
    pinned = "" if entry.pinned else ", not pinned"
    return f"  {compare.title(entry)}:{digest}{pinned}"


def _count(entries: Sequence[Entry]) -> str:
    return counted(len(entries), "component")


def _head(parsed: Parsed, typed: Sequence[str], *, pinned: bool | None) -> list[str]:
    """The comment: the kind of the file, and the command that made it."""
    components, options = [*map(shown, typed)], parsed.options
    words = ["--proxy"] if parsed.mode == "proxy" else []
    if options.isolation != Options().isolation:
        words += ["-c", f"isolation={options.isolation}"]
    if pinned:
        words += ["--lock-agent", "on"]
    beside = (("peer", options.peer), ("branch", options.branch))
    peers = [word for key, named in beside for one in named for word in ("-c", f"{key}.{one}")]
    return [
        f"{LOCK_FILE}: which components may run, and the most rights of each.",
        f"Written by conductor {version()}; not to be edited by hand. Made, and made anew, by",
        f"    {shlex.join(['conductor', 'lock', *words, *peers, *components])}",
        "and obeyed by",
        f"    {shlex.join(['conductor', parsed.command, '--locked', *peers, *components])}",
        'docs/configuration.md, "Locks", lists the facts that a lock pins.',
    ]
