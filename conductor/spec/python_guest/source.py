"""What can be read off the source of a stranger's Python, which is never run: trees, and the values
of expressions of constants."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

MOST_READ: Final = 256 * 1024
"""Characters of source that are read: Python's own parser takes a thousand bytes of memory for one
of them. Of more source nothing is known."""

_MOST_BRACED: Final = 2_000_000_000
"""Braces in a source times its characters: Python reads a long f-string once for each of its
expressions."""

UNREADABLE: Final = (
    SyntaxError,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    MemoryError,
)
"""The errors that reading a stranger's source, or a literal in it, may raise."""

_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
"""Operators whose results are not much larger than their numbers: no power, no shift."""

# Names stand for earlier results, so without bounds a few lines of a stranger's could keep us
# computing for ever.
_LARGEST: Final = 2**64
"""Of a number that is computed with."""
_MOST: Final = 256
"""Elements of a list with names in it."""
_LONGEST: Final = 4096
"""Characters of an f-string's value."""


class Unknown(Exception):  # noqa: N818 - an answer, not an error
    """The value of an expression cannot be read off the source."""


def trees(sources: Iterable[str]) -> Iterable[tuple[str, ast.Module | None]]:
    """Each source with its tree; None if it cannot be read, or would cost too much."""
    left = MOST_READ
    for source in sources:
        tree = None
        if len(source) <= left and len(source) * source.count("{") <= _MOST_BRACED:
            left -= len(source)
            try:
                tree = ast.parse(source)
            except UNREADABLE:
                tree = None
        yield source, tree


def name_of(node: ast.expr) -> str:
    """The last name of what an expression names; empty: it names nothing."""
    if isinstance(node, ast.Subscript):  # `Proxy[Config]`
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def constants_of(body: list[ast.stmt]) -> dict[str, Any]:
    """The values of a module's names, as far as they can be read."""
    constants: dict[str, Any] = {}
    for node in body:
        target: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        if isinstance(target, ast.Name) and isinstance(node, (ast.Assign, ast.AnnAssign)):
            try:
                constants[target.id] = value_of(node.value, constants)
            except Unknown:
                continue
    return constants


def value_of(node: ast.expr | None, constants: dict[str, Any]) -> Any:
    """The value of an expression. Raises `Unknown`."""
    try:
        return _read(node, constants)
    except RecursionError:
        raise Unknown from None


def _read(node: ast.expr | None, constants: dict[str, Any]) -> Any:
    if node is None:
        raise Unknown
    try:
        return ast.literal_eval(node)
    except UNREADABLE:
        pass
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.JoinedStr):
        return _joined(node, constants)
    if isinstance(node, ast.List):
        return _list(node, constants)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = (value_of(side, constants) for side in (node.left, node.right))
        if _is_small(left) and _is_small(right) and (right or not isinstance(node.op, ast.Div)):
            return _OPERATORS[type(node.op)](left, right)
    raise Unknown


def _list(node: ast.List, constants: dict[str, Any]) -> list[Any]:
    """A list of plain values, some of them by name."""
    if len(node.elts) > _MOST:
        raise Unknown
    values = [value_of(element, constants) for element in node.elts]
    plain = all(isinstance(value, (str, int, float)) for value in values)
    if not plain or sum(len(value) for value in values if isinstance(value, str)) > MOST_READ:
        raise Unknown
    return values


def _is_small(value: object) -> bool:
    """Whether it is a number that may be computed with."""
    return isinstance(value, (int, float)) and abs(value) < _LARGEST


def _joined(node: ast.JoinedStr, constants: dict[str, Any]) -> str:
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
            raise Unknown
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        try:
            parts.append(str(value_of(inner, constants)))
        except ValueError:  # a hexadecimal integer of more digits than Python writes
            raise Unknown from None
        if sum(map(len, parts)) > _LONGEST:
            raise Unknown
    return "".join(parts)
