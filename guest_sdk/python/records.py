"""JSON objects whose members are attributes too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import checked


def camel(name: str) -> str:
    """`sessionId` for `session_id`; `_meta` is as it is."""
    if name[:1] == "_":
        return name
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def find(held: dict[str, Any], name: str) -> str | None:
    """The key of `held` an attribute stands for: as it is, or in camel case."""
    if name in held:
        return name
    other = camel(name)
    return other if other in held else None


class Record:
    """A JSON object whose members are attributes too; `raw` is the dictionary itself.

    It has no other methods than `get`, so that they hide no members: `record.items` is a member.
    A value without a JSON form cannot be assigned (`TypeError`).
    """

    __slots__ = ("raw",)
    raw: dict[str, Any]

    def __init__(self, raw: dict[str, Any]) -> None:
        object.__setattr__(self, "raw", raw)

    def __getattr__(self, name: str) -> Any:
        key = find(self.raw, name)
        if key is None:
            raise AttributeError(missing(name, self.raw))
        return view(self.raw[key])

    def __setattr__(self, name: str, value: Any) -> None:
        self.raw[find(self.raw, name) or camel(name)] = checked.member(name, plain(value))

    def __getitem__(self, key: str) -> Any:
        return view(self.raw[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self.raw[key] = checked.member(key, plain(value))

    def __delitem__(self, key: str) -> None:
        del self.raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __contains__(self, key: object) -> bool:
        return key in self.raw

    def __eq__(self, other: object) -> bool:
        return self.raw == (other.raw if isinstance(other, Record) else other)

    __hash__ = None  # type: ignore[assignment]

    def get(self, key: str, default: Any = None) -> Any:
        """A member, or `default`."""
        return view(self.raw[key]) if key in self.raw else default

    def __repr__(self) -> str:
        return f"Record({self.raw!r})"


def view(value: Any) -> Any:
    """A `Record` over an object; everything else as it is."""
    return Record(value) if isinstance(value, dict) else value


def plain(value: Any) -> Any:
    """The JSON of a value: a record's dictionary; everything else as it is."""
    return value.raw if isinstance(value, Record) else value


def missing(name: str, held: dict[str, Any]) -> str:
    """The words about an attribute that is not there."""
    names = ", ".join(map(repr, held)) or "nothing"
    spelt = camel(name)
    other = f" (nor `{spelt}`)" if spelt != name else ""
    return f"there is no `{name}`{other} here; there is: {names}"
