"""`conductor check`: whether a component keeps the contract of proxies."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from conductor.cli import options, report
from conductor.errors import UsageError, visible

if TYPE_CHECKING:
    from conductor.author.check.suite import Outcome

EXIT_BROKEN: Final = 1
_WIDTH: Final = 100
_WORDS: Final = {"pass": "pass", "fail": "FAIL", "skip": "skip", "note": "note"}

HELP: Final = (
    "Try out whether a component keeps the contract of proxies: it is run between a scripted "
    "client and agent, and told what a careful proxy takes and a careless one breaks.\n\n"
    "Exit code 1 when it breaks a rule; `note` is advice."
)
EPILOG: Final = (
    "Examples:\n\n  conductor check .\n\n  conductor check ./proxy.wasm,grant=clock\n\n"
    '  conductor check --only order --only ids "python my_proxy.py"'
)


def check(
    component: Annotated[
        str,
        typer.Argument(
            metavar="COMPONENT",
            help="A proxy of any kind, written as for `conductor agent`.",
            show_default=False,
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="CHECK", help="Only this check; may be repeated.", show_default=False
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="What one check may take. Default: 30.",
            show_default=False,
        ),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache", metavar="FOLDER", help="Folder for compiled modules.", show_default=False
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Tries out a component."""
    from conductor.author.check import suite, table
    from conductor.cli import first_use
    from conductor.spec import catalog

    known = [one.name for one in table.CHECKS]
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise UsageError(f"no check `{unknown[0]}`", f"checks are: {', '.join(known)}")
    limit = (timeout and options.read("--timeout", timeout, options.seconds)) or suite.TIMEOUT
    spec = catalog.resolve(component)
    if spec.bundled is not None and (found := catalog.manifest(spec.bundled)) is not None:
        _no_agent(component, found.kind)
    first_use.announce_program(spec)
    found_all: list[Outcome] = []
    for one in suite.outcomes(spec, only or (), limit, cache):
        found_all.append(one)
        if not json_:
            for line in told(one):
                report.say(line)
    failed = [one.name for one in found_all if one.status == "fail"]
    if json_:
        _print_json(spec.name, found_all)
    else:
        report.say("", summary(spec.name, found_all))
    if not failed:
        return 0
    hint = f"`conductor check --only {failed[0]} COMPONENT` repeats one of them"
    report.error(f"`{spec.name}` breaks {_count(len(failed), 'rule')}: {', '.join(failed)}", hint)
    return EXIT_BROKEN


def _no_agent(component: str, kind: str) -> None:
    if kind == "agent":
        raise UsageError(
            f"`{component}` is an agent; these are the rules of proxies",
            f'try it out with `conductor exec {component} -p "hello"`',
        )


def told(one: Outcome) -> Iterator[str]:
    """How one check went, as a person reads it."""
    head = f"{_WORDS[one.status]}  {one.name:<18}  "
    if one.status == "pass":
        yield f"{head}{one.rule}"
        return
    if one.status == "skip":
        yield from _wrapped(head, one.why)
        return
    yield from _wrapped(head, one.why)
    yield from _field("rule", f"{one.rule} ({one.see})")
    if one.sent:
        yield from _field("sent", one.sent)
    if one.came:
        yield from _field("came", one.came)
    for at, line in enumerate(one.traffic):
        yield from _field("" if at else "before", line)
    for at, line in enumerate(dict.fromkeys(one.stderr)):
        yield from _field("" if at else "said", line)
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


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _counts(found: list[Outcome]) -> dict[str, int]:
    words = {"pass": "passed", "fail": "failed", "note": "notes", "skip": "skipped"}
    return {word: sum(one.status == key for one in found) for key, word in words.items()}


def summary(name: str, found: list[Outcome]) -> str:
    """`23 passed, 1 failed, 2 skipped`."""
    counts = [f"{number} {word}" for word, number in _counts(found).items() if number]
    return f"{name}: {', '.join(counts)}"


def _print_json(name: str, found: list[Outcome]) -> None:
    report.say_json({"component": name, "counts": _counts(found), "checks": found})
