"""The checks of `conductor test`: whether a component keeps the contract of proxies."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from conductor.cli import pages, report
from conductor.errors import UsageError, counted, did_you_mean, visible
from conductor.spec import catalog, lacking
from conductor.spec.programs import which

if TYPE_CHECKING:
    from conductor.author.check.suite import CheckOutcome
    from conductor.spec.config.model import Config
    from conductor.spec.model import Spec

_WIDTH: Final = 100
_WORDS: Final = {"pass": "pass", "fail": "FAIL", "skip": "skip", "note": "note"}


def run(
    component: str,
    config: Config | None,
    only: Sequence[str] = (),
    timeout: float | None = None,
    *,
    as_json: bool,
) -> dict[str, Any]:
    """Checks a component, prints each finding as soon as it is known, and returns the findings for
    programs. Raises `UsageError`.

    Args:
        component: As it is written for `conductor agent`.
        config: The configuration of files.
        only: Names of checks; none: all.
        timeout: Seconds for each check.
        as_json: Print nothing.
    """
    from conductor.author.check import suite, table

    spec = _proxy(component, config)
    outcomes = suite.outcomes(spec, only, timeout or suite.TIMEOUT)
    few = ("pass", "fail", "skip", "note") if only else ("fail", "note")
    number = len(only or table.CHECKS)
    return {"component": spec.name, **_told(spec.name, outcomes, few, number, as_json=as_json)}


def against(
    command: str, only: Sequence[str], timeout: float | None, *, as_json: bool
) -> dict[str, Any]:
    """Checks a program that need not be ours, an agent or a conductor, as `run` does.

    Raises:
        ConductorError: It cannot be started, or there is no such check.
    """
    from conductor.author.check import against, suite

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"`--against`: {error}", "close the quotes of the command") from None
    if not words:
        raise UsageError("`--against` needs a command", "such as --against claude-agent-acp")
    if which(words[0]) is None:
        raise UsageError(
            f"`--against`: there is no program `{words[0]}`", "give its path, or install it"
        )
    known = [check.name for check in against.checks(words)]
    refuse_unknown(only, known)
    outcomes = against.outcomes(words, only, timeout or suite.TIMEOUT)
    every = tuple(_WORDS)
    told = _told(command, outcomes, every, len(only or known), as_json=as_json)
    return {"command": command, **told}


def _told(
    name: str,
    outcomes: Iterable[CheckOutcome],
    shown: Sequence[str],
    number: int,
    *,
    as_json: bool,
) -> dict[str, Any]:
    """Prints outcomes of the statuses `shown` as they come, and their sum; all of them for
    programs. `number`: how many there will be."""
    found: list[CheckOutcome] = []
    for outcome in outcomes:
        found.append(outcome)
        if not as_json and outcome.status in shown:
            report.say(*explained(outcome))
        if report.can_cover():
            report.cover(f"checked {len(found)} of {number} rules")
    report.uncover()
    if not as_json:
        report.say(summary(name, found))
        skipped: dict[str, list[str]] = {}
        for outcome in found:
            if outcome.status == "skip" and "skip" not in shown:
                skipped.setdefault(outcome.why, []).append(outcome.name)
        for why, names in skipped.items():
            report.say(f"skipped: {', '.join(names)}: {why}")
    return {"counts": _counts(found), "checks": found}


def refuse_unknown(only: Sequence[str], known: Sequence[str]) -> None:
    """Raises `UsageError` for the name of no check."""
    for name in only:
        if name not in known:
            listed = f"checks are: {', '.join(known)}"
            raise UsageError(f"no check `{name}`", did_you_mean(name, known, listed))


def broken(found: Mapping[str, Any]) -> list[str]:
    """The names of the broken rules in a result of `run`."""
    return [outcome.name for outcome in found["checks"] if outcome.status == "fail"]


def complain(component: str, found: Mapping[str, Any], *, chosen: bool) -> None:
    """Reports the broken rules as an error; `chosen`: they were chosen by name."""
    failed = broken(found)
    rules = counted(len(failed), "rule")
    of = "--against " if "command" in found else ""
    again = f"conductor test --only {failed[0]} {of}{shlex.quote(component)}"
    page = "docs/editors.md#agents-by-name" if of else "docs/proxies.md lists the duties of a proxy"
    hint = page if chosen else f"`{again}` repeats a single check"
    report.error(f"`{found.get('component', component)}` breaks {rules}: {', '.join(failed)}", hint)


def _proxy(component: str, config: Config | None) -> Spec:
    """The component. Raises `UsageError` for a bundled agent."""
    spec = catalog.resolve(component, config)
    lacking.refuse_mistakes(spec)
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


def _wrapped(head: str, text: str) -> list[str]:
    return pages.hanging(head, visible(text).replace("\n", " "), _WIDTH)


def _counts(outcomes: Sequence[CheckOutcome]) -> dict[str, int]:
    words = {"pass": "passed", "fail": "failed", "note": "notes", "skip": "skipped"}
    statuses = Counter(outcome.status for outcome in outcomes)
    return {word: statuses[status] for status, word in words.items()}


def summary(name: str, outcomes: Sequence[CheckOutcome]) -> str:
    """`23 passed, 1 failed, 2 skipped`."""
    counts = [f"{number} {word}" for word, number in _counts(outcomes).items() if number]
    return f"{name}: {', '.join(counts)}"
