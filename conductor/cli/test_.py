"""`conductor test`: plays the scenarios in a component's folder, and checks its rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

from conductor.cli import configured, report, silence
from conductor.cli.typer_options import Json, argument, paragraphs, takes
from conductor.errors import UsageError, visible
from conductor.spec.manifest.reading import path_of

HELP: Final = paragraphs(
    "Test a component: play its scenarios, and check the contract of proxies. Scenarios are the "
    "transcripts and traces in its folder `test-scenarios`. For the contract a scripted client and "
    "agent send messages that a careful proxy handles and a careless proxy breaks.",
    "FAIL is a broken rule, `note` is advice; `--json` has every rule. Exit code 1 when a line "
    "differs, a rule is broken, or the build fails.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor test --build",
    '  conductor test --only order --only ids "python my_proxy.py"',
    "  conductor test --against claude-agent-acp",
)

_Words = Annotated[
    list[str] | None,
    argument(
        "[FOLDER|COMPONENT|FILE…]",
        "The component's folder; default: this one. Or any proxy, written as for `conductor "
        "agent`: then its checks. Or single scenarios.",
    ),
]
_SCENARIOS: Final = "scenarios"


@takes("test")
def run_tests(
    words: _Words = None,
    json_: Json = False,
    *,
    only: tuple[str, ...] = (),
    build: bool = False,
    against: str | None = None,
    component: str | None = None,
    match: str | None = None,
    update: bool = False,
    timeout: float | None = None,
) -> int:
    """Plays the scenarios of a component, and checks it."""
    places = words or ["."]
    from conductor.cli import test_checks, test_scenarios

    if against is not None:
        return _against(against, words, only, timeout, as_json=json_)
    if only:
        _refuse_unknown(only)
    config = configured.here()
    if build:
        _build(places, report.write if json_ else report.say)
    files = component is not None or not _is_component(places)
    played = files and (not only or _SCENARIOS in only)
    rules = [name for name in only if name != _SCENARIOS]
    has_checks = component is None and not update and (not only or bool(rules))
    checked = _checked(places) if has_checks else ""
    if not played and not checked:
        raise UsageError(
            f"these options leave nothing to test of {', '.join(map(visible, places))}",
            "rules are those of a component; --component and --update are for scenarios",
        )
    found: dict[str, Any] = {}
    code = 0
    if played and (not checked or only or test_scenarios.below(places[0])):
        code = test_scenarios.play(
            places, config, component, match, update=update, found=found if json_ else None
        )
    if checked:
        checks = test_checks.run(checked, config, rules, timeout, as_json=json_)
        found |= checks
        code = _code(checked, checks, chosen=bool(rules)) or code
    if json_:
        report.say_json({"ok": not code, **found})
    return code


def _refuse_unknown(only: Sequence[str]) -> None:
    """Raises `UsageError` for the name of no check."""
    from conductor.author.check.table import CHECKS
    from conductor.cli import test_checks

    test_checks.refuse_unknown(only, [*(check.name for check in CHECKS), _SCENARIOS])


def _against(
    command: str,
    words: Sequence[str] | None,
    only: Sequence[str],
    timeout: float | None,
    *,
    as_json: bool,
) -> int:
    """Checks an agent or a conductor of anybody's; the exit code. Raises `ConductorError`."""
    from conductor.cli import test_checks

    if words:
        raise UsageError(
            "`--against` names all that is tested", f"leave out {', '.join(map(visible, words))}"
        )
    found = test_checks.against(command, only, timeout, as_json=as_json)
    code = _code(command, found, chosen=bool(only))
    if as_json:
        report.say_json({"ok": not code, **found})
    return code


def _code(component: str, found: Mapping[str, Any], *, chosen: bool) -> int:
    """The exit code of checks; reports the broken rules."""
    from conductor.cli import test_checks, test_scenarios

    if not test_checks.broken(found):
        return 0
    test_checks.complain(component, found, chosen=chosen)
    return test_scenarios.EXIT_DIFFERENT


def _build(places: Sequence[str], say: Callable[[str], None]) -> None:
    """Builds the component of a folder; reports the result. Raises `ConductorError`."""
    from conductor.author.build import build_component

    if len(places) != 1 or _is_component(places):
        raise UsageError("`--build` builds the component of one folder", "name its folder")
    with silence.during("the build goes on"):
        say(build_component(places[0], begun))


def begun(text: str) -> None:
    """Says that a build has begun: compilers may be silent for a minute."""
    report.write(f"{text} …", dim=True)


def _is_component(places: Sequence[str]) -> bool:
    """Whether the command line names a component, and neither a folder nor files to play."""
    from conductor.cli import test_scenarios

    (first, *others) = places
    is_scenario = first.endswith((test_scenarios.TRANSCRIPT, test_scenarios.TRACE))
    return not others and not os.path.isdir(first) and not is_scenario


def _checked(places: Sequence[str]) -> str:
    """The component whose rules are checked; empty: only files are played."""
    from conductor.cli import test_scenarios

    (first, *others) = places
    if _is_component(places):
        return first
    if others or not os.path.isdir(first):
        return ""
    if path_of(first) is None and test_scenarios.below(first):
        return ""
    # The separator makes it a path: a bare name would mean a bundled component.
    return os.path.join(first, "")
