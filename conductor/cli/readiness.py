"""Whether a chain could start, for a server that starts it when a client comes: found before, and
without starting any component.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.cli import consent, report
from conductor.run import compiled, in_process
from conductor.spec import gates
from conductor.spec.parsed import planned

if TYPE_CHECKING:
    from conductor.spec.gates import Warn
    from conductor.spec.model import Spec
    from conductor.spec.parsed import Parsed
    from conductor.spec.plan import Plan


def passed(parsed: Parsed, warn: Warn = lambda name, text: None) -> Plan:
    """The plan of a chain behind the gates; nobody is asked. Raises `ConductorError`, as the start
    of the chain would.

    `warn` hears the warnings of the lock file: a component, and a sentence.
    """
    return gates.passed(consent.agreed(planned(parsed))[0], warn)


def check(parsed: Parsed, warn: Warn = lambda name, text: None) -> list[Spec]:
    """Prepares a chain up to the start of its programs; modules are compiled. Returns its
    components. `warn` and the errors: as of `passed`."""
    plan = passed(parsed, warn)
    for spec in plan.components:
        if spec.attribute:
            in_process.load(spec)
    compiled.compile_ahead(plan.components, plan.options.cache or "", begun=begun)
    return [*plan.components]


def begun(spec: Spec) -> None:
    """Says that the module of a component is being compiled."""
    report.write(f"compiling `{spec.name}`, once: its chains start faster then", dim=True)
