"""Many `conductor setup` at once: each change is made, none is lost, and all can be taken back."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conductor.editors import apply, record, table
from conductor.editors.target import Edit, Launch
from conductor.spec import private_files
from tests.places import DEADLINE

MANY = 8
TIMES = 2
EDITORS = ["codecompanion", "devin", "zed"]


def passes(edit: Edit) -> None:
    """A test of a launch that succeeds."""


@pytest.mark.parametrize("editor", EDITORS)
def test_changes_at_once_are_all_made(
    editor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_files, "_WAIT", DEADLINE)  # however busy this machine is
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "NVIM_APPNAME"):
        monkeypatch.delenv(variable, raising=False)
    target = table.find(editor)
    path = Path(target.file())
    path.parent.mkdir(parents=True)
    text = '{\n  "mine": 1\n}\n' if editor != "codecompanion" else None
    if text is not None:
        path.write_text(text)

    def put(name: str, times: int) -> None:
        launch = Launch("/opt/conductor", ["agent", str(times)])
        apply.change(target, lambda text, held: target.put(text, held, name, launch), passes)

    def remove(name: str) -> None:
        apply.change(target, lambda text, held: target.remove(text, held, name), passes)

    def come_and_go(name: str) -> None:
        for times in range(TIMES):
            put(name, times)
            remove(name)
        put(name, TIMES)

    names = [f"e{number}" for number in range(MANY)]
    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(come_and_go, names))
    entries = target.entries(path.read_text())
    assert sorted(entries) == names
    assert all(launch and launch.args == ["agent", str(TIMES)] for launch in entries.values())
    assert sorted(record.load().files[str(path)].entries) == names

    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(remove, names))
    assert (path.read_text() if path.exists() else None) == text
    assert record.load().files == {}
    assert [each.name for each in path.parent.iterdir()] == ([path.name] if text else [])
