"""`conductor config show`: what is configured here, each value with where it is written."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.cli import configured, report
from conductor.cli.options import FILE, FOLDER, OPTIONAL_FILE
from conductor.core import json_text
from conductor.record.redaction import redacted
from conductor.spec import managed, secrets, syntax
from conductor.spec.config.layers import State

if TYPE_CHECKING:
    from conductor.spec.config.layers import Layer
    from conductor.spec.config.model import Config, NamedChain, When, Written, WrittenOption

_STATES: Final = {
    State.READ: "",
    State.UNTRUSTED: " (ignored: not trusted)",
    State.ABSENT: " (absent)",
}


def show(values: Mapping[str, Any], *, origins: bool, as_json: bool) -> int:
    """Shows it; `values` are those of the command line. Raises `UsageError` for broken files."""
    layers, config, options, rules = _loaded(values)
    if as_json:
        report.say_json(_plain(layers, config, options) | {"managed": _plain_rules(rules)})
    else:
        lines = _lines(layers, config, options, origins=origins)
        report.say(*_rules(rules, origins=origins), *lines)
    return 0


def page() -> list[str]:
    """The lines that people see, each value with where it is written. Raises `UsageError`."""
    layers, config, options, rules = _loaded({})
    return [*_rules(rules, origins=True), *_lines(layers, config, options, origins=True)]


def _loaded(
    values: Mapping[str, Any],
) -> tuple[list[Layer], Config, dict[str, WrittenOption], list[tuple[str, str, str]]]:
    """The files, what they and variables say together, and the managed policy."""
    layers, config, spoken = configured.loaded(values)
    variables, complaints = configured.from_environment(values)
    options = {**config.options, **variables, **spoken}
    for complaint in complaints:
        report.write(complaint, word="warning")
    for chain in config.chains.values():
        _refuse_impossible(chain.options)
    _refuse_impossible(options)
    policy = managed.policy()
    return layers, config, options, list(policy.rows()) if policy is not None else []


def _refuse_impossible(options: Mapping[str, WrittenOption]) -> None:
    for key, written in options.items():
        configured.value(key, written)


# -- for people ------------------------------------------------------------------------------------


def _rules(rules: Sequence[tuple[str, str, str]], *, origins: bool) -> Iterator[str]:
    """The managed policy, which stands above everything else."""
    if rules:
        yield "managed policy:"
    for key, value, origin in rules:
        yield f"  {key} = {value}" + (f"  ({origin})" if origins else "")


def _lines(
    layers: Sequence[Layer], config: Config, options: Mapping[str, WrittenOption], *, origins: bool
) -> Iterator[str]:
    def entry(text: str, origin: str) -> str:
        return f"  {text}  ({origin})" if origins and origin else f"  {text}"

    yield "files:" if layers else "files: none are read"
    for layer in layers:
        if layer.path:
            yield f"  {layer.kind.value}: {layer.path}{_STATES[layer.state]}"
    if options:
        yield "options:"
        for key, option in options.items():
            yield entry(f"{key} = {_json(shown_option(key, option))}", option.origin)
    if config.components:
        yield "components:"
        for name, component in config.components.items():
            yield entry(f"{name} = {_json(shown(component.what))}", component.origin)
    if config.chains:
        yield "chains:"
        for name, chain in config.chains.items():
            yield entry(f"{name}:", chain.origin)
            for component in chain.components:
                when = f" when {_json(_when(component.when))}" if component.when else ""
                yield "  " + entry(_json(shown(component.what)) + when, component.origin)
            for key, option in chain.options.items():
                text = f"option {key} = {_json(shown_option(key, option))}"
                yield "  " + entry(text, option.origin)
    if config.choose:
        yield "choices:"
        for choice in config.choose:
            when = _json(_when(choice.choice.when))
            yield entry(f"{choice.choice.use} when {when}", choice.origin)
    if config.serve:
        yield "serve:"
        for key, option in config.serve.items():
            yield entry(f"{key} = {_json(option.value)}", option.origin)
    if config.indexes:
        yield "catalogues:"
        for where in config.indexes:
            yield f"  {where}"


def _json(value: Any) -> str:
    return json_text.encode(value).decode()


# -- for programs ----------------------------------------------------------------------------------


def _plain(
    layers: Iterable[Layer], config: Config, options: Mapping[str, WrittenOption]
) -> dict[str, Any]:
    return {
        "folder": config.folder,
        "files": [
            {"kind": layer.kind.value, "path": layer.path, "state": layer.state.value}
            for layer in layers
        ],
        "options": _plain_options(options),
        "components": {name: _plain_written(one) for name, one in config.components.items()},
        "chains": {name: _plain_chain(chain) for name, chain in config.chains.items()},
        "choices": [
            {"use": one.choice.use, "when": _when(one.choice.when), "origin": one.origin}
            for one in config.choose
        ],
        "serve": {
            key: {"value": option.value, "origin": option.origin}
            for key, option in config.serve.items()
        },
        "indexes": config.indexes,
    }


def _plain_rules(rules: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    return {
        key: {"value": msgspec.Raw(value.encode()), "origin": origin}
        for key, value, origin in rules
    }


def _plain_options(options: Mapping[str, WrittenOption]) -> dict[str, Any]:
    return {
        key: {"value": shown_option(key, option), "origin": option.origin}
        for key, option in options.items()
    }


def _plain_written(written: Written) -> dict[str, Any]:
    when = {"when": _when(written.when)} if written.when is not None else {}
    return {"value": shown(written.what), **when, "here": written.here, "origin": written.origin}


def _plain_chain(chain: NamedChain) -> dict[str, Any]:
    return {
        "components": [_plain_written(one) for one in chain.components],
        "options": _plain_options(chain.options),
        "origin": chain.origin,
    }


def _when(when: When) -> dict[str, str]:
    named = {key: getattr(when, key) for key in when.__struct_fields__}
    return {key: value for key, value in named.items() if value is not None}


# -- secrets ---------------------------------------------------------------------------------------


def shown_option(key: str, option: WrittenOption) -> Any:
    """What an option is set to: paths absolute, as they are used."""
    value = configured.value(key, option)
    row = configured.ROWS[key]
    if row.kind in (FILE, FOLDER) or (row.kind is OPTIONAL_FILE and value != "none"):
        return os.path.abspath(value)
    return value if isinstance(value, bool) else option.value


def shown(what: str | Mapping[str, Any] | list[str]) -> Any:
    """A component as it is written, without what looks like a secret."""
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
        return "…"  # no component: what it holds is unknown


def _clean(value: Any) -> Any:
    """A value without what looks like a secret. A reference to a secret is none."""
    return secrets.kept(json_text.decode(redacted(json_text.encode(value))), value)
