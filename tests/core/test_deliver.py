"""The core has one function that tells a peer something, and one function that moves a request."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import conductor.core

CORE: Final = Path(conductor.core.__file__).parent
TOLD: Final = {"Send", "Propagate"}
"""The effects by which a frame leaves for a peer."""


def makers(path: Path) -> Iterator[tuple[str, str]]:
    """The functions of a module that make such an effect, each with the effect."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute):
                    func = call.func
                    name = func.id if isinstance(func, ast.Name) else func.attr
                    if name in TOLD:
                        yield f"{path.stem}.{node.name}", name


MOVERS: Final = {
    "state": {
        *("entries.begins", "entries.moves", "entries.closes"),  # a request (`policy.states`)
        "session.move",  # a turn
        *("agent_sessions._set_up", "agent_sessions.refused"),  # a session at its agent: no table
    },
    "standing": {"session.stands"},
    "work": {"session.does"},
    "life": {"state.move", "state.__post_init__"},
}
"""The functions that change each state: all other code goes through these, and so by a table."""


def test_only_its_table_changes_a_state() -> None:
    found: dict[str, set[str]] = {name: set() for name in MOVERS}
    for path in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for one in ast.walk(node):
                    if not isinstance(one, ast.Attribute) or one.attr not in found:
                        continue
                    if isinstance(one.ctx, ast.Store):
                        found[one.attr].add(f"{path.stem}.{node.name}")
    assert found == MOVERS


def test_one_function_tells_a_peer_anything() -> None:
    found = {one for path in CORE.rglob("*.py") for one in makers(path)}
    assert found == {("exchange.deliver", told) for told in TOLD}
