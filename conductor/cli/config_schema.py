"""The JSON Schema of `conductor.toml`, for editors: `conductor config schema`.

It is made of the readers of the file: the structs, the table of options, and the table of the
options of a component. docs/conductor.schema.json is a copy.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any, Final

import msgspec

from conductor.cli import pages
from conductor.core.policy import words
from conductor.spec import component_options, limits, option_layers
from conductor.spec.config import model
from conductor.spec.option_table import NUMBER, OPTIONAL_SIZE, SECONDS, SERVE, SIZE, Option
from conductor.spec.programs import NAME_RULE
from conductor.spec.syntax import ComponentObject

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_ANY: Final = ["string", "number", "boolean", "array"]
_NAME: Final = {"pattern": r"^[A-Za-z0-9._@+-]{1,64}$", "description": f"A name is {NAME_RULE}."}


def schema() -> dict[str, Any]:
    """The schema, as plain values."""
    made = msgspec.json.schema(model.ConfigFile)
    defs = {name: _table(name, table) for name, table in made["$defs"].items()}
    component = {"$ref": "#/$defs/Component"}
    file = defs.pop("ConfigFile")
    properties = file["properties"]
    properties["options"] |= {"$ref": "#/$defs/Options"}
    properties["serve"] |= _serve()
    properties["components"] |= {"propertyNames": _NAME, "additionalProperties": component}
    properties["chains"] |= {"propertyNames": _NAME}
    chain = defs["Chain"]["properties"]
    chain["options"] |= {"$ref": "#/$defs/Options"}
    chain["components"]["items"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Entry"}]}
    return {
        "$schema": DIALECT,
        **file,
        "title": "conductor.toml",
        "$defs": {**defs, "Options": _options(), "Component": _component(), "Entry": _entry()},
    }


def _entry() -> dict[str, Any]:
    """An entry of a chain: a component, and the projects that it is for."""
    component = _component()
    properties = {
        key: {**held, "$ref": f"#/$defs/Component/properties/{key}"}
        for key, held in _described(component["properties"]).items()
    }
    meaning = "The projects that the entry is for; without it all."
    properties["when"] = {"description": meaning, "$ref": "#/$defs/When"}
    return {**component, "properties": properties}


def _described(properties: dict[str, Any]) -> dict[str, Any]:
    """The descriptions of keys, without the rest."""
    return {
        key: {word: it for word, it in held.items() if word == "description"}
        for key, held in properties.items()
    }


def _table(name: str, table: dict[str, Any]) -> dict[str, Any]:
    """A struct's schema with the meaning of each key. TOML has no null."""
    struct = getattr(model, name)
    meanings = _meanings(struct)
    fields = dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
    properties = {}
    for key, held in table["properties"].items():
        kinds = [kind for kind in held.get("anyOf", []) if kind != {"type": "null"}]
        rest = {word: it for word, it in held.items() if word not in ("anyOf", "default")}
        meaning = meanings.get(fields[key])
        described = {"description": meaning} if meaning else {}
        properties[key] = {**rest, **(kinds[0] if kinds else {}), **described}
    kept = {word: it for word, it in table.items() if word != "title"}
    return {**kept, "properties": properties}


def _meanings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The texts behind the fields of a struct, by field."""
    definition = ast.parse(inspect.getsource(struct)).body[0]
    assert isinstance(definition, ast.ClassDef)
    meanings, field = {}, ""
    for statement in definition.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=field)):
                pass
            case ast.Expr(value=ast.Constant(value=str(text))) if field:
                meanings[field] = " ".join(text.split())
    return meanings


def _options() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Options of `conductor agent`, `proxy`, `exec` and `chat`.",
        "properties": {
            key: {**_kind(row), "description": row.help} for key, row in option_layers.ROWS.items()
        },
        "additionalProperties": False,
    }


def _serve() -> dict[str, Any]:
    rows = (row for row in SERVE if row.key != "days")
    properties = {row.key: {**_served(row), "description": pages.plain(row.help)} for row in rows}
    return {"properties": properties, "additionalProperties": False}


def _served(row: Option) -> dict[str, Any]:
    """The schema of an option of `[serve]`: a list where the option may be repeated."""
    if row.kind.many:
        return {"type": "array", "items": {"type": "string"}}
    return {"type": ["integer", "string"], "minimum": 1} if row.kind is NUMBER else _kind(row)


def _kind(row: Option) -> dict[str, Any]:
    """The schema of an option."""
    if row.kind.read is None:
        return {"type": "boolean"}
    if row.kind in (SIZE, OPTIONAL_SIZE):
        return {"type": ["integer", "string"], "minimum": 1}
    if row.kind is SECONDS:
        return {"type": ["number", "string"], "minimum": 0}
    if row.kind.many:
        kinds = {"type": ["string", "array"], "items": {"type": "string"}}
        return {"type": "object", "additionalProperties": kinds}
    if row.kind.choices:
        return {"enum": [*row.kind.choices]}
    return {"type": "string"}


def _component() -> dict[str, Any]:
    """The schema of a component as a table: its command, and its options."""
    made = msgspec.json.schema(ComponentObject)["$defs"]["ComponentObject"]["properties"]
    meanings = _meanings(ComponentObject)
    properties, patterns = {}, {}
    for key, held in made.items():
        kinds = [kind for kind in held.get("anyOf", [held]) if kind != {"type": "null"}]
        kind = {word: it for word, it in kinds[0].items() if word != "default"}
        properties[key] = {**kind, **({"description": meanings[key]} if key in meanings else {})}
    for option in component_options.OPTIONS:
        value = {**_value(option), "description": pages.plain(option.help)}
        if option.name.endswith(".KEY"):
            patterns[rf"^{option.name.removesuffix('.KEY')}\.\w+$"] = value
        else:
            properties[option.name] = value
    properties["config"]["type"] = ["string", "object"]
    properties["limits"] = {
        "type": "object",
        "description": "Its limits: a number, a size such as `32MiB`, a time such as `500ms`.",
        "properties": {one.name: _limit(one) for one in limits.TABLE},
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "description": "A component: what runs, and its options.",
        "properties": properties,
        "patternProperties": patterns,
        "additionalProperties": False,
    }


def _limit(one: limits.Limit) -> dict[str, Any]:
    default = "" if one.default is None else f" Default: {one.default}."
    return {"type": ["integer", "string"], "description": f"Bounds {one.bounds}.{default}"}


def _value(option: component_options.Option) -> dict[str, Any]:
    """The schema of an option of a component."""
    choices = [*component_options.choices(option)]
    if option.value == "WORDS":
        scoped = {"pattern": f"^({'|'.join(words.ALL_VERBS)}):."}
        word = {"type": "string", "anyOf": [{"enum": choices}, scoped]}
        return {"type": ["string", "array"], "items": word}
    if choices:
        return {"enum": choices}
    return {} if option.name == "config.KEY" else {"type": [*_ANY]}
