"""What can be compiled of the core (`scripts/compiled_core.py`), as far as the sources show it."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Final

import pytest

from tests.places import ROOT


def _modules() -> tuple[str, ...]:
    spec = importlib.util.spec_from_file_location("core", ROOT / "scripts" / "compiled_core.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names: tuple[str, ...] = module.MODULES
    return names


FILES: Final = [ROOT / "conductor" / "core" / f"{name}.py" for name in _modules()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_structs_stand_in_other_modules(path: Path) -> None:
    bases = [
        ast.unparse(base)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    ]
    assert not {"msgspec.Struct", "Struct"} & set(bases), "the compiler drops options of structs"
