"""The guide's example is true: the file runs, and so does its test."""

import re
from pathlib import Path
from typing import Final

import pytest

from guest_sdk.python import build
from tests.guest_sdk.python.support import EXAMPLES, load
from tests.places import ROOT

GUIDE: Final = ROOT / "guest_sdk" / "python" / "README.md"


def blocks() -> list[str]:
    """The Python code of the guide, in order."""
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_first_example_and_its_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, test, *_ = blocks()
    path = tmp_path / "my_proxy.py"
    path.write_text(source, encoding="utf-8")
    load(path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    exec(compile(test, "test_my_proxy.py", "exec"), names)  # noqa: S102 - our own guide
    check = names["test_date"]
    assert callable(check)
    check()


def test_the_other_blocks_compile_and_every_example_is_named() -> None:
    for block in blocks():
        compile(block, str(GUIDE), "exec", flags=0x2000)  # PyCF_ALLOW_TOP_LEVEL_AWAIT
    text = GUIDE.read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f"`{path.name}`" not in text] == []


def test_the_guest_is_built_for_the_world_of_the_host() -> None:
    def words(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith("//")]

    host = (ROOT / "wasm_host" / "channel.wit").read_text(encoding="utf-8")
    assert words(build.WIT) == words(host)
