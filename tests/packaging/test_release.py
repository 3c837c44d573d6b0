"""Changelog fragments, and the notes of a release."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.projects import PROJECT, SETTINGS
from tests.places import ROOT

TYPES = {kind["directory"]: kind["name"] for kind in SETTINGS["tool"]["towncrier"]["type"]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what a release reads and writes, without fragments."""
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "release-notes", tmp_path / "scripts")
    (tmp_path / "changelog.d").mkdir()
    shutil.copy(ROOT / "changelog.d" / "README.md", tmp_path / "changelog.d")
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a project."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def notes(project: Path, tag: str) -> subprocess.CompletedProcess[str]:
    """Runs `scripts/release-notes` of a project."""
    return run(project, "scripts/release-notes", tag)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "changelog.d").glob("*.*.md")), ids=lambda path: path.name
)
def test_fragments_have_a_known_type_and_a_text(path: Path) -> None:
    words, kind, _ = path.name.split(".")
    assert words.startswith("+")
    assert kind in TYPES
    assert path.read_text(encoding="utf-8").strip()


def test_a_release_takes_its_notes_from_the_fragments(project: Path) -> None:
    if importlib.util.find_spec("towncrier") is None:
        pytest.skip("towncrier is not installed")
    version = PROJECT["version"]
    before = (project / "CHANGELOG.md").read_text(encoding="utf-8")
    (project / "changelog.d" / "+tea.added.md").write_text("It makes tea.\n")
    (project / "changelog.d" / "+milk.fixed.md").write_text("No more milk.\n")
    left = notes(project, f"v{version}")
    assert left.returncode == 1
    assert "+milk.fixed.md, +tea.added.md" in left.stderr

    build = ("-m", "towncrier", "build", "--yes", "--version", version)
    built = run(project, *build, "--date", "2026-01-02")
    assert built.returncode == 0, built.stderr
    assert [path.name for path in (project / "changelog.d").iterdir()] == ["README.md"]
    shown = notes(project, f"v{version}")
    assert shown.stdout == "### Added\n\n- It makes tea.\n\n### Fixed\n\n- No more milk.\n", shown
    after = (project / "CHANGELOG.md").read_text(encoding="utf-8")
    head, older = before.split("<!-- releases -->\n")
    assert after.startswith(
        f"{head}<!-- releases -->\n\n## [{version}] - 2026-01-02\n\n### Added\n"
    )
    assert after.endswith(older)


def test_a_tag_of_another_version_is_refused(project: Path) -> None:
    done = notes(project, "v99.0")
    assert done.returncode == 1
    assert "the tag is v99.0" in done.stderr


def test_a_version_without_a_section_is_refused(project: Path) -> None:
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## [0.0.1]\n\nOld.\n")
    done = notes(project, f"v{PROJECT['version']}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "CHANGELOG.md has no section" in done.stderr
