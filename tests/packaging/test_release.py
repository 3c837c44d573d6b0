"""Changelog fragments, and the notes of a release."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.projects import PROJECT, SETTINGS
from tests.places import ROOT

TYPES = {kind["directory"]: kind["name"] for kind in SETTINGS["tool"]["towncrier"]["type"]}
TEA = "### Added\n\n- It makes [tea](docs/tea.md).\n\n### Fixed\n\n- No more milk.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the files that a release reads and writes, without fragments."""
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "release-notes", tmp_path / "scripts")
    (tmp_path / "changelog.d").mkdir()
    shutil.copy(ROOT / "changelog.d" / "README.md", tmp_path / "changelog.d")
    return tmp_path


def run(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a project, on the forge of the variables alone."""
    command = [sys.executable, *arguments]
    env = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    return subprocess.run(
        command, cwd=project, env=env | variables, capture_output=True, text=True, check=False
    )


def notes(project: Path, tag: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `scripts/release-notes` of a project."""
    return run(project, "scripts/release-notes", tag, **variables)


def test_fragments_have_a_known_type_and_a_text() -> None:
    for path in (ROOT / "changelog.d").glob("*.*.md"):
        words, kind, _ = path.name.split(".")
        assert words.startswith("+")
        assert kind in TYPES
        assert path.read_text(encoding="utf-8").strip()


def test_the_changelog_has_the_version(project: Path) -> None:
    tag = f"v{PROJECT['version']}"
    shown = notes(project, tag)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout in (project / "CHANGELOG.md").read_text(encoding="utf-8")

    (project / "changelog.d" / "+tea.added.md").write_text("It makes tea.\n")
    left = notes(project, tag)
    assert left.returncode == 1
    assert "by hand" in left.stderr


def test_a_release_takes_its_notes_from_the_fragments(project: Path) -> None:
    if importlib.util.find_spec("towncrier") is None:
        pytest.skip("towncrier is not installed")
    version = "99.1.0"
    settings = project / "pyproject.toml"
    line = f'\nversion = "{PROJECT["version"]}"\n'
    settings.write_text(settings.read_text().replace(line, f'\nversion = "{version}"\n'))
    before = (project / "CHANGELOG.md").read_text(encoding="utf-8")
    (project / "changelog.d" / "+tea.added.md").write_text("It makes [tea](docs/tea.md).\n")
    (project / "changelog.d" / "+milk.fixed.md").write_text("No more milk.\n")
    left = notes(project, f"v{version}")
    assert left.returncode == 1
    assert "+milk.fixed.md, +tea.added.md" in left.stderr

    build = ("-m", "towncrier", "build", "--yes", "--version", version)
    built = run(project, *build, "--date", "2026-01-02")
    assert built.returncode == 0, built.stderr
    assert [path.name for path in (project / "changelog.d").iterdir()] == ["README.md"]
    shown = notes(project, f"v{version}")
    assert shown.stdout == TEA, shown
    forge = {"GITHUB_SERVER_URL": "https://forge.example", "GITHUB_REPOSITORY": "me/tea"}
    linked = notes(project, f"v{version}", **forge).stdout
    assert linked == TEA.replace("docs", f"https://forge.example/me/tea/blob/v{version}/docs")
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
