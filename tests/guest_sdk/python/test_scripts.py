"""From a path to source that is run: files that are read, files that are refused, the guest's own
name."""

import importlib.util
import json
import os
import re
import time
from pathlib import Path

import pytest

from conductor.errors import ComponentError, UsageError
from conductor.spec.catalog import resolve
from conductor.spec.python_guest import scripts
from conductor.spec.python_guest.facts import Declared, declared
from guest_sdk.python import build


def test_builder_and_conductor_call_the_guest_alike() -> None:
    assert scripts._fingerprint(build.HERE) == build.fingerprint()
    assert len(build.fingerprint()) == 16


def test_a_file_is_read_alone_and_a_folder_whole(tmp_path: Path) -> None:
    for name in ("main.py", "words.py", "deep/er.py", ".hidden/x.py", "venv/x.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n", encoding="utf-8")
    alone = scripts.read(str(tmp_path / "words.py"))
    assert json.loads(alone.preface) == {"files": {"words.py": "# words.py\n"}, "main": "words.py"}
    whole = scripts.read(str(tmp_path))
    assert sorted(whole.files) == ["deep/er.py", "main.py", "words.py"]
    assert whole.main == "main.py"
    assert sorted(scripts.parts(str(tmp_path))) == sorted(str(tmp_path / f) for f in whole.files)
    before = whole.sha256
    (tmp_path / "notes.txt").write_text("other", encoding="utf-8")
    assert scripts.read(str(tmp_path)).sha256 == before
    (tmp_path / "deep" / "er.py").rename(tmp_path / "deep" / "est.py")
    assert scripts.read(str(tmp_path)).sha256 != before


def test_what_cannot_be_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes("x = 'é'".encode("latin-1"))
    with pytest.raises(ComponentError, match=r"no Python source in UTF-8: .* at byte 5"):
        scripts.read(str(path))
    with pytest.raises(UsageError, match="is a folder without a proxy"):
        scripts.check(str(tmp_path))
    monkeypatch.setattr(scripts, "MOST", 10)
    path.write_text("#" * 11, encoding="utf-8")
    with pytest.raises(ComponentError, match="of Python source"):
        scripts.read(str(path))


@pytest.mark.proves("from a stranger's folder")
def test_a_folder_brings_nothing_along_from_elsewhere(tmp_path: Path) -> None:
    """A link in a stranger's folder could lead its proxy to any file."""
    folder = tmp_path / "proxy"
    folder.mkdir()
    (tmp_path / "secret").write_text("KEY = 1")
    (folder / "main.py").write_text("import secret")
    (folder / "same.py").symlink_to("main.py")
    assert sorted(scripts.read(str(folder)).files) == ["main.py", "same.py"]
    (folder / "data.py").symlink_to("../secret")
    with pytest.raises(ComponentError, match=r"data\.py` is a link that leads out of the folder"):
        scripts.read(str(folder))
    (folder / "data.py").unlink()
    os.mkfifo(folder / "pipe.py")
    with pytest.raises(ComponentError, match="is no ordinary file"):
        scripts.read(str(folder))


@pytest.mark.proves("from a stranger's folder")
def test_a_manifest_runs_nothing_from_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "proxy"
    folder.mkdir()
    (tmp_path / "other.py").write_text("x = 1")
    (folder / "component.toml").write_text('name = "a"\nfile = "a.py"\n')
    (folder / "a.py").symlink_to("../other.py")
    with pytest.raises(UsageError, match="leads out of its folder") as caught:
        resolve(str(folder))
    assert str(tmp_path / "other.py") in caught.value.hint


def test_what_a_stranger_writes_down_is_not_computed_for_ever() -> None:
    lines = [
        "import dataclasses",
        "A = 99999999999",
        "S = 'xxxxxxxxxx'",
        *["A = A * A", "S = f'{S}{S}{S}{S}{S}{S}{S}{S}{S}{S}'"] * 40,
        f"B = {'9' * 400}",
        "C = B * 1.5",
        "D = 3 * 20",
        *(
            "class Config:",
            "    a: int = A",
            "    s: str = S",
            "    c: float = C",
            "    d: int = D",
        ),
        "proxy = Proxy('p', config=Config)",
    ]
    text = "\n".join(lines)
    found = declared(scripts.Script({"p.py": text}, "p.py", folder=False)).settings
    assert found["d"].default == 60
    assert found["c"].default is None
    assert abs(found["a"].default) < 2**128
    assert len(found["s"].default) <= 4096


def test_without_a_guest_and_without_a_builder_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "_fingerprint", lambda _: "absent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="need the Python guest") as caught:
        scripts.guest()
    assert re.search("pip install (--python [^ ]+ )?componentize-py", caught.value.hint)


def test_a_guest_of_long_ago_is_dropped_when_a_new_one_is_built(tmp_path: Path) -> None:
    kept = tmp_path / "python-new.wasm"
    for name in ("python-new.wasm", "python-young.wasm", "python-old.wasm", "other.wasm"):
        (tmp_path / name).write_bytes(b"")
        if "old" in name or "other" in name:
            os.utime(tmp_path / name, (0, time.time() - build.KEPT_SECONDS - 60))
    build._prune(str(tmp_path), str(kept))
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "other.wasm", "python-new.wasm", "python-young.wasm",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "import x\nproxy = x.Proxy('n', rights={'storage': 'why'}, version='2')",
            Declared(rights={"storage": "why"}, version="2"),
        ),
        (
            "R = {'a': 'b'}\nproxy = Proxy('n', rights=R, description='d')",
            Declared(rights={"a": "b"}, description="d"),
        ),
        (
            "proxy = Proxy('n', rights={}, version=3, description=('a', 'b'))",
            Declared(rights={}),
        ),
        (
            "proxy = Proxy('n', rights={}, description='\\ud800')",
            Declared(rights={}),
        ),
        ("proxy = Proxy('n', rights={[]: 'x'})", Declared(hidden=True, computed=True)),
        ("proxy = Proxy('n', rights=chosen())", Declared(hidden=True, computed=True)),
        ("proxy = Proxy('n', rights=None)", Declared()),
        (
            "A = Proxy('a', rights={'full': 'x'})\nproxy = Proxy('n', rights={'clock': 'y'})",
            Declared(rights={"full": "x", "clock": "y"}),
        ),
        ("proxy = Proxy('n', **given)", Declared(hidden=True)),
        ("proxy = Proxy('n', **{'rights': {}})", Declared(hidden=True)),
        ("import Proxy as P\nproxy = P('n', rights={})", Declared(hidden=True)),
        ("proxy = Proxy('n', rights={}", Declared(hidden=True)),
        ("proxy = Proxy(", Declared()),
        ("x = 1", Declared()),
        ("y = 1\nx = y" + "+y" * 900, Declared()),
    ],
)
def test_what_a_proxy_says_of_itself_is_read_off(source: str, expected: Declared) -> None:
    assert declared(scripts.Script({"p.py": source}, "p.py", folder=False)) == expected


def test_what_a_folder_says_of_itself_is_read_off_the_file_that_makes_the_proxy() -> None:
    files = {
        "main.py": "from mine import proxy",
        "mine.py": "proxy = Proxy('n', rights={})",
    }
    script = scripts.Script(files, "main.py", folder=True)
    assert declared(script) == Declared(rights={})
    files["main.py"] = "proxy = Proxy('m', rights={'observer': 'x'})"
    assert declared(script) == Declared(rights={"observer": "x"})


def test_settings_that_cannot_be_passed_on_are_left_out() -> None:
    source = (
        "class Config:\n    a: str = '\\ud800'\n    '\\ud800'\n"
        "    b: Literal['\\ud800'] = ''\nproxy = Proxy('n', config=Config)"
    )
    found = declared(scripts.Script({"p.py": source}, "p.py", folder=False)).settings
    assert (found["a"].default, found["a"].description, found["b"].enum) == (None, "?", [])
