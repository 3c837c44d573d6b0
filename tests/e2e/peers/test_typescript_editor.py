"""The client library in TypeScript: its own tests, its README, and what the page has of it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.npm import install, node_tools
from tests.page import editing, library
from tests.places import DEADLINE

pytestmark = pytest.mark.peers

_README: Final = (library.SOURCES / "README.md").read_text(encoding="utf-8")


def node() -> str:
    """The Node on PATH."""
    tools = node_tools()
    if tools is None:
        pytest.skip("needs node and npm on PATH")
    return tools[0]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library built in `node_modules`, as a project that uses it has it."""
    tools = node_tools()
    if tools is None:
        pytest.skip("needs node and npm on PATH")
    modules = install(tools[1], library.SOURCES)
    project = tmp_path_factory.mktemp("editor")
    package = project / "node_modules" / "conductor-acp-editor"
    for name in ("@agentclientprotocol", "zod"):
        package.parent.mkdir(exist_ok=True)
        (package.parent / name).symlink_to(modules / name)
    library.build(modules, package)
    return project


def test_its_own_tests(built: Path) -> None:
    tests = sorted((built / "node_modules/conductor-acp-editor/dist/test").glob("*.test.js"))
    assert tests
    done = subprocess.run(
        [node(), "--test", *map(str, tests)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, "# fail 0" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_page_has_what_is_built_of_it(built: Path) -> None:
    of_library = built / "node_modules/conductor-acp-editor/dist/src"
    for name in library.FILES:
        held = (library.STATIC / name).read_text(encoding="utf-8")
        assert held == (of_library / name).read_text(encoding="utf-8"), library.HINT


def test_its_readme_s_editor_shows_panels(built: Path, launch: Launch) -> None:
    code = re.findall(r"```js\n(.*?)```", _README, re.DOTALL)
    assert len(code) == 1
    (built / "editor.mjs").write_text(code[0], encoding="utf-8")
    command = built / "bin" / "conductor"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.join(launch.base)} "$@"\n')
    command.chmod(0o755)
    agent = shlex.join([sys.executable, str(Path(editing.__file__))])
    done = subprocess.run(
        [node(), "editor.mjs", "panels", agent],
        cwd=built,
        env={**launch.env, "PATH": f"{command.parent}{os.pathsep}{launch.env['PATH']}"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *shown, said = done.stdout.splitlines()
    assert [line.partition(": ")[2] for line in shown[:3]] == [
        "Research: <h1>One</h1>",
        "Other: <p>Other</p>",
        "Research: <h1>Two</h1>",
    ]
    assert shown[3:] == ["panel p is gone"]
    refused, *answers = json.loads(said)
    assert "label" in refused
    assert "contents" in refused
    panel = {"shown": "panel"}
    assert answers == [panel, panel, panel, "<h1>Two</h1>", {}, None]


def test_its_lock_names_no_registry() -> None:
    lock = json.loads((library.SOURCES / "package-lock.json").read_text(encoding="utf-8"))
    assert lock["packages"]
    assert [each for each in lock["packages"].values() if "resolved" in each] == []
