"""The additions of components to prompts, beyond the end of a conductor: private files of the user.

A line is a record of one prompt, with its agent and its session; the core makes it, and reads it
(`conductor.core.additions`). Prompts that titles are made of are also in a file of their own: they
are few, and a list of sessions needs all of them. All conductors of a user append to the files. So
the files are written under one lock, for which a thread waits; where another conductor holds it for
long, they are written with the next prompt. A file with too many lines first loses prompts that no
title is made of any more, and then the oldest.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import additions, json_text
from conductor.core.additions import TITLE_WORDS, Prompt
from conductor.spec import paths, private_files
from conductor.transports.buffers import CHUNK, give_back

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of the file: then the older half of it goes."""
MOST_TITLES: Final = 512 * 1024
"""Of the file of titles. Each list of sessions reads the whole file, and messages wait for it."""
_LONGEST: Final = 64 * 1024
"""Bytes of one line, at most."""
_LATER: Final = 0.1
"""Seconds after which a prompt is written: the agent has it before."""
_MOST_UNREAD: Final = 4 * 1024 * 1024
"""Bytes of prompts that wait to be read until they are written."""
_MOST_WAITING: Final = 64
"""Prompts that wait while another conductor holds the files."""


class _Line(msgspec.Struct):
    agent: str
    session: str
    prompt: Raw


_line: Final = json_text.Decoder(_Line)

_Prompt = tuple[str, str, Prompt]
"""A prompt with its agent and its session."""


class KeptPrompts:
    """The files, as one chain uses them."""

    def __init__(self, log: Callable[[str, str, str], None], *, in_memory: bool = False) -> None:
        """`log` writes a line: level, component name, text. `in_memory`: there are no files, as in
        a replay."""
        self._log = log
        self._in_memory = in_memory
        self._prompts: list[_Prompt] = []
        """The prompts that are to be written."""
        self._taken: list[_Prompt] = []
        """The prompts that `_writing` writes now."""
        self._writing: asyncio.Future[None] | None = None
        """The thread that writes; None: nothing is being written."""
        self._unread = 0
        """Bytes of prompts that nobody has read."""
        self._comes: asyncio.TimerHandle | None = None
        """Begins to write."""
        self._closes = False
        self._large = False
        """Whether memory is given back once these are written: texts of one took some."""
        self._why = ""
        """Why the files cannot be used."""
        self._said = False

    def keep(self, agent: str, session: str, prompt: Prompt) -> None:
        """A prompt is to be kept."""
        if self._why or self._in_memory:
            prompt.read()  # so that nobody holds the text for it
        elif self._comes is None:
            self._comes = asyncio.get_running_loop().call_later(_LATER, self._write)
        if self._why:
            return
        self._prompts.append((agent, session, prompt))
        self._unread += prompt.unread
        self._large |= prompt.unread >= CHUNK
        if self._unread > _MOST_UNREAD:
            self._unread = 0
            for *_, one in self._prompts:
                one.read()

    async def close(self) -> None:
        """Waits until all is written."""
        self._closes = True
        self._write()
        while self._writing is not None:
            await asyncio.wait((self._writing,))
            self._write()

    def _write(self) -> None:
        self._comes = None
        if self._in_memory or self._why or not self._prompts:
            return
        loop = asyncio.get_running_loop()
        if self._writing is not None:
            self._comes = loop.call_later(_LATER, self._write)
            return
        self._taken, self._prompts, self._unread = self._prompts, [], 0
        self._writing = loop.run_in_executor(None, self._append_all, self._taken)
        self._writing.add_done_callback(self._written)

    def _written(self, writing: asyncio.Future[None]) -> None:
        taken, self._writing, self._taken = self._taken, None, []
        error = writing.exception()
        if isinstance(error, BlockingIOError) and not self._closes:
            self._prompts = [*taken, *self._prompts][-_MOST_WAITING:]
        elif isinstance(error, OSError | ValueError):
            # No warning: most sessions are never loaded again.
            self._fails(error)
            self._log("info", "conductor", self._why)
        else:
            writing.result()
        if self._large:
            self._large = False
            del taken
            give_back()

    def _append_all(self, prompts: list[_Prompt]) -> None:
        lines, path = _lines_of(prompts), paths.prompts()
        private_files.make_folder(path)
        with private_files.alone(f"{path}.lock", private_files.WAIT_IN_CHAIN):
            self._append(path, lines, MOST_BYTES, bytes)
            of_titles = list(filter(_makes_titles, lines))
            self._append(paths.titles(), of_titles, MOST_TITLES, _of_titles)

    def recall(self, agent: str, session: str | None) -> list[tuple[str, bytes]]:
        """The records of a session of an agent, each with the session; without a session the
        records of all sessions that titles are made of; the oldest first."""
        data = b""
        try:
            if not self._why and not self._in_memory:
                data = self._read(paths.titles() if session is None else paths.prompts())
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            self._fails(error)
        if not self._why:
            asked_for = _asked_for(agent, session)
            taken = _lines_of(filter(asked_for, self._taken))
            lines = [line for line in taken if line not in data]
            data += b"".join([*lines, *_lines_of(filter(asked_for, self._prompts))])
            return list(_those_of(data, agent, session))
        if not self._said:
            self._said = True
            self._log("warning", "conductor", self._why)
        return []

    @staticmethod
    def _read(path: str) -> bytes:
        private_files.refuse_what_others_write(path)
        with open(path, "rb") as file:
            data = file.read()
        # A full disk may have cut off the last line.
        return data if data.endswith(b"\n") else data + b"\n"

    @staticmethod
    def _append(path: str, each: list[bytes], most: int, needed: Callable[[bytes], bytes]) -> None:
        """Adds lines to a file of so many bytes at most; raises `OSError`. `needed` takes the lines
        of the file that somebody may ask for."""
        if not each:
            return
        lines = b"".join(each)
        with contextlib.suppress(FileNotFoundError):
            private_files.refuse_what_others_write(path)
        fd = private_files.open_private(path, os.O_RDWR | os.O_APPEND, ordinary=True)
        with os.fdopen(fd, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size and os.pread(fd, 1, size - 1) != b"\n":
                lines = b"\n" + lines  # a full disk has cut off the last line
            if size + len(lines) <= most:
                file.write(lines)
                return
            file.seek(max(0, size - MOST_BYTES))  # somebody may have made it longer
            held = needed(file.read())
        newer = held[-most // 2 :].partition(b"\n")[2] if len(held) > most // 2 else held
        private_files.replace(path, newer + lines)

    def _fails(self, error: Exception) -> None:
        text = f"`{paths.prompts()}` cannot be used: {private_files.reason(error)}"
        hint = "so sessions that are loaded again show the text that components added to prompts"
        self._why = f"{text}\nhint: {hint}"


def _asked_for(agent: str, session: str | None) -> Callable[[_Prompt], bool]:
    """Whether a prompt is one of this session, or titles may be made of it."""
    if session is None:
        return lambda one: one[0] == agent and one[2].in_titles
    return lambda one: one[:2] == (agent, session)


def _lines_of(prompts: Iterable[_Prompt]) -> list[bytes]:
    """The lines of prompts, in order; of some, nothing is kept."""
    records = [(agent, session, prompt.record) for agent, session, prompt in prompts]
    lines = [_written(*each) for each in records if each[2]]
    return [line for line in lines if len(line) <= _LONGEST]


def _written(agent: str, session: str, record: bytes) -> bytes:
    return json_text.encode(_Line(agent, session, Raw(record))) + b"\n"


def _of_titles(data: bytes) -> bytes:
    """Of each session the lines that its title may be made of; that with the latest prompt last."""
    read = [line for line in map(_line.find, data.split(b"\n")) if line is not None]
    found = additions.titles(((line.agent, line.session), bytes(line.prompt)) for line in read)
    return b"".join(
        _written(*session, json_text.encode(prompt))
        for session, prompts in found.items()
        for prompt in dict.fromkeys(prompts.held())
    )


def _makes_titles(line: bytes) -> bool:
    return any(word in line for word in TITLE_WORDS)


def _those_of(data: bytes, agent: str, session: str | None) -> Iterator[tuple[str, bytes]]:
    # Looked for in the whole file: to look at each of its lines takes several times as long.
    named = TITLE_WORDS if session is None else (json_text.encode(session),)
    for read in map(_line.find, _lines_with(data, named)):  # None: torn, the machine went down
        if read is not None and read.agent == agent and session in (None, read.session):
            yield read.session, bytes(read.prompt)


def _lines_with(data: bytes, words: Iterable[bytes]) -> list[bytes]:
    """The lines that hold one of these words, in order."""
    found: dict[int, bytes] = {}
    for word in words:
        at = data.find(word)
        while at >= 0:
            start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
            end = len(data) if end < 0 else end
            found[start] = data[start:end]
            at = data.find(word, end)
    return [found[start] for start in sorted(found)]
