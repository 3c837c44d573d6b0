"""`conductor check`: whether a component keeps the contract of proxies."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from conductor.cli import configured, report
from conductor.cli.typer_options import Json, paragraphs, takes
from conductor.errors import UsageError, counted, did_you_mean, visible
from conductor.spec import catalog, lacking

if TYPE_CHECKING:
    from conductor.author.check.suite import CheckOutcome
    from conductor.spec.model import Spec

EXIT_BROKEN: Final = 1
_WIDTH: Final = 100
_WORDS: Final = {"pass": "pass", "fail": "FAIL", "skip": "skip", "note": "note"}

HELP: Final = paragraphs(
    "Check whether a component keeps the contract of proxies: run it between a scripted client and "
    "agent, and send it messages that a careful proxy handles and a careless proxy breaks.",
    "It prints what it finds: FAIL is a broken rule, `note` is advice. `--json` has every rule. "
    "Exit code 1 when a rule is broken.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor check .",
    "  conductor check ./proxy.wasm,grant=clock",
    '  conductor check --only order --only ids "python my_proxy.py"',
)

_Component = Annotated[
    str,
    typer.Argument(
        metavar="COMPONENT",
        help="A proxy of any kind, written as for `conductor agent`.",
        show_default=False,
    ),
]
_Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="CHECK", help="Only this check; may be repeated.", show_default=False
    ),
]


@takes("check")
def check(
    component: _Component,
    only: _Only = None,
    json_: Json = False,
    *,
    timeout: float | None = None,
    cache: str | None = None,
) -> int:
    """Checks a component, and prints what it finds as soon as that is known."""
    from conductor.author.check import suite, table

    chosen = _known(only or ())
    spec = _proxy(component)
    outcomes: list[CheckOutcome] = []
    for outcome in suite.outcomes(spec, chosen, timeout or suite.TIMEOUT, cache):
        outcomes.append(outcome)
        if not json_ and (chosen or outcome.status in ("fail", "note")):
            report.say(*explained(outcome))
        if report.can_cover():
            report.cover(f"checked {len(outcomes)} of {len(chosen or table.CHECKS)} rules")
    report.uncover()
    if json_:
        counts = _counts(outcomes)
        report.say_json({"component": spec.name, "counts": counts, "checks": outcomes})
    else:
        report.say(summary(spec.name, outcomes))
    failed = [outcome.name for outcome in outcomes if outcome.status == "fail"]
    if not failed:
        return 0
    rules = counted(len(failed), "rule")
    single = f"`conductor check --only {failed[0]} {shlex.quote(component)}` repeats a single check"
    page = "docs/authoring.md says what a proxy has to do"
    report.error(f"`{spec.name}` breaks {rules}: {', '.join(failed)}", page if only else single)
    return EXIT_BROKEN


def _known(names: Sequence[str]) -> Sequence[str]:
    """Names of checks. Raises `UsageError` for an unknown name."""
    from conductor.author.check.table import CHECKS

    known = [check.name for check in CHECKS]
    unknown = [name for name in names if name not in known]
    if unknown:
        listed = f"checks are: {', '.join(known)}"
        raise UsageError(f"no check `{unknown[0]}`", did_you_mean(unknown[0], known, listed))
    return names


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
