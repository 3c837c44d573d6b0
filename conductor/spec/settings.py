"""The settings of a component: from a file and from the command line, held to its manifest; and
its environment.

The file (`config=FILE`, TOML or JSON) may change while the chain runs: a component that starts, or
is reloaded, receives the content of that moment. A setting from the command line wins over the
file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from conductor import children
from conductor.core import json_text
from conductor.errors import UsageError, did_you_mean
from conductor.spec import origins, untrusted_files
from conductor.spec.model import Spec

if TYPE_CHECKING:
    from conductor.spec.manifest.reading import Setting

_MOST: Final = 1024 * 1024
"""Bytes of a file of settings."""

_JSON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def configuration(spec: Spec) -> dict[str, object]:
    """The params of `configure`: the facts that a proxy receives about itself before anything else.

    With the secrets that the settings refer to, but for those of a file: a file may hold anything.
    Raises `UsageError` for settings that cannot be read at this moment.
    """
    config = spec.config
    if config:
        from conductor.spec import secrets

        for key, value in config.items():
            try:
                config = {**config, **secrets.filled({key: value}, spec.name)}
            except UsageError as error:
                raise origins.blamed(error, _set_by(spec, key)) from None
    if spec.config_file is not None:
        try:
            config = {**_read(spec.config_file), **config}
        except UsageError as error:
            raise origins.blamed(error, origins.of(spec).get("config_file")) from None
    return {
        "name": spec.name,
        "config": checked(spec.schema, config, spec.name, lambda key: _set_by(spec, key)),
        "grants": sorted(spec.grants) if spec.grants is not None else None,
        "limits": spec.limits,
    }


def idle(spec: Spec) -> str | None:
    """A sentence with a hint if a component does nothing with its settings; else None."""
    needed = spec.manifest.idle_without if spec.manifest is not None else []
    if not needed:
        return None
    try:
        in_file = _read(spec.config_file) if spec.config_file is not None else {}
    except UsageError:
        return None  # the start of the component reports the error
    if any(key in spec.config or key in in_file for key in needed):
        return None
    names = " or ".join(f"`{key}`" for key in needed)
    return f"it does nothing without the setting {names}: `,config.{needed[0]}=…`"


def environment(spec: Spec, traceparent: str = "") -> dict[str, str]:
    """The environment of a program that starts now, with its secrets.

    Args:
        spec: The program.
        traceparent: Its variable TRACEPARENT, unless the user wrote one; empty: conductor's own.

    Raises:
        UsageError: A secret is not there.
    """
    # The folder of an installed program is compared with its receipt: Python must not write there.
    own = {"PYTHONDONTWRITEBYTECODE": "1"} if spec.receipt is not None else {}
    if traceparent and "TRACEPARENT" not in spec.variables:
        own["TRACEPARENT"] = traceparent
    if spec.secrets:
        from conductor.spec import secrets

        for name, where in spec.secrets.items():
            try:
                own[name] = secrets.read(where, spec.name)
            except UsageError as error:
                raise origins.blamed(error, origins.variable(spec, name)) from None
    return {**(children.inherited() if spec.env is None else spec.env), **own}


def _read(path: str) -> dict[str, Any]:
    return _parsed(path)[1]


def _parsed(path: str) -> tuple[str, dict[str, Any]]:
    """The text of a file of settings, empty for JSON, and the settings."""
    hint = "settings are a TOML table (`key = value` lines), or a JSON object in a `.json` file"
    try:
        text = untrusted_files.read(path, _MOST)
        if path.endswith(".json"):
            from conductor.spec import written_json

            plain = text.decode("utf-8-sig")
            written_json.refuse_doubled(plain)
            return "", json_text.decode(plain, type=dict[str, Any])
        from conductor.spec import toml_files

        return toml_files.read(text, path, hint)
    except untrusted_files.TooLargeError:
        raise UsageError(f"{path}: settings are at most {_MOST:,} bytes", hint) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "check the path behind `config=`") from None
    except ValueError as error:  # of JSON or of UTF-8
        raise UsageError(f"{path}: {error}", hint) from None


def _set_by(spec: Spec, key: str) -> str:
    """Who has set a setting of a component: the line of its file, or its layer."""
    path = spec.config_file
    if path is None or key in spec.config:
        return origins.of(spec).get(f"config.{key}", "")
    from conductor.spec import toml_files

    line = toml_files.line_of(_parsed(path)[0], (key,))
    return f"{path}, line {line}" if line else path


def checked(
    schema: Mapping[str, Setting],
    config: dict[str, Any],
    who: str,
    set_by: Callable[[str], str] = lambda key: "",
) -> dict[str, Any]:
    """The settings, with the defaults of the missing ones.

    `who` names the component; `set_by` says who set a setting. Raises `UsageError` that names both.
    Without a schema every setting is accepted.
    """
    if not schema:
        return config
    for key, value in config.items():
        try:
            _check(schema, key, value, who)
        except UsageError as error:
            raise origins.blamed(error, set_by(key)) from None
    for key, setting in schema.items():
        if setting.required and key not in config:
            what = f": {setting.description}" if setting.description else ""
            raise UsageError(
                f"`{who}` needs the setting `{key}`{what}",
                f"give it as `,config.{key}=VALUE`, or in a file: `,config=FILE`",
            )
    defaults = {key: one.default for key, one in schema.items() if one.default is not None}
    return {**defaults, **config}


def _check(schema: Mapping[str, Setting], key: str, value: object, who: str) -> None:
    setting = schema.get(key)
    if setting is None:
        hint = did_you_mean(key, schema, f"settings are: {', '.join(schema)}")
        raise UsageError(f"`{who}` has no setting `{key}`", hint)
    if not is_a(value, setting.type):
        raise UsageError(
            f"the setting `{key}` of `{who}` must be of type {setting.type}, not {value!r}",
            f"`{key}`: {setting.description}"
            if setting.description
            else "`conductor inspect` lists them",
        )
    if setting.enum and value not in setting.enum:
        choices = ", ".join(repr(choice) for choice in setting.enum)
        known = [choice for choice in setting.enum if isinstance(choice, str)]
        hint = did_you_mean(str(value), known, f"possible values: {choices}")
        raise UsageError(f"the setting `{key}` of `{who}` cannot be {value!r}", hint)


def is_a(value: object, kind: str) -> bool:
    """Whether a JSON value has a type of `Setting.type`."""
    if isinstance(value, bool):  # which is an `int` for Python, and no number in JSON
        return kind in ("boolean", "any")
    return kind == "any" or isinstance(value, _JSON_TYPES[kind])
