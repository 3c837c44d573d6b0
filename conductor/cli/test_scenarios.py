"""`conductor test` on scenarios: each folder of `test-scenarios` holds one.

`trace.jsons` is a recorded session, replayed as a chain: nothing may differ. `scenario.toml` is
written by hand: what the client sends, what the agent does, and what is expected of both.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from conductor.cli import configured, log_replay_chain, report, silence
from conductor.cli.test_ import around_change, cut
from conductor.core import json_text
from conductor.errors import UsageError, counted, one_line, visible, visible_path
from conductor.spec.manifest.reading import load, path_of

if TYPE_CHECKING:
    from conductor.author.scenario.expectations import Failure
    from conductor.author.scenario.play import Played

FOLDER: Final = "test-scenarios"
TRACE: Final = "trace.jsons"
WRITTEN: Final = "scenario.toml"
_LIMIT: Final = 60.0
"""Seconds in which nothing moves, after which the replay of a trace fails."""
_PLAYING: Final = "playing scenarios; a component that is new is compiled first"
_SHOWN: Final = 400
"""Characters of a text that are shown."""
_MOST: Final = 5
"""Texts that are shown of those that came instead."""


def found(path: str) -> list[str]:
    """The files of the scenarios that a path stands for: one of them, the folder of one scenario
    or of many, or a folder with `test-scenarios` in it."""
    if os.path.isfile(path):
        return [path] if path.endswith(".jsons") or os.path.basename(path) == WRITTEN else []
    single = _of_folder(path)
    if single:
        return single
    inside = (
        path if os.path.basename(os.path.abspath(path)) == FOLDER else os.path.join(path, FOLDER)
    )
    folders = sorted(glob.glob(os.path.join(glob.escape(os.path.normpath(inside)), "*")))
    return [file for folder in folders for file in _of_folder(folder)]


def _of_folder(folder: str) -> list[str]:
    files = (os.path.join(folder, name) for name in (WRITTEN, TRACE))
    return [file for file in files if os.path.isfile(file)]


def play(files: Sequence[str], component: str, *, as_json: bool) -> list[dict[str, Any]]:
    """Plays scenarios and reports each; a row for each. Raises `ConductorError`.

    Args:
        files: Those that `found` has found.
        component: The folder of the component that is tested: it runs in place of the proxy of its
            name in a trace. Empty: every proxy is the one that the trace names.
        as_json: Print nothing.
    """
    rows = []
    for file in files:
        is_written = os.path.basename(file) == WRITTEN
        with silence.during(_PLAYING, anywhere=True):
            members, lines = _written(file) if is_written else _replayed(file, component)
        rows.append({"scenario": file, **members})
        if not as_json:
            word = "FAILED " if members["outcome"] == "failed" else "passed "
            report.say(f"{word} {visible_path(file)}")
            lines()
    return rows


def record(paths: Sequence[str], name: str) -> int:
    """Writes a trace as a scenario of this folder; the exit code. Raises `UsageError`."""
    from conductor.author.scenario import recorded

    if len(paths) != 1:
        raise UsageError(
            "`--record` needs one trace",
            f"record one: `conductor exec --trace t.jsons . demo -p hi`; then `conductor test "
            f"--record {name} t.jsons`",
        )
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise UsageError(f"`{name}` is no name of a folder", "letters, digits and any of `._-`")
    manifest = path_of(".")
    text = recorded.text(paths[0], load(manifest).name if manifest is not None else "")
    file = os.path.join(FOLDER, name, WRITTEN)
    try:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"`{file}` is there already", "take another name, or delete it") from None
    except OSError as error:
        raise UsageError(f"`{file}` cannot be written: {error.strerror}", "check it") from None
    steps = text.count("\n[[step]]\n")
    report.say(f"written {file}: {counted(steps, 'step')}; read it, then `conductor test`")
    return 0


def _replayed(trace: str, component: str) -> tuple[dict[str, Any], Any]:
    manifest = path_of(component) if component else None
    name = load(manifest).name if manifest is not None else ""
    swapped = {name: os.path.join(component, "")} if name else {}
    run = log_replay_chain.played(trace, swapped, _LIMIT)
    members = {"outcome": "failed" if run.differs else "passed", **run.members()}

    def show() -> None:
        if run.differs:
            report.say_styled(*run.lines(show=True))

    return members, show


def _written(file: str) -> tuple[dict[str, Any], Any]:
    from conductor.author.scenario import play as scenarios

    folder = os.path.dirname(os.path.abspath(file))
    above = os.path.dirname(folder)
    home = os.path.dirname(above) if os.path.basename(above) == FOLDER else folder
    log = report.logger("warning")
    played = scenarios.play(file, home, configured.here(), log)
    failed = bool(played.failures or played.ended)
    members = {"outcome": "failed" if failed else "passed", **_members(file, played)}

    def show() -> None:
        for line in _lines(file, played):
            report.say(f"    {line}")

    return members, show


# -- what a scenario in TOML came to ---------------------------------------------------------------


def _members(file: str, played: Played) -> dict[str, Any]:
    from conductor.author.scenario.file import line

    failures = [
        {
            "line": line(file, failure.at),
            "about": failure.about,
            "expected": failure.expected,
            "got": list(failure.got),
        }
        for failure in played.failures
    ]
    return {
        "chain": list(played.chain),
        "steps": played.steps,
        "failures": failures,
        "ended": played.ended or None,
        "notes": list(played.notes),
    }


def _lines(file: str, played: Played) -> Iterator[str]:
    from conductor.author.scenario.file import line

    for note in played.notes:
        yield f"note: {visible(note)}"
    if played.ended:
        yield f"it did not come to its end: {visible(played.ended)}"
    for failure in played.failures:
        yield f"{visible_path(file)}:{line(file, failure.at)}: {visible(failure.about)}"
        for each in _explained(failure):
            yield f"  {each}"
    if played.failures or played.ended:
        for each in played.stderr:
            yield f"| {cut(visible(each), _SHOWN)}"


def _explained(failure: Failure) -> Iterator[str]:
    """What was expected and what came; of two texts where they begin to differ."""
    if failure.equals is not None and len(failure.got) == 1:
        left, right, at = around_change(_quoted(failure.equals), _quoted(failure.got[0]))
        yield f"expected {left}"
        yield f"got      {right}"
        yield f"         {' ' * at}^"
        return
    yield f"expected {cut(visible(failure.expected), _SHOWN)}"
    for text in failure.got[:_MOST]:
        got = cut(_quoted(text), _SHOWN) if failure.is_text else one_line(text, _SHOWN)
        yield f"got      {got}"
    if len(failure.got) > _MOST:
        yield f"and {len(failure.got) - _MOST} more"


def _quoted(text: str) -> str:
    return visible(json_text.encode(text).decode())
