"""`python -m wasm_host.wat SOURCE FILE`: WebAssembly text made a module, for `conductor build`."""

from __future__ import annotations

import sys
from pathlib import Path

import wasmtime


def main(arguments: list[str]) -> int:
    """Writes the module of a text; 1 if that cannot be read, which is said with its line and
    column. What was in FILE stays then."""
    source, file = arguments
    try:
        module = bytes(wasmtime.wat2wasm(Path(source).read_text("utf-8")))
    except (wasmtime.WasmtimeError, OSError, UnicodeDecodeError) as error:
        said = str(error).replace("<anon>", Path(source).name).rstrip()
        sys.stderr.write(f"`{Path(source).name}` is no WebAssembly text: {said}\n")
        return 1
    Path(file).write_bytes(module)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
