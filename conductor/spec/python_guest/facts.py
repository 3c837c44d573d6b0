"""The declarations of a Python proxy in its source; the source is read and never run.

`Proxy(rights={…}, config=Config)` names the rights that the proxy requests, and the dataclass of
its settings: the fields are the settings, their values the defaults. A value that is computed from
more than constants is unknown.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from conductor.core.policy import words
from conductor.errors import UsageError, hint_of
from conductor.spec.manifest.reading import Manifest, Setting, SettingType
from conductor.spec.python_guest.scripts import Script
from conductor.spec.python_guest.source import (
    MOST_READ,
    UNREADABLE,
    Unknown,
    constants_of,
    name_of,
    trees,
    value_of,
)

_RIGHTS: Final = "rights"
PROXY_TAKES: Final = ("name", "version", "description", _RIGHTS, "config", "session")
"""The arguments of the `Proxy` of guest_sdk. A source may have a `Proxy` of its own."""
_SDK: Final = re.compile(r"guest_sdk\b")
_NAMING: Final = ("request", "notification", "update")
"""Decorators that are given the names of messages."""


class Handled(msgspec.Struct, frozen=True):
    """A decorator of the proxy, and the name of a message it handles; empty: all, or none."""

    decorator: str
    name: str
    place: str
    """File and line."""

    @property
    def written(self) -> str:
        """The decorator as its author writes it."""
        return f"@proxy.{self.decorator}" + (f'("{self.name}")' if self.name else "")


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """The literal arguments of `Proxy(…)`, and its handlers."""

    version: str | None = None
    description: str | None = None
    rights: dict[str, str] | None = None
    """The declared words, each with its reason; None: it declares none."""
    hidden: bool = False
    """Whether no rights are declared, but the source may name some in a form that cannot be read.
    """
    computed: bool = False
    """Whether a `Proxy(…)` has rights that cannot be read."""
    settings: dict[str, Setting] = {}
    handlers: tuple[Handled, ...] = ()
    draws: str = ""
    """The place where it imports Python's `random`, which no run seeds anew."""
    strange: str = ""
    """An argument of a `Proxy(…)` that the `Proxy` of guest_sdk does not take."""


class _Calls(NamedTuple):
    """The calls of `Proxy` in sources, and whether rights are named outside of them."""

    calls: list[ast.Call]
    elsewhere: bool


def manifest(name: str, file: str, declared: Declared) -> Manifest:
    """The declaration as a manifest. Raises `UsageError` for a word that is no right."""
    for word in declared.rights or ():
        try:
            words.read([word])
        except ValueError as error:
            raise UsageError(
                f"`{file}` asks for a right: {error}", hint_of(error) or words.HINT
            ) from None
    return Manifest(
        name=name,
        file=file,
        version=declared.version or "",
        description=declared.description or "",
        rights=declared.rights,
    )


def compare(declared: Declared, manifest: Manifest, path: str) -> None:
    """Raises `UsageError` if a source asks for a right that the manifest in `path` does not
    request: the manifest counts."""
    if declared.computed:
        wrong = "computes its rights"
    elif more := words.lacking(declared.rights or (), manifest.rights or ()):
        wrong = f"asks for the right `{more[0]}`"
    else:
        return
    raise UsageError(
        f"`{manifest.file}` {wrong}, and {path} does not ask for that",
        f"{path} decides: write the rights below `[rights]` there, and leave them out of "
        "`Proxy(…)`",
    )


def declared(script: Script, *, settings: bool = True) -> Declared:
    """The declarations of `Proxy(…)` in a script, as far as they can be read.

    Without `settings` the settings are left out, which takes less time.
    """
    main = script.files[script.main]
    others = [text for path, text in script.files.items() if path != script.main]
    calls, elsewhere = _calls([main])
    if not calls:
        calls, elsewhere_too = _calls(others)
        elsewhere = elsewhere or elsewhere_too
    nodes = _nodes(script.files)
    constants = _all_constants(nodes, script.main)
    texts: dict[str, str] = {}
    rights: dict[str, str] | None = None
    computed = False
    for keyword in (keyword for call in calls for keyword in call.keywords):
        try:
            value = value_of(keyword.value, constants) if keyword.arg is not None else None
            if keyword.arg in ("version", "description"):
                texts.setdefault(keyword.arg, _plain(value, str))
            elif keyword.arg == _RIGHTS and value is not None:
                rights = (rights or {}) | _plain(value, dict[str, str])
            elsewhere = elsewhere or keyword.arg is None  # `**arguments` may hold rights
        except (*UNREADABLE, msgspec.ValidationError, Unknown):
            if keyword.arg == _RIGHTS:
                elsewhere = computed = True
    named = (name_of(k.value) for call in calls for k in call.keywords if k.arg == "config")
    config = next(named, "") if settings else ""
    return Declared(
        rights=rights,
        hidden=elsewhere and rights is None,
        computed=computed,
        settings=_settings([main, *others], config) if config else {},
        handlers=tuple(_handlers(nodes, constants)),
        draws=next(_draws(nodes), ""),
        strange=next(_strange(nodes, calls), ""),
        version=texts.get("version"),
        description=texts.get("description"),
    )


def _strange(nodes: list[tuple[str, ast.AST]], calls: list[ast.Call]) -> Iterator[str]:
    """The arguments that calls of the `Proxy` of guest_sdk have, and that it does not take."""
    imports = (node for _, node in nodes if isinstance(node, ast.ImportFrom))
    named = {one.name for node in imports if _SDK.match(node.module or "") for one in node.names}
    if "Proxy" in named:
        given = (keyword.arg for call in calls for keyword in call.keywords)
        yield from (name for name in given if name is not None and name not in PROXY_TAKES)


def _calls(sources: Iterable[str]) -> _Calls:
    calls = []
    elsewhere = False
    for source, tree in trees(sources):
        if tree is None:
            elsewhere = elsewhere or _RIGHTS in source
            continue
        own: set[ast.keyword] = set()
        for node in ast.walk(tree):  # a call comes before the nodes in it
            if isinstance(node, ast.Call) and name_of(node.func) == "Proxy":
                calls.append(node)
                own.update(node.keywords)
            elif isinstance(node, ast.keyword):
                elsewhere = elsewhere or (node.arg == _RIGHTS and node not in own)
            elif isinstance(node, ast.Constant):
                elsewhere = elsewhere or node.value == _RIGHTS
    return _Calls(calls, elsewhere)


def _nodes(files: dict[str, str]) -> list[tuple[str, ast.AST]]:
    """All there is in the sources, with the path of each."""
    parsed = zip(files, trees(files.values()), strict=True)
    return [
        (path, node) for path, (_, tree) in parsed if tree is not None for node in ast.walk(tree)
    ]


def _all_constants(nodes: list[tuple[str, ast.AST]], main: str) -> dict[str, Any]:
    """The values of the names of all modules, as far as they can be read; names of `main` win."""
    modules = [(path, node) for path, node in nodes if isinstance(node, ast.Module)]
    modules.sort(key=lambda module: module[0] == main)
    return {name: v for _, node in modules for name, v in constants_of(node.body).items()}


def _handlers(nodes: list[tuple[str, ast.AST]], constants: dict[str, Any]) -> Iterator[Handled]:
    """The decorators of handlers, and the names that they are given as texts."""
    proxies = {name for _, node in nodes for name in _made(node)}
    for path, node in nodes:
        for one in _decorators(node):
            called = one.func if isinstance(one, ast.Call) else one
            if not isinstance(called, ast.Attribute) or name_of(called.value) not in proxies:
                continue
            given = one.args if isinstance(one, ast.Call) and called.attr in _NAMING else []
            try:
                texts = [value_of(argument, constants) for argument in given]
            except Unknown:
                continue
            if all(isinstance(text, str) for text in texts):
                for text in texts or [""]:
                    yield Handled(called.attr, text, f"{path}:{one.lineno}")


def _decorators(node: ast.AST) -> list[ast.expr]:
    """The decorators of a node: above a function, or as `proxy.request("…")(function)`."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.decorator_list
    return [node.func] if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) else []


def _draws(nodes: list[tuple[str, ast.AST]]) -> Iterator[str]:
    """The places where Python's `random` is imported."""
    for path, node in nodes:
        match node:
            case ast.Import(names=names) if any(name.name == "random" for name in names):
                yield f"{path}:{node.lineno}"
            case ast.ImportFrom(module="random", level=0):
                yield f"{path}:{node.lineno}"


def _made(node: ast.AST) -> Iterator[str]:
    """The names that a statement gives to a proxy, or to a proxy's server."""
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if name_of(node.value.func) in ("Proxy", "server"):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _plain(value: Any, kind: Any) -> Any:
    """A value of a type, fit for JSON. Raises one of `UNREADABLE`, or `ValidationError`."""
    plain = msgspec.convert(value, kind)
    msgspec.json.encode(plain)  # a text with half a surrogate pair cannot be encoded
    return plain


# -- the dataclass of its settings -----------------------------------------------------------------

_TYPES: Final[dict[str, SettingType]] = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
_EMPTY: Final[dict[str, Callable[[], Any]]] = {"list": list, "dict": dict}


def _settings(sources: Iterable[str], name: str) -> dict[str, Setting]:
    """The settings in the class of this name; none if there is no such class."""
    for _, tree in trees(sources):
        for node in tree.body if tree is not None else ():
            if isinstance(node, ast.ClassDef) and node.name == name:
                assert tree is not None
                fields = _fields(node.body, constants_of(tree.body))
                return _optional(fields) if _is_partial(node) else fields
    return {}


def _is_partial(node: ast.ClassDef) -> bool:
    """Whether it is a `TypedDict` that may lack any of its members."""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    total = given.get("total")
    return isinstance(total, ast.Constant) and total.value is False


def _optional(settings: dict[str, Setting]) -> dict[str, Setting]:
    return {name: msgspec.structs.replace(one, required=False) for name, one in settings.items()}


def _fields(body: list[ast.stmt], constants: dict[str, Any]) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    left = MOST_READ
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        annotation, optional = _needed(node.annotation)
        kind, enum = _type(annotation, constants)
        try:
            default = _default(node.value, constants)
            size = _size(default)
            if size > left:
                raise Unknown
            left -= size
        except Unknown:
            default = None
        settings[node.target.id] = Setting(
            type=kind,
            description=_description(after),
            default=default,
            required=node.value is None and not optional,
            enum=enum,
        )
    return settings


def _needed(annotation: ast.expr) -> tuple[ast.expr, bool]:
    """The type of a member, and whether a `TypedDict` may lack it."""
    if isinstance(annotation, ast.Subscript):
        outer = name_of(annotation.value)
        if outer in ("NotRequired", "Required"):
            return annotation.slice, outer == "NotRequired"
    return annotation, False


def _size(value: object) -> int:
    """Bytes of a value as JSON; more than are read for a value that JSON cannot hold."""
    try:
        return len(json.dumps(value, ensure_ascii=False).encode())
    except UNREADABLE:
        return MOST_READ + 1


def _description(after: ast.stmt | None) -> str:
    """A text that stands behind a field, in one line."""
    text = after.value if isinstance(after, ast.Expr) else None
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        return " ".join(text.value.encode(errors="replace").decode().split())
    return ""


def _type(annotation: ast.expr, constants: dict[str, Any]) -> tuple[SettingType, list[Any]]:
    """The type of a field, and the only values it may have."""
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = outer.id if isinstance(outer, ast.Name) else ""
    if name == "Literal" and isinstance(annotation, ast.Subscript):
        inner = annotation.slice
        values = []
        for choice in inner.elts if isinstance(inner, ast.Tuple) else [inner]:
            try:
                value = value_of(choice, constants)
            except Unknown:
                continue
            if _size(value) <= MOST_READ:
                values.append(value)
        texts = bool(values) and all(isinstance(value, str) for value in values)
        return ("string" if texts else "any"), values
    if name in _TYPES:
        return _TYPES[name], []
    # A class of the author's own, whose settings are in an object; or a union.
    own = name[:1].isupper() and name != "Any" and outer is annotation
    return ("object" if own else "any"), []


def _default(node: ast.expr | None, constants: dict[str, Any]) -> Any:
    """The default of a field. Raises `Unknown`."""
    if not isinstance(node, ast.Call) or name_of(node.func) != "field":
        return value_of(node, constants)
    arguments = {keyword.arg: keyword.value for keyword in node.keywords}
    if "default" in arguments:
        return value_of(arguments["default"], constants)
    factory = arguments.get("default_factory")
    if isinstance(factory, ast.Lambda):
        return value_of(factory.body, constants)
    if isinstance(factory, ast.Name) and factory.id in _EMPTY:
        return _EMPTY[factory.id]()
    raise Unknown
