"""The settings a user gave, held to what the component's manifest says of them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from conductor.errors import UsageError
from conductor.spec.manifest.values import Setting, is_a


def checked(schema: Mapping[str, Setting], given: dict[str, Any], who: str) -> dict[str, Any]:
    """The settings, with the defaults of those not given.

    `who` names the component. Raises `UsageError` that names the setting. Without a schema nothing
    is known, so everything is taken.
    """
    if not schema:
        return given
    for key, value in given.items():
        _check(schema, key, value, who)
    missing = [key for key, one in schema.items() if one.required and key not in given]
    if missing:
        one = schema[missing[0]]
        what = f": {one.description}" if one.description else ""
        raise UsageError(
            f"`{who}` needs the setting `{missing[0]}`{what}",
            f"give it as `,config.{missing[0]}=VALUE`, or in a file: `,config=FILE`",
        )
    defaults = {key: one.default for key, one in schema.items() if one.default is not None}
    return {**defaults, **given}


def _check(schema: Mapping[str, Setting], key: str, value: object, who: str) -> None:
    one = schema.get(key)
    if one is None:
        close = difflib.get_close_matches(key, schema, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"settings are: {', '.join(schema)}"
        raise UsageError(f"`{who}` has no setting `{key}`", hint)
    hint = f"`{key}`: {one.description}" if one.description else "`conductor inspect` lists them"
    if not is_a(value, one.type):
        raise UsageError(
            f"the setting `{key}` of `{who}` must be of type {one.type}, not {value!r}", hint
        )
    if one.enum and value not in one.enum:
        listed = ", ".join(repr(each) for each in one.enum)
        raise UsageError(
            f"the setting `{key}` of `{who}` cannot be {value!r}", f"possible values: {listed}"
        )
