"""A private file of the user's that holds one value, and that several conductors change.

If anything is wrong with the file (another version, other users may write it, it is broken), it
cannot be used, and nothing overwrites it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from conductor.errors import UsageError
from conductor.spec import private_files, untrusted_files

Value = TypeVar("Value", bound=msgspec.Struct)
Result = TypeVar("Result")

MOST: Final = 16 * 1024 * 1024
"""Bytes of a store."""


class _Head(msgspec.Struct):
    version: int


class PrivateStore(Generic[Value]):
    """A private store: one file.

    Args:
        path: The path of the file.
        new: Makes the value where there is no file; it has a member `version`.
        what: The content of the file, for people: `what you trust`.
        again: The step of a user after moving the file away.
    """

    def __init__(
        self, path: Callable[[], str], new: type[Value], version: int, what: str, again: str
    ) -> None:
        self._path = path
        self._new = new
        self._version = version
        self._what = what
        self._again = again

    def load(self) -> Value:
        """The value; a new one where there is no file. Raises `UsageError` for a file that cannot
        be used."""
        path = self._path()
        try:
            private_files.refuse_what_others_write(path)
            content = untrusted_files.read(path, MOST, links=False)
        except (FileNotFoundError, NotADirectoryError):
            return self._new()
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None
        try:
            version = msgspec.json.decode(content, type=_Head).version
            if version != self._version:
                why = f"it is of version {version}; this conductor reads {self._version}"
                raise self._unusable(why)
            return msgspec.json.decode(content, type=self._new)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._unusable(f"it is damaged: {error}") from None

    def stamp(self) -> tuple[int, int, int]:
        """The stamp of the file; it changes whenever the file does."""
        try:
            status = os.stat(self._path(), follow_symlinks=False)
        except OSError:
            return 0, 0, 0
        return status.st_ino, status.st_mtime_ns, status.st_size

    def change(self, edit: Callable[[Value], Result]) -> Result:
        """Changes the value; a change by another conductor at the same time is not lost.

        Args:
            edit: Changes the value that it receives.

        Raises:
            UsageError: The file cannot be used, or not be written.
        """
        path = self._path()
        try:
            private_files.make_folder(path)
            with private_files.alone(f"{path}.lock"):
                # The file itself may not be there yet.
                private_files.refuse_what_others_write(f"{path}.lock")
                value = self.load()
                before = msgspec.json.encode(value, order="sorted")
                result = edit(value)
                after = msgspec.json.encode(value, order="sorted")
                if after != before:
                    self._write(path, msgspec.json.format(after))
        except OSError as error:
            raise UsageError(
                f"{self._what} cannot be written to `{path}`: {error.strerror}",
                "make its folder writable, or set XDG_STATE_HOME to one that is",
            ) from None
        return result

    def _write(self, path: str, content: bytes) -> None:
        if len(content) > MOST:  # it could not be read again
            raise UsageError(
                f"{self._what} would take more than {MOST} bytes in `{path}`",
                "`conductor trust --list` shows it, `conductor trust --remove` takes out a part",
            )
        private_files.replace(path, content)

    def _unusable(self, why: str) -> UsageError:
        return UsageError(
            f"{self._what} cannot be read from `{self._path()}`: {why}",
            f"put that right, or move the file away and {self._again}",
        )
