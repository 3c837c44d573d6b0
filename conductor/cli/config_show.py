"""`conductor config show`: the configuration here, each value with its place."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from conductor.cli import report
from conductor.core import json_text
from conductor.spec import layering, managed, option_layers, secrets, syntax
from conductor.spec.config.layers import State
from conductor.spec.option_table import FILE, FOLDER, OPTIONAL_FILE
from conductor.spec.redaction import redacted

if TYPE_CHECKING:
    from conductor.spec.config.model import NamedChain, When, Written, WrittenOption

_STATES: Final = {
    State.READ.value: "",
    State.UNTRUSTED.value: " (ignored: not trusted)",
    State.ABSENT.value: " (absent)",
}

Shown: TypeAlias = "dict[str, Any]"
"""The configuration, as JSON."""


def show(values: Mapping[str, Any], *, origins: bool, as_json: bool) -> int:
    """Prints the configuration; `values` are the options of the command line.
    Raises `UsageError` for broken files."""
    found = _found(values)
    if as_json:
        report.say_json(found)
    else:
        report.say(*_lines(found, origins=origins))
    return 0


def page() -> list[str]:
    """The lines that people see, each value with where it is written. Raises `UsageError`."""
    return [*_lines(_found({}), origins=True)]


def _found(values: Mapping[str, Any]) -> Shown:
    """The configuration that the managed policy, files and variables make together."""
    layers, config, spoken = layering.loaded(values)
    variables, complaints = option_layers.from_environment(values)
    for complaint in complaints:
        report.write(complaint, word="warning")
    layers_of_options = (config.options, variables, spoken)
    settings = option_layers.laid(layers_of_options)
    policy = managed.written()
    rules = policy.rows() if policy is not None else ()
    return {
        "folder": config.folder,
        "files": [
            {"kind": layer.kind.value, "path": layer.path, "state": layer.state.value}
            for layer in layers
        ],
        "options": _options(
            {name.replace("_", "-"): one.written for name, one in settings.items()}
        ),
        "components": {name: _written(one) for name, one in config.components.items()},
        "chains": {name: _chain(chain) for name, chain in config.chains.items()},
        "choices": [
            {"use": one.choice.use, "when": _when(one.choice.when), "origin": one.origin}
            for one in config.choose
        ],
        "serve": {
            key: {"value": option.value, "origin": option.origin}
            for key, option in config.serve.items()
        },
        "indexes": [*config.indexes],
        "managed": {
            key: {"value": json_text.decode(value), "origin": origin}
            for key, value, origin in rules
        },
    }


def _options(options: Mapping[str, WrittenOption]) -> Shown:
    return {
        key: {"value": shown_option(key, option), "origin": option.origin}
        for key, option in options.items()
    }


def _written(written: Written) -> Shown:
    when = {"when": _when(written.when)} if written.when is not None else {}
    keys = {"origins": dict(written.origins)} if written.origins else {}
    return {
        "value": shown(written.what),
        **when,
        "here": written.here,
        "origin": written.origin,
        **keys,
    }


def _chain(chain: NamedChain) -> Shown:
    return {
        "components": [_written(one) for one in chain.components],
        "options": _options(chain.options),
        "origin": chain.origin,
    }


def _when(when: When) -> dict[str, str]:
    named = {key: getattr(when, key) for key in when.__struct_fields__}
    return {key: value for key, value in named.items() if value is not None}


# -- for people ------------------------------------------------------------------------------------


def _lines(found: Shown, *, origins: bool) -> Iterator[str]:
    """The same for people; the managed policy stands above everything else."""

    def entry(text: str, one: Shown) -> str:
        return f"  {text}  ({one['origin']})" if origins and one["origin"] else f"  {text}"

    def named(heading: str, values: Shown) -> Iterator[str]:
        if values:
            yield heading
        for key, one in values.items():
            yield entry(f"{key} = {_json(one['value'])}", one)

    watches = found["managed"].get("enforce", {}).get("value") == "watch"
    heading = "managed policy, which only watches:" if watches else "managed policy:"
    yield from named(heading, found["managed"])
    yield "files:" if found["files"] else "files: none are read"
    for file in found["files"]:
        if file["path"]:
            yield f"  {file['kind']}: {file['path']}{_STATES[file['state']]}"
    yield from named("options:", found["options"])
    yield from named("components:", found["components"])
    if found["chains"]:
        yield "chains:"
    for name, chain in found["chains"].items():
        yield entry(f"{name}:", chain)
        for one in chain["components"]:
            when = f" when {_json(one['when'])}" if one.get("when") else ""
            yield "  " + entry(_json(one["value"]) + when, one)
        for key, one in chain["options"].items():
            yield "  " + entry(f"option {key} = {_json(one['value'])}", one)
    if found["choices"]:
        yield "choices:"
    for one in found["choices"]:
        yield entry(f"{one['use']} when {_json(one['when'])}", one)
    yield from named("serve:", found["serve"])
    if found["indexes"]:
        yield "catalogues:"
    for where in found["indexes"]:
        yield f"  {where}"


def _json(value: Any) -> str:
    return json_text.encode(value).decode()


# -- secrets ---------------------------------------------------------------------------------------


def shown_option(key: str, option: WrittenOption) -> Any:
    """The value of an option: paths absolute, as they are used."""
    value = option_layers.value(key, option)
    row = option_layers.ROWS[key]
    if row.kind in (FILE, FOLDER) or (row.kind is OPTIONAL_FILE and value != "none"):
        return os.path.abspath(value)
    return value if isinstance(value, bool) else option.value


def shown(what: str | Mapping[str, Any] | list[str]) -> Any:
    """A component as it is written, without texts that look like a secret."""
    if isinstance(what, str):
        return _shown_text(what)
    if isinstance(what, list):
        return _clean({"args": what})["args"]
    return _clean(what)


def _shown_text(text: str) -> str:
    """A component as on a command line; the whole is shown only if no part of it is a secret."""
    if text.lstrip().startswith("{"):
        return _json(_clean(_read(text)))
    base, options = syntax.split(text)
    try:
        words = shlex.split(base)
    except ValueError:  # its quotes do not match
        words = base.split()
    cleaned = _clean({"args": words})["args"]
    clean_options = [(key, _clean({key.split(".")[-1]: it})) for key, it in options]
    kept = all(
        it == next(iter(new.values()))
        for (_, it), (_, new) in zip(options, clean_options, strict=True)
    )
    if cleaned == words and kept:
        return text
    behind = "".join(f",{key}={next(iter(new.values()))}" for key, new in clean_options)
    return shlex.join(cleaned) + behind


def _read(text: str) -> Any:
    try:
        return json_text.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return "…"  # no component: its content is unknown


def _clean(value: Any) -> Any:
    """A value without texts that look like a secret. A reference to a secret stays."""
    return secrets.kept(json_text.decode(redacted(json_text.encode(value))), value)
