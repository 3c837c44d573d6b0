"""The wheel carries everything it needs: installed into an empty environment, it runs."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.places import ROOT

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
NOT_SOURCES = shutil.ignore_patterns(
    ".git", "__pycache__", ".*_cache", ".venv", ".hypothesis", "node_modules", "target"
)
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built from a copy of this checkout: building it may make a Python guest,
    and other tests shall go on with the one they have."""
    folder = tmp_path_factory.mktemp("wheel")
    source = tmp_path_factory.mktemp("source") / "conductor"
    shutil.copytree(ROOT, source, ignore=NOT_SOURCES)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)],
        check=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("empty") / "env"
    venv.create(folder, with_pip=True)
    subprocess.run(
        [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", str(wheel)], check=True
    )
    return folder / "bin"


def run(program: Path, *arguments: str, cwd: Path, given: str = "") -> str:
    """Runs an installed program with next to no environment; the result is its output."""
    done = subprocess.run(
        [str(program), *arguments],
        input=given,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": os.defpath, "HOME": str(cwd)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert said(done.stderr) == []
    return done.stdout


def said(text: str) -> list[str]:
    """The lines of standard error, but those in which a slow machine says how long it takes."""
    return [line for line in text.splitlines() if not re.search(r", \d+ s( …$|: )", line)]


def test_the_wheel_holds_three_packages_and_no_leftovers(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/", 1)[0] for name in names}
    (data,) = (name for name in names if ".data/" in name)
    assert data.endswith(".data/data/share/man/man1/conductor.1")
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {
        "conductor",
        "guest_sdk",
        "wasm_host",
    }
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []
    for part in (
        "datetime/datetime.wasm",
        "passthrough/passthrough.wasm",
        "demo/agent.py",
        "tools-demo/tools-demo.wasm",
        "mcp-attach/proxy.py",
    ):
        assert f"conductor/_components/{part}" in names
    for template in (ROOT / "conductor" / "author" / "templates").rglob("*.tmpl"):
        assert str(template.relative_to(ROOT)) in names
    for manifest in sorted((ROOT / "components").glob("*/component.toml")):
        said = tomllib.loads(manifest.read_text(encoding="utf-8"))
        runs = [said["file"]] if "file" in said else []
        if runs == ["."]:
            runs = [path.name for path in manifest.parent.glob("*.py")]
        for part in ("component.toml", "README.md", *runs):
            assert f"conductor/_components/{manifest.parent.name}/{part}" in names


def test_the_main_job_runs_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    fixed = ("-c", "clock=2025-10-08T12:34:56+00:00")
    asked = ("datetime", "demo", "-p", "what day is it?")
    said = run(installed / "conductor", "exec", *fixed, *asked, cwd=tmp_path)
    assert said == '<current-date date="2025-10-08" time="12:34:56"/>\nwhat day is it?\n'


def test_a_sandboxed_tool_answers_without_node(installed: Path, tmp_path: Path) -> None:
    def added(agent: str) -> str:
        asked = ("tools-demo", agent, "-p", '/tool add {"a":2,"b":3}')
        return run(installed / "conductor", "exec", *asked, cwd=tmp_path)

    assert added("demo") == "5\n"
    # The library `mcp` is an extra: what needs it says so.
    assert "(hint: install `conductor-acp[mcp]`" in added("demo --no-http")


def test_a_python_proxy_runs_sandboxed_without_a_toolchain(installed: Path, tmp_path: Path) -> None:
    example = ROOT / "guest_sdk" / "python" / "examples" / "shout.py"
    (tmp_path / "shout.py").write_bytes(example.read_bytes())
    done = subprocess.run(
        [str(installed / "conductor"), "exec", "./shout.py,only=filter", "demo", "-p", "hello"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "HELLO\n"), done.stderr
    compiled = "conductor: compiling the Python guest; once on this machine …"
    assert said(done.stderr) == [compiled]
    author(installed / "conductor", tmp_path)


def author(program: Path, home: Path) -> None:
    """The first steps of somebody with nothing but the wheel; the guest is compiled by now."""

    def conductor(*arguments: str, at: Path) -> str:
        done = subprocess.run(
            [str(program), *arguments],
            capture_output=True,
            text=True,
            cwd=at,
            env={"PATH": os.defpath, "HOME": str(home)},
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    conductor("new", "my-proxy", at=home)
    folder = home / "my-proxy"
    assert "passed" in conductor("test", at=folder)
    assert re.search(r"\nmy-proxy: \d+ passed, 1 skipped\n", conductor("test", ".", at=folder))
    said = conductor("exec", ".", "demo", "-p", "hi", at=folder)
    assert said == "Answer briefly.\nhi\n"
    conductor("new", "by-hand", "--lang", "wat", at=home)
    assert "recorded" in conductor("test", "--build", at=home / "by-hand")
    assert "passed" in conductor("test", at=home / "by-hand")


def test_a_chain_answers_an_editor(installed: Path, tmp_path: Path) -> None:
    said = run(
        installed / "conductor",
        *("agent", "datetime", "conductor proxy passthrough passthrough", "demo"),
        cwd=tmp_path,
        given=json.dumps(INITIALIZE) + "\n",
    )
    (answer,) = [json.loads(line) for line in said.splitlines()]
    assert answer["id"] == 0
    assert answer["result"]["agentInfo"]["name"] == "demo"


def test_inspect_knows_the_bundled_module(installed: Path, tmp_path: Path) -> None:
    said = run(installed / "conductor", "inspect", "passthrough", "--json", cwd=tmp_path)
    card = json.loads(said)
    assert card["carrier"] == "core"
    assert card["imports"] == []
