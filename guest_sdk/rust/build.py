"""Builds the examples as committed, or sees whether they can be built again, byte for byte.

    python guest_sdk/rust/build.py [--check]

It takes `cargo`, and a `rustc` with the target wasm32-unknown-unknown; or one that has the sources
of its library beside it, which are compiled then. `examples/built.toml` tells what was used.
Another compiler makes other bytes of the same sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

CRATE: Final = Path(__file__).resolve().parent
EXAMPLES: Final = CRATE / "examples"
RECORD: Final = EXAMPLES / "built.toml"
TARGET: Final = "wasm32-unknown-unknown"
STACK: Final = 65536
"""Bytes. Linkers give 1 MiB if not told; JSON is read without recursion."""


class CannotBuildError(Exception):
    """A missing tool, or the compiler's error."""


def names() -> list[str]:
    """The examples."""
    return sorted(path.stem for path in EXAMPLES.glob("*.rs"))


def sources() -> str:
    """Digest of all that the modules are built from."""
    digest = hashlib.sha256()
    for path in (
        CRATE / "Cargo.toml",
        *sorted(CRATE.glob("src/*.rs")),
        *sorted(EXAMPLES.glob("*.rs")),
    ):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def has_target() -> bool:
    """Whether the compiler here makes WebAssembly, as it is. Raises `CannotBuildError`."""
    root = Path(_say([_rustc(), "--print", "sysroot"]).strip())
    return any((root / "lib" / "rustlib" / TARGET / "lib").glob("libcore-*.rlib"))


def build(folder: Path, *, crate: Path = CRATE) -> dict[str, Path]:
    """Builds the examples of a crate in a folder; the module of each. Raises `CannotBuildError`."""
    library, sources = _library()
    roots = {str(crate.resolve()): "guest", str(sources.resolve()): "rust", str(folder): "out"}
    flags = [f"--remap-path-prefix={path}=/{name}" for path, name in roots.items()]
    flags += ["-C", f"link-arg=-zstack-size={STACK}"]
    environment = {
        **os.environ,
        **library,
        "CARGO_TARGET_DIR": str(folder),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
    }
    words = ["build", "--quiet", "--offline", "--release", "--target", TARGET]
    words += ["--examples", "--features", "alone"]
    if library:
        words += _from_source(sources / "library" / "vendor")
    _say(["cargo", *words], crate, environment)
    made = folder / TARGET / "release" / "examples"
    return {path.stem: made / f"{path.stem}.wasm" for path in crate.glob("examples/*.rs")}


def _rustc() -> str:
    return os.environ.get("RUSTC", "rustc")


def _library() -> tuple[dict[str, str], Path]:
    """The variables to set where the target's library must be compiled too, and its sources."""
    root = Path(_say([_rustc(), "--print", "sysroot"]).strip())
    sources = root / "lib" / "rustlib" / "src" / "rust"
    if has_target():
        return {}, sources
    if not (sources / "library").is_dir():
        raise CannotBuildError(f"rustc has no target {TARGET}: `rustup target add {TARGET}`")
    return {"RUSTC_BOOTSTRAP": "1"}, sources


def _from_source(vendor: Path) -> list[str]:
    options = ["-Zbuild-std=core,alloc"]
    if vendor.is_dir():
        options += ["--config", "source.crates-io.replace-with='vendor'"]
        options += ["--config", f"source.vendor.directory='{vendor}'"]
    return options


def _say(
    command: list[str], folder: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    if shutil.which(command[0]) is None:
        raise CannotBuildError(f"`{command[0]}` is not on PATH: install Rust")
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CannotBuildError(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def record(modules: dict[str, Path]) -> str:
    """The text of `built.toml` for modules just built."""
    compiler = _say([_rustc(), "--version"]).strip()
    library = "compiled with them" if _library()[0] else "the compiler's"
    lines = [
        "# Written by guest_sdk/rust/build.py.",
        f'compiler = "{compiler}"',
        f'library = "{library}"',
        f'sources = "{sources()}"',
        "",
        "[modules]",
        *(f'{name} = "{digest(path)}"' for name, path in sorted(modules.items())),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Builds, and writes or compares."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            modules = build(Path(folder).resolve())
            text = record(modules)
        except CannotBuildError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        if arguments == ["--check"]:
            return _compare(text)
        for name, path in modules.items():
            shutil.copyfile(path, EXAMPLES / f"{name}.wasm")
        RECORD.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


def _compare(text: str) -> int:
    recorded = RECORD.read_text(encoding="utf-8")
    if text == recorded:
        sys.stdout.write("the same, byte for byte\n")
        return 0
    for name, here in tomllib.loads(text).items():
        there = tomllib.loads(recorded)[name]
        if here != there:
            sys.stdout.write(f"{name}: recorded {there}, here {here}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
