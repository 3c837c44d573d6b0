"""What one function of the core alone does: it tells a peer something, it moves a request."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import conductor.core

CORE: Final = Path(conductor.core.__file__).parent
TOLD: Final = {"Send", "Propagate"}
"""The effects by which a frame leaves for a peer."""


def makers(path: Path) -> Iterator[tuple[str, str]]:
    """The functions of a module that make such an effect, each with what it makes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute):
                    func = call.func
                    name = func.id if isinstance(func, ast.Name) else func.attr
                    if name in TOLD:
                        yield f"{path.stem}.{node.name}", name


def test_only_its_table_moves_a_carried_request() -> None:
    found = {
        f"{path.stem}.{node.name}"
        for path in (CORE / "policy").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and one.attr == "state" and isinstance(one.ctx, ast.Store)
    }
    assert found == {"entries.begins", "entries.moves", "entries.closes"}


def test_one_function_tells_a_peer_anything() -> None:
    found = {one for path in CORE.rglob("*.py") for one in makers(path)}
    assert found == {("exchange.deliver", "Send"), ("exchange._deliver_stamped", "Propagate")}
