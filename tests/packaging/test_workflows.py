"""The workflows of the forge, as far as they can be checked without it.

What runs there only (the macOS jobs, publishing) is at least read here: keys, pins, permissions,
the Pythons, and that the scripts exist. `actionlint` reads the rest where it is on PATH.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.packaging.projects import PROJECT, SETTINGS, python_versions
from tests.places import ROOT

yaml: Any = pytest.importorskip("yaml")

FOLDER: Final = ROOT / ".github" / "workflows"
FILES: Final = sorted(FOLDER.glob("*.yml"))
_PINNED: Final = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
_SCRIPT: Final = re.compile(r"(?<![\w./-])((?:scripts|\.ci)/[\w.-]+)")

each_workflow = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def read(path: Path) -> dict[str, Any]:
    """A workflow; YAML 1.1 takes its key `on` for a truth value."""
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in workflow.items()}


def commands(workflow: dict[str, Any]) -> list[str]:
    """The commands in the steps of all jobs."""
    jobs = workflow["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_there_are_two() -> None:
    assert [path.name for path in FILES] == ["ci.yml", "release.yml"]


@each_workflow
def test_keys_are_known(path: Path) -> None:
    workflow = read(path)
    assert set(workflow) == {"name", "on", "permissions", "concurrency", "jobs"}
    for job in workflow["jobs"].values():
        known = {"name", "needs", "runs-on", "timeout-minutes", "environment", "permissions"}
        assert set(job) <= known | {"strategy", "steps"}
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
        for step in job["steps"]:
            assert set(step) <= {"uses", "with", "run", "env"}
            assert len({"uses", "run"} & set(step)) == 1


@each_workflow
def test_a_job_may_read_unless_it_says_what_else(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    more = {
        name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job
    }
    allowed = {"publish": {"id-token": "write"}, "announce": {"contents": "write"}}
    assert more == (allowed if path.name == "release.yml" else {})


@each_workflow
def test_actions_are_pinned_by_commit(path: Path) -> None:
    uses = [line.strip("- ") for line in path.read_text("utf-8").splitlines() if "uses:" in line]
    assert uses
    assert [line for line in uses if not _PINNED.match(line)] == []


@each_workflow
def test_checkouts_keep_no_credentials(path: Path) -> None:
    jobs = read(path)["jobs"].values()
    steps = [step for job in jobs for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert all(step["with"] == {"persist-credentials": False} for step in steps)


@each_workflow
def test_scripts_exist_and_can_be_run(path: Path) -> None:
    scripts = {name for command in commands(read(path)) for name in _SCRIPT.findall(command)}
    assert scripts
    for name in scripts:
        assert os.access(ROOT / name, os.X_OK), name


@each_workflow
def test_jobs_need_jobs_that_exist(path: Path) -> None:
    jobs = read(path)["jobs"]
    assert {job["needs"] for job in jobs.values() if "needs" in job} <= set(jobs)


def test_ci_runs_on_every_supported_python_and_platform() -> None:
    job = read(FOLDER / "ci.yml")["jobs"]["test"]
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == python_versions()
    assert PROJECT["requires-python"] == f">={matrix['python'][0]}"
    assert SETTINGS["tool"]["mypy"]["python_version"] == matrix["python"][0]
    assert SETTINGS["tool"]["ruff"]["target-version"] == f"py{matrix['python'][0].replace('.', '')}"
    assert [re.split(r"-", name)[0] for name in matrix["os"]] == ["ubuntu", "macos"]
    assert job["steps"][-1] == {"run": ".ci/run"}


def test_single_jobs_use_a_supported_python() -> None:
    for path in FILES:
        for job in read(path)["jobs"].values():
            for step in job["steps"]:
                version = step.get("with", {}).get("python-version", "${{")
                assert version in python_versions() or version.startswith("${{")


def test_a_release_is_a_tag_and_nothing_else() -> None:
    workflow = read(FOLDER / "release.yml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    publish = workflow["jobs"]["publish"]
    assert publish["environment"] == "release"
    assert not any("checkout" in step.get("uses", "") for step in publish["steps"])


def test_actionlint_agrees() -> None:
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("actionlint is not on PATH")
    done = subprocess.run([program, *map(str, FILES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
