"""The editor's operations: those it may have, and plans that call them."""

import json
import re
from typing import Any, NamedTuple

STANDARD = {
    "get-selection": "What is selected in the editor",
    "find-all-references": "Where a symbol is used",
    "find-definitions": "Where a symbol is defined",
    "type-hints": "The types of what stands in a file",
    "rename": "Renames a symbol wherever it is used",
    "extract-method": "Makes a method of a range of lines",
    "get-diagnostics": "Errors and warnings that the editor shows",
    "open-file": "Opens a file in the editor",
}
"""Operations by the names that editors use, until this editor has named its own."""

STEPS = 10
"""Steps of one plan, at most."""
_PLAN = re.compile(r"^```plan[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """One operation to perform, with its arguments."""

    operation: str
    arguments: dict[str, Any]


def plan(text: str) -> list[Step] | None:
    """The plan in an agent's text; None: there is none. Raises `ValueError` for a plan that is no
    list of steps."""
    found = _PLAN.findall(text)
    if not found:
        return None
    try:
        held = json.loads(found[-1])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the plan is no JSON: {error}") from None
    if not isinstance(held, list) or not 1 <= len(held) <= STEPS:
        raise ValueError(f"a plan is a list of 1 to {STEPS} steps")
    return [_step(one) for one in held]


def _step(one: Any) -> Step:
    held = one if isinstance(one, dict) else {}
    name, arguments = held.get("operation"), held.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ValueError('a step is {"operation": NAME, "arguments": {…}}')
    return Step(name, arguments)


def text(result: Any) -> str:
    """The result of an operation, as text for a model."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
