"""`conductor test`: plays what a component's folder holds against it, and checks its rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from conductor.cli import configured, report, silence
from conductor.cli.typer_options import Json, paragraphs, takes
from conductor.errors import UsageError, agrees, counted, visible, visible_path
from conductor.services.scopes import compile_glob
from conductor.spec import untrusted_files
from conductor.spec.manifest.reading import Manifest, load, path_of
from conductor.spec.paths import MANIFEST

if TYPE_CHECKING:
    from conductor.author.transcripts import Mismatch, Played

EXIT_DIFFERENT: Final = 1
_MOST_FILES: Final = 1_000
"""Transcripts that a command plays."""

_MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a transcript."""

_PLAYING: Final = "playing transcripts; a component that is new is compiled first"

_SHOWN: Final = 3
"""Deliveries that are shown of each transcript; the others are counted."""

_AROUND: Final = 60
"""Characters shown before and after the first that differs."""

HELP: Final = paragraphs(
    "Test a component: play its transcripts and the scenarios in its `test-scenarios`, and check "
    "whether it keeps the contract of proxies, between a scripted client and agent that send what "
    "a careful proxy handles and a careless one breaks.",
    "FAIL is a broken rule, `note` is advice; `--json` has every rule. Exit code 1 when a line "
    "differs, an expectation does not hold, a rule is broken, or the build fails.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor test --build",
    '  conductor test --only order --only ids "python my_proxy.py"',
    "  conductor test --against claude-agent-acp",
)

_Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FOLDER|COMPONENT|FILE…]",
        help="The component's folder; default: this one. Or any proxy, written as for `conductor "
        "agent`: then its checks. Or single transcripts and scenarios.",
        show_default=False,
    ),
]
_TRANSCRIPTS: Final = "transcripts"
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
    record: str | None = None,
    update: bool = False,
    timeout: float | None = None,
) -> int:
    """Plays transcripts and scenarios and checks a component, or writes a scenario."""
    places = words or ["."]
    if record is not None:
        from conductor.cli import test_scenarios

        return test_scenarios.record(words or [], record)
    from conductor.cli import test_checks

    if against is not None:
        return _against(against, words, only, timeout, as_json=json_)
    if only:
        from conductor.author.check.table import CHECKS

        known = [*(check.name for check in CHECKS), _TRANSCRIPTS, _SCENARIOS]
        test_checks.refuse_unknown(only, known)
    if build:
        _build(places, report.write if json_ else report.say)
    checked = _checked(places) if component is None and not update else ""
    played = not _is_component(places) and (not only or {_TRANSCRIPTS, _SCENARIOS} & {*only})
    rules = [name for name in only if name not in (_TRANSCRIPTS, _SCENARIOS)]
    if not checked or (only and not rules):
        checked, rules = "", []
    found: dict[str, Any] = {}
    code = 0
    if played and (not checked or only or _has_any(places[0])):
        code = play(places, component, match, update=update, found=found if json_ else None)
    if checked:
        checks = test_checks.run(checked, rules, timeout, as_json=json_)
        found |= checks
        if test_checks.broken(checks):
            code = EXIT_DIFFERENT
            test_checks.complain(checked, checks, chosen=bool(rules))
    if json_:
        report.say_json({"ok": not code, **found})
    return code


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
    code = EXIT_DIFFERENT if test_checks.broken(found) else 0
    if as_json:
        report.say_json({"ok": not code, **found})
    if code:
        test_checks.complain(command, found, chosen=bool(only))
    return code


def _build(places: Sequence[str], say: Callable[[str], None]) -> None:
    """Builds the component of a folder; says what came of it. Raises `ConductorError`."""
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
    (first, *others) = places
    is_source = first.endswith((".wasm", ".py"))
    return not others and (is_source or not os.path.exists(first))


def _checked(places: Sequence[str]) -> str:
    """The component whose rules are checked; empty: only files are played."""
    from conductor.cli import test_scenarios

    (first, *others) = places
    if others or (os.path.isfile(first) and not _is_component(places)):
        return ""
    if _is_component(places):
        return first
    if path_of(first) is None and test_scenarios.found(first):
        return ""
    # The separator says that it is a path: a bare name would be that of a bundled component.
    return os.path.join(first, "")


def _has_any(folder: str) -> bool:
    """Whether a folder has something to be played."""
    from conductor.cli import test_scenarios

    return bool(test_scenarios.found(folder)) or _has_transcripts(folder)


def play(
    paths: Sequence[str],
    component: str | None = None,
    match: str | None = None,
    *,
    update: bool = False,
    found: dict[str, Any] | None = None,
) -> int:
    """Plays transcripts and scenarios, and reports each; the exit code. Raises `ConductorError`.

    `found` gets what came of them, for programs; without it people are told.
    """
    from conductor.cli import test_scenarios

    traces = [trace for path in paths for trace in test_scenarios.found(path)]
    if traces and any(not test_scenarios.found(path) for path in paths):
        raise UsageError("scenarios and transcripts at once", "run it once for each")
    if traces and (len(paths) > 1 or not _has_transcripts(paths[0])):
        return _scenarios(traces, _folder_of(traces[0]), found)
    folder, files, how = _transcripts(paths, component)
    loose = (match or how) == "json"
    rows = []
    with silence.during(_PLAYING, anywhere=True):
        for path, played, text in _play(component or folder, files, loose=loose):
            outcome = _outcome(path, played, text, update=update)
            rows.append({"transcript": path, "outcome": outcome, **_facts(played)})
            if found is None:
                _report(path, played, outcome)
    failed = sum(row["outcome"] == _FAILED for row in rows)
    scenarios = test_scenarios.play(traces, folder, as_json=found is not None) if traces else []
    broken = sum(row["outcome"] == _FAILED for row in scenarios)
    if found is not None:
        found |= {"transcripts": rows, **({"scenarios": scenarios} if scenarios else {})}
    if broken:
        _complain(broken, len(scenarios))
    if not failed:
        return EXIT_DIFFERENT if broken else 0
    hint = "if the new lines are right, `conductor test --update` writes them into the transcripts"
    report.error(
        f"{failed} of {counted(len(files), 'transcript')} {agrees(failed, 'differs', 'differ')}",
        hint,
    )
    return EXIT_DIFFERENT


def _scenarios(traces: Sequence[str], component: str, found: dict[str, Any] | None) -> int:
    """Plays scenarios alone; the exit code."""
    from conductor.cli import test_scenarios

    rows = test_scenarios.play(traces, component, as_json=found is not None)
    broken = sum(row["outcome"] == _FAILED for row in rows)
    if found is not None:
        found["scenarios"] = rows
    if broken:
        _complain(broken, len(rows))
    return EXIT_DIFFERENT if broken else 0


def _complain(broken: int, count: int) -> None:
    report.error(
        f"{broken} of {counted(count, 'scenario')} failed",
        "if you want the change: correct what a scenario.toml expects, or record a trace anew",
    )


def _has_transcripts(path: str) -> bool:
    """Whether a path is the folder of a component with transcripts."""
    manifest = path_of(path) if os.path.isdir(path) else None
    return manifest is not None and bool(_matching(path, load(manifest).test.transcripts))


# -- which transcripts -----------------------------------------------------------------------------


def _transcripts(paths: Sequence[str], component: str | None) -> tuple[str, list[str], str]:
    """The component's folder (empty for transcripts outside any), its transcripts, and how to
    compare lines. Raises `UsageError`."""
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise UsageError(f"no such file or folder: `{missing[0]}`", "check the path")
    folders = [path for path in paths if os.path.isdir(path)]
    if folders and len(paths) > 1:
        raise UsageError("one folder, or transcripts of one component", "run it once for each")
    folder = folders[0] if folders else _folder_of(paths[0])
    path = path_of(folder) if folder else None
    if path is None:
        files = list(paths)
        if component is not None and folders:
            files = [os.path.join(folder, name) for name in _matching(folder, ["*.txt"])]
        if component is None or not files:
            raise UsageError(
                f"there is no {MANIFEST} in `{folder or os.path.dirname(paths[0]) or '.'}`",
                "`conductor new NAME` makes a component, --component names another",
            )
        return "", files, Manifest(name="component").test.match
    manifest = load(path)
    patterns = manifest.test.transcripts
    files = list(paths)
    if folders:
        files = sorted(_own(folder, name) for name in _matching(folder, patterns))
    if not files:
        raise UsageError(
            f"`{manifest.name}` has no transcripts ({', '.join(patterns)})",
            "docs/authoring.md shows how to write them",
        )
    # The separator says that it is a path: a bare name would be that of a bundled component.
    return os.path.join(folder, ""), files, manifest.test.match


def _folder_of(path: str) -> str:
    """The nearest folder above a file that has a manifest, or nothing."""
    folder = os.path.dirname(os.path.abspath(path))
    while path_of(folder) is None:
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return os.path.relpath(folder)


def _matching(folder: str, patterns: Sequence[str]) -> list[str]:
    """The files below a folder that match one of the patterns. Raises `UsageError`."""
    try:
        globs = [compile_glob(pattern) for pattern in patterns]
        every = untrusted_files.below(folder, lambda _: True)
        matching = [path for path in every if any(glob.fullmatch(path) for glob in globs)]
    except ValueError as error:
        raise UsageError(f"a pattern of transcripts: {error}", f"`[test]` of {MANIFEST}") from None
    except OSError as error:
        raise UsageError(
            f"`{folder}`: {error.strerror}", "name the transcripts, or put them elsewhere"
        ) from None
    if len(matching) > _MOST_FILES:
        raise UsageError(
            f"`{folder}` has more than {_MOST_FILES:,} transcripts", "name those you want played"
        )
    return matching


def _own(folder: str, path: str) -> str:
    """The path of a transcript that a manifest names. Raises `UsageError` for what is none."""
    whole = os.path.normpath(os.path.join(folder, path))
    shown = visible_path(whole)
    # A link in a stranger's folder may lead to any file, which `--update` would then write.
    if os.path.islink(whole):
        raise UsageError(
            f"`{shown}` is a link, and links in the folder of a component are not followed",
            f"it leads to {visible_path(os.path.realpath(whole))}; name it on the command line if "
            "you want it played",
        )
    if not os.path.isfile(whole):
        raise UsageError(f"`{shown}` is no ordinary file", "take it out of the folder")
    return whole


# -- outcomes --------------------------------------------------------------------------------------


_PASSED: Final = "passed"
_UPDATED: Final = "updated"
_FAILED: Final = "failed"


def _play(
    component: str, files: Sequence[str], *, loose: bool
) -> Iterator[tuple[str, Played, bytes]]:
    """Plays transcripts: each path, what playing it showed, and its text. Raises `UsageError`."""
    from conductor.author import transcripts
    from conductor.author.subject import subjects
    from conductor.spec import lacking
    from conductor.spec.catalog import resolve

    spec = resolve(component, configured.here())
    lacking.refuse_unheard(spec)
    transcripts.require_channel(spec)
    with subjects(spec) as make:
        for path in files:
            try:
                text = untrusted_files.read(path, _MOST_BYTES)
            except OSError as error:
                shown = visible_path(path)
                raise UsageError(f"`{shown}`: {error.strerror}", "check the path") from None
            try:
                played = transcripts.play(make, text, path, loose=loose)
            except ValueError as error:
                raise UsageError(str(error), "docs/authoring.md describes transcripts") from None
            yield path, played, text


def _outcome(path: str, played: Played, text: bytes, *, update: bool) -> str:
    """The outcome of a transcript, which is written anew if it differs and that is wanted."""
    if played.failure is not None:
        return _FAILED
    if not played.mismatches:
        return _PASSED
    if not update or played.text == text:
        return _FAILED
    with open(path, "wb") as file:
        file.write(played.text)
    return _UPDATED


def _facts(played: Played) -> dict[str, Any]:
    """What playing a transcript showed, for programs."""
    differences = [
        {
            "line": mismatch.line,
            "given": list(map(_exact, mismatch.given)),
            "expected": list(map(_exact, mismatch.expected)),
            "returned": list(map(_exact, mismatch.returned)),
        }
        for mismatch in played.mismatches
    ]
    failure = None if played.failure is None else played.failure.text
    return {"deliveries": played.deliveries, "differences": differences, "failure": failure}


def _report(path: str, played: Played, outcome: str) -> None:
    """Prints the outcome of a transcript."""
    shown = visible_path(path)
    if played.failure is not None:
        report.say(f"FAILED  {shown}", f"    {played.failure.text}")
        if played.failure.hint:
            report.say(f"    hint: {played.failure.hint}")
        return
    if outcome == _PASSED:
        report.say(f"passed  {shown}: {_deliveries(played.deliveries)}")
        return
    if outcome == _UPDATED:
        report.say(f"updated {shown}: {_deliveries(len(played.mismatches))}")
        return
    report.say(f"FAILED  {shown}")
    for mismatch in played.mismatches[:_SHOWN]:
        report.say(*(f"    {line}" for line in explained(path, mismatch)))
    if len(played.mismatches) > _SHOWN:
        more = len(played.mismatches) - _SHOWN
        report.say(f"    and {counted(more, 'more delivery')}")


def _deliveries(count: int) -> str:
    return counted(count, "delivery")


def explained(path: str, mismatch: Mismatch) -> Iterator[str]:
    """A delivery that differs, for people: `-` is missing, `+` came, as in a diff."""
    yield f"{visible_path(path)}:{mismatch.line}"
    for line in mismatch.given:
        yield f"> {cut(_text(line))}"
    if not mismatch.returned:
        yield "nothing came"
    pairs = list(zip(mismatch.expected, mismatch.returned, strict=False))
    common = next((at for at, (line, other) in enumerate(pairs) if line != other), len(pairs))
    if common:
        yield f"  {counted(common, 'line')} as expected, then"
    for expected, returned in pairs[common:]:
        if expected == returned:
            yield f"  {cut(_text(returned))}"
            continue
        left, right, at = around_change(_text(expected), _text(returned))
        yield f"- {left}"
        yield f"+ {right}"
        yield f"  {' ' * at}^"
    for line in mismatch.expected[len(pairs) :]:
        yield f"- {cut(_text(line))}"
    for line in mismatch.returned[len(pairs) :]:
        yield f"+ {cut(_text(line))}"


def _exact(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


def _text(line: bytes) -> str:
    return visible(_exact(line))


def cut(text: str, most: int = 4 * _AROUND) -> str:
    """A text, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}… ({counted(len(text), 'character')})"


def around_change(expected: str, returned: str) -> tuple[str, str, int]:
    """Two texts around the first character that differs, and its column."""
    pairs = enumerate(zip(expected, returned, strict=False))
    at = next((at for at, (a, b) in pairs if a != b), min(len(expected), len(returned)))
    first = max(0, at - _AROUND)
    before = "…" if first else ""
    left, right = (
        before + text[first : at + _AROUND] + ("…" if len(text) > at + _AROUND else "")
        for text in (expected, returned)
    )
    return left, right, at - first + len(before)
