"""The settings of a Python proxy, read off the dataclass it has for them; nothing of it is run.

`Proxy(config=Config)` names a dataclass: its fields are the settings, what they are set to their
defaults. What is computed from more than constants is not known.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

MOST_READ: Final = 256 * 1024
"""Characters of source that are read for what it says of itself: Python's own reader takes a
thousand bytes of memory for one of those. Of more source nothing is known."""

_MOST_BRACED: Final = 2_000_000_000
"""Braces in a source times its characters: Python reads a long f-string once for each of its
expressions."""

_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
_EMPTY: Final[dict[str, Callable[[], Any]]] = {"list": list, "dict": dict}
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
"""Those between numbers whose outcome cannot be large, where the numbers are not."""

_LARGEST: Final = 2**64
_MOST: Final = 256
"""Elements of a list with names in it."""

_LONGEST: Final = 4096
"""Characters. Names stand for what was computed before, so without bounds a few lines of a
stranger's could keep us computing for ever."""


UNREADABLE: Final = (
    SyntaxError,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    MemoryError,
)
"""What reading a stranger's source, or a literal in it, may raise."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `type`: as manifests name it. `default`: None if there is none, or not known."""

    type: str = "any"
    description: str = ""
    default: Any = None
    required: bool = False
    enum: list[Any] = []


def too_much(source: str, left: int) -> bool:
    """Whether a source costs too much to be read; `left`: characters that may be."""
    return len(source) > left or len(source) * source.count("{") > _MOST_BRACED


def fields(sources: Iterable[str], name: str) -> dict[str, Field]:
    """The settings in the class of this name, wherever it stands; none if it cannot be found."""
    left = MOST_READ
    for source in sources:
        if too_much(source, left):
            continue
        left -= len(source)
        try:
            body = ast.parse(source).body
        except UNREADABLE:
            continue
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return _fields(node.body, _constants(body))
    return {}


def _constants(body: list[ast.stmt]) -> dict[str, Any]:
    """What names of a module stand for, as far as that is written down."""
    found: dict[str, Any] = {}
    for node in body:
        target: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        if isinstance(target, ast.Name) and isinstance(node, (ast.Assign, ast.AnnAssign)):
            known, value = _value(node.value, found)
            if known:
                found[target.id] = value
    return found


def _fields(body: list[ast.stmt], constants: dict[str, Any]) -> dict[str, Field]:
    found: dict[str, Field] = {}
    left = MOST_READ
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        kind, enum = _typed(node.annotation, constants)
        known, default = _default(node.value, constants)
        size = _size(default) if known else left + 1
        fits = size <= left
        left -= size if fits else 0
        found[node.target.id] = Field(
            type=kind,
            description=_described(after),
            default=default if fits else None,
            required=node.value is None,
            enum=enum,
        )
    return found


def _size(value: object) -> int:
    """Bytes of a value as JSON; more than are taken for what is none."""
    try:
        # Half a character cannot be passed on.
        return len(json.dumps(value, ensure_ascii=False).encode())
    except UNREADABLE:
        return MOST_READ + 1


def _described(after: ast.stmt | None) -> str:
    """A text that stands behind a field, in one line."""
    said = after.value if isinstance(after, ast.Expr) else None
    if isinstance(said, ast.Constant) and isinstance(said.value, str):
        return " ".join(said.value.encode(errors="replace").decode().split())
    return ""


def _typed(annotation: ast.expr, constants: dict[str, Any]) -> tuple[str, list[Any]]:
    """The type of a field, and what alone it may be."""
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = outer.id if isinstance(outer, ast.Name) else ""
    if name == "Literal" and isinstance(annotation, ast.Subscript):
        inner = annotation.slice
        choices = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        read = (_value(one, constants) for one in choices)
        values = [value for known, value in read if known and _size(value) <= MOST_READ]
        if values and all(isinstance(one, str) for one in values):
            return "string", values
        return "any", values
    if name in _TYPES:
        return _TYPES[name], []
    # A class of the author's own, whose settings are in an object; or a union.
    own = name[:1].isupper() and name != "Any" and outer is annotation
    return ("object" if own else "any"), []


def _default(node: ast.expr | None, constants: dict[str, Any]) -> tuple[bool, Any]:
    """Whether the default of a field is known, and what it is."""
    if not isinstance(node, ast.Call) or not _is_named(node.func, "field"):
        return _value(node, constants)
    given = {one.arg: one.value for one in node.keywords}
    if "default" in given:
        return _value(given["default"], constants)
    factory = given.get("default_factory")
    if isinstance(factory, ast.Lambda):
        return _value(factory.body, constants)
    if isinstance(factory, ast.Name) and factory.id in _EMPTY:
        return True, _EMPTY[factory.id]()
    return False, None


def _is_named(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.Attribute) and node.attr == name
    )


def _value(node: ast.expr | None, constants: dict[str, Any]) -> tuple[bool, Any]:
    """Whether an expression's value is known, and what it is."""
    if node is None:
        return False, None
    try:
        return True, ast.literal_eval(node)
    except UNREADABLE:
        pass
    if isinstance(node, ast.Name) and node.id in constants:
        return True, constants[node.id]
    if isinstance(node, ast.JoinedStr):
        return _joined(node, constants)
    if isinstance(node, ast.List):
        return _listed(node, constants)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        (known, left), (also, right) = (_value(one, constants) for one in (node.left, node.right))
        numbers = _is_small(left) and _is_small(right)
        if known and also and numbers and (right or not isinstance(node.op, ast.Div)):
            return True, _OPERATORS[type(node.op)](left, right)
    return False, None


def _listed(node: ast.List, constants: dict[str, Any]) -> tuple[bool, Any]:
    """A list of plain values, some of them by name."""
    found = [_value(one, constants) for one in node.elts[:_MOST]]
    plain = all(known and isinstance(value, (str, int, float)) for known, value in found)
    plain = plain and sum(len(one) for _, one in found if isinstance(one, str)) <= MOST_READ
    return (
        (True, [value for _, value in found])
        if plain and len(node.elts) <= _MOST
        else (False, None)
    )


def _is_small(value: object) -> bool:
    """Whether it is a number that one can go on computing with."""
    return isinstance(value, (int, float)) and abs(value) < _LARGEST


def _joined(node: ast.JoinedStr, constants: dict[str, Any]) -> tuple[bool, Any]:
    parts = []
    for one in node.values:
        inner = one.value if isinstance(one, ast.FormattedValue) else one
        known, value = _value(inner, constants)
        if not known or (isinstance(one, ast.FormattedValue) and one.format_spec is not None):
            return False, None
        parts.append(str(value))
        if sum(map(len, parts)) > _LONGEST:
            return False, None
    return True, "".join(parts)
