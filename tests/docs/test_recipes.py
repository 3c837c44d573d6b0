"""docs/architecture.md, "How to add something": three rows performed in a copy of the repository.

Each recipe edits the files that its row names, and nothing else. Then the copy's own tests, tables
and command line must show what was added.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.places import ROOT

COPIED: Final = ("conductor", "guest_sdk", "docs", "tests")
LINKED: Final = ("wasm_host", "components", "benchmarks", "scripts", "pyproject.toml", "README.md")
IGNORED: Final = ("__pycache__", "_guest", "target", ".hypothesis", "node_modules")


class Edit(NamedTuple):
    """`text` goes before the last `anchor` of a file, or to its end."""

    file: str
    text: str
    anchor: str = ""


class Recipe(NamedTuple):
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    """Of the copy; all of them pass."""
    page: str
    row: str
    """The beginning of a row that the drawn tables of the page have then."""
    command: tuple[str, ...]
    shown: str
    """A pattern in what this command of the copy prints."""


RECIPES: Final = {
    "guard": Recipe(
        (
            Edit(
                "conductor/core/guards/table.py",
                """    Guard(
        "examples",
        "Nobody but the client runs examples.",
        "An example that the user did not start.",
        TRUSTED,
        (Rules(("_example/*",), unchanged, not_originated, relayed_only),),
    ),
""",
                ')\n"""Every guard',
            ),
            Edit(
                "tests/core/test_guards/attacks_on_lists.py",
                '''

def examples() -> Iterator[Attack]:
    """Runs an example of its own."""
    yield makes_up("examples", "sent", "_example/run")
''',
            ),
        ),
        ("tests/core/test_guards/test_attacks.py",),
        "security.md",
        "| `examples` | Nobody but the client runs examples.",
        ("inspect", "--all", "passthrough"),
        r"\bexamples\b",
    ),
    "service": Recipe(
        (
            Edit(
                "conductor/core/service_table.py",
                """    Call("echo", Performer.HOST, "echo", "`text`", "`text`", "repeats a text"),
""",
                ")\n\nCALLS: Final",
            ),
            Edit(
                "conductor/services/local.py",
                '            "echo": lambda _, params: {"text": str(params.get("text", ""))},\n',
                '        }\n        """By the name of the call',
            ),
            Edit("guest_sdk/python/services.py", '"echo", ', '"fetch", "files"'),
            Edit(
                "guest_sdk/python/pretend.py",
                '            "echo": lambda p: {"text": str(p.get("text", ""))},\n',
                '            "keep": self._keep,\n',
            ),
        ),
        ("tests/services/test_table.py",),
        "channel-abi.md",
        "| `echo` |",
        ("inspect", "--all", "passthrough"),
        r"\becho\b",
    ),
    "option of `agent`, `proxy`, `exec` and `chat`": Recipe(
        (
            Edit(
                "conductor/run/plan.py",
                '    nap: float = 0.0\n    """How long to nap."""\n',
                "    isolation: str =",
            ),
            Edit(
                "conductor/cli/options.py",
                '    Option("--nap", SECONDS, "How long to nap."),\n',
                '    Option(\n        "--prompt -p"',
            ),
        ),
        ("tests/cli/test_parsers.py",),
        "cli.md",
        "| `--nap SECONDS` |",
        ("agent", "--help"),
        r"--nap\s+SECONDS\s+How long to nap\. Default: 0\.",
    ),
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository, as far as these recipes need it."""
    for name in COPIED:
        shutil.copytree(
            ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns(*IGNORED)
        )
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def run(folder: Path, arguments: Sequence[str]) -> str:
    """Runs Python in the copy; its output. The copy's packages come before those installed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_all_it_takes(name: str, copy: Path) -> None:
    recipe = RECIPES[name]
    for edit in recipe.edits:
        path = copy / edit.file
        text = path.read_text(encoding="utf-8")
        at = text.rindex(edit.anchor) if edit.anchor else len(text)
        path.write_text(text[:at] + edit.text + text[at:], encoding="utf-8")
    pytest_quietly = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider")
    run(copy, [*pytest_quietly, *recipe.tests])
    run(copy, ["-m", "tests.docs.tables"])
    assert f"\n{recipe.row}" in (copy / "docs" / recipe.page).read_text(encoding="utf-8")
    assert re.search(recipe.shown, run(copy, ["-m", "conductor", *recipe.command]))


def test_the_recipes_are_those_of_the_page() -> None:
    """A file that a recipe edits is named in its row; tests apart, which the last column names."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name, recipe in RECIPES.items():
        article = "an" if name.startswith("option") else "a"
        match = re.search(rf"^\| {article} {re.escape(name)} \|(.*)$", page, re.MULTILINE)
        assert match is not None, name
        for edit in recipe.edits:
            assert edit.file in match[1] or edit.file.startswith("tests/"), (name, edit.file)
