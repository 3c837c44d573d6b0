"""docs/architecture.md, "How to add something": some rows performed in a copy of the repository.

Each recipe edits the files that its row names, and nothing else. Then the copy's own tests, tables
and command line must show what was added.
"""

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
    """`text` goes before the last `anchor` of a file, or to its end; the file may be a new one."""

    file: str
    text: str
    anchor: str = ""


class Recipe(NamedTuple):
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    """Tests of the copy; all of them pass."""
    page: str
    row: str
    """The beginning of a row that the page, with its tables drawn anew, has then."""
    command: tuple[str, ...]
    shown: str
    """A pattern in the output of this command of the copy."""


RECIPES: Final = {
    "guard": Recipe(
        (
            Edit(
                "conductor/core/guards/table.py",
                """    Guard(
        "short",
        "A component adds no block to a prompt with a hundred.",
        "Pages of text, in which the agent overlooks the user's words.",
        TRUSTED,
        (Rules((PROMPT,), prompts.short),),
    ),
""",
                ')\n"""Every guard',
            ),
            Edit(
                "conductor/core/guards/prompts.py",
                '''def short(attempt: Attempt) -> Breaches:
    """A prompt stays short."""
    before, after = blocks(attempt)
    if len(after) > max(len(before), 100):
        yield "a prompt with a hundred blocks gets no more", "/prompt"


''',
                "# -- blocks that stay in a prompt",
            ),
            Edit(
                "tests/core/test_guards/attacks_on_prompts.py",
                '''

def short() -> Iterator[Attack]:
    """Adds words that no other rule is about, as most programs write them."""
    given, sent = (params([HELLO] * n).replace(" ", "") for n in (1, 101))
    yield passes_on("short", "filled", PROMPT, given, sent)
''',
            ),
        ),
        ("tests/core/test_guards/test_attacks.py", "tests/core/test_guards/test_plain_text.py"),
        "security.md",
        "| `short` | A component adds no block to a prompt with a hundred.",
        ("inspect", "--all", "passthrough"),
        r"\bshort\b",
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
            Edit("guest_sdk/python/services.py", '"echo", ', '"random", "read", "storage"'),
            Edit(
                "conductor/core/policy/word_table.py",
                '    Word("echo", "hear its own words again"),\n',
                '    Word("random", "get random bytes"),\n',
            ),
            Edit(
                "guest_sdk/python/pretend.py",
                '            "echo": lambda p: {"text": str(p.get("text", ""))},\n',
                '            "keep": self._keep,\n',
            ),
        ),
        ("tests/services/test_table.py",),
        "architecture.md",
        "| `echo` |",
        ("help", "rights", "echo"),
        r"hear its own words again",
    ),
    "mode": Recipe(
        (
            Edit(
                "conductor/core/policy/key_table.py",
                "SAMPLE: Final = 64\n",
                '"""What a component holds on a key;',
            ),
            Edit(
                "conductor/core/policy/key_table.py",
                '    "sample": SAMPLE,\n',
                '}\n"""By name, in the order in which',
            ),
            Edit("conductor/core/policy/key_table.py", " | SAMPLE", '\n"""The modes by which'),
            Edit("conductor/core/policy/rules.py", "    SAMPLE,\n", "    STOP,\n    UPDATE,\n"),
            Edit(
                "conductor/core/policy/rules.py",
                "        if held & COPY:\n            held &= ~SAMPLE\n",
                "        return held\n",
            ),
            Edit("conductor/core/state.py", "COPY, SAMPLE, ", "EVERYTHING, Direction\n"),
            Edit(
                "conductor/core/state.py",
                "    sampled: int = 0\n",
                "    wraps: bool = False",
            ),
            Edit(
                "conductor/core/state.py",
                """        if rights & SAMPLE:
            self.sampled += 1
            rights |= 0 if self.sampled % 10 else COPY
""",
                "        return rights\n\n    def muted",
            ),
            Edit("conductor/core/policy/word_table.py", "    SAMPLE,\n", "    SETTINGS,\n"),
            Edit(
                "conductor/core/policy/word_table.py",
                '    "sample": SAMPLE,\n',
                '    "see": COPY,\n',
            ),
            Edit(
                "conductor/core/policy/word_table.py",
                '    "sample": "read every tenth of {}",\n',
                '    "see": "read {}",\n',
            ),
            Edit(
                "tests/core/policy/test_copies.py",
                """

def test_a_sample_is_every_tenth_message() -> None:
    with chain("up:session/update:sample", "down:session/prompt:sample") as pb:
        for number in range(1, 21):
            pb >> ("agent", update(str(number)))
            if number % 10 == 0:
                pb << ("g", "s", update(str(number)))
            pb << ("client", update(str(number)))
        for number in range(1, 10):
            pb >> ("client", request(number, PROMPT, prompt("hi")))
            pb << ("agent", request(Hole(f"a-{number}"), PROMPT, prompt("hi")))
        copied(pb)
""",
            ),
        ),
        ("tests/core/policy/test_copies.py", "tests/core/policy/test_rights.py"),
        "security.md",
        "| down | `initialize` | `change:handshake`, `sample:handshake`, `see:handshake` |",
        ("inspect", "--all", "passthrough,only=sample:updates"),
        r"read every tenth of",
    ),
    "transport at an address": Recipe(
        (
            Edit(
                "conductor/transports/remote/pipes.py",
                '''"""`fifo:PATH`: lines on two named pipes, `PATH.in` and `PATH.out`."""

from __future__ import annotations

import os

from conductor.transports.base import Events
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.remote import failures
from conductor.transports.remote.address import Address
from conductor.transports.stdio import StdioTransport


class PipesTransport(StdioTransport):
    """One connection to a program at two named pipes."""

    def __init__(self, address: Address, *, line_limit: int = LINE_LIMIT) -> None:
        super().__init__(line_limit=line_limit)
        self._address = address

    async def open(self, events: Events) -> None:
        """Opens both pipes. Raises `ComponentError`."""
        path = self._address.path
        try:
            self._stdin = os.open(f"{path}.out", os.O_RDONLY | os.O_NONBLOCK)
            self._stdout = os.open(f"{path}.in", os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise failures.unreachable(self._address, error) from None
        await super().open(events)
''',
            ),
            Edit(
                "conductor/transports/remote/address.py",
                '    "fifo": Scheme("fifo:PATH", "pipes:PipesTransport", is_path=True),\n',
                '    "tcp": Scheme(',
            ),
            Edit("docs/remote.md", "| `fifo:PATH` | lines |\n", "| `tcp://HOST:PORT` | lines |"),
            Edit(
                "tests/transports/remote/test_pipes.py",
                '''"""A turn through named pipes."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.harness.process.command import conductor
from tests.harness.process.rig import DEMO


def test_a_turn_through_named_pipes(tmp_path: Path) -> None:
    place = str(tmp_path / "agent")
    for end in ("in", "out"):
        os.mkfifo(f"{place}.{end}")
    agent = shlex.join([sys.executable, str(DEMO)])
    with subprocess.Popen(f"{agent} < {place}.in > {place}.out", shell=True) as process:
        ran = conductor("exec", f"fifo:{place}", "-p", "hello")
        process.kill()
    assert (ran.code, ran.out) == (0, "hello\\n"), ran.err
    gone = conductor("exec", f"fifo:{place}-not-there", "-p", "hello")
    gone.assert_error(1, "cannot reach fifo:")
    conductor("exec", "fifo:", "-p", "hello").assert_error(2, "`fifo:` without a path")
    conductor("serve", "--listen", f"fifo:{place}", "demo").assert_error(2, "nothing can listen")
''',
            ),
        ),
        ("tests/transports/remote/test_pipes.py",),
        "remote.md",
        "| `fifo:PATH` | lines |",
        ("inspect", "--all", "fifo:/run/agent"),
        r"fifo:/run/agent",
    ),
    "option of `agent`, `proxy`, `exec` and `chat`": Recipe(
        (
            Edit(
                "conductor/spec/options.py",
                '    nap: float = 0.0\n    """How long to nap."""\n',
                "    isolation: str =",
            ),
            Edit(
                "conductor/spec/option_table.py",
                '    Option("--nap", SECONDS, "How long to nap."),\n',
                '    Option(\n        "--prompt -p"',
            ),
        ),
        ("tests/cli/test_parsers.py",),
        "reference.md",
        "| `nap` | SECONDS | How long to nap.",
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
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        at = text.rindex(edit.anchor) if edit.anchor else len(text)
        path.write_text(text[:at] + edit.text + text[at:], encoding="utf-8")
    pytest_quietly = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider")
    run(copy, [*pytest_quietly, *recipe.tests])
    run(copy, ["-m", "tests.docs.tables"])
    assert f"\n{recipe.row}" in (copy / "docs" / recipe.page).read_text(encoding="utf-8")
    assert re.search(recipe.shown, run(copy, ["-m", "conductor", *recipe.command]))


def test_the_recipes_are_those_of_the_page() -> None:
    """A row names each file that its recipe edits, of a new one the folder; the last column names
    the tests."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name, recipe in RECIPES.items():
        article = "an" if name.startswith("option") else "a"
        match = re.search(rf"^\| {article} {re.escape(name)} \|(.*)$", page, re.MULTILINE)
        assert match is not None, name
        for edit in recipe.edits:
            is_new = not (ROOT / edit.file).exists()
            place = f"{os.path.dirname(edit.file)}/" if is_new else edit.file
            assert place in match[1] or edit.file.startswith("tests/"), (name, edit.file)
