"""The parts of a project: manifests of workspaces, and components that cannot be judged."""

import json
import os
from pathlib import Path

import pytest

from conductor.spec.config.model import When
from conductor.spec.config.project import Project


def listed(folder: Path, package: str, file: str | None = None) -> tuple[str, list[str]]:
    """The manifest that lists a package, from the folder on; and what was warned about."""
    warned: list[str] = []
    why = Project(str(folder), warned.append).fits(When(file=file, dependency=package))
    return os.path.relpath(why.partition(" lists `")[0], folder) if why else "", warned


def write(path: Path, text: str) -> None:
    """Writes a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


CARGO = """
[workspace]
members = ["crates/*", "./tools/one/", "gone"]
exclude = ["crates/old"]
"""
UV = '[tool.uv.workspace]\nmembers = ["packages/*"]\nexclude = ["packages/old"]\n'
NPM = json.dumps({"workspaces": ["packages/**", "!packages/old"]})
YARN = json.dumps({"workspaces": {"packages": ["packages/*", "!packages/old"]}})


@pytest.mark.parametrize(
    ("name", "text", "member", "other"),
    [
        ("Cargo.toml", CARGO, "crates/a", "crates/old"),
        ("Cargo.toml", CARGO, "tools/one", "tools/two"),
        ("pyproject.toml", UV, "packages/a", "packages/old"),
        ("package.json", NPM, "packages/a", "packages/old"),
        ("package.json", NPM, "packages/a/b", "packages/node_modules"),
        ("package.json", YARN, "packages/a", "packages/a/b"),
    ],
)
def test_members_of_a_workspace_count(
    name: str, text: str, member: str, other: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    for folder, package in ((member, "wanted"), (other, "other")):
        lists = {
            "Cargo.toml": f"[dependencies]\n{package}.workspace = true\n",
            "pyproject.toml": f'[project]\ndependencies = ["{package}>1"]\n',
            "package.json": json.dumps({"devDependencies": {package: "1"}}),
        }
        write(tmp_path / folder / name, lists[name])
    assert listed(tmp_path, "wanted") == (f"{member}/{name}", [])
    assert listed(tmp_path, "wanted", name) == (f"{member}/{name}", [])
    assert listed(tmp_path, "other") == ("", [])


def test_each_manifest_that_a_pattern_stands_for_counts(tmp_path: Path) -> None:
    for folder, package in (("a", "x"), ("b/c", "tokio")):
        write(tmp_path / folder / "Cargo.toml", f'[dependencies]\n{package} = "1"\n')
    assert listed(tmp_path, "tokio") == ("", [])
    assert listed(tmp_path, "tokio", "**/Cargo.toml") == ("b/c/Cargo.toml", [])


@pytest.mark.proves("a project's manifests name no")
def test_a_manifest_leads_nowhere_out_of_the_project(tmp_path: Path) -> None:
    project, beside = tmp_path / "project", tmp_path / "beside"
    write(beside / "Cargo.toml", '[dependencies]\ntokio = "1"\n')
    project.mkdir()
    (project / "Cargo.toml").symlink_to(beside / "Cargo.toml")
    found, warned = listed(project, "tokio")
    assert found == ""
    assert warned == [f"{project}/Cargo.toml is passed over: it leads out of the project"]
    (project / "Cargo.toml").unlink()
    for member in ("../beside", str(beside), "a/../../beside"):
        write(project / "Cargo.toml", f'[workspace]\nmembers = ["{member}"]\n')
        found, warned = listed(project, "tokio")
        assert found == ""
        assert f"{project}/Cargo.toml: its members are passed over: `{member}` is no" in warned[0]
    # A link to a folder is no member, whatever its name.
    (project / "inner").symlink_to(beside)
    for member in ("inn*", "inner"):
        write(project / "Cargo.toml", f'[workspace]\nmembers = ["{member}"]\n')
        found, warned = listed(project, "tokio")
        assert found == ""
        assert "".join(warned) in ("", f"{project}/inner/Cargo.toml is passed over: it leads out of the project")  # fmt: skip  # noqa: E501
    # Within the project a link may lead anywhere.
    write(project / "real.toml", '[dependencies]\ntokio = "1"\n')
    (project / "Cargo.toml").unlink()
    (project / "Cargo.toml").symlink_to("real.toml")
    assert listed(project, "tokio") == ("Cargo.toml", [])


def test_huge_and_malicious_manifests_are_passed_over_by_name(tmp_path: Path) -> None:
    cargo = tmp_path / "Cargo.toml"
    with cargo.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    assert listed(tmp_path, "tokio")[1] == [f"{cargo} is passed over: it is larger than 1 MiB"]
    for text, why in [
        ("a" + ".a" * 2100 + " = 1\n", "it has too many dots to be read"),
        ("x = " + "[" * 100_000, f"{cargo} is passed over: "),
        ("\0", f"{cargo} is passed over: "),
    ]:
        cargo.write_text(text)
        found, warned = listed(tmp_path, "tokio")
        assert found == ""
        assert why in warned[0]
    cargo.unlink()
    (tmp_path / "package.json").write_text('{"a":' * 100_000)
    assert "package.json is passed over" in listed(tmp_path, "tokio")[1][0]


def test_only_so_many_manifests_are_read(tmp_path: Path) -> None:
    write(tmp_path / "Cargo.toml", '[workspace]\nmembers = ["c/*"]\n')
    broken = "x = 1\n" * 2
    for number in range(20):
        write(tmp_path / f"c/{number}/Cargo.toml", broken)
    found, warned = listed(tmp_path, "tokio")
    assert found == ""
    assert warned[-1] == f"{tmp_path}: there are too many manifests; the rest is passed over"
    assert len(warned) < 20


def test_each_thing_is_judged_once(tmp_path: Path) -> None:
    cargo = tmp_path / "Cargo.toml"
    cargo.write_text('[dependencies]\ntokio = "1"\n')
    warned: list[str] = []
    project = Project(str(tmp_path), warned.append)
    assert not project.is_judged
    assert project.fits(When(dependency="tokio"))
    assert project.is_judged
    assert not project.fits(When(dependency="serde"))
    # An agent writes in the project.
    cargo.write_text('[dependencies]\nserde = "1"\n')
    assert project.fits(When(dependency="tokio"))
    assert not project.fits(When(dependency="serde"))
    assert not project.fits(When(file="Cargo.toml", dependency="serde"))
    cargo.write_text("[")
    fresh = Project(str(tmp_path), warned.append)
    assert not any(fresh.fits(When(dependency=name)) for name in ("a", "b", "c"))
    assert len(warned) == 1
    assert not Project("", warned.append).fits(When(file="Cargo.toml"))
    assert Project("", warned.append).fits(When())
