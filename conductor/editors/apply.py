"""Writes an edit into an editor's settings: as a whole, with a copy of the former file, and never
over changes that another program has made meanwhile."""

from __future__ import annotations

import contextlib
import copy
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from typing import Final

import msgspec

from conductor.editors import record
from conductor.editors.record import Settings
from conductor.editors.swap import swap
from conductor.editors.target import Edit, Target
from conductor.errors import ConductorError, UsageError, visible_path
from conductor.spec import guarded, paths, private_files, untrusted_files

MOST: Final = 1 << 20
"""Bytes of a file of settings."""

_TRIES: Final = 10


class Snapshot(msgspec.Struct, frozen=True):
    """A file of settings at one moment."""

    path: str
    """The path, as the editor names it."""
    real: str
    """The path without links."""
    content: bytes | None
    """None: there is no file."""

    @property
    def text(self) -> str | None:
        """The content. Raises `UsageError` if it is not UTF-8."""
        try:
            return None if self.content is None else self.content.decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{visible_path(self.path)} is not UTF-8 (byte {error.start + 1}); nothing was "
                "changed",
                "save it as UTF-8 in the editor, then run this again",
            ) from None


class Outcome(msgspec.Struct, frozen=True):
    """The result of an edit."""

    edit: Edit
    path: str
    changed: bool
    created: bool = False
    removed: bool = False
    """The file itself was removed: only text of `setup` was left in it."""
    backup: str = ""


class _ChangedError(Exception):
    """Somebody has written the file since it was read."""


Make = Callable[["str | None", Settings], Edit]
"""Makes an edit from the file and the record."""


def look(target: Target) -> tuple[Snapshot, Settings]:
    """An editor's file, and its settings in the record. Raises `UsageError`."""
    snapshot = read(target.file())
    known = record.load().files.get(snapshot.path)
    return snapshot, known if known is not None else Settings(target.name)


def change(target: Target, make: Make, tested: Callable[[Edit], None]) -> Outcome:
    """Edits an editor's settings.

    Args:
        target: The editor.
        make: Makes the edit; called again if the file changes meanwhile.
        tested: Raises if the editor could not start the command of the edit. Called before anything
            is written, once for each launch.

    Raises:
        ConductorError: Nothing was changed.
    """
    passed = None
    for _ in range(_TRIES):
        snapshot, settings = look(target)
        edit = make(snapshot.text, copy.deepcopy(settings))
        if edit.launch is not None and edit.launch != passed:
            tested(edit)
            passed = edit.launch
        with record.alone(), contextlib.suppress(_ChangedError):
            now, held = look(target)
            if (now.content, held) != (snapshot.content, settings):
                edit = make(now.text, copy.deepcopy(held))
                if edit.launch is not None and edit.launch != passed:
                    continue
            return _perform(now, held, edit)
    raise ConductorError(
        f"{visible_path(target.file())} changes all the time; nothing was changed",
        "close the editor, then run this again",
    )


def _perform(snapshot: Snapshot, settings: Settings, edit: Edit) -> Outcome:
    """Writes the record, then the file; the record again if the file cannot be written. The caller
    holds the lock."""
    created = snapshot.content is None
    wanted = copy.deepcopy(edit.settings)
    if created:
        wanted.created, wanted.folders = True, [*_missing(snapshot.real), *wanted.folders]
    content = None if edit.text is None else edit.text.encode()
    if content == b"" and wanted.created:
        content = None
    changed = content != snapshot.content
    if not changed and wanted.entries == settings.entries:
        return Outcome(edit, snapshot.path, changed=False)
    if changed:
        _refuse_what_cannot_be_written(snapshot)
        if not wanted.created and not wanted.backup:
            wanted.backup = _backup(snapshot)
    whole = record.load()
    before = copy.deepcopy(whole)
    whole.files[snapshot.path] = wanted
    if not wanted.entries:
        del whole.files[snapshot.path]
    record.save(whole)
    try:
        if changed:
            _write(snapshot, content)
        if content is None:
            _drop(settings.folders)
    except BaseException as error:
        record.save(before)
        if isinstance(error, OSError):
            raise _unwritable(snapshot.path, error) from None
        raise
    return Outcome(
        edit,
        snapshot.path,
        changed=changed,
        created=changed and created,
        removed=changed and content is None,
        backup=wanted.backup,
    )


# -- the file --------------------------------------------------------------------------------------


def read(path: str) -> Snapshot:
    """A file of settings. Raises `UsageError` for a file that is not the user's, or cannot be
    read."""
    real = os.path.realpath(path)
    try:
        guarded.refuse_changeable(path)
        folder = _existing_folder(real)
        if not os.path.isdir(folder):
            raise _refused(path, f"{visible_path(folder)} is no folder")
        content = untrusted_files.read(real, MOST) if os.path.lexists(real) else None
        return Snapshot(path, real, content)
    except FileNotFoundError:
        why = f"there is a link that leads nowhere: {visible_path(real)}"
        raise _refused(path, why) from None
    except OSError as error:
        raise _refused(path, str(error.strerror)) from None
    except guarded.UnguardedError as error:
        raise _refused(path, visible_path(str(error))) from None


def _missing(path: str) -> list[str]:
    """The folders above a path that are not there, the innermost first."""
    there, folders = _existing_folder(path), []
    while (path := os.path.dirname(path)) != there:
        folders.append(path)
    return folders


def _drop(folders: list[str]) -> None:
    """Removes folders that `setup` has made, up to the first folder that is not empty."""
    with contextlib.suppress(OSError):
        for folder in folders:
            os.rmdir(folder)


def _existing_folder(path: str) -> str:
    """The nearest folder above a path that is there."""
    folder = os.path.dirname(path)
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder


def _refused(path: str, why: str) -> UsageError:
    return UsageError(
        f"{visible_path(path)} cannot be used: {why}; nothing was changed",
        "put that right, or write the entry by hand: the same command with `--print` shows it",
    )


def _refuse_what_cannot_be_written(snapshot: Snapshot) -> None:
    """Raises `UsageError` for a file or folder that its owner has made read-only: a new file could
    take its place, against the owner's wish."""
    for place in (snapshot.real, _existing_folder(snapshot.real)):
        is_there = os.path.lexists(place)
        if is_there and not (os.stat(place).st_mode & stat.S_IWUSR and os.access(place, os.W_OK)):
            error = OSError(errno.EACCES, f"`{visible_path(place)}` is read-only")
            raise _unwritable(snapshot.path, error)


def _unwritable(path: str, error: OSError) -> UsageError:
    return UsageError(
        f"{visible_path(path)} cannot be written: {error.strerror}; nothing was changed",
        "make it writable, or write the entry by hand: the same command with `--print` shows it",
    )


def _write(snapshot: Snapshot, content: bytes | None) -> None:
    """Puts the content in the place of the file, or removes it. Raises `OSError`, and
    `_ChangedError` if the file is not as it was read."""
    folder, name = os.path.split(snapshot.real)
    private_files.make_folders(folder)
    prefix, suffix = f".{name}.", ".conductor"
    for left in os.listdir(folder):  # left by a `setup` that was killed: only this one runs now
        if left.startswith(prefix) and left.endswith(suffix):
            os.unlink(os.path.join(folder, left))
    fd, fresh = tempfile.mkstemp(suffix, prefix, folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content or b"")
            file.flush()
            if snapshot.content is not None:
                _like(snapshot.real, fresh)
            os.fsync(file.fileno())
        _compare(snapshot)
        if content is None:
            _remove(fresh, snapshot)
        else:
            _put(fresh, content, snapshot)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
    with contextlib.suppress(OSError):  # not every file system can
        private_files.settle(folder)


def _put(fresh: str, content: bytes, snapshot: Snapshot) -> None:
    """Puts the file `fresh`, which holds `content`, in the place of the file that was read.

    Raises `OSError`, and `_ChangedError` if another file came out: it is back in its place then.
    """
    if snapshot.content is None:
        _link(fresh, snapshot.real)
    elif not swap(fresh, snapshot.real):
        os.replace(fresh, snapshot.real)
    elif untrusted_files.read(fresh, MOST) != snapshot.content:
        swap(fresh, snapshot.real)
        if untrusted_files.read(fresh, MOST) != content:  # written once more: this is newer
            swap(fresh, snapshot.real)
        raise _ChangedError


def _remove(fresh: str, snapshot: Snapshot) -> None:
    """Removes the file that was read, by the name `fresh`.

    Raises `OSError`, and `_ChangedError` if it is another file: it is back in its place then.
    """
    with contextlib.suppress(FileNotFoundError):
        os.replace(snapshot.real, fresh)
        if untrusted_files.read(fresh, MOST) != snapshot.content:
            _link(fresh, snapshot.real)
            raise _ChangedError


def _link(fresh: str, path: str) -> None:
    """Gives a file a second name. Raises `OSError`, and `_ChangedError` where that is taken."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise _ChangedError from None
    except OSError:  # not every file system has hard links
        os.replace(fresh, path)


def _like(path: str, fresh: str) -> None:
    """Gives a new file the mode, the group and the attributes of the one it replaces."""
    status = os.stat(path)
    with contextlib.suppress(PermissionError):  # a group that the user is not in
        os.chown(fresh, -1, status.st_gid)
    shutil.copystat(path, fresh)
    os.utime(fresh)


def _compare(snapshot: Snapshot) -> None:
    """Raises `_ChangedError` if the file is not as it was read."""
    try:
        now: bytes | None = untrusted_files.read(snapshot.real, MOST)
    except FileNotFoundError:
        now = None
    if now != snapshot.content or os.path.realpath(snapshot.path) != snapshot.real:
        raise _ChangedError


def _backup(snapshot: Snapshot) -> str:
    """Keeps a copy of the present file, unless there is such a copy; returns the copy's path.
    Raises `UsageError`."""
    assert snapshot.content is not None
    digest = hashlib.sha256(os.fsencode(snapshot.path) + b"\0" + snapshot.content).hexdigest()[:12]
    name = f"{digest}-{os.path.basename(snapshot.path)}"
    place = os.path.join(paths.editors(), "backups", name)
    try:
        private_files.make_folder(place)
        if not os.path.lexists(place):
            private_files.replace(place, snapshot.content)
    except OSError as error:
        raise UsageError(
            f"{visible_path(snapshot.path)} cannot be copied to `{place}`: {error.strerror}; "
            "nothing was changed",
            "make that folder writable, or set XDG_STATE_HOME to one that is",
        ) from None
    return place
