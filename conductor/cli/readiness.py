"""Whether a chain could start, for a server that starts it when a client comes: found before, and
without starting any component.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.cli import consent, report
from conductor.cli.run import bound, resolved
from conductor.record import wanted
from conductor.run import compiled, in_process
from conductor.run.launch import Launcher
from conductor.spec.consent import Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from conductor.cli.options import Parsed
    from conductor.spec.model import Spec


def check(parsed: Parsed, warn: Callable[[str, str], None] = lambda name, text: None) -> list[Spec]:
    """Prepares a chain up to the start of its programs; modules are compiled. Returns its
    components. Raises `ConductorError`, as its start would.

    `warn` hears what the lock file only warns of: a component, and a sentence.
    """
    parsed = bound(parsed)
    options, agent_last = parsed.options, parsed.mode != "proxy"
    _, specs = consent.agreed(resolved(parsed), options.ask, None, Where.NOWHERE)
    specs = wanted.locked(
        specs, options, lambda _, name, text: warn(name, text), agent_last=agent_last
    )
    launcher = Launcher(options, agent_last=agent_last, on_stderr=lambda name, line: None)
    specs = [*launcher.judged(specs)[0]]
    for spec in specs:
        if spec.attribute:
            in_process.load(spec)
    compiled.compile_ahead(specs, options.cache or "", begun=_begun)
    return specs


def _begun(spec: Spec) -> None:
    report.write(f"compiling `{spec.name}`, once: its chains start faster then", dim=True)
