"""The guest that all sandboxed `.py` proxies share, built where none came with the installation."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from conductor.spec import paths
from conductor.spec.python_guest import scripts

BUILD: Final = """\
import os, sys
with open({count!r}, "a") as file:
    file.write("built ")
stem = os.path.join(sys.argv[1], {name!r})
for end in (".sha256", ".wasm"):
    with open(stem + end, "w") as file:
        file.write(f"{{os.getpid()}}\\n")
"""


def test_of_two_that_need_it_at_once_one_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk, built = tmp_path / "sdk", tmp_path / "guests"
    sdk.mkdir()
    (tmp_path / "componentize_py.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(paths, "python_sdk", lambda: str(sdk))
    monkeypatch.setattr(paths, "python_guests", lambda: str(built))
    monkeypatch.setattr(scripts, "guest_name", lambda: "python-one")
    (sdk / "build.py").write_text(BUILD.format(name="python-one", count=str(sdk / "count")))
    with ThreadPoolExecutor(2) as threads:
        guests = [done.result() for done in [threads.submit(scripts.guest) for _ in range(2)]]
    assert guests[0] == guests[1]
    assert (sdk / "count").read_text() == "built "
    assert Path(guests[0][0]).read_text().strip() == guests[0][1]
