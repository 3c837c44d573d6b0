"""`python -m wasm_host.wat SOURCE FILE`: WebAssembly text made a module, for builds."""

from __future__ import annotations

import sys
from pathlib import Path

import wasmtime


def main(arguments: list[str]) -> int:
    """Assemble SOURCE to FILE; the exit code. An error names line and column, and FILE stays."""
    source, file = arguments
    try:
        module = bytes(wasmtime.wat2wasm(Path(source).read_text("utf-8")))
    except (wasmtime.WasmtimeError, OSError, UnicodeDecodeError) as error:
        reason = str(error).replace("<anon>", Path(source).name).rstrip()
        sys.stderr.write(f"`{Path(source).name}` is no WebAssembly text: {reason}\n")
        return 1
    Path(file).write_bytes(module)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
