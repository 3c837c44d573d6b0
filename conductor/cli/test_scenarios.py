"""The scenarios of `conductor test`: files in the folder `test-scenarios` of a component.

`NAME.txt` is a transcript: the lines that the component gets, and those that it must return.
`NAME.jsons` is the trace of a session, replayed as a chain with the component as it is now: the
replay may not differ.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from conductor.author.rights_used import Uses
from conductor.cli import log_replay_chain, report, silence
from conductor.errors import UsageError, agrees, counted, visible, visible_path
from conductor.spec import private_files, untrusted_files
from conductor.spec.catalog import resolve
from conductor.spec.manifest.reading import Manifest, load, path_of
from conductor.spec.paths import MANIFEST, SCENARIOS

if TYPE_CHECKING:
    from conductor.author.transcripts import Mismatch, Played
    from conductor.spec.config.model import Config

EXIT_DIFFERENT: Final = 1
TRANSCRIPT: Final = ".txt"
TRACE: Final = ".jsons"
_MOST_FILES: Final = 1_000
"""Scenarios that a command plays."""

_MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a transcript."""

_LIMIT: Final = 60.0
"""Seconds in which nothing moves, after which the replay of a trace fails."""

_PLAYING: Final = "playing scenarios; a component that is new is compiled first"

_SHOWN: Final = 3
"""Deliveries that are shown of each transcript; the others are counted."""

_AROUND: Final = 60
"""Characters shown before and after the first that differs."""

_PASSED: Final = "passed"
_UPDATED: Final = "updated"
_FAILED: Final = "failed"


def play(
    paths: Sequence[str],
    config: Config | None,
    component: str | None = None,
    match: str | None = None,
    *,
    update: bool = False,
    found: dict[str, Any] | None = None,
) -> int:
    """Plays scenarios, and reports each; the exit code. Raises `ConductorError`.

    Args:
        paths: A folder, or scenarios.
        config: The configuration of files.
        component: The component to test instead of the component whose folder it is.
        match: How lines are compared; None: as its manifest says.
        update: Write the lines that came into the transcripts.
        found: Gets the results, for programs; without it people are told.
    """
    scenarios = _scenarios(paths, component)
    loose = (match or scenarios.match) == "json"
    rows: list[dict[str, Any]] = []
    uses = Uses()
    with silence.during(_PLAYING, anywhere=True):
        for path, played, text in _played(scenarios, config, loose=loose):
            outcome = _outcome(path, played, text, update=update)
            if outcome != _FAILED:
                uses.play(played.text, path)
            rows.append({"scenario": path, "outcome": outcome, **_facts(played)})
            if found is None:
                _report(path, played, outcome)
        rows += [
            _replayed(trace, scenarios, config, told=found is None) for trace in scenarios.traces
        ]
    if found is not None:
        found["scenarios"] = rows
    failed = sum(row["outcome"] == _FAILED for row in rows)
    if failed:
        return _say_failed(failed, len(rows))
    if scenarios.transcripts:
        _compare_rights(uses, scenarios, config, found)
    return 0


def _say_failed(failed: int, number: int) -> int:
    """Says how many scenarios differ; the exit code."""
    report.error(
        f"{failed} of {counted(number, 'scenario')} {agrees(failed, 'differs', 'differ')}",
        "if the new lines are right, `conductor test --update` writes them into the transcripts; a "
        "trace is recorded anew",
    )
    return EXIT_DIFFERENT


# -- which scenarios -------------------------------------------------------------------------------


class _Scenarios(NamedTuple):
    """The scenarios to play.

    Attributes:
        component: The component under test; empty: there are traces alone, of any chain.
        home: The folder of the component whose scenarios they are; empty: there is no such folder.
        transcripts: Paths.
        traces: Paths.
        match: How the lines of the component are compared.
        whole: Whether these are all scenarios of the component.
    """

    component: str
    home: str
    transcripts: list[str]
    traces: list[str]
    match: str
    whole: bool


def _scenarios(paths: Sequence[str], component: str | None) -> _Scenarios:
    """The scenarios of a command line. Raises `UsageError`."""
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise UsageError(f"no such file or folder: `{missing[0]}`", "check the path")
    folders = [path for path in paths if os.path.isdir(path)]
    if folders and len(paths) > 1:
        raise UsageError("one folder, or scenarios of one component", "run it once for each")
    files = below(paths[0], inside=component is not None) if folders else list(paths)
    home = paths[0] if folders and path_of(paths[0]) is not None else _folder_of(paths[0])
    manifest = load(path) if (path := path_of(home)) is not None else Manifest(name="component")
    traces = [path for path in files if path.endswith(TRACE)]
    transcripts = [path for path in files if path not in traces]
    if not files and (home or component is not None):
        whose = manifest.name if component is None else visible_path(paths[0])
        raise UsageError(
            f"`{whose}` has no scenarios ({SCENARIOS}/*{TRANSCRIPT}, *{TRACE})",
            "docs/proxies.md shows how to write them",
        )
    if component is None and not home and (transcripts or not files):
        place = paths[0] if folders else os.path.dirname(paths[0]) or "."
        raise UsageError(
            f"there is no {MANIFEST} in `{place}`",
            "`conductor new NAME` makes a component, --component names another",
        )
    # The separator makes it a path: a bare name would mean a bundled component.
    ours = os.path.join(home, "") if home else ""
    return _Scenarios(
        component or ours, ours, transcripts, traces, manifest.test.match, bool(folders)
    )


def below(folder: str, *, inside: bool = False) -> list[str]:
    """The scenarios of a folder, in order of their names. `inside`: they may lie in the folder
    itself. Raises `UsageError`."""
    place = os.path.join(folder, SCENARIOS)
    if os.path.basename(os.path.abspath(folder)) == SCENARIOS or (
        inside and not os.path.isdir(place)
    ):
        place = folder
    try:
        names = sorted(os.listdir(place))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"`{visible_path(place)}`: {error.strerror}", "name scenarios") from None
    files = [_own(place, name) for name in names if name.endswith((TRANSCRIPT, TRACE))]
    if len(files) > _MOST_FILES:
        raise UsageError(
            f"`{visible_path(place)}` has more than {_MOST_FILES:,} scenarios",
            "name those you want played",
        )
    return files


def _folder_of(path: str) -> str:
    """The nearest folder above a file that has a manifest, or nothing."""
    folder = os.path.dirname(os.path.abspath(path))
    while path_of(folder) is None:
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return os.path.relpath(folder)


def _own(folder: str, path: str) -> str:
    """The path of a scenario in a folder. Raises `UsageError` for a path that is no file."""
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


# -- playing ---------------------------------------------------------------------------------------


def _played(
    scenarios: _Scenarios, config: Config | None, *, loose: bool
) -> Iterator[tuple[str, Played, bytes]]:
    """Plays transcripts: the path, the result and the text of each. Raises `UsageError`."""
    from conductor.author import transcripts
    from conductor.author.subject import subjects
    from conductor.spec import lacking

    if not scenarios.transcripts:
        return
    spec = resolve(scenarios.component, config)
    lacking.refuse_mistakes(spec)
    transcripts.require_channel(spec)
    with subjects(spec) as make:
        for path in scenarios.transcripts:
            try:
                text = untrusted_files.read(path, _MOST_BYTES)
            except OSError as error:
                shown = visible_path(path)
                raise UsageError(f"`{shown}`: {error.strerror}", "check the path") from None
            try:
                played = transcripts.play(make, text, path, loose=loose)
            except ValueError as error:
                raise UsageError(str(error), "docs/proxies.md describes transcripts") from None
            yield path, played, text


def _replayed(
    trace: str, scenarios: _Scenarios, config: Config | None, *, told: bool
) -> dict[str, Any]:
    """Replays a trace, with the component in place of the proxy of its name; a row of the result.
    Raises `ConductorError`."""
    manifest = path_of(scenarios.home) if scenarios.home else None
    swapped = {load(manifest).name: scenarios.component} if manifest is not None else {}
    run = log_replay_chain.played(trace, swapped, _LIMIT, config)
    outcome = _FAILED if run.differs else _PASSED
    if told:
        report.say(f"{outcome.upper() if run.differs else outcome}  {visible_path(trace)}")
        if run.differs:
            report.say_styled(*run.lines(show=True))
    return {"scenario": trace, "outcome": outcome, **run.members()}


def _outcome(path: str, played: Played, text: bytes, *, update: bool) -> str:
    """The outcome of a transcript, which is written anew if it differs and that is wanted. Raises
    `UsageError`."""
    if played.failure is not None:
        return _FAILED
    if not played.mismatches:
        return _PASSED
    if not update or played.text == text:
        return _FAILED
    try:
        # A link that the user has named stays a link.
        private_files.replace(os.path.realpath(path), played.text, mode=0o666)
    except OSError as error:
        raise UsageError(
            f"`{visible_path(path)}` cannot be written: {error.strerror}; it is as it was",
            "make room on the disk, and its folder writable",
        ) from None
    return _UPDATED


def _facts(played: Played) -> dict[str, Any]:
    """The result of a transcript, for programs."""
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


def _compare_rights(
    uses: Uses, scenarios: _Scenarios, config: Config | None, found: dict[str, Any] | None
) -> None:
    """Says which rights the transcripts use and the component lacks, and, where all of them were
    played, which it asks for and no transcript uses."""
    spec = resolve(scenarios.component, config)
    wanted = [*(spec.manifest.rights or ())] if spec.manifest is not None else []
    lacks = uses.lacking((*spec.policy.rights, *wanted))
    unused = uses.unused(wanted) if scenarios.whole else []
    if found is not None:
        found["rights"] = {"lacking": lacks, "unused": unused}
        return
    for word, place in lacks.items():
        report.say(f"note    {visible_path(place)} uses the right `{word}`, which it lacks")
    if unused:
        shown = ", ".join(f"`{word}`" for word in unused)
        report.say(f"note    no transcript uses {shown} of its rights")


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
