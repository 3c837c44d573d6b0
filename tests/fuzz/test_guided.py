"""The guided fuzzer runs where atheris is installed, and says so where it is not."""

import importlib.util
import subprocess
import sys

import pytest

from tests.fuzz import guided, targets
from tests.places import ROOT


def test_every_target_has_its_turn() -> None:
    assert list(targets.TARGETS) == list(guided.NAMES)


def test_it_says_that_nothing_was_fuzzed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert guided.main(["--seconds", "1"]) == guided.ABSENT
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing was fuzzed" in said.err
    assert "hint: " in said.err


def test_a_second_of_it() -> None:
    command = [sys.executable, "-m", "tests.fuzz.guided", "--seconds", "1", "--target", "framing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if importlib.util.find_spec("atheris") is None:
        assert done.returncode == guided.ABSENT
    else:
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("framing: #")
        assert "cov: " in done.stdout
