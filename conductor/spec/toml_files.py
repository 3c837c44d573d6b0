"""TOML files that people write: read in bounded time, held to a msgspec struct, errors with a line.

The struct is the one declaration of a kind of file, and msgspec reads every file with it: manifests
and locks are read while an editor waits. pydantic takes longer to import than msgspec to read, so
it is loaded only for a file that msgspec refuses. It then checks a model derived from the same
struct, because it names the exact place of a mistake; msgspec says `[...]` for every key of a
table.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar, Union
from typing import get_args as arguments
from typing import get_origin as origin

import msgspec

from conductor.errors import UsageError, did_you_mean
from conductor.patterns import lazy_pattern

if TYPE_CHECKING:
    import pydantic

Key: TypeAlias = str | int
"""A key of a table, or an index of a list."""

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

_AT_LINE: Final = lazy_pattern(r" \(at (?:line (\d+), column \d+|end of document)\)$")
"""The end of an error of tomllib."""

_A_TEXT: Final = '"…"'
_A_LIST: Final = '["…"]'

_MOST_WORK: Final = 4_000_000
"""Steps the parser may need for keys with dots; a second or two."""


class Mistake(Exception):  # noqa: N818 - becomes a `UsageError` once its line is known
    """A mistake in a file, and the keys that lead to it."""

    def __init__(self, text: str, *at: Key, hint: str = "", lacks: str = "") -> None:
        """`lacks`: the key that the table at these keys must have, and has not."""
        super().__init__(text)
        self.at = at
        self.hint = hint
        self.lacks = lacks

    def placed(self, source: str, where: str, hint: str) -> UsageError:
        """The error for the user, with the line in `source`.

        Args:
            source: The text of the file.
            where: The beginning of the error, such as the file's path.
            hint: The hint of a mistake without one of its own.
        """
        line = line_of(source, self.at)
        return UsageError(f"{where}{f', line {line}' if line else ''}: {self}", self.hint or hint)


def loads(text: str) -> dict[str, Any]:
    """The tables of a text, its dates as texts, so that all of it can be passed on as JSON.

    Raises `ValueError`. The text may be a stranger's, so the time is bounded by its size: tomllib's
    time grows with the square of the dots in a key, and with the dots of a table's name for each
    key in it.
    """
    if work(text) > _MOST_WORK:
        raise ValueError("it has too many dots to be read: keys and names of tables are short")
    import tomllib  # a start without files of TOML does without it

    try:
        tables = tomllib.loads(text)
        # tomllib takes integers of more digits than Python writes; those fail here.
        msgspec.json.encode(tables)
        plain: dict[str, Any] = msgspec.to_builtins(tables)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    return plain


def read(text: bytes, where: str, hint: str) -> tuple[str, dict[str, Any]]:
    """The text and the tables of a file. Raises `UsageError` with the line that is no TOML.

    Args:
        where: The beginning of the error, such as the file's path.
        hint: How to mend it.
    """
    try:
        source = text.decode("utf-8-sig")
        return source, loads(source)
    except UnicodeDecodeError:
        raise UsageError(f"{where}: it is no text in UTF-8", hint) from None
    except ValueError as error:
        why = str(error)
        if at := _AT_LINE.search(why):
            last = source.rstrip("\n").count("\n") + 1
            where, why = f"{where}, line {at[1] or last}", why[: at.start()]
        raise UsageError(f"{where}: {why}", hint) from None


def work(text: str) -> int:
    """How many steps the parser may need for the dots in a text."""
    dots = [line.count(".") for line in text.split("\n")]
    return sum(number * number for number in dots) + max(dots) * len(dots)


def convert(tables: dict[str, Any], struct: type[_Struct], noun: str) -> _Struct:
    """The tables as a struct. Raises `Mistake`; `noun` names the kind of file: `a manifest`."""
    try:
        return msgspec.convert(tables, struct)
    except msgspec.ValidationError as error:
        raise _mistake(tables, struct, noun) or Mistake(str(error)) from None


def among(value: str | None, choices: Iterable[str], *at: str) -> None:
    """Raises `Mistake` for a value that is not among the choices; None is no value."""
    if value is not None and value not in choices:
        *others, last = choices
        listed = f"{', '.join(others)} or {last}" if others else last
        raise Mistake(f"`{at[-1]}` cannot be `{value}`", *at, hint=f"it is {listed}")


def line_of(source: str, at: tuple[Key, ...]) -> int:
    """The line of a key, or of the nearest table around it; 0 if there is none."""
    found = lines(source) if at else {}
    while at:
        for keys, line in found.items():
            if keys[: len(at)] == at:
                return line
        at = at[:-1]
    return 0


def _known(value: Any, at: Iterable[Key]) -> tuple[Key, ...]:
    """The keys that exist in nested tables and lists, each within the one before."""
    known: list[Key] = []
    for key in at:
        members = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(members, dict) and key in members:  # else pydantic names a union's member
            value = members[key]
            known.append(key)
    return tuple(known)


# -- where it stands -------------------------------------------------------------------------------

_TOKEN: Final = lazy_pattern(
    r"""
      (?P<blank>[ \t\r]+|\#[^\n]*)
    | (?P<newline>\n)
    | (?P<text>\"{3}(?:[^\\]|\\.)*?\"{3,5} | '{3}.*?'{3,5} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*')
    | (?P<mark>[\[\]{},=])
    | (?P<word>[^\s\[\]{},="'\#]+)
    """,
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    line: int


def lines(source: str) -> dict[tuple[Key, ...], int]:
    """The lines of tables, keys and members of lists, from 1, by the keys that lead to them, in one
    pass over a text.

    Args:
        source: A text that tomllib has read without an error.
    """
    found: dict[tuple[Key, ...], int] = {}
    counts: dict[tuple[Key, ...], int] = {}
    table: tuple[Key, ...] = ()
    tokens = _tokens(source)
    for token in tokens:
        if token.text == "[" and token.kind == "mark":
            table = _header(source, token, tokens, counts)
            found.setdefault(table, token.line)
        elif token.kind in ("word", "text"):
            end = next(mark.start for mark in tokens if mark.text == "=")
            key = _key(source[token.start : end])
            for depth in range(1, len(key) + 1):
                found.setdefault((*table, *key[:depth]), token.line)
            _value(tokens, (*table, *key), found)
    return found


def _tokens(source: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(source):
        kind = str(match.lastgroup)
        if kind != "blank":
            yield _Token(kind, match[0], match.start(), line)
        line += match[0].count("\n")


def _header(
    source: str, first: _Token, tokens: Iterator[_Token], counts: dict[tuple[Key, ...], int]
) -> tuple[Key, ...]:
    """The table that a header names; `counts` holds how many each list of tables has so far."""
    import tomllib

    end = next((token.start for token in tokens if token.kind == "newline"), len(source))
    text = source[first.start : end].rstrip()
    keys = _leading(tomllib.loads(text))
    path: tuple[Key, ...] = ()
    for depth, key in enumerate(keys, 1):
        path = (*path, key)
        if depth == len(keys) and text.startswith("[["):
            counts[path] = counts.get(path, 0) + 1
        if path in counts:
            path = (*path, counts[path] - 1)
    return path


def _key(text: str) -> tuple[Key, ...]:
    """The parts of a key with dots."""
    import tomllib

    return tuple(_leading(tomllib.loads(f"{text} = {{}}")))


def _leading(node: Any) -> list[str]:
    """The keys of nested tables that have one key each."""
    keys: list[str] = []
    while isinstance(node, dict) and node:
        key, node = next(iter(node.items()))
        node = node[0] if isinstance(node, list) else node
        keys.append(key)
    return keys


def _value(
    tokens: Iterator[_Token], path: tuple[Key, ...], found: dict[tuple[Key, ...], int]
) -> None:
    """Reads a value to the end of its line; records the members of lists in it."""
    inside: list[int | None] = []  # the index in each list around; None for a table
    for token in tokens:
        if token.kind == "newline":
            if not inside:
                return
            continue
        closes = token.kind == "mark" and token.text in "]}"
        if not closes and token.text != "," and inside and None not in inside:
            found.setdefault((*path, *(at for at in inside if at is not None)), token.line)
        if closes:
            inside.pop()
        elif token.text == "," and inside[-1] is not None:
            inside[-1] += 1
        elif token.kind == "mark" and token.text in "[{":
            inside.append(0 if token.text == "[" else None)


# -- once msgspec has refused a file ---------------------------------------------------------------


def _mistake(tables: dict[str, Any], struct: type[msgspec.Struct], noun: str) -> Mistake | None:
    """The first mistake that pydantic finds in the tables; None if it takes them."""
    import pydantic

    try:
        _model(struct).model_validate(tables)
    except pydantic.ValidationError as refused:
        errors = refused.errors(include_url=False, include_context=False, include_input=False)
        # A value that fits no member of a union has an error for each member. The deepest error is
        # about the member that was meant.
        at, error = max(
            ((_known(tables, error["loc"]), error) for error in errors), key=lambda it: len(it[0])
        )
    else:
        return None
    kind, text = error["type"], error["msg"]
    if kind == "missing":
        missing = str(error["loc"][-1])
        is_list = origin(_members(_described(struct, at)).get(missing)) is list
        hint = f"add `{missing} = {_A_LIST if is_list else _A_TEXT}`"
        return Mistake(f"`{missing}` is missing", *at, hint=hint, lacks=missing)
    if kind == "extra_forbidden":
        table = f"[{'.'.join(key for key in at[:-1] if isinstance(key, str))}]" if at[1:] else noun
        described = _described(struct, at[:-1])
        keys = sorted(described.__struct_encode_fields__) if described else ()
        hint = did_you_mean(str(at[-1]), keys, f"keys are: {', '.join(keys)}")
        return Mistake(f"{table} has no key `{at[-1]}`", *at, hint=hint)
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        text = "Input should be a table"
    if kind == "string_pattern_mismatch":
        # The one pattern that there is: of digests.
        text = "Input should be a SHA-256 digest: 64 digits from 0 to 9 and a to f"
    key = ".".join(str(key) for key in at if isinstance(key, str))
    subject = f"`{key}`" if key else noun
    about = " " if text.startswith("Input ") else ": "
    text = text.removeprefix("Input ")
    return Mistake(f"{subject}{about}{text[:1].lower()}{text[1:]}", *at)


def _members(kind: type[msgspec.Struct] | None) -> dict[str, Any]:
    """The types of a struct's keys."""
    fields = msgspec.structs.fields(kind) if kind is not None else ()
    return {field.encode_name: field.type for field in fields}


def _described(kind: Any, at: tuple[Key, ...]) -> type[msgspec.Struct] | None:
    """The struct that describes the table at these keys."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not at:
            return kind
        return _described(_members(kind).get(str(at[0])), at[1:])
    if origin(kind) in (Union, types.UnionType):
        members_of_union = (_described(member, at) for member in arguments(kind))
        return next(filter(None, members_of_union), None)
    return _described(arguments(kind)[-1], at[1:]) if at and arguments(kind) else None


def _model(struct: type[msgspec.Struct]) -> type[pydantic.BaseModel]:
    """The pydantic model of a struct: the same keys, and strict."""
    import pydantic

    members: dict[str, Any] = {
        field.encode_name: (_annotation(field.type), ... if field.required else None)
        for field in msgspec.structs.fields(struct)
    }
    config = pydantic.ConfigDict(extra="forbid", strict=True)
    return pydantic.create_model(struct.__name__, __config__=config, **members)


def _annotation(kind: Any) -> Any:
    """A type as pydantic reads it: with models for structs, and `Field` for `msgspec.Meta`."""
    import pydantic

    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _model(kind)
    if origin(kind) is Annotated:
        inner, *metas = arguments(kind)
        fields = [pydantic.Field(pattern=m.pattern) for m in metas if isinstance(m, msgspec.Meta)]
        return Annotated[(_annotation(inner), *fields)]
    if origin(kind) in (Union, types.UnionType):
        return Union[tuple(_annotation(member) for member in arguments(kind))]  # noqa: UP007
    if origin(kind) in (list, dict):
        return origin(kind)[tuple(_annotation(member) for member in arguments(kind))]
    return kind
