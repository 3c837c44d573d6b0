"""Editors whose settings are a program: conductor writes a file of its own beside them.

Users load that file by one line. Its first line has the digest of the rest, its second the entries
that the rest is made of, as JSON. So the file itself tells whether it is as conductor wrote it, and
nothing that anybody has written or changed by hand is ever lost.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from conductor.editors.record import Kept, Settings
from conductor.editors.target import Edit, Launch, hint_of_ours
from conductor.errors import UsageError, one_line
from conductor.spec import untrusted_files

_ENV: Final = "/usr/bin/env"
_WRITTEN: Final = re.compile(
    r"(?P<comment>--|;;) Written by `conductor setup (?P<target>\w+)`; `conductor setup (?P=target)"
    r" --remove` removes it\. sha256 of the rest: (?P<digest>[0-9a-f]{64})[^\r\n]*\n"
)

_MOST: Final = 1024 * 1024
"""Bytes of a file of the user's that are searched."""

Code = Callable[[str, str, list[str]], str]
"""Makes code for an entry: of its key, its name and a command."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent that the file adds or wraps."""

    launch: Launch
    wraps: bool = False
    """Whether the launch stands in front of the command of an agent that the editor has."""

    @property
    def words(self) -> list[str]:
        """The whole launch, as one command.

        Variables are words of it: some editors read more than a value in their variables.
        """
        variables = [f"{name}={value}" for name, value in self.launch.env.items()]
        return [*([_ENV, *variables] if variables else []), *self.launch.words]


class ScriptEditor(msgspec.Struct, frozen=True, kw_only=True):
    """An editor that is configured by a program; a `Target`."""

    name: str
    title: str
    place: Callable[[], str]
    """Our file."""
    comment: str
    """The beginning of a comment."""
    adds: Code
    """The code that adds an agent."""
    wraps: Code
    """The code that puts a command in front of the command of an editor's agent."""
    load: str
    """The line by which the user's settings load our file."""
    where: str
    """The place of this line in the user's settings."""
    pick: str
    logs: str
    programs: tuple[str, ...] = ()
    bare: bool = False
    first_line: str = ""
    """The further text of the first line of a file."""
    own: Callable[[], Iterator[str]] = lambda: iter(())
    """The existing files of the user's settings."""
    warning: str = ""
    """A mistake that users of this editor may make: a sentence."""
    note: str = ""

    def todo(self) -> str:
        """The line by which the user's settings load our file; empty: a line of theirs names it.

        There are many ways to load a file: `require 'x'`, `pcall(require, "x")`, `(load-file …)`.
        """
        stem = re.escape(os.path.splitext(os.path.basename(self.file()))[0])
        named = re.compile(rf"(?<![\w-]){stem}(?![\w-])")
        others = (path for path in self.own() if path != self.file())
        lines = (line.strip() for path in others for line in text_of(path).splitlines())
        if any(named.search(line) and not line.startswith(self.comment[0]) for line in lines):
            return ""
        return f"add this line {self.where}: {self.load}"

    def file(self) -> str:
        """Our file."""
        return self.place()

    def key(self, name: str) -> str:
        """The name of an entry as the editor's commands take it."""
        return key(name)

    def entries(self, text: str | None) -> dict[str, Launch | None]:
        """The launches of its entries, by name; of an entry that wraps an agent of the editor, the
        words in front of the agent's command. Raises `UsageError`."""
        return {name: entry.launch for name, entry in self._present(text).items()}

    def put(self, text: str | None, settings: Settings, name: str, launch: Launch) -> Edit:
        """An entry added, or brought up to date. Raises `UsageError`."""
        return self._with_one_more(text, settings, name, Entry(launch))

    def wrap(self, text: str | None, settings: Settings, name: str, front: Launch) -> Edit:
        """A conductor in front of the command of an agent that the editor has. Raises
        `UsageError`."""
        return self._with_one_more(text, settings, name, Entry(_in_front(front), wraps=True))

    def _with_one_more(self, text: str | None, settings: Settings, name: str, entry: Entry) -> Edit:
        entries = self._present(text)
        for other, present in entries.items():
            is_it = other == name and present.wraps == entry.wraps
            if key(other) == key(name) and not is_it:
                what = "wraps" if present.wraps else "has an entry"
                raise UsageError(
                    f"{self.file()} already {what} `{one_line(other)}`; nothing was changed",
                    "`--name` gives an entry another name; `conductor setup "
                    f"{self.name} --remove --name {shlex.quote(one_line(other))}` takes that one "
                    "out",
                )
        launch = None if entry.wraps else entry.launch  # the editor alone knows the wrapped command
        return self._with(settings, {**entries, name: entry}, launch)

    def remove(self, text: str | None, settings: Settings, name: str) -> Edit:
        """An entry taken out, and with the last one the file. Raises `UsageError`."""
        entries = self._present(text)
        if name not in entries:
            raise UsageError(
                f"{self.file()} has no entry `{one_line(name)}`"
                if text is not None
                else f"there is no {self.file()}",
                hint_of_ours(name, entries),
            )
        del entries[name]
        written = self._with(settings, entries, None)
        if entries:
            return msgspec.structs.replace(written, remarks=())
        gone = f"take out the line that loads it: {self.load}"
        return msgspec.structs.replace(written, text=None, remarks=(gone,))

    def shown(self, name: str, launch: Launch, *, wraps: bool) -> str:
        """The entry that a user would write into the settings by hand."""
        entry = Entry(_in_front(launch) if wraps else launch, wraps)
        return f"{self.comment} This belongs {self.where}.\n{self._code(name, entry)}"

    def _with(self, settings: Settings, entries: dict[str, Entry], launch: Launch | None) -> Edit:
        fresh = copy.deepcopy(settings)
        fresh.entries = {
            name: Kept(_encoded(entry), wraps=entry.wraps) for name, entry in entries.items()
        }
        warnings = (self.warning,) if self.warning else ()
        return Edit(self._text(entries), fresh, launch, warnings)

    def _code(self, name: str, entry: Entry) -> str:
        return (self.wraps if entry.wraps else self.adds)(key(name), name, entry.words)

    def _text(self, entries: dict[str, Entry]) -> str:
        """The whole file."""
        blocks = [self._code(name, entry) for name, entry in entries.items()]
        rest = (
            f"{self.comment} {_encoded(entries)}\n"
            f"{self.comment} Load it {self.where}: {self.load}\n"
            "\n" + "\n".join(blocks)
        )
        return (
            f"{self.comment} Written by `conductor setup {self.name}`; "
            f"`conductor setup {self.name} --remove` removes it. "
            f"sha256 of the rest: {_digest(rest)}{self.first_line}\n{rest}"
        )

    def _present(self, text: str | None) -> dict[str, Entry]:
        return {} if text is None else self._read(text)

    def _read(self, text: str) -> dict[str, Entry]:
        """The entries of a file that is as conductor wrote it. Raises `UsageError`."""
        written = _WRITTEN.match(text)
        if written is None or (written["comment"], written["target"]) != (self.comment, self.name):
            raise UsageError(
                f"{self.file()} was not written by `conductor setup {self.name}`; nothing was "
                "changed",
                f"move it away; or `conductor setup {self.name} … --print` shows the text to write "
                "into a file of your own",
            )
        rest = text[written.end() :]
        if _digest(rest) != written["digest"]:
            raise UsageError(
                f"somebody has changed {self.file()} since `conductor setup {self.name}` wrote it; "
                "nothing was changed",
                "move it away, and load it by its new name if you need it; conductor writes "
                "another one",
            )
        line = rest.partition("\n")[0].removeprefix(f"{self.comment} ")
        try:
            return msgspec.convert(json.loads(line), type=dict[str, Entry])
        except (ValueError, msgspec.ValidationError, RecursionError) as error:
            raise UsageError(
                f"the entries in {self.file()} cannot be read: {error}; nothing was changed",
                "move it away; conductor writes another one",
            ) from None


def text_of(path: str) -> str:
    """The text of a file of the user's settings; empty if the file cannot be read."""
    try:
        with untrusted_files.ordinary(path) as file:
            return file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""


def key(title: str) -> str:
    """The name of an entry as one word that every editor takes: a few letters for any title."""
    word = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
    return word or f"entry_{hashlib.sha256(title.encode(errors='surrogateescape')).hexdigest()[:8]}"


def _in_front(launch: Launch) -> Launch:
    """A launch that takes a command behind it."""
    return Launch(launch.command, [*launch.args, "--"], launch.env)


def _encoded(value: object) -> str:
    """JSON on one line of ASCII."""
    return json.dumps(msgspec.to_builtins(value))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
