"""A disk that takes no more: an error, and nothing half-written."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.command import NO_BYTECODE, environment

LIMITED = """
import resource, sys
sys.argv[1:] = {arguments!r}
from conductor.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))
sys.exit(main())
"""
"""A file that grows beyond its limit is refused as on a full disk."""


TRANSCRIPT: Final = '> p{"jsonrpc":"2.0","method":"_x"}\n< s{}\n'


@pytest.mark.parametrize(
    ("arguments", "most", "before"),
    [
        (["new", "mine"], 500, {}),
        (["lock", "datetime", "demo"], 100, {}),
        (
            ["test", "--update", "--component", "passthrough", "t.txt"],
            len(TRANSCRIPT),
            {"t.txt": TRANSCRIPT},
        ),
    ],
)
def test_nothing_half_written_stays(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    arguments: list[str],
    most: int,
    before: dict[str, str],
) -> None:
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED.format(arguments=arguments, most=most)],
        cwd=tmp_path,
        env=environment(XDG_STATE_HOME=str(tmp_path_factory.mktemp("state")), **NO_BYTECODE),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2, ran.stderr
    assert "Traceback" not in ran.stderr
    assert "File too large" in ran.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
