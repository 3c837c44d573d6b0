"""The languages, and how the proxy of each is made."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import guest_sdk
from conductor.author import project
from conductor.spec.manifest.reading import load as load_manifest
from conductor.spec.paths import MANIFEST

NAME: Final = "brief"
_SDK: Final = Path(guest_sdk.__file__).parent
_LIMIT_S: Final = 900


class NotBuiltError(Exception):
    """There is no proxy in this language here: the tools that it needs, and their output."""

    def __init__(self, needs: str, said: str = "") -> None:
        super().__init__(f"not built; it needs: {needs}")
        self.said = said


@dataclass(frozen=True, slots=True)
class Row:
    """One language."""

    key: str
    label: str
    template: str
    """As of `conductor new --lang`."""
    library: str = ""
    """The folder of `guest_sdk` that the proxy is built with."""
    install: tuple[str, ...] = ()
    """The command to run in the project before the build."""
    built: str = ""
    """A module that lies below `guest_sdk`, for where the tools are missing."""
    sandboxed: bool = True
    adds: bool = True
    """Whether it puts a block in front of prompts."""


ROWS: Final = (
    Row("wat", "WAT, passes all", "wat", adds=False),
    Row("c", "C", "c", "c"),
    Row("zig", "Zig", "zig", "zig"),
    Row("rust", "Rust", "rust", "rust", built="rust/examples/brief.wasm"),
    Row("go", "Go (WASI)", "go", "go"),
    Row("js", "JavaScript", "js", "javascript", install=("npm", "ci")),
    Row("python", "Python", "python"),
    Row("process", "Python, a program", "python", sandboxed=False),
)


def make(row: Row, cache: Path, conductor: Sequence[str]) -> Path:
    """The proxy in this language: a folder in `cache`, built if it is not there yet, or a module.

    Raises `NotBuiltError`.
    """
    try:
        return _project(row, cache, conductor)
    except NotBuiltError:
        built = _SDK / row.built
        if not row.built or not built.is_file():
            raise
        return built


def _project(row: Row, cache: Path, conductor: Sequence[str]) -> Path:
    if row.template not in project.languages():
        raise NotBuiltError(f"a template of `conductor new --lang {row.template}`")
    files = dict(project.files(row.template, NAME))
    folder = cache / f"{row.template}-{_digest(row, files)}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    # Built aside and renamed: another run never sees half a project.
    with tempfile.TemporaryDirectory(dir=cache) as aside:
        fresh = Path(aside) / NAME
        for name, text in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_text(text, encoding="utf-8")
        needs = load_manifest(str(fresh / MANIFEST)).build.needs or "a look at its template"
        if row.install:
            _run(row.install, fresh, needs)
        _run([*conductor, "test", "--build", "--only", "scenarios"], fresh, needs)
        fresh.replace(folder)
    return folder


def _run(command: Sequence[str], folder: Path, needs: str) -> None:
    if shutil.which(command[0]) is None:
        raise NotBuiltError(needs)
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise NotBuiltError(needs, done.stdout + done.stderr)


def _digest(row: Row, files: dict[str, str]) -> str:
    state = hashlib.sha256()
    library = sorted((_SDK / row.library).rglob("*")) if row.library else []
    sources = [path for path in library if path.is_file() and path.suffix != ".wasm"]
    texts = {str(path): path.read_text("utf-8") for path in sources}
    for name, text in [*sorted(files.items()), *texts.items()]:
        state.update(f"{name} {len(text)}\n{text}".encode())
    return state.hexdigest()[:16]
