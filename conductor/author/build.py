"""Builds a component: runs its manifest's command, embeds the manifest, records the digest."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import guest_sdk
import wasm_host
from conductor.author.subject import subjects
from conductor.errors import ComponentError, UsageError, counted, one_line
from conductor.spec import managed, private_files
from conductor.spec.catalog import resolve
from conductor.spec.manifest import section
from conductor.spec.manifest.grants import filled
from conductor.spec.manifest.reading import Manifest, load, parse, path_in
from conductor.spec.paths import MANIFEST
from conductor.spec.programs import runnable
from conductor.spec.toml_files import line_of


def build_component(folder: str, begun: Callable[[str], None] = lambda text: None) -> str:
    """Builds the component in a folder; returns a sentence about the result.

    Args:
        folder: Has the component's manifest.
        begun: Called with the command of the build, as a sentence, before the command runs.

    Raises:
        UsageError: there is no manifest, or it does not say how to build.
        ComponentError: the build failed, or made no proxy.
    """
    path = path_in(folder)
    manifest = load(path)
    if manifest.file is None:
        raise UsageError(f"`{manifest.name}` is a program", "there is nothing to build by this")
    if manifest.scripted:
        return _load_script(folder, manifest)
    if not manifest.build.command:
        raise UsageError(
            f"the manifest of `{manifest.name}` has no `[build]`", 'add `command = ["…"]` to one'
        )
    policy = managed.policy()
    if policy is not None and not policy.file.build_commands:
        what = f"the build command of `{manifest.name}`, a program with your rights"
        raise policy.refusal(what, "build-commands")
    begun(f"building `{manifest.name}`: {one_line(shlex.join(manifest.build.command))}")
    _run(manifest, folder)
    return _record(manifest, folder, path)


def _load_script(folder: str, manifest: Manifest) -> str:
    """Python source: there is nothing to compile, but it must load."""
    with subjects(resolve(os.path.join(folder, ""))) as make:
        make()
    return f"{manifest.file}: nothing to compile; it loads in the sandbox"


def _run(manifest: Manifest, folder: str) -> None:
    assert manifest.file is not None
    places = {
        "{python}": sys.executable,
        "{dir}": os.path.realpath(folder),
        "{sdk}": os.path.dirname(os.path.realpath(guest_sdk.__file__)),
        "{source}": manifest.source or "",
        "{file}": manifest.file,
    }
    words = [filled(word, places) for word in manifest.build.command]
    needs = f"it needs: {manifest.build.needs}" if manifest.build.needs else ""
    try:
        command = runnable(words, lambda _: ())
    except UsageError:
        raise UsageError(f"`{words[0]}` is no program on PATH", needs or "install it") from None
    env = {**os.environ, **manifest.build.env}
    done = subprocess.run(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=2, check=False
    )
    if done.returncode != 0:
        failed = f"building `{manifest.name}` failed: exit code {done.returncode}"
        raise ComponentError(failed, "its output above says why" + (f"; {needs}" if needs else ""))
    if manifest.build.made:
        _fetch(manifest, Path(folder, manifest.build.made), Path(folder, manifest.file))


def _fetch(manifest: Manifest, made: Path, file: Path) -> None:
    """Copies a file that the command made elsewhere."""
    if not made.is_file():
        raise ComponentError(
            f"the build of `{manifest.name}` made no `{manifest.build.made}`", "look at `made`"
        )
    beside = file.with_name(f"{file.name}.new")  # a reader of `file` sees the old or the new one
    shutil.copyfile(made, beside)
    beside.replace(file)


def _record(manifest: Manifest, folder: str, path: str) -> str:
    """Checks the module, embeds the manifest and records the digest; a sentence about it."""
    assert manifest.file is not None
    module = Path(folder, manifest.file)
    if not module.is_file():
        raise ComponentError(
            f"the build of `{manifest.name}` made no `{manifest.file}`",
            "look at `[build]` and `file`",
        )
    try:
        info = wasm_host.describe(module)
    except wasm_host.LoadError as error:
        raise ComponentError(f"`{manifest.file}`: {error}", error.hint) from None
    if info.problems:
        raise ComponentError(
            f"`{manifest.file}` would be refused: it {'; it '.join(info.problems)}",
            "docs/architecture.md#the-channel lists the exports and imports of a guest",
        )
    if manifest.carrier not in (None, info.carrier):
        raise ComponentError(
            f"`{manifest.file}` is of the carrier {info.carrier}, its manifest says "
            f"{manifest.carrier}",
            f'write `carrier = "{info.carrier}"`, or build it otherwise',
        )
    source = Path(path).read_text(encoding="utf-8")
    section.embed(str(module), without_digest(source).encode())
    info = wasm_host.describe(module)
    same = manifest.sha256 == info.digest
    if not same:
        private_files.replace(path, with_digest(source, info.digest).encode(), mode=0o666)
    digest = f"{info.digest[:16]}… {'as recorded' if same else 'recorded'}"
    return f"{manifest.file}: {info.carrier}, {counted(info.size, 'byte')}, sha256 {digest}"


def without_digest(source: str) -> str:
    """A manifest's text as the module can hold it: a file cannot contain its own digest."""
    lines = list(io.StringIO(source))
    at = line_of(source, ("sha256",))
    return "".join(lines[: at - 1] + lines[at:]) if at else source


def with_digest(source: str, digest: str) -> str:
    """A manifest's text with this digest; the rest stays as it was written.

    Raises `UsageError` for a text that has no place for the digest.
    """
    lines = list(io.StringIO(source))
    at = line_of(source, ("sha256",))
    if at:
        lines[at - 1] = re.sub(r"""(["'])[^"']*\1""", f'"{digest}"', lines[at - 1], count=1)
    else:
        at = line_of(source, ("file",))
        lines[at - 1] = lines[at - 1].rstrip("\n") + f'\nsha256 = "{digest}"\n'
    text = "".join(lines)
    if parse(text.encode()).sha256 != digest:
        raise UsageError(f"{MANIFEST} has no place for the digest", 'write `sha256 = ""` on a line')
    return text
