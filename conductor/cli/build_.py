"""`conductor build`: runs the command of a manifest, looks at what came, puts the manifest into it,
so that the file describes itself, and records its digest."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from conductor.cli import report
from conductor.errors import ComponentError, UsageError
from conductor.spec.manifest import section
from conductor.spec.manifest.reading import load, parse, path_of
from conductor.spec.manifest.values import FILE, Manifest

HELP: Final = (
    "Build a component by the command in its manifest, put the manifest into the module that came "
    "of it, and record its digest. The "
    "command is run without a shell, in the component's folder, with your rights.\n\n"
    "Exit code 1 when it fails, or what it makes is no proxy."
)
EPILOG: Final = "Examples:\n\n  conductor build\n\n  conductor build ./my-proxy"


def build(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="[FOLDER]",
            help="The component's folder. Default: this one.",
            show_default=False,
        ),
    ] = ".",
) -> int:
    """Builds a component. Raises `UsageError`, `ComponentError`."""
    path = path_of(folder)
    if path is None:
        raise UsageError(f"there is no {FILE} in `{folder}`", "`conductor new NAME` makes one")
    found = load(path)
    if found.file is None:
        raise UsageError(f"`{found.name}` is a program", "there is nothing to build by this")
    if found.scripted:
        return _script(folder, found)
    if not found.build.command:
        raise UsageError(
            f"the manifest of `{found.name}` has no `[build]`", 'add `command = ["…"]` to one'
        )
    _run(found, folder)
    return _record(found, folder, path)


def _script(folder: str, found: Manifest) -> int:
    """Python source: there is nothing to compile, but it must load."""
    from conductor.author import subject
    from conductor.spec.catalog import resolve

    with subject.targets(resolve(os.path.join(folder, ""))) as make:
        make()
    report.say(f"{found.file}: nothing to compile; it loads in the sandbox")
    return 0


def _run(found: Manifest, folder: str) -> None:
    import subprocess

    import guest_sdk
    from conductor.spec.manifest.grants import filled
    from conductor.spec.programs import runnable

    assert found.file is not None
    places = {
        "{python}": sys.executable,
        "{dir}": os.path.realpath(folder),
        "{sdk}": os.path.dirname(os.path.realpath(guest_sdk.__file__)),
        "{source}": found.source or "",
        "{file}": found.file,
    }
    words = [filled(word, places) for word in found.build.command]
    needs = f"it needs: {found.build.needs}" if found.build.needs else ""
    try:
        command = runnable(words, tuple)
    except UsageError:
        raise UsageError(f"`{words[0]}` is no program on PATH", needs or "install it") from None
    env = {**os.environ, **found.build.env}
    done = subprocess.run(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=2, check=False
    )
    if done.returncode != 0:
        failed = f"building `{found.name}` failed: exit code {done.returncode}"
        raise ComponentError(failed, "look at what it said" + (f"; {needs}" if needs else ""))
    if found.build.made:
        _fetch(found, Path(folder, found.build.made), Path(folder, found.file))


def _fetch(found: Manifest, made: Path, file: Path) -> None:
    """Copies what a command made elsewhere; whoever reads `file` meanwhile sees all of it."""
    import shutil

    if not made.is_file():
        raise ComponentError(
            f"the build of `{found.name}` made no `{found.build.made}`", "look at `made`"
        )
    beside = file.with_name(f"{file.name}.new")
    shutil.copyfile(made, beside)
    beside.replace(file)


def _record(found: Manifest, folder: str, path: str) -> int:
    import wasm_host

    assert found.file is not None
    module = Path(folder, found.file)
    if not module.is_file():
        raise ComponentError(
            f"the build of `{found.name}` made no `{found.file}`", "look at `[build]` and `file`"
        )
    try:
        info = wasm_host.describe(module)
    except wasm_host.LoadError as error:
        raise ComponentError(f"`{found.file}`: {error}", error.hint) from None
    if info.problems:
        raise ComponentError(
            f"`{found.file}` would be refused: it {'; it '.join(info.problems)}",
            "docs/channel-abi.md says what a guest exports and may import",
        )
    if found.carrier not in (None, info.carrier):
        raise ComponentError(
            f"`{found.file}` is of the carrier {info.carrier}, its manifest says {found.carrier}",
            f'write `carrier = "{info.carrier}"`, or build it otherwise',
        )
    source = Path(path).read_text(encoding="utf-8")
    section.embed(str(module), within(source).encode())
    info = wasm_host.describe(module)
    same = found.sha256 == info.digest
    if not same:
        _replace(path, recorded(source, info.digest))
    what = "as recorded" if same else "recorded"
    said = f"{found.file}: {info.carrier}, {info.size:,} bytes, sha256 {info.digest[:16]}… {what}"
    report.say(said)
    return 0


def within(source: str) -> str:
    """A manifest's text as the module it describes can hold it: without the module's digest."""
    from conductor.spec.manifest.errors import line_of

    lines = source.splitlines(keepends=True)
    at = line_of(source, ("sha256",))
    return "".join(lines[: at - 1] + lines[at:]) if at else source


def recorded(source: str, digest: str) -> str:
    """A manifest's text with this digest; all else stays as it was written.

    Raises `UsageError` for one that is written so that there is no place for it.
    """
    from conductor.spec.manifest.errors import line_of

    lines = source.splitlines(keepends=True)
    at = line_of(source, ("sha256",))
    if at:
        lines[at - 1] = re.sub(r"""(["'])[^"']*\1""", f'"{digest}"', lines[at - 1], count=1)
    else:
        at = line_of(source, ("file",))
        lines[at - 1] = lines[at - 1].rstrip("\n") + f'\nsha256 = "{digest}"\n'
    text = "".join(lines)
    if parse(text.encode()).sha256 != digest:
        raise UsageError(f"{FILE} has no place for the digest", 'write `sha256 = ""` on a line')
    return text


def _replace(path: str, text: str) -> None:
    """All of it or nothing: whoever reads it meanwhile sees the old or the new one."""
    beside = f"{path}.new"
    with open(beside, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(beside, path)
