"""The schema of ACP (`acp_schema/README.md`), as tests walk it."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

VERSIONS: Final = (1, 2)
_DEEPEST: Final = 12
_META: Final = "_meta"


@cache
def definitions(version: int) -> Json:
    """The types of a version, by name."""
    path = Path(__file__).parent / "acp_schema" / f"v{version}.json"
    held: Json = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    return held


def methods(version: int) -> dict[tuple[str, str], dict[str, str]]:
    """The types of each method and its receiving side, by their kinds."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for name, held in definitions(version).items():
        if "x-method" in held:
            what = next(
                end for end in ("Request", "Response", "Notification") if name.endswith(end)
            )
            found.setdefault((held["x-method"], held["x-side"]), {})[what] = name
    return found


def variants(version: int, name: str, tag: str) -> dict[str, Json]:
    """The types of a union, by the value of the member that tells them apart."""
    held = definitions(version)[name]
    found = {}
    for one in [*held.get("oneOf", ()), *held.get("anyOf", ())]:
        const = one.get("properties", {}).get(tag, {}).get("const")
        if const is not None:
            found[const] = one
    return found


class Samples:
    """Values of the types of one version, with every member that the type has."""

    def __init__(self, version: int) -> None:
        self._definitions = definitions(version)

    def of(self, schema: Json | str, within: tuple[str, ...] = ()) -> list[Any]:
        """Values that together have every member, and every variant of each."""
        if isinstance(schema, str):
            schema = {"$ref": f"#/$defs/{schema}"}
        if not isinstance(schema, dict):
            return ["x"]
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/")
            if name in within or len(within) > _DEEPEST:
                return []
            rest = {key: held for key, held in schema.items() if key != "$ref"}
            found = self.of(self._definitions[name], (*within, name))
            more = self.of(rest, within) if rest.keys() & {"properties", "anyOf", "oneOf"} else []
            return [{**one, **two} for one in found for two in more] if more else found
        return self._composed(schema, within)

    def _composed(self, schema: Json, within: tuple[str, ...]) -> list[Any]:
        several = [one for name in ("oneOf", "anyOf") for one in schema.get(name, ())]
        several = [one for one in several if isinstance(one, dict) and one.get("type") != "null"]
        alone = self._object(schema, within) if "properties" in schema else None
        parts = [self.of(one, within) for one in schema.get("allOf", ())]
        if several:
            found = [value for one in several for value in self.of(one, within)]
            if alone:
                found = [_joined(one, value) for value in found for one in alone[:1]]
                found += [_joined(one, found[0]) for one in alone[1:]]
            return found
        for part in parts:
            alone = part if alone is None else [_joined(x, y) for x in alone for y in part]
        return self._plain(schema, within) if alone is None else alone

    def _object(self, schema: Json, within: tuple[str, ...]) -> list[Any]:
        """An object with the first value of each member, and a further object for each other
        value."""
        values = {
            name: self.of(held, within)
            for name, held in schema["properties"].items()
            if name != _META
        }
        first = {name: held[0] for name, held in values.items() if held}
        more = [{**first, name: one} for name, held in values.items() for one in held[1:]]
        return [first, *more]

    def _plain(self, schema: Json, within: tuple[str, ...]) -> list[Any]:
        if "const" in schema:
            return [schema["const"]]
        if "enum" in schema:
            return [schema["enum"][0]]
        kind = schema.get("type", "string")
        kind = next(one for one in kind if one != "null") if isinstance(kind, list) else kind
        if kind == "array":
            return [[one] for one in self.of(schema.get("items", {}), within)] or [[]]
        by_kind: dict[str, Any] = {"boolean": True, "integer": 1, "number": 1, "object": {}}
        return [copy.deepcopy(by_kind.get(kind, "x"))]


def _joined(one: Any, other: Any) -> Any:
    return {**one, **other} if isinstance(one, dict) and isinstance(other, dict) else other


def changed(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A value with one thing in it changed, and where that is; entries of lists have no number."""
    if isinstance(value, dict):
        for name, held in value.items():
            yield (*at, name), {key: one for key, one in value.items() if key != name}
            for where, one in changed(held, (*at, name)):
                yield where, {**value, name: one}
    elif isinstance(value, list):
        for number, held in enumerate(value):
            for where, one in changed(held, at):
                yield where, [*value[:number], one, *value[number + 1 :]]
        yield at, [*value, "another"]
    elif isinstance(value, bool):
        yield at, not value
    elif isinstance(value, int):
        yield at, value + 1
    else:
        yield at, f"{value}-other"


def members(version: int) -> Iterator[tuple[str, str, Json]]:
    """Every member of every type: the type, its name, and its schema."""

    def walk(name: str, held: Any) -> Iterator[tuple[str, str, Json]]:
        if isinstance(held, list):
            for one in held:
                yield from walk(name, one)
        elif isinstance(held, dict):
            for member, what in (held.get("properties") or {}).items():
                if isinstance(what, dict):
                    yield name, member, what
            for one in held.values():
                yield from walk(name, one)

    for name, held in definitions(version).items():
        yield from walk(name, held)


def refers(what: Json, to: str) -> bool:
    """Whether a member holds a type, alone, in a list, or null."""
    return f'"#/$defs/{to}"' in json.dumps(what)
