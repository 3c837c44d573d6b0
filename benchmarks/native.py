"""Builds the native programs, into a cache outside the source tree.

``agent``, ``proxy`` and ``client`` are C, built by ``$CC``, ``cc`` or the
``ziglang`` package. ``changing`` is a guest in C, built as the bundled guests are,
by the ``ziglang`` package. ``sdk_proxy`` is a Rust crate on the reference's own SDK
and is built where cargo is and its dependencies can be had.
"""

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from components import build

SOURCES = Path(__file__).parent / "native"
_FLAGS = ("-O2", "-std=c11", "-Wall", "-Wextra")
_CARGO_LIMIT_S = 1800


class BuildError(Exception):
    """A native program could not be built; ``hint`` names the next step."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths of the built programs; ``changing`` and ``sdk_proxy`` are None where there are none."""

    agent: Path
    proxy: Path
    client: Path
    changing: Path | None = None
    sdk_proxy: Path | None = None


def default_cache() -> Path:
    """The platform's place for files that can be made again."""
    home = Path.home()
    base = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or base) / "conductor" / "benchmarks"


def compiler() -> list[str] | None:
    """The C compiler's command, or None: ``$CC``, ``cc``, then ``python -m ziglang cc``."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    if found := shutil.which("cc"):
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def build_c(cache: Path, cc: list[str] | None = None) -> Programs:
    """Builds the programs that are not in ``cache`` yet. Raises BuildError."""
    command = cc or compiler()
    if command is None:
        raise BuildError("no C compiler found", "install one (cc), or `pip install ziglang`")
    cache.mkdir(parents=True, exist_ok=True)
    agent, proxy, client = (_compile(cache, command, name) for name in ("agent", "proxy", "client"))
    return Programs(agent, proxy, client)


def build_changing(cache: Path) -> Path:
    """Builds the guest that changes every prompt, or finds it in ``cache``. Raises BuildError."""
    source = SOURCES / "changing.c"
    target = cache / f"changing-{_digest([source, *sorted(build.LIBRARY.glob('*.h'))], [])}.wasm"
    if not target.exists():
        try:
            module = build.compile_c(source)
        except build.BuildError as error:
            said, _, hint = str(error).partition("hint: ")
            raise BuildError(said.strip(), hint) from error
        _put(cache, target, lambda fresh: fresh.write_bytes(module))
    return target


def build_sdk_proxy(cache: Path) -> Path:
    """Builds the Rust SDK's proxy, or finds it in ``cache``. Raises BuildError.

    The crate is copied first, because cargo writes its lock file beside it.
    """
    source = SOURCES / "sdk_proxy"
    files = sorted(path for path in source.rglob("*") if path.suffix in {".toml", ".rs"})
    home = cache / f"sdk_proxy-{_digest(files, [])}"
    built = home / "target" / "release" / "sdk-proxy"
    if built.exists():
        return built
    cargo = shutil.which("cargo")
    if cargo is None:
        raise BuildError("the SDK proxy needs cargo", "install Rust to measure SDK proxies")
    shutil.copytree(source, home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
    command = [cargo, "build", "--release", "--quiet", "--target-dir", str(home / "target")]
    run([*command, "--manifest-path", str(home / "Cargo.toml")], "the SDK proxy", _CARGO_LIMIT_S)
    if not built.exists():
        raise BuildError(f"cargo made no {built.name}", f"look into {home}")
    return built


def _compile(cache: Path, command: list[str], name: str) -> Path:
    sources = [SOURCES / f"{name}.c", *sorted(SOURCES.glob("*.h"))]
    target = cache / f"{name}-{_digest(sources, [*command, *_FLAGS])}"
    if target.exists():
        return target
    _put(
        cache,
        target,
        lambda fresh: run([*command, *_FLAGS, "-o", str(fresh), str(sources[0])], f"{name}.c", 300),
    )
    return target


def _put(cache: Path, target: Path, make: Callable[[Path], object]) -> None:
    """Has a file made aside and renames it: another run never sees half a program."""
    with tempfile.TemporaryDirectory(dir=cache) as aside:
        fresh = Path(aside) / target.name
        make(fresh)
        fresh.replace(target)


def run(command: list[str], what: str, limit_s: float) -> None:
    """Runs a command that builds something. Raises BuildError with the end of its output."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=limit_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(
            f"{what} was not built: {error}", f"run `{shlex.join(command)}`"
        ) from error
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise BuildError(
            f"{what} was not built: `{command[0]}` ended with {done.returncode}\n{tail}",
            f"run `{shlex.join(command)}`",
        )


def _digest(files: list[Path], words: list[str]) -> str:
    state = hashlib.sha256()
    for word in words:
        state.update(word.encode() + b"\0")
    for path in files:
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()[:16]
