"""`conductor agent --dry-run`: the plan of a chain, for people. Starts nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from conductor.cli import consent, report
from conductor.cli.config_show import shown
from conductor.cli.run import planned
from conductor.core import json_text
from conductor.errors import one_line
from conductor.spec import gates, lacking, origins
from conductor.spec.consent import Where
from conductor.spec.options import Options

if TYPE_CHECKING:
    from conductor.cli.options import Parsed
    from conductor.spec.plan import Plan


def show(parsed: Parsed) -> int:
    """Prints the plan of a chain that could start; nobody is asked. Raises `ConductorError`."""
    plan = planned(parsed)
    _, specs = consent.agreed(plan.components, plan.options.ask, None, Where.NOWHERE)
    plan = gates.passed(plan.of(specs), lambda name, text: report.write(f"{name}: {text}"))
    report.say(*lines(plan))
    return 0


def lines(plan: Plan) -> Iterator[str]:
    """The components in order, then the options that somebody set, each with who set it."""
    for spec in plan.components:
        yield one_line(f"{plan.role(spec)} {spec.name}: {shown(spec.source)}", 1000)
        found = origins.of(spec)
        if plan.is_agent(spec):  # no rule bounds it
            found = {key: who for key, who in found.items() if not key.startswith("rights.")}
        yield from _by_origin(found)
        for text in lacking.notes(spec):
            yield f"  note: {one_line(text, 1000)}"
    settings = {
        f"{name.replace('_', '-')} = {_json(getattr(plan.options, name))}": who
        for name, who in plan.set_by.items()
        if name in Options.__struct_fields__
    }
    if settings:
        yield "options"
    yield from _by_origin(settings)


def _by_origin(found: Mapping[str, str]) -> Iterator[str]:
    for origin in dict.fromkeys(found.values()):
        named = ", ".join(key for key, who in found.items() if who == origin)
        yield f"  {one_line(f'{origin}: {named}', 1000)}"


def _json(value: object) -> str:
    return json_text.encode(value).decode()
