"""Sandboxed Python: an author's `.py` file or folder, and the guest that runs it.

A `.py` proxy is run by one shared guest, CPython with `guest_sdk/python` in it. The guest comes
with the wheel, or is built where `componentize-py` is installed, once for each version of the SDK.
It receives the source as its first line, and answers with the mistakes in the source.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import zlib
from typing import Final

import msgspec

from conductor.errors import ComponentError, UsageError
from conductor.spec import paths, private_files, untrusted_files

LIMITS: Final = {"memory_bytes": 256 * 1024 * 1024, "cpu_ms": 5000}
"""Limits of a `.py` proxy that differ from the defaults: Python needs more memory and time."""

MOST: Final = 4 * 1024 * 1024
"""Bytes of source one proxy may have."""

_OWN_FOLDER: Final = "give the proxy its own folder, with only the files that it needs"

_SKIPPED: Final = ("__pycache__", "node_modules", "venv")
_MAINS: Final = ("proxy.py", "main.py", "__main__.py")
COMPILING: Final = "conductor: compiling the Python guest; once on this machine …"
TOOLCHAIN: Final = "componentize-py"
"""The tool that builds the guest of sandboxed Python."""


class Script(msgspec.Struct, frozen=True):
    """A proxy's sources by path below its folder, and the path of the source that is started."""

    files: dict[str, str]
    main: str
    folder: bool

    @property
    def sha256(self) -> str:
        """One digest of all sources; a byte order mark does not count."""
        import hashlib  # only where there is a lock: an editor waits for everything else

        if not self.folder:
            return hashlib.sha256(self.files[self.main].encode()).hexdigest()
        lines = (
            f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n"
            for name, text in sorted(self.files.items())
        )
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def preface(self) -> bytes:
        """The first line the guest receives."""
        return msgspec.json.encode({"files": self.files, "main": self.main}) + b"\n"

    def with_settings(self, configure: bytes) -> bytes:
        """The first line, with the params of `configure`: wrong settings keep it from starting."""
        line = {"files": self.files, "main": self.main, "configure": msgspec.Raw(configure)}
        return msgspec.json.encode(line) + b"\n"


def check(path: str) -> None:
    """Raises `UsageError` if there is no such script."""
    if not os.path.exists(path):
        relative = "" if os.path.isabs(path) else "; it is relative to the current directory"
        raise UsageError(f"no such file: `{path}`", f"check the path{relative}")
    if os.path.isdir(path) and main_of(path) is None:
        raise UsageError(
            f"`{path}` is a folder without a proxy",
            f"the proxy of a folder is its {' or '.join(_MAINS)}; `conductor new NAME` makes one",
        )


def read(path: str) -> Script:
    """Reads a script, and the files beside it in its folder. Raises `OSError`, or `ComponentError`
    for source that cannot be run."""
    if not os.path.isdir(path):
        try:
            content = untrusted_files.read(path, MOST)
        except untrusted_files.TooLargeError:
            raise _too_large(path) from None
        name = os.path.basename(path)
        return Script({name: _text(content, path)}, name, folder=False)
    main = main_of(path)
    if main is None:
        raise ComponentError(f"`{path}` has no {' or '.join(_MAINS)}", "add one that is the proxy")
    return _folder(path, main)


def main_of(folder: str) -> str | None:
    """The proxy's file in a folder; None if there is none."""
    return next((main for main in _MAINS if os.path.isfile(os.path.join(folder, main))), None)


def _folder(path: str, main: str) -> Script:
    def searched(name: str) -> bool:
        return name not in _SKIPPED and not name.startswith(".")

    files: dict[str, str] = {}
    size = 0
    try:
        for name in untrusted_files.below(path, searched):
            if not name.endswith(".py"):
                continue
            whole = os.path.join(path, name)
            content = _own(whole, path, MOST - size)
            size += len(content)
            files[name] = _text(content, whole)
    except untrusted_files.TooLargeError as error:
        if error.filename != path:
            raise _too_large(path) from None
        raise ComponentError(f"`{path}`: {error.strerror}", _OWN_FOLDER) from None
    return Script(files, main, folder=True)


def _own(path: str, folder: str, most: int) -> bytes:
    """The content of a file of a folder. Raises `ComponentError` for a link that leads out of it:
    a stranger's folder may link to any file of the user, and the guest would receive it."""
    real, home = os.path.realpath(path), os.path.realpath(folder)
    if not real.startswith(home.rstrip(os.sep) + os.sep):
        raise ComponentError(
            f"`{path}` is a link that leads out of the folder of its proxy, to {real}",
            "a sandboxed proxy is given its own folder only: put a copy there",
        )
    if not os.path.isfile(real):
        raise ComponentError(f"`{path}` is no ordinary file", "take it out of the folder")
    return untrusted_files.read(real, most, links=False)


def _too_large(path: str) -> ComponentError:
    return ComponentError(
        f"`{path}` holds more than {MOST >> 20} MiB of Python source", _OWN_FOLDER
    )


def _text(content: bytes, path: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ComponentError(
            f"`{path}` is no Python source in UTF-8: {error.reason} at byte {error.start}",
            "save it as UTF-8",
        ) from None


def parts(path: str) -> tuple[str, ...]:
    """The files of a script, which `--reload` observes."""
    if not os.path.isdir(path):
        return (path,)
    return tuple(os.path.join(path, name) for name in read(path).files)


# -- the guest ---------------------------------------------------------------------------------


def guest() -> tuple[str, str]:
    """The shared guest's file and digest. Builds it if need be, with a line on standard error.

    Raises `UsageError` if there is no guest and none can be built.
    """
    built = built_guest()
    if built is None:
        _build(paths.python_sdk(), paths.python_guests())
        built = built_guest()
    if built is None:
        raise UsageError("the Python guest was built, and is gone", "try again")
    return built


def built_guest() -> tuple[str, str] | None:
    """The shared guest's file and digest, if it came with the installation or was built here."""
    name = guest_name()
    installed = _digested(os.path.join(paths.python_sdk(), "_guest", name))
    if installed is not None:
        return installed
    built = _digested(os.path.join(paths.python_guests(), name))
    if built is not None:
        _touch(built[0])
    return built


def guest_name() -> str:
    """The file name of the guest of this version of the SDK, without `.wasm`."""
    return f"python-{_fingerprint(paths.python_sdk())}"


def _touch(path: str) -> None:
    """Records that a guest is in use: those unused for a month go."""
    with contextlib.suppress(OSError):
        now = time.time()
        if now - os.stat(path).st_mtime > _DAY:
            os.utime(path, (now, now))


_DAY: Final = 24 * 3600
_LONGEST_BUILD: Final = 300.0
"""Seconds that a conductor waits for another one that builds the guest."""


def _digested(stem: str) -> tuple[str, str] | None:
    try:
        with open(f"{stem}.sha256", encoding="ascii") as file:
            digest = file.read().strip()
    except OSError:
        return None
    return (f"{stem}.wasm", digest) if os.path.isfile(f"{stem}.wasm") else None


def _fingerprint(sdk: str) -> str:
    """The name of a guest that is built from this SDK. The same as in `guest_sdk/python/build.py`,
    which is not imported because an editor is waiting."""
    checksum = length = 0
    for name in sorted(name for name in os.listdir(sdk) if name.endswith(".py")):
        with open(os.path.join(sdk, name), "rb") as file:
            content = file.read()
        length += len(content)
        checksum = zlib.crc32(f"{name} {len(content)}\n".encode() + content, checksum)
    return f"{checksum:08x}{length:08x}"


def _another() -> str:
    return f"{_toolchain()} installs another {TOOLCHAIN}"


def _toolchain() -> str:
    """The command that installs the tool that builds the guest."""
    from conductor import installation  # no start needs it

    return f"`{installation.with_package(TOOLCHAIN)}`"


def _build(sdk: str, folder: str) -> None:
    """Builds the guest with componentize-py. Raises `UsageError`."""
    import importlib.util

    if importlib.util.find_spec("componentize_py") is None:
        raise UsageError(
            "sandboxed `.py` proxies need the Python guest, which did not come with this "
            "installation, and componentize-py, which builds it, is not installed",
            f"{_toolchain()}, or install conductor from its wheel",
        )
    try:
        private_files.make_folders(folder)
        # Two builds make different files: the digest of one may not stand beside the other.
        with private_files.alone(os.path.join(folder, ".building"), _LONGEST_BUILD):
            if built_guest() is None:
                _run_build(sdk, folder)
    except OSError as error:
        raise UsageError(
            f"the Python guest, which runs sandboxed `.py` proxies, cannot be built: "
            f"{error.filename}: {error.strerror}",
            f"make `{folder}` writable, or set XDG_CACHE_HOME to a folder that is",
        ) from None


def _run_build(sdk: str, folder: str) -> None:
    import subprocess

    sys.stderr.write("conductor: building the Python guest; once for this version, some 10 s …\n")
    sys.stderr.flush()
    done = subprocess.run(
        [sys.executable, os.path.join(sdk, "build.py"), folder],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        on_disk = "Errno" in why
        hint = f"see that `{folder}` may be written and has room" if on_disk else _another()
        raise UsageError(f"the Python guest could not be built: {why}", hint)
