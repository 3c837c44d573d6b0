"""The systems where conductor runs, and its words on others."""

import subprocess
import sys
import tomllib
from typing import Any

import pytest

from tests.places import ROOT

# Modules that Python does not have on Windows, and the name that tells it where it is.
AS_ON_WINDOWS = """
import sys
sys.platform = "win32"
for name in ("fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "uvloop"):
    sys.modules[name] = None
from conductor.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "arguments", [[], ["--version"], ["agent", "datetime", "demo"], ["mcp", "x"], ["join", "x"]]
)
def test_on_windows_one_error_says_what_to_do(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_ON_WINDOWS, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    error, _, hint = done.stderr.partition("\n\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert error.startswith("error: conductor does not run on Windows")
    assert hint.startswith("hint: ")
    assert "WSL 2" in hint
    assert "Traceback" not in done.stderr


def test_the_readme_says_so() -> None:
    assert "WSL 2" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_classifiers_are_of_posix_only() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    systems = {name for name in project["classifiers"] if name.startswith("Operating System")}
    assert systems == {"Operating System :: MacOS", "Operating System :: POSIX :: Linux"}
