"""`scripts/coverage` has a floor for each package, and tells when one is missed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.places import ROOT

SCRIPT: Final = ROOT / "scripts" / "coverage"
FLOORS: Final = dict(re.findall(r"^([\w/]+) +(\d+)$", SCRIPT.read_text("utf-8"), re.MULTILINE))


def test_each_package_has_a_floor() -> None:
    folders = {path.parent for path in (ROOT / "conductor").glob("*/__init__.py")}
    packages = {str(path.relative_to(ROOT)) for path in folders}
    assert set(FLOORS) == packages | {"wasm_host", "guest_sdk/python"}
    assert FLOORS["conductor/core"] == "100"


def test_a_package_below_its_floor_fails(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    for package in FLOORS:
        folder = tmp_path / package
        folder.mkdir(parents=True)
        half = "\nif sys.flags.inspect:\n    print()" if package == "conductor/core" else ""
        (folder / "module.py").write_text(f"import sys{half}\n")
    modules = [f"{package}/module.py" for package in FLOORS]
    program = f"import runpy\nfor name in {modules}:\n    runpy.run_path(name)\n"
    (tmp_path / "every.py").write_text(program)
    # With this Python first, and without the settings of a run that measures these tests.
    environment = {name: text for name, text in os.environ.items() if "COVERAGE" not in name}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    measure = [sys.executable, "-m", "coverage", "run", "--branch", "--source=.", "every.py"]
    subprocess.run(measure, cwd=tmp_path, env=environment, check=True, timeout=60)

    done = subprocess.run(
        [str(tmp_path / "scripts" / "coverage"), "--report"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert re.search(r"conductor/spec +100.0 %, floor \d+ %", done.stdout)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert errors == ["error: conductor/core is below its floor"]
