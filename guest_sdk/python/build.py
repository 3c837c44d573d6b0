"""Builds the guest that all sandboxed `.py` proxies share: `python build.py FOLDER`.

Needs `componentize-py`, which brings CPython for WebAssembly along. The result is called
`python-FINGERPRINT.wasm`, after everything it is made of, so that a changed SDK is built anew;
beside it `python-FINGERPRINT.sha256` holds its digest. A script on its own: the wheel is built
before this package can be imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import zlib

COMPONENTIZE = "0.25.1"
"""The version of componentize-py that is used; another one makes another guest."""

KEPT_SECONDS = 30 * 24 * 3600
"""The seconds for which an unused guest is kept."""

KEPT_MOST = 5
KEPT_ANYHOW = 24 * 3600
"""The most guests that stay of those unused for `KEPT_ANYHOW` seconds; use is noted once a day."""

HERE = os.path.dirname(os.path.abspath(__file__))

WIT = """\
package conductor:channel@1.0.0;

interface channel {
  deliver: func(lines: string) -> string;
}

world proxy {
  export channel;
}
"""
"""The world of `wasm_host/channel.wit`."""

_APP = "from guest_sdk.python.guest import Channel\n\n__all__ = ['Channel']\n"


def sources() -> list[str]:
    """The files the guest is made of, by name."""
    return sorted(name for name in os.listdir(HERE) if name.endswith(".py"))


def fingerprint() -> str:
    """Names what the guest is made of: 16 hex digits. This file is part of that."""
    checksum = length = 0
    for name in sources():
        with open(os.path.join(HERE, name), "rb") as file:
            content = file.read()
        length += len(content)
        checksum = zlib.crc32(f"{name} {len(content)}\n".encode() + content, checksum)
    return f"{checksum:08x}{length:08x}"


def available() -> bool:
    """Whether componentize-py is installed here."""
    return importlib.util.find_spec("componentize_py") is not None


def build(folder: str) -> str:
    """Builds the guest in `folder`, where it is not there yet; its path.

    Raises `RuntimeError` with the words of componentize-py.
    """
    folder = os.path.abspath(folder)  # componentize-py runs elsewhere
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, f"python-{fingerprint()}.wasm")
    if os.path.isfile(target) and os.path.isfile(_digest_of(target)):
        return target
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as work:
        made = _componentize(work)
        with open(made, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        noted = os.path.join(work, "digest")
        with open(noted, "w", encoding="ascii") as file:
            file.write(digest + "\n")
        # The module last: who finds it finds its digest too.
        os.replace(noted, _digest_of(target))
        os.replace(made, target)
    _prune(folder, target)
    return target


def _prune(folder: str, target: str) -> None:
    """Drops guests that are not used any more; whoever still needs one builds it again."""
    found = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith("python-") and name.endswith(".wasm") and path != target:
            with contextlib.suppress(OSError):
                found.append((os.stat(path).st_mtime, path))
    for number, (used, path) in enumerate(sorted(found, reverse=True), 1):
        unused = time.time() - used
        if unused > KEPT_SECONDS or (number > KEPT_MOST and unused > KEPT_ANYHOW):
            for gone in (path, _digest_of(path)):
                with contextlib.suppress(OSError):
                    os.unlink(gone)


def _digest_of(target: str) -> str:
    return target.removesuffix(".wasm") + ".sha256"


def _componentize(work: str) -> str:
    """Runs componentize-py in an empty folder; the component's path."""
    package = os.path.join(work, "app", "guest_sdk", "python")
    os.makedirs(package)
    for name in sources():
        with (
            open(os.path.join(HERE, name), "rb") as file,
            open(os.path.join(package, name), "wb") as copy,
        ):
            copy.write(file.read())
    files = {
        os.path.join(work, "channel.wit"): WIT,
        os.path.join(work, "app", "guest_sdk", "__init__.py"): "",
        os.path.join(work, "app", "shared_guest.py"): _APP,
    }
    for path, text in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    made = os.path.join(work, "made.wasm")
    code = "import sys; from componentize_py import script; sys.exit(script())"
    command = [
        *(sys.executable, "-c", code, "-q", "-d", "channel.wit", "-w", "proxy"),
        *("componentize", "-p", "app", "shared_guest", "-o", made),
    ]
    # Otherwise it would pack the packages of this environment.
    environment = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        command,
        cwd=work,
        env=environment | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not os.path.isfile(made):
        said = (done.stderr or done.stdout).partition("Stack backtrace:")[0].strip()[-2000:]
        raise RuntimeError(f"componentize-py ended with exit code {done.returncode}: {said}")
    return made


if __name__ == "__main__":
    sys.stdout.write(build(sys.argv[1]) + "\n")
