"""Whatever a peer is told goes through one function of the core."""

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


def test_one_function_tells_a_peer_anything() -> None:
    found = {one for path in CORE.rglob("*.py") for one in makers(path)}
    assert found == {("exchange.deliver", "Send"), ("exchange._deliver_stamped", "Propagate")}
