"""The core keeps data, not functions: no function is left there to be called later. A function
returns the values that it makes."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import conductor.core

CORE: Final = Path(conductor.core.__file__).parent
MOST: Final = 6
"""Parameters of a constructor."""
FILLED: Final = ("list", "dict", "set", "deque")
"""Types of parameters that a function could fill for its caller."""
FILLS: Final = ("add", "append", "appendleft", "extend", "insert", "setdefault", "update")
"""The methods by which it could."""
KEPT: Final = {"json_text._decode": "the method of a decoder of another's, for its speed"}
"""Where functions are kept all the same, and why."""


def makes(value: ast.expr, local: set[str]) -> bool:
    """Whether an expression is a function to be called later, or a collection with one."""
    match value:
        case ast.Lambda():
            return True
        case ast.Call(func=ast.Name(id="partial")):
            return True
        case ast.Name(id=name):
            return name in local
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return any(makes(item, local) for item in items)
        case _:
            return False


def kept(path: Path) -> Iterator[str]:
    """The places where a module keeps functions: attributes, by their types or by their values, and
    lists to which a function is added."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    place = ".".join(path.relative_to(CORE).with_suffix("").parts)
    named = {
        ast.unparse(node.targets[0])
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Callable[")
    }
    for scope in ast.walk(tree):
        for node in scope.body if isinstance(scope, ast.ClassDef) else []:
            if isinstance(node, ast.AnnAssign) and "Callable[" in ast.unparse(node.annotation):
                yield f"{place}.{ast.unparse(node.target)}"
        if not isinstance(scope, ast.FunctionDef):
            continue
        arguments = [*scope.args.args, *scope.args.kwonlyargs]
        types = {one.arg: ast.unparse(one.annotation or ast.Constant("")) for one in arguments}
        local = {name for name, type_ in types.items() if "Callable[" in type_ or type_ in named}
        inner = {one for one in ast.walk(scope) if isinstance(one, ast.FunctionDef)}
        local |= {one.name for one in inner - {scope}}
        for one in ast.walk(scope):
            match one:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if makes(value, local):
                    local.add(name)
                case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation):
                    if "Callable[" in ast.unparse(annotation):
                        yield f"{place}.{name}"
                case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                    if makes(value, local):
                        yield f"{place}.{name}"
                case ast.Call(func=ast.Attribute(attr="append" | "insert", value=value)):
                    if any(makes(item, local) for item in one.args):
                        yield f"{place}.{ast.unparse(value).rpartition('.')[2]}"


def test_the_core_keeps_no_functions() -> None:
    assert {one for path in CORE.rglob("*.py") for one in kept(path)} == KEPT.keys()


def odd(path: Path) -> Iterator[str]:
    """The constructors of a module that take too much, and functions that fill their parameters."""
    for scope in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(scope, ast.FunctionDef):
            continue
        taken = [*scope.args.args, *scope.args.kwonlyargs]
        names = {one.arg for one in taken} - {"self"}
        if scope.name == "__init__" and len(names) > MOST:
            yield f"{path.stem} has a constructor that takes {len(names)}"
        types = {one.arg: ast.unparse(one.annotation or ast.Constant("")) for one in taken}
        given = {name for name in names if types[name].startswith(FILLED)}
        for one in ast.walk(scope):
            match one:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
                    fills = name in given and attr in FILLS
                case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                    fills = name in given
                case _:
                    fills = False
            if fills:
                yield f"{path.stem}.{scope.name} fills `{name}`"


def test_constructors_take_little_and_functions_return_what_they_make() -> None:
    assert [one for path in CORE.rglob("*.py") for one in odd(path)] == []
