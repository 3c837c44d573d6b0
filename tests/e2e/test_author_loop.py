"""The edit-run loop: the folder of a component, run with --reload while its author edits it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wasm_host
from conductor.author import project
from conductor.spec.paths import compiled_modules
from conductor.spec.python_guest import scripts

if TYPE_CHECKING:
    from tests.harness.process.rig import Rig


@pytest.mark.timeout(600)
def test_an_edited_source_takes_over_in_the_same_session(rig: Rig, tmp_path: Path) -> None:
    path, digest = scripts.guest()
    limits = wasm_host.Limits(**scripts.LIMITS)
    cache = compiled_modules()
    wasm_host.load(path, limits=limits, cache_dir=Path(cache), digest=digest)
    folder = tmp_path / "mine"
    for name, text in project.files("python", "mine"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    chain = rig.run(
        "agent", "-c", f"cache={cache}", "--reload", f"{folder}/", rig.demo(),
        XDG_STATE_HOME=str(tmp_path / "state"),
    )  # fmt: skip
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
