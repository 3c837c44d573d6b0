"""Notes of git on the last commit: which agent, model and prompt made the lines it has added."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Final

import msgspec

from conductor.cli.blame import LARGEST, Blame, Edit, blame
from conductor.errors import ConductorError, UsageError, counted, one_line, visible_path

REF: Final = "conductor"
"""The notes are `refs/notes/conductor`."""
_HUNK: Final = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_FILES: Final = 1000
"""Files of a commit that are looked at."""


class Note(msgspec.Struct, frozen=True):
    """A note that was written."""

    commit: str
    text: str


def write(folder: str) -> Note:
    """Writes the note for the last commit of the repository that a folder is in.

    Raises:
        ConductorError: There is no repository, git refuses, or no added line has a record.
    """
    top = _git(folder, "rev-parse", "--show-toplevel").decode().strip("\n")
    try:
        commit = _git(top, "rev-parse", "--short=12", "--verify", "HEAD").decode().strip()
    except UsageError:
        raise UsageError(
            f"`{visible_path(top)}` has no commit so far, and a note needs a commit",
            "commit first, as with `git commit`",
        ) from None
    named = _git(
        top, "show", "--format=", "--name-only", "--diff-filter=d", "-m", "--first-parent", "-z",
        "HEAD",
    )  # fmt: skip
    files = [os.fsdecode(name) for name in named.split(b"\0") if name]
    lines = [line for name in files[:_FILES] for line in _file(top, name)]
    if not lines:
        raise ConductorError(
            f"no line that commit {commit} has added in {counted(len(files), 'file')} has a record",
            "conductor keeps only edits that agents have made while `attribution` was in the chain",
        )
    text = "\n".join(lines) + "\n"
    _git(top, "notes", "--ref", REF, "add", "-f", "-F", "-", "HEAD", given=text.encode())
    return Note(commit, text)


def _file(top: str, name: str) -> list[str]:
    """The lines of the note about one file."""
    try:
        content = _git(top, "cat-file", "blob", f"HEAD:{name}")
        found = blame(os.path.join(top, name), content[:LARGEST].decode())
    except (UnicodeDecodeError, UsageError):  # another repository, or no text
        return []
    return _added(top, name, found)


def _added(top: str, name: str, found: Blame) -> list[str]:
    shown = _git(
        top, "show", "--format=", "-U0", "-m", "--first-parent", "--no-color", "--no-ext-diff",
        "--no-textconv", "HEAD", "--", f":(top,literal){name}",
    )  # fmt: skip
    hunks = [(int(start), int(start) + int(count or 1)) for start, count in _HUNK.findall(shown)]
    said, at = [], 0
    for one in found.ranges:
        while at < len(hunks) and hunks[at][1] <= one.start:
            at += 1
        for number in range(at, len(hunks)):
            first, last = max(one.start, hunks[number][0]), min(one.end, hunks[number][1] - 1)
            if first > one.end:
                break
            if one.edit is not None and first <= last:
                said.append(f"{one_line(name)}:{first}-{last}  {worded(one.edit)}")
    return said


def worded(edit: Edit) -> str:
    """An edit in one line."""
    by = [edit.agent or "an agent", edit.model or "", f"by {edit.proxy}" if edit.proxy else ""]
    said = f"  “{one_line(edit.prompt, 80)}”" if edit.prompt else ""
    who = one_line(", ".join(filter(None, by)), 120)
    return f"{one_line(edit.at, 30)}  {who}{said}"


def _git(folder: str, *words: str, given: bytes | None = None) -> bytes:
    """The output of git. Raises `ConductorError`."""
    try:
        done = subprocess.run(
            ["git", "-C", folder, *words],  # noqa: S607 - the user's
            check=False,
            capture_output=True,
            input=given or b"",
        )
    except OSError as error:
        raise UsageError(f"git cannot be started: {error.strerror}", "install git") from None
    if done.returncode:
        said = one_line(done.stderr.decode(errors="replace"))
        hint = "notes are written in a repository of git, on its last commit"
        raise UsageError(f"`git {words[0]}` failed: {said}", hint)
    return done.stdout
