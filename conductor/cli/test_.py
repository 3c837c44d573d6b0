"""`conductor test`: plays the transcripts of a component against it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from conductor.cli import report
from conductor.errors import ConductorError, UsageError, visible, visible_path
from conductor.services.scopes import compile_glob
from conductor.spec import untrusted_files
from conductor.spec.manifest.reading import load, path_of
from conductor.spec.manifest.values import FILE, MATCHES, Manifest

if TYPE_CHECKING:
    from conductor.author.transcripts.playing import Played
    from conductor.author.transcripts.transcript import Difference

EXIT_DIFFERENT: Final = 1
_MOST_FILES: Final = 1_000
"""Transcripts that are played at once."""

_MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one."""

_SHOWN: Final = 3
"""Deliveries that are shown of each transcript; the others are counted."""

_AROUND: Final = 60
"""Characters shown on either side of where two lines part."""

HELP: Final = (
    "Play the transcripts of a component against it: what each delivers, and the exact lines that "
    "must come back.\n\nExit code 1 when something else came."
)
EPILOG: Final = (
    "Examples:\n\n  conductor test\n\n  conductor test ./my-proxy\n\n"
    "  conductor test --update transcripts/prompt.txt"
)


def transcripts(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER|FILE…]",
            help="The component's folder, or single transcripts in it. Default: this folder.",
            show_default=False,
        ),
    ] = None,
    component: Annotated[
        str | None,
        typer.Option(
            "--component",
            metavar="COMPONENT",
            help="Play against this one, instead of the one whose folder the transcripts are in.",
            show_default=False,
        ),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            "--match",
            metavar="bytes|json",
            help="How what comes is compared. Default: as the manifest says, else bytes.",
            show_default=False,
        ),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--update", help="Write what came into the transcripts, as what must come."),
    ] = False,
) -> int:
    """Plays transcripts."""
    folder, files, found = _plan(paths or ["."], component)
    how = found.test.match if match is None else match
    if how not in MATCHES:
        raise UsageError(
            f"invalid value `{how}` for `--match`", f"possible values: {', '.join(MATCHES)}"
        )
    return run(component or folder, files, loose=how == "json", update=update)


def _plan(paths: Sequence[str], component: str | None) -> tuple[str, list[str], Manifest]:
    """The component's folder, its transcripts, its manifest. Raises `UsageError`."""
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise UsageError(f"no such file or folder: `{missing[0]}`", "check the path")
    folders = [path for path in paths if os.path.isdir(path)]
    if folders and len(paths) > 1:
        raise UsageError("one folder, or transcripts of one component", "run it once for each")
    folder = folders[0] if folders else _folder_of(paths[0])
    path = path_of(folder) if folder else None
    if path is None:
        if component is None or not (files := list(_transcripts(paths))):
            raise UsageError(
                f"there is no {FILE} in `{folder or os.path.dirname(paths[0]) or '.'}`",
                "`conductor new NAME` makes a component, --component names another",
            )
        return "", files, Manifest(name="component")
    found = load(path)
    files = [path for path in paths if not os.path.isdir(path)] or sorted(
        _own(folder, one) for one in _matching(folder, found.test.transcripts)
    )
    if not files:
        raise UsageError(
            f"`{found.name}` has no transcripts ({', '.join(found.test.transcripts)})",
            "write one: docs/authoring.md says how",
        )
    # A bare name would be taken for that of a bundled component.
    return os.path.join(folder, ""), files, found


def _matching(folder: str, patterns: Sequence[str]) -> list[str]:
    """The files below a folder that one of the patterns stands for. Raises `UsageError`."""
    try:
        globs = [compile_glob(pattern) for pattern in patterns]
        every = untrusted_files.below(folder, lambda _: True)
        found = [path for path in every if any(one.fullmatch(path) for one in globs)]
    except ValueError as error:
        raise UsageError(f"a pattern of transcripts: {error}", f"`[test]` of {FILE}") from None
    except OSError as error:
        raise UsageError(
            f"`{folder}`: {error.strerror}", "name the transcripts, or put them elsewhere"
        ) from None
    if len(found) > _MOST_FILES:
        raise UsageError(
            f"`{folder}` has more than {_MOST_FILES:,} transcripts", "name those you want played"
        )
    return found


def _own(folder: str, path: str) -> str:
    """The path of a transcript that a manifest names. Raises `UsageError` for what is none: a link
    in a stranger's folder may lead to any file, which `--update` would write."""
    whole = os.path.normpath(os.path.join(folder, path))
    shown = visible_path(whole)
    if os.path.islink(whole):
        raise UsageError(
            f"`{shown}` is a link, and links in the folder of a component are not followed",
            f"it leads to {visible_path(os.path.realpath(whole))}; name it on the command line if "
            "you want it played",
        )
    if not os.path.isfile(whole):
        raise UsageError(f"`{shown}` is no ordinary file", "take it out of the folder")
    return whole


def _transcripts(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if os.path.isdir(path):
            yield from (os.path.join(path, one) for one in _matching(path, ["*.txt"]))
        else:
            yield path


def _folder_of(path: str) -> str:
    """The nearest folder above a file that has a manifest, or nothing."""
    folder = os.path.dirname(os.path.abspath(path))
    while path_of(folder) is None:
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return os.path.relpath(folder)


def run(component: str, files: Sequence[str], *, loose: bool, update: bool) -> int:
    """Plays them; the exit code. Raises `UsageError`."""
    from conductor.author.transcripts import playing
    from conductor.cli import first_use
    from conductor.spec.catalog import resolve

    failed = 0
    spec = resolve(component)
    first_use.announce_program(spec)
    with playing.targets(spec) as make:
        for path in files:
            try:
                text = untrusted_files.read(path, _MOST_BYTES)
            except OSError as error:
                shown = visible_path(path)
                raise UsageError(f"`{shown}`: {error.strerror}", "check the path") from None
            try:
                played = playing.play(make, text, path, loose=loose)
            except ValueError as error:
                raise UsageError(str(error), "docs/authoring.md describes transcripts") from None
            failed += _told(path, played, text, update=update)
    if not failed:
        return 0
    _summary(failed, len(files))
    return EXIT_DIFFERENT


def _summary(failed: int, files: int) -> None:
    hint = "if what came is right, `conductor test --update` writes it into the transcripts"
    report.error(f"{failed} of {files} transcripts differ", hint)


def _told(path: str, played: Played, text: bytes, *, update: bool) -> bool:
    """Prints how one transcript went; whether it failed."""
    if played.failure is not None:
        report.say(f"FAILED  {visible_path(path)}")
        _error(played.failure)
        return True
    if not played.differences:
        count = f"{played.deliveries} deliver{'y' if played.deliveries == 1 else 'ies'}"
        report.say(f"passed  {visible_path(path)}: {count}")
        return False
    if update and played.text != text:
        with open(path, "wb") as file:
            file.write(played.text)
        changed = len(played.differences)
        report.say(
            f"updated {visible_path(path)}: {changed} deliver{'y' if changed == 1 else 'ies'}"
        )
        return False
    report.say(f"FAILED  {visible_path(path)}")
    for one in played.differences[:_SHOWN]:
        report.say(*(f"    {line}" for line in explained(path, one)))
    if len(played.differences) > _SHOWN:
        more = len(played.differences) - _SHOWN
        report.say(f"    and {more} more deliver{'y' if more == 1 else 'ies'}")
    return True


def _error(error: ConductorError) -> None:
    report.say(f"    {error.text}", *([f"    hint: {error.hint}"] if error.hint else []))


def explained(path: str, one: Difference) -> Iterator[str]:
    """A delivery that differs, for people: `-` is missing, `+` came, as in a diff."""
    yield f"{visible_path(path)}:{one.line}"
    for line in one.given:
        yield f"> {_cut(_text(line))}"
    if not one.said:
        yield "nothing came"
    common = 0
    for expected, said in zip(one.expected, one.said, strict=False):
        if expected != said:
            break
        common += 1
    if common:
        yield f"  {common} line{'s' if common > 1 else ''} as expected, then"
    for expected, said in zip(one.expected[common:], one.said[common:], strict=False):
        if expected == said:
            yield f"  {_cut(_text(said))}"
            continue
        left, right, at = _parted(_text(expected), _text(said))
        yield f"- {left}"
        yield f"+ {right}"
        yield f"  {' ' * at}^"
    most = min(len(one.expected), len(one.said))
    for line in one.expected[most:]:
        yield f"- {_cut(_text(line))}"
    for line in one.said[most:]:
        yield f"+ {_cut(_text(line))}"


def _text(line: bytes) -> str:
    return visible(line.decode("utf-8", "backslashreplace"))


def _cut(text: str) -> str:
    most = 4 * _AROUND
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _parted(expected: str, said: str) -> tuple[str, str, int]:
    """Two lines around where they part, and the column of that."""
    pairs = enumerate(zip(expected, said, strict=False))
    at = next((at for at, (a, b) in pairs if a != b), min(len(expected), len(said)))
    first = max(0, at - _AROUND)
    before = "…" if first else ""
    shown = [
        before + text[first : at + _AROUND] + ("…" if len(text) > at + _AROUND else "")
        for text in (expected, said)
    ]
    return shown[0], shown[1], at - first + len(before)
