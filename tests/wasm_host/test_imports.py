"""The imports of the host, at import and in its run: the host's process must be ready soon."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wasm_host
from tests.places import ROOT
from tests.wasm_host.support import GUESTS, wasm

PACKAGE = Path(wasm_host.__file__).parent
ALLOWED = {"msgspec", "wasmtime", "wasm_host"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_it_imports_the_standard_library_wasmtime_and_msgspec_only(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            assert top in ALLOWED or top in sys.stdlib_module_names


def _loaded_by(script: str, *arguments: str) -> set[str]:
    code = f"import sys\n{script}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, check=True
    )
    return set(done.stdout.decode().split())


def test_importing_it_does_not_import_wasmtime() -> None:
    before = _loaded_by("import msgspec, hashlib, threading")
    added = _loaded_by("import wasm_host, msgspec, hashlib, threading") - before
    assert not {name.partition(".")[0] for name in added} & {
        "wasmtime", "asyncio", "logging", "dataclasses", "inspect", "tempfile", "subprocess",
    }  # fmt: skip


def test_a_core_guest_needs_no_package_of_wasmtime_no_components_and_no_wasi(
    tmp_path: Path,
) -> None:
    path = tmp_path / "flip.wasm"
    path.write_bytes(wasm(GUESTS / "flip.wat"))
    loaded = _loaded_by(
        "import pathlib, wasm_host\n"
        "cache = pathlib.Path(sys.argv[2])\n"
        "guest = wasm_host.load(sys.argv[1], cache_dir=cache).instantiate()\n"
        "assert guest.start(b'p1\\n') == b's1\\n'",
        str(path),
        str(tmp_path / "cache"),
    )
    assert "wasm_host.carriers.core" in loaded
    assert not loaded & {
        "wasm_host.carriers.component",
        "wasm_host.wasi.preview1",
        "wasm_host.carriers.wasi",
        "wasmtime",
        "asyncio",
        "dataclasses",
    }
