"""Whether a chain could start, for a server that starts it when a client comes: found before, and
without starting any component.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.cli import consent, report
from conductor.cli.run import planned
from conductor.run import compiled, in_process
from conductor.spec import gates
from conductor.spec.consent import Where

if TYPE_CHECKING:
    from conductor.cli.options import Parsed
    from conductor.spec.gates import Warn
    from conductor.spec.model import Spec


def check(parsed: Parsed, warn: Warn = lambda name, text: None) -> list[Spec]:
    """Prepares a chain up to the start of its programs; modules are compiled. Returns its
    components. Raises `ConductorError`, as its start would.

    `warn` hears what the lock file only warns of: a component, and a sentence.
    """
    plan = planned(parsed)
    _, specs = consent.agreed(plan.components, plan.options.ask, None, Where.NOWHERE)
    specs = [*gates.passed(plan.of(specs), warn).components]
    for spec in specs:
        if spec.attribute:
            in_process.load(spec)
    compiled.compile_ahead(specs, plan.options.cache or "", begun=_begun)
    return specs


def _begun(spec: Spec) -> None:
    report.write(f"compiling `{spec.name}`, once: its chains start faster then", dim=True)
