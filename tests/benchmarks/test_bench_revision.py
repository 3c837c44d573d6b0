"""Another revision beside the present one: how it is named, built, and found again."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import revision
from benchmarks.native import BuildError
from tests.places import ROOT

needs_git = pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="needs git and a checkout"
)

_PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""

# A wheel is a zip file: this makes one with a single script, without anything to be installed.
_BACKEND = """
import zipfile

def build_wheel(folder, settings=None, metadata=None):
    info = "conductor_acp-1.dist-info"
    name = "conductor_acp-1-py3-none-any.whl"
    texts = {
        "tiny.py": ["def main(): print('REVISION')"],
        f"{info}/METADATA": ["Metadata-Version: 2.1", "Name: conductor-acp", "Version: 1"],
        f"{info}/WHEEL": ["Wheel-Version: 1.0", "Root-Is-Purelib: true", "Tag: py3-none-any"],
        f"{info}/entry_points.txt": ["[console_scripts]", "conductor = tiny:main"],
        f"{info}/RECORD": [],
    }
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        for path, lines in texts.items():
            wheel.writestr(path, "".join(f"{line}\\n" for line in lines))
    return name
"""


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    git = shutil.which("git")
    assert git is not None
    subprocess.run([git, "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two commits whose conductor says which it is."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    (root / "pyproject.toml").write_text(_PYPROJECT, "utf-8")
    for name in ("first", "second"):
        (root / "backend.py").write_text(_BACKEND.replace("REVISION", name), "utf-8")
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", name)
    monkeypatch.setattr(revision, "ROOT", root)
    return root


@needs_git
def test_a_revision_is_built_once_with_its_own_files(project: Path, tmp_path: Path) -> None:
    del project
    cache = tmp_path / "cache"
    conductor = revision.build("HEAD~1", cache)
    said = subprocess.run([conductor], check=True, capture_output=True, text=True).stdout
    assert said == "first\n"
    made = os.stat(conductor).st_mtime_ns
    assert revision.build("HEAD~1", cache) == conductor
    assert os.stat(conductor).st_mtime_ns == made
    assert sorted(each.name for each in cache.iterdir()) == ["revisions"]
    # Broken off, it is begun anew.
    (conductor.parent.parent / "built").unlink()
    conductor.write_text("half a file", "utf-8")
    assert revision.build("HEAD~1", cache) == conductor
    assert subprocess.run([conductor], check=True, capture_output=True).stdout == b"first\n"


@needs_git
def test_changes_since_the_commit_show_in_the_name(project: Path) -> None:
    name = revision.present()
    assert name is not None
    assert len(name) == 8
    (project / "pyproject.toml").write_text(_PYPROJECT + "# changed\n", "utf-8")
    assert revision.present() == name + "+"


@pytest.mark.parametrize("unknown", ["no-such-revision", "--help", ""])
def test_an_unknown_revision_is_an_error_with_a_hint(unknown: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no revision") as error:
        revision.build(unknown, tmp_path)
    assert "git log" in error.value.hint


def test_outside_a_repository_there_is_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    assert revision.present() is None
