"""TOML files that people write: read in bounded time, held to a msgspec struct, errors with a line.

The struct is the one declaration of a kind of file, and msgspec reads every file with it: manifests
and locks are read while an editor waits. pydantic takes longer to import than all of that, so it is
loaded only for a file that msgspec refuses. It then checks a model derived from the same struct,
because it names the exact place of a mistake; msgspec says `[...]` for every key of a table.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, Union
from typing import get_args as arguments
from typing import get_origin as origin

import msgspec

from conductor.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import pydantic

Key: TypeAlias = str | int
"""A key of a table, or an index of a list."""

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

_MOST_WORK: Final = 4_000_000
"""Steps the parser may need for keys with dots; a second or two."""

_MOST_READ: Final = 1024 * 1024
"""Characters that `line_of` reads again, in all."""


class Mistake(Exception):  # noqa: N818 - becomes a `UsageError` once its line is known
    """A mistake in a file, and the keys that lead to it."""

    def __init__(self, text: str, *at: Key, hint: str = "") -> None:
        super().__init__(text)
        self.at = at
        self.hint = hint

    def placed(self, source: str, where: str, hint: str) -> UsageError:
        """The error for the user, with the line in `source`.

        Args:
            source: The text of the file.
            where: What the error begins with, such as the file's path.
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
    """Raises `Mistake` for a value that is none of the choices; None is no value."""
    if value is not None and value not in choices:
        *others, last = choices
        listed = f"{', '.join(others)} or {last}" if others else last
        raise Mistake(f"`{at[-1]}` cannot be `{value}`", *at, hint=f"it is {listed}")


def line_of(source: str, at: tuple[Key, ...]) -> int:
    """The line of a key, or of the nearest table around it; 0 if there is none, or it would take
    too long to find.

    tomllib reports no lines. But a value begins behind the longest beginning of the text that is
    whole TOML and lacks the key; bisecting finds that in a few readings.
    """
    lines = source.splitlines(keepends=True)
    left = _MOST_READ
    while at:
        start, low, high = 0, 0, len(lines) + 1
        while high - low > 1:
            number = middle = (low + high) // 2
            has_key = None
            while has_key is None and number > low:
                beginning = "".join(lines[:number])
                left -= 2 * len(beginning)  # `_has_key` may read it twice
                if left < 0:
                    return 0
                has_key = _has_key(beginning, at)
                number -= 1
            if has_key:
                high = number + 1
            else:
                low, start = middle, number + 1 if has_key is False else start
        if start < len(lines):
            return start + 1
        at = at[:-1]
    return 0


def _has_key(text: str, at: tuple[Key, ...]) -> bool | None:
    """Whether a text has a key; None if it ends in the middle of a value, but for a list."""
    import tomllib

    for end in ("", "]"):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            return len(_known(tomllib.loads(text + end), at)) == len(at)
    return None


def _known(value: Any, at: Iterable[Key]) -> tuple[Key, ...]:
    """Those of the keys that exist in nested tables and lists, each within the one before."""
    known: list[Key] = []
    for key in at:
        members = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(members, dict) and key in members:  # else pydantic names a union's member
            value = members[key]
            known.append(key)
    return tuple(known)


# -- once msgspec has refused a file ---------------------------------------------------------------


def _mistake(tables: dict[str, Any], struct: type[msgspec.Struct], noun: str) -> Mistake | None:
    """What pydantic has against the tables; None if it takes them."""
    import pydantic

    try:
        _model(struct).model_validate(tables)
    except pydantic.ValidationError as refused:
        errors = refused.errors(include_url=False, include_context=False, include_input=False)
        # A value that fits no member of a union has an error for each: the deepest one is about the
        # member that was meant.
        at, error = max(
            ((_known(tables, error["loc"]), error) for error in errors), key=lambda it: len(it[0])
        )
    else:
        return None
    kind, text = error["type"], error["msg"]
    if kind == "missing":
        missing = str(error["loc"][-1])
        return Mistake(f"`{missing}` is missing", *at, hint=f'add `{missing} = "…"`')
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
    about = " " if text.startswith("Input ") else ": "
    text = text.removeprefix("Input ")
    return Mistake(f"`{key}`{about}{text[:1].lower()}{text[1:]}", *at)


def _described(kind: Any, at: tuple[Key, ...]) -> type[msgspec.Struct] | None:
    """The struct that describes the table at these keys."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not at:
            return kind
        members = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        return _described(members.get(str(at[0])), at[1:])
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
