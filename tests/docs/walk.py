"""Does what a page tells a reader to do, in an empty folder, and compares what comes.

A page is a list of fenced blocks:

    ```sh                     commands; they must go well
    ```sh fails               commands; the last one must not
    ```sh not run here        left out, as any block may be; the page says why
    any block behind it       what each of them wrote: its warnings and its output, or its output
                              and why it failed; none: nothing

    `proxy.py`:               a line that begins with a file's name and ends with a colon: the
    ```python                 block behind it is that file now
    ```diff                   or a change to it: lines with a blank or `-` in front are what it
                              has, those with a blank or `+` what it gets; `@@` is between two

    ```json                   with `agent_servers` in it: an editor starts that command
    ```text editor            what is said in the editor: `> ` in front of what the user types

In what is shown `…` stands for anything within a line, alone on a line for any lines. The folder
everything happens in is called `/home/you`.

`python -m tests.docs.walk PAGE…` writes what came into the pages, where something else is shown.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.harness.process.rig import Chain
from tests.places import ROOT

HOME: Final = "/home/you"
DEADLINE: Final = 300.0
"""Seconds the commands of one block may take before the test fails."""

TAKEN_OVER: Final = "replaced by its new build"

_ONCE: Final = re.compile(
    r"^conductor: (?:building|compiling) the Python guest; once .*\n", re.MULTILINE
)
"""Told once on a machine, and no more when a page is shown."""

_FENCE: Final = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"^`([\w./-]+\.\w+)`(?:, changed)?:$")


class Block(NamedTuple):
    """A fenced block: its language and the words after that, its text, and the text before it."""

    language: str
    more: str
    text: str
    start: int
    """Where its text begins in the page."""
    line: int
    before: str
    """The last line above it that is not blank; empty right behind another block."""


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    found, end = [], 0
    for match in _FENCE.finditer(page):
        between = page[end : match.start()].strip()
        before = between.splitlines()[-1] if between else ""
        line = page.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], match[2].strip(), match[3], match.start(3), line, before))
        end = match.end()
    return found


class Shown(NamedTuple):
    """A block of a page, and the output that came instead of its text."""

    block: Block
    came: str

    @property
    def right(self) -> bool:
        """Whether the output is as the page shows it."""
        pattern = "".join(map(_pattern, self.block.text.splitlines(keepends=True)))
        return re.fullmatch(pattern, self.came) is not None


def _pattern(line: str) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)+?"
    return r"[^\n]*?".join(map(re.escape, line.split("…")))


class Walk:
    """A reader in an empty home folder, with nothing but conductor installed."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.at = self.home
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._where = folder / "where"
        # pytest looks upward for its settings: it is to find none of another project.
        (folder / "pytest.ini").touch()
        for name, words in (("conductor", '-m conductor "$@"'), ("python", '"$@"')):
            script = self._bin / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}\n', encoding="utf-8")
            script.chmod(0o755)
        self._editor: Chain | None = None
        self._session = ""
        self.left_out: list[Block] = []

    def page(self, text: str) -> list[Shown]:
        """Does all of a page; the blocks with their output. Raises `AssertionError`."""
        shown = []
        every = blocks(text)
        try:
            for number, block in enumerate(every):
                behind = every[number + 1] if number + 1 < len(every) else None
                came = self._do(block)
                if came is None:
                    continue
                if block.more == "editor":
                    shown.append(Shown(block, came))
                elif behind is not None and not behind.before and behind.language != "sh":
                    shown.append(Shown(behind, came))
                else:
                    assert came == "", f"line {block.line}: {block.text}wrote:\n{came}"
            self._close_editor()
        finally:
            if self._editor is not None:
                self._editor.kill()
        return shown

    def _do(self, block: Block) -> str | None:
        """The output of one block; None: nothing that could be shown."""
        named = _FILE.match(block.before)
        if block.more == "not run here":
            self.left_out.append(block)
            return None
        if block.language == "sh":
            return self._run(block)
        if named is not None:
            self._write(self.at / named[1], block)
        elif "agent_servers" in block.text:
            self._start_editor(block.text)
        elif block.more == "editor":
            return self._type(block.text)
        else:
            assert not block.before, f"line {block.line}: nobody knows what this block is for"
        return None

    def _run(self, block: Block) -> str:
        assert block.more in ("", "fails"), f"line {block.line}: unknown: {block.more}"
        *before, last = block.text.replace("\\\n", "").splitlines()
        came = "".join(self._command(block, one, "") for one in before)
        return came + self._command(block, last, block.more)

    def _command(self, block: Block, command: str, how: str) -> str:
        """The output of a command. One stream after the other: their order is chance."""
        done = subprocess.run(
            ["/bin/sh", "-c", f'{command}\ncode=$?; pwd > "{self._where}"; exit $code'],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.at,
            env=self._environment(),
            timeout=DEADLINE,
            check=False,
        )
        went_well = done.returncode == 0
        streams = [done.stderr, done.stdout] if went_well else [done.stdout, done.stderr]
        came = "".join(map(self._normal, streams))
        assert went_well is (how == ""), f"line {block.line}: {command}\n{came}"
        self.at = Path(self._where.read_text("utf-8").removesuffix("\n"))
        return came

    def _environment(self) -> dict[str, str]:
        left_out = ("GITHUB_", "FORCE_", "PY_", "PYTEST_", "XDG_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        # Compiled modules are kept: compiling them anew would take most of the time.
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return kept | {
            "PATH": f"{self._bin}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.home),
            "XDG_CACHE_HOME": cache,
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }

    def _normal(self, text: str) -> str:
        text = text.replace(os.path.realpath(self.home), HOME).replace(str(self.home), HOME)
        text = _ONCE.sub("", "".join(line.rstrip() + "\n" for line in text.splitlines()))
        return text.strip("\n") + "\n" if text.strip() else ""

    def _write(self, path: Path, block: Block) -> None:
        text = block.text
        if block.language == "diff":
            text = changed(path.read_text("utf-8"), block)
        # In one step: whoever watches the file sees the old or the new one.
        beside = path.with_name(path.name + ".new")
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
        editor = self._editor
        if editor is not None:
            before = editor.stderr.count(TAKEN_OVER)
            editor.until(lambda: editor.stderr.count(TAKEN_OVER) > before, "the change to be taken")

    # -- the editor ----------------------------------------------------------------------------

    def _start_editor(self, text: str) -> None:
        (server,) = json.loads(text)["agent_servers"].values()
        command = [server["command"], *server["args"]]
        command = [word.replace(HOME, str(self.home)) for word in command]
        command[0] = str(self._bin / command[0])
        self._close_editor()
        self._editor = Chain(command, self._environment(), self.home)
        self._editor.initialize()
        self._session = self._editor.new_session(cwd=str(self.at))

    def _type(self, text: str) -> str:
        editor = self._editor
        assert editor is not None, "no editor was started"
        came = ""
        for line in text.splitlines():
            if line.startswith("> "):
                came += line + "\n" + editor.prompt(self._session, line[2:]).rstrip("\n") + "\n"
        return self._normal(came)

    def _close_editor(self) -> None:
        if self._editor is not None:
            assert self._editor.finish() == 0, self._editor.stderr
            self._editor.kill()
            self._editor = None


def changed(text: str, block: Block) -> str:
    """The text with the changes that a `diff` block shows."""
    for hunk in block.text.split("@@\n"):
        lines = [(line[:1], line[1:]) for line in hunk.splitlines(keepends=True)]
        assert all(mark in " +-\n" for mark, _ in lines), f"line {block.line}: no diff"
        old = "".join(line or "\n" for mark, line in lines if mark != "+")
        new = "".join(line or "\n" for mark, line in lines if mark != "-")
        found = text.count(old)
        assert found == 1, (
            f"line {block.line}: what is to be changed is there {found} times:\n{text}"
        )
        text = text.replace(old, new)
    return text


def differences(page: Path, shown: list[Shown]) -> str:
    """The differences between a page and the output, as diffs; empty: none."""
    found = []
    for one in shown:
        if not one.right:
            name = f"{page.relative_to(ROOT)}:{one.block.line}"
            old, new = one.block.text.splitlines(), one.came.splitlines()
            found += [*difflib.unified_diff(old, new, name, "what came", lineterm=""), ""]
    return "\n".join(found)


def updated(text: str, shown: list[Shown]) -> str:
    """The page with the new output."""
    for one in sorted(shown, key=lambda one: one.block.start, reverse=True):
        if not one.right:
            start = one.block.start
            text = text[:start] + one.came + text[start + len(one.block.text) :]
    return text


def main() -> None:
    """Writes the new output into pages."""
    for name in sys.argv[1:]:
        page = Path(name).resolve()
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            shown = Walk(Path(os.path.realpath(folder))).page(text)
        sys.stdout.write(differences(page, shown) + "\n")
        fresh = updated(text, shown)
        if fresh != text:
            page.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
