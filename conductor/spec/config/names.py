"""Names of the configuration: the meaning of a word of a command line, or of a chain.

A chain's name stands for its components, in place; a component's name for that component. Both
hide a bundled component or a program on PATH with the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from conductor.errors import UsageError, did_you_mean
from conductor.spec import syntax
from conductor.spec.catalog import Note, bundled_manifest
from conductor.spec.config.model import Config, NamedChain, Written
from conductor.spec.programs import which

MOST: Final = 1_000
"""Components of a chain, and names of chains in it: chains in chains may multiply."""

DEEPEST: Final = 50
"""Names within each other."""


def flat(
    components: Sequence[str | Written], config: Config, note: Note | None = None
) -> list[str | Written]:
    """The components, with the components of a chain in place of its name. Raises `UsageError`."""
    return list(_flat(components, config, note, (), []))


def named(components: Sequence[str | Written], config: Config) -> list[NamedChain]:
    """The chains that these components name, directly or through others: an outer one before those
    within it, each once. Raises `UsageError`."""
    chains: dict[str, NamedChain] = {}

    def visit(inner: Sequence[str | Written], inside: tuple[str, ...]) -> None:
        for component in inner:
            if not _is_meant(component, config):
                continue
            name = chain_of(component, config)
            if name is not None:
                refuse_circle(name, inside, config.chains[name].origin, "chain")
                seen = name in chains
                chains.setdefault(name, config.chains[name])
                if not seen:
                    visit(config.chains[name].components, (*inside, name))

    visit(components, ())
    return list(chains.values())


def _flat(
    components: Sequence[str | Written],
    config: Config,
    note: Note | None,
    inside: tuple[str, ...],
    met: list[str | None],
) -> Iterator[str | Written]:
    for component in components:
        if not _is_meant(component, config):
            continue
        name = chain_of(component, config)
        is_first = name not in met
        met.append(name)
        if len(met) > MOST:  # chains count like their components: empty chains multiply too
            raise UsageError(
                f"a chain of more than {MOST:,} components", "chains in chains multiply"
            )
        if name is None:
            yield component
        else:
            chain = config.chains[name]
            refuse_circle(name, inside, chain.origin, "chain")
            if note is not None and is_first:
                note_hidden("chain", name, chain.origin, note)
            yield from _flat(chain.components, config, note, (*inside, name), met)


def _is_meant(component: str | Written, config: Config) -> bool:
    """Whether an entry of a chain is for the project of this run."""
    if isinstance(component, str) or component.when is None or config.fits is None:
        return True
    return config.fits(component)


def chain_of(component: str | Written, config: Config) -> str | None:
    """The name of the chain that a component stands for; None if it stands for itself.

    Raises `UsageError` for a name that no chain has, that a component has as well, or with options
    behind it.
    """
    text = component if isinstance(component, str) else component.what
    if not isinstance(text, str) or text.lstrip().startswith("{"):
        return None
    try:
        return _chain(text.strip(), config)
    except UsageError as error:
        origin = "" if isinstance(component, str) else component.origin
        raise UsageError(f"{origin}: {error.text}", error.hint) if origin else error from None


def _chain(text: str, config: Config) -> str | None:
    word, options = syntax.split(text)
    bare, comma, _ = word.partition(",")
    name = bare.removeprefix("@")
    if bare.startswith("@") and name not in config.chains:
        raise no_chain(name, config, prefix="@")
    if name not in config.chains:
        return None
    if bare == name and name in config.components:
        raise UsageError(
            f"`{name}` is both a chain and a component of the configuration",
            f"`@{name}` means the chain; give one of the two another name",
        )
    if options or comma:
        raise UsageError(
            f"`{text}`: `{name}` is a chain, and options belong to one component",
            f"write them behind a component in `[chains.{name}]`",
        )
    return name


def no_chain(name: str, config: Config, prefix: str = "") -> UsageError:
    """The error for a name that no chain has; `prefix` stands before it where it is written."""
    known = ", ".join(config.chains) or "none"
    hint = did_you_mean(name, config.chains, f"chains are: {known}", prefix=prefix)
    return UsageError(f"there is no chain `{name}`", hint)


def refuse_circle(name: str, inside: tuple[str, ...], origin: str, kind: str = "component") -> None:
    """Raises `UsageError` for a name that is among those it stands within, or too deep in them."""
    if name in inside:
        circle = " → ".join([*inside[inside.index(name) :], name])
        where = f"{origin}: " if origin and kind == "chain" else ""
        raise UsageError(
            f"{where}the {kind} `{name}` names itself: {circle}",
            f"take one of these names out of the {kind} before it",
        )
    if len(inside) >= DEEPEST:
        raise UsageError(
            f"{kind}s nest more than {DEEPEST} deep: {', '.join(inside[:3])}, …",
            "name its entries directly",
        )


def named_like(name: str, written: Written) -> Written:
    """A component of the configuration as a table with its name, unless the table has a name."""
    table = written.what
    if not isinstance(table, dict):
        return written
    kinds = ("command", "wasm", "component")
    if not any(table.get(kind) is not None for kind in kinds):
        table = {**table, "component": table.get("name", name), "name": name}
    return msgspec.structs.replace(written, what={"name": name, **table})


def note_hidden(kind: str, name: str, origin: str, note: Note) -> None:
    """Reports the other meaning that a name of the configuration hides."""
    from conductor.spec import agents

    where = f" ({origin})" if origin else ""
    if bundled_manifest(name) is not None:
        note(f"the {kind} `{name}` of the configuration{where} hides the bundled component")
    elif agents.named(name) is not None:
        note(f"the {kind} `{name}` of the configuration{where} hides the known agent")
    elif program := which(name):
        note(
            f"the {kind} `{name}` of the configuration{where} hides the program {program}; "
            f"`path:{name}` means the program"
        )
