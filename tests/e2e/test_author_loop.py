"""The edit-run loop: the folder of a component, run with --reload while its author edits it."""

import shutil
from pathlib import Path

import pytest

from conductor.author import project
from tests.harness.process.rig import Rig


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("python_guest")
def test_an_edited_source_takes_over_in_the_same_session(rig: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    for name, text in project.files("python", "mine"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    state = str(tmp_path / "state")
    chain = rig.agent(f"{folder}/", rig.demo(), options=("--reload",), XDG_STATE_HOME=state)
    session = chain.begin()
    assert chain.prompt(session, "one") == "Answer briefly.\none"
    source = folder / "proxy.py"
    edited = tmp_path / "edited"
    text = source.read_text("utf-8").replace("proxy.config.reminder", '"Be kind."')
    assert '"Be kind."' in text
    edited.write_text(text, encoding="utf-8")
    shutil.move(edited, source)
    chain.until_stderr("replaced by its new build")
    assert chain.prompt(session, "two") == "Be kind.\ntwo"
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []
