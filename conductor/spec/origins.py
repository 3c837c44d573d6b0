"""Who set each right, limit and setting of a component.

A component is made in layers, lowest first: the defaults of its kind, its manifest, each option
behind it, the user's consent, the managed policy. To find who set a value, the search goes down the
layers as long as the value stays the same. The start path loads this module, and calls nothing in
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from conductor.core.component import LIMITS
from conductor.core.policy import words
from conductor.errors import UsageError, one_line, visible_path
from conductor.spec.model import Spec

DEFAULT: Final = "default"
MANIFEST: Final = "manifest"
COMMAND_LINE: Final = "command line"
CONSENT: Final = "consent"
TRUSTED_FOLDER: Final = "trusted folder"

_FIELDS: Final = (
    *("dialect", "on_failure", "timeout", "quiet", "mcp_bridge", "retries", "token", "ca"),
    "config_file",
)
_OF_POLICY: Final = ("fails", "ids", "hold", "on_violation", "enforce")


def layered(below: Spec, spec: Spec, set_by: str) -> Spec:
    """`spec` as a layer above `below`; its setter is `set_by`."""
    return msgspec.structs.replace(spec, below=below, set_by=set_by)


def bare(spec: Spec) -> Spec:
    """The component without the names of who set its values, for comparisons."""
    return msgspec.structs.replace(spec, below=None, set_by="", written="")


def named_by(spec: Spec) -> str:
    """Who named a component: a file and its line, or the command line."""
    return spec.written or COMMAND_LINE


def right(spec: Spec, name: str) -> str:
    """Who has given a component a right; of a set, the last who has given it a part of the set."""
    wanted = {*words.flat([name])}
    # `only` is the whole list: its author has given each right in it.
    return _setter(spec, lambda layer: (layer.chosen, wanted & {*words.flat(layer.policy.rights)}))


def giver(spec: Spec, name: str) -> str:
    """As `right`, with the line of a manifest: for a refusal, since it reads that file again."""
    who = right(spec, name)
    if not spec.manifest_path or who != visible_path(spec.manifest_path):
        return who
    from conductor.spec.manifest import reading

    return reading.place(spec.manifest_path, "rights", name)


def denials(spec: Spec) -> dict[str, str]:
    """The words that are denied a component, each with who denies it."""
    return {name: _setter(spec, _denies(name)) for name in spec.denied}


def limit(spec: Spec, name: str) -> str:
    """Who has set a limit of a component."""
    return _setter(spec, lambda layer: layer.limits.get(name))


def variable(spec: Spec, name: str) -> str:
    """Who has set a variable of a program."""
    return _setter(spec, _member("variables", name))


def of(spec: Spec) -> dict[str, str]:
    """Who set each value of a component, by `rights.WORD`, `limits.NAME`, `config.KEY`, `env.NAME`,
    or the name of an option. A value that nobody set is not there."""
    held = words.flat(spec.policy.rights) if spec.policy.enforced else spec.policy.rights
    found = {f"rights.{name}": right(spec, name) for name in held}
    found |= {f"deny.{name}": by for name, by in denials(spec).items()}
    found |= {f"{LIMITS}{name}": limit(spec, name) for name in spec.limits}
    found |= {f"config.{key}": _setter(spec, _member("config", key)) for key in spec.config}
    found |= {f"env.{name}": variable(spec, name) for name in spec.variables}
    lowest = spec
    while lowest.below is not None:
        lowest = lowest.below
    for key in _FIELDS:
        if getattr(spec, key) != getattr(lowest, key):
            found[key] = _setter(spec, _field(key))
    for key in _OF_POLICY:
        if getattr(spec.policy, key) != getattr(lowest.policy, key):
            found[key] = _setter(spec, _of_words(key))
    return found


def given(spec: Spec) -> dict[str, str]:
    """The places of the values that a component is started with, except for the command line: of
    each setting and variable, and of each limit. Under an empty key stands the file of its
    settings, or the place of a component that has no such value."""
    found = {key: _setter(spec, _member("config", key)) for key in spec.config}
    found |= {name: variable(spec, name) for name in spec.variables}
    if spec.config_file is not None:
        found[""] = spec.config_file
    found = found or {"": spec.written}
    found |= {f"{LIMITS}{name}": limit(spec, name) for name in spec.limits}
    places = {key: _place(who) for key, who in found.items()}
    return {key: place for key, place in places.items() if place}


def has_default(key: str) -> bool:
    """Whether an option that nobody has set has a default; `key` as in `of`."""
    return key.startswith(LIMITS) or key in (*_FIELDS, *_OF_POLICY)


def told(found: Mapping[str, str]) -> Iterator[str]:
    """The values of each setter, for people: `command line: rights.clock, timeout`."""
    for by in dict.fromkeys(found.values()):
        named = ", ".join(key for key, who in found.items() if who == by)
        yield one_line(f"{by}: {named}", 1000)


def blamed(error: UsageError, who: str | None) -> UsageError:
    """The error with who set its value: a file and its line, or a variable. For the command line
    nothing is added: its user knows."""
    return UsageError(f"{error.text}{by(who)}", error.hint)


def by(who: str | None) -> str:
    """Who set a value, to stand behind words about the value: ` (FILE, line N)`. Empty for the
    command line, whose user knows; or if nobody set the value."""
    place = _place(who)
    return f" ({place})" if place else ""


def _place(who: str | None) -> str:
    return "" if not who or who == DEFAULT or who.startswith(COMMAND_LINE) else who


def _setter(spec: Spec, fact: Callable[[Spec], Any]) -> str:
    """Who has given a component its present value of a fact."""
    now = fact(spec)
    while spec.below is not None and fact(spec.below) == now:
        spec = spec.below
    return spec.set_by or DEFAULT


def _denies(name: str) -> Callable[[Spec], Any]:
    return lambda layer: name in layer.denied


def _member(field: str, key: str) -> Callable[[Spec], Any]:
    return lambda layer: getattr(layer, field).get(key)


def _field(field: str) -> Callable[[Spec], Any]:
    return lambda layer: getattr(layer, field)


def _of_words(field: str) -> Callable[[Spec], Any]:
    return lambda layer: getattr(layer.policy, field)
