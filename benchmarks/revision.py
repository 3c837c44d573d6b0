"""Another revision of this repository, built to be measured beside the present one."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.native import BuildError, run

ROOT: Final = Path(__file__).resolve().parent.parent
_PRODUCT: Final = ("conductor", "wasm_host", "components", "guest_sdk", "pyproject.toml")
_LIMIT_S: Final = 1200
_GIT: Final = shutil.which("git") or "git"


def present() -> str | None:
    """The short name of the revision checked out, with ``+`` if the product was changed since.

    None outside a git repository.
    """
    name = _git("rev-parse", "--short=8", "HEAD")
    if name is None:
        return None
    return name + "+" if _git("status", "--porcelain", "--", *_PRODUCT) else name


def build(revision: str, cache: Path) -> Path:
    """The conductor of a revision: installed in an environment in ``cache``, once.

    Raises BuildError.
    """
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None:
        raise BuildError(f"no revision '{revision}' in {ROOT}", "`git log --oneline` lists them")
    home = cache / "revisions" / f"{commit[:12]}-{_means()}"
    conductor = home / "bin" / "conductor"
    done = home / "built"  # an environment cannot be built aside: its scripts hold its path
    if not done.exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        python = [sys.executable, "-m"]
        run([*python, "venv", "--without-pip", str(home)], f"a venv for {revision}", _LIMIT_S)
        with tempfile.TemporaryDirectory(dir=cache) as aside:
            _unpack(commit, Path(aside))
            pip = [*python, "pip", "--python", str(home), "--disable-pip-version-check"]
            run([*pip, "install", "--quiet", aside], revision, _LIMIT_S)
        done.touch()
    return conductor


def _means() -> str:
    """A digest of the other inputs of a build: this Python, and the settings of Hatch."""
    settings = [f"{name}={os.environ[name]}" for name in sorted(os.environ) if "HATCH" in name]
    return hashlib.sha256("\n".join([sys.version, *settings]).encode()).hexdigest()[:8]


def _unpack(commit: str, folder: Path) -> None:
    """The files of a commit, into a folder."""
    archive = folder / "files.tar"
    run([_GIT, "-C", str(ROOT), "archive", "-o", str(archive), commit], "its archive", _LIMIT_S)
    with tarfile.open(archive) as files:
        # The filter came with Python 3.11.4. Without it: the archive is git's own.
        safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        files.extractall(folder, **safe)  # noqa: S202
    archive.unlink()


def _git(*arguments: str) -> str | None:
    """The output of git; None if git fails or is not there."""
    try:
        done = subprocess.run(
            [_GIT, "-C", str(ROOT), *arguments], check=False, capture_output=True, text=True
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
