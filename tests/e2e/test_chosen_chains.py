"""A chain that `[[choose]]` has chosen, while it runs: the choice stays."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.configurations import Place, place
from tests.harness.process.rig import Rig

CONFIG = """
[chains.chosen]
components = [{{component = "datetime", config.template = "{}"}}, "demo"]
[chains.other]
components = ["demo"]
[[choose]]
use = "chosen"
when.file = "Cargo.toml"
[[choose]]
use = "other"
"""


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return place(tmp_path, monkeypatch)


def test_a_reload_keeps_the_choice_and_every_file_that_counted(here: Place, rig: Rig) -> None:
    here.user(CONFIG.format("first"))
    (rig.folder / "Cargo.toml").write_text("")
    chain = rig.agent(options=("--log", "info"))
    session = chain.begin()
    assert chain.prompt(session, "hi") == "first\nhi"

    # An agent may write in the project: that must not rid the chain of a component.
    (rig.folder / "Cargo.toml").unlink()
    here.user(CONFIG.format("second"))
    os.kill(chain.process.pid, signal.SIGHUP)
    chain.until_stderr("datetime: told its settings, as they are written now")
    assert chain.prompt(session, "hi") == "second\nhi"

    here.user_file.unlink()
    os.kill(chain.process.pid, signal.SIGHUP)
    chain.until_stderr(f"the chain stays as it was: {here.user_file} is gone")
    assert chain.prompt(session, "hi") == "second\nhi"
    assert chain.finish() == 0
    assert chain.stderr.count("info: conductor: chose the chain") == 1
