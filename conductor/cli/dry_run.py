"""`conductor agent --dry-run`: the plan of a chain, for people. Starts nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from conductor.cli import readiness, report
from conductor.cli.config_show import shown
from conductor.core import json_text
from conductor.errors import one_line
from conductor.spec import lacking, origins
from conductor.spec.options import Options

if TYPE_CHECKING:
    from conductor.spec.parsed import Parsed
    from conductor.spec.plan import Plan


def show(parsed: Parsed) -> int:
    """Prints the plan of a chain that could start; nobody is asked. Raises `ConductorError`."""
    plan = readiness.passed(parsed, lambda name, text: report.write(f"{name}: {text}"))
    report.say(*lines(plan))
    return 0


def lines(plan: Plan) -> Iterator[str]:
    """The components in order, then the options that somebody set, each with its setter."""
    for spec in plan.components:
        yield one_line(f"{plan.role(spec)} {spec.name}: {shown(spec.source)}", 1000)
        found = origins.of(spec)
        if plan.is_agent(spec):  # no rule bounds it
            found = {key: who for key, who in found.items() if not key.startswith("rights.")}
        yield from (f"  {line}" for line in origins.told(found))
        for text in lacking.notes(spec):
            yield f"  note: {one_line(text, 1000)}"
    settings = {
        f"{name.replace('_', '-')} = {_json(getattr(plan.options, name))}": who
        for name, who in plan.options.set_by.items()
        if name in Options.__struct_fields__
    }
    if settings:
        yield "options"
    yield from (f"  {line}" for line in origins.told(settings))


def _json(value: object) -> str:
    return json_text.encode(value).decode()
