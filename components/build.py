"""Build the bundled C components and record their digests.

    python components/build.py [NAME…]           build, write the module and its digest
    python components/build.py --check [NAME…]   write nothing; exit 1 unless all is as built

The compiler is Zig's, from the package named in :data:`PACKAGE`; the output depends on
the sources and on the compiler's version only. Any component folder whose
``component.toml`` has a ``source`` ending in ``.c`` is built.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

#: The compiler, and the one version whose output is committed.
PACKAGE: Final = "ziglang"
PACKAGE_VERSION: Final = "0.17.0"

COMPONENTS: Final = Path(__file__).resolve().parent
LIBRARY: Final = COMPONENTS.parent / "guest_sdk" / "c"

#: What guest_sdk/c/README.md tells an author to use, and no debug information.
FLAGS: Final = (
    "-target",
    "wasm32-freestanding",
    "-mcpu=generic+simd128+bulk_memory",
    "-nostdlib",
    "-std=c2x",
    "-Os",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,--no-entry",
    "-Wl,--strip-all",
    "-Wl,-z,stack-size=16384",
)

_WASM_HEADER: Final = b"\0asm\1\0\0\0"
_DIGEST_LINE: Final = re.compile(r'^sha256 = "[0-9a-f]*"$', re.MULTILINE)


class BuildError(Exception):
    """A component could not be built, or differs from the build of its source."""


class Component(NamedTuple):
    """One buildable component, as its ``component.toml`` describes it."""

    name: str
    manifest: Path
    source: Path
    module: Path
    sha256: str


def components() -> list[Component]:
    """Every component built from C, by name."""
    found = []
    for manifest in sorted(COMPONENTS.glob("*/component.toml")):
        table = tomllib.loads(manifest.read_text("utf-8"))
        source = str(table.get("source", ""))
        if source.endswith(".c"):
            folder = manifest.parent
            found.append(
                Component(
                    table["name"],
                    manifest,
                    folder / source,
                    folder / table["file"],
                    str(table["sha256"]),
                )
            )
    return found


def compiler_missing() -> str | None:
    """Why the committed binaries cannot be rebuilt here; ``None`` if they can."""
    if importlib.util.find_spec(PACKAGE) is None:
        return f"{PACKAGE} is not installed"
    version = importlib.metadata.version(PACKAGE)
    if version != PACKAGE_VERSION:
        return f"{PACKAGE} is {version}, the binaries are built by {PACKAGE_VERSION}"
    return None


def compile_c(source: Path) -> bytes:
    """Compile one C source into a WebAssembly module without custom sections.

    Raises:
        BuildError: the compiler refused; its messages are in the text.
    """
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "module.wasm"
        command = [sys.executable, "-m", PACKAGE, "cc", *FLAGS, "-I", str(LIBRARY)]
        done = subprocess.run(
            [*command, "-o", str(output), str(source)],
            check=False,
            env={**os.environ, "ZIG_LOCAL_CACHE_DIR": scratch},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise BuildError(
                f"{source.name}: {PACKAGE} exited with {done.returncode}:\n{done.stderr}"
                f"hint: pip install {PACKAGE}=={PACKAGE_VERSION}"
            )
        return strip_custom_sections(output.read_bytes())


def strip_custom_sections(module: bytes) -> bytes:
    """The module without names, producers and other sections that do not run.

    Raises:
        BuildError: the bytes are no WebAssembly module.
    """
    if not module.startswith(_WASM_HEADER):
        raise BuildError("the compiler's output is no WebAssembly module")
    kept = [_WASM_HEADER]
    at = len(_WASM_HEADER)
    while at < len(module):
        start, kind = at, module[at]
        size, at = _unsigned_leb128(module, at + 1)
        at += size
        if kind:
            kept.append(module[start:at])
    return b"".join(kept)


def _unsigned_leb128(data: bytes, at: int) -> tuple[int, int]:
    """The number encoded at an offset, and the offset behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def digest(module: bytes) -> str:
    """The SHA-256 of a module in hex, as ``component.toml`` records it."""
    return hashlib.sha256(module).hexdigest()


def write(component: Component, module: bytes) -> None:
    """Write a module and record its digest beside it."""
    component.module.write_bytes(module)
    text = component.manifest.read_text("utf-8")
    text, count = _DIGEST_LINE.subn(f'sha256 = "{digest(module)}"', text)
    if count != 1:
        raise BuildError(f"{component.manifest.name} of {component.name} has no sha256 line")
    component.manifest.write_text(text, "utf-8")


def check(component: Component, module: bytes) -> None:
    """Compare the committed module with the module that was just built.

    Raises:
        BuildError: the binary or the recorded digest differs.
    """
    hint = f"hint: python components/build.py {component.name}"
    if not component.module.exists() or component.module.read_bytes() != module:
        raise BuildError(f"{component.name}: the binary is not what the source builds\n{hint}")
    if component.sha256 != digest(module):
        raise BuildError(f"{component.name}: the recorded digest is not the binary's\n{hint}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; answer its exit code."""
    parser = argparse.ArgumentParser(description="Build the bundled C components.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones (default: all)")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(arguments)
    known = {component.name: component for component in components()}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no such component: {', '.join(unknown)} (there are: {', '.join(known)})")
    missing = compiler_missing()
    if missing:
        print(f"{missing}\nhint: pip install {PACKAGE}=={PACKAGE_VERSION}", file=sys.stderr)
        return 2
    try:
        for name in options.names or known:
            module = compile_c(known[name].source)
            (check if options.check else write)(known[name], module)
            print(f"{name}: {len(module)} bytes, sha256 {digest(module)}")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
