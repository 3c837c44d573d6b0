"""The reference agrees with the docstrings, and leaves out nothing that a package exports."""

import ast
import functools
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import conductor
import guest_sdk.python
import guest_sdk.python.agent
import wasm_host
from tests.docs import reference
from tests.docs.public import PAGES
from tests.places import ROOT

SHOWN: Final = sorted(reference.FOLDER.iterdir())


@functools.cache
def drawn() -> dict[Path, str]:
    """Every page, as it should be."""
    return dict(reference.pages())


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_the_reference_is_what_the_docstrings_say(path: Path) -> None:
    shown = path.read_text(encoding="utf-8")
    assert shown == drawn()[path], "write it anew: python -m tests.docs.reference"


def test_no_page_is_left_over() -> None:
    assert set(SHOWN) == set(drawn())


@pytest.mark.parametrize(
    "package", [guest_sdk.python, guest_sdk.python.agent, wasm_host], ids=lambda one: one.__name__
)
def test_everything_exported_is_described(package: ModuleType) -> None:
    pages = [page for page in PAGES if package.__name__.startswith(page.package)]
    described = {name for page in pages for names in page.parts.values() for name in names}
    assert set(package.__all__) <= described, "add what is missing to tests/docs/public.py"


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_every_heading_is_followed_by_words_and_every_signature_is_python(path: Path) -> None:
    text = drawn()[path]
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for one in block.split("\n\n"):
            body = ":\n    ..." if one.startswith(("def ", "async def ", "class ")) else ""
            lines = one.split("\n") if one.count("\ndef ") else [one]
            for line in lines:
                ast.parse(_callable(line.rstrip()) + body)
    sections = re.split(r"^#{3,4} (.*)$", text, flags=re.MULTILINE)
    for name, section in zip(sections[1::2], sections[2::2], strict=True):
        words = re.sub(r"```python\n.*?```|^`.*`$", "", section, flags=re.MULTILINE | re.DOTALL)
        assert re.search(r"[a-z]{2}", words), f"{name} has no docstring"


def _callable(line: str) -> str:
    """How an instance is made is shown as a call with annotations, which only `def` may have."""
    return line if line.startswith(("def ", "async def ", "class ")) else f"def {line}:\n    ..."


def test_the_program_that_embeds_a_chain(tmp_path: Path) -> None:
    blocks = re.findall(r"(?:^ {4}.*\n|^\n)+", conductor.__doc__ or "", re.MULTILINE)
    program = textwrap.dedent(max(blocks, key=len))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stderr == ""
    now = '<current-date date="2026-03-01" time="12:00:00"/>'
    assert done.stdout == f"{now}\nhi\n{now}\nbye"
