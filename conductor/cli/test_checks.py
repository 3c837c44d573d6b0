"""The checks of `conductor test`: whether a component keeps the contract of proxies."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from conductor.cli import configured, report
from conductor.errors import UsageError, counted, visible
from conductor.spec import catalog, lacking

if TYPE_CHECKING:
    from conductor.author.check.suite import CheckOutcome
    from conductor.spec.model import Spec

_WIDTH: Final = 100
_WORDS: Final = {"pass": "pass", "fail": "FAIL", "skip": "skip", "note": "note"}


def run(
    component: str, only: Sequence[str] = (), timeout: float | None = None, *, as_json: bool
) -> dict[str, Any]:
    """Checks a component, prints what it finds as soon as that is known, and returns it for
    programs. Raises `UsageError`.

    Args:
        component: As it is written for `conductor agent`.
        only: Names of checks; none: all.
        timeout: Seconds for each check.
        as_json: Print nothing.
    """
    from conductor.author.check import suite, table

    spec = _proxy(component)
    outcomes: list[CheckOutcome] = []
    for outcome in suite.outcomes(spec, only, timeout or suite.TIMEOUT):
        outcomes.append(outcome)
        if not as_json and (only or outcome.status in ("fail", "note")):
            report.say(*explained(outcome))
        if report.can_cover():
            report.cover(f"checked {len(outcomes)} of {len(only or table.CHECKS)} rules")
    report.uncover()
    if not as_json:
        report.say(summary(spec.name, outcomes))
    return {"component": spec.name, "counts": _counts(outcomes), "checks": outcomes}


def broken(found: Mapping[str, Any]) -> list[str]:
    """The names of the rules that what `run` returned says are broken."""
    return [outcome.name for outcome in found["checks"] if outcome.status == "fail"]


def complain(component: str, found: Mapping[str, Any], *, chosen: bool) -> None:
    """Reports the broken rules as an error; `chosen`: they were chosen by name."""
    failed = broken(found)
    rules = counted(len(failed), "rule")
    single = f"`conductor test --only {failed[0]} {shlex.quote(component)}` repeats a single check"
    page = "docs/authoring.md says what a proxy has to do"
    name = found["component"]
    report.error(f"`{name}` breaks {rules}: {', '.join(failed)}", page if chosen else single)


def _proxy(component: str) -> Spec:
    """The component. Raises `UsageError` for a bundled agent."""
    spec = catalog.resolve(component, configured.here())
    lacking.refuse_unheard(spec)
    if spec.bundled is not None and spec.manifest is not None and spec.manifest.kind == "agent":
        raise UsageError(
            f"`{component}` is an agent; these are the rules of proxies",
            f'try it out with `conductor exec {component} -p "hello"`',
        )
    return spec


def explained(outcome: CheckOutcome) -> Iterator[str]:
    """The outcome of a check, as a person reads it."""
    head = f"{_WORDS[outcome.status]}  {outcome.name:<18}  "
    if outcome.status == "pass":
        yield f"{head}{outcome.rule}"
        return
    yield from _wrapped(head, outcome.why)
    if outcome.status == "skip":
        return
    yield from _field("rule", f"{outcome.rule} ({outcome.see})")
    if outcome.sent:
        yield from _field("sent", outcome.sent)
    if outcome.came:
        yield from _field("came", outcome.came)
    for at, line in enumerate(outcome.traffic):
        yield from _field("" if at else "before", line)
    for at, line in enumerate(dict.fromkeys(outcome.stderr)):
        yield from _field("" if at else "stderr", line)
    yield ""


def _field(label: str, text: str) -> Iterator[str]:
    yield from _wrapped(f"      {label:<8}", text)


def _wrapped(head: str, text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        visible(text).replace("\n", " "),
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    ) or [head.rstrip()]


def _counts(outcomes: Sequence[CheckOutcome]) -> dict[str, int]:
    words = {"pass": "passed", "fail": "failed", "note": "notes", "skip": "skipped"}
    statuses = Counter(outcome.status for outcome in outcomes)
    return {word: statuses[status] for status, word in words.items()}


def summary(name: str, outcomes: Sequence[CheckOutcome]) -> str:
    """`23 passed, 1 failed, 2 skipped`."""
    counts = [f"{number} {word}" for word, number in _counts(outcomes).items() if number]
    return f"{name}: {', '.join(counts)}"
